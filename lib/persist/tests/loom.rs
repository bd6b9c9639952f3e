//! The index protocol through every interleaving of two threads, and every value that the memory
//! model lets them see: no entry is read before it is written, none is written over before it is
//! read, all come in order.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use ringfence_persist::ring::index::{Ahead, Behind, Shared};

struct Word(AtomicU64);

impl Shared for Word {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
    fn put(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}

const CAPACITY: u64 = 2;
const START: u64 = 7;

struct Ring {
    published: Word,
    freed: Word,
    // loom reports an access to a cell that races with another.
    cells: [UnsafeCell<u64>; CAPACITY as usize],
}

impl Ring {
    fn new() -> Arc<Self> {
        let word = || Word(AtomicU64::new(START));
        Arc::new(Self {
            published: word(),
            freed: word(),
            cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn cell(&self, position: u64) -> &UnsafeCell<u64> {
        &self.cells[(position % CAPACITY) as usize]
    }
}

fn push(ring: &Ring, ahead: &mut Ahead, entries: u64) -> bool {
    let from = ahead.published();
    if !ahead.has_room(from + entries, &ring.freed).unwrap() {
        return false;
    }
    for position in from..from + entries {
        // SAFETY: loom checks that no other thread has it now.
        ring.cell(position).with_mut(|cell| unsafe { *cell = position });
    }
    ahead.publish(from + entries, &ring.published);
    true
}

fn pop(ring: &Ring, behind: &mut Behind, give_back: bool) -> Option<u64> {
    if behind.readable(&ring.published).unwrap() == 0 {
        return None;
    }
    let position = behind.read();
    // SAFETY: loom checks that no other thread writes it now.
    let value = ring.cell(position).with(|cell| unsafe { *cell });
    assert_eq!(value, position);
    behind.advance(position + 1);
    if give_back {
        behind.give_back(&ring.freed);
    }
    Some(value)
}

fn explore(entries: u64, batch: u64, lazy: bool) {
    loom::model(move || {
        let ring = Ring::new();
        let other = ring.clone();
        let producer = loom::thread::spawn(move || {
            let mut ahead = Ahead::new(START, START, CAPACITY);
            while ahead.published() < START + entries {
                if !push(&other, &mut ahead, batch) {
                    loom::thread::yield_now();
                }
            }
        });
        let mut behind = Behind::new(START, CAPACITY);
        while behind.read() < START + entries {
            // Lazily: only every second one gives its space back.
            let give_back = !lazy || behind.read().is_multiple_of(2);
            if pop(&ring, &mut behind, give_back).is_none() {
                loom::thread::yield_now();
            }
        }
        producer.join().unwrap();
    });
}

#[test]
fn one_by_one() {
    explore(3, 1, false);
}

#[test]
fn in_batches() {
    explore(4, 2, false);
}

#[test]
fn with_a_lazy_consumer() {
    explore(3, 1, true);
}

// The same, with the fault that the slides' ring has: published before it is written.
#[test]
#[should_panic(expected = "Causality violation")]
fn publishing_first_is_found() {
    loom::model(|| {
        let ring = Ring::new();
        let other = ring.clone();
        let producer = loom::thread::spawn(move || {
            let mut ahead = Ahead::new(START, START, CAPACITY);
            assert!(ahead.has_room(START + 1, &other.freed).unwrap());
            ahead.publish(START + 1, &other.published);
            // SAFETY: loom finds that the consumer may have it.
            other.cell(START).with_mut(|cell| unsafe { *cell = START });
        });
        let mut behind = Behind::new(START, CAPACITY);
        while behind.readable(&ring.published).unwrap() == 0 {
            loom::thread::yield_now();
        }
        // SAFETY: as above.
        ring.cell(START).with(|cell| unsafe { *cell });
        producer.join().unwrap();
    });
}
