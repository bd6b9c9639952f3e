//! Resumes a measurement that was cut short.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ringfence_dataset::{Dataset, Lock, Recorder};
use ringfence_engine::runner::{self, Earlier, Progress};
use ringfence_experiment::Error;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample;
use ringfence_experiment::units::Span;
use ringfence_machine::Machine;

use super::{Measurement, Recording, progress_can_be_seen};
use crate::engines;

/// Resumes the dataset in `dir` where it stopped, for whatever reason; one that
/// [`Dataset::is_done`] is returned unchanged. Its experiment, order and placement stay what they
/// were.
///
/// `time` is for what follows; without it, what is left of the experiment's own. A dataset that
/// ended when its time was spent is resumed only with more.
///
/// # Errors
/// A usage error where this is not a dataset, where another program is measuring it, or
/// where it was measured on another machine or by another version: such figures are not mixed.
/// A failure as in [`super::measure`].
pub fn resume(
    dir: &Path,
    machine: &Machine,
    time: Option<Span>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, Error> {
    let lock = Lock::take(dir)?;
    let dataset = Dataset::open(dir)?;
    if dataset.is_done() && !(time.is_some() && dataset.manifest.ended == Some(Ended::Time)) {
        return Ok(done(dataset));
    }
    if let Some(reason) = why_not(&dataset, machine) {
        return Err(Error::usage(format!("{} cannot go on: {reason}", dir.display())));
    }
    progress_can_be_seen(&dataset.plan)?;

    let earlier = earlier(&dataset)
        .map_err(|problem| Error::usage(format!("{} cannot go on: {problem}", dir.display())))?;
    let steps_before = earlier.steps();
    let mut plan = dataset.plan.clone();
    if let Some(whole) = &mut plan.experiment.measure.time {
        whole.0 = whole.0.saturating_sub(dataset.measured_for());
    }
    if time.is_some() {
        plan.experiment.measure.time = time;
    }
    let mut engine = engines::choose(&plan, machine, stop)?;
    let recorder = Recorder::resume(&dataset, earlier.offset_ns(), lock)?;
    let mut recording = Recording {
        plan: &dataset.plan,
        machine,
        dir: dir.into(),
        recorder: Some(recorder),
        scale: None,
        starts: Vec::new(),
        noted: 0,
        began: None,
        progress,
    };
    let ran = runner::resume(&plan, earlier, engine.as_mut(), stop, &mut recording);
    let used = super::used(&plan, engine.as_ref());
    let left = engine.end();
    let (samples, ended) = ran?;
    let starts = [dataset.manifest.starts.clone(), recording.starts.clone()].concat();
    recording.note_said(&left);
    let (ended, manifest) = super::finished(recording.finish(&ended), ended);
    let (scale, plan, left) = (dataset.manifest.scale, dataset.plan, left?);
    Ok(Measurement { samples, ended, scale, plan, steps_before, starts, used, left, manifest })
}

/// Measures a plan into `dir`, unless that was done there before: a complete dataset of its
/// very experiment is used as it is, and an incomplete one is resumed.
///
/// # Errors
/// As [`super::measure`] and [`resume`]; and where `dir` holds another experiment.
pub fn continue_or_begin(
    plan: Plan,
    machine: &Machine,
    dir: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, Error> {
    if !ringfence_dataset::is_dataset(dir) {
        // A program killed while it began one may have left parts without any sample.
        Recorder::clear_unbegun(dir)?;
        return super::measure(plan, machine, dir, stop, progress);
    }
    let dataset = Dataset::open(dir)?;
    let differs = dataset.plan.experiment != plan.experiment;
    let reason = if differs {
        Some("it contains another experiment".into())
    } else {
        why_not(&dataset, machine)
    };
    if let Some(reason) = reason {
        return Err(Error::usage(format!("{}: {reason}; name a new folder", dir.display())));
    }
    drop(dataset);
    resume(dir, machine, None, stop, progress)
}

fn done(dataset: Dataset) -> Measurement {
    let Dataset { plan, samples, manifest, .. } = dataset;
    let steps_before = sample::steps(&samples).count();
    Measurement {
        plan,
        samples,
        ended: manifest.ended.clone().unwrap_or(Ended::Complete),
        scale: manifest.scale,
        steps_before: steps_before as u64,
        used: Vec::new(),
        starts: manifest.starts.clone(),
        left: Vec::new(),
        manifest: Some(manifest),
    }
}

// Resumed windows keep the wall clock's distance to earlier ones, where it is known.
fn earlier(dataset: &Dataset) -> Result<Earlier, String> {
    let first = dataset
        .samples
        .iter()
        .take_while(|sample| (sample.trial, sample.round, sample.step) == (0, 0, 0));
    // The folder was made when the first step had been measured.
    let made =
        first.map(|sample| sample.start_ns.saturating_add(sample.length_ns)).max().unwrap_or(0);
    let age = dataset.manifest.age().unwrap_or(Duration::ZERO);
    let now = made.saturating_add(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    Earlier::new(&dataset.plan, dataset.samples.clone(), now)
}

// Why what is measured now would not be the same measurement.
fn why_not(dataset: &Dataset, machine: &Machine) -> Option<String> {
    let version = env!("CARGO_PKG_VERSION");
    if dataset.manifest.version != version {
        return Some(format!(
            "it was started with Ringfence {} and this is {version}; figures of two versions are \
             not mixed",
            dataset.manifest.version
        ));
    }
    let Ok(before) = serde_json::from_value::<Machine>(dataset.machine.clone()) else {
        return Some("its machine.json does not name the machine on which it was started".into());
    };
    if before.simulated.is_some() {
        return Some(
            "it was simulated: start it again from the beginning, which gives the same result"
                .into(),
        );
    }
    let name =
        |machine: &Machine| machine.processor.brand.clone().unwrap_or_else(|| "unnamed".into());
    if before.processor != machine.processor {
        return Some(format!(
            "it was started on another processor ({}, here {})",
            name(&before),
            name(machine)
        ));
    }
    let shape = |machine: &Machine| {
        let topology = &machine.topology;
        (topology.packages.clone(), topology.cores.clone(), topology.caches.clone())
    };
    if shape(&before) != shape(machine) {
        return Some("it was started on a machine with other cores or caches".into());
    }
    let usable = machine.topology.usable();
    let mut placed = dataset.plan.placed.cpus.iter().flatten();
    placed.find(|cpu| !usable.contains(**cpu)).map(|cpu| {
        format!(
            "CPU {cpu}, where it ran, is not among the CPUs that are online and allowed ({usable})"
        )
    })
}
