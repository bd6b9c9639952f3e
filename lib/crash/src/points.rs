//! The moments at which a crash makes a difference, and what each can leave.

use std::sync::Arc;

use ringfence_crashcheck::{Kind, Leaves, Recorded, Unit, WrittenBack};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::image::{Image, overlaid};
use crate::program::{Did, Program};

/// A moment at which the program may crash.
#[derive(Debug)]
pub struct Point {
    /// So many of the program's steps were done.
    pub steps: usize,
    /// So many acknowledgements were printed.
    pub acknowledged: usize,
    /// What a crash leaves then.
    pub leaves: Leaves,
    /// Words that became certain since the point before: their places, and contents.
    pub certain: Vec<(usize, u64)>,
    /// Places of words that are open.
    pub open: Arc<[u32]>,
    /// The sizes of the files.
    pub sizes: Vec<u64>,
}

/// Where the program crashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// Acknowledgements before it.
    pub acknowledged: usize,
    /// The instruction that it had come to; none at its end.
    pub before: Option<u32>,
    /// Whether it was just behind the last acknowledgement.
    pub is_behind_acknowledgement: bool,
}

/// The way in which some units of a point came out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Choice(pub Vec<(Unit, u32)>);

impl Point {
    /// What is there if all units are decided: those of the choice as it says, then all others as
    /// new as they can be.
    pub fn decided(&self, choice: &Choice) -> Leaves {
        let mut leaves = self.leaves.clone();
        for (unit, way) in &choice.0 {
            // What was decided before may have left fewer ways.
            let ways = leaves.ways(*unit);
            leaves.decide(*unit, (*way).min(ways - 1));
        }
        newest(leaves)
    }

    /// The choice that decides everything so.
    pub fn choice(&self, decided: &Leaves) -> Choice {
        let way = |unit: Unit| (unit, decided.way_in(&self.leaves, unit));
        Choice(self.leaves.units().into_iter().map(way).collect())
    }

    /// The image that this makes, over what is certain.
    pub fn image(
        &self,
        certain: &Image,
        initial: &[u64],
        words: &[usize],
        leaves: &Leaves,
    ) -> Image {
        let mut image = certain.clone();
        image.sizes.clone_from(&self.sizes);
        for place in self.open.iter().map(|place| *place as usize) {
            if let Some(content) = content(leaves, words[place], initial[place]) {
                image.words[place] = content;
            }
        }
        image
    }
}

/// Everything that is open becomes as new as it can be.
pub fn newest(mut leaves: Leaves) -> Leaves {
    for unit in leaves.units() {
        let ways = leaves.ways(unit);
        leaves.decide(unit, ways - 1);
    }
    leaves
}

/// What a word holds, if that is decided.
fn content(leaves: &Leaves, word: usize, initial: u64) -> Option<u64> {
    let (stored, mask) = leaves.word(word)?;
    Some(overlaid(initial, stored, mask))
}

/// All moments at which a crash makes a difference: just before something becomes durable, behind
/// each acknowledgement, and at the end.
pub fn points(program: &Program, written_back: WrittenBack) -> Vec<Point> {
    let mut walk = Walk::new(program, written_back);
    for (number, step) in program.steps.iter().enumerate() {
        if walk.fresh && walk.settles(step.did, step.thread) {
            walk.point(number);
        }
        walk.step(step.did, step.thread);
        if matches!(step.did, Did::Acknowledged(_)) {
            walk.point(number + 1);
        }
    }
    if walk.fresh {
        walk.point(program.steps.len());
    }
    walk.points
}

struct Walk<'p> {
    program: &'p Program,
    by_lines: bool,
    recorded: Recorded,
    points: Vec<Point>,
    sizes: Vec<u64>,
    acknowledged: usize,
    open: FxHashSet<usize>,
    // Whether anything happened since the last point.
    fresh: bool,
    // Which threads have something to wait for.
    waiting: FxHashMap<u32, bool>,
}

impl<'p> Walk<'p> {
    fn new(program: &'p Program, written_back: WrittenBack) -> Self {
        Self {
            program,
            by_lines: matches!(written_back, WrittenBack::ByLines(_)),
            recorded: Recorded::new(written_back),
            points: Vec::new(),
            sizes: program.files.iter().map(|file| file.size).collect(),
            acknowledged: 0,
            open: FxHashSet::default(),
            fresh: true,
            waiting: FxHashMap::default(),
        }
    }

    // Whether it may make something durable.
    fn settles(&self, did: Did, thread: u32) -> bool {
        match did {
            Did::Instruction(kind) if self.by_lines => {
                kind.is_boundary() && self.waiting.get(&thread).copied().unwrap_or(false)
            }
            Did::Instruction(_) | Did::SyncBegins(..) | Did::Acknowledged(_) => false,
            Did::SyncEnds(_) | Did::Size(..) => true,
        }
    }

    fn step(&mut self, did: Did, thread: u32) {
        match did {
            Did::Instruction(kind) => {
                self.recorded.step(thread, kind);
                let waits = match kind {
                    Kind::Stream(_) | Kind::Flush(_) | Kind::Flushopt(_) => Some(true),
                    kind if kind.is_boundary() => Some(false),
                    _ => None,
                };
                if let Some(waits) = waits {
                    self.waiting.insert(thread, waits);
                }
                self.fresh |= kind.write().is_some();
            }
            Did::SyncBegins(call, from, end) => self.recorded.sync_begins(call, from..end),
            Did::SyncEnds(call) => self.recorded.sync_ends(call),
            Did::Size(file, size) => {
                self.sizes[file] = size;
                self.fresh = true;
            }
            Did::Acknowledged(number) => self.acknowledged = number + 1,
        }
    }

    fn point(&mut self, steps: usize) {
        self.fresh = false;
        let leaves = self.recorded.leaves();
        let mut certain = Vec::new();
        let places =
            self.recorded.changed().into_iter().filter_map(|word| self.program.place(word));
        for place in places {
            match content(&leaves, self.program.words[place], self.program.initial[place]) {
                Some(content) => {
                    self.open.remove(&place);
                    certain.push((place, content));
                }
                None => _ = self.open.insert(place),
            }
        }
        let mut open: Vec<u32> = self.open.iter().map(|place| *place as u32).collect();
        open.sort_unstable();
        self.points.push(Point {
            steps,
            acknowledged: self.acknowledged,
            leaves,
            certain,
            open: open.into(),
            sizes: self.sizes.clone(),
        });
    }
}
