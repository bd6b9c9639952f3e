//! One sync for all waiting threads: threads that share a file take turns. A thread that arrives
//! during a sync is covered by the next one, together with all others that arrived meanwhile.
//!
//! A sync makes durable what was stored before it began, and guarantees nothing for what was stored
//! while it ran. So a thread that joins is covered by a sync that *begins* after it has joined,
//! never by one in progress. There is one sync at a time: the kernel reports a failed write to one
//! caller (fsync(2)), and all threads that wait for it must hear of it.
//!
//! It is written over [`Meeting`], so that `loom` runs it through every interleaving
//! (`tests/loom.rs`).

use std::ops::Range;

/// Which thread waits for which sync. Syncs are numbered from 1, in the order in which they begin.
#[derive(Debug)]
pub struct Group<E> {
    begun: u64,
    // Every sync up to this one has succeeded.
    done: u64,
    under_way: bool,
    // What the next one is to cover.
    wanted: Option<Range<usize>>,
    // The first failure, which stays.
    lost: Option<E>,
}

/// What a thread that has joined does.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn<E> {
    /// Nothing more: a sync that began after it had joined is done, or one has failed.
    Over(Result<(), E>),
    /// Syncs, at least this range, and then says so by [`Group::end`].
    Sync(Range<usize>),
}

impl<E> Default for Group<E> {
    fn default() -> Self {
        Self { begun: 0, done: 0, under_way: false, wanted: None, lost: None }
    }
}

impl<E: Clone> Group<E> {
    /// Asks for a range, whose stores were made before. The number of the sync that covers it.
    pub fn join(&mut self, range: Range<usize>) -> u64 {
        self.wanted = Some(match self.wanted.take() {
            None => range,
            Some(known) => hull(known, range),
        });
        self.begun + 1
    }

    /// What a thread that waits for a sync does now; `None`: it keeps waiting.
    pub fn turn(&mut self, number: u64) -> Option<Turn<E>> {
        if self.done >= number {
            return Some(Turn::Over(Ok(())));
        }
        if let Some(lost) = &self.lost {
            return Some(Turn::Over(Err(lost.clone())));
        }
        if self.under_way {
            return None;
        }
        self.under_way = true;
        self.begun += 1;
        self.wanted.take().map(Turn::Sync)
    }

    /// The sync that was under way has ended.
    pub fn end(&mut self, result: Result<(), E>) {
        self.under_way = false;
        match result {
            Ok(()) => self.done = self.begun,
            Err(error) => self.lost = Some(error),
        }
    }

    /// Number of syncs that have started.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether every sync so far succeeded.
    ///
    /// # Errors
    /// The first failure.
    pub fn health(&self) -> Result<(), E> {
        self.lost.clone().map_or(Ok(()), Err)
    }
}

/// The least range that holds both.
pub fn hull(one: Range<usize>, other: Range<usize>) -> Range<usize> {
    one.start.min(other.start)..one.end.max(other.end)
}

/// Where the group is, for several threads.
pub trait Meeting<E> {
    /// Looks, alone in the group, again and again after others have changed something, until there
    /// is something to see.
    fn until<T>(&self, look: impl FnMut(&mut Group<E>) -> Option<T>) -> T;
    /// Changes something, alone in the group, and wakes all threads that wait.
    fn change(&self, change: impl FnOnce(&mut Group<E>));
}

/// Makes a range durable: by `sync`, which is given a range that holds it and those of others, or
/// by another thread's sync that begins from here on.
///
/// # Errors
/// The first failure of any sync of the group; it stays.
pub fn commit<E: Clone>(
    meeting: &impl Meeting<E>,
    range: Range<usize>,
    sync: impl FnOnce(Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let mut joined = None;
    let turn = meeting.until(|group| {
        let number = *joined.get_or_insert_with(|| group.join(range.clone()));
        group.turn(number)
    });
    match turn {
        Turn::Over(result) => result,
        Turn::Sync(range) => {
            let result = sync(range);
            meeting.change(|group| group.end(result.clone()));
            result
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_during_a_sync_is_covered_by_the_next() {
        let mut group = Group::<&str>::default();
        let first = group.join(64..128);
        assert_eq!(group.turn(first), Some(Turn::Sync(64..128)));
        let (second, third) = (group.join(0..8), group.join(256..512));
        assert_eq!((group.turn(second), group.turn(third)), (None, None));
        group.end(Ok(()));
        // One of them for both.
        assert_eq!(group.turn(third), Some(Turn::Sync(0..512)));
        assert_eq!(group.turn(second), None);
        group.end(Ok(()));
        assert_eq!(group.turn(second), Some(Turn::Over(Ok(()))));
        assert_eq!((group.begun(), group.health()), (2, Ok(())));
    }

    #[test]
    fn a_failure_is_told_to_all_who_wait_and_stays() {
        let mut group = Group::default();
        let before = group.join(0..8);
        assert_eq!(group.turn(before), Some(Turn::Sync(0..8)));
        group.end(Ok(()));
        let (one, other) = (group.join(0..8), group.join(8..16));
        assert_eq!(group.turn(one), Some(Turn::Sync(0..16)));
        let late = group.join(16..24);
        group.end(Err("gone"));
        for number in [one, other, late] {
            assert_eq!(group.turn(number), Some(Turn::Over(Err("gone"))));
        }
        // What was durable before stays so.
        assert_eq!(group.turn(before), Some(Turn::Over(Ok(()))));
        assert_eq!((group.begun(), group.health()), (2, Err("gone")));
    }
}
