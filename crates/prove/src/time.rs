//! How the time is divided, and what can be known in it: pure functions.

use std::fmt;
use std::time::Duration;

use ringfence_analysis::estimate::{Looks, fewest_latencies, most_spread};
use ringfence_experiment::Measure;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::quantity::Quantity;
use ringfence_experiment::units::Share;

use super::Question;

/// The part of the time that the baseline may take: a close call wants more trials before it wants levers. What it
/// leaves, the later stages have.
pub const BASELINE: f64 = 2.0 / 3.0;
/// The rest is kept for levers where it holds so many trials: two of every setting, and a confirmation. In less,
/// levers would take trials from the baseline and come to no end themselves.
pub const ENOUGH_FOR_LEVERS: u32 = 30;
/// The part of what is left then that the levers may take; the confirmations have the rest.
pub const LEVERS: f64 = 0.5;
/// The part of what is left then that a confirmation may take which is not the last.
const CONFIRMATION: f64 = 2.0 / 3.0;
/// Trials at the first look: fewer tell next to nothing.
pub const FIRST_LOOK: u32 = 6;
/// The same of runs that are timed whole.
pub const FIRST_LOOK_OF_RUNS: u32 = 4;
/// The share of the permitted error that the end of a stage has.
pub const LAST_LOOK: Share = Share(0.5);
const MOST_TRIALS: u32 = 20_000;

/// What a stage may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    /// Its time; absent: as long as its trials take.
    pub time: Option<Duration>,
    /// The least that a trial takes, as far as is known.
    pub trial: Duration,
}

/// The baseline's part of the time; all of it where no lever could be tried, or not be confirmed.
pub fn of_baseline(time: Duration, trial: Duration, levers: bool) -> Duration {
    let part = time.mul_f64(BASELINE);
    if levers && time - part >= trial * ENOUGH_FOR_LEVERS { part } else { time }
}

/// The levers' part of what the baseline has left.
pub fn of_levers(left: Duration) -> Duration {
    left.mul_f64(LEVERS)
}

/// What levers may take of what the baseline has left: their part, and more where `all` of them take more and the rest still
/// holds a confirmation. Where nothing holds `one` of them and a confirmation, all that is left: what was tried is known then.
pub fn for_levers(left: Duration, one: Duration, all: Duration, confirmation: Duration) -> Duration {
    let part = of_levers(left);
    let most = left.saturating_sub(confirmation.div_f64(CONFIRMATION));
    let given = part.max(all.min(most));
    if given < one { left } else { given }
}

/// The time of a whole proof in which levers that take so long at least can be tried, however long the baseline looks.
pub fn with_levers(least: Duration, trial: Duration) -> Duration {
    let left = least.div_f64(LEVERS).max(trial * ENOUGH_FOR_LEVERS);
    // The baseline ends with a whole trial, and the levers begin after it.
    (left + trial * 2).div_f64(1.0 - BASELINE)
}

/// The part of what is left that a confirmation has: all of it where no other can follow.
pub fn of_confirmation(left: Duration, last: bool) -> Duration {
    if last { left } else { left.mul_f64(CONFIRMATION) }
}

/// The time of a whole proof in which a first confirmation that takes so long at least comes to its end, however long the baseline
/// looks and the levers are tried.
pub fn with_confirmation(least: Duration, trial: Duration) -> Duration {
    with_levers(least.div_f64(CONFIRMATION * (1.0 - LEVERS)).mul_f64(LEVERS), trial)
}

/// The least time that makes sense: the first look's trials, and the control before it.
pub fn least(trial: Duration, control: Duration, first: u32) -> Duration {
    trial * first + control
}

/// At most so many trials: as many as were asked for, or as fit into the time.
pub fn most_trials(question: &Question, whole_runs: bool, given: Given) -> u32 {
    match (question.trials, given.time) {
        (Some(trials), _) => trials,
        (None, Some(time)) if !given.trial.is_zero() => {
            ((time.as_secs_f64() / given.trial.as_secs_f64()) as u32).clamp(2, MOST_TRIALS)
        }
        (None, _) => question.most_trials(whole_runs),
    }
}

/// Looks after half as many trials again, from the first to the last: a function of what was planned, never of
/// what was seen.
pub fn looks(first: u32, most: u32) -> Vec<u32> {
    let most = most.max(2);
    let mut looks = Vec::new();
    let mut next = f64::from(first.min(most));
    while next.round() < f64::from(most) {
        looks.push(next.round() as u32);
        next *= 1.5;
    }
    looks.push(most);
    looks
}

/// How precise an answer a number of trials allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// The baseline's part of the time.
    pub time: Option<Duration>,
    /// About so many trials.
    pub trials: u32,
    /// What is to be told from none, where it is a slowdown.
    pub budget: Budget,
    /// Of what.
    pub quantity: Quantity,
    /// The most by which trials may vary for that, as a standard deviation of the logarithm.
    pub spread: Option<f64>,
}

impl Precision {
    /// That of a look; `None` where its trials are too few for any.
    pub fn of(budget: Budget, measure: &Measure, time: Option<Duration>) -> Option<Self> {
        let trials = *measure.looks.last()?;
        let level = Looks::of(measure).ok()?.level_after(trials);
        let spread = match budget {
            Budget::Slowdown(share) => Some(most_spread(share.0.ln_1p(), level, trials)?),
            Budget::AtMost(Quantity::Quantile(_), _) => None,
            // What it takes depends on how trials differ.
            Budget::AtMost(Quantity::Mean, _) => return None,
        };
        Some(Self { time, trials, budget, quantity: measure.quantity, spread })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |value: f64| format!("{:.2}", value * 100.0);
        let trimmed = |text: String| text.trim_end_matches('0').trim_end_matches('.').to_owned();
        match self.time {
            Some(time) => write!(f, "in {:.1} s, about {} trials", time.as_secs_f64(), self.trials)?,
            None => write!(f, "in {} trials", self.trials)?,
        }
        if let (Budget::Slowdown(share), Some(spread)) = (self.budget, self.spread) {
            let [budget, spread] = [share.0, spread.exp_m1()].map(|share| trimmed(percent(share)));
            let slowdown = self.quantity.slowdown();
            write!(
                f,
                ", a {slowdown} of {budget} % can be told from none if trials vary by less than {spread} %"
            )?;
        }
        match self.quantity.quantile() {
            Some(quantile) => {
                write!(f, "; {quantile} takes {} latencies on each side", fewest_latencies(quantile))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "../tests/inside/time.rs"]
mod tests;
