//! Logs of pmemcheck as traces.

use std::io::Read;

use ringfence_persist::Flush;
use ringfence_trace::census::dynamic;
use ringfence_trace::events::{Action, Ended, Place};
use ringfence_trace::recording::pmemcheck::{ImportError, Imported, import};
use ringfence_trace::recording::{About, Reader, Writer};
use ringfence_trace::replay;

fn imported(log: &str) -> (tempfile::TempDir, Result<Imported, ImportError>) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), About::default()).unwrap();
    let done = import(log.as_bytes(), &mut writer);
    writer.finish(Ended::Exited(0)).unwrap();
    (folder, done)
}

fn actions(log: &str) -> (Vec<Action>, Imported) {
    let (folder, done) = imported(log);
    let reader = Reader::open(folder.path()).unwrap();
    let actions = reader.events().map(|event| event.unwrap().action).collect();
    (actions, done.unwrap())
}

fn at(file: u32, offset: u64) -> Place {
    Place { file, offset }
}

const LOG: &str = "==9== pmemcheck-1.0, a simple persistent store checker\nSTART\
|REGISTER_FILE;/mnt/pool;0x4000;0x2000;0x1000\
|STORE;0x4008;0x0102030405060708;0x8;0x108A: put (put.c:7);0x2000: main (main.c:9)\
|STORE;0x4010;0xffffffffffffff7f;0x2;0x108A: put (put.c:7);0x2000: main (main.c:9)\
|STORE;0x9000;0x1;0x1\
|FLUSH;0x4000;0x80|FENCE|pool.BEGIN|DEEP_SYNC;0x3000;0x2000|FLUSH;0x9000;0x40|STOP\n==9== done\n";

#[test]
fn entries_become_events() {
    let store = |offset, bytes: &[u8]| Action::Store { at: at(1, offset), bytes: bytes.to_vec() };
    let flush = |offset| Action::Flush { flush: Flush::Clwb, at: at(1, offset) };
    let (found, done) = actions(LOG);
    assert_eq!(
        found,
        [
            Action::Map { at: at(1, 0x1000), address: 0x4000, size: 0x2000 },
            store(0x1008, &[8, 7, 6, 5, 4, 3, 2, 1]),
            store(0x1010, &[0x7f, 0xff]),
            flush(0x1000),
            flush(0x1040),
            Action::Sfence,
            // What of it is mapped.
            Action::Msync { at: at(1, 0x1000), size: 0x1000, began: None },
        ]
    );
    assert_eq!(done, Imported { events: 7, elsewhere: 2, whole: true });
}

#[test]
fn stores_say_where_they_stand() {
    let (folder, _) = imported(LOG);
    let run = dynamic::of(&Reader::open(folder.path()).unwrap()).unwrap();
    let store = run.sites.iter().find(|row| row.executed.stores > 0).unwrap();
    let place = store.location.as_ref().unwrap();
    assert_eq!(place.to_string(), "put+0x0 (put.c:7)");
    assert_eq!((store.executed.stores, store.executed.stored_bytes), (2, 10));
    assert_eq!(run.total.unflushed_lines + run.total.unfenced_lines, 0);
}

#[test]
fn what_was_stored_can_be_replayed() {
    let (folder, _) = imported(LOG);
    let mut into = tempfile::tempfile().unwrap();
    replay(&Reader::open(folder.path()).unwrap(), 1, &into).unwrap();
    let mut held = Vec::new();
    std::io::Seek::rewind(&mut into).unwrap();
    into.read_to_end(&mut held).unwrap();
    let mut expected = vec![0; 0x3000];
    expected[0x1008..0x1012].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1, 0x7f, 0xff]);
    assert!(held == expected);
}

#[test]
fn the_last_mapping_of_an_address_counts() {
    let log = "START|REGISTER_FILE;/a;0x1000;0x1000;0x0|REGISTER_FILE;/b;0x1000;0x1000;0x2000\
               |REGISTER_FILE;/a;0x3000;0x1000;0x1000|STORE;0x1000;0x1;0x1|STORE;0x3000;0x1;0x1\
               |FLUSH;0x1000;0x1|STOP";
    let (found, _) = actions(log);
    let stores: Vec<Place> = found.iter().filter_map(|action| Some(action.stores()?.0)).collect();
    assert_eq!(stores, [at(2, 0x2000), at(1, 0x1000)]);
    assert_eq!(found[2], Action::Truncate { file: 1, size: 0x2000 });
    assert_eq!(found.last(), Some(&Action::Flush { flush: Flush::Clwb, at: at(2, 0x2000) }));
}

#[test]
fn a_log_may_be_cut_or_none() {
    let cut = LOG.find("|DEEP").unwrap();
    let (_, done) = imported(&LOG[..cut]);
    assert_eq!(done.unwrap(), Imported { events: 6, elsewhere: 1, whole: false });
    for end in (0..LOG.len()).step_by(5) {
        if let Err(error) = imported_only(&LOG[..end]) {
            let said = error.to_string();
            assert!(said.starts_with("this is not a log of pmemcheck's stores: entry "), "{said}");
        }
    }
    let error = imported_only("hello").unwrap_err().to_string();
    assert_eq!(
        error,
        "this is not a log of pmemcheck's stores: entry 0: it does not begin with START"
    );
    // An import does not wait for the flushes of a range as large as memory.
    let log = "START|REGISTER_FILE;/a;0x1000;0x100;0x0|FLUSH;0x0;0xffffffffffffffff|STOP";
    assert_eq!(imported_only(log).unwrap().events, 1 + 4);
}

// Without a word on whether the trace can be read.
fn imported_only(log: &str) -> Result<Imported, ImportError> {
    imported(log).1
}
