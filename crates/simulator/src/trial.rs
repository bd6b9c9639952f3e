//! A start of all tasks on a described machine, and which of them run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::hardware::{Ps, Run, Thread};
use ringfence_experiment::Error;

use ringfence_experiment::plan::Active;
use ringfence_machine::cpulist::CpuId;

use crate::actor::{Actor, Shared};
use crate::noise::{Chairs, Host};
use crate::spans::{LOOK, SETTLE_LIMIT};
use crate::tasks::Regions;

// They have settled when no rate changes by more than this from one round to the next; a round
// takes so long at most.
const STEADY: f64 = 0.02;
const ROUND: Duration = Duration::from_millis(10);
// An adaptive last level that is replaced as a whole within this time goes back and forth between
// its rules: it is looked at over a swing, and for so long at most.
const ADAPTED: Duration = Duration::from_millis(100);
pub const SWING: Duration = Duration::from_millis(20);
// For how long is simulated at most until a stretch is over, and how much between two looks
// meanwhile.
const REACH_LIMIT: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_micros(5);

/// A start of all tasks.
pub struct Trial {
    pub run: Run,
    pub seats: Vec<Seat>,
    pub regions: Regions,
    // Of the metric's variants.
    pub stretches: Vec<(usize, Stretch)>,
    // Lines of a last-level cache, if what makes room there follows from what did before.
    pub adaptive: Option<u64>,
    // Where CPUs move.
    pub chairs: Option<Chairs>,
}

/// A CPU, and which of its tasks is whose.
pub struct Seat {
    pub cpu: CpuId,
    pub thread: Thread,
    pub shared: Arc<Shared>,
    pub holders: Vec<Holder>,
    // The holder that runs, if any.
    pub running: Option<usize>,
}

/// Whose task it is.
pub struct Holder {
    pub role: usize,
    pub instance: u32,
    // Whether it is the first CPU of a program, and the seats of the others.
    pub first: bool,
    pub fellows: Vec<usize>,
    pub variant: usize,
    // Units of a round over what caches have to settle to, beside others and alone.
    pub round: [u64; 2],
    pub least_window: Duration,
    pub goes_back: bool,
}

/// What a task that goes back does in each window of a trial, in units: before it is measured, and
/// while it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    pub before: u64,
    pub measured: u64,
}

/// What runs in a window: a seat, and its holder. Of a program on several CPUs it is the first.
pub type Running = Vec<(usize, usize)>;

/// What a task has done at an end of a window.
pub struct Point {
    pub units: u64,
    pub at: Ps,
    pub untimed: u64,
    pub latencies: Option<Box<[u64]>>,
}

impl Point {
    // Units per picosecond; none where nothing was counted meanwhile.
    fn rate_since(&self, before: &Point) -> f64 {
        (self.units - before.units) as f64 / (self.at - before.at).0.max(1) as f64
    }
}

impl Trial {
    /// Tells the first CPU of each program of the others.
    pub fn introduce(&mut self) {
        let key = |holder: &Holder| (holder.role, holder.instance, holder.variant);
        let others: Vec<_> = (0..self.seats.len())
            .flat_map(|seat| self.seats[seat].holders.iter().map(move |holder| (seat, holder)))
            .filter(|(_, holder)| !holder.first)
            .map(|(seat, holder)| (seat, key(holder)))
            .collect();
        for holder in
            self.seats.iter_mut().flat_map(|seat| &mut seat.holders).filter(|holder| holder.first)
        {
            let own = others.iter().filter(|(_, of)| *of == key(holder));
            holder.fellows = own.map(|(seat, _)| *seat).collect();
        }
    }

    /// Moves each actor to the chair where the host has placed it.
    pub fn reseat(&mut self, host: &Host) {
        let Some(chairs) = &self.chairs else { return };
        let stand_up = |seat: &mut Seat| {
            self.run.pause(seat.thread);
            chairs.clear(seat.thread)
        };
        let actors: Vec<Option<Actor>> = self.seats.iter_mut().map(stand_up).collect();
        for (seat, actor) in self.seats.iter_mut().zip(actors) {
            seat.thread = chairs.seat(host.place(seat.cpu), actor);
            seat.running = None;
        }
    }

    /// Lets exactly these run.
    pub fn switch(&mut self, active: &[Active]) -> Running {
        let mut running = Running::new();
        for (place, seat) in self.seats.iter_mut().enumerate() {
            let is_active = |holder: &Holder| {
                active.iter().any(|active| {
                    (active.role, active.variant) == (holder.role, holder.variant)
                        && holder.instance < active.count
                })
            };
            let now = seat.holders.iter().position(is_active);
            let goes_back = now.is_some_and(|holder| seat.holders[holder].goes_back);
            if now.is_some() && (now != seat.running || goes_back) {
                seat.shared.resumed.fetch_add(1, Ordering::Relaxed);
            }
            seat.running = now;
            match now {
                Some(holder) => {
                    seat.shared.order.store(holder, Ordering::Relaxed);
                    self.run.resume(seat.thread);
                    if seat.holders[holder].first {
                        running.push((place, holder));
                    }
                }
                None => self.run.pause(seat.thread),
            }
        }
        running
    }

    pub fn simulate(&mut self, span: Duration, stop: &AtomicBool) -> Result<(), Error> {
        let until = self.run.now() + ps(span);
        while self.run.now() < until {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::interrupted());
            }
            self.run.until(until.min(self.run.now() + ps(LOOK)));
        }
        Ok(())
    }

    /// Simulates until every task is as fast in one round as in the one before. Returns whether a
    /// last level adapts to the load, which then has settled, too.
    pub fn settle(
        &mut self,
        running: &Running,
        least: Duration,
        stop: &AtomicBool,
    ) -> Result<bool, Error> {
        let begun = self.run.now();
        self.simulate(least, stop)?;
        let steady = |(now, before): (&f64, &f64)| (now - before).abs() <= STEADY * before;
        let (mut from, mut replaced) = (self.run.now(), self.replaced(running));
        let mut last = self.round(running, SETTLE_LIMIT, stop)?;
        while self.run.now() - begun < ps(SETTLE_LIMIT) {
            (from, replaced) = (self.run.now(), self.replaced(running));
            let rates = self.round(running, ROUND, stop)?;
            if rates.iter().zip(&last).all(steady) {
                break;
            }
            last = rates;
        }
        if !self.compete(running) {
            return Ok(false);
        }
        // By the last round: caches that fill up have not turned over.
        let took = u128::from((self.run.now() - from).0);
        let turns = |(now, before): (&u64, &u64)| {
            let within = u128::from(now - before) * u128::from(ps(ADAPTED).0);
            self.adaptive.is_some_and(|lines| within > u128::from(lines) * took)
        };
        if !self.replaced(running).iter().zip(&replaced).any(turns) {
            return Ok(false);
        }
        let mut last = self.rates(running, SWING, stop)?;
        while self.run.now() - begun < ps(ADAPTED) {
            let rates = self.rates(running, SWING, stop)?;
            if rates.iter().zip(&last).all(steady) {
                break;
            }
            last = rates;
        }
        Ok(true)
    }

    // Whether several roles need caches. A task that goes back takes as long in all windows,
    // whatever runs with it.
    fn compete(&self, running: &Running) -> bool {
        let holders = running.iter().map(|(seat, holder)| &self.seats[*seat].holders[*holder]);
        if holders.clone().any(|holder| holder.goes_back) {
            return false;
        }
        let need = |holder: &&Holder| holder.round != [0, 0];
        let roles = || holders.clone().filter(need).map(|holder| holder.role);
        roles().max() != roles().min()
    }

    // Lines that made room in the last level below each.
    fn replaced(&self, running: &Running) -> Vec<u64> {
        running.iter().map(|(seat, _)| self.run.replaced(self.seats[*seat].thread)).collect()
    }

    // The speed of each task over some time.
    fn rates(
        &mut self,
        running: &Running,
        span: Duration,
        stop: &AtomicBool,
    ) -> Result<Vec<f64>, Error> {
        let before = self.points(running, false);
        self.simulate(span, stop)?;
        let now = self.points(running, false);
        Ok(before.iter().zip(&now).map(|(before, now)| now.rate_since(before)).collect())
    }

    /// Simulates until every task has done a round, for so long at most: units per picosecond of
    /// those that have rounds.
    pub fn round(
        &mut self,
        running: &Running,
        most: Duration,
        stop: &AtomicBool,
    ) -> Result<Vec<f64>, Error> {
        let roles = || running.iter().map(|(seat, holder)| self.seats[*seat].holders[*holder].role);
        let alone = usize::from(roles().max() == roles().min());
        let (begun, before) = (self.run.now(), self.points(running, false));
        let rounds: Vec<u64> = running
            .iter()
            .map(|(seat, holder)| self.seats[*seat].holders[*holder].round[alone])
            .collect();
        let unfinished = |trial: &Self| {
            let now = trial.points(running, false);
            rounds
                .iter()
                .zip(before.iter().zip(&now))
                .any(|(round, (before, now))| now.units - before.units < *round)
        };
        while unfinished(self) && self.run.now() - begun < ps(most) {
            self.simulate(LOOK, stop)?;
        }
        let now = self.points(running, false);
        let rated = rounds
            .iter()
            .zip(before.iter().zip(&now))
            .filter(|(round, (before, now))| **round > 0 && now.at > before.at);
        Ok(rated.map(|(_, (before, now))| now.rate_since(before)).collect())
    }

    /// The known stretch of a task, if any.
    pub fn stretch(&self, (seat, holder): (usize, usize)) -> Option<Stretch> {
        let variant = self.seats[seat].holders[holder].variant;
        self.stretches.iter().find(|(known, _)| *known == variant).map(|(_, stretch)| *stretch)
    }

    pub fn note_stretch(&mut self, (seat, holder): (usize, usize), stretch: Stretch) {
        if stretch.measured > 0 {
            self.stretches.push((self.seats[seat].holders[holder].variant, stretch));
        }
    }

    /// Simulates until a task has done so many units, or until the limit of simulated time.
    pub fn reach(
        &mut self,
        running: &Running,
        place: usize,
        units: u64,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let begun = self.run.now();
        while self.points(running, false)[place].units < units
            && self.run.now() - begun < ps(REACH_LIMIT)
        {
            self.simulate(STEP, stop)?;
        }
        Ok(())
    }

    pub fn points(&self, running: &Running, latencies: bool) -> Vec<Point> {
        let point = |(seat, holder): &(usize, usize)| {
            let seat = &self.seats[*seat];
            // What all CPUs of a program do is its work.
            let fellows =
                || seat.holders[*holder].fellows.iter().map(|fellow| self.seats[*fellow].thread);
            let threads = || std::iter::once(seat.thread).chain(fellows());
            Point {
                units: threads().map(|thread| self.run.units(thread)).sum(),
                at: threads().map(|thread| self.run.counted(thread)).max().unwrap_or_default(),
                untimed: seat.shared.tally.untimed_ps(),
                latencies: latencies.then(|| seat.shared.tally.latencies()),
            }
        };
        running.iter().map(point).collect()
    }
}

pub fn ps(span: Duration) -> Ps {
    Ps::from_ns(span.as_nanos() as u64)
}

pub fn ns(span: Ps) -> u64 {
    (span.0 + 500) / 1000
}
