//! `crash` refuses programs that change the names of the files.

use std::fs;

use super::crash::built_of;
use crate::support::{Folder, Output, ringfence_in};

const SOURCE: &str = include_str!("crash_names.c");

fn examine(folder: &Folder, how: &str, asked: &str, file: &str, other: &str) -> Output {
    let recover = format!("./names list {file}");
    let mut words = vec!["crash", "--file", asked, "--medium", "pmem", "--rules", "intel"];
    words.extend(["--recover", &recover, "--quiet", "--json", "--", "./names", how, file, other]);
    ringfence_in(folder.path(), &words)
}

fn is_refused(said: &Output, change: &str, file: &str) {
    assert_eq!(said.code(), Some(2), "{change}: {}{}", said.stdout, said.stderr);
    let begins = format!("the program {change} /");
    assert!(said.stderr.contains(&begins), "{change}: {}", said.stderr);
    assert!(said.stderr.contains(file), "{change}: {}", said.stderr);
    assert!(said.stderr.contains("names become durable is not examined"), "{}", said.stderr);
}

#[test]
fn a_program_that_changes_the_name_of_a_file_is_refused() {
    let Some(folder) = built_of("names", SOURCE) else { return };
    for (how, change) in [
        ("put", "renamed"),
        ("put_at", "renamed"),
        ("link", "linked"),
        ("rename", "renamed"),
        ("remove", "removed"),
        ("remove_at", "removed"),
        ("by_shell", "renamed"),
    ] {
        // One that is made in memory, and for all but a link, one that is there.
        is_refused(&examine(&folder, how, "fresh", "fresh", "new"), change, "/fresh");
        if how != "link" {
            is_refused(&examine(&folder, how, "one", "one", "new"), change, "/one");
        }
    }
    assert!(folder.path().join("one").exists());
    assert!(!folder.path().join("fresh").exists());
}

#[test]
fn names_in_a_folder_of_files_are_names_of_files() {
    let Some(folder) = built_of("names", SOURCE) else { return };
    fs::create_dir(folder.path().join("db")).unwrap();
    fs::write(folder.path().join("db/data"), vec![0; 65536]).unwrap();
    for (how, change, other) in [
        ("put", "renamed", "db/new"),
        ("put", "renamed", "new"),
        ("rename", "renamed", "db/old"),
        ("remove", "removed", ""),
        ("remove_at", "removed", ""),
    ] {
        is_refused(&examine(&folder, how, "db", "db/data", other), change, "/db/data");
    }
    // Absolute links lead to where the program has its copy.
    std::os::unix::fs::symlink(folder.path().join("db"), folder.path().join("linked")).unwrap();
    is_refused(&examine(&folder, "remove", "db", "linked/data", ""), "removed", "/db/data");
}

#[test]
fn names_of_other_files_may_change() {
    let Some(folder) = built_of("names", SOURCE) else { return };
    for file in ["one", "fresh"] {
        let said = examine(&folder, "others", file, file, "other");
        assert_eq!(said.code(), Some(0), "{file}: {}{}", said.stdout, said.stderr);
    }
}
