//! Programs behave as they do unrecorded, and replaying what was recorded gives the files that they
//! leave, byte for byte: C, C++ and Rust, with and without optimization, linked statically or not,
//! with threads, children, signals and the kernel as another writer. What they print is recorded
//! where that is asked for.

mod advice;
mod output;
#[path = "../support/programs.rs"]
mod programs;
#[path = "../support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use programs::build;
use ringfence_trace::events::{Action, Ended, Place};
use ringfence_trace::record::{Options, record};
use ringfence_trace::recording::{About, Reader, Writer};
use ringfence_trace::replay;
use support::{has, skip};

const NATIVE: [&str; 2] = ["-O3", "-march=native"];

// Runs a program as it is and recorded, and compares all that it leaves.
fn compare(program: &Path, arguments: &[&str], loads: bool) -> Vec<Action> {
    let folder = tempfile::tempdir().unwrap();
    let (native, recorded) = (folder.path().join("native"), folder.path().join("recorded"));
    let named = |file: &Path| {
        let mut words = vec![program.as_os_str().to_owned(), file.as_os_str().to_owned()];
        words.extend(arguments.iter().map(Into::into));
        words
    };
    let output = folder.path().join("output");
    let words = named(&native);
    let expected =
        Command::new(&words[0]).args(&words[1..]).env("PMEM_IS_PMEM_FORCE", "1").output().unwrap();
    // Its output goes where a shell puts it.
    let mut command: Vec<_> =
        ["sh", "-c", "out=$1; shift; exec env PMEM_IS_PMEM_FORCE=1 \"$@\" > \"$out\"", "sh"]
            .map(Into::into)
            .into();
    command.push(output.clone().into_os_string());
    command.extend(named(&recorded));
    let trace = folder.path().join("trace");
    let mut writer = Writer::create(&trace, About::default()).unwrap();
    let options = Options { command, files: vec![recorded.clone()], loads, ..Options::default() };
    let outcome = record(options, &mut writer).unwrap();
    writer.finish(outcome.ended.clone()).unwrap();
    let what = format!("{} {arguments:?}, loads: {loads}", program.display());
    match expected.status.code() {
        Some(code) => assert_eq!(outcome.ended, Ended::Exited(code), "{what}"),
        None => assert!(matches!(outcome.ended, Ended::Signal(11)), "{what}: {outcome:?}"),
    }
    assert_eq!(
        String::from_utf8_lossy(&fs::read(&output).unwrap()),
        String::from_utf8_lossy(&expected.stdout),
        "{what}"
    );
    let (native, recorded) = (fs::read(&native).unwrap(), fs::read(&recorded).unwrap());
    if !what.contains("objects") {
        assert!(native == recorded, "{what}: the files differ");
    }
    let reader = Reader::open(&trace).unwrap();
    let replayed = folder.path().join("replayed");
    let into = File::options().read(true).write(true).create_new(true).open(&replayed).unwrap();
    replay(&reader, 0, &into).unwrap();
    let replayed = fs::read(&replayed).unwrap();
    let differs = replayed.iter().zip(&recorded).position(|(one, other)| one != other);
    assert!(
        replayed == recorded,
        "{what}: the replay differs from {differs:?} on, of {} and {} bytes",
        replayed.len(),
        recorded.len()
    );
    reader.events().map(|event| event.unwrap().action).collect()
}

fn count(actions: &[Action], is_it: impl Fn(&Action) -> bool) -> usize {
    actions.iter().filter(|action| is_it(action)).count()
}

// Builds a source in several ways, and compares each program's runs.
fn compare_all(source: &str, compiler: &str, ways: &[&[&str]]) {
    let folder = tempfile::tempdir().unwrap();
    for (number, flags) in ways.iter().enumerate() {
        let Some(program) = build(folder.path(), source, compiler, flags, &[]) else { continue };
        for loads in [false, true] {
            // Loads are recorded by the same way, however the program was built.
            if loads && number % 2 == 1 {
                continue;
            }
            let actions = compare(&program, &[], loads);
            assert!(count(&actions, |one| matches!(one, Action::Store { .. })) > 0);
            assert_eq!(count(&actions, |one| matches!(one, Action::Load { .. })) > 0, loads);
        }
    }
}

#[test]
fn every_kind_of_instruction() {
    compare_all("kinds.c", "gcc", &[&["-O0"], &["-O1"], &["-O2", "-static"], &NATIVE]);
}

#[test]
fn the_c_library_s_loops() {
    compare_all("strings.c", "gcc", &[&["-O0"], &["-O2"], &["-O2", "-static"], &NATIVE]);
}

#[test]
fn threads_and_children() {
    let with = |flags: &[&'static str]| [flags, &["-pthread"]].concat();
    let ways = [with(&["-O0"]), with(&["-O2"]), with(&["-O2", "-static"]), with(&NATIVE)];
    compare_all("threads.c", "gcc", &ways.each_ref().map(Vec::as_slice));
}

#[test]
fn handlers_and_timers() {
    let with = |flags: &[&'static str]| [flags, &["-pthread"]].concat();
    let ways = [with(&["-O1"]), with(&NATIVE), with(&["-O2", "-static"])];
    compare_all("signals.c", "gcc", &ways.each_ref().map(Vec::as_slice));
}

#[test]
fn handlers_on_a_stack_of_their_own() {
    let ways: [&[&str]; 2] = [&["-O1", "-pthread"], &["-O2", "-static", "-pthread"]];
    compare_all("stack.c", "gcc", &ways);
}

#[test]
fn blocked_signals_that_a_suspended_program_waits_for() {
    compare_all("suspends.c", "gcc", &[&["-O1"], &["-O2", "-static"], &NATIVE]);
}

#[test]
fn a_command_with_a_time_limit() {
    if !has("timeout") {
        return skip("timeout is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let command = ["timeout", "1", "sleep", "100"].map(Into::into).into();
    let mut writer = Writer::create(&folder.path().join("trace"), About::default()).unwrap();
    let options =
        Options { command, files: vec![folder.path().join("file")], ..Options::default() };
    assert_eq!(record(options, &mut writer).unwrap().ended, Ended::Exited(124));
}

#[test]
fn the_kernel_as_another_writer() {
    compare_all("kernel.c", "gcc", &[&["-O0"], &["-O2"], &["-O2", "-static"], &NATIVE]);
}

#[test]
fn calls_that_make_a_file_durable() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "syncs.c", "gcc", &["-O1"], &[]) else { return };
    let durable = ["msync", "invalidate", "fsync", "fdatasync", "syncfs", "sync"];
    let not = ["asynchronous", "no flag", "another file", "no file", "range"];
    let calls = durable.iter().map(|call| (call, 1)).chain(not.iter().map(|call| (call, 0)));
    for (call, expected) in calls {
        let actions = compare(&program, &[call], false);
        let is_sync = |one: &Action| matches!(one, Action::Msync { .. });
        assert_eq!(count(&actions, is_sync), expected, "{call}");
        // It comes behind the stores, and is about all of them.
        for sync in actions.iter().filter(|one| is_sync(one)) {
            assert!(
                sync.settles().is_some_and(|(_, bytes)| bytes.start == 0 && bytes.end >= 8192),
                "{call}"
            );
        }
        // Of one file and one thread, nothing comes between the beginning and the end.
        for (before, sync) in (0..).zip(&actions).filter(|(_, one)| is_sync(one)) {
            assert_eq!(sync.began(), Some(before), "{call}");
        }
        let ranges: Vec<&Action> =
            actions.iter().filter(|one| matches!(one, Action::SyncRange { .. })).collect();
        let at = Place { file: 0, offset: 0 };
        let range = Action::SyncRange { at, size: 8192 };
        let expected = if *call == "range" { vec![&range] } else { vec![] };
        assert_eq!(ranges, expected, "{call}");
    }
}

#[test]
fn every_descriptor_of_the_file() {
    compare_all("descriptors.c", "gcc", &[&["-O1"], &["-O2", "-static"], &NATIVE]);
}

#[test]
fn signals_while_the_program_waits() {
    compare_all("waits.c", "gcc", &[&["-O1"], &["-O2", "-static"], &NATIVE]);
}

#[test]
fn cpp_with_exceptions() {
    let with = |flags: &[&'static str]| [flags, &["-pthread"]].concat();
    let ways = [with(&["-O0"]), with(&["-O2"]), with(&["-O2", "-static"]), with(&NATIVE)];
    compare_all("classes.cpp", "g++", &ways.each_ref().map(Vec::as_slice));
}

#[test]
fn rust_with_panics() {
    let native = ["-Copt-level=3", "-Ctarget-cpu=native"];
    let fixed = ["-Copt-level=2", "-Ctarget-feature=+crt-static"];
    compare_all("safe.rs", "rustc", &[&["-Copt-level=0"], &["-Copt-level=3"], &fixed, &native]);
}

#[test]
fn a_crash_is_the_programs_own() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(program) = build(folder.path(), "signals.c", "gcc", &["-O2", "-pthread"], &[]) {
        compare(&program, &["crash"], false);
    }
}

#[test]
fn transactional_objects_are_recorded_whole() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O2"];
    let Some(program) = build(folder.path(), "objects.c", "gcc", &flags, &["-lpmemobj", "-lpmem"])
    else {
        return;
    };
    let actions = compare(&program, &["50"], false);
    assert!(count(&actions, |one| matches!(one, Action::Flush { .. })) > 1000);
    assert!(count(&actions, |one| matches!(one, Action::Sfence)) > 100);
}

#[test]
fn every_kind_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), "kinds.c", "gcc", &["-O1", "-fno-builtin"], &[])
    else {
        return;
    };
    let actions = compare(&program, &[], false);
    let mut counts = HashMap::<&str, usize>::new();
    for action in &actions {
        let name = match action {
            Action::Flush { .. } => "flush",
            Action::Sfence => "sfence",
            Action::Mfence => "mfence",
            Action::NonTemporal { .. } => "non-temporal",
            Action::Locked { stores: Some(_) } => "locked store",
            Action::Msync { .. } => "msync",
            Action::SyncRange { .. } => "sync_file_range",
            Action::Map { .. } => "map",
            Action::Unmap { .. } => "unmap",
            _ => continue,
        };
        *counts.entry(name).or_default() += 1;
    }
    let expected = ["flush", "sfence", "mfence", "non-temporal", "msync", "map", "unmap"]
        .map(|name| (name, 1));
    let expected: HashMap<_, _> = expected.into_iter().chain([("locked store", 2)]).collect();
    assert_eq!(counts, expected);
}
