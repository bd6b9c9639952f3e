//! A checksum over many undecided bytes: `--checksum` bounds the states, and still finds bugs.

use super::crash::built_of;
use crate::support::{Folder, Output, ringfence_in};

const SOURCE: &str = include_str!("crash_checksum.c");

fn examine(folder: &Folder, how: &str, more: &[&str]) -> Output {
    let recover = format!("./checksum {how} list one");
    let mut words = vec!["crash", "--file", "one", "--medium", "pmem", "--rules", "amd"];
    words.extend(["--recover", &recover, "--quiet", "--json"]);
    words.extend(more);
    words.extend(["--", "./checksum", how, "append", "one"]);
    ringfence_in(folder.path(), &words)
}

const SUM: [&str; 2] = ["--checksum", "sum"];

#[test]
fn a_checksum_over_many_words_makes_few_states() {
    let Some(folder) = built_of("checksum", SOURCE) else { return };
    for (how, most) in
        [("good", 200), ("recursive", 200), ("jumps", 200), ("child", 200), ("prints_all", 1000)]
    {
        let said = examine(&folder, how, &SUM);
        assert_eq!(said.code(), Some(4), "{how}: {}{}", said.stdout, said.stderr);
        let answer = &said.json_of_any()["crash"];
        assert_eq!(answer["findings"].as_array().unwrap().len(), 0, "{how}: {answer}");
        assert_eq!(answer["checksum"][0], "sum", "{how}");
        assert_eq!(answer["bounded"], 3, "{how}: {answer}");
        let count = |name: &str| answer[name].as_u64().unwrap();
        assert_eq!(count("complete") + count("bounded"), count("points"), "{how}: {answer}");
        assert!(count("states") < most, "{how}: {answer}");
    }
}

#[test]
fn without_the_option_it_makes_too_many() {
    let Some(folder) = built_of("checksum", SOURCE) else { return };
    let said = examine(&folder, "good", &["--states", "300"]);
    assert_eq!(said.code(), Some(4), "{}{}", said.stdout, said.stderr);
    let answer = &said.json_of_any()["crash"];
    assert_eq!((&answer["cut"], &answer["bounded"]), (&"states".into(), &0.into()), "{answer}");
}

#[test]
fn bugs_with_a_checksum_are_found() {
    let Some(folder) = built_of("checksum", SOURCE) else { return };
    for how in ["unchecked", "uncovered"] {
        let bad = examine(&folder, how, &SUM);
        assert_eq!(bad.code(), Some(3), "{how}: {}{}", bad.stdout, bad.stderr);
        let answer = bad.json_of_any();
        let at = answer["crash"]["findings"][0]["lost"][0]["at"].as_str().unwrap();
        assert!(at.starts_with("append") && at.contains("checksum.c:"), "{how}: {at}");
    }
}

#[test]
fn a_function_that_reads_nothing_of_the_files_is_refused() {
    let Some(folder) = built_of("checksum", SOURCE) else { return };
    let threads = examine(&folder, "thread", &SUM);
    let missing = examine(&folder, "good", &["--checksum", "sum", "--checksum", "not_there"]);
    for (refused, name) in [(threads, "'sum'"), (missing, "'not_there'")] {
        assert_eq!(refused.code(), Some(2), "{}{}", refused.stdout, refused.stderr);
        assert!(refused.stderr.contains("--checksum: "), "{}", refused.stderr);
        assert!(refused.stderr.contains(name), "{}", refused.stderr);
    }
}
