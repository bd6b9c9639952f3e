//! One path through everything that is left open: a list of choices, replayed and then extended.

/// The choices of one path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choices {
    made: Vec<(usize, usize)>,
    next: usize,
}

impl Choices {
    /// One of `count` ways: the one that the list says, or the first of a new place.
    pub(crate) fn choose(&mut self, count: usize) -> usize {
        if count == 1 {
            return 0;
        }
        if self.next == self.made.len() {
            self.made.push((0, count));
        }
        let (chosen, of) = self.made[self.next];
        assert_eq!(of, count, "the program did not do the same again: it must depend on the memory alone");
        self.next += 1;
        chosen
    }

    /// Whether the path is past everything that it has in common with an earlier one.
    pub(crate) fn is_new(&self) -> bool {
        self.next == self.made.len()
    }

    /// The next path, or false if this was the last.
    pub(crate) fn advance(&mut self) -> bool {
        self.made.truncate(self.next);
        self.next = 0;
        while let Some((chosen, count)) = self.made.pop() {
            if chosen + 1 < count {
                self.made.push((chosen + 1, count));
                return true;
            }
        }
        false
    }
}
