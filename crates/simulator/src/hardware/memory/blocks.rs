//! A DIMM's buffer of blocks of 256 B.
//!
//! A block's place follows from its number, so that no search goes through the whole buffer. The
//! number is hashed: a range that is as large as the buffer and aligned fits exactly, and streams
//! that start at like addresses do not meet.

/// A buffer whose blocks each carry a state.
pub struct Blocks<S> {
    numbers: Vec<u32>,
    states: Vec<S>,
    ways: usize,
    /// Sets, as a power of two.
    bits: u32,
}

const EMPTY: u32 = u32::MAX;

impl<S: Copy + Default> Blocks<S> {
    pub fn new(blocks: u32, ways: u32) -> Self {
        Self {
            numbers: vec![EMPTY; blocks as usize],
            states: vec![S::default(); blocks as usize],
            ways: ways as usize,
            bits: (blocks / ways).trailing_zeros(),
        }
    }

    #[inline]
    fn start(&self, block: u32) -> usize {
        // What is the same within an aligned range only shuffles its places.
        let above = (u64::from(block) >> self.bits).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let set = (block ^ above as u32) & ((1 << self.bits) - 1);
        set as usize * self.ways
    }

    /// A block's state, if it is here.
    #[inline]
    pub fn find(&mut self, block: u32) -> Option<&mut S> {
        let start = self.start(block);
        let way =
            self.numbers[start..start + self.ways].iter().position(|number| *number == block)?;
        Some(&mut self.states[start + way])
    }

    /// Takes a block out, if it is here; its state.
    pub fn remove(&mut self, block: u32) -> Option<S> {
        let start = self.start(block);
        let way =
            self.numbers[start..start + self.ways].iter().position(|number| *number == block)?;
        self.numbers[start + way] = EMPTY;
        Some(self.states[start + way])
    }

    /// Puts a block in the place of an empty one, or of the one that `choose` names among the
    /// states; that one.
    #[inline]
    pub fn insert(
        &mut self,
        block: u32,
        state: S,
        choose: impl FnOnce(&[S]) -> usize,
    ) -> Option<(u32, S)> {
        let places = {
            let start = self.start(block);
            start..start + self.ways
        };
        let empty = self.numbers[places.clone()].iter().position(|number| *number == EMPTY);
        let place = places.start + empty.unwrap_or_else(|| choose(&self.states[places]));
        let old = std::mem::replace(&mut self.numbers[place], block);
        let left = std::mem::replace(&mut self.states[place], state);
        (old != EMPTY).then_some((old, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aligned_range_of_the_buffers_size_fits() {
        for (blocks, ways) in [(64, 4), (64, 64), (16, 1)] {
            let mut buffer: Blocks<u32> = Blocks::new(blocks, ways);
            for block in 0..blocks {
                assert_eq!(buffer.insert(7 * blocks + block, block, |_| 0), None);
            }
            for block in 0..blocks {
                assert_eq!(buffer.find(7 * blocks + block).copied(), Some(block));
            }
            let left = buffer.insert(0, 0, |states| states.len() - 1);
            assert!(left.is_some());
            buffer.remove(0);
            assert!(buffer.find(0).is_none());
        }
    }
}
