//! The index protocol: how far the producer has published and how far the consumer has given back.
//!
//! Two numbers are exchanged, each written by one side: `published`, the position up to which
//! entries may be read, and `freed`, the position up to which space may be written again. Positions
//! are bytes since the ring was made and only grow, so that full and empty cannot be mixed up;
//! `freed <= published <= freed + capacity`. Both sides keep what they last saw and look again only
//! where that is not enough.
//!
//! It is written over [`Shared`], so that `loom` runs it through every interleaving
//! (`tests/loom.rs`).

/// A number that one side writes and the other reads.
pub trait Shared {
    /// Its value; what the writer did before putting it is seen (acquire).
    fn get(&self) -> u64;
    /// Gives it a value (release). Non-temporal stores before it must have been fenced.
    fn put(&self, value: u64);
}

/// The other side's number is impossible: the memory was damaged, or written by a stranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Impossible {
    /// What this side knows to hold.
    pub own: u64,
    /// What was read.
    pub other: u64,
}

/// The producer's side.
#[derive(Debug)]
pub struct Ahead {
    published: u64,
    freed: u64,
    capacity: u64,
}

impl Ahead {
    /// Goes on from `published`; `freed` may be any position that was once true, and not before
    /// `published - capacity`.
    pub fn new(published: u64, freed: u64, capacity: u64) -> Self {
        Self { published, freed, capacity }
    }

    /// Up to where entries were published.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Whether `to` may be written up to, starting at [`Self::published`].
    ///
    /// # Errors
    /// [`Impossible`].
    #[inline]
    pub fn has_room(&mut self, to: u64, freed: &impl Shared) -> Result<bool, Impossible> {
        if to - self.freed <= self.capacity {
            return Ok(true);
        }
        let other = freed.get();
        if other < self.freed || other > self.published {
            return Err(Impossible { own: self.published, other });
        }
        self.freed = other;
        Ok(to - other <= self.capacity)
    }

    /// Publishes everything up to `to`, which must be durable.
    #[inline]
    pub fn publish(&mut self, to: u64, published: &impl Shared) {
        self.published = to;
        published.put(to);
    }
}

/// The consumer's side.
#[derive(Debug)]
pub struct Behind {
    read: u64,
    published: u64,
    freed: u64,
    capacity: u64,
}

impl Behind {
    /// Goes on from `read`, where everything before is given back.
    pub fn new(read: u64, capacity: u64) -> Self {
        Self { read, published: read, freed: read, capacity }
    }

    /// Up to where entries were read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Up to where space was given back.
    pub fn freed(&self) -> u64 {
        self.freed
    }

    /// Number of bytes to read: 0 if none, and never less than was returned before.
    ///
    /// # Errors
    /// [`Impossible`].
    #[inline]
    pub fn readable(&mut self, published: &impl Shared) -> Result<u64, Impossible> {
        if self.published == self.read {
            self.latest(published)
        } else {
            Ok(self.published - self.read)
        }
    }

    /// As [`Self::readable`], but looks whether there is more.
    ///
    /// # Errors
    /// [`Impossible`].
    pub fn latest(&mut self, published: &impl Shared) -> Result<u64, Impossible> {
        let other = published.get();
        if other < self.published || other - self.freed > self.capacity {
            return Err(Impossible { own: self.published, other });
        }
        self.published = other;
        Ok(other - self.read)
    }

    /// Goes past what was read, up to `to`, and keeps the space.
    #[inline]
    pub fn advance(&mut self, to: u64) {
        debug_assert!(self.read <= to && to <= self.published);
        self.read = to;
    }

    /// Gives back the space of everything read. The cursor must be durable there.
    #[inline]
    pub fn give_back(&mut self, freed: &impl Shared) {
        self.freed = self.read;
        freed.put(self.freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    impl Shared for Cell<u64> {
        fn get(&self) -> u64 {
            Cell::get(self)
        }
        fn put(&self, value: u64) {
            self.set(value);
        }
    }

    #[test]
    fn full_and_empty_are_told_apart() {
        let (published, freed) = (Cell::new(1000), Cell::new(1000));
        let (mut ahead, mut behind) = (Ahead::new(1000, 1000, 128), Behind::new(1000, 128));
        assert_eq!(behind.readable(&published), Ok(0));
        assert_eq!(ahead.has_room(1128, &freed), Ok(true));
        ahead.publish(1128, &published);
        assert_eq!(ahead.has_room(1192, &freed), Ok(false));
        assert_eq!(behind.readable(&published), Ok(128));
        behind.advance(1064);
        assert_eq!(ahead.has_room(1192, &freed), Ok(false), "read, but not given back");
        behind.give_back(&freed);
        assert_eq!(ahead.has_room(1192, &freed), Ok(true));
        assert_eq!(behind.readable(&published), Ok(64));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let shared = Cell::new(2000);
        assert!(
            Ahead::new(1000, 900, 128).has_room(1100, &shared).is_err(),
            "freed beyond published"
        );
        assert!(Behind::new(1000, 128).readable(&shared).is_err(), "published beyond the capacity");
        shared.set(10);
        assert!(Ahead::new(1000, 900, 128).has_room(1100, &shared).is_err(), "freed went back");
        assert!(Behind::new(1000, 128).readable(&shared).is_err(), "published went back");
    }
}
