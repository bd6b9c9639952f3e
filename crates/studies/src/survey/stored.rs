//! A survey again from its folder: `survey.json` holds what the datasets beside it do not (the probes, and
//! what was not run), and the figures come from the samples anew.

use std::io::Write;
use std::path::Path;

use ringfence_dataset::{Dataset, DatasetError, files};
use ringfence_machine::Machine;
use serde::Deserialize;
use serde_json::Value;

use super::{Probes, Survey, experiments};

const FILE: &str = "survey.json";

// The fields of [`Survey`] that are not concluded from samples.
#[derive(Deserialize)]
struct Kept {
    machine: Machine,
    probes: Probes,
    target: String,
    pace: Option<String>,
    not_run: Vec<String>,
    ended_early: Option<String>,
}

/// Writes all of a survey, for this program and for others.
pub(crate) fn write(dir: &Path, survey: &Survey) -> Result<(), DatasetError> {
    let text = serde_json::to_string_pretty(survey).expect("a survey has text keys only") + "\n";
    let path = dir.join(FILE);
    std::fs::create_dir_all(dir).map_err(DatasetError::io("make the folder", dir))?;
    files::replace(&path, |mut file| {
        file.write_all(text.as_bytes()).map_err(DatasetError::io("write", &path))?;
        Ok((file, ()))
    })
}

impl Survey {
    /// The version of `survey.json` that this program writes and reads.
    pub const SCHEMA: u32 = 1;

    /// Whether a folder is that of a survey.
    pub fn is_at(dir: &Path) -> bool {
        dir.join(FILE).is_file()
    }

    /// Reads a survey's folder, dataset by dataset, and shows each to `look`.
    ///
    /// # Errors
    /// One sentence where it is no survey's folder, or something in it is damaged or newer than this
    /// program.
    pub fn open(dir: &Path, mut look: impl FnMut(&Dataset)) -> Result<Self, DatasetError> {
        let mut survey = kept(dir)?;
        let mut folders = ringfence_dataset::list(dir)?;
        // As they were measured, so that victims come in the order that they had then.
        folders.sort_by_key(|folder| place(folder));
        for folder in folders {
            let dataset = Dataset::open(&folder)?;
            survey.add(&dataset);
            look(&dataset);
        }
        survey.conclude();
        Ok(survey)
    }

    // Takes one of the survey's own datasets; another one in the folder is none of its business.
    fn add(&mut self, dataset: &Dataset) {
        let (plan, samples) = (&dataset.plan, &dataset.samples);
        match plan.experiment.name.as_str() {
            "cost" => self.add_cost(plan, samples),
            name => {
                if let Some((victim, paced)) = victim(name) {
                    self.add_neighbours(&victim, paced, plan, samples);
                    self.add_starts(plan, &dataset.manifest.starts);
                }
            }
        }
    }
}

fn kept(dir: &Path) -> Result<Survey, DatasetError> {
    let path = dir.join(FILE);
    if !path.exists() {
        let problem = format!(
            "this is no survey's folder (there is no {FILE}); name one that 'ringfence survey' wrote"
        );
        return Err(DatasetError::usage(dir, problem));
    }
    let damaged = |problem: String| DatasetError::damaged(&path, problem);
    let broken = |error| damaged(format!("this is no survey ({error}): restore it as it was written"));
    let value: Value = serde_json::from_str(&files::read(&path)?).map_err(broken)?;
    match value.get("schema").and_then(Value::as_u64) {
        Some(version) if version == u64::from(Survey::SCHEMA) => {}
        Some(version) if version > u64::from(Survey::SCHEMA) => {
            return Err(damaged(format!(
                "schema {version} is newer than this program reads ({}): use a newer Ringfence",
                Survey::SCHEMA
            )));
        }
        _ => {
            return Err(damaged(
                "there is no schema version that this program knows: restore it as it was written".into(),
            ));
        }
    }
    let kept: Kept = serde_json::from_value(value).map_err(broken)?;
    Ok(Survey {
        schema: Survey::SCHEMA,
        machine: kept.machine,
        probes: kept.probes,
        target: kept.target,
        cost: Vec::new(),
        parts: Vec::new(),
        neighbours: Vec::new(),
        pace: kept.pace,
        outside: Vec::new(),
        not_run: kept.not_run,
        precision: None,
        answer: None,
        advice: Vec::new(),
        ended_early: kept.ended_early,
    })
}

// `neighbours-VICTIM` or `neighbours-VICTIM-paced`.
fn victim(name: &str) -> Option<(String, bool)> {
    let rest = name.strip_prefix("neighbours-")?;
    let (victim, paced) = rest.strip_suffix("-paced").map_or((rest, false), |victim| (victim, true));
    Some((victim.into(), paced))
}

fn place(folder: &Path) -> (usize, usize) {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let order = |of: &str| experiments::VICTIMS.iter().position(|known| *known == of).unwrap_or(usize::MAX);
    match victim(&name) {
        Some((victim, paced)) => (1 + usize::from(paced), order(&victim)),
        None => (if name == "cost" { 0 } else { 3 }, 0),
    }
}
