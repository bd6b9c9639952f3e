//! When to stop measuring without fooling oneself.
//!
//! Looking at a plain 95 % interval again and again until it says something finds something in
//! about 20 % of the cases at 10 looks, where there is nothing (Armitage, McPherson and Rowe, JRSS
//! A 132, 1969). So the looks are fixed in advance, and the error allowed is split over them
//! (Bonferroni): all intervals of an experiment hold together at the level asked for, so the one
//! that is reported does, whatever made it the last. The split is even, or a share of the error is
//! kept for the last look, which then costs little however many there are before it (as in O'Brien
//! and Fleming, Biometrics 35, 1979).
//!
//! Time may end between two looks: that is the last one then. It comes once, instead of those that
//! were still to come, and when it comes does not depend on what was seen.

use ringfence_experiment::Measure;
use serde::Serialize;

use super::{Estimate, Finding, NotEstimable, Verdict};

/// A large effect need be known only to this share of itself (both on the log scale).
pub const SHARE_OF_EFFECT: f64 = 0.05;

/// After how many trials one looks at the data, and the level at which all looks together hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Looks {
    trials: Vec<u32>,
    level: f64,
    /// The share of the permitted error that the last look has; absent: as much as each of the
    /// others.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<f64>,
}

/// How precise a verdict is to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goal {
    /// Relative changes up to this do not matter: 0.01 is 1 %.
    pub margin: f64,
    /// An effect is to be known to +- this relative half-width, or to [`SHARE_OF_EFFECT`] if that
    /// is wider.
    pub precision: f64,
}

impl Default for Goal {
    /// A margin of 1 %, effects to +-0.5 %: where the precision is half the margin, reaching it
    /// always settles.
    fn default() -> Self {
        Self { margin: 0.01, precision: 0.005 }
    }
}

/// What to do after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Measure on.
    Continue {
        /// Trials, in all, at the next look.
        until: u32,
    },
    /// Stop, and report the interval of this look.
    Stop(StopReason),
}

/// Why no further trials are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// There is an effect, and it is known as precisely as was asked.
    EffectKnown,
    /// There is no change larger than the margin.
    NoChange,
    /// It was the last look.
    LastLook,
    /// There is no figure, and more trials will not bring one.
    NotEstimable,
}

/// A schedule that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadLooks {
    /// The numbers of trials do not start at 2 or more and rise.
    #[error("looks must be at rising numbers of trials, the first at 2 or more")]
    NotRising,
    /// The level is not strictly between 0 and 1.
    #[error("the confidence level must lie strictly between 0 and 1")]
    Level,
    /// The last look's share of the error is not strictly between 0 and 1.
    #[error("the last look's share of the error must lie strictly between 0 and 1")]
    LastLook,
}

impl Default for Looks {
    /// At 10, 20 and 40 trials, at 95 % in all.
    fn default() -> Self {
        Self { trials: vec![10, 20, 40], level: 0.95, last: None }
    }
}

impl Looks {
    /// Looks after these numbers of trials, which hold together at `level` (such as 0.95).
    ///
    /// # Errors
    ///
    /// No trials, trials that do not rise or start below 2, or a level outside of 0..1.
    pub fn new(trials: Vec<u32>, level: f64) -> Result<Self, BadLooks> {
        if trials.first().is_none_or(|first| *first < 2)
            || trials.windows(2).any(|two| two[0] >= two[1])
        {
            return Err(BadLooks::NotRising);
        }
        if !(level > 0.0 && level < 1.0) {
            return Err(BadLooks::Level);
        }
        Ok(Self { trials, level, last: None })
    }

    /// The same looks, of which the last has this share of the permitted error and the others the
    /// rest.
    ///
    /// # Errors
    /// A share outside of 0..1.
    pub fn keeping_for_the_last(self, share: f64) -> Result<Self, BadLooks> {
        if !(share > 0.0 && share < 1.0) {
            return Err(BadLooks::LastLook);
        }
        Ok(Self { last: Some(share), ..self })
    }

    /// Those of an experiment.
    ///
    /// # Errors
    /// As [`Looks::new`] and [`Looks::keeping_for_the_last`].
    pub fn of(measure: &Measure) -> Result<Self, BadLooks> {
        let looks = Self::new(measure.looks.clone(), measure.confidence.0)?;
        match measure.last_look {
            Some(share) => looks.keeping_for_the_last(share.0),
            None => Ok(looks),
        }
    }

    /// Trials, in all, at each look.
    pub fn trials(&self) -> &[u32] {
        &self.trials
    }

    /// The level at which all looks together hold.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The level of the interval at the look with this index (the first is 0); all together hold at
    /// [`Looks::level`].
    pub fn level_at(&self, look: usize) -> f64 {
        let count = self.trials.len();
        let share = match self.last {
            Some(_) if count == 1 => 1.0,
            Some(last) if look + 1 >= count => last,
            Some(last) => (1.0 - last) / (count - 1) as f64,
            None => 1.0 / count as f64,
        };
        1.0 - (1.0 - self.level) * share
    }

    /// The level of the interval that is reported after so many trials: that of the look which is
    /// due then, and that of the last where none is, since measuring has ended there.
    pub fn level_after(&self, trials: u32) -> f64 {
        let due = self.trials.iter().position(|look| *look == trials);
        self.level_at(due.unwrap_or(self.trials.len() - 1))
    }

    /// Whether to measure on after the look with this index (the first is 0), given the slowdown at
    /// [`Looks::level_at`].
    ///
    /// One stops when the verdict is that there is no change larger than the margin, when it is an
    /// effect known precisely enough, at the last look, and when a stall has left no figure that
    /// more trials could fix.
    ///
    /// An interval of a lower level is a mistake of the caller's; debug builds panic at it.
    pub fn decide(&self, look: usize, slowdown: &Estimate, goal: &Goal) -> Decision {
        if let Ok(interval) = slowdown {
            debug_assert!(
                interval.level >= self.level_at(look) - 1e-9,
                "an interval of a lower level"
            );
        }
        match (self.settled(slowdown, goal), self.trials.get(look + 1)) {
            (Some(reason), _) => Decision::Stop(reason),
            (None, Some(until)) => Decision::Continue { until: *until },
            (None, None) => Decision::Stop(StopReason::LastLook),
        }
    }

    fn settled(&self, slowdown: &Estimate, goal: &Goal) -> Option<StopReason> {
        let interval = match slowdown {
            Ok(interval) => interval,
            Err(
                NotEstimable::NothingMeasured
                | NotEstimable::TooFewTrials { .. }
                | NotEstimable::TooFewLatencies { .. }
                | NotEstimable::TrialsDiffer { .. }
                | NotEstimable::TooWide { .. }
                | NotEstimable::OutOfRange,
            ) => return None,
            Err(_) => return Some(StopReason::NotEstimable),
        };
        let wanted = goal.precision.ln_1p().max(SHARE_OF_EFFECT * interval.value.ln().abs());
        match Finding::new(slowdown, goal.margin).verdict {
            Verdict::NoChangeLargerThanMargin => Some(StopReason::NoChange),
            Verdict::Slower | Verdict::Faster if interval.log_half_width() <= wanted => {
                Some(StopReason::EffectKnown)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Interval;

    fn around(value: f64, half: f64) -> Estimate {
        let (low, high) = (value / (1.0 + half), value * (1.0 + half));
        Ok(Interval { value, low, high, level: 0.99, trials: 10, spread: half, slack: 0.0 })
    }

    #[test]
    fn the_error_is_split_evenly() {
        let looks = Looks::default();
        for look in 0..3 {
            assert!((looks.level_at(look) - (1.0 - 0.05 / 3.0)).abs() < 1e-12);
        }
        assert_eq!(Looks::new(vec![10], 0.9).unwrap().level_at(0), 0.9);
    }

    #[test]
    fn what_is_kept_for_the_last_look_and_the_rest_add_up() {
        for count in 1..20u32 {
            let looks = Looks::new((2..2 + count).collect(), 0.95)
                .unwrap()
                .keeping_for_the_last(0.5)
                .unwrap();
            let errors: f64 = (0..count as usize).map(|look| 1.0 - looks.level_at(look)).sum();
            assert!((errors - 0.05).abs() < 1e-12, "{count}: {errors}");
        }
        let looks = Looks::new(vec![6, 9, 14], 0.95).unwrap().keeping_for_the_last(0.5).unwrap();
        let close =
            |level: f64, error: f64| assert!((1.0 - level - error).abs() < 1e-12, "{level}");
        close(looks.level_after(6), 0.0125);
        close(looks.level_after(9), 0.0125);
        // Time was over between two looks, or there were more trials than ever planned.
        close(looks.level_after(11), 0.025);
        close(looks.level_after(14), 0.025);
        close(looks.level_after(15), 0.025);
        for bad in [0.0, 1.0, f64::NAN] {
            let looks = Looks::default().keeping_for_the_last(bad);
            assert_eq!(looks, Err(BadLooks::LastLook));
        }
    }

    #[test]
    fn schedules_rise() {
        for bad in [vec![], vec![1, 10], vec![10, 10], vec![20, 10]] {
            assert_eq!(Looks::new(bad, 0.95), Err(BadLooks::NotRising));
        }
        assert_eq!(Looks::new(vec![10], f64::NAN), Err(BadLooks::Level));
    }

    #[test]
    fn one_stops_for_a_reason() {
        let looks = Looks::default();
        let goal = Goal::default();
        let decide = |look, estimate: Estimate| looks.decide(look, &estimate, &goal);
        assert_eq!(decide(0, around(1.0, 0.004)), Decision::Stop(StopReason::NoChange));
        assert_eq!(decide(0, around(1.1, 0.004)), Decision::Stop(StopReason::EffectKnown));
        assert_eq!(decide(0, around(1.1, 0.03)), Decision::Continue { until: 20 });
        assert_eq!(decide(1, around(1.0, 0.03)), Decision::Continue { until: 40 });
        assert_eq!(decide(2, around(1.0, 0.03)), Decision::Stop(StopReason::LastLook));
        // Twelve times slower: 5 % of ln 12 is 0.124.
        assert_eq!(decide(0, around(12.0, 0.1)), Decision::Stop(StopReason::EffectKnown));
        assert_eq!(decide(0, around(12.0, 0.2)), Decision::Continue { until: 20 });
    }

    #[test]
    fn only_a_hopeless_case_stops_without_a_figure() {
        let (looks, goal) = (Looks::default(), Goal::default());
        let few = Err(NotEstimable::TooFewTrials { trials: 1 });
        assert_eq!(looks.decide(0, &few, &goal), Decision::Continue { until: 20 });
        assert_eq!(looks.decide(2, &few, &goal), Decision::Stop(StopReason::LastLook));
        let stalled = Err(NotEstimable::Stalled { baseline: 0, arm: 1, of: 10 });
        assert_eq!(looks.decide(0, &stalled, &goal), Decision::Stop(StopReason::NotEstimable));
    }
}
