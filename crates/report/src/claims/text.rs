//! The ledger in the terminal.

use crate::print::Style;
use crate::print::style::Paint;
use crate::print::text::{faint, hanging, heading, paragraph};

use ringfence_studies::claims::{Basis, Judged, Table, Verdict};

use crate::claims::markdown::{in_words, words};

/// Claim by claim, document by document: the verdict, and each figure that it rests on. Without
/// results that is said first.
pub fn text(table: &Table, style: &Style) -> String {
    let mut out = String::new();
    if table.has_no_results() {
        paragraph(&mut out, 0, &summary(table), style);
        out.push('\n');
    }
    for document in &table.ledger.documents {
        heading(&mut out, &document.title, style);
        for judged in table.claims.iter().filter(|judged| judged.claim.is_of(document)) {
            let paint = match judged.verdict {
                Verdict::Holds => Some(Paint::Good),
                Verdict::DoesNot => Some(Paint::Bad),
                Verdict::Undecided | Verdict::NotRun(_) => None,
            };
            let says = judged.claim.says.trim_end_matches('.');
            hanging(&mut out, "  ", paint, &format!("{says}: {}", verdict(table, judged)), style);
            for tested in &judged.tests {
                for (machine, outcome) in table.machines.iter().zip(&tested.by_machine) {
                    if outcome.figure.is_some() || outcome.instead.is_some() {
                        let how = if machine.simulated { "simulated" } else { "measured" };
                        let words = words(outcome);
                        let line = format!(
                            "{} ({how} on {}): expected {}, {words}",
                            tested.test.case, machine.name, tested.test.expect
                        );
                        paragraph(&mut out, 4, &line, style);
                    }
                }
            }
        }
        out.push('\n');
    }
    if !table.has_no_results() {
        faint(&mut out, &summary(table), style);
    }
    out
}

/// The verdict on a claim in words: what it rests on, and what the published figures say.
pub(crate) fn verdict(table: &Table, judged: &Judged) -> String {
    if table.has_no_results() && judged.claim.untested.is_none() {
        return match &judged.published {
            Some(Verdict::Holds) => "holds by the published figures".into(),
            Some(Verdict::DoesNot) => "does not hold by the published figures".into(),
            Some(_) | None => "no published figures".into(),
        };
    }
    let basis = match judged.basis {
        Basis::Simulated => " (simulated)",
        Basis::Measured | Basis::Nothing => "",
    };
    let published = match &judged.published {
        Some(Verdict::Holds) => "; by the published figures it holds",
        Some(Verdict::DoesNot) => "; by the published figures it does not hold",
        Some(_) | None => "",
    };
    format!("{}{basis}{published}", in_words(&judged.verdict))
}

/// How many claims came out how, and what that rests on.
pub fn summary(table: &Table) -> String {
    let count =
        |of: &dyn Fn(&Judged) -> bool| table.claims.iter().filter(|judged| of(judged)).count();
    if table.has_no_results() {
        let by = |verdict: Verdict| count(&|judged| judged.published.as_ref() == Some(&verdict));
        return format!(
            "There are no results here: no claim was compared with measured or simulated figures. \
             By the published figures, \
             of {} claims {} hold and {} do not; {} have no experiment. 'ringfence reproduce' \
             measures, \
             'ringfence contribute DATASET' packs what it measured into the folder results/, and \
             --results names another folder.",
            table.claims.len(),
            by(Verdict::Holds),
            by(Verdict::DoesNot),
            count(&|judged| judged.claim.untested.is_some())
        );
    }
    let by = |basis: Basis, verdict: Verdict| {
        count(&|judged| judged.basis == basis && judged.verdict == verdict)
    };
    let decided = |basis: Basis| {
        format!(
            "{} hold, {} do not, {} are undecided",
            by(basis, Verdict::Holds),
            by(basis, Verdict::DoesNot),
            by(basis, Verdict::Undecided)
        )
    };
    format!(
        "Of {} claims, by what was measured {}; by what was simulated alone {}; {} were not run. \
         Datasets in results/: {}.",
        table.claims.len(),
        decided(Basis::Measured),
        decided(Basis::Simulated),
        count(&|judged| judged.basis == Basis::Nothing),
        table.datasets
    )
}
