//! The ledger as a page of the documentation: a verdict on each claim. The figures are on the page
//! in HTML.

use std::fmt::Write;

use ringfence_studies::claims::{Basis, Judged, Table, Verdict};

use crate::claims::text::{in_words, refuted};

/// The page.
pub fn markdown(table: &Table) -> String {
    let mut out = String::from(
        "# Published claims\n\n\
         Every claim, hypothesis and question of the documents that Ringfence began with, and what \
         came out. \
         `ringfence notes claims --markdown docs/evidence/claims.md` writes this page\n\
         from [the ledger](../../experiments/claims/claims.toml) and the datasets in `results/`, \
         which `ringfence notes contribute` packs. \
         `ringfence notes claims --html claims.html`\n\
         writes all figures with their intervals; the workflow in `.github` keeps that page of \
         each change.\n\n\
         *Simulated* verdicts are about described machines, and say what \
         [the simulator](../reference/simulator.md) makes of them, not what a machine did.\n\
         The crash checker explores every state that a crash can leave by the rules of the \
         manuals; its verdicts name the test that shows them.\n\
         The others follow from figures: from measured ones where there are any. \
         Where machines contradict each other, it is undecided. What was measured on DRAM in\n\
         place of persistent memory does not count.\n\n",
    );
    machines(&mut out, table);
    summary(&mut out, table);
    for document in &table.ledger.documents {
        let _ = write!(out, "## {}\n\n", document.title);
        for judged in table.claims.iter().filter(|judged| judged.claim.is_of(document)) {
            claim(&mut out, judged);
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn machines(out: &mut String, table: &Table) {
    out.push_str("## Machines\n\n");
    if table.machines.is_empty() {
        out.push_str(
            "None yet: there are no datasets, so no claim has been measured or simulated.\n\n",
        );
        return;
    }
    out.push_str("| name | what it is | |\n|---|---|---|\n");
    for machine in &table.machines {
        let how = if machine.simulated { "simulated" } else { "measured" };
        let _ = writeln!(out, "| `{}` | {} | {how} |", machine.name, escaped(&machine.title));
    }
    let older = match table.older {
        0 => String::new(),
        more => {
            format!(" Older ones of the same experiment on the same machine do not count: {more}.")
        }
    };
    let _ = write!(out, "\nDatasets: {}.{older}\n\n", table.datasets);
}

fn summary(out: &mut String, table: &Table) {
    out.push_str("## Verdicts\n\n");
    for sentence in refuted(table) {
        let _ = write!(out, "**{}**\n\n", escaped(&sentence));
    }
    out.push_str(
        "| verdict | measured | simulated alone | by the crash checker |\n|---|---|---|---|\n",
    );
    let count = |wanted: &str, basis: Basis| {
        table
            .claims
            .iter()
            .filter(|one| one.basis == basis && in_words(&one.verdict) == wanted)
            .count()
    };
    for verdict in [Verdict::Holds, Verdict::DoesNot, Verdict::Undecided].map(|one| in_words(&one))
    {
        let [measured, simulated, explored] = [Basis::Measured, Basis::Simulated, Basis::Explored]
            .map(|basis| count(&verdict, basis));
        let _ = writeln!(out, "| {verdict} | {measured} | {simulated} | {explored} |");
    }
    let none = table.claims.iter().filter(|judged| judged.basis == Basis::Nothing);
    let (untested, unrun): (Vec<&Judged>, Vec<&Judged>) =
        none.partition(|judged| judged.claim.untested.is_some());
    let all = table.claims.len();
    let _ = write!(
        out,
        "\nOf {all}, {} have not been run, and {} have no experiment; each says why.\n\n",
        unrun.len(),
        untested.len()
    );
}

fn claim(out: &mut String, judged: &Judged) {
    let claim = &judged.claim;
    let (verdict, mut why) = match &judged.verdict {
        Verdict::NotRun(why) => ("not run".to_owned(), format!(" Reason: {}.", escaped(why))),
        verdict => (in_words(verdict), String::new()),
    };
    let basis = match judged.basis {
        Basis::Measured => ", measured",
        Basis::Simulated => ", simulated",
        Basis::Explored => ", by the crash checker",
        Basis::Nothing => "",
    };
    if let Some(explored) = &claim.explored {
        why = format!(" {} (`{}`).", capital(&escaped(&explored.shows)), explored.test);
    }
    let published = match &judged.published {
        Some(published) => format!("; by the published figures it {}", of_published(published)),
        None => String::new(),
    };
    let _ = writeln!(
        out,
        "- **{}**{basis}{published}: {} ({}; {}){why}",
        capital(&verdict),
        escaped(&claim.says),
        claim.kind,
        escaped(&claim.place)
    );
}

fn of_published(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::DoesNot => "does not hold",
        Verdict::Undecided | Verdict::NotRun(_) => "is undecided",
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

// What would end a cell, or begin a heading or markup.
pub(super) fn escaped(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean
        .replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('*', "\\*")
        .replace('_', "\\_")
}
