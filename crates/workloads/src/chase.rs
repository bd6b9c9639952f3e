//! A pointer chase: the purest victim of a disturbed cache.
//!
//! The lines of the footprint form one random cycle (Sattolo, 1986), so that no prefetcher and no
//! overlap of loads hides a latency, and every line is loaded once a round.

use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringfence_experiment::task::Chase;
use ringfence_machine::clock::Clock;
use ringfence_persist::{LINE, Region};

use super::{Latencies, SetupError, Work, Workload};

const PORTION: u64 = 64;
/// Batches of which a start's latency is the median: about 2 ms at a cache's latency.
const BATCHES: usize = 9;

struct NoLatencies;

impl Latencies for NoLatencies {
    fn count(&self, _: u64) {}
}

/// The chase and where it stands.
pub struct Chaser {
    // Keeps the cycle mapped.
    _region: Region,
    at: *const u8,
    lines: u64,
    histogram: bool,
}

impl Chaser {
    /// Maps the footprint and links its lines.
    pub fn new(task: &Chase, seed: u64) -> Result<Self, SetupError> {
        let region = super::memory(task.footprint.0, task.pages.pages())?;
        let lines = task.footprint.0 / LINE as u64;
        let mut order: Vec<u32> = (0..lines as u32).collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for i in (1..order.len()).rev() {
            let j = ((u128::from(rng.next_u64()) * i as u128) >> 64) as usize;
            order.swap(i, j);
        }
        let base = region.base();
        for (line, next) in order.iter().enumerate() {
            // SAFETY: both lines lie in the region, which is at least `lines` long and aligned.
            unsafe {
                let next = base.add(*next as usize * LINE);
                base.add(line * LINE).cast::<*const u8>().write(next);
            }
        }
        Ok(Self { at: base, _region: region, lines, histogram: task.histogram })
    }
}

impl Workload for Chaser {
    fn work(&mut self, amount: u64, latencies: &dyn Latencies) -> Work {
        let units = amount * PORTION;
        let mut at = self.at;
        if self.histogram {
            let clock = Clock::host();
            for _ in 0..units {
                let start = clock.now();
                // SAFETY: every line of the cycle holds the address of another. Volatile, so that the
                // load stays between the two readings of the clock, which wait for it.
                at = unsafe { at.cast::<*const u8>().read_volatile() };
                latencies.count(clock.now() - start);
            }
        } else {
            for _ in 0..units {
                // SAFETY: as above.
                at = unsafe { at.cast::<*const u8>().read() };
            }
        }
        self.at = at;
        Work { units, untimed: 0 }
    }

    // A round to warm up, then the median over batches: some milliseconds for what fits into a cache. What
    // does not is never warm, so a part of the round is enough.
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
