//! `compare`: one experiment on two machines, kernels or days.

use ringfence_dataset::Dataset;
use ringfence_report::html::{self, Compared};
use ringfence_report::json;
use ringfence_studies::compare::{self as compare, Side};

use crate::args::Compare;
use crate::failure::Failure;
use crate::output;
use crate::shared::page;

pub fn run(args: &Compare) -> Result<(), Failure> {
    let (before, after) =
        (ringfence_dataset::list(&args.before)?, ringfence_dataset::list(&args.after)?);
    let matched = compare::match_folders((&args.before, &before), (&args.after, &after))
        .map_err(Failure::usage_by)?;
    let alone = matched.alone;
    let mut compared: Vec<Compared> = Vec::new();
    let mut refused: Vec<(String, String)> = Vec::new();
    for one in matched.both {
        let (before, after) = (Dataset::open(&one.before)?, Dataset::open(&one.after)?);
        match compare::compare(&before, &after) {
            Ok(comparison) => compared.push(Compared {
                name: one.name,
                before: one.before.display().to_string(),
                after: one.after.display().to_string(),
                comparison,
            }),
            Err(error) => refused.push((one.name, error.to_string())),
        }
    }
    // Of two surveys some datasets may still be comparable; of two datasets nothing is left.
    if compared.is_empty() {
        let (name, why) = refused.into_iter().next().expect("there is at least one match");
        let name = if name.is_empty() { name } else { format!("{name}: ") };
        return Err(Failure::usage(format!("{name}{why}")));
    }
    if let Some(path) = &args.html {
        page::put(path, "--html", || {
            Ok(html::comparisons(&compared, &left_out(&refused, &alone)))
        })?;
    }
    if args.json {
        return output::print_json(&json::comparisons(&compared, &refused, &alone));
    }
    let style = output::style();
    let mut text = String::new();
    for Compared { before, after, comparison, .. } in &compared {
        text += &format!("before: {before}\nafter:  {after}\n\n");
        text += &ringfence_report::compare(comparison, &style);
        text.push('\n');
    }
    for line in left_out(&refused, &alone) {
        text += &format!("{line}\n");
    }
    output::print(text.trim_end())
}

fn left_out(refused: &[(String, String)], alone: &[(Side, String)]) -> Vec<String> {
    let mut lines: Vec<String> =
        refused.iter().map(|(name, why)| format!("not compared: {name}: {why}")).collect();
    for (missing_from, name) in alone {
        let side = if *missing_from == Side::Before { "AFTER" } else { "BEFORE" };
        lines.push(format!("not compared: {name}, which only {side} contains"));
    }
    lines
}
