//! A ring buffer that outlives crashes: single producer, single consumer, entries of any length,
//! one fence for each durable push.
//!
//! ```
//! use ringfence_persist::{Region, Request, Ring};
//!
//! let ring = Ring::create_in(Region::map(&Request::dram(1 << 20)).unwrap())?;
//! let mut producer = ring.producer()?;
//! let mut consumer = ring.consumer()?;
//!
//! producer.push(b"durable when this returns")?;
//!
//! let entry = consumer.try_read()?.unwrap();
//! assert_eq!(&entry[..], b"durable when this returns");
//! entry.pop_durably()?;
//! # Ok::<(), ringfence_persist::ring::RingError>(())
//! ```
//!
//! The two sides can be two threads (each side is `Send`) or two processes that open the same file
//! ([`Ring::create`], [`Ring::open`]). What is on the medium is described in [`layout`], what
//! opening does and why one fence is enough in `docs/reference/one-fence.md`.
//!
//! How durable "durable" is depends on the region: [`Region`] says. A ring in a file of the page
//! cache calls `msync`, or what its [`Methods`] name, where others fence, and a ring in plain
//! memory lives as long as the process.

mod backoff;
mod consumer;
mod error;
pub mod index;
pub mod layout;
mod lock;
mod producer;
mod recovery;
#[cfg(test)]
mod tests;
mod version;
mod words;

use std::path::Path;
use std::sync::Arc;

pub use consumer::{Consumer, Read};
pub use error::{RingError, Role};
pub use layout::Shape;
pub use producer::{Batch, Producer};
pub use recovery::{Recovery, Tail, inspect, recover};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::faults::planted;
use crate::record::Record;
use crate::{Durability, Lost, Mapped, Memory, Methods, Region};
use layout::{CURSOR_SLOTS, EPOCH_SLOTS, HEAD};
use lock::Locks;
use words::Epochs;

/// A ring that is open: gives out its two sides.
#[derive(Debug)]
pub struct Ring {
    memory: Mapped,
    shape: Shape,
    locks: Arc<Locks>,
    recovery: Option<Recovery>,
}

/// How a ring is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes for entries, heads of 32 bytes and padding included; `None`: as much as the region
    /// holds.
    pub capacity: Option<usize>,
    /// Entries begin and end at multiples of it: 64, or 256 for media that write blocks of that
    /// size (Optane persistent memory; Yang et al., FAST 2020).
    pub grain: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { capacity: None, grain: crate::LINE }
    }
}

impl Ring {
    /// Makes a new file (or takes a device-DAX device) with room for `capacity` bytes of entries, a
    /// multiple of 64, and a ring in it. Of a device, 4096 bytes and the capacity together must be
    /// a multiple of its alignment. Anything less durable than `least` is refused.
    ///
    /// # Errors
    /// [`RingError::Region`]: the file is there already, or cannot be made. [`RingError::Exists`]:
    /// the device holds a ring already; [`Ring::create_in`] writes over it. And as
    /// [`Ring::create_in`]: the file that was made is then left behind.
    pub fn create(
        path: impl AsRef<Path>,
        capacity: usize,
        least: Durability,
    ) -> Result<Self, RingError> {
        // Before a file is made.
        Shape::new(capacity, crate::LINE, 0)?;
        let methods = Methods::here()?;
        let region = Region::create(path, HEAD + capacity, least)?;
        let memory = Mapped::with_methods(region, methods);
        // A new file is empty; a device keeps what it held.
        if !matches!(Shape::read(&memory), Err(RingError::Unfinished | RingError::Foreign(_))) {
            return Err(RingError::Exists);
        }
        let region = memory.into_region();
        Self::create_with(
            region,
            Options { capacity: Some(capacity), ..Options::default() },
            methods,
        )
    }

    /// Opens the ring in a file or device; it is recovered if it is not open elsewhere.
    ///
    /// # Errors
    /// [`RingError::Region`]: there is none, or one less durable than `least`; and as
    /// [`Ring::open_in`].
    pub fn open(path: impl AsRef<Path>, least: Durability) -> Result<Self, RingError> {
        Self::open_in(Region::open(path, least)?)
    }

    /// Makes a ring in a region, over whatever is there, and opens it.
    ///
    /// # Errors
    /// [`RingError`]: no room, a medium or lock that fails, the same file being open as a ring
    /// elsewhere.
    pub fn create_in(region: Region) -> Result<Self, RingError> {
        Self::create_with(region, Options::default(), Methods::here()?)
    }

    /// As [`create_in`](Self::create_in), with options and instructions of the caller's choice.
    ///
    /// # Errors
    /// As [`create_in`](Self::create_in), and [`RingError::Shape`].
    ///
    /// # Panics
    /// If the processor lacks the instruction or the registers of `methods`.
    pub fn create_with(
        region: Region,
        options: Options,
        methods: Methods,
    ) -> Result<Self, RingError> {
        let room = region.len().saturating_sub(HEAD);
        let capacity = options.capacity.unwrap_or(room - room % options.grain.max(1));
        let shape = Shape::new(capacity, options.grain, salt()?)?;
        if capacity > room {
            let (head, len) = (HEAD, region.len());
            return Err(RingError::Shape(format!(
                "a capacity of {capacity} bytes and a head of {head} do not fit into {len} bytes"
            )));
        }
        let (ring, fresh) = Self::open_by(region, methods, |memory| {
            format(memory, &shape)?;
            recover(memory)
        })?;
        // A ring that is open elsewhere is not overwritten.
        if fresh { Ok(ring) } else { Err(RingError::InUse) }
    }

    /// Opens the ring in a region. If it is not open elsewhere it is recovered first.
    ///
    /// # Errors
    /// [`RingError`] if there is no ring, or a damaged one, or one of another version.
    pub fn open_in(region: Region) -> Result<Self, RingError> {
        Self::open_with(region, Methods::here()?)
    }

    /// As [`open_in`](Self::open_in), with instructions of the caller's choice.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in).
    ///
    /// # Panics
    /// If the processor lacks the instruction or the registers of `methods`.
    pub fn open_with(region: Region, methods: Methods) -> Result<Self, RingError> {
        Self::open_by(region, methods, recover).map(|(ring, _)| ring)
    }

    fn open_by(
        region: Region,
        methods: Methods,
        ready: impl FnOnce(&Mapped) -> Result<(Shape, Recovery), RingError>,
    ) -> Result<(Self, bool), RingError> {
        let file =
            region.file().map(std::fs::File::try_clone).transpose().map_err(RingError::Lock)?;
        let memory = Mapped::with_methods(region, methods);
        let (locks, recovered) = Locks::open(file, || ready(&memory))?;
        let shape = recovered.map_or_else(|| Shape::read(&memory), |(shape, _)| Ok(shape))?;
        let recovery = recovered.map(|(_, recovery)| recovery);
        Ok((Self { memory, shape, locks: Arc::new(locks), recovery }, recovery.is_some()))
    }

    /// What opening found, or `None` if the ring was open already, so that there was nothing to
    /// recover.
    pub fn recovery(&self) -> Option<Recovery> {
        self.recovery
    }

    /// The ring's capacity, grain and salt.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The region that contains it.
    pub fn region(&self) -> &Region {
        self.memory.region()
    }

    /// The side that pushes, to be sent to whichever thread.
    ///
    /// # Errors
    /// [`RingError::Taken`], [`RingError::Damaged`], [`RingError::Lost`].
    pub fn producer(&self) -> Result<Producer<Mapped>, RingError> {
        let seat = self.locks.seat(Role::Producer)?;
        Producer::seated(self.memory.share(), self.memory.methods().nt_threshold, Some(seat))
    }

    /// The side that reads and pops, to be sent to whichever thread. It begins at the durable
    /// cursor: what an earlier consumer popped lazily and did not commit is read again.
    ///
    /// # Errors
    /// [`RingError::Taken`], [`RingError::Damaged`], [`RingError::Lost`].
    pub fn consumer(&self) -> Result<Consumer<Mapped>, RingError> {
        Consumer::seated(self.memory.share(), Some(self.locks.seat(Role::Consumer)?))
    }
}

/// Makes an empty ring in memory that nothing else uses, durable on return. The head comes last: a
/// crash before leaves no ring.
///
/// # Errors
/// [`RingError::Shape`]: it does not fit. [`RingError::Lost`].
pub fn format<M: Memory>(memory: &M, shape: &Shape) -> Result<(), RingError> {
    if memory.len() < HEAD || shape.capacity > memory.len() - HEAD {
        let (len, capacity) = (memory.len(), shape.capacity);
        return Err(RingError::Shape(format!(
            "a capacity of {capacity} bytes and a head of {HEAD} do not fit into {len} bytes"
        )));
    }
    // An old ring's head goes first: torn, the rest would be an older state of it.
    if !planted("old-head-not-cleared") {
        memory.store_nt(0, &[0; crate::LINE]);
    }
    if !planted("old-head-not-fenced") {
        memory.sfence();
    }
    if !planted("rest-not-cleared") {
        memory.store_nt(crate::LINE, &[0; HEAD - crate::LINE]);
    }
    if !planted("rest-not-fenced") {
        memory.sfence();
    }
    if planted("head-before-records") {
        shape.write(memory);
    }
    Record::create(memory, EPOCH_SLOTS, shape.salt, &Epochs { epoch: 1, start: 0 }.encode());
    Record::create(memory, CURSOR_SLOTS, !shape.salt, &0u64.to_le_bytes());
    shape.write(memory);
    memory.health().map_err(Lost)?;
    Ok(())
}

fn salt() -> Result<u64, RingError> {
    let mut bytes = [0; 8];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        // So few bytes are never cut short.
        Ok(_) => Ok(u64::from_le_bytes(bytes)),
        Err(error) => Err(RingError::Random(error.into())),
    }
}
