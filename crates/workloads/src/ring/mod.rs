//! The ring buffer: ours and those of the slides, pushed to and read by one thread.
//!
//! A task has one CPU, so the thread is producer and consumer in turn. A few entries wait in the
//! ring, as many as 4096 or a quarter of it; each portion of work pushes a batch, by one fence in
//! our ring, and then reads as many of those that have waited longest, every byte of them. What it
//! costs two cores to hand entries over is not part of this: `cargo bench -p ringfence-persist`
//! measures that.
//!
//! The consumer gives space back lazily in every ring: ours and the repaired one make its position
//! durable for a quarter of the ring at a time, the slides' others leave that to the producer, as
//! published.

pub mod baselines;

use ringfence_experiment::task::{Parameters, Ring, RingVariant};
use ringfence_persist::ring::{self, Options, Shape};
use ringfence_persist::{LINE, Mapped, Memory, Methods, Pages, Region, Request};

use self::baselines::{Bare, Kind};
use super::write::Regions;
use crate::workload::{Latencies, SetupError, Work, Workload};

// Enough for an entry's lines not to be prefetched while they are written, few enough to be pushed
// quickly through msync before anything is measured.
const WAITING: u64 = 4096;

/// A ring and both its sides: ours in one memory, or the slides' in another.
pub struct Ringer<M: Memory = Mapped, B: Memory = Bare> {
    sides: Sides<M, B>,
    payload: Payload,
    batch: u64,
    // Whether entries are read.
    reads: bool,
    pushed: u64,
    read: u64,
    failure: Option<String>,
}

enum Sides<M: Memory, B: Memory> {
    Ours { producer: Box<ring::Producer<M>>, consumer: Box<ring::Consumer<M>> },
    Theirs { producer: baselines::Producer<B>, consumer: baselines::Consumer<B> },
}

/// Bytes of memory that a task's ring takes; `None` where they cannot be counted.
pub fn bytes(task: &Ring) -> Option<usize> {
    usize::try_from(task.size.0).ok()?.checked_add(HEAD)
}

/// Which of the slides' rings a task means; `None` for ours.
pub fn kind(task: &Ring) -> Option<Kind> {
    match task.variant {
        RingVariant::Ringfence => None,
        RingVariant::Naive => Some(Kind::Naive),
        RingVariant::Optimised => Some(Kind::Optimised),
        RingVariant::Repaired => Some(Kind::Repaired),
    }
}

impl Ringer {
    /// Maps the target, makes the ring, and pushes what waits in it.
    ///
    /// # Errors
    /// Where the task makes no sense, the target cannot be had, or the medium fails.
    pub fn new(task: &Ring, regions: &mut Regions) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        regions.reserve(&task.target)?;
        let Some(len) = bytes(task) else {
            return Err(SetupError::Other(format!("size = {} cannot be mapped", task.size)));
        };
        let request = Request { medium: task.target.medium(), len, pages: Pages::Base };
        let region = Region::map(&request)?;
        let sides = match kind(task) {
            None => ours(region, len - HEAD).map_err(|error| failed(task, &error))?,
            Some(kind) => theirs(Bare::new(region, kind), kind, task),
        };
        Self::filled(task, sides)
    }
}

impl<M: Memory + Clone> Ringer<M, M> {
    /// The ring of a task in memory that no other code uses, of at least [`bytes`]. Of our ring,
    /// entries from so many bytes on are written past the caches.
    ///
    /// # Errors
    /// Where the task makes no sense.
    pub fn over(task: &Ring, memory: M, nt_threshold: usize) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        let sides = match kind(task) {
            None => over(memory, task, nt_threshold).map_err(|error| failed(task, &error))?,
            Some(kind) => theirs(memory, kind, task),
        };
        Self::filled(task, sides)
    }
}

impl<M: Memory, B: Memory> Ringer<M, B> {
    // With what waits in it.
    fn filled(task: &Ring, sides: Sides<M, B>) -> Result<Self, SetupError> {
        let (payload, batch) = (Payload::new(task.entry.0 as usize), u64::from(task.batch));
        let mut ringer =
            Self { sides, payload, batch, reads: task.read, pushed: 0, read: 0, failure: None };
        let waiting = WAITING.min(task.size.0 / task.slot() / 4);
        while ringer.pushed < waiting {
            let count = (waiting - ringer.pushed).min(64);
            ringer.push(count).map_err(|error| failed(task, &error))?;
        }
        Ok(ringer)
    }

    // Pushes so many entries: in our ring as a batch.
    fn push(&mut self, count: u64) -> Result<(), Fault> {
        let payload = &mut self.payload;
        let numbers = self.pushed..self.pushed + count;
        match &mut self.sides {
            Sides::Ours { producer, .. } if count == 1 => {
                producer.try_push(payload.of(numbers.start))?
            }
            Sides::Ours { producer, .. } => {
                let mut batch = producer.batch()?;
                numbers.into_iter().try_for_each(|number| batch.push(payload.of(number)))?;
                batch.commit()?;
            }
            Sides::Theirs { producer, .. } => {
                for number in numbers {
                    if !producer.try_push(payload.of(number)) {
                        return Err(Fault::Full);
                    }
                }
            }
        }
        self.pushed += count;
        Ok(())
    }

    // Reads so many entries, every byte of each, and takes them; or takes them unread.
    fn read(&mut self, count: u64) -> Result<(), Fault> {
        for number in self.read..self.read + count {
            match &mut self.sides {
                Sides::Ours { consumer, .. } => {
                    let entry = consumer.try_read()?.ok_or(Fault::Missing(number))?;
                    self.payload.check(number, &entry)?;
                    entry.pop()?;
                }
                Sides::Theirs { consumer, .. } if !self.reads => {
                    consumer.skip().then_some(()).ok_or(Fault::Missing(number))?;
                }
                Sides::Theirs { consumer, .. } => {
                    let entry = consumer.try_read().ok_or(Fault::Missing(number))?;
                    self.payload.check(number, &entry)?;
                    entry.pop();
                }
            }
        }
        self.read += count;
        Ok(())
    }
}

const HEAD: usize =
    if ring::layout::HEAD > baselines::HEAD { ring::layout::HEAD } else { baselines::HEAD };

fn ours<B: Memory>(region: Region, size: usize) -> Result<Sides<Mapped, B>, Fault> {
    let capacity = Some(size - size % LINE);
    // Of the processor, whatever the environment says: an experiment's file is all there is to know
    // of it.
    let ring = ringfence_persist::Ring::create_with(
        region,
        Options { capacity, ..Options::default() },
        Methods::of_processor(),
    )?;
    let (producer, consumer) = (Box::new(ring.producer()?), Box::new(ring.consumer()?));
    Ok(Sides::Ours { producer, consumer })
}

// As `ours`, without the locks that keep other processes away from a file. No process holds such a
// ring across a crash, so that its checksums need no number of their own.
fn over<M: Memory + Clone>(
    memory: M,
    task: &Ring,
    nt_threshold: usize,
) -> Result<Sides<M, M>, Fault> {
    let size = task.size.0 as usize;
    ring::format(&memory, &Shape::new(size - size % LINE, LINE, 0)?)?;
    ring::recover(&memory)?;
    let producer = ring::Producer::attach(memory.clone())?.with_nt_threshold(nt_threshold);
    Ok(Sides::Ours {
        producer: Box::new(producer),
        consumer: Box::new(ring::Consumer::attach(memory)?),
    })
}

fn theirs<M: Memory, B: Memory + Clone>(memory: B, kind: Kind, task: &Ring) -> Sides<M, B> {
    let (producer, consumer) =
        baselines::create(memory, kind, task.entry.0 as usize, task.size.0 as usize);
    Sides::Theirs { producer, consumer }
}

fn failed(task: &Ring, error: &Fault) -> SetupError {
    SetupError::Other(format!("a ring in {}: {error}", task.target))
}

/// What goes wrong in a ring that should not.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Ring(#[from] ring::RingError),
    #[error("it is full, although most of it was read")]
    Full,
    #[error("entry {0} was pushed and is not there")]
    Missing(u64),
    #[error("entry {0} is not what was pushed")]
    Changed(u64),
}

impl<M: Memory, B: Memory> Workload for Ringer<M, B> {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        let before = self.read;
        for _ in 0..amount {
            let done = self.push(self.batch).and_then(|()| self.read(self.batch));
            if let Err(fault) = done {
                self.failure = Some(fault.to_string());
                break;
            }
        }
        Work { units: self.read - before, untimed: 0 }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// Entries that tell by a sum over all their bytes which they are: a number, as many of its bytes
/// as there is room for, then what is the same in all.
struct Payload {
    memory: Vec<u8>,
    start: usize,
    len: usize,
    // Of what is the same in all.
    sum: u64,
}

impl Payload {
    fn new(len: usize) -> Self {
        let mut memory = vec![0; len + LINE];
        let start = memory.as_ptr().align_offset(LINE);
        for (offset, byte) in memory[start..start + len].iter_mut().enumerate().skip(8) {
            *byte = (offset % 251) as u8 + 1;
        }
        let sum = sum(&memory[start..start + len]);
        Self { memory, start, len, sum }
    }

    #[inline]
    fn of(&mut self, number: u64) -> &[u8] {
        let entry = &mut self.memory[self.start..self.start + self.len];
        let room = entry.len().min(8);
        entry[..room].copy_from_slice(&number.to_le_bytes()[..room]);
        entry
    }

    #[inline]
    fn check(&self, number: u64, entry: &[u8]) -> Result<(), Fault> {
        let number_there = number & (u64::MAX >> (64 - 8 * self.len.min(8)));
        let right = entry.len() == self.len && sum(entry) == self.sum.wrapping_add(number_there);
        if right { Ok(()) } else { Err(Fault::Changed(number)) }
    }
}

#[inline]
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(u64::from_le_bytes(last), u64::wrapping_add)
}

#[cfg(test)]
mod tests;
