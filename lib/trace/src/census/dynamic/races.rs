//! Lines to which two threads stored without order between them.
//!
//! A store races with the last store before it to the same line if another thread made that one,
//! and neither thread has executed a fence or a locked instruction, or called `msync`, since.
//! Locked instructions race with nothing, as they are in order with whatever comes before and after
//! (Intel SDM volume 3A, section 8.2.3.9). Whether it is an error depends: threads may own parts of
//! a line of their own. But what a crash leaves of such a line is as unsure as its order.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::lines::Number;

#[derive(Debug, Clone, Copy)]
struct Last {
    thread: u32,
    sequence: u64,
    site: u32,
}

#[derive(Debug, Default)]
struct Thread {
    // Lines that it stored to since it last ordered its stores.
    lines: FxHashSet<Number>,
    ordered: Option<u64>,
}

/// Stores that no order of their thread has come behind, and what was found.
#[derive(Debug, Default)]
pub struct Races {
    last: FxHashMap<Number, Last>,
    threads: FxHashMap<u32, Thread>,
    /// By the two sites, in the order of their stores: how often, and the first line.
    pub found: BTreeMap<(u32, u32), (u64, Number)>,
}

impl Races {
    /// A thread stored to a line.
    pub fn store(&mut self, number: Number, thread: u32, sequence: u64, site: u32) {
        let own = self.threads.entry(thread).or_default();
        own.lines.insert(number);
        let Some(before) = self.last.insert(number, Last { thread, sequence, site }) else {
            return;
        };
        let ordered = own.ordered.is_some_and(|ordered| ordered > before.sequence);
        if before.thread != thread && !ordered {
            self.found.entry((before.site, site)).or_insert((0, number)).0 += 1;
        }
    }

    /// A thread's locked instruction stored to a line.
    pub fn store_in_order(&mut self, number: Number) {
        self.last.remove(&number);
    }

    /// A thread ordered its stores.
    pub fn order(&mut self, thread: u32, sequence: u64) {
        let own = self.threads.entry(thread).or_default();
        own.ordered = Some(sequence);
        for number in own.lines.drain() {
            if self.last.get(&number).is_some_and(|last| last.thread == thread) {
                self.last.remove(&number);
            }
        }
    }
}
