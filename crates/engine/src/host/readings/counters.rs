//! Hardware counters of workers.

use crate::host::crew::Crew;

/// Hardware counters of a worker, or their difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cycles.
    pub cycles: Option<u64>,
    /// Instructions.
    pub instructions: Option<u64>,
    /// Misses of the last-level cache.
    pub llc_misses: Option<u64>,
}

impl Counts {
    /// The counts of some workers; none of those that are not counted.
    pub fn of(crew: &mut Crew, workers: &[usize]) -> Vec<Option<Self>> {
        let read = |worker: &usize| {
            let counts = crew.workers[*worker].counters.as_mut()?.read().ok()?;
            Some(Self {
                cycles: counts.cycles,
                instructions: counts.instructions,
                llc_misses: counts.llc_load_misses.or(counts.cache_misses),
            })
        };
        workers.iter().map(read).collect()
    }

    /// What was counted since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        let minus = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Self {
            cycles: minus(self.cycles, before.cycles),
            instructions: minus(self.instructions, before.instructions),
            llc_misses: minus(self.llc_misses, before.llc_misses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_since_is_known_where_both_are() {
        let counts = |cycles, instructions, llc_misses| Counts { cycles, instructions, llc_misses };
        let before = counts(Some(10), None, Some(5));
        let after = counts(Some(25), Some(7), Some(4));
        assert_eq!(after.since(before), counts(Some(15), None, Some(0)));
    }
}
