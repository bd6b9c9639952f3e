//! One path through everything that is left open: a list of choices, replayed and then extended; or
//! choices at random.

// One of so many ways, taken in the last of so many steps of the run.
#[derive(Debug, Clone, Copy)]
struct Made {
    chosen: u32,
    of: u32,
    steps: usize,
}

/// The choices of one path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choices {
    made: Vec<Made>,
    next: usize,
    random: Option<Random>,
    // Crashes that the path came by, when one of them is taken at random.
    crashes: u64,
}

impl Choices {
    pub(crate) fn random(random: Random) -> Self {
        Self { random: Some(random), ..Self::default() }
    }

    /// One of `count` ways, for the last of the run's `steps`: the one that the list says, or the
    /// first of a new place, or any.
    pub(crate) fn choose(&mut self, count: usize, steps: usize) -> usize {
        if count == 1 {
            return 0;
        }
        if self.next == self.made.len() {
            let chosen = self.random.as_mut().map_or(0, |random| random.below(count as u64));
            self.made.push(Made { chosen: chosen as u32, of: count as u32, steps });
        }
        let made = self.made[self.next];
        // A run that does something else is stopped before it comes here: see `Log`.
        assert_eq!(
            (made.of as usize, made.steps),
            (count, steps),
            "the same steps leave the same choice"
        );
        self.next += 1;
        made.chosen as usize
    }

    /// How many steps the path has in common with the one before.
    pub(crate) fn steps(&self) -> usize {
        self.made.last().map_or(0, |made| made.steps)
    }

    /// Whether the path is past everything that it has in common with an earlier one.
    pub(crate) fn is_new(&self) -> bool {
        self.next == self.made.len()
    }

    /// Whether a crash here is taken: at random one of all, in place of the one before (Vitter's
    /// reservoir, ACM TOMS 1985), else each.
    pub(crate) fn sample_crash(&mut self) -> Option<bool> {
        let Some(random) = &mut self.random else { return Some(false) };
        self.crashes += 1;
        (random.below(self.crashes) == 0).then_some(true)
    }

    /// Choices for what follows a crash on this path.
    pub(crate) fn fork(&mut self) -> Self {
        self.random
            .as_mut()
            .map_or_else(Self::default, |random| Self::random(Random(random.next())))
    }

    /// The same path again.
    pub(crate) fn again(&mut self) {
        self.next = 0;
    }

    /// The next path, or false if this was the last.
    pub(crate) fn advance(&mut self) -> bool {
        if self.random.is_some() {
            return false;
        }
        self.made.truncate(self.next);
        self.next = 0;
        while let Some(made) = self.made.pop() {
            if made.chosen + 1 < made.of {
                self.made.push(Made { chosen: made.chosen + 1, ..made });
                return true;
            }
        }
        false
    }
}

/// Numbers at random, the same for the same seed: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
