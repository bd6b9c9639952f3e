//! From runs to ratios with intervals.
//!
//! Each round gives one log-ratio: the time of a run of *b* over that of the run of *a* next to it. Student's t over
//! rounds gives the interval, as in `ringfence-analysis`, where a round counts as a trial. What drifts slowly cancels
//! within a round, and which of the two runs first is drawn anew for each, so that what is left of it has no direction.
//!
//! Where commands are run by a shell, the time that the shell takes to start is measured in each round as well, and its
//! geometric mean is subtracted from every run. How well that mean is known goes into the interval: it is widened by as
//! much as the ratio moves when another time within the shell's own interval is subtracted.

use ringfence_analysis::estimate::{Estimate, FEWEST_TRIALS, Interval, NotEstimable};

use crate::order::Slot;
use crate::run::{Quantity, Run, kept};

/// The time that a shell takes to start, ns, with its interval; none where there is no shell.
///
/// # Errors
/// As [`Interval::over_trials`].
pub fn shell(runs: &[Run], quantity: Quantity, level: f64) -> Option<Estimate> {
    let times: Vec<f64> = kept(runs, Slot::Shell)
        .values()
        .filter_map(|took| quantity.of(took))
        .map(|ns| ns.max(1.0).ln())
        .collect();
    (!times.is_empty()).then(|| Interval::over_trials(&times, level))
}

/// The ratio of a quantity of case `b` over that of case `a`, over the rounds in which both ran.
///
/// # Errors
/// Fewer than four such rounds; a run that took none of it, or no more time than the shell's start
/// ([`NotEstimable::Stalled`]); rounds too far apart.
pub fn ratio(runs: &[Run], quantity: Quantity, a: usize, b: usize, level: f64) -> Estimate {
    let shell = match quantity {
        Quantity::Wall => shell(runs, quantity, level).transpose()?,
        _ => None,
    };
    let pairs = pairs(runs, quantity, a, b);
    let at = |start: f64| log_ratios(&pairs, start);
    let Some(shell) = shell else { return Interval::over_trials(&at(0.0)?, level) };
    let logs = at(shell.value)?;
    let interval = Interval::over_trials(&logs, level)?;
    let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
    let moved = |start: f64| at(start).map(|moved| (mean(&moved) - mean(&logs)).abs());
    interval.widened(moved(shell.low)?.max(moved(shell.high)?))
}

// What a and b took, round by round.
fn pairs(runs: &[Run], quantity: Quantity, a: usize, b: usize) -> Vec<(f64, f64)> {
    let (before, after) = (kept(runs, Slot::Case(a)), kept(runs, Slot::Case(b)));
    let both =
        before.iter().filter_map(|(round, a)| Some((quantity.of(a)?, quantity.of(after.get(round)?)?)));
    both.collect()
}

fn log_ratios(pairs: &[(f64, f64)], start: f64) -> Result<Vec<f64>, NotEstimable> {
    let none =
        |get: fn(&(f64, f64)) -> f64| pairs.iter().filter(|pair| get(pair) - start <= 0.0).count() as u32;
    let (baseline, arm) = (none(|pair| pair.0), none(|pair| pair.1));
    if baseline + arm > 0 {
        return Err(NotEstimable::Stalled { baseline, arm, of: pairs.len() as u32 });
    }
    Ok(pairs.iter().map(|(a, b)| ((b - start) / (a - start)).ln()).collect())
}

/// The time of a case's run without the shell's start, ns: a geometric mean over rounds.
///
/// # Errors
/// As [`ratio`].
pub fn time(runs: &[Run], case: usize, level: f64) -> Estimate {
    let shell = shell(runs, Quantity::Wall, level).transpose()?;
    let start = shell.map_or(0.0, |shell| shell.value);
    let times: Vec<f64> =
        kept(runs, Slot::Case(case)).values().map(|took| took.wall_ns as f64 - start).collect();
    let short = times.iter().filter(|time| **time <= 0.0).count() as u32;
    if short > 0 {
        return Err(NotEstimable::NoWork { trials: short, of: times.len() as u32 });
    }
    let logs: Vec<f64> = times.iter().map(|time| time.ln()).collect();
    let interval = Interval::over_trials(&logs, level)?;
    match shell {
        None => Ok(interval),
        Some(shell) => {
            let moved = (1.0 + (shell.high - shell.low) / 2.0 / interval.value).ln();
            interval.widened(moved)
        }
    }
}

/// Rounds of which no figure is told.
pub const TOO_FEW: u32 = FEWEST_TRIALS - 1;

/// Mean, standard deviation, median, least and most of some numbers, which hyperfine's users know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Described {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation; none of a single one.
    pub stddev: Option<f64>,
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// Describes numbers; none where there are none.
pub fn described(numbers: &[f64]) -> Option<Described> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let n = sorted.len();
    let mean = sorted.iter().sum::<f64>() / n as f64;
    let variance = sorted.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (n as f64 - 1.0);
    let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    Some(Described { mean, stddev: (n > 1).then(|| variance.sqrt()), median, min, max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Took;

    fn run(slot: Slot, round: u32, wall_ns: u64) -> Run {
        let took = Took { wall_ns, code: Some(0), ..Took::default() };
        Run { slot, round, place: 0, warm_up: false, began_unix_ns: 0, took }
    }

    fn runs(a: &[u64], b: &[u64], shell: &[u64]) -> Vec<Run> {
        let of = |slot: Slot, times: &[u64]| -> Vec<Run> {
            (1..).zip(times).map(|(round, time)| run(slot, round, *time)).collect()
        };
        [of(Slot::Case(0), a), of(Slot::Case(1), b), of(Slot::Shell, shell)].concat()
    }

    // Ratios 2, 2, 8, 8: mean of logs ln 4, spread ln 2 * sqrt(4 / 3), t(0.975, 3) = 3.18245.
    #[test]
    fn a_ratio_by_hand() {
        let all = runs(&[10, 20, 10, 5], &[20, 40, 80, 40], &[]);
        let found = ratio(&all, Quantity::Wall, 0, 1, 0.95).unwrap();
        assert!((found.value - 4.0).abs() < 1e-9);
        let half = 3.182_45 * 2f64.ln() * (4.0f64 / 3.0).sqrt() / 2.0;
        assert!((found.log_half_width() - half).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn the_shell_is_subtracted_and_widens() {
        let exact = runs(&[110, 110, 110, 110], &[210, 210, 210, 210], &[10, 10, 10, 10]);
        let found = ratio(&exact, Quantity::Wall, 0, 1, 0.95).unwrap();
        assert!((found.value - 2.0).abs() < 1e-9 && found.log_half_width() < 1e-9, "{found:?}");
        let vague = runs(&[110, 110, 110, 110], &[210, 210, 210, 210], &[9, 11, 9, 11]);
        let found = ratio(&vague, Quantity::Wall, 0, 1, 0.95).unwrap();
        assert!(found.contains(2.0) && found.log_half_width() > 0.005, "{found:?}");
        // The same time of both: what the shell takes matters to neither.
        let same = runs(&[110, 110, 110, 110], &[110, 110, 110, 110], &[9, 11, 9, 11]);
        assert!(ratio(&same, Quantity::Wall, 0, 1, 0.95).unwrap().log_half_width() < 1e-9);
        // No longer than the shell: no ratio.
        let short = runs(&[110, 9, 110, 110], &[210; 4], &[10; 4]);
        let found = ratio(&short, Quantity::Wall, 0, 1, 0.95);
        assert_eq!(found, Err(NotEstimable::Stalled { baseline: 1, arm: 0, of: 4 }));
    }

    #[test]
    fn warm_up_and_halves_of_rounds_do_not_count() {
        let mut all = runs(&[10, 10, 10, 10, 99], &[20, 20, 20, 20], &[]);
        all.push(Run { warm_up: true, ..run(Slot::Case(1), 5, 1) });
        assert_eq!(ratio(&all, Quantity::Wall, 0, 1, 0.95).unwrap().trials, 4);
        assert_eq!(
            ratio(&all[..7], Quantity::Wall, 0, 1, 0.95),
            Err(NotEstimable::TooFewTrials { trials: 2 })
        );
    }

    #[test]
    fn numbers_are_described() {
        let found = described(&[3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!((found.mean, found.median, found.min, found.max), (4.0, 2.5, 1.0, 10.0));
        assert!((found.stddev.unwrap() - (50.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(described(&[1.0]).unwrap().stddev, None);
        assert_eq!(described(&[]), None);
    }
}
