//! What a program prints is recorded in its place among the stores, whichever way it prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_trace::events::{Action, Ended, Event};
use ringfence_trace::record::{Options, Outcome, record};
use ringfence_trace::recording::{About, Reader, Writer};
use tempfile::TempDir;

use crate::programs::build;
use crate::support::{has, skip};

fn recorded(command: &[&str], file: &Path, output: bool) -> (Outcome, Vec<Event>) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), About::default()).unwrap();
    let command = command.iter().map(Into::into).collect();
    let options = Options { command, files: vec![file.into()], output, ..Options::default() };
    let outcome = record(options, &mut writer).unwrap();
    writer.finish(outcome.ended.clone()).unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    (outcome, reader.events().map(Result::unwrap).collect())
}

struct Program {
    folder: TempDir,
    path: PathBuf,
}

impl Program {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = build(folder.path(), "prints.c", "gcc", &["-O1", "-pthread"], &[])?;
        Some(Self { folder, path })
    }

    fn run(&self, way: &str, output: bool) -> (Outcome, Vec<Event>) {
        let file = self.folder.path().join("file");
        let command = [&self.path, &file, Path::new(way)].map(|word| word.to_str().unwrap());
        recorded(&command, &file, output)
    }

    // Of a run that succeeds.
    fn printing(&self, way: &str) -> (Vec<u8>, Vec<Event>) {
        let (outcome, events) = self.run(way, true);
        assert_eq!(outcome.ended, Ended::Exited(0), "{way}");
        (outcome.printed, events)
    }
}

fn printed(events: &[Event]) -> Vec<u8> {
    let of = |event: &Event| match &event.action {
        Action::Output { bytes } => bytes.clone(),
        _ => Vec::new(),
    };
    events.iter().flat_map(of).collect()
}

// What is stored, by its place, and the lines that are printed, in one order.
fn story<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<String> {
    let (mut story, mut line) = (Vec::new(), String::new());
    for event in events {
        match &event.action {
            Action::Output { bytes } => {
                line.push_str(std::str::from_utf8(bytes).unwrap());
                if line.ends_with('\n') {
                    story.extend(line.lines().map(str::to_owned));
                    line.clear();
                }
            }
            action => {
                if let Some((at, _)) = action.stores() {
                    assert_eq!(line, "", "a store in the middle of a line");
                    story.push(format!("store {}", at.offset / 64));
                }
            }
        }
    }
    story
}

fn lines(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().flat_map(|n| [format!("store {n}"), format!("line {n}")]).collect()
}

fn started(rest: Vec<String>) -> Vec<String> {
    [vec!["start".to_owned()], rest].concat()
}

#[test]
fn each_line_comes_behind_the_store_before_it() {
    let Some(program) = Program::new() else { return };
    let ways =
        ["puts", "write", "list", "dup", "dup2", "dup3", "fcntl", "open"].map(|way| (way, 0..5));
    for (way, numbers) in ways.into_iter().chain([("fork", 0..15)]) {
        let (bytes, events) = program.printing(way);
        assert_eq!(story(&events), started(lines(numbers)), "{way}");
        assert_eq!(bytes, printed(&events), "{way}");
    }
    let (bytes, events) = program.printing("execve");
    let expected = [started(lines(5..10)), started(lines(0..5))].concat();
    assert_eq!(story(&events), expected);
    assert_eq!(bytes, printed(&events));
}

#[test]
fn each_thread_has_its_own_order() {
    let Some(program) = Program::new() else { return };
    let (bytes, events) = program.printing("threads");
    let mut threads: Vec<u32> = events.iter().map(|event| event.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let of = |thread| story(events.iter().filter(|event| event.thread == thread));
    let mut stories: Vec<_> = threads.into_iter().map(of).collect();
    stories.sort_by_key(Vec::len);
    stories[1..].sort();
    assert_eq!(stories[0], ["start"]);
    let mut expected = [lines(0..100), lines(500..600)];
    expected.sort();
    assert_eq!(stories[1..], expected);
    // Two calls at the same time may be in another order there.
    let sorted = |bytes: &[u8]| {
        let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(Into::into).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&bytes), sorted(&printed(&events)));
}

#[test]
fn large_ones_are_whole() {
    let Some(program) = Program::new() else { return };
    let big = |size: usize| (0..size).map(|i| (i * 7) as u8);
    let (bytes, events) = program.printing("large");
    let outputs: Vec<Vec<u8>> =
        events.iter().map(|one| printed(std::slice::from_ref(one))).collect();
    let outputs: Vec<&Vec<u8>> = outputs.iter().filter(|bytes| !bytes.is_empty()).collect();
    assert_eq!(outputs.len(), 3);
    assert!(outputs[1].iter().copied().eq(big(65536)));
    // From the file itself.
    assert!(outputs[2].iter().copied().eq(big(4096).skip(10).take(100)));
    assert!(bytes == printed(&events));
    let (bytes, events) = program.printing("large list");
    let expected = big(30000).chain(big(64)).chain(big(40000));
    assert!(bytes[6..].iter().copied().eq(expected) && bytes == printed(&events));
}

#[test]
fn only_what_was_written_counts() {
    let Some(program) = Program::new() else { return };
    let (bytes, events) = program.printing("part");
    let count = events.iter().find_map(|event| match &event.action {
        Action::Store { bytes, .. } => Some(u64::from_le_bytes(bytes[..].try_into().unwrap())),
        _ => None,
    });
    let expected = "start\n".len() as u64 + count.unwrap();
    assert_eq!(bytes.len() as u64, expected);
    assert!(bytes == printed(&events));
    let (outcome, events) = program.run("errors", true);
    assert_eq!(outcome.ended, Ended::Exited(0));
    assert_eq!((story(&events), &outcome.printed[..]), (started(vec![]), &b"start\n"[..]));
    let note = |number| {
        format!(
            "system call {number} was refused: what it writes to the standard output cannot be \
             recorded"
        )
    };
    assert_eq!(outcome.notes, [note(40), note(275)]);
}

#[test]
fn what_goes_elsewhere_is_not_printed() {
    let Some(program) = Program::new() else { return };
    let (bytes, events) = program.printing("redirected");
    let silent = (5..15).map(|n| format!("store {n}"));
    let expected = lines(0..5).into_iter().chain(silent).chain(lines(15..20)).collect();
    assert_eq!(story(&events), started(expected));
    assert_eq!(bytes, printed(&events));
}

#[test]
fn children_that_borrow_memory_have_their_own_descriptors() {
    let Some(program) = Program::new() else { return };
    let (bytes, events) = program.printing("spawned");
    let expected = [vec!["spawned".to_owned()], lines(0..5)].concat();
    assert_eq!(story(&events), started(expected));
    assert_eq!(bytes, printed(&events));
}

#[test]
fn nothing_is_recorded_unasked() {
    let Some(program) = Program::new() else { return };
    let native = Command::new(&program.path).args(["file", "terminals"]).status().unwrap();
    let native = native.code().unwrap();
    let (outcome, events) = program.run("terminals", false);
    assert_eq!((outcome.ended, events), (Ended::Exited(native), vec![]));
    assert_eq!(outcome.printed, b"");
    // The standard output alone is a terminal then.
    assert_eq!(program.run("terminals", true).0.ended, Ended::Exited(native | 2));
    let file = program.folder.path().join("file");
    let words = [&program.path, &file].map(|word| word.to_str().unwrap());
    let silent = ["sh", "-c", "exec \"$0\" \"$1\" puts > /dev/null", words[0], words[1]];
    let (outcome, events) = recorded(&silent, &file, false);
    assert!(!events.iter().any(|event| matches!(event.action, Action::Output { .. })));
    assert_eq!((outcome.ended, &outcome.printed[..]), (Ended::Exited(0), &b""[..]));
}

// Its signal stack is small, and the recorder's handlers run there.
#[test]
fn rust_with_its_signal_stack() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-Copt-level=1"];
    let Some(program) = build(folder.path(), "safe.rs", "rustc", &flags, &[]) else { return };
    let (native, file) = (folder.path().join("native"), folder.path().join("file"));
    let expected = Command::new(&program).arg(native).output().unwrap();
    let command = [&program, &file].map(|word| word.to_str().unwrap());
    let (outcome, events) = recorded(&command, &file, true);
    assert_eq!(outcome.ended, Ended::Exited(0));
    assert!(!expected.stdout.is_empty());
    assert_eq!((&outcome.printed, printed(&events)), (&expected.stdout, expected.stdout.clone()));
}

#[test]
fn commands_of_a_shell_that_map_nothing() {
    let script = "echo a; /bin/echo b; echo c 2>&1 >&2; (/bin/echo d); echo e | cat
        echo no > /dev/null; echo f > /dev/stdout; exec /bin/echo g";
    let (outcome, events) = recorded(&["sh", "-c", script], Path::new("/no/such/file"), true);
    assert_eq!(outcome.ended, Ended::Exited(0));
    assert_eq!(story(&events), ["a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(outcome.printed, printed(&events));
}

#[test]
fn a_program_that_prints_too_much_is_stopped() {
    if !has("yes") {
        return skip("yes is not installed");
    }
    let (outcome, _) = recorded(&["yes"], Path::new("/no/such/file"), true);
    assert_eq!(outcome.ended, Ended::Stopped("the program printed more than 64 MiB".into()));
    assert_eq!(outcome.printed.len(), 64 << 20);
}
