//! The ledger as a page of the documentation.

use std::fmt::Write;

use ringfence_analysis::estimate::Interval;

use ringfence_studies::claims::{Basis, Judged, Outcome, Table, Tested, Verdict};

/// The page.
pub fn markdown(table: &Table) -> String {
    let mut out = String::from(
        "# Published claims\n\n\
         Every claim, hypothesis and question of the documents that Ringfence began with, what \
         tests it, and what came out. \
         `ringfence claims --markdown docs/evidence/claims.md` writes this page\n\
         from [the ledger](../../experiments/claims/claims.toml) and the datasets in `results/`, \
         which `ringfence contribute` packs. \
         No verdict is written by hand. Figures are the time of a case\n\
         over that of another; 1.05 is 5 % longer. *Simulated* figures are of described machines, \
         and say what [the simulator](../reference/simulator.md) makes of them, \
         not what a machine did.\n\n\
         A verdict rests on measured figures where there are any, and otherwise says that it is \
         simulated. \
         Where machines contradict each other, it is undecided. What was measured on DRAM in\n\
         place of persistent memory is printed next to it, and does not count.\n\n",
    );
    machines(&mut out, table);
    summary(&mut out, table);
    for document in &table.ledger.documents {
        let _ = write!(out, "## {}\n\n", document.title);
        let own: Vec<&Judged> =
            table.claims.iter().filter(|judged| judged.claim.is_of(document)).collect();
        for judged in own {
            claim(&mut out, table, judged);
        }
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
    out.push_str("## Verdicts\n\n| verdict | measured | simulated alone |\n|---|---|---|\n");
    let count = |wanted: &str, basis: Basis| {
        table
            .claims
            .iter()
            .filter(|one| one.basis == basis && in_words(&one.verdict) == wanted)
            .count()
    };
    for verdict in [Verdict::Holds, Verdict::DoesNot, Verdict::Undecided].map(|one| in_words(&one))
    {
        let (measured, simulated) =
            (count(&verdict, Basis::Measured), count(&verdict, Basis::Simulated));
        let _ = writeln!(out, "| {verdict} | {measured} | {simulated} |");
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

fn claim(out: &mut String, table: &Table, judged: &Judged) {
    let claim = &judged.claim;
    let _ = write!(out, "### {}\n\n", claim.id);
    let _ = write!(out, "{} ({}; {})\n\n", escaped(&claim.says), claim.kind, escaped(&claim.place));
    let simulated = if judged.basis == Basis::Simulated { " (simulated)" } else { "" };
    let _ = write!(out, "**{}**{simulated}", capital(&escaped(&in_words(&judged.verdict))));
    if let Some(published) = &judged.published {
        let _ = write!(out, "; by the published figures it {}", of_published(published));
    }
    out.push_str(".\n\n");
    if claim.tests.is_empty() {
        return;
    }
    out.push_str("| comparison | expected | published |");
    for machine in &table.machines {
        let how = if machine.simulated { "simulated" } else { "measured" };
        let _ = write!(out, " {how}: `{}` |", machine.name);
    }
    out.push_str("\n|---|---|---|");
    out.push_str(&"---|".repeat(table.machines.len()));
    out.push('\n');
    for tested in &judged.tests {
        row(out, tested);
    }
    let names: Vec<String> = claim
        .experiments()
        .iter()
        .map(|name| format!("[{name}](../../experiments/{name}.toml)"))
        .collect();
    let _ = write!(out, "\nTested by {}.\n\n", names.join(", "));
}

fn row(out: &mut String, tested: &Tested) {
    let test = &tested.test;
    let labels: Vec<&str> = [&test.case, &test.against]
        .into_iter()
        .chain(test.than.iter().flatten())
        .map(String::as_str)
        .collect();
    let comparison = escaped(&comparison(&labels));
    let published = match &tested.published[..] {
        [] => "no figure".to_owned(),
        figures => {
            figures.iter().map(|figure| format!("{figure:.3}")).collect::<Vec<_>>().join(", ")
        }
    };
    let _ = write!(out, "| {comparison} | {} | {published} |", test.expect);
    for outcome in &tested.by_machine {
        let _ = write!(out, " {} |", escaped(&words(outcome)));
    }
    out.push('\n');
}

// Two cases, or two pairs of them. Parameters that all cases with parameters share come last.
fn comparison(labels: &[&str]) -> String {
    let parts: Vec<Vec<&str>> = labels.iter().map(|label| label.split("; ").collect()).collect();
    let with: Vec<&[&str]> =
        parts.iter().map(|parts| &parts[1..]).filter(|p| !p.is_empty()).collect();
    let is_shared = |part: &&str| with.len() > 1 && with.iter().all(|one| one.contains(part));
    let shared: Vec<&str> = with
        .first()
        .map_or(Vec::new(), |first| first.iter().copied().filter(|part| is_shared(part)).collect());
    let own: Vec<String> = parts
        .iter()
        .map(|parts| {
            let rest = parts[1..].iter().copied().filter(|part| !is_shared(part));
            std::iter::once(parts[0]).chain(rest).collect::<Vec<_>>().join("; ")
        })
        .collect();
    let mut text = match &own[..] {
        [case, against, of, than] => format!("({case} / {against}) / ({of} / {than})"),
        own => own.join(" / "),
    };
    if !shared.is_empty() {
        text += &format!("; with {}", shared.join(", "));
    }
    text
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
fn escaped(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean
        .replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('*', "\\*")
        .replace('_', "\\_")
}

#[cfg(test)]
mod tests {
    use super::comparison;

    #[test]
    fn shared_parameters_come_last() {
        let on = "writer.target=dram";
        let (clwb, clflush) = (format!("write; by=clwb; {on}"), format!("write; by=clflush; {on}"));
        assert_eq!(comparison(&[&clwb, "alone"]), "write; by=clwb; writer.target=dram / alone");
        assert_eq!(
            comparison(&[&clwb, "alone", &clflush, "alone"]),
            "(write; by=clwb / alone) / (write; by=clflush / alone); with writer.target=dram"
        );
    }
}
