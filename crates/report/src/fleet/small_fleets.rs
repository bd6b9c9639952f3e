//! Hosts too few to say anything of others: each figure in a row, the hosts beside each other. And
//! why figures are lacking.

use std::collections::BTreeMap;

use crate::print::Style;
use crate::print::table::{Cell, Column, Table};
use crate::print::text::{faint, paragraph, plural};

use crate::fleet::cells::{MOST_FIGURES, figure_cell, more_figures};
use crate::fleet::overview::{Known, Overview, Summary};

/// Reasons that are told one by one.
const MOST_REASONS: usize = 6;

/// The figures of a few hosts that have any, in the order in which they were measured.
pub(crate) fn side_by_side(
    overview: &Overview,
    place: usize,
    all: &[&Summary],
    style: &Style,
) -> String {
    let hosts = &overview.groups[place].hosts;
    let mut heads = vec![Column::text("figure", 24)];
    heads.extend(hosts.iter().map(|host| Column::text(&overview.hosts[*host].node, 16)));
    let mut table = Table::new(heads);
    let has = |summary: &&&Summary| {
        summary.hosts.iter().any(|one| matches!(one.figure, Known::Figure(_)))
    };
    let known: Vec<&&Summary> = all.iter().filter(has).collect();
    if known.is_empty() {
        return String::new();
    }
    for summary in known.iter().take(MOST_FIGURES) {
        let cells = hosts.iter().map(|host| figure_cell(summary, *host));
        table.row([summary.name.clone()].into_iter().chain(cells).map(Cell::new).collect());
    }
    let mut out = table.render(style);
    more_figures(&mut out, known.len().saturating_sub(MOST_FIGURES), style);
    out
}

/// Why hosts have no figures, each reason once.
pub(crate) fn reasons(out: &mut String, all: &[&Summary], style: &Style) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in all.iter().flat_map(|summary| &summary.hosts) {
        if let Known::Unknown { unknown } = &one.figure {
            let why = if unknown.is_empty() { "reason unknown" } else { unknown };
            *counts.entry(why).or_default() += 1;
        }
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (why, count) in counts.iter().take(MOST_REASONS) {
        paragraph(out, 2, &format!("No figure, {}: {why}.", plural(*count, "time")), style);
    }
    if counts.len() > MOST_REASONS {
        let left = plural(counts.len() - MOST_REASONS, "reason");
        faint(out, &format!("{left} more: --json has all"), style);
    }
}
