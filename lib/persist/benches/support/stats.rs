//! Ratios and their intervals, as everywhere in this project: Student's t over the log-ratios of
//! rounds.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A ratio with its 95 % interval.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    /// The geometric mean over rounds.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Whether a bound is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval holds it.
    Reached,
    /// None of the interval does.
    Missed,
    /// Some of it does.
    Undecided,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "NOT reached",
            Verdict::Undecided => "undecided",
        })
    }
}

impl Ratio {
    /// Of two columns of the same rounds; `None` with fewer than 3.
    pub fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        Self::of_logs(pairs.into_iter().map(|(one, other)| (one / other).ln()))
    }

    /// Of log-ratios, one a round.
    pub fn of_logs(logs: impl IntoIterator<Item = f64>) -> Option<Self> {
        let logs: Vec<f64> = logs.into_iter().collect();
        if logs.len() < 3 {
            return None;
        }
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let t = StudentsT::new(0.0, 1.0, n - 1.0).expect("at least two degrees").inverse_cdf(0.975);
        let half = t * (variance / n).sqrt();
        Some(Self { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
    }

    /// Held against "at most".
    pub fn at_most(&self, bound: f64) -> Verdict {
        verdict(self.high <= bound, self.low > bound)
    }

    /// Held against "at least".
    pub fn at_least(&self, bound: f64) -> Verdict {
        verdict(self.low >= bound, self.high < bound)
    }
}

fn verdict(holds: bool, fails: bool) -> Verdict {
    match (holds, fails) {
        (true, _) => Verdict::Reached,
        (_, true) => Verdict::Missed,
        _ => Verdict::Undecided,
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.value, self.low, self.high)
    }
}

/// The middle value; NaN of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}
