//! What a flush leaves in the cache: how long it takes to load a line again.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuId;

use super::buffer::{Buffer, Flush, LINE, Pages};
use super::chase::{Random, single_cycle};
use super::pin::pin_current_thread;
use super::{ProbeError, quantile};

/// 32 KiB: few enough lines to stay in every L2, many enough that their time is far above the
/// step of the clock.
const LINES: usize = 512;
const ROUNDS: usize = 2000;

/// Latency of loading a line after it was stored to and flushed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reload {
    /// ns per load: the median over rounds of 512 lines.
    pub median_ns: f64,
    /// The tenth percentile over rounds.
    pub p10_ns: f64,
    /// The ninetieth percentile over rounds.
    pub p90_ns: f64,
    /// How many rounds there were.
    pub rounds: usize,
}

/// Latency of reloading lines on `cpu` after store, `flush` and `mfence`; without a flush, of
/// loading them from the cache. As long as a memory access: the instruction evicts. As short
/// as without a flush: it keeps the line.
///
/// The loads depend on each other and go in random order, so neither prefetchers nor
/// out-of-order execution hide the latency.
pub fn reload_latency(
    cpu: CpuId,
    flush: Option<Flush>,
    budget: Duration,
) -> Result<Reload, ProbeError> {
    let (to_us, outcome) = mpsc::channel();
    let work = move || {
        let measured =
            pin_current_thread(cpu).map_err(ProbeError::from).and_then(|()| rounds(flush, budget));
        // The receiver is gone once the deadline has passed.
        let _ = to_us.send(measured);
    };
    thread::Builder::new()
        .name("reload".into())
        .spawn(work)
        .map_err(|source| ProbeError::System { what: "start a thread".into(), source })?;
    let late = || ProbeError::TimedOut {
        what: "the reload probe",
        cpus: cpu.to_string(),
        ms: budget.as_millis(),
    };
    let mut values =
        outcome.recv_timeout(2 * budget + Duration::from_secs(10)).map_err(|_| late())??;
    values.sort_by(f64::total_cmp);
    Ok(Reload {
        median_ns: quantile(&values, 0.5),
        p10_ns: quantile(&values, 0.1),
        p90_ns: quantile(&values, 0.9),
        rounds: values.len(),
    })
}

/// ns per load of every round; at least one round.
fn rounds(flush: Option<Flush>, budget: Duration) -> Result<Vec<f64>, ProbeError> {
    let mut buffer = Buffer::new(LINES * LINE, Pages::Huge)?;
    let mut random = Random(0xF1A5);
    let mut order = single_cycle(LINES, &mut random);
    let start = Instant::now();
    let mut values = Vec::with_capacity(ROUNDS);
    // The first rounds also fetch code and page tables.
    for round in 0..ROUNDS + 4 {
        if start.elapsed() > budget && !values.is_empty() {
            break;
        }
        if round % 64 == 0 {
            let cycle = single_cycle(LINES, &mut random);
            buffer.link(&cycle);
            order = single_cycle(LINES, &mut random);
        }
        // In an order of its own, so that the order of the loads is not the one in which lines were
        // touched last.
        buffer.store_and_flush(&order, round, flush);
        let from = Instant::now();
        std::hint::black_box(buffer.follow(LINES));
        let ns = from.elapsed().as_nanos() as f64 / LINES as f64;
        if round >= 4 {
            values.push(ns);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::pin::affinity;

    #[test]
    fn with_and_without_a_flush() {
        let cpu = affinity().unwrap().first().unwrap();
        for flush in [None, Some(Flush::clflush())] {
            let found = reload_latency(cpu, flush, Duration::from_millis(20)).unwrap();
            println!("flush {}: {found:?}", flush.is_some());
            assert!(found.median_ns > 0.0 && found.rounds >= 1);
            assert!(found.p10_ns <= found.median_ns && found.median_ns <= found.p90_ns);
        }
    }

    #[test]
    fn an_impossible_cpu_is_an_error() {
        let error = reload_latency(60_000, None, Duration::from_millis(1));
        assert!(matches!(error, Err(ProbeError::Pin(_))));
    }
}
