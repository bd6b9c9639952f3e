//! Flushes, fences and syncs that would make crashes impossible: tried on the recorded steps.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_crashcheck::{Kind, Profile, Recorded, Unit, WORD, WrittenBack};
use serde::{Deserialize, Serialize};

use crate::points::Point;
use crate::program::{Did, Program, Step};

/// What is added to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashAdded"))]
#[serde(rename_all = "snake_case")]
pub enum Added {
    /// An sfence.
    Fence,
    /// A flush of each line that was stored to, and an sfence.
    FlushAndFence,
    /// An msync of what was stored.
    Sync,
}

/// A change of the program, and what becomes of crashes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// What is added.
    pub added: Added,
    /// The instruction after which it is added, each time that it executes.
    pub after: u32,
    /// The instructions whose stores it flushes or syncs: those since the thread's last fence.
    pub stores: BTreeSet<u32>,
}

/// A crash that fails: a point, and the units that have to come out in these ways for it.
pub type Failing = (usize, Vec<(Unit, u32)>);

/// What may help against the loss of stores: `flushes` are those that had begun.
pub fn candidates(
    written_back: WrittenBack,
    stores: &BTreeSet<u32>,
    flushes: &BTreeSet<u32>,
) -> Vec<Remedy> {
    let after = |added, site: &u32| Remedy { added, after: *site, stores: stores.clone() };
    let of_stores = match written_back {
        WrittenBack::BySectors(_) => Added::Sync,
        WrittenBack::ByLines(Profile::Eadr) => Added::Fence,
        WrittenBack::ByLines(_) => Added::FlushAndFence,
    };
    let fences = flushes.iter().map(|site| after(Added::Fence, site));
    let is_known = |remedy: &Remedy| remedy.after != 0;
    fences.chain(stores.iter().map(|site| after(of_stores, site))).filter(is_known).collect()
}

impl Remedy {
    /// Which crashes it makes impossible. These have to be in the order of their points.
    pub fn prevents<'c>(
        &self,
        program: &Program,
        written_back: WrittenBack,
        points: &[Point],
        crashes: impl Iterator<Item = &'c Failing>,
    ) -> Vec<bool> {
        let mut tried = Tried::new(self, written_back);
        let is_last = lasts(program);
        let (mut prevented, mut done) = (Vec::new(), 0);
        let mut leaves = tried.recorded.leaves();
        for (number, units) in crashes {
            let point = &points[*number];
            if done < point.steps {
                (done..point.steps).for_each(|at| tried.step(program, at, is_last[at]));
                (done, leaves) = (point.steps, tried.recorded.leaves());
            }
            let is_lost =
                |(unit, way): &(Unit, u32)| leaves.loses_as_much(&point.leaves, *unit, *way);
            prevented.push(!units.iter().all(is_lost));
        }
        prevented
    }
}

// Whether each step is the last one of its instruction: a store may be several, and nothing can be
// added in the middle of it.
fn lasts(program: &Program) -> Vec<bool> {
    let mut next: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    let last = |step: &Step| {
        let own = match step.did {
            Did::Instruction(_) => Some(step.site),
            // It has the number of what came before it.
            Did::SyncBegins(..) => return false,
            Did::SyncEnds(_) | Did::Size(..) | Did::Acknowledged(_) => None,
        };
        next.insert(step.thread, own) != Some(own) && own.is_some()
    };
    let mut lasts: Vec<bool> = program.steps.iter().rev().map(last).collect();
    lasts.reverse();
    lasts
}

struct Tried<'r> {
    remedy: &'r Remedy,
    recorded: Recorded,
    // Words that each thread has stored to since its last fence.
    pending: BTreeMap<u32, BTreeSet<usize>>,
}

// Not the number of any call of a recording: it is over before another begins.
const CALL: u32 = (1 << 31) - 1;
const PAGE: usize = 4096;

impl<'r> Tried<'r> {
    fn new(remedy: &'r Remedy, written_back: WrittenBack) -> Self {
        Self { remedy, recorded: Recorded::new(written_back), pending: BTreeMap::new() }
    }

    fn step(&mut self, program: &Program, at: usize, is_last: bool) {
        let step = program.steps[at];
        match step.did {
            Did::Instruction(kind) => {
                self.recorded.step(step.thread, kind);
                let pending = self.pending.entry(step.thread).or_default();
                if kind.is_boundary() && kind.write().is_none() {
                    pending.clear();
                }
                if let Some(write) = kind.write()
                    && self.remedy.stores.contains(&step.site)
                {
                    pending.insert(write.word);
                }
            }
            Did::SyncBegins(call, from, end) => self.recorded.sync_begins(call, from..end),
            Did::SyncEnds(call) => self.recorded.sync_ends(call),
            Did::Size(..) | Did::Acknowledged(_) => {}
        }
        if is_last && step.site == self.remedy.after {
            self.add(step.thread);
        }
    }

    fn add(&mut self, thread: u32) {
        let words = self.pending.remove(&thread).unwrap_or_default();
        match self.remedy.added {
            Added::Fence => {}
            Added::FlushAndFence => {
                let lines: BTreeSet<usize> = words.iter().map(|word| word * WORD / 64).collect();
                lines.iter().for_each(|line| self.recorded.step(thread, Kind::Flushopt(*line)));
            }
            Added::Sync => {
                let pages: BTreeSet<usize> = words.iter().map(|word| word * WORD / PAGE).collect();
                for page in pages {
                    self.recorded.sync_begins(CALL, page * PAGE..(page + 1) * PAGE);
                    self.recorded.sync_ends(CALL);
                }
                return;
            }
        }
        self.recorded.step(thread, Kind::Sfence);
    }
}

#[cfg(test)]
mod tests {
    use ringfence_crashcheck::Write;

    use super::*;
    use crate::points::points;
    use crate::program::Acknowledged;

    const LINES: WrittenBack = WrittenBack::ByLines(Profile::Amd);

    fn store(site: u32, word: usize) -> Step {
        let write = Write { word, bytes: [1; WORD], mask: 0xff };
        Step { thread: 0, site, did: Did::Instruction(Kind::Store(write)) }
    }

    fn plain(site: u32, kind: Kind) -> Step {
        Step { thread: 0, site, did: Did::Instruction(kind) }
    }

    // A program that prints a line in the end.
    fn program(mut steps: Vec<Step>) -> Program {
        steps.push(Step { thread: 0, site: 0, did: Did::Acknowledged(0) });
        let mut words: Vec<usize> = steps
            .iter()
            .filter_map(|step| match step.did {
                Did::Instruction(kind) => kind.write().map(|write| write.word),
                _ => None,
            })
            .collect();
        words.sort_unstable();
        words.dedup();
        let acknowledged = vec![Acknowledged { lines: vec!["done".into()], thread: 0 }];
        Program { steps, initial: vec![0; words.len()], words, acknowledged, ..Program::default() }
    }

    // Whether a remedy prevents that everything open at the last point is lost.
    fn prevents(
        program: &Program,
        written_back: WrittenBack,
        added: Added,
        after: u32,
        stores: &[u32],
    ) -> bool {
        let points = points(program, written_back);
        let last = points.len() - 1;
        let lost = points[last].leaves.units().into_iter().map(|unit| (unit, 0)).collect();
        let remedy = Remedy { added, after, stores: stores.iter().copied().collect() };
        remedy.prevents(program, written_back, &points, [&(last, lost)].into_iter())[0]
    }

    #[test]
    fn what_is_missing_helps_and_nothing_else() {
        let unflushed = program(vec![store(1, 0)]);
        assert!(prevents(&unflushed, LINES, Added::FlushAndFence, 1, &[1]));
        assert!(!prevents(&unflushed, LINES, Added::Fence, 1, &[1]));
        assert!(!prevents(&unflushed, LINES, Added::FlushAndFence, 1, &[2]), "another store");
        let unfenced = program(vec![store(1, 0), plain(2, Kind::Flushopt(0))]);
        assert!(prevents(&unfenced, LINES, Added::Fence, 2, &[]));
        let pages = WrittenBack::BySectors(512);
        assert!(prevents(&unflushed, pages, Added::Sync, 1, &[1]));
        assert!(!prevents(&unflushed, pages, Added::FlushAndFence, 1, &[1]));
    }

    #[test]
    fn nothing_is_added_within_an_instruction() {
        // It stores to two lines.
        let both = program(vec![store(1, 7), store(1, 8), store(2, 16)]);
        let points = points(&both, LINES);
        let lost = |line: usize| (0, vec![(Unit::Group(line), 0)]);
        let remedy = Remedy { added: Added::FlushAndFence, after: 1, stores: [1].into() };
        let crashes = [lost(0), lost(1), lost(2)];
        let prevented = remedy.prevents(&both, LINES, &points, crashes.iter());
        assert_eq!(prevented, [true, true, false]);
        assert_eq!(lasts(&both), [false, true, true, false]);
    }

    #[test]
    fn stores_before_a_fence_are_another_matter() {
        let two = program(vec![store(1, 0), plain(3, Kind::Sfence), store(2, 8)]);
        assert!(!prevents(&two, LINES, Added::FlushAndFence, 2, &[1]));
    }
}
