//! Every state that a crash can leave behind, one after the other, and recovery on each.

use std::any::Any;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use ringfence_persist::policy::Prices;

use crate::choices::Choices;
use crate::lint::{self, Lint};
use crate::machine::{Inner, Machine, Stop};
use crate::profile::Profile;
use crate::remains::Remains;
use crate::story::Story;

/// A question: which rules, how much memory, how many crashes.
#[derive(Debug, Clone)]
pub struct Check {
    profile: Profile,
    len: usize,
    crashes: usize,
    strong_flushes: bool,
    most_paths: u64,
    prices: Prices,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// The rules it was checked under.
    pub profile: Profile,
    /// Crashes of the program that were told apart.
    pub crash_points: usize,
    /// Runs of recovery: each on another state that a crash can leave, as far as recovery looked.
    pub paths: u64,
    /// Paths that ended in a state seen before.
    pub merged: u64,
    /// Whether the limit of paths was met, so that there are states that nobody looked at.
    pub bounded: bool,
    /// The first state found that recovery makes something wrong of.
    pub violation: Option<Violation>,
    /// What is wasteful or suspicious in what the program did until its end.
    pub lints: Vec<Lint>,
}

/// A state that a crash can leave, of which recovery makes something wrong.
#[derive(Debug)]
pub struct Violation {
    /// What recovery said, or how it panicked.
    pub message: String,
    /// How it came to that.
    pub story: Story,
}

impl Check {
    /// Under the rules of `profile`, with `len` bytes of memory that are zero at first; one crash.
    pub fn new(profile: Profile, len: usize) -> Self {
        Self {
            profile,
            len,
            crashes: 1,
            strong_flushes: false,
            most_paths: 10_000_000,
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

    /// Gives up after so many paths; the report says so.
    pub fn most_paths(self, most_paths: u64) -> Self {
        Self { most_paths, ..self }
    }

    /// Tells with each needless instruction what it costs on this machine: [`Prices::here`] takes the prices from
    /// the policy file that `RINGFENCE_POLICY` names and `ringfence tune` writes. Without, no figure is given.
    pub fn prices(self, prices: Prices) -> Self {
        Self { prices, ..self }
    }

    /// Runs `program`, crashes it wherever that makes a difference, and runs `recovery` on everything that can
    /// be left. Recovery is told what was [marked](Machine::mark) before the crash, and returns what is wrong;
    /// a panic is wrong too. What it does after it has recovered is the next life of the program: with more
    /// than one crash it is crashed in turn, and run again.
    ///
    /// Both must do the same whenever they read the same.
    ///
    /// # Panics
    /// If the program itself panics, or recovery does different things with the same memory.
    pub fn run(
        &self,
        program: impl Fn(&Machine),
        recovery: impl Fn(&Machine) -> Result<(), String>,
    ) -> Report {
        let machine = Machine::new(self.profile, self.len, self.strong_flushes);
        program(&machine);
        let ran = machine.into_inner();
        let mut report = Report {
            profile: self.profile,
            crash_points: 0,
            paths: 0,
            merged: 0,
            bounded: false,
            violation: None,
            lints: lint::of(self.profile, &ran.events),
        };
        report.lints.iter_mut().for_each(|lint| lint.price(&self.prices));
        let mut seen = HashSet::new();
        for end in crash_points(&ran) {
            report.crash_points += 1;
            let mut start = ran.clone();
            start.events.truncate(end);
            start.marks.truncate(ran.events[..end].iter().filter(|event| event.is_mark()).count());
            start.layers = vec![Rc::new(Remains::of(self.profile, &start.events))];
            let runs = vec![std::mem::take(&mut start.events)];
            start.restart();
            start.crashes_left = self.crashes - 1;
            if !seen.insert(key(&start)) {
                report.merged += 1;
                continue;
            }
            self.from(&start, &runs, &recovery, &mut seen, &mut report);
            if report.violation.is_some() || report.bounded {
                break;
            }
        }
        report
    }

    fn from(
        &self,
        start: &Inner,
        before: &[Vec<crate::event::Event>],
        recovery: &impl Fn(&Machine) -> Result<(), String>,
        seen: &mut HashSet<u64>,
        report: &mut Report,
    ) {
        let mut choices = Choices::default();
        loop {
            if report.paths == self.most_paths {
                report.bounded = true;
                return;
            }
            let mut inner = start.clone();
            inner.choices = choices;
            let mut runs = Vec::new();
            let result = loop {
                report.paths += 1;
                let machine = Machine::of(inner);
                let result = quietly(|| {
                    let result = recovery(&machine);
                    if result.is_ok() {
                        machine.crash_point();
                    }
                    result
                });
                inner = machine.into_inner();
                match result {
                    Ok(result) => break result.err(),
                    Err(thrown) => match thrown.downcast::<Stop>().map(|stop| *stop) {
                        Ok(Stop::Crash) => {
                            inner.crash();
                            runs.push(std::mem::take(&mut inner.events));
                            inner.restart();
                            inner.crashes_left -= 1;
                            if inner.choices.is_new() && !seen.insert(key(&inner)) {
                                report.merged += 1;
                                break None;
                            }
                        }
                        Ok(Stop::Impossible) => break None,
                        Err(thrown) => break Some(message(thrown)),
                    },
                }
            };
            if let Some(message) = result {
                let runs = before.iter().cloned().chain(runs).chain([inner.events.clone()]).collect();
                report.violation = Some(Violation { message, story: Story::of(&inner, runs) });
                return;
            }
            choices = inner.choices;
            if !choices.advance() {
                return;
            }
        }
    }
}

// Just before whatever is ordered with what came before, or is told to the world; and at the end.
fn crash_points(ran: &Inner) -> Vec<usize> {
    let mut points = Vec::new();
    let mut fresh = true;
    for (number, event) in ran.events.iter().enumerate() {
        if event.kind.is_boundary() && std::mem::take(&mut fresh) {
            points.push(number);
        }
        fresh = true;
    }
    points.push(ran.events.len());
    points
}

fn key(inner: &Inner) -> u64 {
    let mut hasher = DefaultHasher::new();
    inner.layers.len().hash(&mut hasher);
    inner.layers.iter().for_each(|layer| layer.key(&mut hasher));
    (&inner.nots, &inner.marks, inner.crashes_left).hash(&mut hasher);
    hasher.finish()
}

fn message(thrown: Box<dyn Any + Send>) -> String {
    match thrown.downcast::<String>() {
        Ok(text) => format!("recovery panicked: {text}"),
        Err(other) => match other.downcast::<&str>() {
            Ok(text) => format!("recovery panicked: {text}"),
            Err(_) => "recovery panicked".into(),
        },
    }
}

// Panics of a recovery under check are results, and no news for the terminal.
fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    use std::cell::Cell;
    use std::sync::Once;
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    result
}
