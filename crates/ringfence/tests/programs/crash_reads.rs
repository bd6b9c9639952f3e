//! States that recovery cannot tell apart are one: what it reads is followed, however it reads.

use std::fs;

use super::crash::built_of;
use crate::support::{Folder, Output, ringfence_in};

const SOURCE: &str = include_str!("crash_reads.c");

fn examine(folder: &Folder, how: &str, twin: &str) -> Output {
    let recover = format!("./reads {how} {twin} list one");
    let append = ["--", "./reads", how, twin, "append", "one"];
    let mut words = vec!["crash", "--file", "one", "--medium", "pmem", "--rules", "intel"];
    words.extend(["--states", "300", "--recover", &recover, "--quiet", "--json"]);
    words.extend(append);
    ringfence_in(folder.path(), &words)
}

fn built() -> Option<Folder> {
    let folder = built_of("reads", SOURCE)?;
    // Room to map twice as much.
    fs::write(folder.path().join("one"), vec![0; 131072]).unwrap();
    Some(folder)
}

#[test]
fn words_that_recovery_does_not_read_multiply_no_states() {
    let Some(folder) = built() else { return };
    for how in [
        "load",
        "bytes",
        "sum",
        "compared",
        "wide",
        "repeated",
        "locked",
        "private_map",
        "by_pread",
        "by_read",
        "protected_again",
        "child",
    ] {
        let good = examine(&folder, how, "good");
        assert_eq!(good.code(), Some(0), "{how}: {}{}", good.stdout, good.stderr);
        let answer = &good.json()["crash"];
        assert_eq!(answer["points"], answer["complete"], "{how}");
        assert!(answer["states"].as_u64().unwrap() < 20, "{how}: {answer}");
        let bad = examine(&folder, how, "bad");
        assert_eq!(bad.code(), Some(3), "{how}: {}{}", bad.stdout, bad.stderr);
    }
}

#[test]
fn what_cannot_be_followed_word_by_word_counts_as_read() {
    let Some(folder) = built() else { return };
    for how in ["to_pipe", "vectors", "moved", "thread"] {
        let good = examine(&folder, how, "good");
        assert_eq!(good.code(), Some(4), "{how}: {}{}", good.stdout, good.stderr);
        let bad = examine(&folder, how, "bad");
        assert_eq!(bad.code(), Some(3), "{how}: {}{}", bad.stdout, bad.stderr);
    }
}
