//! `census --check`: a recorded program run again, with other instructions and on copies of its
//! files.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{self, Folder, Output, ringfence_in, skip};

const OBJECTS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../lib/trace/tests/record/programs/objects.c");

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
    command.args(words).current_dir(folder).env("PMEM_IS_PMEM_FORCE", "1");
    let said = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Output { status: said.status, stdout: text(said.stdout), stderr: text(said.stderr) }
}

// A program with a pool of libpmemobj, recorded; none where it cannot be built.
fn recorded(folder: &Folder) -> bool {
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-w", "-o", "objects", OBJECTS, "-lpmemobj", "-lpmem"])
        .current_dir(folder.path());
    if !gcc.status().is_ok_and(|status| status.success()) {
        skip("there is no gcc, or no libpmemobj to build with");
        return false;
    }
    let said = run(
        folder.path(),
        &["trace", "--file", "pool", "--out", "t", "--", "./objects", "pool", "50"],
    );
    assert_eq!(said.code(), Some(0), "{}", said.stderr);
    true
}

#[test]
fn a_program_is_run_with_the_instructions_that_were_predicted() {
    let folder = Folder::new();
    if !recorded(&folder) {
        return;
    }
    let there = run(folder.path(), &["census", "t", "--check"]);
    assert_eq!(there.code(), Some(2), "{}", there.stderr);
    assert!(there.stderr.contains("pool did not exist when it was recorded"), "{}", there.stderr);

    fs::remove_file(folder.path().join("pool")).unwrap();
    let words = ["census", "t", "--check", "--time", "2s", "--json", "--html", "page.html"];
    let found = run(folder.path(), &words);
    assert_eq!(found.code(), Some(0), "{}", found.stderr);
    let checked = &found.json()["checked"];
    assert!(checked["runs"].as_u64().unwrap() >= 5, "{checked}");
    // A noisy minute can leave no figure, and then it says why.
    let part = |figure: &serde_json::Value, name: &str| {
        let part = figure[name].as_f64();
        assert!(
            part.is_some() || figure["not_run"].is_string(),
            "neither a figure nor a reason: {figure}"
        );
        part
    };
    // By their intervals: the one is timed in the program, the other where it is played back.
    let (whole, durability) = (part(&checked["run"], "high"), part(&checked["durability"], "low"));
    assert!(
        whole.zip(durability).is_none_or(|(whole, durability)| whole > durability),
        "{checked}"
    );
    let changes = checked["changes"].as_array().unwrap();
    for change in changes {
        part(&change["predicted"], "ns");
        // What PMDK can be told is measured; what it cannot says so.
        let name = change["change"].as_str().unwrap();
        let is_told = change["environment"].as_str().unwrap().starts_with("PMEM_NO_");
        assert!(part(&change["measured"], "ns").is_none() || is_told, "{name}: {change}");
        let refused = change["measured"]["not_run"].as_str().unwrap_or_default();
        assert!(!is_told || !refused.contains("ignores"), "{name}: {change}");
    }
    let names: Vec<&str> =
        changes.iter().map(|change| change["change"].as_str().unwrap()).collect();
    assert!(names.contains(&"no flush") && names.contains(&"nothing needless"), "{names:?}");
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("What other instructions would change"));

    // Nothing is left of it: neither copies nor what the program made.
    let left = |path: &str| folder.path().join(path).exists();
    assert!(!left("pool") && !left("t/check"));
    assert_eq!(
        run(folder.path(), &["census", "t", "--json"]).json()["checked"],
        serde_json::Value::Null
    );

    // Without the variable it flushes by msync.
    let otherwise = ringfence_in(folder.path(), &["census", "t", "--check", "--time", "1s"]);
    assert_eq!(otherwise.code(), Some(2), "{}", otherwise.stderr);
    assert!(otherwise.stderr.contains("PMEM_IS_PMEM_FORCE=1"), "{}", otherwise.stderr);
    assert!(!left("pool") && !left("t/check"));
}

#[test]
fn an_interrupt_puts_everything_away() {
    let folder = Folder::new();
    if !recorded(&folder) {
        return;
    }
    fs::remove_file(folder.path().join("pool")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
    command.args(["census", "t", "--check", "--time", "60s"]).current_dir(folder.path());
    // As from a keyboard: to the program and whatever it runs.
    command
        .env("PMEM_IS_PMEM_FORCE", "1")
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let began = std::time::Instant::now();
    while !folder.path().join("t/check/copies").exists() {
        assert!(began.elapsed() < support::LIMIT, "the program is never run");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Command::new("kill").args(["-INT", "--", &format!("-{}", child.id())]).status().unwrap();
    let said = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(1), "{text}");
    assert!(text.contains("interrupted"), "{text}");
    assert!(!folder.path().join("pool").exists() && !folder.path().join("t/check").exists());
}

#[test]
fn a_file_that_was_there_is_copied_for_each_run() {
    let folder = Folder::new();
    let source = r#"
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <immintrin.h>
        int main(int argc, char **argv) {
            char *p = mmap(0, 4096, 3, MAP_SHARED, open(argv[1], O_RDWR), 0);
            if (p == MAP_FAILED || p[0] != 'a') return 3;
            for (int i = 0; i < 4096; i += 64) { p[i]++; _mm_clflush(p + i); _mm_sfence(); }
            return 0;
        }"#;
    fs::write(folder.path().join("count.c"), source).unwrap();
    fs::write(folder.path().join("file"), [b'a'; 4096]).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-w", "-o", "count", "count.c"]).current_dir(folder.path());
    if !gcc.status().is_ok_and(|status| status.success()) {
        return skip("there is no gcc");
    }
    let said =
        run(folder.path(), &["trace", "--file", "file", "--out", "t", "--", "./count", "file"]);
    assert_eq!(said.code(), Some(0), "{}", said.stderr);
    let found = run(folder.path(), &["census", "t", "--check", "--time", "1s", "--json"]);
    // It counts once in each copy: the second run in one would end with 3.
    assert_eq!(found.code(), Some(0), "{}", found.stderr);
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), [b'a'; 4096]);
    let found = found.json();
    let changes = found["checked"]["changes"].as_array().unwrap();
    let by = |name: &str| changes.iter().find(|change| change["change"] == name).unwrap();
    // This program heeds no variable, which is seen and not believed.
    let why = by("no flush")["measured"]["not_run"].as_str().unwrap();
    assert!(why.contains("ignores PMEM_NO_FLUSH=1: 64 flushes continue"), "{why}");
    let predicted = &by("no flush")["predicted"];
    assert!(predicted["ns"].is_f64() || predicted["not_run"].is_string(), "{predicted}");

    fs::remove_file(folder.path().join("file")).unwrap();
    for (words, why) in [
        (&["census", "t", "--check"][..], "file no longer exists"),
        (&["census", "t", "--check", "--time", "soon"], "--time"),
        (&["census", "t", "--time", "5s"], "--check"),
        (&["census", "count", "--check"], "--check is for a trace: name one"),
        (&["census", "count", "--html", "x"], "--html is for a trace: name one"),
        (&["census", "t", "--html", "count"], "not a report of Ringfence"),
    ] {
        let refused = run(folder.path(), words);
        assert_eq!((refused.code(), refused.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
    }
}
