//! A pointer chase: the purest victim of a disturbed cache.
//!
//! The lines of the footprint form one random cycle (Sattolo, 1986), so that no prefetcher and no
//! overlap of loads hides a latency, and every line is loaded once a round.

use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringfence_experiment::task::Chase;
use ringfence_machine::clock::Clock;
use ringfence_persist::LINE;

use super::lines::Cycle;
use crate::workload::{Latencies, SetupError, Work, Workload};

const PORTION: u64 = 64;
/// Batches of which a start's latency is the median: about 2 ms at a cache's latency.
const BATCHES: usize = 9;

struct NoLatencies;

impl Latencies for NoLatencies {
    fn count(&self, _: u64) {}
}

/// The chase and where it stands.
pub struct Chaser {
    cycle: Cycle,
    lines: u64,
    histogram: bool,
}

impl Chaser {
    /// Maps the footprint and links its lines.
    pub fn new(task: &Chase, seed: u64) -> Result<Self, SetupError> {
        let region = crate::workload::memory(task.footprint.0, task.pages.pages())?;
        let lines = task.footprint.0 / LINE as u64;
        let mut order: Vec<u32> = (0..lines as u32).collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for i in (1..order.len()).rev() {
            let j = ((u128::from(rng.next_u64()) * i as u128) >> 64) as usize;
            order.swap(i, j);
        }
        Ok(Self { cycle: Cycle::new(region, &order), lines, histogram: task.histogram })
    }
}

impl Workload for Chaser {
    fn work(&mut self, amount: u64, latencies: &dyn Latencies) -> Work {
        let units = amount * PORTION;
        if self.histogram {
            self.cycle.follow_timed(units, Clock::host(), |ticks| latencies.count(ticks));
        } else {
            self.cycle.follow(units);
        }
        Work { units, untimed: 0 }
    }

    // A round to warm up, then the median over batches: some milliseconds for what fits into a
    // cache. What does not is never warm, so a part of the round is enough.
    fn alone_ns(&mut self) -> Option<f64> {
        const WARM_UP: Duration = Duration::from_millis(10);
        const BATCH: u64 = 4096;
        // Loads that are timed one by one hold the clock's cost: no latency of a cache.
        if self.histogram {
            return None;
        }
        let begun = Instant::now();
        let mut left = self.lines;
        while left > 0 && begun.elapsed() < WARM_UP {
            self.work(BATCH / PORTION, &NoLatencies);
            left = left.saturating_sub(BATCH);
        }
        let mut ns: Vec<f64> = (0..BATCHES)
            .map(|_| {
                let begun = Instant::now();
                self.work(BATCH / PORTION, &NoLatencies);
                begun.elapsed().as_nanos() as f64 / BATCH as f64
            })
            .collect();
        ns.sort_by(f64::total_cmp);
        Some(ns[BATCHES / 2])
    }

    fn settle_units(&self) -> u64 {
        self.lines
    }
}
