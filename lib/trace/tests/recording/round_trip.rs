//! What is written is read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;
use ringfence_trace::events::{
    Action, Callers, Ended, Event, Frame, Place, Site, Thread, TracedFile,
};
use ringfence_trace::recording::{About, LARGEST, Reader, RecordingError, Writer};

use crate::arbitrary;

pub fn about() -> About {
    About {
        recorder: "a test".into(),
        command: vec!["./it".into(), "--fast".into()],
        loads: true,
        ..About::default()
    }
}

pub fn site(id: u32) -> Site {
    let module = if id.is_multiple_of(2) { "/usr/lib/libc.so.6" } else { "[vdso]" };
    Site {
        id,
        module: module.into(),
        address: 0x1000 + u64::from(id),
        bytes: vec![0x0f, 0xae, 0x38],
    }
}

pub fn callers(id: u32) -> Callers {
    let frame = |depth| Frame { module: "/bin/it".into(), address: u64::from(id * 100 + depth) };
    Callers { id, frames: (0..id).map(frame).collect() }
}

pub fn store(sequence: u64, offset: u64, bytes: &[u8]) -> Event {
    let action = Action::Store { at: Place { file: 1, offset }, bytes: bytes.to_vec() };
    Event { sequence, thread: 1, site: 1, callers: 1, action }
}

/// A recording of these events, in parts of so many.
pub fn write(folder: &Path, events: &[Event], part: usize) {
    let mut writer = Writer::create(folder, about()).unwrap();
    arbitrary::files().into_iter().for_each(|file| writer.file(file).unwrap());
    (1..4).for_each(|id| writer.site(&site(id)));
    (1..3).for_each(|id| writer.callers(&callers(id)));
    writer.thread(Thread { id: 1, process: 77, tid: 78, name: "it".into() });
    for (number, event) in (1..).zip(events) {
        writer.push(event).unwrap();
        if number % part == 0 {
            writer.close_part().unwrap();
        }
    }
    writer.finish(Ended::Exited(0)).unwrap();
}

pub fn read(folder: &Path) -> Result<Vec<Event>, RecordingError> {
    Reader::open(folder)?.events().collect()
}

proptest! {
    #[test]
    fn all_events_come_back(events in arbitrary::events(), part in 1..50usize) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &events, part);
        prop_assert_eq!(read(folder.path()).unwrap(), events);
    }
}

#[test]
fn what_events_name_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    write(&path, &[store(5, 0, b"x")], 1);
    let reader = Reader::open(&path).unwrap();
    let manifest = reader.manifest();
    assert_eq!(manifest.about, about());
    assert_eq!(manifest.ended, Some(Ended::Exited(0)));
    assert_eq!(manifest.files, arbitrary::files());
    assert_eq!(manifest.threads.len(), 1);
    let modules: Vec<&str> = manifest.modules.iter().map(|module| &*module.path).collect();
    assert_eq!(modules, ["[vdso]", "/usr/lib/libc.so.6", "/bin/it"]);
    assert!(manifest.started_unix_ns > 0 && manifest.recorded_ns > 0);
    for id in 1..4 {
        assert_eq!(reader.site(id), Some(&site(id)));
    }
    assert_eq!((reader.callers(1), reader.callers(2)), (Some(&callers(1)), Some(&callers(2))));
    assert_eq!((reader.site(9), reader.callers(9)), (None, None));
    assert_eq!((reader.len(), reader.is_empty()), (1, false));
    assert!(Reader::is_one(&path) && !Reader::is_one(folder.path()));
}

#[test]
fn only_its_owner_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (new, empty) = (folder.path().join("new"), folder.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o755)).unwrap();
    for path in [new, empty] {
        write(&path, &[store(5, 0, b"x")], 1);
        assert_eq!(mode(&path), 0o700);
        let files: Vec<_> =
            fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 5, "{files:?}");
        files.iter().for_each(|file| assert_eq!(mode(file), 0o600, "{}", file.display()));
    }
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine"), "x").unwrap();
    let error = Writer::create(folder.path(), about()).err().unwrap();
    let said =
        format!("{} is not empty: name a folder that does not exist yet", folder.path().display());
    assert_eq!(error.to_string(), said);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let none = folder.path().join("a/b");
    let error = Writer::create(&none, about()).err().unwrap();
    let said = format!(
        "cannot make the folder {}: No such file or directory (os error 2)",
        none.display()
    );
    assert_eq!(error.to_string(), said);
}

// Dropping it is all that a killed program does, and more.
#[test]
fn closed_parts_outlive_the_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), about()).unwrap();
    writer.file(arbitrary::files().remove(0)).unwrap();
    writer.site(&site(1));
    let events: Vec<Event> =
        (0..10).map(|sequence| store(sequence, sequence * 8, b"12345678")).collect();
    events[..4].iter().for_each(|event| writer.push(event).unwrap());
    writer.close_part().unwrap();
    writer.site(&site(2));
    events[4..7].iter().for_each(|event| writer.push(event).unwrap());
    writer.close_part().unwrap();
    events[7..].iter().for_each(|event| writer.push(event).unwrap());
    drop(writer);
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.manifest().ended, None);
    assert_eq!(reader.events().collect::<Result<Vec<_>, _>>().unwrap(), events[..7]);
    assert_eq!((reader.site(1), reader.site(2)), (Some(&site(1)), Some(&site(2))));
    assert_eq!(reader.manifest().events.len(), 2);
}

#[test]
fn a_recording_can_be_empty() {
    let folder = tempfile::tempdir().unwrap();
    Writer::create(folder.path(), about()).unwrap();
    assert_eq!(read(folder.path()).unwrap(), []);
    let folder = tempfile::tempdir().unwrap();
    Writer::create(folder.path(), about()).unwrap().finish(Ended::Signal(9)).unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    assert!(reader.is_empty());
    assert_eq!(reader.manifest().ended, Some(Ended::Signal(9)));
}

#[test]
fn what_cannot_be_held_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), about()).unwrap();
    let file = TracedFile { id: 1, path: "/f".into(), size: 1 << 30, medium: None };
    let refused = |done: Result<(), RecordingError>| done.unwrap_err().to_string();
    assert_eq!(
        refused(writer.push(&store(1, 0, b"x"))),
        "this cannot be recorded: file 1 is not known"
    );
    assert_eq!(refused(writer.image(1, 0, b"x")), "this cannot be recorded: file 1 is not known");
    writer.file(file.clone()).unwrap();
    assert_eq!(refused(writer.file(file)), "this cannot be recorded: file 1 exists already");
    let large = store(1, 0, &vec![1; LARGEST + 1]);
    let said = "this cannot be recorded: event 1 stores more than 16777216 bytes: split it";
    assert_eq!(refused(writer.push(&large)), said);
    let action = Action::Output { bytes: vec![1; LARGEST + 1] };
    assert_eq!(refused(writer.push(&Event { action, ..large })), said);
    writer.push(&store(7, 0, &vec![1; LARGEST])).unwrap();
    for sequence in [7, 3] {
        let said = format!("this cannot be recorded: event {sequence} comes after event 7");
        assert_eq!(refused(writer.push(&store(sequence, 0, b"x"))), said);
    }
    // What was refused changed nothing.
    writer.finish(Ended::Exited(0)).unwrap();
    assert_eq!(read(folder.path()).unwrap(), [store(7, 0, &vec![1; LARGEST])]);
}

// A program that records learns of a full disk, or of a folder that is gone, no later than at the
// end.
#[test]
fn what_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut writer = Writer::create(&path, about()).unwrap();
    writer.file(arbitrary::files().remove(0)).unwrap();
    fs::remove_dir_all(&path).unwrap();
    writer.push(&store(1, 0, b"x")).unwrap();
    let error = writer.finish(Ended::Exited(0)).unwrap_err().to_string();
    let said = format!(
        "cannot write a part of the trace in {}: No such file or directory (os error 2)",
        path.display()
    );
    assert_eq!(error, said);
}

// Recorded by a program of that version: a store and an msync, whose beginning it did not know.
#[test]
fn version_1_is_read() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recording/version-1"));
    let reader = Reader::open(folder).unwrap();
    assert_eq!(reader.manifest().schema, 1);
    let actions: Vec<Action> = reader.events().map(|event| event.unwrap().action).collect();
    let at = Place { file: 0, offset: 0 };
    assert!(actions.contains(&Action::Msync { at, size: 8192, began: None }), "{actions:?}");
    let run = ringfence_trace::census::dynamic::of(&reader).unwrap();
    assert_eq!((run.total.unflushed_lines, run.total.msync), (0, 1));
}

// It knew of no output.
#[test]
fn version_2_is_read() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recording/version-2"));
    let reader = Reader::open(folder).unwrap();
    assert_eq!(reader.manifest().schema, 2);
    let actions: Vec<Action> = reader.events().map(|event| event.unwrap().action).collect();
    let at = Place { file: 0, offset: 0 };
    assert!(actions.contains(&Action::SyncRange { at, size: 8192 }), "{actions:?}");
    assert!(
        actions.iter().any(|one| matches!(one, Action::Msync { began: Some(3), .. })),
        "{actions:?}"
    );
    let run = ringfence_trace::census::dynamic::of(&reader).unwrap();
    assert_eq!((run.total.unflushed_lines, run.total.msync, run.total.sync_ranges), (0, 1, 1));
}

#[test]
fn what_seems_to_be_missing_may_not_be() {
    let uncertain = |ended: Ended, unrecorded: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path(), about()).unwrap();
        unrecorded.iter().for_each(|program| writer.unrecorded(program));
        writer.finish(ended).unwrap();
        let reader = Reader::open(folder.path()).unwrap();
        ringfence_trace::census::dynamic::of(&reader).unwrap().uncertain
    };
    assert_eq!(uncertain(Ended::Exited(1), &[]), [""; 0]);
    assert_eq!(uncertain(Ended::Signal(2), &[]), ["signal 2 ended the program"]);
    assert_eq!(uncertain(Ended::Exited(0), &["/narrow", "/narrow"]), ["/narrow ran unrecorded"]);
}
