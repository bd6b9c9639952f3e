//! Pairs: pairwise interference between tasks on two cores that share a cache or a core, and who should run
//! beside whom.
//!
//! Every pair of tasks is measured within one experiment, "A beside A, B beside B, A beside B": each side
//! in its turn is the one whose rate is compared with its rate alone, so that both sides' changes are
//! pairs of adjacent windows. What a task keeps of its rate is its *progress*; the total progress of an
//! assignment is the sum over its tasks. The best assignment is found by looking at all of them, and what
//! it gains over the present one is measured again on fresh trials: only that is reported as its gain,
//! since the best of many looks better than it is.
//!
//! A folder holds the question ([`question::FILE`]) and up to two datasets, `screen` and `confirm`;
//! [`Outcome`] is a function of these, so that it can be shown again.

pub mod assignment;
mod outcome;
mod progress;
pub mod question;

use std::path::Path;
use std::time::Duration;

use ringfence_experiment::plan::Plan;
use ringfence_experiment::{Experiment, Kind as Of};
use ringfence_machine::Machine;

pub use assignment::Assignment;
pub use outcome::{Advice, Confirmed, KindEntry, Next, Outcome, PairEntry, Verdict};
pub use progress::Progress;
pub use question::{Kind, Question, letter};

use ringfence_study::StudyError;
use ringfence_study::{Here, Kept, Planned, Stage, Study};

/// Folder of the first dataset: every pair.
pub const SCREEN: &str = "screen";
/// Folder of the second: the present and the advised pairs.
pub const CONFIRM: &str = "confirm";

/// Measures what a question asks, going on with what is there of it already.
///
/// # Errors
/// Where nothing can be measured; nothing is left behind then. What fails or is interrupted later is part
/// of the outcome.
pub fn run(question: &Question, here: &mut Here) -> Result<Outcome, StudyError> {
    let kinds = question.kinds().map_err(StudyError::Usage)?;
    let screening = question.screening(&kinds);
    can_be_run(&screening, here.machine, &kinds)?;
    is_ours_or_empty(question, here.dir)?;
    Ok(ringfence_study::carry_out(&mut Pairing { question, kinds, dir: here.dir }, here)?.findings)
}

struct Pairing<'a> {
    question: &'a Question,
    kinds: Vec<Kind>,
    dir: &'a Path,
}

impl Study for Pairing<'_> {
    type Findings = Outcome;

    fn stages(&self) -> Vec<Duration> {
        let measures = [&self.question.screen, &self.question.confirm];
        measures.map(|measure| measure.time.map_or(Duration::ZERO, |time| time.0)).into()
    }

    fn kept(&self) -> Option<Kept> {
        Some(Kept::new(question::FILE, self.question))
    }

    fn next(&mut self, stages: &[Stage], _: &mut Here) -> Result<Option<Planned>, StudyError> {
        if stages.is_empty() {
            let experiment = self.question.screening(&self.kinds);
            let (name, dir) = ("every pair".into(), self.dir.join(SCREEN));
            return Ok(Some(Planned { name, dir, experiment }));
        }
        let outcome = self.conclude(stages, None)?;
        let advice = outcome.advice.as_ref().filter(|_| outcome.wants_confirmation());
        Ok(advice.map(|advice| Planned {
            name: "the advice again, on fresh trials".into(),
            dir: self.dir.join(CONFIRM),
            experiment: self.question.confirming(&self.kinds, &advice.assignment),
        }))
    }

    fn conclude(&mut self, stages: &[Stage], ended_early: Option<&str>) -> Result<Outcome, StudyError> {
        Outcome::of(self.question, &self.kinds, stages, ended_early)
    }
}

impl Outcome {
    // What has not come to its end confirms nothing.
    fn of(
        question: &Question,
        kinds: &[Kind],
        stages: &[Stage],
        ended_early: Option<&str>,
    ) -> Result<Self, StudyError> {
        let stage = |kind| Stage::find(stages, |of| *of == kind);
        let screen = stage(Of::PairScreen).ok_or(StudyError::Interrupted)?;
        let fresh = stage(Of::PairConfirmation).filter(|stage| stage.is_done);
        let fresh = fresh.map(|stage| (stage.plan, stage.samples));
        let outcome = Self::new(question, kinds, (screen.plan, screen.samples), fresh);
        Ok(Self { ended_early: ended_early.map(str::to_owned), ..outcome })
    }
}

/// The question and its outcome from a folder; `None` where it is not a folder of a pair.
///
/// # Errors
/// One sentence where something in it is damaged.
pub fn read(dir: &Path) -> Result<Option<(Question, Outcome)>, StudyError> {
    let usage = |error: String| StudyError::Usage(error);
    let Some(question) = Question::read(dir).map_err(|error| usage(error.to_string()))? else {
        return Ok(None);
    };
    let kinds = question.kinds().map_err(usage)?;
    let datasets = ringfence_study::datasets(dir)?;
    let stages: Vec<Stage> = datasets.iter().map(Stage::from).collect();
    let mut outcome = Outcome::of(&question, &kinds, &stages, None)?;
    outcome.ended_early = ringfence_study::cut_short(&datasets);
    if outcome.wants_confirmation() {
        outcome.ended_early = Some("it was cut short".into());
    }
    Ok(Some((question, outcome)))
}

// Every pair is needed: one that cannot be run would leave assignments out.
fn can_be_run(screening: &Experiment, machine: &Machine, kinds: &[Kind]) -> Result<(), StudyError> {
    let plan = match machine.simulated {
        Some(_) => ringfence_study::plan_of(screening, machine)?,
        None => Plan::new(screening, &machine.topology, machine.features.as_ref())
            .map_err(|error| StudyError::Usage(error.to_string()))?,
    };
    let refused = (0..plan.cases.len()).find_map(|case| Some((case, plan.refusal(case)?)));
    match refused {
        Some((case, reason)) => {
            let texts: Vec<String> = kinds
                .iter()
                .enumerate()
                .map(|(kind, entry)| format!("{} is '{}'", letter(kind), entry.text))
                .collect();
            let (arm, texts) = (&plan.cases[case].arm, texts.join(", "));
            Err(StudyError::Usage(format!("{arm} cannot be run here, because {reason} ({texts})")))
        }
        None => Ok(()),
    }
}

fn is_ours_or_empty(question: &Question, dir: &Path) -> Result<(), StudyError> {
    match Question::read(dir)? {
        None => Ok(ringfence_dataset::Recorder::check(dir)?),
        Some(stored) if stored == *question => Ok(()),
        Some(_) => Err(StudyError::Usage(format!(
            "{} holds another question: name a new folder, or go on with that one: {}",
            dir.display(),
            ringfence_experiment::shell::line(["ringfence", "pair", "--resume", &dir.to_string_lossy()])
        ))),
    }
}

#[cfg(test)]
#[path = "../../tests/inside/pair.rs"]
mod tests;
