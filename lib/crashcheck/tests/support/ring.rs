//! A ring of the persistence library under check: a life of it, and what must hold after a crash:
//! whatever was acknowledged is there, whole, in order, once; what was not may be there, a first
//! part of it, and never comes once it was seen not to be.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use ringfence_crashcheck::{Check, Machine, Profile};
use ringfence_persist::Memory;
use ringfence_persist::ring::{Consumer, Producer, RingError, Shape, format, recover};

const ENTRIES: usize = 4096;

/// What a program does with a ring, and what it goes on with behind each recovery.
#[derive(Debug, Clone)]
pub struct Life {
    /// Lines of 64 bytes.
    pub lines: usize,
    pub grain: usize,
    pub nt_threshold: usize,
    /// How long entries are: the first one as the first of these, and around.
    pub lens: Vec<usize>,
    pub steps: Vec<Step>,
    pub next: Vec<Step>,
}

/// What cannot be done, such as popping where nothing is, is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Push,
    /// A push that must find no room.
    Full,
    /// So many entries under one fence.
    Batch(usize),
    /// The same, dropped without a commit.
    Abandoned(usize),
    Pop,
    PopDurably,
    Commit,
    /// Another producer after the one that is there.
    NewProducer,
    /// Another consumer after the one that is there, which goes without making its cursor durable.
    NewConsumer,
    /// Both sides leave, the consumer with its cursor durable, and the ring is recovered.
    Reopen,
    /// An empty ring in its place.
    Remake,
}

use Step::*;

impl Default for Life {
    fn default() -> Self {
        Self {
            lines: 6,
            grain: 64,
            nt_threshold: 0,
            // One line or two.
            lens: vec![45, 3, 60, 5],
            steps: Vec::new(),
            next: vec![PopDurably, Push],
        }
    }
}

impl Life {
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), ..Self::default() }
    }

    /// So many pushes, the fourth and fifth in a batch; once three are in, one is popped for each
    /// push, so that the ring wraps around.
    pub fn of_pushes(pushes: usize) -> Self {
        Self::new((1..=pushes).flat_map(|number| {
            let push = match number {
                4 if pushes > 4 => Some(Batch(2)),
                5 => None,
                _ => Some(Push),
            };
            push.into_iter().chain((number >= 3).then_some(PopDurably))
        }))
    }

    pub fn check(&self, profile: Profile) -> Check {
        Check::new(profile, ENTRIES + 64 * self.lines)
            .name(0..64, "head")
            .array(
                256,
                256,
                2,
                "epoch record",
                &[(0..8, "sum"), (8..16, "sequence"), (16..24, "epoch"), (24..32, "start")],
            )
            .array(
                768,
                256,
                2,
                "cursor record",
                &[(0..8, "sum"), (8..16, "sequence"), (16..24, "cursor")],
            )
            .name(1280..1288, "published")
            .name(1536..1544, "freed")
            .array(
                ENTRIES,
                64,
                self.lines,
                "line",
                &[(0..8, "sum"), (8..16, "position"), (16..24, "epoch"), (24..28, "length")],
            )
    }

    /// The program under check.
    pub fn run(&self, memory: &Machine) {
        let mut world = World::of(self, memory);
        world.make().and_then(|()| world.open()).expect("a new ring");
        for step in &self.steps {
            world.step(*step).unwrap_or_else(|error| panic!("{step:?}: {error}"));
        }
    }

    /// Opens the ring again, compares it with what was marked, and lives on.
    pub fn recovery(&self, memory: &Machine) -> Result<(), String> {
        let mut world = World::of(self, memory);
        // The head is written last: without it there is no ring yet, and with it there is one.
        if world.model.making && !memory.verify([0..56, 0..0], 0, memory.load_u64(56)) {
            return if recover(&memory).is_err() {
                Ok(())
            } else {
                Err("a ring without a head".into())
            };
        }
        world.open()?;
        self.next.iter().try_for_each(|step| world.step(*step))
    }

    fn payload(&self, number: u64) -> Vec<u8> {
        vec![number as u8; self.lens[(number as usize - 1) % self.lens.len()]]
    }
}

// What is marked, with a number of its own in the lower half.
const MAKING: u64 = 1 << 32;
const MADE: u64 = 2 << 32;
// An entry is on its way.
const BEGUN: u64 = 3 << 32;
// Whatever was on its way is acknowledged, or given up.
const PUSHED: u64 = 4 << 32;
const DROPPED: u64 = 5 << 32;
// The last one on its way found no room.
const UNDONE: u64 = 11 << 32;
// The oldest entry was taken, and will not be seen again: no entry taken so far.
const TAKEN: u64 = 6 << 32;
const GONE: u64 = 7 << 32;
// So many entries are there, says recovery; so many of those that can be there are not; so many are
// there.
const FOUND: u64 = 8 << 32;
const SKIPPED: u64 = 9 << 32;
const THERE: u64 = 10 << 32;

// What must hold, as plain data.
#[derive(Debug, Default)]
struct Model {
    // The number of the last entry.
    last: u64,
    making: bool,
    // Taken, but not known to be gone: they come back, all from some point on.
    taken: Vec<u64>,
    sure: VecDeque<u64>,
    // A first part of these is there.
    flight: Vec<u64>,
    // What a recovery said, if nothing happened since.
    found: Option<u64>,
}

impl Model {
    fn learn(&mut self, mark: u64) {
        let (kind, number) = (mark >> 32 << 32, mark & 0xffff_ffff);
        self.found = None;
        match kind {
            MAKING => self.making = true,
            MADE => *self = Self { last: self.last, ..Self::default() },
            BEGUN => {
                self.last = number;
                self.flight.push(number);
            }
            PUSHED => self.sure.extend(self.flight.drain(..)),
            DROPPED => self.flight.clear(),
            UNDONE => drop(self.flight.pop()),
            TAKEN => self.taken.extend(self.sure.pop_front()),
            GONE => self.taken.clear(),
            FOUND => self.found = Some(number),
            // Followed by how many are there.
            SKIPPED => drop(self.taken.drain(..number as usize)),
            THERE => {
                let all = self.all();
                *self = Self {
                    last: self.last,
                    sure: all[..number as usize].to_vec().into(),
                    ..Self::default()
                };
            }
            _ => unreachable!("no such mark"),
        }
    }

    // Everything that can be there.
    fn all(&self) -> Vec<u64> {
        self.taken.iter().chain(&self.sure).chain(&self.flight).copied().collect()
    }
}

struct World<'m> {
    life: &'m Life,
    memory: &'m Machine,
    model: Model,
    producer: Option<Producer<&'m Machine>>,
    consumer: Option<Consumer<&'m Machine>>,
}

impl<'m> World<'m> {
    fn of(life: &'m Life, memory: &'m Machine) -> Self {
        let mut model = Model { making: true, ..Model::default() };
        memory.marks().into_iter().for_each(|mark| model.learn(mark));
        Self { life, memory, model, producer: None, consumer: None }
    }

    fn note(&mut self, mark: u64) {
        self.memory.mark(mark);
        self.model.learn(mark);
    }

    fn make(&mut self) -> Result<(), String> {
        self.producer = None;
        self.leave();
        self.note(MAKING);
        // Drawn at random elsewhere: another one for each.
        let salt = 99 + self.model.last;
        let shape = Shape::new(64 * self.life.lines, self.life.grain, salt).map_err(told)?;
        format(self.memory, &shape).map_err(told)?;
        self.note(MADE);
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        let (_, found) = recover(&self.memory).map_err(told)?;
        if self.model.found.is_some_and(|entries| entries != found.entries) {
            return Err(format!("{found:?}, though recovery had found {:?}", self.model.found));
        }
        self.note(FOUND + found.entries);
        self.attach_consumer(true)?;
        self.attach_producer()
    }

    fn attach_producer(&mut self) -> Result<(), String> {
        self.producer = None;
        let producer = Producer::attach(self.memory).map_err(told)?;
        self.producer = Some(producer.with_nt_threshold(self.life.nt_threshold));
        Ok(())
    }

    // One that is there goes without a goodbye.
    fn attach_consumer(&mut self, recovered: bool) -> Result<(), String> {
        self.leave();
        let mut consumer = Consumer::attach(self.memory).map_err(told)?;
        let mut there = Vec::new();
        consumer
            .scan(|entry| {
                there.push(entry.to_vec());
                ControlFlow::Continue(())
            })
            .map_err(told)?;
        self.consumer = Some(consumer);
        let all: Vec<Vec<u8>> =
            self.model.all().into_iter().map(|number| self.life.payload(number)).collect();
        let Model { taken, sure, flight, making, .. } = &self.model;
        let (skips, least) = (taken.len(), taken.len() + sure.len());
        let most = if recovered { all.len() } else { least };
        // An empty ring is made, or the old one is there still.
        let fits = |skipped: &usize| {
            (least..=most).contains(&(skipped + there.len()))
                && all[*skipped..][..there.len()] == there
        };
        let Some(skipped) =
            (0..=skips).find(fits).or((*making && there.is_empty()).then_some(skips))
        else {
            let numbers: Vec<(u8, usize)> =
                there.iter().map(|entry| (entry[0], entry.len())).collect();
            return Err(format!(
                "{numbers:?} are there (with lengths); {sure:?} must be, {taken:?} can be before \
                 and {flight:?} behind"
            ));
        };
        if skips > 0 || all.len() > least || *making {
            self.note(SKIPPED + skipped as u64);
            self.note(THERE + there.len() as u64);
        }
        Ok(())
    }

    // Dropping a consumer commits; a crash does not.
    fn leave(&mut self) {
        std::mem::forget(self.consumer.take());
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Push => self.push(1, true),
            Full => {
                let sure = self.model.sure.len();
                self.push(1, true)?;
                if self.model.sure.len() == sure { Ok(()) } else { Err("there was room".into()) }
            }
            Batch(count) => self.push(count, true),
            Abandoned(count) => self.push(count, false),
            Pop => self.pop(false),
            PopDurably => self.pop(true),
            Commit => {
                self.consumer.as_mut().expect("open").commit().map_err(told)?;
                self.note(GONE);
                Ok(())
            }
            NewProducer => self.attach_producer(),
            NewConsumer => self.attach_consumer(false),
            Reopen => {
                self.producer = None;
                self.consumer = None;
                self.note(GONE);
                self.open()
            }
            Remake => {
                self.make()?;
                self.open()
            }
        }
    }

    fn push(&mut self, count: usize, commits: bool) -> Result<(), String> {
        let mut producer = self.producer.take().expect("open");
        let next = self.model.last + 1;
        let done = if count == 1 && commits {
            self.note(BEGUN + next);
            match producer.try_push(&self.life.payload(next)) {
                Err(RingError::Full) => Ok(false),
                done => done.map(|()| true),
            }
        } else {
            let mut batch = producer.batch().map_err(told)?;
            for number in next..next + count as u64 {
                self.note(BEGUN + number);
                match batch.push(&self.life.payload(number)) {
                    Err(RingError::Full) => self.note(UNDONE),
                    done => done.map_err(told)?,
                }
            }
            if commits { batch.commit().map(|()| true) } else { Ok(false) }
        };
        self.producer = Some(producer);
        let done = done.map_err(told)?;
        self.note(if done { PUSHED } else { DROPPED });
        Ok(())
    }

    fn pop(&mut self, durably: bool) -> Result<(), String> {
        let mut consumer = self.consumer.take().expect("open");
        let done = (|| {
            let Some(entry) = consumer.try_read().map_err(told)? else { return Ok(false) };
            let wanted = self.model.sure.front().map(|number| self.life.payload(*number));
            if wanted.as_ref() != Some(&entry.to_vec()) {
                return Err(format!("{:?} was read instead of {wanted:?}", entry.to_vec()));
            }
            self.note(TAKEN);
            if durably { entry.pop_durably() } else { entry.pop() }.map_err(told)?;
            Ok(true)
        })();
        self.consumer = Some(consumer);
        if done? && durably {
            self.note(GONE);
        }
        Ok(())
    }
}

fn told(error: RingError) -> String {
    error.to_string()
}

// Whatever panics elsewhere: the memory may be in no state to commit.
impl Drop for World<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
