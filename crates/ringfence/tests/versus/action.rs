//! The inner part of action.yml, as a runner calls it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::read;
use super::support::{Folder, is_installed, skip};

fn git(folder: &Folder, args: &[&str]) {
    let who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"];
    let ran = Command::new("git").args(who).args(args).current_dir(folder.path()).output().unwrap();
    assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn two_commits_are_built_and_compared() {
    if !is_installed("git") || !is_installed("bash") {
        return skip("git or bash is not installed");
    }
    let folder = Folder::new();
    git(&folder, &["init", "-q"]);
    for (time, name) in [("0.02", "fast"), ("0.06", "slow")] {
        fs::write(folder.path().join("source"), format!("#!/bin/sh\nsleep {time}\n")).unwrap();
        git(&folder, &["add", "source"]);
        git(&folder, &["commit", "-q", "-m", name]);
    }
    fs::create_dir(folder.path().join("temp")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/versus-action");
    let action = |base: &str| {
        let file = |name: &str| folder.path().join(name);
        Command::new("bash")
            .arg(&script)
            .current_dir(folder.path())
            .env("PROGRAM", env!("CARGO_BIN_EXE_ringfence"))
            .env("BUILD", "cp source built && chmod +x built")
            .env("COMMAND", "./built")
            .env("BASE", base)
            .env("BUDGET", "50%")
            .env("TIME", "20s")
            .env("FLAGS", "--prepare 'echo \"$HOME\" > /dev/null; true' --quiet")
            .env("UNDECIDED", "fail")
            .env("RUNNER_TEMP", file("temp"))
            .env("GITHUB_OUTPUT", file("output"))
            .env("GITHUB_STEP_SUMMARY", file("summary"))
            .output()
            .unwrap()
    };
    // A noisy minute may leave no verdict, but none that is wrong.
    let slower = (0..5).map(|_| action("HEAD^1")).find(|ran| ran.status.code() != Some(4));
    let slower = slower.expect("undecided five times");
    let said = String::from_utf8_lossy(&slower.stdout);
    assert_eq!(slower.status.code(), Some(3), "{said}{}", String::from_utf8_lossy(&slower.stderr));
    assert!(said.contains("::error::the head is slower than the base by more than 50%"), "{said}");
    assert!(read(&folder, "output").contains("verdict=missed"));
    let summary = read(&folder, "summary");
    assert!(
        summary.contains("over the budget of 50 %") && summary.contains("against a (head "),
        "{summary}"
    );
    let results = folder.path().join("temp/ringfence-versus/results");
    for file in ["versus.json", "runs.parquet", "summary.md", "hyperfine.json"] {
        assert!(results.join(file).is_file(), "{file}");
    }
    // A commit that is not there.
    let absent = action("0123456789012345678901234567890123456789");
    assert_eq!(absent.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("fetch-depth: 0"));
}
