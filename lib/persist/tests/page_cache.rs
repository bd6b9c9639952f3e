//! Where memory is a file in the page cache, fences are msync, and what it says is not lost.

use std::io::Write;
use std::path::{Path, PathBuf};

use ringfence_persist::ring::layout::HEAD;
use ringfence_persist::ring::{Consumer, Producer, RingError};
use ringfence_persist::{Durability, Flush, Mapped, Memory, Region, Ring, Stores};

struct Folder(PathBuf);

impl Folder {
    // Beside the program, which lies on a disk where the temporary folder may be memory.
    fn new(name: &str) -> Option<Self> {
        let exe = std::env::current_exe().unwrap();
        let folder = exe.parent().unwrap().join(format!("ringfence-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let folder = Self(folder);
        let region = Region::create(folder.0.join("probe"), 4096, Durability::Volatile).unwrap();
        if region.durability() == Durability::PageCache {
            return Some(folder);
        }
        let found = region.explain().verdict();
        assert!(
            std::env::var_os("RINGFENCE_REQUIRE_ALL").is_none(),
            "no page cache to test on: {found}"
        );
        // Past the test harness, which keeps what passing tests print.
        _ = writeln!(
            std::io::stderr(),
            "skipped: this wants a file in the page cache, and found {found}"
        );
        None
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_ring_in_a_file_is_there_when_it_is_opened_again() {
    let Some(folder) = Folder::new("ring-file") else { return };
    let path = folder.0.join("ring");
    let ring = Ring::create(&path, 64 * 30, Durability::PageCache).unwrap();
    let mut producer = ring.producer().unwrap();
    for number in 0..10u8 {
        producer.push(&vec![number; usize::from(number) * 9]).unwrap();
    }
    drop(producer);
    ring.consumer().unwrap().read().unwrap().pop_durably().unwrap();
    drop(ring);
    let ring = Ring::open(&path, Durability::PageCache).unwrap();
    assert_eq!(ring.recovery().unwrap().entries, 9);
    assert_eq!(&ring.consumer().unwrap().read().unwrap()[..], [1; 9]);
}

#[test]
fn less_than_was_asked_for_is_refused() {
    let Some(folder) = Folder::new("ring-least") else { return };
    let path = folder.0.join("ring");
    let error = Ring::create(&path, 4096, Durability::UnprovenMedium).unwrap_err().to_string();
    assert!(error.contains("page cache"), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_failure_to_write_back_is_reported_and_stays() {
    let Some(folder) = Folder::new("ring-lost") else { return };
    let path = folder.0.join("stores");
    let region = Region::create(&path, 8192, Durability::PageCache).unwrap();
    let mut stores = Stores::new(Mapped::new(region).unwrap());
    stores.copy(0, b"kept").unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let lost = stores.persist(0..64).unwrap_err().to_string();
    assert!(lost.contains("open it again and recover"), "{lost}");
    assert!(stores.persist(0..64).is_err() && stores.memory().health().is_err(), "it stays");
}

#[test]
fn another_instruction_leaves_what_waits_to_be_written_back() {
    let Some(folder) = Folder::new("flush-by") else { return };
    let path = folder.0.join("stores");
    let region = Region::create(&path, 8192, Durability::PageCache).unwrap();
    let mut memory = Mapped::new(region).unwrap();
    memory.store(0, b"waits");
    memory.flush(0..5);
    memory.flush_by(Flush::Clflush);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    memory.sfence();
    // A file that has become shorter fails what is written back, and nothing else.
    assert!(memory.health().is_err());
}

// An open ring in a file, some of whose entries were popped.
struct Open {
    ring: Ring,
    path: PathBuf,
    producer: Option<Producer<Mapped>>,
    consumer: Option<Consumer<Mapped>>,
}

const CAPACITY: usize = 4096;
const ENTRIES: u8 = 6;

impl Open {
    fn new(folder: &Folder, name: &str) -> Self {
        let path = folder.0.join(name);
        let ring = Ring::create(&path, CAPACITY, Durability::PageCache).unwrap();
        let (mut producer, mut consumer) = (ring.producer().unwrap(), ring.consumer().unwrap());
        (0..ENTRIES).for_each(|number| producer.push(&[number]).unwrap());
        consumer.read().unwrap().pop_durably().unwrap();
        Self { ring, path, producer: Some(producer), consumer: Some(consumer) }
    }

    fn producer(&mut self) -> Result<&mut Producer<Mapped>, RingError> {
        if self.producer.is_none() {
            self.producer = Some(self.ring.producer()?);
        }
        Ok(self.producer.as_mut().unwrap())
    }

    fn consumer(&mut self) -> Result<&mut Consumer<Mapped>, RingError> {
        if self.consumer.is_none() {
            self.consumer = Some(self.ring.consumer()?);
        }
        Ok(self.consumer.as_mut().unwrap())
    }

    // From now on every msync fails: the file is shorter than its mapping, by a byte that nothing
    // touches.
    fn fail(&self) {
        resize(&self.path, HEAD + CAPACITY - 1);
    }

    fn fix(&self) {
        resize(&self.path, HEAD + CAPACITY);
    }

    // The head and both records, as the format has them before the indices.
    fn records(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()[..1280].to_vec()
    }
}

fn resize(path: &Path, len: usize) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len as u64).unwrap();
}

type Operation = (&'static str, fn(&mut Open) -> Result<(), RingError>);

// Everything that makes something durable.
const OPERATIONS: [Operation; 7] = [
    ("push", |open| open.producer()?.try_push(b"refused")),
    ("batch", |open| {
        let mut batch = open.producer()?.batch()?;
        batch.push(b"refused")?;
        batch.commit()
    }),
    // The first thing to be written back is the epoch.
    ("batch after a forgotten one", |open| {
        let producer = open.producer()?;
        let mut forgotten = producer.batch()?;
        forgotten.push(b"refused")?;
        std::mem::forget(forgotten);
        producer.batch().map(drop)
    }),
    ("pop durably", |open| open.consumer()?.read()?.pop_durably()),
    ("commit", |open| {
        let consumer = open.consumer()?;
        consumer.read()?.pop()?;
        consumer.commit()
    }),
    ("producer", |open| {
        open.producer = None;
        open.producer().map(drop)
    }),
    ("consumer", |open| {
        open.consumer = None;
        open.consumer().map(drop)
    }),
];

fn must_be_lost((name, operation): Operation, open: &mut Open, when: &str) {
    let result = operation(open);
    assert!(matches!(result, Err(RingError::Lost(_))), "{name} {when}: {result:?}");
}

#[test]
fn each_operation_of_a_ring_tells_that_writing_back_failed() {
    let Some(folder) = Folder::new("ring-tells") else { return };
    for operation in OPERATIONS {
        let mut open = Open::new(&folder, operation.0);
        open.fail();
        must_be_lost(operation, &mut open, "where writing back fails");
    }
}

// What was lost is not known, so neither side may rest on anything, even if writing back works
// again.
#[test]
fn after_a_failure_neither_side_of_a_ring_goes_on() {
    let Some(folder) = Folder::new("ring-stays") else { return };
    for first in OPERATIONS {
        for second in OPERATIONS {
            let mut open = Open::new(&folder, &format!("{}, {}", first.0, second.0));
            open.fail();
            must_be_lost(first, &mut open, "where writing back fails");
            open.fix();
            must_be_lost(second, &mut open, &format!("after {} failed", first.0));
        }
    }
}

// A failed write may have left one slot of a record torn on the medium: the other one must stay.
#[test]
fn after_a_failure_no_record_is_written_over() {
    let Some(folder) = Folder::new("ring-records") else { return };
    for first in OPERATIONS {
        let mut open = Open::new(&folder, first.0);
        open.fail();
        must_be_lost(first, &mut open, "where writing back fails");
        let records = open.records();
        for second in OPERATIONS {
            _ = second.1(&mut open);
            assert!(open.records() == records, "{} after {} writes a record", second.0, first.0);
        }
        (open.producer, open.consumer) = (None, None);
        assert!(open.records() == records, "dropping the sides after {} writes a record", first.0);
        // Everything acknowledged is there when it is opened again: pushed, and popped but for the
        // last one.
        open.fix();
        let path = open.path.clone();
        drop(open);
        let ring = Ring::open(&path, Durability::PageCache).unwrap();
        let mut there = Vec::new();
        let scanned = ring.consumer().unwrap().scan(|entry| {
            there.push(entry.to_vec());
            std::ops::ControlFlow::Continue(())
        });
        scanned.unwrap();
        there.retain(|entry| entry != b"refused");
        let all: Vec<Vec<u8>> = (1..ENTRIES).map(|number| vec![number]).collect();
        assert!(there == all || there == all[1..], "{there:?} after {}", first.0);
    }
}
