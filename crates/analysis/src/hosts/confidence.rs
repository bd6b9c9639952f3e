//! How surely it is known how much hosts differ, and what that lets expect of the next one.
//!
//! Given a variance between hosts, their weighted squares about the middle follow a known
//! distribution. So what was seen says of each variance with what confidence the true one is no
//! larger: the *confidence distribution*. What to expect of the next host follows from each
//! variance, and these are mixed with that as weights (Nagashima, Noma and Furukawa, "Prediction
//! intervals for random-effects meta-analysis: a confidence distribution approach", Stat. Methods
//! Med. Res. 28, 2019; here on a grid, without random numbers).
//!
//! The reference is chi-squared where the hosts' own variances are known. From few trials they are
//! not, and it is Welch's F ("On the comparison of several mean values", Biometrika 38, 1951),
//! whose degrees of freedom and correction count only the part of a host's variance that is its
//! own.

use statrs::distribution::{ContinuousCDF, FisherSnedecor, Normal};

use super::OnHost;
use super::weights::Weighed;

/// Variances that are known with more degrees of freedom are as good as known.
const MOST_FREEDOM: f64 = 2e4;
/// The largest variance that is looked for: a factor of e to the thousandth.
const LARGEST: f64 = 1e6;
/// The share of an interval's tail that the grid of variances leaves out on either side.
const LEFT_OUT: f64 = 4e-3;
/// The grid's steps, and how far below its largest variance it reaches. What is smaller counts as
/// none.
const STEPS: u32 = 60;
const DEPTH: f64 = 1e-4;

/// The confidence distribution of the variance between hosts.
pub(super) struct Confidence<'a> {
    hosts: &'a [OnHost],
    // Degrees of freedom of all hosts' own variances together, which moderation does not add to.
    together: f64,
}

impl<'a> Confidence<'a> {
    /// Of moderated hosts; `measured` are the same before that.
    pub(super) fn of(hosts: &'a [OnHost], measured: &[OnHost]) -> Self {
        Self { hosts, together: measured.iter().map(|host| host.freedom).sum() }
    }

    /// The confidence that the variance between hosts is at most this.
    fn at_most(&self, between: f64) -> f64 {
        let Weighed { weights, squares, .. } = Weighed::of(self.hosts.iter(), between);
        let count = self.hosts.len() as f64;
        let (mut apart, mut common) = (0.0, 0.0);
        for host in self.hosts {
            let weight = 1.0 / (host.variance + between);
            // The share that was estimated from the host's trials.
            let own = (host.variance * weight).powi(2);
            apart += (1.0 - weight / weights).powi(2) * own / host.freedom;
            common += own / count;
        }
        let wide = count * count - 1.0;
        let correction = 1.0 + 2.0 * (count - 2.0) / wide * apart;
        // Moderated variances err together, too.
        let freedom = (3.0 * apart / wide + common / self.together).recip().min(MOST_FREEDOM);
        let reference =
            FisherSnedecor::new(count - 1.0, freedom).expect("both freedoms are positive");
        reference.sf(squares / (count - 1.0) / correction)
    }

    /// The variance that the true one is at most, with this confidence.
    pub(super) fn quantile(&self, confidence: f64) -> f64 {
        if self.at_most(0.0) >= confidence {
            return 0.0;
        }
        let mut high = 1e-12;
        while self.at_most(high) < confidence && high < LARGEST {
            high *= 4.0;
        }
        let mut low = high / 4.0;
        for _ in 0..30 {
            let middle = (low + high) / 2.0;
            if self.at_most(middle) < confidence { low = middle } else { high = middle }
        }
        high
    }

    /// Where the next host's true figure will be, on the log scale: between equal tails of the
    /// mixture.
    pub(super) fn next(&self, level: f64) -> (f64, f64) {
        let tail = (1.0 - level) / 2.0;
        let mixture = self.mixture(tail * LEFT_OUT);
        let standard = Normal::standard();
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for Part { middle, deviation, .. } in &mixture {
            least = least.min(middle - 10.0 * deviation);
            most = most.max(middle + 10.0 * deviation);
        }
        let quantile = |share: f64| {
            let below = |at: f64| -> f64 {
                mixture
                    .iter()
                    .map(|part| part.share * standard.cdf((at - part.middle) / part.deviation))
                    .sum()
            };
            let (mut low, mut high) = (least, most);
            for _ in 0..45 {
                let middle = (low + high) / 2.0;
                if below(middle) < share { low = middle } else { high = middle }
            }
            high
        };
        (quantile(tail), quantile(1.0 - tail))
    }

    fn mixture(&self, left_out: f64) -> Vec<Part> {
        let part = |between: f64, share: f64| {
            let Weighed { middle, weights, .. } = Weighed::of(self.hosts.iter(), between);
            Part { share, middle, deviation: (between + 1.0 / weights).sqrt() }
        };
        let highest = self.quantile(1.0 - left_out);
        if highest == 0.0 {
            return vec![part(0.0, 1.0)];
        }
        let lowest = self.quantile(left_out).max(highest * DEPTH);
        let step = (highest / lowest).powf(f64::from(STEPS).recip());
        let mut all = Vec::new();
        let (mut edge, mut so_far) = (lowest, self.at_most(lowest));
        // Either all of what is smaller is taken for none, or next to nothing is.
        all.push(part(if lowest > highest * DEPTH { lowest } else { 0.0 }, so_far));
        for nth in 1..=STEPS {
            let between = edge * step.sqrt();
            edge *= step;
            let next = if nth == STEPS { 1.0 } else { self.at_most(edge).max(so_far) };
            all.push(part(between, next - so_far));
            so_far = next;
        }
        all
    }
}

/// What is expected given one variance between hosts.
struct Part {
    share: f64,
    middle: f64,
    deviation: f64,
}
