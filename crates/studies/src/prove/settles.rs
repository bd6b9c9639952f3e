//! What would settle a figure that is on both sides of the budget, or that is not known: a pure
//! function of the figure and of the stage that it comes from.

use std::time::Duration;

use ringfence_analysis::estimate::{Estimate, FEWEST_TRIALS, NotEstimable};
use ringfence_experiment::Kind;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::sample::Sample;

use super::time;
use crate::Stage;

/// What would settle it if trials keep differing as they do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settles {
    /// Trials of the stage, in all; none where they would be absurdly many, or nothing is known of
    /// that.
    pub trials: Option<u32>,
    /// The time of a whole proof that holds them; none where there are none, or where it is not
    /// known how long a trial takes.
    pub time: Option<Duration>,
    /// The smallest limit that the trials at hand are enough for, as [`Budget::limit`]; none where
    /// there is no interval.
    pub limit: Option<f64>,
}

impl Settles {
    /// Of the baseline's figure.
    pub(super) fn of_baseline(figure: &Estimate, budget: Budget, stages: &[Stage]) -> Self {
        let trial = Stage::find(stages, |kind| *kind == Kind::ProveBaseline).and_then(trial_length);
        Self::of(figure, budget, |trials| Some(time::with_baseline(trial? * trials)))
    }

    /// Of a lever's figure: where it was measured again, or else where it was tried.
    pub(super) fn of_lever(
        figure: &Estimate,
        budget: Budget,
        stages: &[Stage],
        lever: &str,
    ) -> Self {
        let holds = |stage: &&Stage| stage.plan.cases.iter().any(|case| case.arm == lever);
        let trial = stages.iter().rev().find(holds).copied().and_then(trial_length);
        let time = |trials| Some(time::with_confirmation(trial? * trials, trial?));
        Self::of(figure, budget, time)
    }

    fn of(figure: &Estimate, budget: Budget, time: impl Fn(u32) -> Option<Duration>) -> Self {
        let trials = match figure {
            Ok(known) => known.trials_for((known.value / budget.limit()).ln().abs()),
            Err(NotEstimable::TooFewTrials { .. }) => Some(FEWEST_TRIALS),
            Err(NotEstimable::TooWide { needed, .. }) => *needed,
            Err(
                NotEstimable::TooFewLatencies { trials, .. }
                | NotEstimable::TrialsDiffer { trials, .. },
            ) => *trials,
            Err(_) => None,
        };
        // Above the upper end it would be kept.
        let limit = figure.as_ref().ok().map(|known| known.high);
        Self { trials, time: trials.and_then(time), limit }
    }
}

/// From the start of a trial to that of the next: the median, since a run that was resumed has a
/// gap in it.
pub(super) fn trial_length(stage: Stage) -> Option<Duration> {
    let starts: Vec<u64> = stage
        .samples
        .chunk_by(|one, next| one.trial == next.trial)
        .filter_map(|trial: &[Sample]| trial.iter().map(|sample| sample.start_ns).min())
        .collect();
    let mut lengths: Vec<u64> =
        starts.windows(2).map(|two| two[1].saturating_sub(two[0])).collect();
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2)?;
    (*median > 0).then(|| Duration::from_nanos(*median))
}

#[cfg(test)]
mod tests {
    use ringfence_analysis::estimate::Interval;
    use ringfence_experiment::units::Share;

    use super::*;

    fn settles(figure: Estimate) -> Settles {
        let budget = Budget::Slowdown(Share(0.05));
        Settles::of(&figure, budget, |trials| Some(Duration::from_secs(1) * trials))
    }

    #[test]
    fn an_open_figure_needs_trials_and_allows_a_larger_budget() {
        let interval = Interval {
            value: 1.03,
            low: 0.99,
            high: 1.07,
            level: 0.95,
            trials: 24,
            spread: 0.1,
            slack: 0.0,
        };
        let open = settles(Ok(interval));
        let trials = open.trials.unwrap();
        // 1.96 * 0.1 / sqrt(n) = ln(1.05 / 1.03) = 0.01923: n = 104.
        assert!((100..112).contains(&trials), "{open:?}");
        assert_eq!(open.time, Some(Duration::from_secs(trials.into())));
        assert_eq!(open.limit, Some(1.07));
        // It lies on the budget: no number of trials tells on which side.
        let on_it = settles(Ok(Interval { value: 1.05, ..interval }));
        assert_eq!((on_it.trials, on_it.time, on_it.limit), (None, None, Some(1.07)));
    }

    #[test]
    fn a_reason_says_what_a_figure_takes() {
        let few = settles(Err(NotEstimable::TooFewTrials { trials: 2 }));
        assert_eq!((few.trials, few.limit), (Some(FEWEST_TRIALS), None));
        let wide = NotEstimable::TooWide { trials: 9, needed: Some(40) };
        assert_eq!(settles(Err(wide)).time, Some(Duration::from_secs(40)));
        let none = Settles { trials: None, time: None, limit: None };
        assert_eq!(settles(Err(NotEstimable::NothingMeasured)), none);
    }
}
