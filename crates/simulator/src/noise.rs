//! What the host of a virtual machine does to it, drawn from a seed: its clock rate drifts, and its
//! CPUs move.
//!
//! It is there to try statistics on known truth, and describes no host in particular: what drifts
//! and moves how far and how often are constants below.

use std::f64::consts::TAU;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::hardware::{HardwareThread, Op, Program, Ps, Setup, SetupError, Thread};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringfence_machine::cpulist::CpuId;
use serde::Deserialize;

use crate::actor::Actor;

/// A kind of noise, as a machine file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// That of a virtual machine whose host has others to serve.
    Vm,
}

// The drift is a sum of these: how much, and seconds of a period.
const DRIFT: [(f64, f64); 3] = [(0.015, 17.0), (0.01, 7.3), (0.005, 3.1)];
// Seconds between two moves, on the average.
const STAY: f64 = 5.0;

/// The host of a virtual machine.
pub struct Host {
    random: Xoshiro256PlusPlus,
    phases: [f64; 3],
    // Where each CPU runs.
    places: Vec<CpuId>,
    // Seconds.
    moves_at: f64,
}

impl Host {
    /// Each CPU in its own place.
    pub fn new(seed: u64, cpus: u32) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let phases = [(); 3].map(|()| share(&mut random));
        let moves_at = stay(&mut random);
        Self { random, phases, places: (0..cpus).collect(), moves_at }
    }

    /// Makes the moves until a time; whether there was any. Two CPUs change places at a time.
    pub fn advance(&mut self, at: Duration) -> bool {
        let mut moved = false;
        while self.moves_at <= at.as_secs_f64() {
            let count = self.places.len() as f64;
            let [one, other] = [(); 2].map(|()| (share(&mut self.random) * count) as usize);
            self.places.swap(one, other);
            self.moves_at += stay(&mut self.random);
            moved = true;
        }
        moved
    }

    /// Where a CPU runs now.
    pub fn place(&self, cpu: CpuId) -> CpuId {
        self.places[cpu as usize]
    }

    /// How fast everything goes at a time: 1 on the average.
    pub fn rate(&self, at: Duration) -> f64 {
        let part = |((much, period), phase): (&(f64, f64), &f64)| {
            much * (TAU * (at.as_secs_f64() / period + phase)).sin()
        };
        1.0 + DRIFT.iter().zip(&self.phases).map(part).sum::<f64>()
    }
}

// From 0 to 1.
fn share(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn stay(random: &mut Xoshiro256PlusPlus) -> f64 {
    -STAY * (1.0 - share(random)).ln()
}

type Seated = Arc<Mutex<Option<Actor>>>;

/// A hardware thread's program, which runs the actor seated there.
struct Chair(Seated);

impl Program for Chair {
    fn next(&mut self, now: Ps) -> Op {
        let mut seated = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An empty chair is paused.
        seated.as_mut().map_or(Op::Rest(Ps::from_ns(1_000)), |actor| actor.next(now))
    }
}

/// All hardware threads of a machine, for actors to move between.
#[derive(Default)]
pub struct Chairs(Vec<(Thread, Seated)>);

impl Chairs {
    /// One on each of these, empty.
    ///
    /// # Errors
    /// Where a run cannot have so many.
    pub fn new(
        setup: &mut Setup,
        threads: impl Iterator<Item = HardwareThread>,
    ) -> Result<Self, SetupError> {
        let chair = |thread: HardwareThread| {
            let seated = Seated::default();
            Ok((setup.program(thread, 0, Chair(seated.clone()))?, seated))
        };
        threads.map(chair).collect::<Result<_, _>>().map(Self)
    }

    /// All of them.
    pub fn threads(&self) -> impl Iterator<Item = Thread> {
        self.0.iter().map(|(thread, _)| *thread)
    }

    /// Seats an actor on an empty chair.
    pub fn seat(&self, place: CpuId, actor: Option<Actor>) -> Thread {
        let (thread, seated) = &self.0[place as usize];
        *seated.lock().unwrap_or_else(PoisonError::into_inner) = actor;
        *thread
    }

    /// Unseats the current actor.
    pub fn clear(&self, thread: Thread) -> Option<Actor> {
        let (_, seated) = self.0.iter().find(|(known, _)| *known == thread)?;
        seated.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_drift_slowly_and_by_some_per_cent() {
        let host = Host::new(3, 8);
        let rates: Vec<f64> =
            (0..600).map(|step| host.rate(Duration::from_millis(step * 100))).collect();
        let (least, most) =
            (rates.iter().fold(2.0, |a, b| b.min(a)), rates.iter().fold(0.0, |a, b| b.max(a)));
        assert!((0.97..0.99).contains(&least) && (1.01..1.03).contains(&most), "{least} to {most}");
        assert!(rates.windows(2).all(|pair| (pair[0] - pair[1]).abs() < 0.003));
        assert!((rates.iter().sum::<f64>() / 600.0 - 1.0).abs() < 0.005);
        assert_ne!(rates[0], Host::new(4, 8).rate(Duration::ZERO));
    }

    #[test]
    fn cpus_change_places_now_and_then() {
        let mut host = Host::new(5, 8);
        let moves =
            (0..2000).filter(|step| host.advance(Duration::from_millis(step * 100))).count();
        assert!((25..60).contains(&moves), "{moves} in 200 s");
        let mut places: Vec<CpuId> = (0..8).map(|cpu| host.place(cpu)).collect();
        assert!((0..8).any(|cpu| host.place(cpu) != cpu));
        places.sort_unstable();
        assert!(places.into_iter().eq(0..8));
    }
}
