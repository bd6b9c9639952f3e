//! The group of the threads that wait for a sync, through every interleaving of two and three
//! threads: a store is reported as durable only when a sync that began after it has
//! ended.

use std::ops::Range;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use ringfence_persist::region::group::{Group, Meeting, Turn, commit};

struct File {
    group: Mutex<Group<&'static str>>,
    changed: Condvar,
    // What threads store, and what a sync has found there when it began.
    stored: [AtomicU64; 3],
    durable: [AtomicU64; 3],
}

impl Meeting<&'static str> for File {
    fn until<T>(&self, mut look: impl FnMut(&mut Group<&'static str>) -> Option<T>) -> T {
        let mut group = self.group.lock().unwrap();
        loop {
            if let Some(seen) = look(&mut group) {
                return seen;
            }
            group = self.changed.wait(group).unwrap();
        }
    }

    fn change(&self, change: impl FnOnce(&mut Group<&'static str>)) {
        change(&mut self.group.lock().unwrap());
        self.changed.notify_all();
    }
}

impl File {
    fn new() -> Arc<Self> {
        let words = || [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
        Arc::new(Self {
            group: Mutex::new(Group::default()),
            changed: Condvar::new(),
            stored: words(),
            durable: words(),
        })
    }

    // The range is of threads. What is stored from here on it does not see.
    fn sync(&self, range: Range<usize>) -> Result<(), &'static str> {
        let found: Vec<u64> = self.stored.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        for thread in range {
            self.durable[thread].fetch_max(found[thread], Ordering::Relaxed);
        }
        Ok(())
    }
}

fn explore(threads: usize, commits: u64, by: fn(&File, Range<usize>) -> Result<(), &'static str>) {
    let mut model = loom::model::Builder::new();
    // Two commits in every way there is; more of them in every way that interrupts threads so
    // often.
    model.preemption_bound = (threads as u64 * commits > 2).then_some(3);
    model.check(move || {
        let file = File::new();
        let run = move |file: &File, thread: usize| {
            for number in 1..=commits {
                file.stored[thread].store(number, Ordering::Relaxed);
                by(file, thread..thread + 1).unwrap();
                assert!(file.durable[thread].load(Ordering::Relaxed) >= number, "told too early");
            }
        };
        let others: Vec<_> = (1..threads)
            .map(|thread| {
                let file = file.clone();
                loom::thread::spawn(move || run(&file, thread))
            })
            .collect();
        run(&file, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
        let begun = file.group.lock().unwrap().begun();
        assert!((1..=threads as u64 * commits).contains(&begun), "{begun}");
    });
}

fn in_the_group(file: &File, range: Range<usize>) -> Result<(), &'static str> {
    commit(file, range, |range| file.sync(range))
}

#[test]
fn two_threads_that_commit_once() {
    explore(2, 1, in_the_group);
}

#[test]
fn two_threads_that_commit_twice() {
    explore(2, 2, in_the_group);
}

#[test]
fn three_threads_that_commit_once() {
    explore(3, 1, in_the_group);
}

// The same, with the fault that tempts: a thread that comes while a sync is under way takes that
// one for its own.
#[test]
#[should_panic(expected = "told too early")]
fn taking_the_sync_that_is_under_way_is_found() {
    explore(2, 1, |file, range| {
        let mut joined = None;
        let turn = file.until(|group| {
            let before = group.begun();
            let number = *joined.get_or_insert_with(|| {
                let number = group.join(range.clone());
                if before > 0 { before } else { number }
            });
            group.turn(number)
        });
        match turn {
            Turn::Over(result) => result,
            Turn::Sync(range) => {
                let result = file.sync(range);
                file.change(|group| group.end(result));
                result
            }
        }
    });
}
