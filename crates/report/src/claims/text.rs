//! The ledger in the terminal.

use crate::print::Style;
use crate::print::style::Paint;
use crate::print::table::{Cell, Column, Table as Grid};
use crate::print::text::{faint, hanging, heading, paragraph, section};

use ringfence_analysis::estimate::Interval;
use ringfence_studies::claims::{Basis, Document, Judged, Outcome, Table, Verdict};

/// How many claims of each document hold; of the `named` document, each claim in a line. With
/// [`Style::details`], claim by claim the verdict, and each figure that it rests on.
pub fn text(table: &Table, named: Option<&Document>, style: &Style) -> String {
    let mut out = String::new();
    paragraph(&mut out, 0, &summary(table), style);
    match named {
        Some(document) => claims_of(&mut out, table, document, style),
        None if style.details => {
            for document in &table.ledger.documents {
                claims_of(&mut out, table, document, style);
            }
        }
        None if table.has_no_results() => {}
        None => counts(&mut out, table, style),
    }
    if !style.details && named.is_none() {
        let first = table.ledger.documents.first().map_or("000", |document| &*document.id);
        let more =
            format!("A line for each claim: ringfence notes claims {first}. All figures: -v");
        faint(&mut out, &more, style);
    }
    out
}

// One row for each document.
fn counts(out: &mut String, table: &Table, style: &Style) {
    let mut columns = vec![Column::text("document", 24)];
    columns.extend(["holds", "does not", "undecided", "not run"].map(Column::right));
    let mut rows = Grid::new(columns);
    for document in &table.ledger.documents {
        let own = || table.claims.iter().filter(|judged| judged.claim.is_of(document));
        let count = |is: fn(&Verdict) -> bool| {
            Cell::new(own().filter(|judged| is(&judged.verdict)).count().to_string())
        };
        rows.row(vec![
            Cell::new(format!("{}  {}", document.id, document.title)),
            count(|verdict| *verdict == Verdict::Holds),
            count(|verdict| *verdict == Verdict::DoesNot),
            count(|verdict| *verdict == Verdict::Undecided),
            count(|verdict| matches!(verdict, Verdict::NotRun(_))),
        ]);
    }
    out.push_str(&rows.render(style));
}

fn claims_of(out: &mut String, table: &Table, document: &Document, style: &Style) {
    section(out);
    heading(out, &document.title, style);
    for judged in table.claims.iter().filter(|judged| judged.claim.is_of(document)) {
        let paint = match judged.verdict {
            Verdict::Holds => Some(Paint::Good),
            Verdict::DoesNot => Some(Paint::Bad),
            Verdict::Undecided | Verdict::NotRun(_) => None,
        };
        let says = judged.claim.says.trim_end_matches('.');
        if !style.details {
            hanging(out, &format!("  {:<15}", in_a_word(table, judged)), paint, says, style);
            continue;
        }
        hanging(out, "  ", paint, &format!("{says}: {}", verdict(table, judged)), style);
        for tested in &judged.tests {
            for (machine, outcome) in table.machines.iter().zip(&tested.by_machine) {
                if outcome.figure.is_some() || outcome.instead.is_some() {
                    let how = if machine.simulated { "simulated" } else { "measured" };
                    let words = words(outcome);
                    let line = format!(
                        "{} ({how} on {}): expected {}, {words}",
                        tested.test.case, machine.name, tested.test.expect
                    );
                    paragraph(out, 4, &line, style);
                }
            }
        }
    }
    if style.details {
        out.push('\n');
    }
}

fn in_a_word(table: &Table, judged: &Judged) -> &'static str {
    let verdict = match table.has_no_results() && judged.basis != Basis::Explored {
        true => judged.published.as_ref(),
        false => Some(&judged.verdict),
    };
    match verdict {
        Some(Verdict::Holds) => "holds",
        Some(Verdict::DoesNot) => "does not hold",
        Some(Verdict::Undecided) => "undecided",
        Some(Verdict::NotRun(_)) => "not run",
        None => "no figures",
    }
}

/// How many claims hold, what that rests on, and what the crash checker refutes.
pub(crate) fn summary(table: &Table) -> String {
    let count = |words: &str| {
        table.claims.iter().filter(|judged| in_a_word(table, judged) == words).count()
    };
    let by = |basis: Basis| table.claims.iter().filter(|judged| judged.basis == basis).count();
    let counts = match table.has_no_results() {
        true => format!(
            "There are no results here to judge claims by (--results DIR names others). By the \
             published figures and the crash checker, of {} claims {} hold and {} do not.",
            table.claims.len(),
            count("holds"),
            count("does not hold")
        ),
        false => format!(
            "Of {} claims {} hold, {} do not and {} are undecided ({} measured, {} simulated, {} \
             by the crash checker); {} were not run.",
            table.claims.len(),
            count("holds"),
            count("does not hold"),
            count("undecided"),
            by(Basis::Measured),
            by(Basis::Simulated),
            by(Basis::Explored),
            count("not run")
        ),
    };
    std::iter::once(counts).chain(refuted(table)).collect::<Vec<_>>().join(" ")
}

/// Sentences on the claims that the crash checker refutes, the first things to read: programs that
/// rely on them lose data.
pub(crate) fn refuted(table: &Table) -> Vec<String> {
    let is_refuted =
        |judged: &&Judged| judged.basis == Basis::Explored && judged.verdict == Verdict::DoesNot;
    let sentence = |judged: &Judged| format!("The crash checker refutes: {}", judged.claim.says);
    table.claims.iter().filter(is_refuted).map(sentence).collect()
}

/// A verdict alone in words.
pub(crate) fn in_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Holds => "holds".into(),
        Verdict::DoesNot => "does not hold".into(),
        Verdict::Undecided => "undecided".into(),
        Verdict::NotRun(why) => format!("not run, because {why}"),
    }
}

/// The figure and whether it is as claimed, or why there is none.
pub(crate) fn words(outcome: &Outcome) -> String {
    let figure =
        |figure: &Interval| format!("{:.3} [{:.3}, {:.3}]", figure.value, figure.low, figure.high);
    match (&outcome.figure, &outcome.instead) {
        (Some(own), _) => format!("{}: {}", figure(own), in_words(&outcome.verdict)),
        (None, Some((other, verdict))) => {
            format!(
                "{}; on DRAM {}, {}",
                in_words(&outcome.verdict),
                figure(other),
                in_words(verdict)
            )
        }
        (None, None) => in_words(&outcome.verdict),
    }
}

/// The verdict on a claim in words: what it rests on, and what the published figures say.
pub(crate) fn verdict(table: &Table, judged: &Judged) -> String {
    if table.has_no_results() && !judged.tests.is_empty() {
        return match &judged.published {
            Some(Verdict::Holds) => "holds by the published figures".into(),
            Some(Verdict::DoesNot) => "does not hold by the published figures".into(),
            Some(_) | None => "no published figures".into(),
        };
    }
    let basis = match (judged.basis, &judged.claim.explored) {
        (Basis::Explored, Some(explored)) => format!(" (crash checker: {})", explored.shows),
        (Basis::Simulated, _) => " (simulated)".into(),
        _ => String::new(),
    };
    let published = match &judged.published {
        Some(Verdict::Holds) => "; by the published figures it holds",
        Some(Verdict::DoesNot) => "; by the published figures it does not hold",
        Some(_) | None => "",
    };
    format!("{}{basis}{published}", in_words(&judged.verdict))
}
