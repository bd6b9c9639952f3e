//! `notes claims` and `notes show`: what documents claimed, their tables, and what came out.

use std::path::{Path, PathBuf};

use ringfence_dataset::Dataset;
use ringfence_report::claims::{self as shown, Note, markdown};
use ringfence_report::json;
use ringfence_studies::claims::{Document, Evidence, Ledger, judge, note_tables};
use ringfence_studies::reproduce::{self, simulated::Setting};

use crate::args::{Claims, ShowNotes};
use crate::failure::Failure;
use crate::output;
use crate::shared::page;

/// The folder of published datasets.
pub const RESULTS: &str = "results";
/// Below it, by whether they were measured.
pub const KINDS: [&str; 2] = ["measured", "simulated"];

pub fn run(args: &Claims) -> Result<(), Failure> {
    if args.html.is_some() && args.html == args.markdown {
        return Err(Failure::usage("--html and --markdown name one file: name a file for each"));
    }
    let ledger = Ledger::shipped();
    let document = args.document.as_deref().map(|name| document(&ledger, name)).transpose()?;
    let evidence = evidence(&args.results)?;
    let table = judge(&ledger, &reproduce::published(), evidence);
    if let Some(path) = &args.html {
        page::put(path, "--html", || Ok(shown::page(&table)))?;
    }
    if let Some(path) = &args.markdown {
        write(path, &markdown(&table))?;
    }
    match args.json {
        true => output::print_json(&json::claims(&table)),
        false => output::print(&shown::text(&table, document, &output::style())),
    }
}

/// `notes show`: the notes' own tables.
pub fn show(args: &ShowNotes) -> Result<(), Failure> {
    let ledger = Ledger::shipped();
    let named = args.document.as_deref().map(|name| document(&ledger, name)).transpose()?;
    let evidence = evidence(&args.results)?;
    let (published, setting) = (reproduce::published(), Setting::shipped());
    let mut all: Vec<Note> = Vec::new();
    for document in &ledger.documents {
        let tables = note_tables(&document.id, &published, &setting, &evidence);
        all.push((document, tables.map_err(Failure::usage)?));
    }
    if let Some(path) = &args.markdown {
        write(path, &shown::notes_markdown(&all))?;
    }
    let style = output::style();
    match all.iter().find(|(document, _)| Some(*document) == named) {
        Some(one) => output::print(&shown::note(one, &style)),
        None => output::print(&shown::notes(&all, &style)),
    }
}

fn write(path: &Path, markdown: &str) -> Result<(), Failure> {
    ringfence_system::whole::write_named(path, markdown.as_bytes()).map_err(|error| {
        let (path, error) = (path.display(), error.into_source());
        Failure::usage(format!(
            "{path} cannot be written: {error}; name another file with --markdown"
        ))
    })
}

// `002`, `note-002` and `2` name one document.
fn document<'a>(ledger: &'a Ledger, name: &str) -> Result<&'a Document, Failure> {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number = |text: &str| text.parse::<u32>().ok();
    let wanted = number(digits);
    let is_it = |document: &&Document| wanted.is_some() && number(&document.id) == wanted;
    ledger.documents.iter().find(is_it).ok_or_else(|| {
        let known: Vec<&str> = ledger.documents.iter().map(|document| &*document.id).collect();
        Failure::usage(format!("there is no document '{name}': name one of {}", known.join(", ")))
    })
}

// Every dataset of the named folders; the default one need not exist.
fn evidence(named: &[PathBuf]) -> Result<Vec<Evidence>, Failure> {
    let default = [PathBuf::from(RESULTS)];
    if named.is_empty() && !default[0].is_dir() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for folder in if named.is_empty() { &default } else { named } {
        let before = all.len();
        add_evidence(&mut all, folder)?;
        if all.len() == before && !named.is_empty() {
            return Err(Failure::usage(format!(
                "{}: there is no dataset in it; name a folder that 'ringfence notes contribute' or \
                 'notes run' wrote",
                folder.display()
            )));
        }
    }
    Ok(all)
}

// Published datasets stand below measured/ and simulated/, others in the folder itself.
fn add_evidence(all: &mut Vec<Evidence>, folder: &Path) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Err(Failure::usage(format!(
            "{}: {}; name a folder that 'ringfence notes contribute' or 'notes run' wrote",
            folder.display(),
            if folder.exists() { "this is not a folder" } else { "there is no such folder" }
        )));
    }
    if KINDS.iter().all(|kind| !folder.join(kind).is_dir()) {
        for dir in ringfence_dataset::list(folder)? {
            all.push(Evidence::from(Dataset::open(&dir)?));
        }
        return Ok(());
    }
    for kind in KINDS {
        for machine in folders(&folder.join(kind))? {
            for dir in ringfence_dataset::list(&machine)? {
                let evidence = Evidence::from(Dataset::open(&dir)?);
                if evidence.machine.simulated != (kind == "simulated") {
                    let other = if evidence.machine.simulated { "simulated" } else { "measured" };
                    let dir = dir.display();
                    return Err(Failure::usage(format!(
                        "{dir}: this was {other}: move it to {other}/"
                    )));
                }
                all.push(evidence);
            }
        }
    }
    Ok(())
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let failed =
        |error: std::io::Error| Failure::failed(format!("listing {}: {error}", dir.display()));
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
