//! Load latency over footprint: how much fits into each cache as it is, not as it is sold.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuId;
use crate::root::{FsRoot, field_kib};
use crate::topology::Topology;
use crate::units::Bytes;

use super::buffer::{Buffer, LINE, Pages};
use super::chase::{Random, single_cycle};
use super::pin::pin_current_thread;
use super::{ProbeError, quantile};

/// The largest footprint that is probed where memory allows.
const LARGEST: Bytes = Bytes::mib(512);
const SMALLEST: f64 = 8192.0;
/// The least and the most passes over all footprints, however long they take.
const PASSES: (usize, usize) = (3, 9);
/// The share of the buffer that must lie in huge pages for the curve to count as theirs.
const HUGE_ENOUGH: f64 = 0.95;

/// Latency of dependent loads at several footprints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Footprints {
    /// Footprint and ns per load, the lower quartile over passes; ascending by footprint.
    pub points: Vec<(Bytes, f64)>,
    /// How much of the buffer the kernel backed by 2 MiB pages. With small pages TLB misses
    /// blur the curve beyond some MiB.
    pub huge_pages: Option<Bytes>,
    /// The size of the buffer.
    pub buffer: Bytes,
    /// How many passes over all footprints there were time for.
    pub passes: usize,
    /// The requested pages; `None` in older files, which always requested huge ones.
    #[serde(default)]
    pub pages: Option<Pages>,
    /// Whether huge pages came from the kernel's pool (`MAP_HUGETLB`), and not as transparent ones.
    #[serde(default)]
    pub from_pool: bool,
}

impl Footprints {
    /// The pages that the curve was measured in; `None` if the kernel granted only part of the
    /// request, or does not report it.
    pub fn measured_in(&self) -> Option<Pages> {
        let huge = self.huge_pages?.0 as f64;
        match self.pages.unwrap_or(Pages::Huge) {
            Pages::Huge if huge >= self.buffer.0 as f64 * HUGE_ENOUGH => Some(Pages::Huge),
            _ if huge == 0.0 => Some(Pages::Small),
            _ => None,
        }
    }

    /// The pages in words, such as `huge pages` or `4KiB pages: huge ones could not be had`.
    pub fn pages_in_words(&self) -> String {
        let asked = self.pages.unwrap_or(Pages::Huge);
        match (asked, self.measured_in()) {
            (_, Some(Pages::Huge)) if self.from_pool => "huge pages (reserved)".into(),
            (_, Some(Pages::Huge)) => "huge pages (transparent)".into(),
            (Pages::Small, Some(Pages::Small)) => "4KiB pages".into(),
            (Pages::Huge, Some(Pages::Small)) => {
                "4KiB pages, because no huge pages were available: figures include page walks"
                    .into()
            }
            (_, None) => match self.huge_pages {
                Some(huge) => format!("pages of two sizes: {huge} of {} in huge ones", self.buffer),
                None => "pages of a size that the kernel does not report".into(),
            },
        }
    }

    /// ns per load at a footprint, between those that were measured by their logarithms; `None`
    /// outside of them.
    pub fn at(&self, footprint: Bytes) -> Option<f64> {
        let after = self.points.iter().position(|(size, _)| *size >= footprint)?;
        let (size, ns) = self.points[after];
        if size == footprint {
            return Some(ns);
        }
        let (before, lower) = self.points[after.checked_sub(1)?];
        let log = |size: Bytes| (size.0 as f64).ln();
        let share = (log(footprint) - log(before)) / (log(size) - log(before));
        Some((lower.ln() + share * (ns.ln() - lower.ln())).exp())
    }
}

/// Footprints to probe on the CPU: five per doubling from 8 KiB to beyond the nominal size of its
/// last-level cache, then two per doubling to four times that; at most 512 MiB and a quarter of the
/// memory that is available. In small pages, which show what page walks cost, two per doubling
/// throughout.
pub fn footprints(topology: &Topology, cpu: CpuId, root: &FsRoot, pages: Pages) -> Vec<Bytes> {
    let meminfo = root.read_opt("/proc/meminfo").unwrap_or_default();
    footprints_within(topology, cpu, field_kib(&meminfo, "MemAvailable").map(Bytes), pages)
}

/// The same with `available` bytes of memory.
pub fn footprints_within(
    topology: &Topology,
    cpu: CpuId,
    available: Option<Bytes>,
    pages: Pages,
) -> Vec<Bytes> {
    let available = available.map_or(LARGEST.0, |bytes| bytes.0 / 4);
    let cache = topology.llc_size(cpu).map_or(LARGEST.0 / 4, |size| size.0);
    let largest = cache.saturating_mul(4).min(LARGEST.0).min(available);
    let mut sizes = Vec::new();
    let mut tenths = 0;
    loop {
        let size =
            (SMALLEST * 2f64.powf(f64::from(tenths) / 10.0)) as u64 / LINE as u64 * LINE as u64;
        if size >= largest {
            // The end of the curve tells memory from cache: not half a doubling short of it.
            sizes.push(Bytes(largest / LINE as u64 * LINE as u64));
            return sizes;
        }
        sizes.push(Bytes(size));
        // Large footprints take long, and beyond the cache there is only a plateau to show.
        let fine = pages == Pages::Huge && size <= cache + cache * 2 / 5;
        tenths += if fine { 2 } else { 5 };
    }
}

/// Measures ns per load of a random chase over each of `sizes`, on `cpu`, within `budget`.
///
/// Every pass visits all sizes in an order of its own, drawn at random, and a point is the lower
/// quartile over passes: a neighbour that comes and goes slows down some visits of several sizes,
/// not all visits of one. There are three passes at least, which may overrun the budget, and nine
/// at most.
///
/// # Errors
/// Where the thread cannot run on `cpu`, memory is refused, or three passes take far longer than
/// `budget`.
pub fn latency_over_footprint(
    cpu: CpuId,
    sizes: &[Bytes],
    pages: Pages,
    budget: Duration,
) -> Result<Footprints, ProbeError> {
    let mut sizes: Vec<Bytes> =
        sizes.iter().copied().filter(|size| size.0 >= LINE as u64).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (to_us, outcome) = mpsc::channel();
    let work = move || {
        let measured = pin_current_thread(cpu)
            .map_err(ProbeError::from)
            .and_then(|()| chase(&sizes, pages, budget));
        // The receiver is gone once the deadline has passed.
        let _ = to_us.send(measured);
    };
    thread::Builder::new()
        .name("footprint".into())
        .spawn(work)
        .map_err(|source| ProbeError::System { what: "start a thread".into(), source })?;
    let late = || ProbeError::TimedOut {
        what: "the capacity probe",
        cpus: cpu.to_string(),
        ms: budget.as_millis(),
    };
    let found =
        outcome.recv_timeout(4 * budget + Duration::from_secs(10)).map_err(|_| late())??;
    if found.points.is_empty() { Err(late()) } else { Ok(found) }
}

fn chase(sizes: &[Bytes], pages: Pages, budget: Duration) -> Result<Footprints, ProbeError> {
    let largest = sizes.last().copied().unwrap_or_default();
    let mut buffer = Buffer::new((largest.0 as usize).max(LINE), pages)?;
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
    let mut random = Random(0x5EED);
    let start = Instant::now();
    let mut passes = 0;
    'all: while passes < PASSES.1 && (passes < PASSES.0 || start.elapsed() < budget) {
        // As `single_cycle` visits everything, so does this order.
        let order = single_cycle(sizes.len(), &mut random);
        let mut index = 0;
        for _ in 0..sizes.len() {
            if start.elapsed() > 4 * budget {
                break 'all;
            }
            index = order[index] as usize;
            let lines = (sizes[index].0 as usize / LINE).min(buffer.lines());
            buffer.link(&single_cycle(lines, &mut random));
            values[index].push(time_loads(&buffer, lines));
        }
        passes += 1;
    }
    let low = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then(|| quantile(&values, 0.25))
    };
    let points =
        sizes.iter().copied().zip(values).filter_map(|(size, values)| Some((size, low(values)?)));
    Ok(Footprints {
        points: points.collect(),
        huge_pages: buffer.huge_bytes().map(Bytes),
        buffer: Bytes(buffer.lines() as u64 * LINE as u64),
        passes,
        pages: Some(pages),
        from_pool: buffer.is_from_pool(),
    })
}

/// How long a footprint is warmed up at most: linking has touched every line already, and what does
/// not fit will never be warm.
const WARM_UP: Duration = Duration::from_millis(25);
/// Loads that are timed together: half a millisecond at memory's latency, well below the time after
/// which the kernel lets others run, so that most batches are whole even on a busy machine.
const BATCH: usize = 4096;
/// How long a footprint is measured, and the least and most batches.
const MEASURE: Duration = Duration::from_millis(2);
const BATCHES: (usize, usize) = (9, 64);

/// ns per load: the lower quartile over batches, after one round to warm up.
fn time_loads(buffer: &Buffer, lines: usize) -> f64 {
    let start = Instant::now();
    let mut at = buffer.line(0).cast_const();
    for _ in 0..lines.div_ceil(BATCH) {
        at = std::hint::black_box(buffer.follow_from(at, BATCH));
        if start.elapsed() > WARM_UP {
            break;
        }
    }
    let start = Instant::now();
    let mut values = Vec::new();
    while values.len() < BATCHES.0 || (start.elapsed() < MEASURE && values.len() < BATCHES.1) {
        let from = Instant::now();
        at = std::hint::black_box(buffer.follow_from(at, BATCH));
        values.push(from.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.25)
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
        let found =
            latency_over_footprint(cpu, &sizes, Pages::Huge, Duration::from_millis(200)).unwrap();
        assert_eq!(found.points[0].0, Bytes::kib(16));
        assert!(found.points.len() <= 2 && found.points.iter().all(|(_, ns)| *ns > 0.0));
        assert_eq!(found.buffer, Bytes::mib(1));
    }

    #[test]
    fn an_impossible_cpu_is_an_error() {
        let error = latency_over_footprint(
            60_000,
            &[Bytes::kib(16)],
            Pages::Huge,
            Duration::from_millis(10),
        );
        assert!(matches!(error, Err(ProbeError::Pin(_))));
    }

    #[test]
    fn sizes_are_bounded_by_caches_and_memory() {
        let largest = |tree: fixtures::FixtureTree, cpu| {
            let topology = Topology::read(&tree.root()).unwrap();
            footprints(&topology, cpu, &tree.root(), Pages::Huge)
                .last()
                .copied()
                .unwrap_or_default()
        };
        assert!(largest(fixtures::xeon_2s64t(), 0) <= Bytes::mib(88));
        assert!(largest(fixtures::xeon_2s64t(), 0) > Bytes::mib(70));
        assert!(largest(fixtures::vm_2cpu(), 0) <= Bytes::mib(420));
        assert!(largest(fixtures::one_cpu(), 2) <= Bytes(180_000 * 1024 / 4));
    }
}
