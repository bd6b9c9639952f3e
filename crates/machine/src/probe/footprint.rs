//! Load latency over footprint: how much fits into each cache as it is, not as it is sold.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuId;
use crate::root::{FsRoot, field_kib};
use crate::topology::Topology;
use crate::units::Bytes;

use super::chase::{Buffer, LINE, Random, single_cycle};
use super::pin::pin_current_thread;
use super::{ProbeError, quantile};

/// The largest footprint that is probed where memory allows.
const LARGEST: Bytes = Bytes::mib(512);
const PASSES: usize = 5;

/// Latency of dependent loads at several footprints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Footprints {
    /// Footprint and ns per load, the median over passes; ascending by footprint.
    pub points: Vec<(Bytes, f64)>,
    /// How much of the buffer the kernel backed by 2 MiB pages. With small pages TLB misses
    /// blur the curve beyond some MiB.
    pub huge_pages: Option<Bytes>,
    /// The size of the buffer.
    pub buffer: Bytes,
    /// How many passes over all footprints there were time for.
    pub passes: usize,
}

/// Footprints to probe on the CPU: six per doubling from 8 KiB to the size of its last-level
/// cache, then two per doubling to four times that; at most 512 MiB and a quarter of the memory
/// that is available.
pub fn footprints(topology: &Topology, cpu: CpuId, root: &FsRoot) -> Vec<Bytes> {
    let meminfo = root.read_opt("/proc/meminfo").unwrap_or_default();
    let available = field_kib(&meminfo, "MemAvailable").map_or(LARGEST.0, |bytes| bytes / 4);
    let cache = topology.llc_size(cpu).map_or(LARGEST.0 / 4, |size| size.0);
    let largest = cache.saturating_mul(4).min(LARGEST.0).min(available);
    let mut sizes = Vec::new();
    let mut sixths = 0;
    loop {
        let size = (8192.0 * 2f64.powf(f64::from(sixths) / 6.0)) as u64 / LINE as u64 * LINE as u64;
        if size > largest {
            return sizes;
        }
        sizes.push(Bytes(size));
        // Large footprints take long, and beyond the cache there is only a plateau to show.
        sixths += if size > cache + cache / 4 { 3 } else { 1 };
    }
}

/// Measures ns per load of a random chase over each of `sizes`, on `cpu`, within `budget`.
///
/// Five passes over all sizes are interleaved, so that a disturbance of a machine that is shared
/// hits one value of several sizes and not all values of one. When the budget ends, sizes that
/// no pass reached are missing.
pub fn latency_over_footprint(
    cpu: CpuId,
    sizes: &[Bytes],
    budget: Duration,
) -> Result<Footprints, ProbeError> {
    let mut sizes: Vec<Bytes> = sizes.iter().copied().filter(|size| size.0 >= LINE as u64).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (to_us, outcome) = mpsc::channel();
    let work = move || {
        let measured = pin_current_thread(cpu).map_err(ProbeError::from).and_then(|()| chase(&sizes, budget));
        // Nobody listens any more once the deadline has passed.
        let _ = to_us.send(measured);
    };
    thread::Builder::new()
        .name("footprint".into())
        .spawn(work)
        .map_err(|source| ProbeError::System { what: "start a thread".into(), source })?;
    let late =
        || ProbeError::TimedOut { what: "the capacity probe", cpus: cpu.to_string(), ms: budget.as_millis() };
    // Making the buffer and linking a large cycle may overrun the budget by some seconds.
    let found = outcome.recv_timeout(2 * budget + Duration::from_secs(10)).map_err(|_| late())??;
    if found.points.is_empty() { Err(late()) } else { Ok(found) }
}

fn chase(sizes: &[Bytes], budget: Duration) -> Result<Footprints, ProbeError> {
    let largest = sizes.last().copied().unwrap_or_default();
    let mut buffer = Buffer::new((largest.0 as usize).max(LINE))?;
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
    let mut random = Random(0x5EED);
    let start = Instant::now();
    // The other half goes into linking and warming up.
    let share = budget / 2 / (PASSES * sizes.len().max(1)) as u32;
    let mut passes = 0;
    'all: for pass in 0..PASSES {
        for (index, size) in sizes.iter().enumerate() {
            if start.elapsed() > budget {
                break 'all;
            }
            let lines = (size.0 as usize / LINE).min(buffer.lines());
            buffer.link(&single_cycle(lines, &mut random));
            values[index].push(time_loads(&buffer, lines, share));
        }
        passes = pass + 1;
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then(|| quantile(&values, 0.5))
    };
    let points = sizes.iter().copied().zip(values).filter_map(|(size, values)| Some((size, median(values)?)));
    Ok(Footprints {
        points: points.collect(),
        huge_pages: buffer.huge_bytes().map(Bytes),
        buffer: Bytes(buffer.lines() as u64 * LINE as u64),
        passes,
    })
}

/// ns per load: the median over batches of at least 4096 loads, after one round to warm up.
fn time_loads(buffer: &Buffer, lines: usize, time: Duration) -> f64 {
    let batch = lines.clamp(4096, 1 << 16);
    let start = Instant::now();
    // Linking has touched every line already; what does not fit will never be warm.
    for _ in 0..lines.div_ceil(batch) {
        std::hint::black_box(buffer.follow(batch));
        if start.elapsed() > time.max(Duration::from_millis(50)) {
            break;
        }
    }
    let start = Instant::now();
    let mut values = Vec::new();
    while values.len() < 3 || (start.elapsed() < time && values.len() < 64) {
        let from = Instant::now();
        std::hint::black_box(buffer.follow(batch));
        values.push(from.elapsed().as_nanos() as f64 / batch as f64);
    }
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::probe::pin::affinity;

    #[test]
    fn a_small_sweep_has_a_latency_for_every_size() {
        let cpu = affinity().unwrap().first().unwrap();
        let sizes = [Bytes::kib(16), Bytes::mib(1), Bytes::kib(16), Bytes(3)];
        let found = latency_over_footprint(cpu, &sizes, Duration::from_millis(200)).unwrap();
        assert_eq!(found.points[0].0, Bytes::kib(16));
        assert!(found.points.len() <= 2 && found.points.iter().all(|(_, ns)| *ns > 0.0));
        assert_eq!(found.buffer, Bytes::mib(1));
    }

    #[test]
    fn an_impossible_cpu_is_an_error() {
        let error = latency_over_footprint(60_000, &[Bytes::kib(16)], Duration::from_millis(10));
        assert!(matches!(error, Err(ProbeError::Pin(_))));
    }

    #[test]
    fn sizes_are_bounded_by_caches_and_memory() {
        let largest = |tree: fixtures::FixtureTree, cpu| {
            let topology = Topology::read(&tree.root()).unwrap();
            footprints(&topology, cpu, &tree.root()).last().copied().unwrap_or_default()
        };
        assert!(largest(fixtures::xeon_2s64t(), 0) <= Bytes::mib(88));
        assert!(largest(fixtures::xeon_2s64t(), 0) > Bytes::mib(70));
        assert!(largest(fixtures::vm_2cpu(), 0) <= Bytes::mib(420));
        assert!(largest(fixtures::one_cpu(), 2) <= Bytes(180_000 * 1024 / 4));
    }
}
