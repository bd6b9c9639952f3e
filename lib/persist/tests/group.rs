//! Threads that share a file in the page cache share its syncs, and each of them is as durable as
//! alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use ringfence_persist::policy::RegionSync;
use ringfence_persist::record::Record;
use ringfence_persist::ring::layout::HEAD;
use ringfence_persist::ring::{self, Consumer, Producer, Shape};
use ringfence_persist::{Durability, Mapped, Memory, Methods, Region};
use ringfence_testbed::skip_here;

const PART: usize = HEAD + 64 * 64;
const THREADS: usize = 4;

struct File(PathBuf);

impl File {
    // Beside the program, which lies on a disk where the temporary folder may be memory.
    fn new(name: &str, len: usize) -> Option<(Self, Region)> {
        let exe = std::env::current_exe().unwrap();
        let file = Self(exe.with_file_name(format!("ringfence-{name}-{}", std::process::id())));
        let region = Region::create(&file.0, len, Durability::Volatile).unwrap();
        if region.durability() == Durability::PageCache {
            return Some((file, region));
        }
        skip_here("a file in the page cache", &region.explain().verdict().to_string());
        None
    }
}

impl Drop for File {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

fn by(sync: RegionSync) -> Methods {
    Methods { sync, ..Methods::of_processor() }
}

#[test]
fn producers_with_a_ring_each_in_one_file_sync_less_often_than_they_push() {
    // The ring has room for them all.
    const PUSHES: usize = 50;
    for sync in RegionSync::ALL {
        let len = THREADS * PART + 64;
        let Some((_file, region)) = File::new(&format!("group-{sync}"), len) else { return };
        let mut parts = Mapped::with_methods(region, by(sync)).split(&[PART, PART, PART, PART, 64]);
        // No producer's, to look at the region with.
        let looker = parts.pop().unwrap();
        let producers: Vec<Producer<Mapped>> = parts
            .into_iter()
            .map(|part| {
                ring::format(&part, &Shape::new(PART - HEAD, 64, 7).unwrap()).unwrap();
                Producer::attach(part).unwrap()
            })
            .collect();
        let begin = Barrier::new(THREADS);
        let push = |number: usize, mut producer: Producer<Mapped>| {
            begin.wait();
            (0..PUSHES).for_each(|entry| producer.push(&[number as u8, entry as u8]).unwrap());
        };
        let before = looker.region().syncs();
        std::thread::scope(|scope| {
            for (number, producer) in producers.into_iter().enumerate() {
                let push = &push;
                scope.spawn(move || push(number, producer));
            }
        });
        let made = looker.region().syncs() - before;
        println!("{sync}: {made} calls for {} entries", THREADS * PUSHES);
        assert!(made >= PUSHES as u64, "a thread waits for each of its own: {made}");
        assert!(made < (THREADS * PUSHES) as u64, "{made} by {sync}");
    }
}

#[test]
fn the_parts_are_apart_and_are_there_again() {
    let Some((file, region)) = File::new("parts", 2 * PART) else { return };
    let mut parts =
        Mapped::with_methods(region, by(RegionSync::Fdatasync)).split(&[PART, PART - 64]);
    for (number, part) in parts.iter().enumerate() {
        ring::format(part, &Shape::new(1024, 64, number as u64).unwrap()).unwrap();
    }
    assert_eq!((parts[0].len(), parts[1].len()), (PART, PART - 64));
    let second = parts.pop().unwrap();
    let mut producer = Producer::attach(second).unwrap();
    producer.push(b"in the second").unwrap();
    drop((producer, parts));
    let region = Region::open(&file.0, Durability::PageCache).unwrap();
    let parts = Mapped::with_methods(region, by(RegionSync::Msync)).split(&[PART, PART]);
    assert_eq!(parts.into_iter().map(entries).collect::<Vec<_>>(), [0, 1]);
}

fn entries(part: Mapped) -> u64 {
    let (_, recovery) = ring::recover(&part).unwrap();
    if recovery.entries > 0 {
        let mut consumer = Consumer::attach(part).unwrap();
        assert_eq!(&consumer.try_read().unwrap().unwrap()[..], b"in the second");
    }
    recovery.entries
}

#[test]
fn a_fence_is_one_call_by_whatever_the_policy_names() {
    for sync in RegionSync::ALL {
        let Some((file, region)) = File::new(&format!("one-{sync}"), 1 << 20) else { return };
        let memory = Mapped::with_methods(region, by(sync));
        memory.store(0, b"first");
        memory.flush(0..5);
        memory.store((1 << 20) - 5, b"last.");
        memory.flush((1 << 20) - 5..1 << 20);
        assert_eq!(memory.region().syncs(), 0, "nothing waits before the fence");
        memory.sfence();
        memory.sfence();
        assert_eq!(
            memory.region().syncs(),
            1,
            "one for both ends, and none where nothing was stored"
        );
        let mut record = Record::create(&memory, [64, 128], 3, &[1; 8]);
        let before = memory.region().syncs();
        record.write(&memory, &[2; 8]);
        assert_eq!(memory.region().syncs() - before, 1, "a record is replaced by one sync");
        memory.health().unwrap();
        // Whatever the call, a file that was shrunk fails it, and that stays.
        fs::OpenOptions::new().write(true).open(&file.0).unwrap().set_len(4096).unwrap();
        record.write(&memory, &[3; 8]);
        assert!(memory.health().is_err() && memory.region().sync(0..1, sync).is_err());
    }
}

// So that syncs change nothing but data: `layout = "written"`, whatever the policy says.
#[test]
fn every_block_of_a_new_region_is_written() {
    let Some((file, region)) = File::new("written", 1 << 20) else { return };
    let Some(extents) = extents(&file.0) else {
        return skip_here(
            "extents of a file",
            "filefrag is not here, or the file system tells none",
        );
    };
    assert!(!extents.contains("unwritten") && !extents.contains("delalloc"), "{extents}");
    drop(region);
    // What was only reserved is told apart.
    fs::remove_file(&file.0).unwrap();
    let made = std::process::Command::new("fallocate").args(["-l", "1MiB"]).arg(&file.0).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(self::extents(&file.0).unwrap().contains("unwritten"));
    }
}

fn extents(path: &Path) -> Option<String> {
    let said = std::process::Command::new("filefrag").arg("-v").arg(path).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).into_owned())
}
