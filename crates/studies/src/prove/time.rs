//! How the time is divided, and what can be known in it: pure functions.

use std::time::Duration;

use ringfence_analysis::estimate::{Looks, most_spread};
use ringfence_experiment::Measure;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::quantity::Quantity;
use ringfence_experiment::units::Share;

use super::Question;

/// The time of a proof for which neither a time nor trials were given.
pub const DEFAULT: Duration = Duration::from_secs(60);
/// The part of the time that the baseline may take: a close call wants more trials before it wants
/// levers. What it leaves, the later stages have.
pub const BASELINE: f64 = 2.0 / 3.0;
/// The rest is kept for levers where it holds so many trials: two of every setting, and a
/// confirmation. In less, levers would take trials from the baseline and come to no end themselves.
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
// Trials take longer than planned.
const ALLOWANCE: f64 = 0.1;

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

/// What levers may take of what the baseline has left: their part, and more where `all` of them
/// take more and the rest still holds a confirmation. Where nothing holds `one` of them and a
/// confirmation, all that is left: what was tried is known then.
pub fn for_levers(
    left: Duration,
    one: Duration,
    all: Duration,
    confirmation: Duration,
) -> Duration {
    let part = of_levers(left);
    let most = left.saturating_sub(confirmation.div_f64(CONFIRMATION));
    let given = part.max(all.min(most));
    if given < one { left } else { given }
}

/// The time of a whole proof in which levers that take so long at least can be tried, however long
/// the baseline looks.
pub fn with_levers(least: Duration, trial: Duration) -> Duration {
    let left = least.div_f64(LEVERS).max(trial * ENOUGH_FOR_LEVERS);
    // The baseline ends with a whole trial, and the levers begin after it.
    (left + trial * 2).div_f64(1.0 - BASELINE)
}

/// The time of a whole proof whose baseline holds so much, whatever levers may follow.
pub fn with_baseline(least: Duration) -> Duration {
    least.div_f64(BASELINE)
}

/// The part of what is left that a confirmation has: all of it where no other can follow.
pub fn of_confirmation(left: Duration, last: bool) -> Duration {
    if last { left } else { left.mul_f64(CONFIRMATION) }
}

/// The time of a whole proof in which a first confirmation that takes so long at least comes to its
/// end, however long the baseline looks and the levers are tried.
pub fn with_confirmation(least: Duration, trial: Duration) -> Duration {
    with_levers(least.div_f64(CONFIRMATION * (1.0 - LEVERS)).mul_f64(LEVERS), trial)
}

/// The longest time that is worth advising.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// What the stages of a proof take at least, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Takes {
    /// A trial.
    pub trial: Duration,
    /// The control, and the baseline to its first look or to the look that would settle it.
    pub baseline: Duration,
    /// The levers; zero if they are not known yet.
    pub levers: Duration,
    /// A confirmation; zero if it is not known yet.
    pub confirmation: Duration,
}

/// The time to advise: every stage of a proof has what it takes in it. All advice is this figure,
/// so that following one piece of advice does not lead to the next.
pub fn enough(takes: Takes, levers: bool) -> Duration {
    let baseline = with_baseline(takes.baseline);
    let all = match levers {
        true => baseline
            .max(with_levers(takes.levers, takes.trial))
            .max(with_confirmation(takes.confirmation, takes.trial)),
        false => takes.baseline,
    };
    as_typed(all.mul_f64(1.0 + ALLOWANCE))
}

/// Rounds up to tens of seconds, which a person would type.
pub fn as_typed(time: Duration) -> Duration {
    Duration::from_secs((time.as_secs_f64() / 10.0).ceil().max(1.0) as u64 * 10)
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

/// Looks after half as many trials again, from the first to the last: a function of what was
/// planned, never of what was seen.
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

#[cfg(test)]
mod tests {
    use ringfence_experiment::units::Span;

    use super::*;

    #[test]
    fn looks_grow_by_half_up_to_the_most() {
        assert_eq!(looks(6, 48), [6, 9, 14, 20, 30, 46, 48]);
        assert_eq!(looks(6, 6), [6]);
        assert_eq!(looks(6, 3), [3]);
        assert_eq!(looks(4, 0), [2]);
        for most in 2..3000 {
            let looks = looks(6, most);
            assert!(
                looks.windows(2).all(|two| two[0] < two[1]) && looks.last() == Some(&most),
                "{looks:?}"
            );
        }
    }

    #[test]
    fn the_parts_of_the_time_never_exceed_it() {
        let time = Duration::from_secs(30);
        let trial = Duration::from_millis(300);
        let baseline = of_baseline(time, trial, true);
        assert_eq!(baseline, time.mul_f64(BASELINE));
        let levers = of_levers(time - baseline);
        let first = of_confirmation(time - baseline - levers, false);
        let second = of_confirmation(time - baseline - levers - first, true);
        let all = baseline + levers + first + second;
        assert!(
            all <= time + Duration::from_micros(1) && all + Duration::from_micros(1) >= time,
            "{all:?}"
        );
        assert_eq!(of_baseline(time, trial, false), time);
        assert_eq!(
            of_baseline(time, trial * 2, true),
            time,
            "no lever could be confirmed in the rest"
        );
    }

    #[test]
    fn the_time_that_would_do_for_levers_does() {
        let (least, trial) = (Duration::from_secs(20), Duration::from_millis(300));
        for trial in [trial, trial * 20] {
            let time = with_levers(least, trial);
            let part = of_baseline(time, trial, true);
            assert!(part < time, "the rest is kept for levers: {time:?}");
            // The baseline ends with the trial that it has begun.
            assert!(of_levers(time - part - trial) >= least, "{time:?}");
        }
    }

    #[test]
    fn the_time_that_would_do_for_a_confirmation_does() {
        let (least, trial) = (Duration::from_secs(20), Duration::from_millis(300));
        for trial in [trial, trial * 20] {
            let time = with_confirmation(least, trial);
            let left = time - of_baseline(time, trial, true) - trial;
            let left = left - of_levers(left) - trial;
            assert!(of_confirmation(left, false) + trial >= least, "{time:?}");
        }
    }

    #[test]
    fn the_time_that_is_advised_holds_every_stage() {
        let s = Duration::from_secs_f64;
        for trial in [0.01, 0.21, 0.65, 8.4] {
            for (levers, confirmation) in [(0.0, 0.0), (4.0, 2.0), (40.0, 16.0), (400.0, 16.0)] {
                let takes = Takes {
                    trial: s(trial),
                    baseline: s(trial * 7.5),
                    levers: s(trial * levers),
                    confirmation: s(trial * confirmation),
                };
                let time = enough(takes, true);
                assert_eq!(time.as_secs() % 10, 0, "{time:?}");
                let part = of_baseline(time, takes.trial, true);
                assert!(part < time && part >= takes.baseline, "{time:?}");
                // Each stage ends with the trial that it has begun.
                let left = time - part - takes.trial;
                let all = for_levers(left, takes.levers, takes.levers, takes.confirmation);
                assert!(all >= takes.levers, "{time:?}: {all:?}");
                let left = left - of_levers(left).max(takes.levers);
                assert!(of_confirmation(left, false) + takes.trial >= takes.confirmation);
                // Earlier advice, given before the levers are known, is not longer.
                let without = Takes { levers: Duration::ZERO, ..takes };
                assert!(enough(without, true) <= time);
            }
        }
        let alone = Takes { trial: s(2.0), baseline: s(15.0), ..Takes::default() };
        assert_eq!(enough(alone, false), s(20.0), "no lever can be tried here");
    }

    #[test]
    fn levers_get_what_is_left_beside_a_confirmation() {
        let s = Duration::from_secs;
        // All of them fit into their part.
        assert_eq!(for_levers(s(44), s(2), s(20), s(4)), s(22));
        // They take more than their part, which the confirmation leaves.
        assert_eq!(for_levers(s(44), s(2), s(30), s(4)), s(30));
        assert_eq!(for_levers(s(44), s(2), s(64), s(4)), s(38));
        // Tried and not measured again is more than not tried.
        assert_eq!(for_levers(s(10), s(8), s(64), s(6)), s(10));
        assert_eq!(for_levers(s(10), s(12), s(64), s(6)), s(10));
    }

    #[test]
    fn a_look_allows_a_precision() {
        let measure =
            Measure { looks: vec![6, 9, 20], last_look: Some(LAST_LOOK), ..Measure::default() };
        let precision =
            Precision::of(Budget::Slowdown(Share(0.02)), &measure, Some(Duration::from_secs(20)))
                .unwrap();
        // 97.5 %, 19 degrees of freedom: t = 2.433, and 0.861 for a chance of 80 %:
        // ln 1.02 * sqrt 20 / (2.433 + 0.861) = 0.02689.
        assert!((precision.spread.unwrap() - 0.02689).abs() < 2e-5, "{precision:?}");
        // How trials of a quantile may vary is not known before they are made.
        let quantity = "p99".parse().unwrap();
        let measure = Measure { quantity, ..measure };
        let bound = Budget::AtMost(quantity, Span::ms(5));
        let precision = Precision::of(bound, &measure, None).unwrap();
        assert_eq!(
            (precision.time, precision.trials, precision.quantity, precision.spread),
            (None, 20, quantity, None)
        );
    }
}
