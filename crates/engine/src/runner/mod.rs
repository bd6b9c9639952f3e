//! Runs a plan on an engine: trials, rounds, steps, looks, and when to stop.
//!
//! A measurement that was interrupted continues where it stopped: its steps come in an order that
//! the plan alone decides, so those that it has are the first of them, and [`Earlier`] says how
//! many.

mod history;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_analysis::estimate::{Decision, Goal, Looks};
use ringfence_analysis::results;
use ringfence_analysis::verdicts::judged;
use ringfence_experiment::class;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::{self, Plan};
use ringfence_experiment::sample::{Place, Sample};
use ringfence_experiment::start::Start;
use ringfence_experiment::{Error, ErrorKind};
use ringfence_machine::cpulist::CpuId;

use crate::{Engine, Measured};

pub use history::Earlier;

/// How far measuring has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub done: u64,
    /// Steps there will be at most.
    pub most: u64,
    /// Since the beginning.
    pub elapsed: Duration,
    /// What is left, by the pace so far and the time given.
    pub left: Duration,
}

/// Takes what is measured as it comes.
pub trait Observer {
    /// A step's samples.
    ///
    /// # Errors
    /// Where they cannot be kept; measuring ends then, without a result if the request is at fault.
    fn samples(&mut self, samples: &[Sample]) -> Result<(), Error>;

    /// What a victim measured of itself at the start of a trial.
    fn started(&mut self, starts: &[Start]) {
        let _ = starts;
    }

    /// How far it has come.
    fn progress(&mut self, progress: Progress);
}

/// Measures until the plan, its precision or its time says stop, or `stop` is set.
///
/// # Errors
/// Where the very first trial cannot begin, so that nothing has been measured. Later failures end
/// the measurement and are part of the result.
pub fn run(
    plan: &Plan,
    engine: &mut dyn Engine,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(Vec<Sample>, Ended), Error> {
    resume(plan, Earlier::default(), engine, stop, observer)
}

/// As [`run`], after what was measured earlier: measures the steps that are missing, in the plan's
/// order, and decides at each look what an uninterrupted run would. A trial that was cut short
/// begins again with the step that is missing, so that it has two starts.
///
/// The plan's time is that of this part, and progress counts its steps alone. Returned are all
/// samples; the observer is given the new ones.
///
/// # Errors
/// As [`run`].
pub fn resume(
    plan: &Plan,
    earlier: Earlier,
    engine: &mut dyn Engine,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(Vec<Sample>, Ended), Error> {
    let measure = &plan.experiment.measure;
    let looks = Looks::of(measure).map_err(Error::usage_by)?;
    let started = engine.elapsed();
    let time = measure.time.map(|time| time.0);
    let most_trials = *measure.looks.last().expect("checked: there are looks");
    let steps_per_trial = u64::from(measure.rounds) * plan.measured().len() as u64;
    let Earlier { mut samples, steps: had, offset_ns } = earlier;
    if steps_per_trial == 0 {
        return Ok((samples, Ended::Complete));
    }
    let most = (steps_per_trial * u64::from(most_trials)).saturating_sub(had);
    let first = (had / steps_per_trial) as u32;
    // It may have been killed between a trial's last step and the look at it.
    if had.is_multiple_of(steps_per_trial)
        && first > 0
        && stops_after(plan, &samples, &looks, first)
    {
        return Ok((samples, Ended::Precise));
    }
    let mut done = 0;
    for trial in first..most_trials {
        // A trial that would not fit is not begun: its part would be lost to the estimates. The
        // first has no other to go by; what is known of the others bounds how far the last may
        // exceed the time.
        let spent = engine.elapsed().saturating_sub(started);
        let per_trial = if trial > first { spent / (trial - first) } else { Duration::ZERO };
        let lacks = if trial > first { plan::FEWEST_TRIALS.saturating_sub(trial) } else { 0 };
        if time.is_some_and(|time| !another_fits(time, spent, per_trial, lacks)) {
            return Ok((samples, Ended::Time));
        }
        let give_up = time.map(|time| started + time.max(spent) + per_trial);
        engine.give_up_at(give_up);
        if let Err(error) = engine.begin_trial(trial) {
            return ended_by(error, samples);
        }
        observer.started(&engine.starts());
        // Each ping-pong serves the step before it and, between the same CPUs, the step after it.
        let mut before = None;
        let skip = had.saturating_sub(u64::from(trial) * steps_per_trial) as usize;
        for (place, step) in places(plan, trial, offset_ns).skip(skip) {
            if stop.load(Ordering::Relaxed) {
                return Ok((samples, Ended::Interrupted));
            }
            if give_up.is_some_and(|at| engine.elapsed() > at) {
                return Ok((samples, Ended::Time));
            }
            match measure_step(plan, engine, &step, place, before.take()) {
                Ok((of_step, after)) => {
                    before = Some(after);
                    let kept = observer.samples(&of_step);
                    samples.extend(of_step);
                    match kept {
                        Err(error) if error.is_usage() => return Err(error),
                        Err(error) => return Ok((samples, Ended::Failed(error.to_string()))),
                        Ok(()) => {}
                    }
                }
                Err(error) => return ended_by(error, samples),
            }
            done += 1;
            observer.progress(progress(done, most, engine.elapsed().saturating_sub(started), time));
        }
        if stops_after(plan, &samples, &looks, trial + 1) {
            return Ok((samples, Ended::Precise));
        }
    }
    Ok((samples, Ended::Complete))
}

// Whether there is time for another trial. Those that a figure still lacks are made where that
// exceeds the time by little.
fn another_fits(time: Duration, spent: Duration, per_trial: Duration, lacks: u32) -> bool {
    let for_a_figure =
        || lacks > 0 && spent + per_trial * lacks <= time.mul_f64(1.0 + plan::EXCESS_FOR_A_FIGURE);
    (spent < time && spent + per_trial <= time) || for_a_figure()
}

// How measuring ends where a step does not succeed.
fn ended_by(error: Error, samples: Vec<Sample>) -> Result<(Vec<Sample>, Ended), Error> {
    let ended = match error.kind() {
        ErrorKind::Interrupted => Ended::Interrupted,
        ErrorKind::OutOfTime => Ended::Time,
        ErrorKind::Limit => Ended::Limit(error.to_string()),
        _ if samples.is_empty() => return Err(error),
        _ => Ended::Failed(error.to_string()),
    };
    Ok((samples, ended))
}

// The steps of a trial and where they stand in it.
fn places(plan: &Plan, trial: u32, offset_ns: u64) -> impl Iterator<Item = (Place, plan::Step)> {
    plan::trial(plan, trial).rounds.into_iter().enumerate().flat_map(move |(round, steps)| {
        steps.into_iter().enumerate().map(move |(number, step)| {
            let (round, number) = (round as u32, number as u32);
            (Place { trial, round, step: number, offset_ns, ..Place::default() }, step)
        })
    })
}

// A round trip, and the CPUs it went between.
struct Probed {
    cpus: Vec<CpuId>,
    round_ns: Option<f64>,
}

fn measure_step(
    plan: &Plan,
    engine: &mut dyn Engine,
    step: &plan::Step,
    place: Place,
    before: Option<Probed>,
) -> Result<(Vec<Sample>, Probed), Error> {
    let cpus = plan.cpus_between(step.case);
    let before = match before.filter(|probed| probed.cpus == cpus) {
        Some(probed) => probed.round_ns,
        None => engine.probe(&cpus)?,
    };
    let mut windows: Vec<(usize, Vec<Measured>)> = Vec::new();
    for &case in &step.windows {
        engine.arrange(case)?;
        windows.push((case, engine.window(&plan.cases[case].active)?));
    }
    let after = engine.probe(&cpus)?;
    let mut samples = Vec::new();
    for (position, (case, tasks)) in windows.into_iter().enumerate() {
        let place = Place {
            position: position as u32,
            step_case: step.case as u32,
            case: case as u32,
            class: class::classify(before, after),
            ping_before_ns: before,
            ping_after_ns: after,
            ..place
        };
        samples.extend(tasks.into_iter().map(|task| {
            let role = plan.experiment.roles[task.role].name.as_str().into();
            place.sample(role, task)
        }));
    }
    Ok((samples, Probed { cpus, round_ns: after }))
}

// Whether there is a look after so many trials, and all is known precisely enough there.
fn stops_after(plan: &Plan, samples: &[Sample], looks: &Looks, trials: u32) -> bool {
    let look = looks.trials().iter().position(|look| *look == trials);
    let measure = &plan.experiment.measure;
    (measure.precision.is_some() || measure.decide.is_some())
        && look.is_some_and(|look| {
            look + 1 < looks.trials().len() && precise(plan, samples, looks, look)
        })
}

fn precise(plan: &Plan, samples: &[Sample], looks: &Looks, look: usize) -> bool {
    let measure = &plan.experiment.measure;
    let level = looks.level_at(look);
    if let Some(decide) = &measure.decide {
        // What is said of a time is also whether it is so long without the others.
        let alone = |case: usize| {
            let baseline = plan.cases[case].baseline.filter(|_| decide.at_most.is_some());
            baseline.is_none_or(|alone| results::reached(plan, samples, alone, level).is_ok())
        };
        let all = judged(plan, samples, level);
        return !all.is_empty()
            && all.iter().all(|judged| judged.within.is_some() && alone(judged.case));
    }
    let precision = measure.precision.map_or(0.0, |share| share.0);
    let goal = Goal { margin: measure.margin.0, precision };
    let estimates = results::main_estimates(plan, samples, level);
    plan.measured().into_iter().zip(&estimates).all(|(case, estimate)| {
        match plan.cases[case].baseline {
            Some(_) => matches!(looks.decide(look, estimate, &goal), Decision::Stop(_)),
            None => estimate.as_ref().is_ok_and(|cost| cost.log_half_width() <= precision.ln_1p()),
        }
    })
}

fn progress(done: u64, most: u64, elapsed: Duration, time: Option<Duration>) -> Progress {
    let by_steps = elapsed.mul_f64((most - done) as f64 / done as f64);
    let by_time = time.map_or(by_steps, |time| time.saturating_sub(elapsed));
    Progress { done, most, elapsed, left: by_steps.min(by_time) }
}

#[cfg(test)]
mod tests;
