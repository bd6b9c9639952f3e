//! What a timed read takes on this machine when it hits, when it misses, and when nothing is read at all.

use std::arch::x86_64::{__m128i, _mm_clflush, _mm_mfence};

use ringfence_machine::clock::Clock;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::pin;
use serde::{Deserialize, Serialize};

use super::{bucket_floor, bucket_of};
use crate::workload::read::Order;

/// What tells hits from misses, measured before anything else runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// What reading the clock twice takes with nothing in between, ns, the median: every latency holds it.
    pub clock_ns: f64,
    /// A read of a line that has just been read, the clock included, ns: the median.
    pub hit_ns: f64,
    /// The same: 99 of 100 take at most this.
    pub hit_high_ns: f64,
    /// A read of a line that has been flushed to memory (`clflush`), the clock included, ns: the median.
    pub miss_ns: f64,
    /// The same: 99 of 100 take at least this.
    pub miss_low_ns: f64,
}

// Every fourth line is read, so that a prefetcher of adjacent lines brings in none that is to be missed.
const LINES: u64 = 4096;
const STRIDE: usize = 4 * 64;
// The first round meets page tables and branches that are not cached.
const ROUNDS: u64 = 4;

impl Scale {
    /// Measures on a CPU, in some ms. `None` where this process may not run there.
    pub fn measure(cpu: CpuId) -> Option<Self> {
        let measured = std::thread::spawn(move || {
            pin::pin_current_thread(cpu).ok()?;
            Some(on_this_cpu())
        });
        measured.join().ok().flatten()
    }

    /// The least latency that counts as a miss, ns, the floor of a bucket: what 99 of 100 reads of flushed
    /// lines take at least. `None` where reads of cached lines take as long, so that latency tells nothing.
    pub fn threshold_ns(&self) -> Option<u64> {
        let (hit, miss) = (bucket_of(self.hit_high_ns as u64), bucket_of(self.miss_low_ns as u64));
        (miss > hit + 1).then(|| bucket_floor(miss))
    }
}

fn on_this_cpu() -> Scale {
    let clock = Clock::host();
    let memory = vec![1u8; LINES as usize * STRIDE + 64];
    let line = |number: u64| {
        let aligned = memory.as_ptr().align_offset(64);
        memory[aligned + number as usize * STRIDE..].as_ptr()
    };
    let timed = |number: u64| {
        let at = line(number).cast::<__m128i>();
        let start = clock.now();
        // SAFETY: a line of the memory, aligned to 64 bytes, all of it inside.
        unsafe { at.read_volatile() };
        clock.now() - start
    };
    let mut order = Order::new(LINES, 1);
    let (mut nothing, mut hits, mut misses) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for number in 0..LINES {
            // SAFETY: SSE2 is part of x86-64, and the line is mapped.
            unsafe { _mm_clflush(line(number)) };
        }
        // SAFETY: as above; waits for the flushes.
        unsafe { _mm_mfence() };
        order.begin();
        for number in order.by_ref() {
            let start = clock.now();
            let empty = clock.now() - start;
            let (miss, hit) = (timed(number), timed(number));
            if round > 0 {
                nothing.push(clock.ns(empty));
                misses.push(clock.ns(miss));
                hits.push(clock.ns(hit));
            }
        }
    }
    for values in [&mut nothing, &mut hits, &mut misses] {
        values.sort_by(f64::total_cmp);
    }
    let at = |values: &[f64], share: f64| values[((values.len() - 1) as f64 * share) as usize];
    Scale {
        clock_ns: at(&nothing, 0.5),
        hit_ns: at(&hits, 0.5),
        hit_high_ns: at(&hits, 0.99),
        miss_ns: at(&misses, 0.5),
        miss_low_ns: at(&misses, 0.01),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_apart_has_no_threshold() {
        let scale = |hit_high_ns: f64, miss_low_ns: f64| Scale {
            clock_ns: 20.0,
            hit_ns: 22.0,
            hit_high_ns,
            miss_ns: miss_low_ns * 1.2,
            miss_low_ns,
        };
        assert_eq!(scale(30.0, 90.0).threshold_ns(), Some(88));
        assert_eq!(scale(30.0, 30.0).threshold_ns(), None);
        assert_eq!(scale(30.0, 33.0).threshold_ns(), None, "neighbouring buckets");
        assert_eq!(scale(90.0, 30.0).threshold_ns(), None);
        assert_eq!(scale(f64::NAN, -1.0).threshold_ns(), None);
    }

    #[test]
    fn it_is_measured_in_order() {
        let cpu = pin::affinity().unwrap().first().unwrap();
        let scale = Scale::measure(cpu).unwrap();
        assert!(scale.clock_ns > 0.0 && scale.hit_ns <= scale.hit_high_ns, "{scale:?}");
        assert!(scale.miss_low_ns <= scale.miss_ns, "{scale:?}");
        assert_eq!(Scale::measure(60_000), None);
    }
}
