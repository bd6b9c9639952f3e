//! Flushes and non-temporal lines under way, where a core has places of their own for them.

use crate::hardware::event::Request;
use crate::hardware::units::NEVER;

/// Places for lines that left, each until memory has accepted its line.
pub struct Flushes {
    places: Vec<Place>,
    /// Where to look first: as a rule the place that was taken longest ago.
    next: usize,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// From when on it is free; [`NEVER`] while memory has not said.
    free: u64,
    /// The thread whose line it is.
    owner: u8,
}

impl Flushes {
    pub fn new(count: u32) -> Self {
        Self { places: vec![Place { free: 0, owner: 0 }; count as usize], next: 0 }
    }

    /// Whether there are any. Where not, flushes take fill buffers.
    #[inline]
    pub fn are_there(&self) -> bool {
        !self.places.is_empty()
    }

    /// Whether memory's answer is for one of them.
    #[inline]
    pub fn are_for(buffer: u8) -> bool {
        buffer >= Request::FLUSHES && buffer != Request::NOBODY
    }

    /// The number by which memory answers for a place that is free, or when the first one will be.
    #[inline]
    pub fn find_free(&self, at: u64) -> Result<u8, u64> {
        let (before, after) = self.places.split_at(self.next);
        let is_free = |place: &Place| place.free <= at;
        let free = after.iter().position(is_free).map(|place| self.next + place);
        let free = free.or_else(|| before.iter().position(is_free));
        let soonest = || self.places.iter().map(|place| place.free).min().unwrap_or(NEVER);
        free.map(|place| Request::FLUSHES + place as u8).ok_or_else(soonest)
    }

    /// A thread's line takes a place.
    #[inline]
    pub fn take(&mut self, buffer: u8, owner: u8) {
        let place = usize::from(buffer - Request::FLUSHES);
        self.places[place] = Place { free: NEVER, owner };
        self.next = if place + 1 == self.places.len() { 0 } else { place + 1 };
    }

    /// Memory says when it is free; whose it was.
    #[inline]
    pub fn answered(&mut self, buffer: u8, at: u64) -> u8 {
        let place = &mut self.places[usize::from(buffer - Request::FLUSHES)];
        place.free = at;
        place.owner
    }
}
