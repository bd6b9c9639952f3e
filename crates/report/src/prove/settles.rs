//! What would settle a proof that is undecided, in a sentence or two.

use std::time::Duration;

use ringfence_experiment::budget::Budget;
use ringfence_experiment::units::Span;
use ringfence_studies::prove::time::{LONGEST, as_typed};
use ringfence_studies::prove::{Proof, Settles};

use crate::numbers::{count, duration, percent};

/// The largest slowdown that a budget can allow, as a factor.
const LARGEST_SHARE: f64 = 2.0;

/// The time or the trials that would settle it, and the smallest budget that these trials decide;
/// or that neither is known. Nothing where no figure is open.
pub(super) fn sentence(proof: &Proof) -> Option<String> {
    let settles = proof.settles?;
    let sentences: Vec<String> =
        [more(proof, &settles), enough_for(proof.record.question.budget, settles.limit)]
            .into_iter()
            .flatten()
            .collect();
    Some(match sentences.is_empty() {
        true => "Neither the time that would settle it is known, nor a budget that these trials \
                 decide."
            .into(),
        false => sentences.join(" "),
    })
}

fn more(proof: &Proof, settles: &Settles) -> Option<String> {
    let would = if settles.limit.is_some() { "would settle it" } else { "would give a figure" };
    // A proof without a time is as long as its trials.
    if proof.record.question.time.is_none() {
        let trials = settles.trials?;
        return Some(format!("About {} trials {would} (--trials {trials}).", count(trials.into())));
    }
    match settles.time.filter(|time| *time <= LONGEST) {
        Some(time) => {
            let seconds = as_typed(time).as_secs();
            let time = match seconds {
                0..60 => format!("{seconds} s"),
                _ => duration(Duration::from_secs(seconds)),
            };
            Some(format!("About {time} in all {would} (--time {seconds}s)."))
        }
        None if settles.limit.is_some() => Some(
            "No reasonable time would settle it on this machine as it is ('ringfence doctor')."
                .into(),
        ),
        None => None,
    }
}

fn enough_for(budget: Budget, limit: Option<f64>) -> Option<String> {
    let budget = match (budget, limit?) {
        (Budget::Slowdown(_), limit) if limit > LARGEST_SHARE => return None,
        (Budget::Slowdown(_), limit) => percent(rounded_up(limit - 1.0)),
        (Budget::AtMost(quantity, _), ns) => {
            let time = Duration::from_nanos(rounded_up(ns) as u64);
            Budget::AtMost(quantity, Span(time)).to_string()
        }
    };
    Some(format!("These trials are enough for a budget of {budget} or more."))
}

// Two digits, which a person would type.
fn rounded_up(figure: f64) -> f64 {
    let unit = 10f64.powf(figure.log10().floor() - 1.0);
    // What is 12 units but for the last bit is 12.
    (figure / unit - 1e-9).ceil() * unit
}

#[cfg(test)]
mod tests {
    use ringfence_experiment::units::Share;

    use super::*;

    #[test]
    fn budgets_are_rounded_up_to_what_a_person_would_type() {
        let share = |limit| enough_for(Budget::Slowdown(Share(0.02)), limit);
        let said =
            |budget| Some(format!("These trials are enough for a budget of {budget} or more."));
        assert_eq!(share(Some(1.1234)), said("13 %"));
        assert_eq!(share(Some(1.07)), said("7 %"));
        assert_eq!(share(Some(1.0256)), said("2.6 %"));
        assert_eq!((share(Some(2.5)), share(None)), (None, None));
        let bound = enough_for("p99<5ms".parse().unwrap(), Some(7_123_456.0));
        assert_eq!(bound, said("p99<7.2ms"));
    }
}
