//! How far apart two CPUs are, by bouncing a cache line between them.
//!
//! Two threads take turns to write one line. A round trip moves the line there and back, so it
//! shows whether the CPUs share a core, a last-level cache, or neither. Trips are timed in batches,
//! because one of them is near the resolution of the clock; the median over batches ignores those
//! with an interrupt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cpulist::{CpuId, CpuSet};

use super::pin::{PinError, pin_current_thread};
use super::{ProbeError, quantile};

const TRIPS_PER_BATCH: u32 = 64;
/// Spins between two looks at the stop flag.
const SPINS: u32 = 1024;
/// How long both threads may take to arrive on their CPUs.
const GRACE: Duration = Duration::from_millis(250);

/// The distance of two CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingPong {
    /// The requested CPUs.
    pub cpus: (CpuId, CpuId),
    /// Round trip in ns: the median over batches.
    pub median_ns: f64,
    /// The tenth percentile over batches.
    pub p10_ns: f64,
    /// The ninetieth percentile over batches.
    pub p90_ns: f64,
    /// How many round trips were timed.
    pub round_trips: u64,
}

/// A line of its own, and the one that the adjacent-line prefetcher would fetch along.
#[repr(align(128))]
struct Own<T>(T);

struct Shared {
    ball: Own<AtomicU64>,
    stop: Own<AtomicBool>,
    other_ready: Own<AtomicBool>,
}

/// Bounces a cache line between two CPUs for `duration` (a few ms are enough).
///
/// Returns at the latest `duration` and half a second after the call, even if other work keeps
/// one of the CPUs busy for good.
pub fn ping_pong(cpu_a: CpuId, cpu_b: CpuId, duration: Duration) -> Result<PingPong, ProbeError> {
    if cpu_a == cpu_b {
        return Err(ProbeError::SameCpu(cpu_a));
    }
    let shared = Arc::new(Shared {
        ball: Own(AtomicU64::new(0)),
        stop: Own(AtomicBool::new(false)),
        other_ready: Own(AtomicBool::new(false)),
    });
    // Detached threads: a thread that never gets its CPU must not hold up the caller.
    let (to_us, outcome) = mpsc::channel();
    spawn("ping", {
        let (shared, to_us) = (shared.clone(), to_us.clone());
        move || report(cpu_a, &to_us, || Some(serve(&shared, duration)))
    })?;
    let returner = spawn("pong", {
        let shared = shared.clone();
        move || {
            report(cpu_b, &to_us, || {
                give_back(&shared);
                None
            })
        }
    });
    let batches = match returner {
        Ok(()) => outcome.recv_timeout(duration + 2 * GRACE),
        Err(error) => {
            shared.stop.0.store(true, Ordering::Relaxed);
            return Err(error);
        }
    };
    shared.stop.0.store(true, Ordering::Relaxed);
    let batches = match batches {
        Ok(Ok(batches)) => batches,
        Ok(Err(pin)) => return Err(pin.into()),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Vec::new(),
    };
    summarise((cpu_a, cpu_b), batches, duration)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ProbeError> {
    let spawned = thread::Builder::new().name(name.into()).stack_size(256 << 10).spawn(work);
    spawned.map(drop).map_err(|source| ProbeError::System { what: "start a thread".into(), source })
}

type Outcome = Result<Vec<f64>, PinError>;

fn report(cpu: CpuId, to: &Sender<Outcome>, work: impl FnOnce() -> Option<Vec<f64>>) {
    let outcome = match pin_current_thread(cpu) {
        Ok(()) => match work() {
            Some(batches) => Ok(batches),
            None => return,
        },
        Err(error) => Err(error),
    };
    // The receiver is gone once the deadline has passed.
    let _ = to.send(outcome);
}

/// Serves the ball until the time is up; ns per round trip of every batch.
fn serve(shared: &Shared, duration: Duration) -> Vec<f64> {
    let arrival = Instant::now();
    while !shared.other_ready.0.load(Ordering::Acquire) {
        if arrival.elapsed() > GRACE || shared.stop.0.load(Ordering::Relaxed) {
            return Vec::new();
        }
    }
    let start = Instant::now();
    let out_of_time = || start.elapsed() > duration || shared.stop.0.load(Ordering::Relaxed);
    let mut batches = Vec::with_capacity(1024);
    let mut ball = 0;
    while !out_of_time() {
        let batch = Instant::now();
        for _ in 0..TRIPS_PER_BATCH {
            shared.ball.0.store(ball + 1, Ordering::Release);
            ball += 2;
            let mut spins = 0;
            while shared.ball.0.load(Ordering::Acquire) != ball {
                spins += 1;
                if spins % SPINS == 0 && out_of_time() {
                    return batches;
                }
            }
        }
        batches.push(batch.elapsed().as_nanos() as f64 / f64::from(TRIPS_PER_BATCH));
    }
    batches
}

fn give_back(shared: &Shared) {
    shared.other_ready.0.store(true, Ordering::Release);
    let mut ball = 1;
    let mut spins = 0;
    loop {
        if shared.ball.0.load(Ordering::Acquire) == ball {
            shared.ball.0.store(ball + 1, Ordering::Release);
            ball += 2;
            spins = 0;
            continue;
        }
        spins += 1;
        if spins % SPINS == 0 && shared.stop.0.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn summarise(
    cpus: (CpuId, CpuId),
    mut batches: Vec<f64>,
    duration: Duration,
) -> Result<PingPong, ProbeError> {
    // The first batches fetch code and wake clocks; they count only where there are no others.
    if batches.len() > 8 {
        batches.drain(..4);
    }
    if batches.is_empty() {
        return Err(ProbeError::TimedOut {
            what: "the ping-pong",
            cpus: CpuSet::from_iter([cpus.0, cpus.1]).to_string(),
            ms: duration.as_millis(),
        });
    }
    batches.sort_by(f64::total_cmp);
    Ok(PingPong {
        cpus,
        median_ns: quantile(&batches, 0.5),
        p10_ns: quantile(&batches, 0.1),
        p90_ns: quantile(&batches, 0.9),
        round_trips: batches.len() as u64 * u64::from(TRIPS_PER_BATCH),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::pin::affinity;

    #[test]
    fn two_cpus_have_a_distance() {
        let cpus: Vec<CpuId> = affinity().unwrap().iter().take(2).collect();
        let [a, b] = cpus[..] else {
            return ringfence_testbed::skip_here("two_cpus_have_a_distance", "one CPU only");
        };
        // A neighbour may hold a CPU for the whole time on a small shared machine.
        match (0..100).find_map(|_| ping_pong(a, b, Duration::from_millis(20)).ok()) {
            Some(found) => {
                assert!(found.median_ns > 0.0 && found.round_trips >= 64);
                assert!(found.p10_ns <= found.median_ns && found.median_ns <= found.p90_ns);
            }
            None => ringfence_testbed::skip_here("two_cpus_have_a_distance", "the CPUs are busy"),
        }
    }

    #[test]
    fn impossible_requests_are_errors() {
        let few = Duration::from_millis(1);
        assert!(matches!(ping_pong(0, 0, few), Err(ProbeError::SameCpu(0))));
        let cpu = affinity().unwrap().first().unwrap();
        let before = affinity().unwrap();
        assert!(matches!(ping_pong(cpu, 60_000, few), Err(ProbeError::Pin(_))));
        assert!(matches!(ping_pong(60_000, cpu, few), Err(ProbeError::Pin(_))));
        assert_eq!(affinity().unwrap(), before);
    }

    #[test]
    fn nothing_measured_is_an_error() {
        let error = summarise((3, 1), Vec::new(), Duration::from_millis(5)).unwrap_err();
        assert!(error.to_string().contains("CPU 1,3"), "{error}");
    }
}
