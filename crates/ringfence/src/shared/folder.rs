//! What a folder holds: the answer of a verb, or datasets alone.

use std::path::{Path, PathBuf};

use ringfence_dataset::text_file;
use ringfence_studies::prove::{Files, Proof};
use ringfence_studies::{self, Stage};

use super::command::command;
use crate::failure::Failure;

/// The verb whose answer a folder holds, where it is more than a dataset or several.
pub fn kind(dir: &Path) -> Option<String> {
    let text = text_file::read(&dir.join("question.json"), text_file::LONGEST).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(value.get("kind")?.as_str()?.to_owned())
}

/// A path that says the same from everywhere, without links and dots.
pub fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.into())
}

/// A folder that tasks use, by its canonical path, which experiments hold as text.
pub fn named(dir: &Path) -> Result<String, Failure> {
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(Failure::usage(format!("{} is not a folder: name one", dir.display())));
        }
        Err(error) => {
            return Err(Failure::usage(format!("{}: {error}; name a folder", dir.display())));
        }
    }
    let absolute = canonical(dir);
    let text = Some(absolute.as_path()).and_then(Path::to_str).map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("{}: its name is not text", dir.display())))
}

/// Refuses what --out cannot name, before anything is measured.
pub fn check_new(dir: &Path) -> Result<(), Failure> {
    if dir.is_file() {
        return Err(Failure::usage(format!(
            "{} is a file: --out takes a folder that is empty or does not exist yet",
            dir.display()
        )));
    }
    Ok(ringfence_dataset::Recorder::check(dir)?)
}

/// Refuses a file that was named where a folder is meant, and says what can be done with it.
pub fn refuse_file(path: &Path) -> Result<(), Failure> {
    if !path.is_file() {
        return Ok(());
    }
    let named = path.display();
    let parent = path.parent().filter(|parent| is_ours(parent));
    let hint = match (path.extension().and_then(|extension| extension.to_str()), parent) {
        (Some("toml"), _) => format!("if it is an experiment, run it: {}", command(&["run"], path)),
        (_, Some(parent)) => {
            format!("show the folder that it is in: {}", command(&["show"], parent))
        }
        _ => "name the folder of a dataset".into(),
    };
    Err(Failure::usage(format!("{named}: this is a file and not a folder; {hint}")))
}

/// Whether a folder is one that this program writes.
pub fn is_ours(dir: &Path) -> bool {
    ["manifest.json", "survey.json", "question.json", "versus.json"]
        .iter()
        .any(|file| dir.join(file).is_file())
}

/// The answer of `prove` again, from its folder, and why it is not the last word, where it was cut
/// short.
pub fn proof(dir: &Path) -> Result<(Proof, Option<String>), Failure> {
    let files = Files::of(dir);
    let record = files.read()?;
    // Where the victim's control has refused a verdict, nothing else was measured.
    let refused = record.control.as_ref().is_some_and(|control| control.depends() != Some(true));
    let datasets = match ringfence_studies::datasets(dir) {
        Err(_) if refused => Vec::new(),
        Err(_) if ringfence_dataset::list(dir).is_err() => {
            return Err(Failure::usage(format!(
                "{}: this proof ended before its first result; continue with: {}",
                dir.display(),
                command(&["prove", "--resume"], dir)
            )));
        }
        found => found?,
    };
    let baseline = datasets.iter().any(|dataset| dataset.dir == files.baseline());
    if !baseline && !refused {
        return Err(incomplete(&files.baseline()));
    }
    let stages: Vec<Stage> = datasets.iter().map(Stage::from).collect();
    let proof = Proof::new(&record, &stages);
    let cut_short = ringfence_studies::cut_short(&datasets);
    let cut_short = cut_short.map(|why| proof_goes_on(&why, proof.simulated, dir));
    Ok((proof, cut_short))
}

/// Why a proof ended early, and how to go on.
pub fn proof_goes_on(why: &str, simulated: bool, dir: &Path) -> String {
    match simulated {
        true => format!("{why}; run it again: the result is the same"),
        false => format!("{why}; continue with: {}", command(&["prove", "--resume"], dir)),
    }
}

/// That a part of a folder is gone without which the rest says something else.
fn incomplete(part: &Path) -> Failure {
    Failure::usage(format!(
        "{} is missing, so the rest cannot be checked: copy the complete folder again",
        part.display()
    ))
}
