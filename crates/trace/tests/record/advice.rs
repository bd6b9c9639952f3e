//! What the census of a recording knows of the program: its files, and what they are stored on.

use std::path::Path;

use ringfence_trace::census::dynamic::{self, Run};
use ringfence_trace::events::Medium;
use ringfence_trace::record::{Options, record};
use ringfence_trace::recording::{About, Reader, Writer};

use crate::programs::build;

fn census(program: &Path, folder: &Path) -> Run {
    let file = folder.join("file");
    let command = vec![program.as_os_str().to_owned(), file.as_os_str().to_owned()];
    let trace = folder.join("trace");
    let mut writer = Writer::create(&trace, About::default()).unwrap();
    let outcome =
        record(Options { command, files: vec![file], copies: None, loads: false }, &mut writer).unwrap();
    writer.finish(outcome.ended).unwrap();
    dynamic::of(&Reader::open(&trace).unwrap()).unwrap()
}

#[test]
fn a_fence_that_completes_stores_elsewhere_is_not_to_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "elsewhere.c", "gcc", &["-O1"], &[]) else { return };
    let run = census(&program, folder.path());
    let texts: Vec<&str> = run.findings.iter().map(|finding| &*finding.text).collect();
    let [text] = texts[..] else { panic!("{texts:?}") };
    assert!(text.contains("leave it out only if it completes nothing else"), "{text}");
}

#[test]
fn the_medium_of_each_file_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "elsewhere.c", "gcc", &["-O1"], &[]) else { return };
    let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let medium = |folder: &Path| census(&program, folder).files[0].medium;
    assert_eq!(medium(in_memory.path()), Some(Medium::Memory));
    // Wherever temporary files lie, it is not DAX.
    assert_ne!(medium(folder.path()), Some(Medium::Dax));
}
