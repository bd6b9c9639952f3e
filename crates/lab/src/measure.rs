//! From an experiment to a dataset on this machine: plan, engine, runner and recorder together.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ringfence_machine::Machine;

use crate::dataset::Recorder;
use crate::engine::EngineError;
use crate::engine::host::HostEngine;
use crate::experiment::Experiment;
use crate::plan::Plan;
use crate::runner::{self, Ended, Observer, Progress};
use crate::sample::Sample;
use crate::task::{ProgramUnit, Task};
use crate::workload::command::instructions_are_counted;

/// What was measured.
pub struct Measurement {
    /// The plan, with what was not run.
    pub plan: Plan,
    /// All samples, also in the dataset.
    pub samples: Vec<Sample>,
    /// Why it ended.
    pub ended: Ended,
    /// Per role of the plan, the latencies that its first instance counted in its last life.
    pub histograms: Vec<Option<Vec<u64>>>,
}

/// Measures an experiment on this machine and records it in `dir`, which is made with the first
/// samples: what cannot be begun leaves nothing behind.
///
/// # Errors
/// [`EngineError::Usage`] for what makes no sense or cannot be had here; [`EngineError::Failed`]
/// where nothing was measured or could be kept. What fails later is in [`Measurement::ended`].
pub fn measure(
    experiment: &Experiment,
    machine: &Machine,
    dir: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, EngineError> {
    let plan =
        Plan::on(&decided(experiment), machine).map_err(|error| EngineError::Usage(error.to_string()))?;
    // Before anything runs: a folder that cannot be used should not cost a minute first.
    Recorder::check(dir).map_err(|error| EngineError::Usage(error.to_string()))?;
    let mut recording = Recording { plan: &plan, machine, dir: dir.into(), recorder: None, progress };
    if plan.measured().is_empty() {
        recording.begin().map_err(EngineError::Failed)?;
        recording.finish(&Ended::Complete).map_err(EngineError::Failed)?;
        return Ok(Measurement { samples: Vec::new(), ended: Ended::Complete, histograms: Vec::new(), plan });
    }
    progress_can_be_seen(&plan)?;
    let mut engine = HostEngine::new(&plan, &machine.topology)?;
    let (samples, ended) = runner::run(&plan, &mut engine, stop, &mut recording)?;
    if samples.is_empty() {
        match ended {
            Ended::Interrupted => {
                return Err(EngineError::Failed("interrupted before anything was measured".into()));
            }
            Ended::Failed(why) => return Err(EngineError::Failed(why)),
            Ended::Complete | Ended::Precise | Ended::Budget => {}
        }
    }
    let finished = recording.finish(&ended);
    let histograms = (0..plan.variants.len()).map(|role| engine.histogram(role)).collect();
    finished.map_err(EngineError::Failed)?;
    Ok(Measurement { samples, ended, histograms, plan })
}

// What a program's work is counted in is decided here, and so stands in the dataset.
fn decided(experiment: &Experiment) -> Experiment {
    let mut experiment = experiment.clone();
    for role in &mut experiment.roles {
        let metric = role.name == experiment.metric;
        for table in role.task.as_mut_slice() {
            let is = |key: &str, value: &str| table.get(key).and_then(|v| v.as_str()) == Some(value);
            let open = is("workload", "command") && (!table.contains_key("unit") || is("unit", "auto"));
            // A metric that cannot be seen stays open, and is refused below.
            if open && (instructions_are_counted() || !metric) {
                let unit = if instructions_are_counted() { "instructions" } else { "cpu-time" };
                table.insert("unit".into(), unit.into());
            }
        }
    }
    experiment
}

// CPU time says how much a program ran, not how fast: as a victim's figure it would show no harm
// where there is some.
fn progress_can_be_seen(plan: &Plan) -> Result<(), EngineError> {
    let unseen = plan.variants[plan.metric].iter().find_map(|variant| match &variant.task {
        Task::Command(command) if matches!(command.unit, ProgramUnit::Auto | ProgramUnit::Instructions) => {
            (!instructions_are_counted()).then_some(&command.run)
        }
        _ => None,
    });
    unseen.map_or(Ok(()), |run| {
        Err(EngineError::Usage(format!(
            "the progress of '{run}' cannot be seen: the kernel counts no instructions here ('ringfence doctor' says why); \
             set unit = \"runs\" in an experiment file for a program that ends, or use a built-in victim"
        )))
    })
}

struct Recording<'a> {
    plan: &'a Plan,
    machine: &'a Machine,
    dir: PathBuf,
    recorder: Option<Recorder>,
    progress: &'a mut dyn FnMut(Progress),
}

impl Recording<'_> {
    fn begin(&mut self) -> Result<&mut Recorder, String> {
        if self.recorder.is_none() {
            let machine = serde_json::to_value(self.machine).map_err(|error| error.to_string())?;
            let recorder =
                Recorder::create(&self.dir, self.plan, &machine).map_err(|error| error.to_string())?;
            self.recorder = Some(recorder);
        }
        Ok(self.recorder.as_mut().expect("made above"))
    }

    fn finish(&mut self, ended: &Ended) -> Result<(), String> {
        self.recorder
            .take()
            .map_or(Ok(()), |recorder| recorder.finish(ended).map_err(|error| error.to_string()))
    }
}

impl Observer for Recording<'_> {
    fn samples(&mut self, samples: &[Sample]) -> Result<(), String> {
        self.begin()?.append(samples).map_err(|error| error.to_string())
    }

    fn progress(&mut self, progress: Progress) {
        (self.progress)(progress);
    }
}
