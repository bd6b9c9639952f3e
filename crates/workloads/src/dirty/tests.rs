use std::os::fd::AsFd;
use std::path::Path;

use super::*;
use crate::files::tests::{counted, on_a_disk};

struct Nobody;
impl Latencies for Nobody {
    fn count(&self, _: u64) {}
}

fn task(dir: &Path, io: DirtyIo) -> Dirty {
    Dirty {
        dir: dir.into(),
        io,
        block: Bytes::kib(64),
        size: Some(Bytes::kib(256)),
        ..Dirty::default()
    }
}

#[test]
fn every_way_writes_round_its_file_and_leaves_it_clean() {
    let Some(dir) = on_a_disk("writes") else { return };
    let mut tried = 0;
    for io in DirtyIo::ALL {
        let task = task(dir.path(), io);
        if let Err(refused) = try_out(&task) {
            assert!(matches!(io, DirtyIo::Direct | DirtyIo::Dontcache), "{refused}");
            continue;
        }
        tried += 1;
        let mut dirtier = Dirtier::new(&task, 7, &mut Filled::default()).unwrap();
        dirtier.resumed();
        let before = counted("write_bytes");
        // Four blocks are a round.
        assert_eq!((dirtier.work(6, &Nobody).units, dirtier.failure()), (6 << 16, None), "{io}");
        dirtier.paused();
        assert_eq!(dirtier.failure(), None, "{io}");
        // Each page of the file was dirty once at least.
        let written = counted("write_bytes") - before;
        assert!((4 << 16..=6 << 16).contains(&written), "{io}: {written}");
        let mut first = [0; 8];
        for (place, number) in [(0, 5u64), (1, 6), (2, 3), (3, 4)] {
            rustix::io::pread(dirtier._made.as_fd(), &mut first, place << 16).unwrap();
            assert_eq!(u64::from_le_bytes(first), number, "{io}");
        }
    }
    assert!(tried >= 4, "{tried}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file has a name");
}

#[test]
fn the_limit_is_kept_and_told_and_holds_for_each_window() {
    let Some(dir) = on_a_disk("writes") else { return };
    // Each block is on the device before the next.
    let limited = Dirty { limit: Bytes::kib(320), ..task(dir.path(), DirtyIo::Wait) };
    let mut dirtier = Dirtier::new(&limited, 7, &mut Filled::default()).unwrap();
    for _ in 0..3 {
        dirtier.resumed();
        let before = counted("write_bytes");
        assert_eq!((dirtier.work(5, &Nobody).units, dirtier.failure()), (5 << 16, None));
        assert!(counted("write_bytes") - before <= 5 << 16);
        dirtier.paused();
    }
    dirtier.resumed();
    let before = counted("write_bytes");
    assert_eq!(dirtier.work(100, &Nobody).units, 5 << 16);
    assert_eq!(counted("write_bytes") - before, 5 << 16);
    let failure = dirtier.failure().unwrap();
    assert!(
        failure.contains("wrote 320KiB to the device in one window")
            && failure.contains("raise the limit"),
        "{failure}"
    );
    assert_eq!(dirtier.work(1, &Nobody).units, 0);
}

#[test]
fn in_an_episode_it_stands_still_at_its_limit_and_goes_on_in_the_next() {
    let Some(dir) = on_a_disk("writes") else { return };
    let limited = Dirty { limit: Bytes::kib(320), ..task(dir.path(), DirtyIo::Wait) };
    let mut dirtier = Dirtier::new(&limited, 7, &mut Filled::default()).unwrap();
    dirtier.stop_at_limit();
    for _ in 0..2 {
        dirtier.resumed();
        assert!(!dirtier.spent());
        let before = counted("write_bytes");
        assert_eq!(dirtier.work(100, &Nobody).units, 5 << 16);
        assert_eq!(
            (dirtier.work(100, &Nobody).units, dirtier.spent(), dirtier.failure()),
            (0, true, None)
        );
        assert_eq!(counted("write_bytes") - before, 5 << 16);
        dirtier.paused();
    }
}

// Written over while it is dirty, a page is written to the device once.
#[test]
fn the_limit_is_of_what_the_device_is_given() {
    let Some(dir) = on_a_disk("writes") else { return };
    let limited = Dirty { limit: Bytes::mib(16), ..task(dir.path(), DirtyIo::Buffered) };
    let mut dirtier = Dirtier::new(&limited, 7, &mut Filled::default()).unwrap();
    dirtier.resumed();
    assert_eq!((dirtier.work(512, &Nobody).units, dirtier.failure()), (32 << 20, None));
}

#[test]
fn a_pace_leaves_blocks_out() {
    let Some(dir) = on_a_disk("writes") else { return };
    let slow = Dirty { pace: Some("1KiB/s".parse().unwrap()), ..task(dir.path(), DirtyIo::Direct) };
    let Ok(mut dirtier) = Dirtier::new(&slow, 7, &mut Filled::default()) else { return };
    // The second is due after a minute.
    let units: Vec<u64> = (0..3).map(|_| dirtier.work(1000, &Nobody).units).collect();
    assert_eq!(units, [1 << 16, 0, 0], "{:?}", dirtier.failure());
}

#[test]
fn equal_files_are_one_and_others_are_not() {
    let Some(dir) = on_a_disk("writes") else { return };
    let mut filled = Filled::default();
    let mut make = |io, size| {
        Dirtier::new(&Dirty { size: Some(size), ..task(dir.path(), io) }, 7, &mut filled).unwrap()
    };
    let one = make(DirtyIo::Wait, Bytes::kib(256));
    let other = make(DirtyIo::Write, Bytes::kib(256));
    let third = make(DirtyIo::Wait, Bytes::kib(512));
    assert!(Rc::ptr_eq(&one._made, &other._made) && !Rc::ptr_eq(&one._made, &third._made));
}

#[test]
fn what_cannot_be_had_says_why_in_a_sentence() {
    let Some(dir) = on_a_disk("writes") else { return };
    let ordinary = task(dir.path(), DirtyIo::Wait);
    for (task, part) in [
        (Dirty { dir: "/dev/shm".into(), ..ordinary.clone() }, "in memory"),
        (Dirty { dir: dir.path().join("none"), ..ordinary.clone() }, "No such file or directory"),
        (Dirty { dir: "/proc".into(), ..ordinary.clone() }, "nothing is stored there"),
        (Dirty { size: Some(Bytes(1 << 60)), ..ordinary.clone() }, "more than a quarter"),
    ] {
        let error = try_out(&task).expect_err(part);
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
    assert!(try_out(&ordinary).is_ok_and(|rate| rate > 0.0));
}

// Nothing is counted that was not written.
#[test]
fn a_full_device_ends_the_work() {
    let Some(dir) = on_a_disk("writes") else { return };
    let mut dirtier =
        Dirtier::new(&task(dir.path(), DirtyIo::Buffered), 7, &mut Filled::default()).unwrap();
    dirtier.file = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into();
    assert_eq!(dirtier.work(3, &Nobody).units, 0);
    assert!(dirtier.failure().is_some_and(|failure| failure.contains("No space left")));
}
