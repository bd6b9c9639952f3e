use std::cell::RefCell;
use std::os::fd::AsFd;

use ringfence_experiment::task::{Io, Layout, Sync};

use super::*;

struct Kept(RefCell<Vec<u64>>);

impl Latencies for Kept {
    fn count(&self, ticks: u64) {
        self.0.borrow_mut().push(ticks);
    }
}

fn task(dir: &std::path::Path, sync: Sync, io: Io, layout: Layout) -> Commit {
    Commit { dir: dir.into(), sync, io, layout, size: Bytes::kib(40), ..Commit::default() }
}

// A disk's, if the build is on one.
fn dir() -> Option<tempfile::TempDir> {
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
    std::fs::create_dir_all(target).unwrap();
    let dir = tempfile::tempdir_in(target).unwrap();
    match Log::create(Place::of(&task(dir.path(), Sync::None, Io::Buffered, Layout::Append))) {
        Ok(_) => Some(dir),
        Err(error) => {
            ringfence_testbed::skip_here("commits", &error.to_string());
            None
        }
    }
}

fn content(committer: &Committer) -> Vec<u8> {
    let file = committer.log.open(rustix::fs::OFlags::empty()).unwrap();
    let mut bytes = vec![0; rustix::fs::fstat(&file).unwrap().st_size as usize];
    let read = rustix::io::pread(file.as_fd(), &mut bytes, 0).unwrap();
    assert_eq!(read, bytes.len());
    bytes
}

// Round the log more than once: what was committed last stands where it was put.
#[test]
fn every_way_leaves_its_batches_behind() {
    let Some(dir) = dir() else { return };
    let (mut tried, mut refused) = (0, Vec::new());
    for layout in Layout::ALL {
        for (sync, io) in
            Sync::ALL.iter().flat_map(|sync| Io::ALL.iter().map(move |io| (*sync, *io)))
        {
            let task = Commit { batch: 2, ..task(dir.path(), sync, io, layout) };
            let made = Committer::new(&task, 7, &mut Logs::default());
            if task.impossible().is_some() {
                assert!(made.is_err(), "{task:?}");
                continue;
            }
            let latencies = Kept(RefCell::default());
            let Ok(mut committer) =
                made.map_err(|error| refused.push((sync, io, error.to_string())))
            else {
                continue;
            };
            // Five batches are a round.
            let work = committer.work(8, &latencies);
            if let Some(failure) = committer.failure() {
                refused.push((sync, io, failure.to_owned()));
                continue;
            }
            tried += 1;
            assert_eq!((work.units, latencies.0.borrow().len()), (8, 8), "{task:?}");
            let content = content(&committer);
            let length = if layout.grows() { 3 * 8192 } else { 40960 };
            assert_eq!(content.len(), length, "{task:?}");
            let batch = |number: usize| &content[number * 8192..][..8192];
            let expected = committer.crew.first().batch.get();
            for (place, number) in [(0, 6u64), (1, 7), (2, 8)] {
                assert_eq!(batch(place)[..8], number.to_le_bytes(), "{task:?}");
                assert_eq!(batch(place)[8..], expected[8..], "{task:?}");
            }
            match layout {
                Layout::Written => assert_eq!(batch(3)[..8], 4u64.to_le_bytes(), "{task:?}"),
                Layout::Allocated => assert!(batch(3).iter().all(|byte| *byte == 0), "{task:?}"),
                Layout::Append | Layout::KeepSize => {}
            }
        }
    }
    // What every Linux file system on a disk has.
    assert!(tried >= 4 * 8, "{tried} {refused:?}");
    let optional =
        |(_, io, _): &&(Sync, Io, String)| matches!(io, Io::Direct | Io::Dontcache | Io::Atomic);
    let others: Vec<_> =
        refused.iter().filter(|way| !optional(way) && way.0 != Sync::Uring).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file has a name");
}

#[test]
fn equal_logs_are_one_file_and_others_are_not() {
    let Some(dir) = dir() else { return };
    let mut logs = Logs::default();
    let mut make = |sync, layout| {
        Committer::new(&task(dir.path(), sync, Io::Buffered, layout), 7, &mut logs).unwrap()
    };
    let one = make(Sync::Fsync, Layout::Append);
    let other = make(Sync::ODsync, Layout::Append);
    let third = make(Sync::Fsync, Layout::Written);
    assert!(Arc::ptr_eq(&one.log, &other.log));
    assert!(!Arc::ptr_eq(&one.log, &third.log));
}

#[test]
fn what_cannot_be_had_says_why_in_a_sentence() {
    let Some(dir) = dir() else { return };
    let ordinary = task(dir.path(), Sync::Fdatasync, Io::Buffered, Layout::Append);
    let cases = [
        (Commit { dir: "/dev/shm".into(), ..ordinary.clone() }, "in memory"),
        (Commit { dir: dir.path().join("none"), ..ordinary.clone() }, "No such file or directory"),
        (Commit { dir: "/proc".into(), ..ordinary.clone() }, "/proc"),
        (Commit { sync: Sync::Msync, ..ordinary.clone() }, "io=mmap"),
        (
            Commit { record: Bytes(100), io: Io::Direct, ..ordinary.clone() },
            "record times batch is 100B",
        ),
    ];
    for (task, part) in cases {
        let error = try_out(&task).expect_err(part);
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
    assert_eq!(try_out(&ordinary), Ok(()));
}

// Nothing is counted that was not committed.
#[test]
fn a_full_device_ends_the_work() {
    let Some(dir) = dir() else { return };
    let task = task(dir.path(), Sync::Fdatasync, Io::Buffered, Layout::Append);
    let mut committer = Committer::new(&task, 7, &mut Logs::default()).unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    committer.crew.first().way.divert(full.into());
    let latencies = Kept(RefCell::default());
    assert_eq!(committer.work(3, &latencies).units, 0);
    assert!(committer.failure().is_some_and(|failure| failure.contains("No space left")));
    assert_eq!(latencies.0.borrow().len(), 0);
}

// A log of five batches is started again several times, by any writer that finds it full.
#[test]
fn several_writers_commit_to_one_log_and_each_batch_is_whole() {
    let Some(dir) = dir() else { return };
    for (layout, io) in [
        (Layout::Append, Io::Buffered),
        (Layout::Written, Io::Buffered),
        (Layout::Written, Io::Mmap),
    ] {
        let task = Commit {
            writers: 4,
            size: Bytes::kib(40),
            ..task(dir.path(), Sync::Fdatasync, io, layout)
        };
        let mut committer = Committer::new(&task, 7, &mut Logs::default()).unwrap();
        let latencies = Kept(RefCell::default());
        let mut units = 0;
        for until in [50, 100] {
            while units < until {
                units += committer.work(5, &latencies).units;
            }
            committer.paused();
            assert_eq!(committer.failure(), None);
        }
        assert_eq!(latencies.0.borrow().len() as u64, units, "{task:?}");
        // All are paused: each has done something, and together at least what was counted.
        let content = content(&committer);
        let writers: Vec<_> = committer
            .crew
            .each()
            .map(|writer| (writer.number, writer.batch.get().to_vec()))
            .collect();
        assert_eq!(writers.len(), 4);
        assert!(writers.iter().all(|(number, _)| *number > 0), "{task:?}");
        assert!(writers.iter().map(|(number, _)| number).sum::<u64>() >= units, "{task:?}");
        for batch in content.chunks(4096) {
            let whole = writers.iter().any(|(_, own)| own[8..] == batch[8..]);
            assert!(
                whole || layout == Layout::Written && batch.iter().all(|byte| *byte == 0xa5),
                "{task:?}"
            );
        }
    }
}

#[test]
fn a_failure_of_one_writer_ends_the_work_of_all() {
    let Some(dir) = dir() else { return };
    let task = Commit {
        writers: 3,
        size: Bytes::mib(1),
        ..task(dir.path(), Sync::Fdatasync, Io::Buffered, Layout::Append)
    };
    let mut committer = Committer::new(&task, 7, &mut Logs::default()).unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    committer.crew.first().way.divert(full.into());
    let latencies = Kept(RefCell::default());
    while committer.failure().is_none() {
        committer.work(1, &latencies);
    }
    assert!(committer.failure().is_some_and(|failure| failure.contains("No space left")));
    assert_eq!(committer.work(1, &latencies), Work::default());
    committer.paused();
}
