//! Capacities from a curve of load latency over footprint.
//!
//! As long as a footprint fits into a cache the curve is a plateau; where it leaves the plateau
//! the cache is full. A shared or virtualised cache can be full long before its nominal size.

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuId;
use crate::topology::Topology;
use crate::units::Bytes;

/// What the curve says of one cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// 1 for L1, and so on.
    pub level: u8,
    /// What the kernel says.
    pub nominal: Bytes,
    /// Where latency leaves the plateau, good to about a fifth.
    pub measured: Option<Bytes>,
    /// ns per load on the plateau.
    pub plateau_ns: Option<f64>,
    /// What the figure rests on, or why there is none.
    pub why: String,
}

/// The nominal data-cache levels of a CPU, as [`knees`] takes them.
pub fn levels(topology: &Topology, cpu: CpuId) -> Vec<(u8, Bytes)> {
    topology.data_caches(cpu).filter_map(|cache| Some((cache.level, cache.size?))).collect()
}

/// Half the width, in doublings, over which a slope is taken.
const HALF_WINDOW: f64 = 0.5;
/// The least slope of a rise, in ln(ns) per doubling: 20 % per doubling.
const LEAST_SLOPE: f64 = 0.18;
/// The least rise from one plateau to the next, as a factor.
const LEAST_RISE: f64 = 1.25;
/// How far above the plateau the cache counts as full, as a factor.
const LEAVES: f64 = 1.12;
/// A plateau may lean by this much, in ln(ns) per doubling: beyond a small cache the share of
/// hits in it fades slowly.
const LEANING: f64 = 0.3;

/// Finds, for each level, the footprint at which `points` (ascending footprint, ns per load)
/// leave its plateau.
pub fn knees(points: &[(Bytes, f64)], levels: &[(u8, Bytes)]) -> Vec<Knee> {
    let curve = Curve::new(points);
    let rises = curve.rises();
    let mut below: Option<Bytes> = None;
    let mut knees = Vec::new();
    for &(level, nominal) in levels {
        let knee = curve.knee_of(&rises, level, nominal, below);
        below = Some(knee.measured.unwrap_or(nominal));
        knees.push(knee);
    }
    knees
}

/// A rise from one plateau to the next.
struct Rise {
    /// log2 of the footprint at which the plateau ends.
    knee: f64,
    plateau_ns: f64,
    slope: f64,
}

struct Curve {
    /// log2 of the footprints.
    x: Vec<f64>,
    /// ln of ns per load, smoothed and made to never fall.
    y: Vec<f64>,
    slope: Vec<f64>,
}

impl Curve {
    fn new(points: &[(Bytes, f64)]) -> Self {
        let points: Vec<_> = points.iter().filter(|(size, ns)| size.0 > 0 && *ns > 0.0).collect();
        let x: Vec<f64> = points.iter().map(|(size, _)| (size.0 as f64).log2()).collect();
        let raw: Vec<f64> = points.iter().map(|(_, ns)| ns.ln()).collect();
        let y = never_falling(&median_of_three(&raw));
        let slope = (0..x.len()).map(|at| slope_at(&x, &y, at)).collect();
        Self { x, y, slope }
    }

    /// Every stretch on which the slope peaks, with the plateau before it.
    fn rises(&self) -> Vec<Rise> {
        let mut rises = Vec::new();
        let mut from = 0;
        while let Some(peak) = self.next_peak(from) {
            // The next valley ends this rise.
            let end = self.valley_after(peak);
            let valley = (from..=peak).rev().min_by(|&a, &b| self.slope[a].total_cmp(&self.slope[b]));
            if let Some(valley) = valley
                && self.slope[valley] <= self.slope[peak] / 2.0
                && self.y[end] - self.y[valley] >= LEAST_RISE.ln()
            {
                rises.push(self.rise(valley, peak));
            }
            from = end.max(peak + 1);
        }
        rises
    }

    fn next_peak(&self, from: usize) -> Option<usize> {
        let steep = (from..self.slope.len()).find(|&at| self.slope[at] >= LEAST_SLOPE)?;
        let mut peak = steep;
        for at in steep..self.slope.len() {
            if self.slope[at] > self.slope[peak] {
                peak = at;
            }
            if self.slope[at] < self.slope[peak] / 2.0 {
                break;
            }
        }
        Some(peak)
    }

    /// The flattest place after the peak before the slope doubles again.
    fn valley_after(&self, peak: usize) -> usize {
        let mut valley = peak;
        for at in peak..self.slope.len() {
            if self.slope[at] < self.slope[valley] {
                valley = at;
            }
            if self.slope[at] > (2.0 * self.slope[valley]).max(LEAST_SLOPE)
                && self.slope[valley] < self.slope[peak] / 2.0
            {
                break;
            }
        }
        valley
    }

    /// The last footprint before `peak` that is still on the line through the plateau.
    fn rise(&self, valley: usize, peak: usize) -> Rise {
        let lean = self.slope[valley].clamp(0.0, LEANING);
        let line = |at: usize| self.y[valley] + lean * (self.x[at] - self.x[valley]);
        // The window of the slope reaches over the edge, so the valley may lie a little before it.
        let last = self.x.iter().rposition(|&x| x <= self.x[peak] + HALF_WINDOW).unwrap_or(peak);
        let off = (valley..=last).find(|&at| self.y[at] > line(at) + LEAVES.ln()).unwrap_or(last);
        let knee = if off > 0 { (self.x[off - 1] + self.x[off]) / 2.0 } else { self.x[off] };
        Rise { knee, plateau_ns: self.y[valley].exp(), slope: self.slope[peak] }
    }

    fn knee_of(&self, rises: &[Rise], level: u8, nominal: Bytes, below: Option<Bytes>) -> Knee {
        let none = |why: String| Knee { level, nominal, measured: None, plateau_ns: None, why };
        let (Some(first), Some(last)) = (self.x.first(), self.x.last()) else {
            return none("nothing was measured".into());
        };
        // A share of a cache can be any part of it: a guest was seen to get 5 of 105 MiB. Exclusive
        // caches add up, so the smaller ones count on top.
        let low = below.map_or(nominal.0 as f64 / 16.0, |below| below.0 as f64 * 1.5).log2();
        let high = (nominal.0 as f64 * 1.3 + below.map_or(0.0, |below| below.0 as f64)).log2();
        let inside = rises.iter().filter(|rise| (low..=high).contains(&rise.knee));
        if let Some(rise) = inside.max_by(|a, b| a.slope.total_cmp(&b.slope)) {
            let measured = Bytes((rise.knee.exp2() / 64.0).round() as u64 * 64);
            return Knee {
                level,
                nominal,
                measured: Some(measured),
                plateau_ns: Some(rise.plateau_ns),
                why: format!("latency leaves its plateau of {:.1} ns at {measured}", rise.plateau_ns),
            };
        }
        let (from, to) = (Bytes(first.exp2().round() as u64), Bytes(last.exp2().round() as u64));
        if *last < high {
            return none(format!("no rise up to {to}, the largest footprint measured"));
        }
        if *first > (nominal.0 as f64 / 2.0).log2() {
            return none(format!(
                "the smallest footprint measured, {from}, is too large to show its plateau"
            ));
        }
        none("latency has no plateau with a rise behind it in the range of this cache".into())
    }
}

fn median_of_three(values: &[f64]) -> Vec<f64> {
    let middle = |window: &[f64]| {
        let mut window = window.to_vec();
        window.sort_by(f64::total_cmp);
        window[window.len() / 2]
    };
    (0..values.len())
        .map(
            |at| {
                if at == 0 || at + 1 == values.len() { values[at] } else { middle(&values[at - 1..=at + 1]) }
            },
        )
        .collect()
}

/// The nearest sequence that never falls (pool adjacent violators; Ayer et al. 1955): a larger
/// footprint is never faster, so what falls is noise.
fn never_falling(values: &[f64]) -> Vec<f64> {
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for &value in values {
        blocks.push((value, 1));
        while let [.., (a, n), (b, m)] = blocks[..]
            && a > b
        {
            blocks.truncate(blocks.len() - 2);
            blocks.push(((a * n as f64 + b * m as f64) / (n + m) as f64, n + m));
        }
    }
    blocks.into_iter().flat_map(|(value, n)| std::iter::repeat_n(value, n)).collect()
}

/// Least-squares slope over the points within half a window.
fn slope_at(x: &[f64], y: &[f64], at: usize) -> f64 {
    let near: Vec<usize> = (0..x.len()).filter(|&i| (x[i] - x[at]).abs() <= HALF_WINDOW + 1e-9).collect();
    let mean = |values: &[f64]| near.iter().map(|&i| values[i]).sum::<f64>() / near.len() as f64;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let covariance: f64 = near.iter().map(|&i| (x[i] - mean_x) * (y[i] - mean_y)).sum();
    let variance: f64 = near.iter().map(|&i| (x[i] - mean_x).powi(2)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [(u8, Bytes); 3] = [(1, Bytes::kib(48)), (2, Bytes::mib(1)), (3, Bytes::mib(32))];

    /// Six footprints per doubling from 8 KiB on.
    fn sizes(largest: Bytes) -> Vec<Bytes> {
        (0..)
            .map(|step| Bytes((8192.0 * 2f64.powf(f64::from(step) / 6.0)) as u64))
            .take_while(|size| *size <= largest)
            .collect()
    }

    /// Each cache hits for its share of the footprint, as random replacement does.
    fn fading(caches: &[(Bytes, f64)], memory_ns: f64, size: Bytes) -> f64 {
        let (mut ns, mut hit) = (0.0, 0.0);
        for &(capacity, latency) in caches {
            let reached = (capacity.0 as f64 / size.0 as f64).min(1.0);
            ns += latency * (reached - hit);
            hit = reached;
        }
        ns + memory_ns * (1.0 - hit)
    }

    /// A cache that is too small never hits, as with LRU and a cyclic order.
    fn sharp(caches: &[(Bytes, f64)], memory_ns: f64, size: Bytes) -> f64 {
        caches.iter().find(|(capacity, _)| size <= *capacity).map_or(memory_ns, |(_, ns)| *ns)
    }

    type Shape = fn(&[(Bytes, f64)], f64, Bytes) -> f64;

    fn curve(shape: Shape, l3: Bytes, largest: Bytes) -> Vec<(Bytes, f64)> {
        let caches = [(Bytes::kib(48), 1.6), (Bytes::mib(1), 4.5), (l3, 22.0)];
        sizes(largest).into_iter().map(|size| (size, shape(&caches, 110.0, size))).collect()
    }

    #[track_caller]
    fn near(knee: &Knee, truth: Bytes) {
        let measured = knee.measured.unwrap_or_else(|| panic!("{knee:?}")).0 as f64;
        let ratio = measured / truth.0 as f64;
        assert!((0.78..=1.28).contains(&ratio), "{knee:?}, in truth {truth}");
    }

    #[test]
    fn clean_curves_of_both_shapes() {
        for shape in [fading as Shape, sharp] {
            let knees = knees(&curve(shape, Bytes::mib(32), Bytes::mib(128)), &LEVELS);
            near(&knees[0], Bytes::kib(48));
            near(&knees[1], Bytes::mib(1));
            near(&knees[2], Bytes::mib(32));
        }
    }

    #[test]
    fn a_last_level_that_holds_a_third_of_its_size() {
        for shape in [fading as Shape, sharp] {
            let points = curve(shape, Bytes(9_500 << 10), Bytes::mib(128));
            near(&knees(&points, &LEVELS)[2], Bytes(9_500 << 10));
        }
    }

    /// Measured in a guest on a Xeon whose L3 is 105 MiB by name.
    #[test]
    fn a_real_curve_of_a_guest() {
        const NS: [f64; 85] = [
            1.95, 1.94, 1.94, 1.96, 1.96, 1.94, 1.96, 1.94, 1.94, 1.94, 1.94, 1.94, 1.94, 1.94, 1.94, 2.02,
            4.86, 5.65, 6.16, 5.68, 5.98, 6.22, 5.94, 5.75, 6.17, 6.18, 6.18, 6.17, 5.93, 5.74, 6.18, 6.18,
            6.18, 6.17, 6.17, 6.18, 6.18, 6.17, 6.17, 6.17, 6.17, 6.18, 6.17, 6.18, 6.18, 6.18, 6.18, 6.47,
            8.72, 25.05, 38.61, 41.29, 46.50, 45.03, 50.56, 48.70, 54.47, 143.60, 138.70, 135.17, 136.47,
            134.34, 134.29, 139.56, 137.10, 130.96, 134.80, 131.82, 133.54, 138.29, 136.79, 137.38, 135.96,
            133.70, 140.67, 137.46, 135.56, 137.09, 136.78, 145.25, 140.84, 141.83, 136.07, 135.10, 137.52,
        ];
        let points: Vec<_> = sizes(Bytes::mib(129)).into_iter().zip(NS).collect();
        let found = knees(&points, &[(1, Bytes::kib(48)), (2, Bytes::mib(2)), (3, Bytes::mib(105))]);
        near(&found[0], Bytes::kib(48));
        near(&found[1], Bytes::mib(2));
        near(&found[2], Bytes(5_300 << 10));
    }

    #[test]
    fn noise_and_outliers() {
        for seed in 1..40u64 {
            let mut state = seed;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let mut points = curve(fading, Bytes::mib(10), Bytes::mib(128));
            for (_, ns) in &mut points {
                *ns *= 0.96 + 0.08 * random();
                if random() < 0.04 {
                    *ns *= 1.5;
                }
            }
            let knees = knees(&points, &LEVELS);
            let measured = knees[2].measured.unwrap_or_else(|| panic!("seed {seed}: {knees:?}"));
            assert!((7..=13).contains(&(measured.0 >> 20)), "seed {seed}: {knees:?}");
        }
    }

    #[test]
    fn no_clear_knee_is_none_with_a_reason() {
        let flat: Vec<_> = sizes(Bytes::mib(128)).into_iter().map(|size| (size, 5.0)).collect();
        for knee in knees(&flat, &LEVELS) {
            assert!(knee.measured.is_none() && knee.why.contains("no plateau"), "{knee:?}");
        }
        let ramp: Vec<_> =
            sizes(Bytes::mib(128)).into_iter().map(|size| (size, (size.0 as f64).powf(0.4))).collect();
        assert!(knees(&ramp, &LEVELS).iter().all(|knee| knee.measured.is_none()));
        let short = curve(fading, Bytes::mib(32), Bytes::mib(16));
        let last = &knees(&short, &LEVELS)[2];
        assert!(last.measured.is_none() && last.why.contains("largest footprint"), "{last:?}");
        assert_eq!(knees(&[], &LEVELS)[0].why, "nothing was measured");
    }

    #[test]
    fn falling_values_are_pooled() {
        assert_eq!(never_falling(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(never_falling(&[3.0, 2.0, 1.0]), [2.0; 3]);
    }
}
