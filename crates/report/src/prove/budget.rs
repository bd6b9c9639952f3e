//! A proof's budget in words, and the figures that are compared with it.

use ringfence_analysis::estimate::{Estimate, Interval};
use ringfence_analysis::verdicts::side;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::quantity::Quantity;
use ringfence_studies::prove::Question;

use crate::experiment::cases::one;
use crate::numbers;
use crate::numbers::{Figure, ns_estimate, percent, slowdown_estimate, slowdown_figure};

/// What may be slower by how much, or take how long.
pub(crate) fn allowed(question: &Question, units: &str) -> String {
    let unit = one(units);
    match (question.budget, question.measure.quantity) {
        (Budget::Slowdown(share), Quantity::Mean) => {
            format!("the victim may be slower by {}", percent(share.0))
        }
        (Budget::Slowdown(share), Quantity::Quantile(of)) => {
            format!("{of} of a victim's {unit} may be longer by {}", percent(share.0))
        }
        (Budget::AtMost(Quantity::Mean, time), _) => {
            format!("a victim's {unit} may take {time} at most, on average")
        }
        (Budget::AtMost(Quantity::Quantile(of), time), _) => {
            format!("{of} of a victim's {unit} may be {time} at most")
        }
    }
}

/// A budget in a sentence: `5 %`, `p99<5ms`.
pub(crate) fn text(budget: Budget) -> String {
    match budget {
        Budget::Slowdown(share) => percent(share.0),
        Budget::AtMost(..) => budget.to_string(),
    }
}

/// What is compared with a budget: a slowdown, or a time.
pub(crate) fn judged_figure(budget: Budget, figure: &Interval) -> Figure {
    if budget.is_absolute() { numbers::ns_figure(figure) } else { slowdown_figure(figure) }
}

/// As [`judged_figure`], in one piece; where there is no interval, the reason.
pub(crate) fn judged_estimate(budget: Budget, figure: &Estimate) -> String {
    if budget.is_absolute() { ns_estimate(figure) } else { slowdown_estimate(figure) }
}

/// What that is called: `p99 slowdown`, `p99`, `mean time`.
pub(crate) fn judged_name(question: &Question) -> &'static str {
    let quantity = question.measure.quantity;
    match question.budget {
        Budget::Slowdown(_) => quantity.slowdown(),
        Budget::AtMost(Quantity::Mean, _) => "mean time",
        Budget::AtMost(Quantity::Quantile(of), _) => of.name(),
    }
}

/// On which side of the budget a figure lies, to follow it.
pub(crate) fn side_of(judged: &Estimate, budget: Budget) -> &'static str {
    match (judged, side(judged, budget)) {
        (Err(_), _) => "",
        (_, Some(true)) => ": within the budget",
        (_, Some(false)) => ": over the budget",
        (_, None) => ": could be within or over the budget",
    }
}
