//! The question: which rules, how much memory, how many crashes.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use ringfence_persist::policy::Prices;

use crate::event::Event;
use crate::explore::Explorer;
use crate::fix::Fix;
use crate::lint::{self, Lint, Rule};
use crate::machine::Machine;
use crate::names::Names;
use crate::panics::quietly;
use crate::profile::Profile;
use crate::shrink;
use crate::stop::{Fault, Limits, Wrong};
use crate::story::Story;

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

/// What came of it. As text it is what a person wants to know.
#[derive(Debug)]
pub struct Report {
    /// The rules it was checked under.
    pub profile: Profile,
    /// Crashes of the program that are told apart.
    pub crash_points: usize,
    /// Crashes of the program that were looked at to the end: fewer than all where the limit ended the search.
    /// Where there is a violation, the number of the crash that it was found behind, counted from 1.
    pub looked_at: usize,
    /// States of memory that recovery ran on, as far apart as it looked.
    pub states: u64,
    /// States after a crash that were left out, since one with the same content and future was seen before.
    pub merged: u64,
    /// What the first crash can leave, over all its crash points: contents of memory if all that is open there
    /// were told apart, whether recovery looks or not. Ties between lines, which Intel's `clflush` makes, are
    /// not counted out.
    pub images: f64,
    /// Whether there are states that nobody looked at: the limit was met, or states were taken at random.
    pub bounded: bool,
    /// The seed of a search at random.
    pub seed: Option<u64>,
    /// A state that recovery makes something wrong of: the smallest of those that were found near the first.
    pub violation: Option<Violation>,
    /// What is wasteful or suspicious in what the program did until its end, or in what recovery read.
    pub lints: Vec<Lint>,
}

/// A state that a crash can leave, of which recovery makes something wrong.
#[derive(Debug)]
pub struct Violation {
    /// What kind of wrong it is.
    pub fault: Fault,
    /// What recovery said, or how it panicked.
    pub message: String,
    /// How it came to that.
    pub story: Story,
    /// What would close it, where a flush and fence at one place of the source do, or a few of them: tried, not
    /// guessed.
    pub fix: Option<Fix>,
    /// What is suspicious or wasteful in the program with the fix, and was not before, or concerns what was lost.
    /// Mostly nothing: such a fix is given only where no other was found.
    pub left: Vec<Lint>,
}

/// As [`Check::new`] and [`Check::run`]: one crash, everywhere it makes a difference.
pub fn check(
    profile: Profile,
    len: usize,
    program: impl Fn(&Machine),
    recovery: impl Fn(&Machine) -> Result<(), String>,
) -> Report {
    Check::new(profile, len).run(program, recovery)
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

    /// A crash may also be the death of the process alone. Then all that was stored is there, but not yet
    /// durable: a recovery that accepts what it finds and does not flush it may lose it to the next crash.
    pub fn kills(self) -> Self {
        Self { kills: true, ..self }
    }

    /// Lets bytes be accessed between a non-temporal store to them and its fence, as processors do. For those who
    /// check what the instructions themselves promise: under [`ringfence_persist::Memory`] it is a fault of the
    /// caller, and a violation: [`Fault::Unfenced`].
    pub fn unfenced(self) -> Self {
        Self { unfenced: true, ..self }
    }

    /// Gives up after recovery ran on so many states, 10,000,000 unless said otherwise; the report says so. Until
    /// then each crash of the program has its share, of states and of the words that recovery reads and writes, and
    /// those that leave more another one, so that one that leaves very much does not hide the others.
    pub fn most_states(self, most_states: u64) -> Self {
        Self { most_states, ..self }
    }

    /// Ends a run of the program or of recovery after so many operations, 2,000,000 unless said otherwise, and
    /// takes it for endless: [`Fault::Endless`], with the places that it went round. A store is one operation
    /// for each word of 8 bytes, a load or a checksum one for each line of 64.
    pub fn most_operations(mut self, operations: u64) -> Self {
        self.limits.operations = operations;
        self
    }

    /// Ends a run in the same way once what is kept of it takes so many bytes, 256 MiB unless said otherwise: 24
    /// for each operation, as many as [`Event`] for each instruction, 3072 for each 512 bytes of memory that it
    /// stores to, and for each crash in it 4096 (more in a memory of more than 512 KiB), twice that where the process
    /// alone died, and what is known of checksums that did not fit. What is kept of the runs before it counts too, as
    /// long as they are gone on with afterwards.
    pub fn most_memory(mut self, bytes: usize) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Ends a run at the first operation on memory at which it has used so many bytes of stack more than this
    /// call, or all that the thread has but 256 KiB (a quarter of small ones): [`Fault::TooDeep`]. Without it the
    /// second holds alone. A recursion without operations on memory overflows the stack as anywhere.
    pub fn most_stack(mut self, bytes: usize) -> Self {
        self.limits.stack = bytes;
        self
    }

    /// Ends a run after so much time, 10 s unless said otherwise, in steps of 100 ms in which the process was
    /// running; [`Fault::Endless`]. It is ended at its next operation on memory. A loop without any can be
    /// seen from outside alone: once a quarter of the time more has gone by, at least 1 s, the whole process is
    /// aborted, and says on standard error which run it was and where its last operation was.
    pub fn most_time(mut self, time: Duration) -> Self {
        self.limits.time = time;
        self
    }

    /// Takes `count` crashes and what they leave at random instead of all, for programs too long for all; the
    /// same ones for the same `seed`.
    ///
    /// # Panics
    /// If `count` is 0, which would call sound what nobody looked at.
    pub fn sample(self, seed: u64, count: u64) -> Self {
        assert!(count > 0, "a sample of no crashes looks at nothing");
        Self { sample: Some((seed, count)), ..self }
    }

    /// Tells with each needless instruction what it costs on this machine: [`Prices::here`] takes the prices from
    /// the policy file that `RINGFENCE_POLICY` names and `ringfence tune` writes. Without, no figure is given.
    pub fn prices(self, prices: Prices) -> Self {
        Self { prices, ..self }
    }

    /// A name for bytes, told in stories.
    pub fn name(mut self, range: Range<usize>, name: &str) -> Self {
        self.names.add(range, name);
        self
    }

    /// Names for the fields of `count` records of `stride` bytes from `at` on: ranges within one record.
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

    /// Runs `program`, crashes it wherever that makes a difference, and runs `recovery` on everything that can
    /// be left. Recovery is told what was [marked](Machine::mark) before the crash, and returns what is wrong;
    /// a panic is wrong too. What it does after it has recovered is the next life of the program: with more
    /// than one crash it is crashed in turn, and run again.
    ///
    /// Both must do the same whenever they read the same. They are run many times, and each run is compared with
    /// those before, operation by operation, as far as it has to do the same. Besides, whatever goes a way through
    /// the source for the first time is run 20 times more on the same memory, some of all others once more, and a
    /// small search three times more as a whole. A program or a recovery that does not repeat itself is a violation
    /// of its own kind, [`Fault::NotDeterministic`]. What shows in none of these runs, such as a clock that stood
    /// still meanwhile, is not told.
    ///
    /// # Panics
    /// If the program itself panics.
    pub fn run(
        &self,
        program: impl Fn(&Machine),
        recovery: impl Fn(&Machine) -> Result<(), String>,
    ) -> Report {
        let explorer = Explorer::new(self, &program, &recovery);
        match explorer.record(&[]) {
            Ok(events) => self.told(explorer.search(&events), &events, &program, &recovery),
            Err(violation) => Report::of(self, Some(*violation)),
        }
    }

    // Of what a run of the program did.
    pub(crate) fn lints_of(&self, events: &[Event]) -> Vec<Lint> {
        lint::of(self.profile, events, &self.volatile)
    }

    // The report with all that is told beside the outcome of the search.
    fn told(
        &self,
        mut report: Report,
        events: &[Event],
        program: &impl Fn(&Machine),
        recovery: &impl Fn(&Machine) -> Result<(), String>,
    ) -> Report {
        report.lints.extend(self.lints_of(events));
        for lint in &mut report.lints {
            lint.price(&self.prices);
            lint.name = self.names.of(lint.bytes.start).filter(|_| !lint.bytes.is_empty());
        }
        report.lints.sort_by_key(|lint| (lint.rule, lint.at.file(), lint.at.line(), lint.at.column()));
        if report.violation.is_some() {
            shrink::shrink(self, program, recovery, events, &mut report);
        }
        report
    }

    /// As [`run`](Self::run) for a program that is a list of steps; where there is a violation, steps are left
    /// out as long as there is one still. Fewer steps that make the program panic are left alone.
    ///
    /// # Panics
    /// As [`run`](Self::run), for all of the steps.
    pub fn run_steps<S: Clone>(
        &self,
        steps: &[S],
        program: impl Fn(&Machine, &[S]),
        recovery: impl Fn(&Machine) -> Result<(), String>,
    ) -> (Report, Vec<S>) {
        let mut steps = steps.to_vec();
        let search = |steps: &[S], whole: bool| {
            let program = |memory: &Machine| program(memory, steps);
            let explorer = Explorer::new(self, &program, &recovery);
            let explorer = if whole { explorer } else { explorer.once() };
            // Fewer steps may make no sense.
            let record = || explorer.record(&[]);
            let events = if whole { record() } else { quietly(record).ok()? };
            Some(events.map(|events| (explorer.search(&events), events)))
        };
        let whole = search(&steps, true).expect("the whole program does not panic");
        let (mut report, mut events) = match whole {
            Ok(found) => found,
            Err(violation) => return (Report::of(self, Some(*violation)), steps),
        };
        // The same kind of wrong, in what crashes leave.
        let fault = |report: &Report| report.violation.as_ref().map(|violation| violation.fault);
        // Halves, quarters, and so on (Zeller and Hildebrandt's ddmin, IEEE TSE 2002), then one by one until
        // none can be spared.
        let mut piece = steps.len().div_ceil(2);
        while report.violation.is_some() && piece > 0 {
            let (before, mut at) = (steps.len(), 0);
            while at < steps.len() {
                let fewer: Vec<S> =
                    steps[..at].iter().chain(&steps[(at + piece).min(steps.len())..]).cloned().collect();
                match search(&fewer, false) {
                    Some(Ok(tried)) if fault(&tried.0) == fault(&report) => {
                        ((report, events), steps) = (tried, fewer)
                    }
                    _ => at += piece,
                }
            }
            piece = match piece {
                1 if steps.len() == before => 0,
                1 => 1,
                _ => piece.div_ceil(2),
            };
        }
        let report = self.told(report, &events, &|memory: &Machine| program(memory, &steps), &recovery);
        (report, steps)
    }
}

/// Places of one rule that a report tells in full.
const PLACES: usize = 3;

impl Violation {
    pub(crate) fn new(wrong: Wrong, story: Story) -> Self {
        Self { fault: wrong.fault, message: wrong.message, story, fix: None, left: Vec::new() }
    }
}

impl Report {
    /// Of a search that looked at nothing.
    pub(crate) fn of(check: &Check, violation: Option<Violation>) -> Self {
        Self {
            profile: check.profile,
            crash_points: 0,
            looked_at: 0,
            states: 0,
            merged: 0,
            images: 0.0,
            bounded: false,
            seed: check.sample.map(|(seed, _)| seed),
            violation,
            lints: Vec::new(),
        }
    }

    /// For tests: says nothing where everything was looked at, or all that was to be
    /// [sampled](Check::sample), and there is no violation. Lints do not count: whoever wants none asserts that
    /// [`lints`](Self::lints) is empty.
    ///
    /// # Panics
    /// With the whole report, where there is a violation, or the [limit](Check::most_states) was met.
    #[track_caller]
    pub fn expect_sound(&self) {
        assert!(self.violation.is_none(), "{self}");
        assert!(!self.bounded || self.seed.is_some(), "{self}");
    }

    fn tell_lints(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A store that nothing ever flushes is not flushed before the acknowledgement either.
        let told = |lint: &&Lint| {
            let never = |other: &Lint| {
                other.rule == Rule::NeverDurable && (other.at, &other.bytes) == (lint.at, &lint.bytes)
            };
            lint.rule != Rule::AcknowledgedTooEarly || !self.lints.iter().any(never)
        };
        let lints: Vec<&Lint> = self.lints.iter().filter(told).collect();
        for same in lints.chunk_by(|one, other| one.rule == other.rule) {
            let (first, rest) = same.split_at(same.len().min(PLACES));
            if !rest.is_empty() && rest.len() < PLACES {
                same.iter().try_for_each(|lint| writeln!(f, "{lint}"))?;
                continue;
            }
            first.iter().try_for_each(|lint| writeln!(f, "{lint}"))?;
            if !rest.is_empty() {
                let places: Vec<String> =
                    rest.iter().map(|lint| format!("{}:{}", lint.at.file(), lint.at.line())).collect();
                writeln!(f, "... {} at {} more places: {}", first[0].rule, rest.len(), places.join(", "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, crash_points, looked_at, states, merged, .. } = self;
        match &self.violation {
            None => writeln!(f, "Under the rules of {profile}, nothing wrong was found.")?,
            Some(violation) => {
                match violation.fault {
                    Fault::NotDeterministic => f.write_str("What is checked does not repeat itself")?,
                    _ if violation.story.crashes() == 0 => f.write_str("The program fails")?,
                    _ => write!(
                        f,
                        "Under the rules of {profile}, a crash can leave memory so that recovery fails"
                    )?,
                }
                writeln!(f, ":\n    {}\n\n{violation}", violation.message.replace('\n', "\n    "))?;
            }
        }
        let equal =
            if *merged > 0 { format!(" {merged} more were equal to one of these.") } else { String::new() };
        if self.violation.is_some() {
            writeln!(
                f,
                "The search ended with it, at crash {looked_at} of {crash_points} after {states} states.{equal}"
            )?;
        } else if looked_at == crash_points {
            writeln!(f, "Looked at: all of {crash_points} crashes, {states} states.{equal}")?;
        } else {
            writeln!(f, "Looked at: {looked_at} of {crash_points} crashes, {states} states.{equal}")?;
        }
        if let Some(seed) = self.seed {
            writeln!(f, "They were taken at random with seed {seed}; what was not taken was not looked at.")?;
        } else if self.bounded {
            writeln!(
                f,
                "The limit of states was met: {} crashes were looked at in part or not at all.",
                crash_points - looked_at
            )?;
        }
        self.tell_lints(f)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.story)?;
        match &self.fix {
            Some(fix) => {
                write!(f, "\nThe fix: {fix}. It was tried: then nothing wrong is found")?;
                if self.left.is_empty() {
                    writeln!(f, ".")?;
                } else {
                    writeln!(f, ", but this is left:")?;
                    self.left.iter().try_for_each(|lint| writeln!(f, "    {lint}"))?;
                }
                fix.in_recovery.iter().try_for_each(|in_recovery| write!(f, "{in_recovery}"))
            }
            None => f.write_str(&self.story.beyond_repair()),
        }
    }
}
