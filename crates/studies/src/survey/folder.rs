//! Reads a survey from its folder: `survey.json` contains what the datasets do not (the probes, and
//! what was not run), and the figures are computed again from the samples.

use std::path::Path;

use ringfence_dataset::{Dataset, DatasetError, files};
use ringfence_experiment::Kind;
use ringfence_machine::Machine;
use serde::Deserialize;
use serde_json::Value;

use super::{Probes, Survey, experiments};
use crate::Stage;

use crate::findings::Findings;

const FILE: &str = "survey.json";

// The fields of [`Survey`] that are not concluded from samples.
#[derive(Deserialize)]
struct Stored {
    machine: Machine,
    probes: Probes,
    target: String,
    pace: Option<String>,
    not_run: Vec<String>,
    ended_early: Option<String>,
}

/// All of a survey, for this program and for others.
pub(crate) fn kept(survey: &Survey) -> crate::Kept {
    crate::Kept::new(FILE, survey)
}

impl Survey {
    /// The version of `survey.json` that this program writes; it reads all from 1 on. What version
    /// 1 calls otherwise is concluded from the samples again.
    pub const SCHEMA: u32 = 2;

    /// Whether a folder is that of a survey.
    pub fn is_at(dir: &Path) -> bool {
        dir.join(FILE).is_file()
    }

    /// Reads a survey's folder, dataset by dataset, and shows each to `look`.
    ///
    /// # Errors
    /// One sentence where it is not a survey's folder, or something in it is damaged or newer than
    /// this program.
    pub fn open(dir: &Path, mut look: impl FnMut(&Dataset)) -> Result<Self, DatasetError> {
        let mut survey = read(dir)?;
        let mut datasets = crate::datasets(dir)?;
        datasets.sort_by_key(|dataset| place(dataset.plan.experiment.kind.as_ref()));
        let is_cost = |dataset: &Dataset| dataset.plan.experiment.kind == Some(Kind::SurveyCost);
        // It is measured first, so that it is there where anything is.
        if !datasets.is_empty() && !datasets.iter().any(is_cost) {
            let missing = "the part 'cost' is missing, and the rest cannot be interpreted without \
                           it: copy the complete folder again";
            return Err(DatasetError::usage(dir, missing));
        }
        for dataset in &datasets {
            survey.add(&dataset.into());
            look(dataset);
        }
        survey.conclude();
        Ok(survey)
    }

    /// Takes one of the survey's own stages; another dataset in the folder is none of its business.
    pub(super) fn add(&mut self, stage: &Stage) {
        let Stage { plan, samples, starts, .. } = *stage;
        match &plan.experiment.kind {
            Some(Kind::SurveyCost) => self.add_cost(plan, samples),
            Some(Kind::SurveyBeside { victim, paced }) => {
                self.add_neighbours(victim, *paced, plan, samples);
                self.add_starts(plan, starts);
            }
            Some(Kind::SurveyFiles) => self.files.push(Findings::new(plan, samples, None)),
            _ => {}
        }
    }
}

fn read(dir: &Path) -> Result<Survey, DatasetError> {
    let path = dir.join(FILE);
    if !path.exists() {
        let problem = format!(
            "this is not a survey's folder (there is no {FILE}); name one that 'ringfence survey' \
             wrote"
        );
        return Err(DatasetError::usage(dir, problem));
    }
    let damaged = |problem: String| DatasetError::damaged(&path, problem);
    let broken = |error| damaged(format!("this is not a survey ({error}): restore the original"));
    let value: Value = serde_json::from_str(&files::read(&path)?).map_err(broken)?;
    match value.get("schema").and_then(Value::as_u64) {
        Some(version) if (1..=u64::from(Survey::SCHEMA)).contains(&version) => {}
        Some(version) if version > u64::from(Survey::SCHEMA) => {
            return Err(damaged(format!(
                "schema {version} is newer than this program reads ({}): use a newer Ringfence",
                Survey::SCHEMA
            )));
        }
        _ => {
            return Err(damaged(
                "its schema version is missing or unknown: restore the original".into(),
            ));
        }
    }
    let kept: Stored = serde_json::from_value(value).map_err(broken)?;
    Ok(Survey {
        schema: Survey::SCHEMA,
        machine: kept.machine,
        probes: kept.probes,
        target: kept.target,
        cost: Vec::new(),
        parts: Vec::new(),
        neighbours: Vec::new(),
        files: Vec::new(),
        pace: kept.pace,
        outside: Vec::new(),
        not_run: kept.not_run,
        precision: None,
        answer: None,
        advice: Vec::new(),
        ended_early: kept.ended_early,
    })
}

// As they are measured, so that victims come in that order.
fn place(kind: Option<&Kind>) -> (usize, usize) {
    let order = |of: &String| {
        experiments::VICTIMS.iter().position(|known| known == of).unwrap_or(usize::MAX)
    };
    match kind {
        Some(Kind::SurveyCost) => (0, 0),
        Some(Kind::SurveyBeside { victim, paced }) => (1 + usize::from(*paced), order(victim)),
        Some(Kind::SurveyFiles) => (3, 0),
        _ => (4, 0),
    }
}
