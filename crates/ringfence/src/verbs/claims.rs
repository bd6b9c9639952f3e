//! `claims`: what documents claimed, and what came out.

use std::path::{Path, PathBuf};

use ringfence_dataset::Dataset;
use ringfence_report::claims::{self as shown, markdown};
use ringfence_report::json;
use ringfence_studies::claims::{Document, Evidence, Ledger, judge};
use ringfence_studies::reproduce;

use crate::args::Claims;
use crate::failure::Failure;
use crate::output;
use crate::shared::page;

/// The folder of published datasets.
pub const RESULTS: &str = "results";
/// Below it, by whether they were measured.
pub const KINDS: [&str; 2] = ["measured", "simulated"];

pub fn run(args: &Claims) -> Result<(), Failure> {
    if args.html.is_some() && args.html == args.markdown {
        return Err(Failure::Usage(
            "--html and --markdown name one file: name a file for each".into(),
        ));
    }
    let ledger = Ledger::shipped();
    let document = args.document.as_deref().map(|name| document(&ledger, name)).transpose()?;
    let evidence = evidence(args.results.as_deref())?;
    let table = judge(&ledger, &reproduce::published(), evidence);
    if let Some(path) = &args.html {
        page::put(path, "--html", || Ok(shown::page(&table)))?;
    }
    if let Some(path) = &args.markdown {
        ringfence_system::whole::write_named(path, markdown(&table).as_bytes()).map_err(
            |error| {
                let (path, error) = (path.display(), error.into_source());
                Failure::Usage(format!(
                    "{path} cannot be written: {error}; name another file with --markdown"
                ))
            },
        )?;
    }
    match args.json {
        true => output::print_json(&json::claims(&table)),
        false => output::print(&shown::text(&table, document, &output::style())),
    }
}

// `002`, `note-002` and `2` name one document.
fn document<'a>(ledger: &'a Ledger, name: &str) -> Result<&'a Document, Failure> {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number = |text: &str| text.parse::<u32>().ok();
    let wanted = number(digits);
    let is_it = |document: &&Document| wanted.is_some() && number(&document.id) == wanted;
    ledger.documents.iter().find(is_it).ok_or_else(|| {
        let known: Vec<&str> = ledger.documents.iter().map(|document| &*document.id).collect();
        Failure::Usage(format!("there is no document '{name}': name one of {}", known.join(", ")))
    })
}

// Every dataset below measured/ and simulated/; the default folder need not exist.
fn evidence(named: Option<&Path>) -> Result<Vec<Evidence>, Failure> {
    let folder = named.unwrap_or(Path::new(RESULTS));
    if !folder.is_dir() {
        return match named {
            None => Ok(Vec::new()),
            Some(_) => Err(Failure::Usage(format!(
                "{}: {}; name a folder that 'ringfence notes contribute --to' wrote",
                folder.display(),
                if folder.exists() { "this is not a folder" } else { "there is no such folder" }
            ))),
        };
    }
    let mut all = Vec::new();
    for kind in KINDS {
        for machine in folders(&folder.join(kind))? {
            for dir in ringfence_dataset::list(&machine)? {
                let evidence = Evidence::from(Dataset::open(&dir)?);
                if evidence.machine.simulated != (kind == "simulated") {
                    let other = if evidence.machine.simulated { "simulated" } else { "measured" };
                    let dir = dir.display();
                    return Err(Failure::Usage(format!(
                        "{dir}: this was {other}: move it to {other}/"
                    )));
                }
                all.push(evidence);
            }
        }
    }
    match named {
        Some(_) if all.is_empty() => Err(Failure::Usage(format!(
            "{}: no dataset is in {} or {} below it; name a folder that 'ringfence notes \
             contribute --to' wrote",
            folder.display(),
            KINDS[0],
            KINDS[1]
        ))),
        _ => Ok(all),
    }
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let failed =
        |error: std::io::Error| Failure::Failed(format!("listing {}: {error}", dir.display()));
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}
