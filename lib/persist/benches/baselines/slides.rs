//! The webinar's rings, over raw memory.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_persist::{Flush, LINE, Region, Width, isa};

use super::payload::Payload;
use super::{Reader, Writer, primitives};

/// Which of them; see the [module](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The first persistent one.
    Naive,
    /// The optimised one, as published. Wrong.
    Published,
    /// Its repair by a second fence.
    Repaired,
}

// Two positions and the entries. Positions only grow, as ours do; the slides mask them.
#[derive(Debug)]
struct Place {
    region: Arc<Region>,
    form: Form,
    flush: Flush,
    width: Width,
    payload: usize,
    stride: usize,
    entries: u64,
}

const HEAD: usize = 4096;

impl Place {
    fn new(region: &Arc<Region>, form: Form, flush: Flush, payload: usize) -> Self {
        let header = if form == Form::Naive { 8 } else { 0 };
        let stride = (header + payload).next_multiple_of(LINE);
        // A power of two, as on the slides.
        let entries = ((region.len() - HEAD) / stride) as u64;
        let entries = 1 << entries.ilog2();
        Self {
            region: region.clone(),
            form,
            flush,
            width: Width::widest(),
            payload,
            stride,
            entries,
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside the head, aligned, and lives as long as the region.
        unsafe { AtomicU64::from_ptr(self.region.base().add(at).cast()) }
    }

    fn write_position(&self) -> &AtomicU64 {
        self.word(0)
    }

    // What the producer looks at.
    fn read_position(&self) -> &AtomicU64 {
        self.word(if self.form == Form::Repaired { 512 } else { 8 })
    }

    // The repaired form tells the producer of a position only once it is durable, in another word.
    fn durable_read_position(&self) -> Option<&AtomicU64> {
        (self.form == Form::Repaired).then(|| self.word(1024))
    }

    #[inline]
    fn entry(&self, position: u64) -> *mut u8 {
        let at = HEAD + (position & (self.entries - 1)) as usize * self.stride;
        // SAFETY: inside the region, by the number of entries.
        unsafe { self.region.base().add(at) }
    }

    // Flush and fence, or the naive form's clflush.
    #[inline]
    fn persist(&self, position: &AtomicU64) {
        let at = position.as_ptr().cast::<u8>();
        // SAFETY: mapped; the instruction exists.
        unsafe {
            if self.form == Form::Naive {
                isa::clflush(at);
            } else {
                primitives::flush(at, 8, self.flush);
                isa::sfence();
            }
        }
    }
}

struct Pushing {
    place: Place,
    write: u64,
    // The consumer's position as last seen.
    read: u64,
}

/// The producer of a ring of this form in a region that holds nothing else, for payloads of so many
/// bytes.
pub fn writer(
    region: &Arc<Region>,
    form: Form,
    flush: Flush,
    payload: usize,
) -> impl Writer + use<> {
    let place = Place::new(region, form, flush, payload);
    Pushing { write: place.write_position().load(Ordering::Acquire), read: 0, place }
}

impl Pushing {
    #[inline]
    fn wait_for_room(&mut self, entries: u64) {
        let fits = |write: u64, read: u64, place: &Place| write + entries - read <= place.entries;
        if self.place.form == Form::Repaired && fits(self.write, self.read, &self.place) {
            return;
        }
        loop {
            self.read = self.place.read_position().load(Ordering::Acquire);
            if self.place.form != Form::Repaired {
                self.place.persist(self.place.write_position());
            }
            if fits(self.write, self.read, &self.place) {
                return;
            }
            std::hint::spin_loop();
        }
    }

    #[inline]
    fn put(&self, position: u64, payload: &[u8]) {
        let (place, entry) = (&self.place, self.place.entry(position));
        // SAFETY: the entry is the producer's until the position says otherwise; payloads are whole
        // lines.
        unsafe {
            if place.form == Form::Naive {
                entry.cast::<u64>().write(payload.len() as u64);
                std::ptr::copy_nonoverlapping(payload.as_ptr(), entry.add(8), payload.len());
                primitives::flush(entry, place.stride, Flush::Clflush);
            } else {
                primitives::stream(entry, payload.as_ptr(), payload.len(), place.width);
                primitives::end_of(place.width);
            }
        }
    }

    #[inline]
    fn publish(&mut self, position: u64) {
        if self.place.form == Form::Repaired {
            isa::sfence();
        }
        self.write = position;
        self.place.write_position().store(position, Ordering::Release);
        self.place.persist(self.place.write_position());
    }
}

impl Writer for Pushing {
    #[inline]
    fn push(&mut self, payload: &[u8]) {
        assert_eq!(payload.len(), self.place.payload);
        self.wait_for_room(1);
        self.put(self.write, payload);
        self.publish(self.write + 1);
    }

    #[inline]
    fn push_all(&mut self, numbers: Range<u64>, payload: &mut Payload) {
        let count = numbers.end - numbers.start;
        self.wait_for_room(count);
        for (at, number) in numbers.enumerate() {
            self.put(self.write + at as u64, payload.numbered(number));
        }
        self.publish(self.write + count);
    }
}

struct Reading {
    place: Place,
    every: u64,
    read: u64,
    // The producer's position as last seen.
    write: u64,
    copy: Vec<u8>,
}

/// The consumer of the same ring; its position is stored and made durable once in `every` entries.
pub fn reader(
    region: &Arc<Region>,
    form: Form,
    flush: Flush,
    payload: usize,
    every: u64,
) -> impl Reader + use<> {
    let place = Place::new(region, form, flush, payload);
    assert!(
        every < place.entries / 2,
        "a ring of {} entries wants its space back sooner",
        place.entries
    );
    let read = place.read_position().load(Ordering::Acquire);
    Reading { every, read, write: read, copy: vec![0; payload], place }
}

impl Reader for Reading {
    #[inline]
    fn take(&mut self, mut look: impl FnMut(&[u8])) -> bool {
        if self.read == self.write {
            self.write = self.place.write_position().load(Ordering::Acquire);
            if self.read == self.write {
                return false;
            }
        }
        let entry = self.place.entry(self.read);
        // SAFETY: published and not yet given back, so that no thread writes there.
        let lent =
            |at: usize| unsafe { std::slice::from_raw_parts(entry.add(at), self.place.payload) };
        match self.place.form {
            Form::Naive => look(lent(8)),
            Form::Repaired => look(lent(0)),
            Form::Published => {
                // Its stores may still be on their way, so no reference may be made.
                for at in (0..self.copy.len()).step_by(8) {
                    // SAFETY: inside the entry and aligned.
                    let word = unsafe { entry.add(at).cast::<u64>().read_volatile() };
                    self.copy[at..at + 8].copy_from_slice(&word.to_ne_bytes());
                }
                look(&self.copy);
            }
        }
        self.read += 1;
        if self.read.is_multiple_of(self.every) {
            self.give_back();
        }
        true
    }
}

impl Reading {
    fn give_back(&self) {
        let position = self.place.read_position();
        if let Some(durable) = self.place.durable_read_position() {
            durable.store(self.read, Ordering::Release);
            self.place.persist(durable);
            position.store(self.read, Ordering::Release);
        } else {
            position.store(self.read, Ordering::Release);
            self.place.persist(position);
        }
    }
}
