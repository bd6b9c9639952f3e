//! Pairs: which tasks bear each other on two cores that share a cache or a core, and who should run
//! beside whom.
//!
//! Every pair of tasks is measured within one experiment, "A beside A, B beside B, A beside B": each side
//! in its turn is the one whose rate is compared with its rate alone, so that both sides' changes are
//! pairs of adjacent windows. What a task keeps of its rate is its *progress*; the total progress of an
//! assignment is the sum over its tasks. The best assignment is found by looking at all of them, and what
//! it gains over the present one is measured again on fresh lives: only that is reported as its gain,
//! since the best of many looks better than it is.
//!
//! A folder holds the question ([`question::FILE`]) and up to two datasets, `screen` and `confirm`;
//! [`Outcome`] is a function of these, so that it can be shown again.

pub mod assignment;
mod outcome;
mod progress;
pub mod question;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_machine::Machine;

pub use assignment::Assignment;
pub use outcome::{Advice, Confirmed, KindEntry, Next, Outcome, PairEntry, Verdict};
pub use progress::Progress;
pub use question::{Kind, Question, letter};

use crate::StudyError;
use crate::measure::{Measurement, continue_or_begin};
use crate::survey::Watch;
use ringfence_dataset::Dataset;
use ringfence_experiment::Experiment;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_sysfs::whole;

/// Folder of the first dataset: every pair.
pub const SCREEN: &str = "screen";
/// Folder of the second: the present and the advised pairs.
pub const CONFIRM: &str = "confirm";

/// Measures what a question asks into `dir`, going on with what is there of it already.
///
/// # Errors
/// Where nothing can be measured; nothing is left behind then. What fails or is interrupted later is part
/// of the outcome.
pub fn run(
    question: &Question,
    dir: &Path,
    machine: &Machine,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Outcome, StudyError> {
    let kinds = question.kinds().map_err(StudyError::Usage)?;
    let screening = question.screening(&kinds);
    can_be_run(&screening, machine, &kinds)?;
    let begun = Begun::new(question, dir)?;

    let times = [&question.screen, &question.confirm]
        .map(|measure| measure.time.map_or(Duration::ZERO, |time| time.0));
    watch.stage("every pair", 0, 2, times[0], times[1]);
    let screen =
        begun.keep_if(continue_or_begin(&screening, machine, &dir.join(SCREEN), stop, &mut |p| {
            watch.progress(p);
        }))?;
    let mut outcome = Outcome::new(question, &kinds, (&screen.plan, &screen.samples), None);
    outcome.ended_early = cut_short(&screen.ended, stop, outcome.wants_confirmation());
    if outcome.ended_early.is_some() || !outcome.wants_confirmation() {
        return Ok(outcome);
    }
    let advised = outcome.advice.as_ref().expect("it wants confirmation").assignment.clone();
    watch.stage("the advice again, on fresh lives", 1, 2, times[1], Duration::ZERO);
    let confirming = question.confirming(&kinds, &advised);
    let confirm =
        continue_or_begin(&confirming, machine, &dir.join(CONFIRM), stop, &mut |p| watch.progress(p));
    match confirm {
        Err(error) => outcome.ended_early = Some(error.to_string()),
        Ok(Measurement { plan, samples, ended, .. }) => {
            let ended_early = cut_short(&ended, stop, false);
            let fresh = ended_early.is_none().then_some((&plan, &samples[..]));
            outcome = Outcome {
                ended_early,
                ..Outcome::new(question, &kinds, (&screen.plan, &screen.samples), fresh)
            };
        }
    }
    Ok(outcome)
}

/// The question and its outcome from a folder; `None` where it is no folder of a pair.
///
/// # Errors
/// One sentence where something in it is damaged.
pub fn read(dir: &Path) -> Result<Option<(Question, Outcome)>, StudyError> {
    let usage = |error: String| StudyError::Usage(error);
    let Some(question) = Question::read(dir).map_err(|error| usage(error.to_string()))? else {
        return Ok(None);
    };
    let kinds = question.kinds().map_err(usage)?;
    let screen = Dataset::open(&dir.join(SCREEN))?;
    let confirm = dir.join(CONFIRM);
    let confirm = ringfence_dataset::is_dataset(&confirm).then(|| Dataset::open(&confirm)).transpose()?;
    let whole = confirm.as_ref().filter(|dataset| dataset.is_done());
    let fresh = whole.map(|dataset| (&dataset.plan, &dataset.samples[..]));
    let mut outcome = Outcome::new(&question, &kinds, (&screen.plan, &screen.samples), fresh);
    let cut = [Some(&screen), confirm.as_ref()].into_iter().flatten().any(|dataset| !dataset.is_done());
    if cut || outcome.wants_confirmation() {
        outcome.ended_early = Some("it was cut short".into());
    }
    Ok(Some((question, outcome)))
}

// Why nothing more comes, if so.
fn cut_short(ended: &Ended, stop: &AtomicBool, more_to_come: bool) -> Option<String> {
    match ended {
        Ended::Failed(why) => Some(why.clone()),
        Ended::Interrupted => Some("interrupted".into()),
        _ if more_to_come && stop.load(Ordering::Relaxed) => Some("interrupted".into()),
        _ => None,
    }
}

// Every pair is needed: one that cannot be run would leave assignments out.
fn can_be_run(screening: &Experiment, machine: &Machine, kinds: &[Kind]) -> Result<(), StudyError> {
    let plan = Plan::new(screening, &machine.topology, machine.features.as_ref())
        .map_err(|error| StudyError::Usage(error.to_string()))?;
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

// The folder with its question; taken away again where nothing follows.
struct Begun<'a> {
    dir: &'a Path,
    made: Vec<std::path::PathBuf>,
    wrote: bool,
}

impl<'a> Begun<'a> {
    fn new(question: &Question, dir: &'a Path) -> Result<Self, StudyError> {
        if let Some(stored) = Question::read(dir).map_err(|error| StudyError::Usage(error.to_string()))? {
            return match stored == *question {
                true => Ok(Self { dir, made: Vec::new(), wrote: false }),
                false => Err(StudyError::Usage(format!(
                    "{} holds another question: name a new folder, or go on with that one: {}",
                    dir.display(),
                    ringfence_experiment::shell::line([
                        "ringfence",
                        "pair",
                        "--resume",
                        &dir.to_string_lossy()
                    ])
                ))),
            };
        }
        ringfence_dataset::Recorder::check(dir)?;
        let missing = dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        let begun = Self { dir, made: missing.map(Into::into).collect(), wrote: true };
        let text = serde_json::to_string_pretty(question).expect("a question has text keys only") + "\n";
        let path = dir.join(question::FILE);
        let written = fs::create_dir_all(dir)
            .and_then(|()| whole::write(&path, text.as_bytes()).map_err(whole::WholeError::into_source));
        begun.keep_if(
            written.map_err(|error| StudyError::Failed(format!("writing {}: {error}", path.display()))),
        )?;
        Ok(begun)
    }

    fn keep_if<T>(&self, result: Result<T, StudyError>) -> Result<T, StudyError> {
        if result.is_err() && self.wrote && !ringfence_dataset::is_dataset(&self.dir.join(SCREEN)) {
            // Nothing can be done about what cannot be removed.
            let _ = fs::remove_file(self.dir.join(question::FILE));
            for folder in &self.made {
                let _ = fs::remove_dir(folder);
            }
        }
        result
    }
}

#[cfg(test)]
#[path = "../../tests/inside/pair.rs"]
mod tests;
