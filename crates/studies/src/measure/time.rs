//! How long a verb measures: one rule for all that run an experiment.

use std::time::Duration;

use ringfence_analysis::estimate::FEWEST_TRIALS;
use ringfence_experiment::Measure;
use ringfence_experiment::plan::{Plan, is_whole_run};
use ringfence_experiment::units::{Share, Span};
use ringfence_machine::Machine;

use crate::prove::time::{LAST_LOOK, looks};

/// The default time of a verb without one of its own.
const USUAL: Span = Span::ms(60_000);

/// More trials add little.
const MOST_TRIALS: u32 = 20_000;

/// The precision at which a simulation ends.
const PRECISE: Share = Share(0.01);

/// Which limits the user gave.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// A time; the experiment has it.
    pub time: bool,
    /// A number of trials.
    pub trials: bool,
}

/// Sets how long a plan is measured. A time that was given is used until the question is
/// settled, and so is any time where a precision or a budget settles it. Otherwise the verb's own
/// time, or 60 s, ends the verb's trials, and is longer where a figure of every case takes
/// longer. Episodes, A/A runs and runs that are timed whole take as long as their trials do.
///
/// A simulation ends once it is precise: its time is not that of a clock.
pub fn set_time(plan: &mut Plan, machine: &Machine, asked: Asked) {
    let (least, least_trial, is_whole) = (least(plan), plan.least_trial(), runs_whole(plan));
    let experiment = &mut plan.experiment;
    let measure = &mut experiment.measure;
    let settles = measure.precision.is_some() || measure.decide.is_some();
    let simulated = machine.simulated.is_some();
    if measure.time.is_none() {
        let is_long = measure.episode.is_some() || experiment.aa.is_some() || is_whole;
        if asked.trials || is_long || simulated && settles {
            return;
        }
        if simulated {
            until_precise(measure);
            return;
        }
    }
    let own = measure.time.unwrap_or(USUAL);
    let time = if asked.time { own } else { own.max(least) };
    measure.time = Some(time);
    if (asked.time || settles) && !asked.trials && !simulated {
        use_the_time(measure, least_trial, time);
    }
}

// It is not known how long these take.
fn runs_whole(plan: &Plan) -> bool {
    plan.measured().into_iter().any(|case| is_whole_run(plan.metric_task(case)))
}

/// Sets a default time: `time`, or longer if a figure of every case takes longer.
pub fn set_default_time(plan: &mut Plan, time: Span) {
    plan.experiment.measure.time = Some(time.max(least(plan)));
}

// What a figure of every case takes.
fn least(plan: &Plan) -> Span {
    Span(plan.least_time()).rounded_up()
}

// With looks before the last of the verb's trials.
fn until_precise(measure: &mut Measure) {
    let most = measure.looks.last().copied().unwrap_or(FEWEST_TRIALS);
    measure.looks = looks(FEWEST_TRIALS, most);
    measure.last_look = Some(LAST_LOOK);
    measure.precision = Some(PRECISE);
}

// As many trials as a time may hold in the place of those that a verb takes; with looks in between,
// where there is something to stop for.
fn use_the_time(measure: &mut Measure, least_trial: Duration, time: Span) {
    let fit = time.0.as_nanos().checked_div(least_trial.as_nanos());
    let fit = fit.map_or(MOST_TRIALS, |fit| fit.min(MOST_TRIALS.into()) as u32);
    let first = measure.looks.first().copied().unwrap_or(FEWEST_TRIALS);
    let most = fit.max(first);
    if measure.precision.is_some() || measure.decide.is_some() {
        measure.looks = looks(first, most);
        measure.last_look = Some(LAST_LOOK);
    } else {
        measure.looks = vec![most];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_time_is_used() {
        let used = |measure: Measure, trial_ms: u64, time_ms: u64| {
            let mut measure = Measure { looks: vec![12], ..measure };
            use_the_time(&mut measure, Duration::from_millis(trial_ms), Span::ms(time_ms));
            measure.looks
        };
        // A verb's 12 trials take 14 s: 40 s hold 34.
        assert_eq!(used(Measure::default(), 1166, 40_000), [34]);
        assert_eq!(used(Measure::default(), 1000, 2_000), [12], "the time ends it");
        assert_eq!(used(Measure::default(), 0, 10_000), [MOST_TRIALS], "runs that are timed whole");
        let precise = Measure { precision: Some(Share(0.01)), ..Measure::default() };
        assert_eq!(used(precise, 1000, 40_000), [12, 18, 27, 40]);
    }

    #[test]
    fn what_is_simulated_ends_once_it_is_precise() {
        let mut measure = Measure { looks: vec![12], ..Measure::default() };
        until_precise(&mut measure);
        assert_eq!((measure.looks, measure.precision), (vec![4, 6, 9, 12], Some(PRECISE)));
    }
}
