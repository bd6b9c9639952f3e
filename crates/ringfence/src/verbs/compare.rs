//! `compare`: one experiment on two machines, kernels or days.

use ringfence_dataset::Dataset;
use ringfence_report::html::{self, Compared, Page};
use ringfence_studies::compare::{self, Comparison, Match, Side};
use serde_json::json;

use crate::args::Compare;
use crate::failure::Failure;
use crate::output;
use crate::shared::page;

pub fn run(args: &Compare) -> Result<(), Failure> {
    let (before, after) = (ringfence_dataset::list(&args.before)?, ringfence_dataset::list(&args.after)?);
    let matched = compare::match_folders((&args.before, &before), (&args.after, &after))
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let alone = matched.alone;
    let mut compared: Vec<(Match, Comparison)> = Vec::new();
    let mut refused: Vec<(Match, String)> = Vec::new();
    for one in matched.both {
        let (before, after) = (Dataset::open(&one.before)?, Dataset::open(&one.after)?);
        match compare::compare(&before, &after) {
            Ok(comparison) => compared.push((one, comparison)),
            Err(error) => refused.push((one, error.to_string())),
        }
    }
    // Of two surveys some datasets may still be comparable; of two datasets nothing is left.
    if compared.is_empty() {
        let (one, why) = refused.into_iter().next().expect("there is at least one match");
        let name = if one.name.is_empty() { String::new() } else { format!("{}: ", one.name) };
        return Err(Failure::Usage(format!("{name}{why}")));
    }
    if let Some(path) = &args.html {
        page::put(path, "--html", || Ok(page(&compared, &left_out(&refused, &alone))))?;
    }
    if args.json {
        return output::print_json(&json!({
            "schema": 1,
            "compared": compared.iter().map(|(one, comparison)| json!({
                "name": one.name, "before": one.before, "after": one.after, "comparison": comparison,
            })).collect::<Vec<_>>(),
            "refused": refused.iter().map(|(one, why)| json!({ "name": one.name, "why": why })).collect::<Vec<_>>(),
            "alone": alone,
        }));
    }
    let style = output::style();
    let mut text = String::new();
    for (one, comparison) in &compared {
        text += &format!("before: {}\nafter:  {}\n\n", one.before.display(), one.after.display());
        text += &ringfence_report::compare(comparison, &style);
        text += &format!("\n{}\n\n", ringfence_report::compare_answer(comparison));
    }
    for line in left_out(&refused, &alone) {
        text += &format!("{line}\n");
    }
    output::print(text.trim_end())
}

fn left_out(refused: &[(Match, String)], alone: &[(Side, String)]) -> Vec<String> {
    let mut lines: Vec<String> =
        refused.iter().map(|(one, why)| format!("not compared: {}: {why}", one.name)).collect();
    for (lacks, name) in alone {
        let side = if *lacks == Side::Before { "before" } else { "after" };
        lines.push(format!("not compared: {name}, because there is none {side}"));
    }
    lines
}

fn page(compared: &[(Match, Comparison)], left_out: &[String]) -> Page {
    let compared: Vec<Compared> = compared
        .iter()
        .map(|(one, comparison)| Compared {
            name: one.name.clone(),
            before: one.before.display().to_string(),
            after: one.after.display().to_string(),
            comparison: comparison.clone(),
        })
        .collect();
    html::comparisons(&compared, left_out)
}
