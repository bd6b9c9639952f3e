//! Many small programs under `crash`: each planted bug is found, and no correct program is accused.

use std::fs;
use std::process::Command;

use super::crash::built_of;
use crate::support::{Folder, Output, ringfence_in, skip};

const PLANTED: &str = include_str!("crash_planted.c");
const CORRECT: &str = include_str!("crash_correct.c");

// A program of a source, as its `names` describes it.
struct Case {
    name: String,
    medium: String,
    // Exit codes of `crash` for the correct twin.
    codes: Vec<i32>,
    options: Vec<String>,
    // Another recovery, or what follows the usual one.
    recovery: String,
}

fn cases(folder: &Folder, program: &str) -> Vec<Case> {
    let names = Command::new(folder.path().join(program)).arg("names").output().unwrap();
    let names = String::from_utf8(names.stdout).unwrap();
    let case = |line: &str| {
        let parts: Vec<&str> = line.splitn(5, '|').collect();
        Case {
            name: parts[0].into(),
            medium: parts[1].into(),
            codes: parts[2].split(',').map(|code| code.parse().unwrap()).collect(),
            options: parts[3].split_whitespace().map(str::to_owned).collect(),
            recovery: parts[4].into(),
        }
    };
    names.lines().map(case).collect()
}

impl Case {
    fn run(&self, folder: &Folder, program: &str, twin: &str) -> Output {
        let Self { name, medium, .. } = self;
        let usual = format!("./{program} {name} {twin} list one two");
        let recover = match self.recovery.strip_prefix('@') {
            Some(other) => other.replace("TWIN", twin),
            None => format!("{usual} {}", self.recovery.replace('/', "|")),
        };
        let command = format!("./{program}");
        let mut words = vec!["crash", "--file", "one", "--file", "two", "--medium", medium];
        if medium == "pmem" {
            words.extend(["--rules", "amd"]);
        }
        words.extend(self.options.iter().map(String::as_str));
        words.extend(["--recover", &recover, "--quiet", "--json", "--", &command, name, twin]);
        words.extend(["append", "3", "one", "two"]);
        ringfence_in(folder.path(), &words)
    }
}

fn are_found(medium: &str) {
    let Some(folder) = built_of("planted", PLANTED) else { return };
    // The last takes half a minute: a recovery without an end is tested elsewhere.
    let meant = |case: &Case| case.medium == medium && case.name != "endless";
    for case in cases(&folder, "planted").iter().filter(|case| meant(case)) {
        let good = case.run(&folder, "planted", "good");
        assert_eq!(good.code(), Some(0), "{}: {}{}", case.name, good.stdout, good.stderr);
        let bad = case.run(&folder, "planted", "bad");
        assert_eq!(bad.code(), Some(3), "{}: {}{}", case.name, bad.stdout, bad.stderr);
        let findings = &bad.json_of_any()["crash"]["findings"];
        for found in findings.as_array().unwrap() {
            let is_kill = found["lost"].as_array().unwrap().is_empty();
            assert!(is_kill || found["remedy"]["left"] == 0, "{}: {found}", case.name);
        }
    }
}

#[test]
fn planted_bugs_of_persistent_memory_are_found() {
    are_found("pmem");
}

#[test]
fn planted_bugs_of_ordinary_files_are_found() {
    are_found("pages");
}

#[test]
fn correct_programs_are_not_accused() {
    let Some(folder) = built_of("correct", CORRECT) else { return };
    for case in cases(&folder, "correct") {
        let said = case.run(&folder, "correct", "good");
        let code = said.code().unwrap_or(-1);
        assert!(case.codes.contains(&code), "{}: {}{}", case.name, said.stdout, said.stderr);
    }
}

const PAGE: &str = include_str!("../../../../docs/guide/crash.md");

// The blocks of a page, in their order: their kinds, and what is in them.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("```") {
        let (kind, after) = after.split_once('\n').unwrap();
        let (text, after) = after.split_once("```").unwrap();
        blocks.push((kind, text));
        rest = after;
    }
    blocks
}

#[test]
fn the_examples_of_the_page_are_as_it_shows_them() {
    let blocks = blocks(PAGE);
    let folder = Folder::new();
    let mut examples = 0;
    for three in blocks.windows(3) {
        let [("c", source), ("sh", commands), ("", shown)] = three else { continue };
        let name = source.trim_start_matches("// ").split(':').next().unwrap();
        fs::write(folder.path().join(name), source).unwrap();
        let binary = env!("CARGO_BIN_EXE_ringfence");
        let commands = commands.replace("ringfence crash", &format!("{binary} crash --quiet"));
        let mut shell = Command::new("sh");
        shell.args(["-ec", &commands]).current_dir(folder.path());
        let said = shell.env("XDG_STATE_HOME", folder.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&said.stderr);
        if stderr.contains("libpmemobj.h: No such file") || stderr.contains("gcc: not found") {
            skip("there is no gcc, or no libpmemobj");
            continue;
        }
        let stdout = String::from_utf8_lossy(&said.stdout);
        assert_eq!(said.status.code(), Some(3), "{name}: {stdout}{stderr}");
        for line in shown.lines().filter(|line| line.starts_with("   lost")) {
            assert!(stdout.contains(line), "{name} does not say {line}: {stdout}");
        }
        examples += 1;
    }
    assert!(examples > 0 || Command::new("gcc").arg("--version").output().is_err());
}
