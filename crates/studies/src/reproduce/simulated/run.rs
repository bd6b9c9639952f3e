//! Simulating many experiments, several at once.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::{few_trials, measure, plan};
use ringfence_dataset::Dataset;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::{Error, Experiment, Reason};
use ringfence_machine::Machine;

use super::{Alternative, Outcome, Setting, Simulated, part};
use crate::reproduce::{Published, Reproduced};

/// One simulation.
pub struct Job {
    /// What of the experiment is simulated; or why nothing is.
    pub experiment: Result<Experiment, Reason>,
    /// The experiment's name, and what it asks.
    pub asked: (String, Option<String>),
    /// The described machine: its name, and what a heading calls it.
    pub machine: (String, String),
    /// The same, as if it had been examined.
    pub examined: Machine,
    /// The reading; none for the first one.
    pub alternative: Option<Alternative>,
    /// The figures that it is about.
    pub published: Vec<Published>,
    /// The folder of its samples, below that of all.
    pub folder: String,
}

/// Finds a machine by its name, with other values in places.
pub type Describe<'a> = dyn Fn(&str, &[(String, String)]) -> Result<Machine, String> + 'a;

/// All simulations of experiments: each on the machine that its sources name, or on `only`, and
/// each reading of what is left open.
///
/// `describe` finds a machine by its name, with other values in places.
///
/// # Errors
/// One sentence, where no machine is named for a source, or none of that name is known.
pub fn jobs(
    experiments: &[Experiment],
    published: &[Published],
    setting: &Setting,
    only: Option<&str>,
    describe: &Describe,
) -> Result<Vec<Job>, String> {
    let mut jobs = Vec::new();
    for experiment in experiments {
        // Other hardware is not simulated in the place of what a machine lacks: another machine can
        // be.
        let alone =
            |row: &Published| Published { instead: None, instead_against: None, ..row.clone() };
        let own: Vec<Published> =
            published.iter().filter(|row| row.experiment == experiment.name).map(alone).collect();
        let own: Vec<&Published> = own.iter().collect();
        let mut machines: Vec<&str> = Vec::new();
        for row in &own {
            let named = only.or(setting.machine(&row.source));
            let machine =
                named.ok_or_else(|| format!("no machine is named for '{}'", row.source))?;
            if !machines.contains(&machine) {
                machines.push(machine);
            }
        }
        for name in machines {
            let on_it =
                |row: &&&Published| only.is_some() || setting.machine(&row.source) == Some(name);
            let own: Vec<&Published> = own.iter().filter(on_it).copied().collect();
            let several = if only.is_some() { String::new() } else { format!("-on-{name}") };
            let first = describe(name, &[])?;
            let job = |alternative: Option<&Alternative>| -> Result<Job, String> {
                let about = |row: &&&Published| alternative.is_none_or(|one| one.is_about(row));
                let own: Vec<&Published> = own.iter().filter(about).copied().collect();
                let changes: Vec<(String, String)> =
                    alternative.iter().flat_map(|one| one.machine.clone()).collect();
                let examined =
                    if changes.is_empty() { Ok(first.clone()) } else { describe(name, &changes) };
                let reason = alternative
                    .and_then(|one| one.not_run.clone())
                    .or(examined.clone().err().map(Reason::from));
                let reading =
                    alternative.map(|one| format!("-{}", one.folder())).unwrap_or_default();
                let simulated = first.simulated.as_ref();
                Ok(Job {
                    experiment: match reason {
                        Some(why) => Err(why),
                        None => Ok(part(experiment, &own, alternative)?),
                    },
                    asked: (experiment.name.clone(), experiment.question.clone()),
                    machine: simulated
                        .map(|it| (it.name.clone(), it.title.clone()))
                        .unwrap_or_default(),
                    examined: examined.unwrap_or_else(|_| first.clone()),
                    alternative: alternative.cloned(),
                    published: own.into_iter().cloned().collect(),
                    folder: format!("{}{several}{reading}", experiment.name),
                })
            };
            jobs.push(job(None)?);
            for alternative in setting.alternatives(&experiment.name) {
                if own.iter().any(|row| alternative.is_about(row)) {
                    jobs.push(job(Some(alternative))?);
                }
            }
        }
    }
    Ok(jobs)
}

impl Alternative {
    // Its name as part of a folder's.
    fn folder(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = self.name.chars().map(plain).collect();
        name.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
    }
}

/// Simulates, `threads` at once, into folders below `dir`; calls `begun` with a job's number when
/// the job starts. The largest jobs start first, so that the end does not wait for one of them.
/// Results are in the order of the jobs, and do not depend on how many run at once.
///
/// # Errors
/// Where samples cannot be kept, and where the user interrupts.
pub fn run(
    jobs: &[Job],
    setting: &Setting,
    dir: &Path,
    threads: usize,
    stop: &AtomicBool,
    begun: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Simulated>, Error> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|number| std::cmp::Reverse(jobs[*number].size()));
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Simulated, Error>)>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(&number) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let job = &jobs[number];
            if stop.load(Ordering::Relaxed) {
                return;
            }
            begun(number);
            let found = job.simulate(setting, dir, stop);
            let failed = found.is_err();
            done.lock().expect("nobody panics with it").push((number, found));
            if failed {
                next.store(jobs.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(work)).collect();
        work();
        drop(others);
    });
    let mut done = done.into_inner().expect("nobody panics with it");
    done.sort_by_key(|(number, _)| *number);
    if stop.load(Ordering::Relaxed) {
        return Err(Error::interrupted());
    }
    done.into_iter().map(|(_, found)| found).collect()
}

impl Job {
    // About how much there is to simulate: all running instances, in each window of a trial.
    fn size(&self) -> u64 {
        let Ok(experiment) = &self.experiment else { return 0 };
        let Ok(plan) = plan(experiment, &self.examined) else { return 0 };
        let running = |case: usize| {
            plan.cases[case].active.iter().map(|active| u64::from(active.count)).sum::<u64>()
        };
        plan.run_cases().map(running).sum()
    }

    fn simulate(
        &self,
        setting: &Setting,
        dir: &Path,
        stop: &AtomicBool,
    ) -> Result<Simulated, Error> {
        let outcome = match &self.experiment {
            Err(why) => Err(why.clone()),
            Ok(experiment) => Ok(self.outcome(experiment, setting, dir, stop)?),
        };
        Ok(Simulated {
            experiment: self.asked.0.clone(),
            question: self.asked.1.clone(),
            machine: self.machine.clone(),
            alternative: self.alternative.clone(),
            outcome,
        })
    }

    fn outcome(
        &self,
        experiment: &Experiment,
        setting: &Setting,
        dir: &Path,
        stop: &AtomicBool,
    ) -> Result<Outcome, Error> {
        let mut plan = plan(experiment, &self.examined)?;
        let (plan, samples, ended): (_, Vec<Sample>, Ended) = if plan.measured().is_empty() {
            (plan, Vec::new(), Ended::Complete)
        } else {
            let own = dir.join(&self.folder);
            few_trials(&mut plan.experiment.measure, &self.examined);
            let done = measure::measure(plan, &self.examined, &own, stop, &mut |_| {})?;
            (done.plan, done.samples, done.ended)
        };
        if let Ended::Failed(why) = &ended {
            return Err(Error::failed(format!("{}: {why}", self.folder)));
        }
        let found =
            Reproduced::new(&self.published, &plan, &samples, ended).map_err(Error::failed)?;
        let bytes = self.alternative.as_ref().and_then(|alternative| alternative.bytes);
        Outcome::new(&self.published, setting, bytes, found, &samples).map_err(Error::failed)
    }
}

/// What was measured of an experiment, from a folder that `reproduce` has written; none where it is
/// not there.
///
/// # Errors
/// Where it is damaged, was simulated, or is of another experiment.
pub fn measured_here(
    dir: &Path,
    experiment: &str,
    published: &[Published],
) -> Result<Option<Reproduced>, Error> {
    let own = dir.join(experiment);
    if !ringfence_dataset::is_dataset(&own) {
        return Ok(None);
    }
    let dataset = Dataset::open(&own)?;
    if dataset.samples.iter().any(|sample| sample.simulated == Some(true)) {
        return Err(Error::usage(format!(
            "{}: it was simulated; name a folder of measurements",
            own.display()
        )));
    }
    let ended = dataset.manifest.ended.clone().unwrap_or(Ended::Interrupted);
    let found = Reproduced::new(published, &dataset.plan, &dataset.samples, ended);
    found.map(Some).map_err(|why| Error::usage(format!("{}: {why}", own.display())))
}
