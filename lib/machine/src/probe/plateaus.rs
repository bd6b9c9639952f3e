//! The flat stretches of a curve of load latency over footprint.
//!
//! As long as a footprint fits into a cache the curve is flat, and where it leaves the plateau the
//! cache is full. Slopes between two plateaus belong to neither.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Footprints at which a load takes about as long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plateau {
    /// The smallest footprint on it that was measured.
    pub from: Bytes,
    /// The largest footprint on it that was measured.
    pub to: Bytes,
    /// ns per load: the median over its points.
    pub ns: f64,
    /// The first footprint that was measured to be beyond it: an eighth of the way from its latency
    /// to that of the next plateau, or to that of the largest footprint where there is no other.
    /// `None` where the curve ends on this plateau.
    pub until: Option<Bytes>,
}

impl Plateau {
    /// The last footprint measured before [`Plateau::until`] and that one: the plateau ends between
    /// them. Both are `to` where it is not seen to end.
    pub fn end(&self, points: &[(Bytes, f64)]) -> (Bytes, Bytes) {
        let Some(until) = self.until else { return (self.to, self.to) };
        let before = points.iter().map(|(size, _)| *size).filter(|size| *size < until).max();
        (before.unwrap_or(self.to).max(self.to), until)
    }
}

/// The least width of a plateau, in doublings of the footprint.
const LEAST_WIDTH: f64 = 0.75;
/// The most that a plateau may lean, in ln(ns) per doubling. A shared cache in use by others was
/// measured to lean by 0.34 from 2.6 to 5.2 MiB, and to rise by 5.6 behind it.
const MOST_LEAN: f64 = 0.5;
/// The most that latency may grow along a whole plateau, as a factor.
const MOST_GROWTH: f64 = 1.6;
/// The least rise between two plateaus, as a factor.
const LEAST_RISE: f64 = 1.4;
/// How much steeper than either plateau the rise between two must be.
const CONTRAST: f64 = 2.0;
/// The share of loads that go to the next level at which a cache counts as full.
const FULL: f64 = 1.0 / 8.0;

/// The plateaus of `points` (footprint, ns per load; in any order), the smallest footprints first.
/// Points that are not positive are left out.
pub fn plateaus(points: &[(Bytes, f64)]) -> Vec<Plateau> {
    Curve::new(points).plateaus()
}

struct Curve {
    points: Vec<(Bytes, f64)>,
    /// log2 of the footprints.
    x: Vec<f64>,
    /// ln of ns per load, smoothed and made to never fall.
    y: Vec<f64>,
}

/// Points `from` to `to`, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    from: usize,
    to: usize,
}

impl Curve {
    fn new(points: &[(Bytes, f64)]) -> Self {
        let usable = |(size, ns): &&(Bytes, f64)| size.0 > 0 && ns.is_finite() && *ns > 0.0;
        let mut points: Vec<_> = points.iter().filter(usable).copied().collect();
        points.sort_by_key(|(size, _)| *size);
        points.dedup_by_key(|(size, _)| *size);
        let x = points.iter().map(|(size, _)| (size.0 as f64).log2()).collect();
        let raw: Vec<f64> = points.iter().map(|(_, ns)| ns.ln()).collect();
        let y = never_falling(&median_of_three(&raw));
        Self { points, x, y }
    }

    fn plateaus(&self) -> Vec<Plateau> {
        let stretches = self.apart(self.stretches());
        let next = stretches.iter().skip(1).map(Some).chain([None]);
        stretches
            .iter()
            .zip(next)
            .filter_map(|(stretch, next)| self.plateau(*stretch, next))
            .collect()
    }

    // Flat stretches, those that are widest and flattest first where two overlap; in order.
    fn stretches(&self) -> Vec<Stretch> {
        let n = self.x.len();
        let mut all: Vec<(f64, Stretch)> = (0..n)
            .flat_map(|from| (from + 1..n).map(move |to| Stretch { from, to }))
            .filter(|stretch| {
                self.width(*stretch) >= LEAST_WIDTH - 1e-6
                    && self.growth(*stretch) <= MOST_GROWTH.ln()
            })
            .map(|stretch| (self.score(stretch), stretch))
            .filter(|(score, _)| *score > 0.0)
            .collect();
        all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut taken: Vec<Stretch> = Vec::new();
        for (_, stretch) in all {
            if taken.iter().all(|other| stretch.to < other.from || other.to < stretch.from) {
                taken.push(stretch);
            }
        }
        taken.sort_by_key(|stretch| stretch.from);
        taken
    }

    // Two stretches without a rise between them that is steeper than both are one slope, of which
    // the better part is kept.
    fn apart(&self, mut stretches: Vec<Stretch>) -> Vec<Stretch> {
        while let Some(at) =
            (1..stretches.len()).find(|&at| !self.rises(stretches[at - 1], stretches[at]))
        {
            let (a, b) = (stretches[at - 1], stretches[at]);
            let both = Stretch { from: a.from, to: b.to };
            if self.growth(both) <= MOST_GROWTH.ln() && self.score(both) > 0.0 {
                stretches[at - 1] = both;
                stretches.remove(at);
            } else {
                stretches.remove(if self.score(a) < self.score(b) { at - 1 } else { at });
            }
        }
        stretches
    }

    fn rises(&self, a: Stretch, b: Stretch) -> bool {
        let rise = self.y[b.from] - self.y[a.to];
        let lean = self.lean(a).max(self.lean(b));
        rise >= LEAST_RISE.ln() && rise / (self.x[b.from] - self.x[a.to]) >= CONTRAST * lean
    }

    fn plateau(&self, stretch: Stretch, next: Option<&Stretch>) -> Option<Plateau> {
        let last = self.y.len() - 1;
        let beyond = next.map_or(last, |next| next.from);
        let (own, above) = (self.y[stretch.to].exp(), self.y[beyond].exp());
        let until = if above >= own * LEAST_RISE {
            let full = own + FULL * (above - own);
            let off = (stretch.to + 1..=beyond).find(|&at| self.y[at].exp() > full)?;
            // A slope that goes on as it was is not an edge of a plateau.
            let steep = self.steepest(stretch.to, beyond);
            if steep < CONTRAST * self.lean(stretch) {
                return None;
            }
            Some(self.points[off].0)
        } else {
            None
        };
        let mut ns: Vec<f64> =
            self.points[stretch.from..=stretch.to].iter().map(|(_, ns)| *ns).collect();
        ns.sort_by(f64::total_cmp);
        let (from, to) = (self.points[stretch.from].0, self.points[stretch.to].0);
        Some(Plateau { from, to, ns: super::quantile(&ns, 0.5), until })
    }

    // The steepest rise within at least a third of a doubling, from `from` on and not beyond `to`.
    fn steepest(&self, from: usize, to: usize) -> f64 {
        (from..to)
            .filter_map(|a| {
                let b = (a + 1..=to).find(|&b| self.x[b] - self.x[a] >= 0.32).or(Some(to))?;
                Some((self.y[b] - self.y[a]) / (self.x[b] - self.x[a]))
            })
            .fold(0.0, f64::max)
    }

    fn width(&self, stretch: Stretch) -> f64 {
        self.x[stretch.to] - self.x[stretch.from]
    }

    fn growth(&self, stretch: Stretch) -> f64 {
        self.y[stretch.to] - self.y[stretch.from]
    }

    fn lean(&self, stretch: Stretch) -> f64 {
        self.growth(stretch) / self.width(stretch)
    }

    // A point more is worth it where the curve leans less there than a plateau may.
    fn score(&self, stretch: Stretch) -> f64 {
        MOST_LEAN * self.width(stretch) - self.growth(stretch)
    }
}

fn median_of_three(values: &[f64]) -> Vec<f64> {
    let mut smooth = values.to_vec();
    for at in 1..values.len().saturating_sub(1) {
        let mut window = [values[at - 1], values[at], values[at + 1]];
        window.sort_by(f64::total_cmp);
        smooth[at] = window[1];
    }
    smooth
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(largest: Bytes) -> Vec<Bytes> {
        (0..)
            .map(|step| Bytes((8192.0 * 2f64.powf(f64::from(step) / 6.0)) as u64))
            .take_while(|size| *size <= largest)
            .collect()
    }

    #[test]
    fn a_stair_has_its_steps_and_a_slope_none() {
        let at = |size: Bytes| match size.0 {
            0..=49_152 => 1.5,
            49_153..=2_097_152 => 5.0,
            _ => 90.0,
        };
        let points: Vec<_> =
            sizes(Bytes::mib(64)).into_iter().map(|size| (size, at(size))).collect();
        let found = plateaus(&points);
        let ns: Vec<f64> = found.iter().map(|plateau| plateau.ns).collect();
        assert_eq!(ns, [1.5, 5.0, 90.0], "{found:?}");
        assert!(found[0].to < found[1].from && found[2].until.is_none());
        let slope: Vec<_> = sizes(Bytes::mib(64))
            .into_iter()
            .map(|size| (size, (size.0 as f64).powf(0.4)))
            .collect();
        assert!(
            plateaus(&slope).iter().all(|plateau| plateau.until.is_none()),
            "{:?}",
            plateaus(&slope)
        );
    }

    #[test]
    fn falling_values_are_pooled() {
        assert_eq!(never_falling(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(never_falling(&[3.0, 2.0, 1.0]), [2.0; 3]);
    }

    proptest! {
        /// What once happened: a level of 191.8 MiB at 46 ns on a curve that is above 120 ns from
        /// 16 MiB on.
        #[test]
        fn nothing_far_above_a_plateau_lies_on_it(
            ns in prop::collection::vec(0.8f64..200.0, 2..90),
            rising in any::<bool>(),
        ) {
            let mut ns = ns;
            if rising {
                ns.sort_by(f64::total_cmp);
            }
            let points: Vec<_> = sizes(Bytes::mib(512)).into_iter().zip(ns).collect();
            let curve = Curve::new(&points);
            let mut before: Option<Plateau> = None;
            for plateau in curve.plateaus() {
                let on = |size: Bytes| plateau.from <= size && size <= plateau.to;
                let smooth: Vec<f64> = points
                    .iter()
                    .zip(&curve.y)
                    .filter(|((size, _), _)| on(*size))
                    .map(|(_, y)| y.exp())
                    .collect();
                prop_assert!(
                    smooth[smooth.len() - 1] <= smooth[0] * MOST_GROWTH * 1.001,
                    "{plateau:?}"
                );
                let (last, until) = plateau.end(&points);
                prop_assert!(plateau.to <= last && last <= until);
                if let Some(before) = before {
                    prop_assert!(before.to < plateau.from);
                    prop_assert!(before.until.is_some_and(|until| until <= plateau.from));
                }
                before = Some(plateau);
            }
        }
    }
}
