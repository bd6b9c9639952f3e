//! A hand-made comparison.

use ringfence_analysis::estimate::{Estimate, Finding, Interval, NotEstimable};
use ringfence_experiment::quantity::Quantity;
use ringfence_studies::compare::{Cell, Comparison, Difference, Figure, Missing, Side};

use crate::golden::check_both;

fn around(value: f64, half: f64) -> Estimate {
    let (low, high) = (value * f64::exp(-half), value * f64::exp(half));
    Ok(Interval { value, low, high, level: 0.95, trials: 12, spread: 0.02, slack: 0.0 })
}

fn cell(
    arm: &str,
    label: &str,
    figure: Figure,
    before: Estimate,
    after: Estimate,
    change: Estimate,
) -> Cell {
    let unit = if figure == Figure::Cost { "lines" } else { "loads" };
    let change = Finding::new(&change, 0.01);
    Cell {
        arm: arm.into(),
        label: label.into(),
        params: Vec::new(),
        unit,
        figure,
        quantity: Quantity::Mean,
        before,
        after,
        change,
    }
}

pub fn comparison() -> Comparison {
    let difference = |what: &str, before: &str, after: &str| Difference {
        what: what.into(),
        before: before.into(),
        after: after.into(),
    };
    let missing = |label: &str, missing_from, reason: Option<&str>| Missing {
        arm: "beside".into(),
        label: label.into(),
        missing_from,
        reason: reason.map(Into::into),
    };
    let stalled = || Err(NotEstimable::Stalled { baseline: 0, arm: 2, of: 12 });
    Comparison {
        name: "beside".into(),
        simulated: false,
        question: Some("How much does a writer slow a pointer chase down?".into()),
        differences: vec![
            difference(
                "processor",
                "Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz",
                "AMD EPYC 7513 32-Core <Processor>",
            ),
            difference("kernel", "6.12.0", "6.1.0"),
            difference("cores in use", "sharing", "apart 61 %, mixed 39 %"),
            difference("measured", "2026-01-02T03:04:05Z", "2026-02-02T03:04:05Z"),
        ],
        cells: vec![
            cell(
                "beside",
                "clwb",
                Figure::Slowdown,
                around(1.02, 0.01),
                around(12.1, 0.02),
                around(11.9, 0.03),
            ),
            cell(
                "beside",
                "nt",
                Figure::Slowdown,
                around(1.001, 0.002),
                around(1.0, 0.003),
                around(0.999, 0.004),
            ),
            cell(
                "beside",
                "clflush",
                Figure::Slowdown,
                around(1.07, 0.03),
                around(1.05, 0.05),
                around(0.98, 0.07),
            ),
            cell("beside", "none", Figure::Slowdown, around(1.2, 0.03), stalled(), stalled()),
            cell(
                "write",
                "clwb block=64B",
                Figure::Cost,
                around(177.0, 0.01),
                around(59.0, 0.01),
                around(1.0 / 3.0, 0.02),
            ),
        ],
        missing: vec![
            missing("clflushopt", Side::After, Some("this processor has no clflushopt")),
            missing("alu", Side::Before, None),
        ],
        confidence: 0.95,
        level: 0.99,
        looks: 1,
        margin: 0.01,
    }
}

#[test]
fn a_comparison() {
    check_both("compare", |style| ringfence_report::compare(&comparison(), style));
    assert_eq!(
        ringfence_report::compare_answer(&comparison()),
        "Of 5 cells 2 changed, 1 did not change by more than the margin, and 2 are undecided. The \
         largest change is that of beside clwb: slowed more, 11.9x [11.5, 12.3]."
    );
}

#[test]
fn nothing_differs_but_the_figures() {
    let same = Comparison {
        differences: Vec::new(),
        missing: Vec::new(),
        question: None,
        looks: 3,
        ..comparison()
    };
    check_both("compare-same", |style| ringfence_report::compare(&same, style));
}
