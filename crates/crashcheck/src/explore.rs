//! Every state that a crash can leave behind, one after the other, and recovery on each.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

use crate::check::{Check, Report, Violation};
use crate::choices::{Choices, Random};
use crate::event::Event;
use crate::fix::Edit;
use crate::machine::Machine;
use crate::remains::Remains;
use crate::run::{Run, Seen, State};
use crate::story::{Fate, Story};
use crate::uncovered::Uncovered;

/// A search for something that recovery makes wrong.
pub(crate) struct Explorer<'c, P, R> {
    check: &'c Check,
    program: &'c P,
    recovery: &'c R,
    // One for each crash, the program's own first.
    machines: Vec<Machine>,
    seen: Rc<RefCell<Seen>>,
    states: u64,
    images: f64,
    bounded: bool,
    // Whether the search of one crash came to the end of its share.
    cut: bool,
    found: Option<Found>,
    // As far as the search of a crash goes, or that for something smaller once something is found.
    until: u64,
    // Words that recoveries read or wrote, and how many they may.
    words: u64,
    most_words: u64,
    uncovered: Uncovered,
}

/// How small a counterexample is: fewer runs, then fewer stores lost, then fewer decided, then less done.
type Size = (usize, usize, usize, usize);

struct Found {
    size: Size,
    violation: Violation,
}

/// States that a crash of the program is searched for at first, before the others have their turn.
const SHARE: u64 = 50_000;

/// States that are searched for a smaller counterexample once there is one.
const NEARBY: u64 = 20_000;
/// And words that recoveries may read or write for that.
pub(crate) const NEARBY_WORDS: u64 = 20_000_000;

impl<'c, P, R> Explorer<'c, P, R>
where
    P: Fn(&Machine),
    R: Fn(&Machine) -> Result<(), String>,
{
    pub(crate) fn new(check: &'c Check, program: &'c P, recovery: &'c R) -> Self {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let run = || Run::new(check.profile, check.len, check.strong_flushes, Rc::clone(&seen));
        let machines = (0..=check.crashes).map(|_| Machine(RefCell::new(run()))).collect();
        Self {
            check,
            program,
            recovery,
            machines,
            seen,
            states: 0,
            images: 0.0,
            bounded: false,
            cut: false,
            found: None,
            until: u64::MAX,
            words: 0,
            most_words: u64::MAX,
            uncovered: Uncovered::default(),
        }
    }

    /// Gives up too once recoveries read or wrote so many words.
    pub(crate) fn most_words(self, most_words: u64) -> Self {
        Self { most_words, ..self }
    }

    /// What the program does if nothing happens to it.
    pub(crate) fn record(&self, edit: Option<Edit>) -> Vec<Event> {
        for machine in &self.machines {
            machine.0.borrow_mut().edit = edit;
        }
        (self.program)(&self.machines[0]);
        let mut run = self.machines[0].0.borrow_mut();
        run.content.rewind();
        run.marks.clear();
        std::mem::take(&mut run.events)
    }

    /// Looks at everything, or as much as was asked for.
    pub(crate) fn search(mut self, events: &[Event]) -> Report {
        let events: &Rc<[Event]> = &events.into();
        let points = crash_points(events, self.check.kills);
        let mut looked_at = 0;
        if let Some((seed, count)) = self.check.sample {
            self.bounded = true;
            let mut random = Random(seed);
            let mut different = vec![false; points.len()];
            for _ in 0..count {
                let point = random.below(points.len() as u64) as usize;
                different[point] = true;
                let machine = Point { killed: false, ..points[point] };
                let state = self.crashed(events, points[point], false);
                // A process that dies with nothing in caches is no case of its own.
                let state =
                    state.or_else(|| self.crashed(events, machine, false)).expect("nothing is merged");
                self.explore(&state, 1, Choices::random(Random(random.next())));
                if self.found.is_some() {
                    break;
                }
            }
            looked_at = different.iter().filter(|looked_at| **looked_at).count();
        } else {
            let mut left: Vec<usize> = (0..points.len()).collect();
            let mut share = SHARE;
            // A crash that leaves very much must not hide the others: each has its share, and what is left over
            // another one, larger.
            while !left.is_empty() && !self.is_over() {
                let first = share == SHARE;
                left.retain(|number| {
                    if self.is_over() {
                        return true;
                    }
                    looked_at = number + 1;
                    !self.point(events, points[*number], share, first)
                });
                share *= 8;
            }
            self.bounded = self.found.is_none() && !left.is_empty();
            if self.found.is_none() {
                looked_at = points.len() - left.len();
            }
        }
        let merged = self.seen.borrow().merged;
        Report {
            profile: self.check.profile,
            crash_points: points.len(),
            looked_at,
            states: self.states,
            merged,
            images: self.images,
            bounded: self.bounded,
            seed: self.check.sample.map(|(seed, _)| seed),
            violation: self.found.map(|found| found.violation),
            lints: self.uncovered.lints(),
        }
    }

    fn is_over(&self) -> bool {
        self.found.is_some() || self.states >= self.check.most_states || self.words >= self.most_words
    }

    // Looks at a crash of the program: whether to the end.
    fn point(&mut self, events: &Rc<[Event]>, point: Point, share: u64, first: bool) -> bool {
        let state = self.crashed(events, point, true);
        if first && !point.killed {
            self.images += match &state {
                Some(state) => state.layers[0].images(),
                None => Remains::of(self.check.profile, &events[..point.end], 0).images(),
            };
        }
        let Some(state) = state else { return true };
        (self.until, self.cut) = ((self.states + share).min(self.check.most_states), false);
        self.explore(&state, 1, Choices::default());
        if self.cut {
            // It begins anew when its turn comes again, and so must whatever it came by.
            self.seen.borrow_mut().keys.clear();
        }
        !self.cut
    }

    // What a crash of the program leaves.
    fn crashed(&self, events: &Rc<[Event]>, at: Point, merges: bool) -> Option<State> {
        for machine in &self.machines {
            let mut run = machine.0.borrow_mut();
            (run.merges, run.kills) = (merges, self.check.kills);
        }
        let run = &mut *self.machines[0].0.borrow_mut();
        // The machine was at some other point of the same before.
        run.events.truncate(at.end);
        let new = &events[run.events.len()..at.end];
        run.events.extend_from_slice(new);
        run.marks = run.events.iter().filter_map(|event| event.kind.mark()).collect();
        let mut state = if at.killed { run.kill() } else { run.crash() }?;
        state.last_run(events);
        Some(state)
    }

    // Recovery on every state that these can be; `depth` crashes happened.
    fn explore(&mut self, state: &State, depth: usize, mut choices: Choices) {
        let mut machine = std::mem::replace(&mut self.machines[depth], Machine(RefCell::new(Run::nothing())));
        {
            let run = machine.0.get_mut();
            run.begin(state);
            run.crashes = depth < self.check.crashes;
            run.weighs = run.crashes;
        }
        self.uncovered.begin();
        loop {
            if self.states >= self.until || self.words >= self.most_words {
                self.cut |= self.found.is_none();
                break;
            }
            self.states += 1;
            let run = machine.0.get_mut();
            run.rewind(state);
            run.choices = choices;
            let wrong = self.recover(&machine);
            let run = machine.0.get_mut();
            self.words += run.steps;
            if let Some(message) = wrong {
                self.remember(message, state, &mut machine);
            } else {
                self.uncovered.path(run);
            }
            let run = machine.0.get_mut();
            let crashed = run.take_crashed();
            choices = std::mem::take(&mut run.choices);
            for state in &crashed {
                if self.cut {
                    break;
                }
                let next = choices.fork();
                self.explore(state, depth + 1, next);
            }
            if self.cut || !choices.advance() {
                break;
            }
        }
        self.machines[depth] = machine;
    }

    // What is wrong, if anything is.
    fn recover(&self, machine: &Machine) -> Option<String> {
        let result = quietly(|| {
            let result = (self.recovery)(machine);
            if result.is_ok() {
                machine.0.borrow_mut().crash_point(true);
            }
            result
        });
        match result {
            Ok(result) => result.err(),
            Err(thrown) => Some(message(&thrown)),
        }
    }

    // Keeps the smallest.
    fn remember(&mut self, message: String, state: &State, machine: &mut Machine) {
        let run = machine.0.get_mut();
        let fates: Vec<Vec<Fate>> = run.layers.iter().map(|layer| layer.fates()).collect();
        let count = |fate: Fate| fates.iter().flatten().filter(|other| **other == fate).count();
        let done = run.before.iter().map(|run| run.len).sum::<usize>() + run.own_events().len();
        let decided = fates.iter().map(Vec::len).sum::<usize>() - count(Fate::Either);
        let size = (run.before.len(), count(Fate::Lost), decided, done);
        if self.found.as_ref().is_some_and(|found| found.size <= size) {
            return;
        }
        // The same path again, noting what it reads.
        let (crashes, crashed) = (std::mem::take(&mut run.crashes), std::mem::take(&mut run.crashed));
        run.rewind(state);
        run.choices.again();
        run.reads = Some(Vec::new());
        self.recover(machine);
        let run = machine.0.get_mut();
        (run.crashes, run.crashed) = (crashes, crashed);
        let reads = run.reads.take().unwrap_or_default();
        let story = Story::new(
            &run.before,
            fates.concat(),
            run.own_events().to_vec(),
            reads,
            self.check.names.clone(),
        );
        if self.found.is_none() {
            self.until = self.states + NEARBY;
            self.most_words = self.most_words.min(self.words + NEARBY_WORDS);
        }
        self.found = Some(Found { size, violation: Violation { message, story, fix: None } });
    }
}

// A crash of the program behind so many of its events.
#[derive(Debug, Clone, Copy)]
struct Point {
    end: usize,
    killed: bool,
}

// Of the machine: just before whatever is ordered with what came before, or is told to the world, and at the
// end. Of the process alone: anywhere, since a flush that it did not come to is missing for good.
fn crash_points(events: &[Event], kills: bool) -> Vec<Point> {
    let mut points = Vec::new();
    let mut fresh = true;
    for end in 0..=events.len() {
        let boundary = events.get(end).is_none_or(|event| event.kind.is_boundary());
        if fresh && boundary {
            points.push(Point { end, killed: false });
        }
        if fresh && kills {
            points.push(Point { end, killed: true });
        }
        fresh = !boundary || end < events.len();
    }
    points
}

fn message(thrown: &Box<dyn Any + Send>) -> String {
    let text = match (thrown.downcast_ref::<String>(), thrown.downcast_ref::<&str>()) {
        (Some(text), _) => format!(": {text}"),
        (_, Some(text)) => format!(": {text}"),
        _ => String::new(),
    };
    let place = PLACE.take().map(|(file, line)| format!(" at {file}:{line}")).unwrap_or_default();
    format!("recovery panicked{place}{text}")
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    // Of the last panic.
    static PLACE: Cell<Option<(String, u32)>> = const { Cell::new(None) };
}

// Panics of a recovery under check are results, and no news for the terminal.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                PLACE.set(info.location().map(|at| (at.file().to_owned(), at.line())));
            } else {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    result
}
