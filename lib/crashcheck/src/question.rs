//! The question: which rules, how much memory, how many crashes.

use std::ops::Range;
use std::time::Duration;

use ringfence_persist::policy::Prices;

use crate::event::Event;
use crate::lint::{self, Lint};
use crate::names::Names;
use crate::profile::Profile;
use crate::stop::Limits;

/// A question: which rules, how much memory, how many crashes. See the [crate's example](crate).
#[derive(Debug, Clone)]
pub struct Check {
    pub(crate) profile: Profile,
    pub(crate) len: usize,
    pub(crate) crashes: usize,
    pub(crate) strong_flushes: bool,
    pub(crate) kills: bool,
    pub(crate) unfenced: bool,
    pub(crate) most_states: u64,
    pub(crate) limits: Limits,
    pub(crate) sample: Option<(u64, u64)>,
    pub(crate) names: Names,
    pub(crate) volatile: Vec<Range<usize>>,
    pub(crate) prices: Prices,
}

impl Check {
    /// Under the rules of `profile`, with `len` bytes of memory that are zero at first; one crash.
    pub fn new(profile: Profile, len: usize) -> Self {
        Self {
            profile,
            len,
            crashes: 1,
            strong_flushes: false,
            kills: false,
            unfenced: false,
            most_states: 10_000_000,
            limits: Limits::default(),
            sample: None,
            names: Names::default(),
            volatile: Vec::new(),
            prices: Prices::default(),
        }
    }

    /// So many crashes: the first of the program, the others in recovery or behind it. At least 1.
    pub fn crashes(self, crashes: usize) -> Self {
        Self { crashes: crashes.max(1), ..self }
    }

    /// [`ringfence_persist::Memory::flush`] is `clflush`, and not `clwb`.
    pub fn clflush(self) -> Self {
        Self { strong_flushes: true, ..self }
    }

    /// A crash may also be the death of the process alone. Then all that was stored is there, but
    /// not yet durable: a recovery that accepts what it finds and does not flush it may lose it to
    /// the next crash.
    pub fn kills(self) -> Self {
        Self { kills: true, ..self }
    }

    /// Lets bytes be accessed between a non-temporal store to them and its fence, as processors do.
    /// For callers that check what the instructions themselves promise: under
    /// [`ringfence_persist::Memory`] it is a fault of the caller, and a violation:
    /// [`crate::Fault::Unfenced`].
    pub fn unfenced(self) -> Self {
        Self { unfenced: true, ..self }
    }

    /// Gives up after recovery ran on this many states, 10,000,000 by default; the report says so.
    /// Until then each crash of the program has its share, of states and of the words that recovery
    /// reads and writes, and those that leave more another one, so that one that leaves very much
    /// does not hide the others.
    pub fn most_states(self, most_states: u64) -> Self {
        Self { most_states, ..self }
    }

    /// Ends a run of the program or of recovery after this many operations, 2,000,000 by default,
    /// and considers it endless: [`crate::Fault::Endless`], with the places of its loop. A store is
    /// one operation for each word of 8 bytes, a load or a checksum one for each line of 64.
    pub fn most_operations(mut self, operations: u64) -> Self {
        self.limits.operations = operations;
        self
    }

    /// Ends a run in the same way once its records take this many bytes, 256 MiB by default: 24 for
    /// each operation, as many as [`Event`] for each instruction, 3072 for each 512 bytes of memory
    /// that it stores to, and for each crash in it 4096 (more in a memory of more than 512 KiB),
    /// twice that where the process alone died, and what is known of checksums that did not fit.
    /// What is kept of the runs before it counts too, as long as the search continues with them
    /// afterwards.
    pub fn most_memory(mut self, bytes: usize) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Ends a run at the first operation on memory at which it has used so many bytes of stack more
    /// than this call, or all that the thread has but 256 KiB (a quarter of small ones):
    /// [`crate::Fault::TooDeep`]. Without it the second holds alone. A recursion without operations
    /// on memory overflows the stack as anywhere.
    pub fn most_stack(mut self, bytes: usize) -> Self {
        self.limits.stack = bytes;
        self
    }

    /// Ends a run after this time, 10 s by default, in steps of 100 ms in which the process was
    /// running; [`crate::Fault::Endless`]. It is ended at its next operation on memory. A loop
    /// without operations is only visible from outside: after another quarter of the time, at least
    /// 1 s, the whole process is aborted, and prints on standard error which run it was and where
    /// its last operation was.
    pub fn most_time(mut self, time: Duration) -> Self {
        self.limits.time = time;
        self
    }

    /// Takes `count` crashes and what they leave at random instead of all, for programs too long
    /// for all; the same ones for the same `seed`.
    ///
    /// # Panics
    /// If `count` is 0, which would call sound what was never looked at.
    pub fn sample(self, seed: u64, count: u64) -> Self {
        assert!(count > 0, "a sample of no crashes looks at nothing");
        Self { sample: Some((seed, count)), ..self }
    }

    /// Tells with each needless instruction what it costs on this machine: [`Prices::here`] takes
    /// the prices from the policy file that `RINGFENCE_POLICY` names and `ringfence tune` writes.
    /// Without, no figure is given.
    pub fn prices(self, prices: Prices) -> Self {
        Self { prices, ..self }
    }

    /// Names a range of bytes for stories.
    pub fn name(mut self, range: Range<usize>, name: &str) -> Self {
        self.names.add(range, name);
        self
    }

    /// Names for the fields of `count` records of `stride` bytes from `at` on: ranges within one
    /// record.
    pub fn array(
        mut self,
        at: usize,
        stride: usize,
        count: usize,
        name: &str,
        fields: &[(Range<usize>, &str)],
    ) -> Self {
        self.names.add_array(at, stride, count, name, fields);
        self
    }

    /// Bytes that need not survive: no lint asks for stores to them to be made durable.
    pub fn volatile(mut self, range: Range<usize>) -> Self {
        self.volatile.push(range);
        self
    }

    // Of what a run of the program did.
    pub(crate) fn lints_of(&self, events: &[Event]) -> Vec<Lint> {
        lint::of(self.profile, events, &self.volatile)
    }
}
