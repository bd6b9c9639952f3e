//! From an experiment to the order of its windows: pure functions of (experiment, topology, seed).

mod archive;
mod attachment;
mod calm;
mod cases;
mod episodes;
mod fit;
mod order;
mod pauses;
mod writes;

pub use calm::Calm;
pub use cases::{Active, Case, cases};
pub use episodes::is_whole_run;
pub use fit::{EXCESS_FOR_A_FIGURE, FEWEST_TRIALS, is_left_out};
pub use order::{Step, Trial, trial};

use std::time::Duration;

use crate::Error;
use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::features::Features;
use ringfence_machine::topology::Topology;
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::placement::{self, Placed, Want};
use crate::task::Variant;
use crate::task::{self, DEFAULT_WARM_UP, ProgramUnit, Task, text};
use crate::units::Span;
use crate::{Experiment, Reason};

/// Everything that is decided before anything is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The experiment.
    pub experiment: Experiment,
    /// Per role, in the file's order: the tasks that its lists expand to.
    pub variants: Vec<Vec<Variant>>,
    /// Index of the role whose rate is the figure.
    pub metric: usize,
    /// What is compared; indices are the cases' numbers in samples.
    pub cases: Vec<Case>,
    /// Cases that this machine cannot hold, each with the reason.
    pub not_run: Vec<NotRun>,
    /// Where each role runs.
    pub placed: Placed,
}

/// A case that cannot be run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotRun {
    /// The case's number.
    pub case: usize,
    /// Why.
    pub reason: Reason,
}

impl Plan {
    /// Plans an experiment for a machine. The order of windows comes from [`trial`], trial by
    /// trial. What a processor lacks is not run; where `features` are not known, it has them all.
    ///
    /// # Errors
    /// One sentence for a task, a baseline or a CPU that makes no sense.
    pub fn new(
        experiment: &Experiment,
        topology: &Topology,
        features: Option<&Features>,
    ) -> Result<Self, Error> {
        experiment.check()?;
        let variants = variants(experiment)?;
        for (role, variants) in experiment.roles.iter().zip(&variants) {
            let programs = variants.iter().filter_map(|variant| match &variant.task {
                Task::Command(command) => Some(
                    [command.run.as_str()]
                        .into_iter()
                        .chain(command.server.as_ref().map(|server| server.run.as_str())),
                ),
                _ => None,
            });
            for run in programs.flatten() {
                text::without_shell(run)
                    .map_err(|why| Error::usage(format!("role '{}': {why}", role.name)))?;
            }
        }
        let metric = metric(experiment);
        let wants: Vec<Want> = experiment
            .roles
            .iter()
            .zip(&variants)
            .map(|(role, variants)| Want {
                role: role.name.clone(),
                count: attachment::instances(role, variants),
                cpus: role.cpus.clone(),
                besides: servers(variants),
                waits: variants.iter().all(|variant| variant.task.waits_for_a_device()),
                kind: role.placement.unwrap_or(experiment.placement.kind),
            })
            .collect();
        windows_hold_work(experiment, &variants).map_err(Error::usage)?;
        latencies_are_counted(experiment, &variants[metric]).map_err(Error::usage)?;
        attachment::check(experiment, &variants, metric).map_err(Error::usage)?;
        let index = |name: &String| experiment.roles.iter().position(|role| role.name == *name);
        let arms: Vec<Vec<usize>> = experiment
            .arms
            .iter()
            .map(|arm| arm.active.iter().filter_map(index).collect())
            .collect();
        let placed = placement::place(topology, &wants, metric, &arms).map_err(Error::usage)?;
        let cases = cases(experiment, &variants).map_err(Error::usage)?;
        let not_run = cases
            .iter()
            .enumerate()
            .filter_map(|(case, what)| {
                let reason = what.active.iter().find_map(|active| {
                    let task = &variants[active.role][active.variant].task;
                    // Running processes have their own CPUs.
                    let count = if task.is_attached() { 0 } else { active.count };
                    if let Some(shortage) = placed.shortage(&wants, metric, active.role, count) {
                        return Some(shortage);
                    }
                    let missing = task.missing(features);
                    missing.or_else(|| episodes::refusal(experiment, task, active.role == metric))
                })?;
                Some(NotRun { case, reason })
            })
            .collect();
        Ok(Self { experiment: experiment.clone(), variants, metric, cases, not_run, placed })
    }

    /// Why a case is not run, if so: its own reason, or that of one that it needs.
    pub fn refusal(&self, case: usize) -> Option<&Reason> {
        let needed = |not_run: &&NotRun| {
            not_run.case == case || self.cases[case].others().any(|other| other == not_run.case)
        };
        self.not_run.iter().find(needed).map(|not_run| &not_run.reason)
    }

    /// Why no case can be measured, if so: the reasons, each once.
    pub fn nothing_to_measure(&self) -> Option<Reason> {
        if !self.measured().is_empty() {
            return None;
        }
        let mut reasons: Vec<&str> = (0..self.cases.len())
            .filter_map(|case| self.refusal(case))
            .map(Reason::as_str)
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        reasons.retain(|reason| seen.insert(*reason));
        Some(reasons.join(", and ").into())
    }

    /// The cases that are measured, in order: those that can be run, and do not merely run for
    /// others.
    pub fn measured(&self) -> Vec<usize> {
        (0..self.cases.len())
            .filter(|case| self.refusal(*case).is_none())
            .filter(|case| {
                self.cases[*case].baseline.is_some()
                    || !self.cases.iter().any(|other| other.others().any(|needed| needed == *case))
            })
            .collect()
    }

    /// The cases that run: those that are measured, and those that they need.
    pub fn run_cases(&self) -> impl Iterator<Item = usize> {
        self.measured()
            .into_iter()
            .flat_map(|case| std::iter::once(case).chain(self.cases[case].others()))
    }

    /// The CPUs whose distance matters in a case: that of the metric's first instance, then those
    /// of the first instance of each other role that runs, and of the metric's second. A CPU that
    /// is shared with the first is not a distance away.
    pub fn cpus_between(&self, case: usize) -> Vec<CpuId> {
        let first = |active: &Active| self.placed.cpus[active.role].first().copied();
        let active = &self.cases[case].active;
        let metric = active.iter().find(|active| active.role == self.metric);
        let second = metric.filter(|metric| metric.count > 1);
        let second = second.and_then(|metric| self.placed.cpus[metric.role].get(1).copied());
        let others = active.iter().filter(|active| active.role != self.metric).filter_map(first);
        let home = metric.and_then(first);
        let others = others.chain(second).filter(|cpu| Some(*cpu) != home);
        home.into_iter().chain(others).collect()
    }

    /// The CPUs on which an instance of a role runs: one, but for a single program, or recording of
    /// one, whose role names several. Those it may all use, since programs as they are may have
    /// threads.
    pub fn home(&self, role: usize, instance: u32) -> CpuSet {
        let placed = self.placed.cpus[role].get(instance as usize).copied();
        let own = &self.experiment.roles[role];
        let is_program = |task: &Task| matches!(task, Task::Command(_) | Task::Trace(_));
        let programs = self.variants[role].iter().all(|variant| is_program(&variant.task));
        match (&own.cpus, placed) {
            (Some(named), Some(_)) if programs && own.count.as_slice() == [1] => named.clone(),
            _ => placed.into_iter().collect(),
        }
    }

    /// The least that a trial takes: its windows and what must pass before each, and the probes
    /// between them. Runs that are timed whole take as long as they take, and count nothing here.
    pub fn least_trial(&self) -> Duration {
        self.least_trial_of(&self.measured())
    }

    // The same of some of the cases.
    fn least_trial_of(&self, cases: &[usize]) -> Duration {
        let windows: Duration = cases.iter().map(|case| self.least_step(*case)).sum();
        windows * self.experiment.measure.rounds + self.warm_up()
    }

    // The least that a case takes in a round.
    fn least_step(&self, case: usize) -> Duration {
        let measure = &self.experiment.measure;
        let calm = self.calm().unwrap_or_default();
        let before = calm.idle + measure.settle.0.max(calm.lead_in);
        let windows = 1 + self.cases[case].others().count() as u32;
        let probe =
            if self.cpus_between(case).len() > 1 { measure.probe.0 } else { Duration::ZERO };
        let window = if is_whole_run(self.metric_task(case)) {
            Duration::ZERO
        } else {
            before + measure.length().0
        };
        let paused = self.pauses(case).map_or(Duration::ZERO, |freezing| {
            freezing.pair(measure.window.0).saturating_sub(measure.window.0 * 2)
        });
        window * windows + probe + paused + self.sliced(case)
    }

    // What the metric's programs run before they are measured, in every trial.
    fn warm_up(&self) -> Duration {
        let programs =
            self.variants[self.metric].iter().filter_map(|variant| match &variant.task {
                Task::Command(command) if command.unit != ProgramUnit::WholeRun => {
                    Some(command.warm_up.unwrap_or(DEFAULT_WARM_UP).0)
                }
                _ => None,
            });
        programs.max().unwrap_or_default()
    }

    /// The task of the metric's role in a case.
    pub fn metric_task(&self, case: usize) -> &Task {
        let active = self.cases[case].active.iter().find(|active| active.role == self.metric);
        &self.variants[self.metric][active.expect("checked: every arm runs the metric").variant]
            .task
    }
}

/// The shortest window that is sure to hold some work of every task of an experiment; `None` where
/// any does, and where a task makes no sense.
pub fn least_window(experiment: &Experiment) -> Option<Span> {
    let variants = variants(experiment).ok()?;
    variants.iter().flatten().filter_map(|variant| variant.task.least_window()).max()
}

fn windows_hold_work(experiment: &Experiment, variants: &[Vec<Variant>]) -> Result<(), String> {
    // Each part of an episode is looked at by itself.
    let window =
        experiment.measure.episode.map_or(experiment.measure.window, |e| e.beside.min(e.tail));
    for (role, variants) in experiment.roles.iter().zip(variants) {
        let least = variants.iter().filter_map(|variant| variant.task.least_window()).max();
        if let Some(least) = least.filter(|least| *least > window) {
            return Err(format!(
                "{} is too short for the work of role '{}' in {}: use at least {least}, such as \
                 with {}",
                match experiment.measure.episode {
                    Some(episode) => format!("an episode of {episode}"),
                    None => format!("window = {window}"),
                },
                role.name,
                if experiment.measure.episode.is_some() { "each part" } else { "one" },
                match experiment.measure.episode {
                    Some(_) => format!("--episode {least}+{least}"),
                    None => format!("--window {least}"),
                },
            ));
        }
    }
    Ok(())
}

fn latencies_are_counted(experiment: &Experiment, metric: &[Variant]) -> Result<(), String> {
    let measure = &experiment.measure;
    let bound = measure.decide.as_ref().and_then(|decide| decide.at_most);
    let (what, instead) = match (measure.quantity.quantile(), bound) {
        (None, None) => return Ok(()),
        (Some(quantile), None) => (
            format!("{quantile} of '{}' is unknown", experiment.metric),
            "leave the mean as the metric",
        ),
        (_, Some(time)) => (
            format!(
                "cannot compare '{}' with {}",
                experiment.metric,
                Budget::AtMost(measure.quantity, time)
            ),
            "give an allowed slowdown, such as 5%",
        ),
    };
    if let Some(Variant { task, .. }) =
        metric.iter().find(|variant| !variant.task.counts_latencies())
    {
        return Err(format!(
            "{what}, because the latencies of {} are not counted: {}, or {instead}",
            match task {
                Task::Command(_) => "a program",
                task => task.name(),
            },
            match task {
                Task::Chase(_) => "give it histogram=true",
                Task::Command(_) =>
                    "let it print them (unit = \"latencies\", or --victim-progress latencies)",
                _ => "take probe, commit, read or 'chase histogram=true'",
            }
        ));
    }
    // Where several work at once, the time that passes from the end of a unit to that of the next
    // is shorter than any takes.
    let writes_at_once =
        |variant: &Variant| matches!(&variant.task, Task::Commit(commit) if commit.writers > 1);
    let mut roles = experiment.roles.iter().filter(|role| role.name == experiment.metric);
    let several = roles.any(|role| role.count.as_slice().iter().any(|count| *count > 1))
        || metric.iter().any(writes_at_once);
    if several && bound.is_some() && measure.quantity.is_mean() {
        return Err(format!(
            "{what}, because several instances work at once, and the time per unit is not the time \
             that one unit takes: give a bound for p50 or p99, or run a single instance"
        ));
    }
    Ok(())
}

// The CPUs of servers that a role's clients have.
fn servers(variants: &[Variant]) -> CpuSet {
    let servers = variants.iter().filter_map(|variant| match &variant.task {
        Task::Command(command) => command.server.as_ref()?.cpus.as_ref(),
        _ => None,
    });
    servers.flat_map(CpuSet::iter).collect()
}

fn variants(experiment: &Experiment) -> Result<Vec<Vec<Variant>>, Error> {
    let of_role = |role| task::variants(role, &experiment.arms).map_err(Error::usage);
    experiment.roles.iter().map(of_role).collect()
}

fn metric(experiment: &Experiment) -> usize {
    let position = experiment.roles.iter().position(|role| role.name == experiment.metric);
    position.expect("checked: the metric is a role")
}

#[cfg(test)]
mod tests;
