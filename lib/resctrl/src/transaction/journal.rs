//! The journal of a transaction: the previous state, and its steps.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_system::changes::journal::{self, Head};
use serde::{Deserialize, Serialize};

use super::step::Step;
use crate::id::GroupId;
use crate::kernel::{Identity, Thread};
use crate::state::State;

/// The version of the format.
pub const SCHEMA: u32 = 1;

/// A line that records that the kernel refused the last step: it was not done.
pub const REFUSED: &str = "refused";

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`], the boot, the program and what it is for.
    #[serde(flatten)]
    pub head: Head,
    /// The mount of resctrl that it is about; journals of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Identity>,
    /// Where resctrl is mounted.
    pub place: String,
    /// Whether the transaction has mounted it.
    pub mounted: bool,
    /// The previous state.
    pub before: State,
    /// What the groups of that are known by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<GroupId, Identity>,
    /// Whether it contains only the part that could not be restored together with the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest: bool,
}

/// A journal as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its first line.
    pub header: Header,
    /// Its steps, the last of which may not have been taken.
    pub steps: Vec<Step>,
    /// What groups are known by that were made.
    pub made: BTreeMap<GroupId, Identity>,
    // Those that were to be made last and may not have been.
    unsure: BTreeSet<GroupId>,
    /// Where threads were when they were moved that began after the first line was written; in the
    /// default group where nothing is said.
    pub from: BTreeMap<Thread, GroupId>,
    /// The numbers, from 1, of lines that make no sense.
    pub damaged: Vec<usize>,
}

impl Record {
    /// One without steps.
    pub fn new(header: Header) -> Self {
        let (made, unsure) = (BTreeMap::new(), BTreeSet::new());
        Self { header, steps: Vec::new(), made, unsure, from: BTreeMap::new(), damaged: Vec::new() }
    }

    /// A step is about to be taken.
    pub fn step(&mut self, step: Step) {
        if let Step::Create { group } = &step {
            self.unsure.insert(group.clone());
        }
        self.steps.push(step);
    }

    /// The last step was refused.
    pub fn refused(&mut self) {
        if let Some(Step::Create { group }) = self.steps.pop() {
            self.unsure.remove(&group);
        }
    }

    /// A group was made that is known by this.
    pub fn made(&mut self, group: GroupId, identity: Identity) {
        self.unsure.remove(&group);
        self.made.insert(group, identity);
    }

    /// Threads are about to be moved out of a group.
    pub fn from(&mut self, group: &GroupId, threads: &[Thread]) {
        for thread in threads {
            self.from.entry(*thread).or_insert_with(|| group.clone());
        }
    }

    /// The group of control that a thread was in: before, or when it was moved.
    pub fn home_of(&self, thread: Thread) -> GroupId {
        self.from.get(&thread).cloned().unwrap_or_else(|| self.header.before.control_of(thread))
    }

    /// Whether a step says that a group was to be made, and nothing what became of it.
    pub fn is_unsure(&self, group: &GroupId) -> bool {
        self.unsure.contains(group)
    }
}

/// A line that is not a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "note")]
pub enum Note {
    /// What a group is known by that was just made.
    Made {
        /// Which.
        group: GroupId,
        /// That.
        identity: Identity,
    },
    /// Where threads were that are about to be moved and began after everything was written down.
    From {
        /// Where.
        group: GroupId,
        /// Which.
        threads: Vec<Thread>,
    },
}

impl journal::Record for Record {
    type Header = Header;
    const SCHEMA: u32 = SCHEMA;
    const ABOUT: &'static str = "resctrl";

    fn begin(header: Header) -> Self {
        Self::new(header)
    }

    fn line(&mut self, line: &str) -> bool {
        if let Ok(step) = serde_json::from_str(line) {
            self.step(step);
        } else if serde_json::from_str::<&str>(line).is_ok_and(|word| word == REFUSED) {
            self.refused();
        } else if let Ok(note) = serde_json::from_str(line) {
            match note {
                Note::Made { group, identity } => self.made(group, identity),
                Note::From { group, threads } => self.from(&group, &threads),
            }
        } else {
            return false;
        }
        true
    }

    fn damaged(&mut self, number: usize) {
        self.damaged.push(number);
    }
}
