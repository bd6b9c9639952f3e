//! Figures in words.

use crate::print::numbers;
use ringfence_analysis::estimate::Interval;
use ringfence_analysis::hosts::Expected;
use ringfence_fleet::Figure;

/// What a figure is of, in a few words.
pub(crate) fn name(figure: &Figure) -> String {
    let Figure { experiment, arm, label, quantity, figure, .. } = figure;
    // Names of arms are often in the label.
    let case = match label.as_str() {
        "" => arm.clone(),
        label if label.contains(arm.as_str()) => label.to_owned(),
        label => format!("{arm} {label}"),
    };
    let of = if quantity == "mean" { String::new() } else { format!(", {quantity}") };
    let what = if figure == "slowdown" { "" } else { ", cost" };
    format!("{experiment}: {case}{of}{what}")
}

/// A figure with its interval, in its unit.
pub(crate) fn shown(figure: &Figure, interval: &Interval) -> numbers::Figure {
    if figure.figure == "slowdown" {
        numbers::slowdown_figure(interval)
    } else {
        numbers::ns_figure(interval)
    }
}

/// The middle of a group.
pub(crate) fn middle(expected: &Expected) -> Interval {
    interval(expected, [expected.value, expected.low, expected.high])
}

/// What to expect of the next host.
pub(crate) fn next(expected: &Expected) -> Interval {
    interval(expected, [expected.value, expected.next_low, expected.next_high])
}

fn interval(expected: &Expected, [value, low, high]: [f64; 3]) -> Interval {
    let trials = u32::try_from(expected.hosts).unwrap_or(u32::MAX);
    Interval {
        value,
        low,
        high,
        level: expected.level,
        trials,
        spread: expected.between,
        slack: 0.0,
    }
}

/// A standard deviation of logarithms as a share.
pub(crate) fn share(deviation: f64) -> String {
    numbers::change(deviation.exp()).trim_start_matches('+').to_owned()
}
