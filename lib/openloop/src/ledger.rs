//! The questions that have no answer yet.

use std::collections::VecDeque;

use crate::answer::{Answer, Outcome};

/// How often a question is sent again. A service that closes all connections at once, or each after
/// an answer, can close several under the same question.
const MOST_AGAIN: u8 = 8;

/// The number of a question, from 0 on.
pub type Id = u64;

#[derive(Debug)]
struct Entry {
    due: u64,
    taken: u64,
    /// How often it was sent again, as its connection was closed.
    again: u8,
}

/// The questions without an answer, in the order in which they were due, and those of them that
/// wait for a connection.
#[derive(Debug, Default)]
pub struct Ledger {
    first: Id,
    entries: VecDeque<Option<Entry>>,
    waiting: VecDeque<Id>,
}

impl Ledger {
    /// A question that was due is taken up, and waits for a connection.
    pub fn ask(&mut self, due: u64, now: u64) -> Id {
        let id = self.first + self.entries.len() as u64;
        self.entries.push_back(Some(Entry { due, taken: now, again: 0 }));
        self.waiting.push_back(id);
        id
    }

    /// The question that has waited longest leaves the queue.
    pub fn next_waiting(&mut self) -> Option<Id> {
        while let Some(id) = self.waiting.pop_front() {
            if self.entry(id).is_some() {
                return Some(id);
            }
        }
        None
    }

    /// How many questions wait for a connection.
    pub fn waiting(&mut self) -> usize {
        while let Some(id) = self.waiting.front()
            && self.entry(*id).is_none()
        {
            self.waiting.pop_front();
        }
        self.waiting.len()
    }

    /// A question waits again, as its connection was closed before a byte of the answer came.
    /// `false` if that has happened to it too often.
    pub fn again(&mut self, id: Id) -> bool {
        let Some(entry) = self.entry_mut(id) else { return true };
        if entry.again == MOST_AGAIN {
            return false;
        }
        entry.again += 1;
        let at = self.waiting.partition_point(|other| *other < id);
        self.waiting.insert(at, id);
        true
    }

    /// A question is done; `None` if it was before.
    pub fn settle(&mut self, id: Id, time: u64, outcome: Outcome) -> Option<Answer> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        let entry = self.entries.get_mut(index)?.take()?;
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
        }
        Some(Answer {
            due_ns: entry.due,
            latency_ns: time.saturating_sub(entry.due),
            lag_ns: entry.taken.saturating_sub(entry.due),
            outcome,
        })
    }

    /// The question that has been without an answer for the longest time, and when it was due.
    pub fn oldest(&self) -> Option<(Id, u64)> {
        self.entries.front().and_then(Option::as_ref).map(|entry| (self.first, entry.due))
    }

    /// How many questions are without an answer.
    pub fn len(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// Whether no question is without an answer.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn entry(&self, id: Id) -> Option<&Entry> {
        self.entries.get(usize::try_from(id.checked_sub(self.first)?).ok()?)?.as_ref()
    }

    fn entry_mut(&mut self, id: Id) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(id.checked_sub(self.first)?).ok()?)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_any_order_find_their_questions() {
        let mut ledger = Ledger::default();
        let ids: Vec<Id> = (0..4).map(|n| ledger.ask(n * 100, n * 100 + 7)).collect();
        assert_eq!(ledger.oldest(), Some((0, 0)));
        let late = ledger.settle(ids[2], 250, Outcome::Answered).unwrap();
        assert_eq!((late.due_ns, late.latency_ns, late.lag_ns), (200, 50, 7));
        assert_eq!(ledger.settle(ids[2], 260, Outcome::Unanswered), None);
        ledger.settle(ids[0], 300, Outcome::Answered).unwrap();
        assert_eq!(ledger.oldest(), Some((1, 100)));
        ledger.settle(ids[1], 300, Outcome::Answered).unwrap();
        assert_eq!(ledger.oldest(), Some((3, 300)));
        assert_eq!(ledger.settle(ids[0], 300, Outcome::Answered), None);
        ledger.settle(ids[3], 301, Outcome::Unanswered).unwrap();
        assert!(ledger.is_empty());
        assert_eq!(ledger.ask(500, 500), 4);
    }

    #[test]
    fn those_that_wait_leave_in_the_order_in_which_they_were_due() {
        let mut ledger = Ledger::default();
        let ids: Vec<Id> = (0..4).map(|n| ledger.ask(n, n)).collect();
        assert_eq!(ledger.next_waiting(), Some(ids[0]));
        assert_eq!(ledger.next_waiting(), Some(ids[1]));
        ledger.settle(ids[2], 9, Outcome::Unanswered).unwrap();
        assert_eq!(ledger.waiting(), 1);
        assert!(ledger.again(ids[0]));
        assert_eq!(ledger.next_waiting(), Some(ids[0]));
        for _ in 1..MOST_AGAIN {
            assert!(ledger.again(ids[0]));
            assert_eq!(ledger.next_waiting(), Some(ids[0]));
        }
        assert!(!ledger.again(ids[0]), "a question is not sent for ever");
        assert!(ledger.again(ids[1]));
        assert_eq!(ledger.next_waiting(), Some(ids[1]));
        assert_eq!(ledger.next_waiting(), Some(ids[3]));
        assert_eq!(ledger.next_waiting(), None);
    }
}
