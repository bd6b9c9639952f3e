//! What tables of few and of many hosts have in common.

use crate::print::Style;
use crate::print::numbers::NO_FIGURE;
use crate::print::text::{faint, plural};

use crate::fleet::names::shown;
use crate::fleet::overview::{Known, Summary};

/// Figures that a terminal has room for; `--figure` chooses others.
pub(crate) const MOST_FIGURES: usize = 24;

/// That there are figures which have no room.
pub(crate) fn more_figures(out: &mut String, left: usize, style: &Style) {
    if left > 0 {
        let left = plural(left, "figure");
        faint(
            out,
            &format!("{left} more: --figure TEXT chooses, --html and --json have all"),
            style,
        );
    }
}

/// A host's figure in a cell.
pub(crate) fn figure_cell(summary: &Summary, host: usize) -> String {
    match summary.hosts.iter().find(|one| one.host == host).map(|one| &one.figure) {
        Some(Known::Figure(interval)) => shown(&summary.of, interval).to_string(),
        _ => NO_FIGURE.into(),
    }
}
