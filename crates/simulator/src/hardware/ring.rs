//! What waits in order: a ring whose places are a power of two, so that each is found without a
//! division or a comparison.

use std::ops::{Index, IndexMut};

/// A queue of values.
#[derive(Debug, Clone)]
pub struct Ring<T> {
    places: Vec<T>,
    first: usize,
    count: usize,
}

impl<T: Copy> Ring<T> {
    /// An empty one with room for so many. What unused places hold is never seen.
    pub fn new(room: usize, nothing: T) -> Self {
        Self { places: vec![nothing; room.next_power_of_two()], first: 0, count: 0 }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    fn place(&self, index: usize) -> usize {
        self.first.wrapping_add(index) & (self.places.len() - 1)
    }

    /// The one that so many came before.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        if index < self.count { self.places.get(self.place(index)) } else { None }
    }

    /// The oldest.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// All of them, the oldest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.count).filter_map(|index| self.get(index))
    }

    /// Adds one behind all others.
    #[inline]
    pub fn push_back(&mut self, value: T) {
        if self.count == self.places.len() {
            self.grow();
        }
        let place = self.place(self.count);
        self.places[place] = value;
        self.count += 1;
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let oldest = *self.front()?;
        self.first = self.first.wrapping_add(1);
        self.count -= 1;
        Some(oldest)
    }

    // Twice as many places.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let start = self.place(0);
        self.places.rotate_left(start);
        self.first = 0;
        self.places.extend_from_within(..);
    }
}

impl<T: Copy> Index<usize> for Ring<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        debug_assert!(index < self.count);
        &self.places[self.place(index)]
    }
}

impl<T: Copy> IndexMut<usize> for Ring<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        debug_assert!(index < self.count);
        let place = self.place(index);
        &mut self.places[place]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue(
            room in 1_usize..5,
            steps in prop::collection::vec(any::<bool>(), 0..100),
        ) {
            let (mut ring, mut model) = (Ring::new(room, 0), VecDeque::new());
            for (number, push) in steps.into_iter().enumerate() {
                if push {
                    ring.push_back(number);
                    model.push_back(number);
                } else {
                    prop_assert_eq!(ring.pop_front(), model.pop_front());
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.is_empty(), model.is_empty());
                prop_assert!((0..=model.len()).all(|index| ring.get(index) == model.get(index)));
                prop_assert!((0..model.len()).all(|index| ring[index] == model[index]));
            }
        }
    }
}
