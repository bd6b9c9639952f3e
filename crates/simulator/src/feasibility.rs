//! What of an experiment can be simulated, and on which memory.

use std::collections::BTreeSet;

use ringfence_experiment::plan::{Active, NotRun, Plan};
use ringfence_experiment::task::{Target, Task};
use ringfence_experiment::{Arm, Error, Experiment, Reason};
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;

use crate::file::Description;
use crate::isolation;
use crate::recordings::Recordings;

/// The plan of an experiment for a described machine. What it does not have, and what is not
/// simulated, is not run, with the reason.
///
/// # Errors
/// As [`Plan::new`].
pub fn plan(
    experiment: &Experiment,
    description: &Description,
    machine: &Machine,
) -> Result<Plan, Error> {
    plan_with(&Recordings::default(), experiment, description, machine)
}

/// As [`plan`], with the recorded programs that it plays.
///
/// # Errors
/// As [`Plan::new`].
pub fn plan_with(
    recordings: &Recordings,
    experiment: &Experiment,
    description: &Description,
    machine: &Machine,
) -> Result<Plan, Error> {
    let mut plan = Plan::new(experiment, &machine.topology, machine.features.as_ref())?;
    let reason = |case: usize| {
        let what = &plan.cases[case];
        let arm = plan.experiment.arms.iter().find(|arm| arm.name == what.arm);
        let episode = plan.experiment.measure.episode.map(|_| {
            Reason::from(
                "episodes are for what files and disks do late, and these are not simulated: take \
                 windows",
            )
        });
        episode
            .or_else(|| arm.and_then(|arm| isolation(&plan, arm, description)))
            .or_else(|| isolation::not_locked(&plan, case, description))
            .or_else(|| shared_cpu(&plan, &what.active))
            .or_else(|| {
                what.active.iter().find_map(|active| {
                    let variant = &plan.variants[active.role][active.variant];
                    let task = &variant.task;
                    let quota = variant.quota.is_some_and(|quota| quota.0 < 1.0);
                    let quota = quota
                        .then(|| Reason::from("a quota is not simulated, since scheduling is not"));
                    let wide = || compares_widths(&plan, active.role);
                    let missing = || not_simulated(task, description, recordings);
                    quota.or_else(wide).or_else(missing).or_else(|| {
                        let cpus = &plan.placed.cpus[active.role];
                        cpus.iter()
                            .take(active.count as usize)
                            .find_map(|cpu| no_memory(task, description, *cpu))
                    })
                })
            })
    };
    let known = |case: &usize| plan.not_run.iter().any(|known| known.case == *case);
    let found: Vec<NotRun> = (0..plan.cases.len())
        .filter(|case| !known(case))
        .filter_map(|case| Some(NotRun { case, reason: reason(case)? }))
        .collect();
    plan.not_run.extend(found);
    let traces = plan.variants.iter().flatten().filter_map(|variant| match &variant.task {
        Task::Trace(trace) => Some(trace.file.display().to_string()),
        _ => None,
    });
    let notes = traces.collect::<BTreeSet<_>>().into_iter().map(|file| {
        format!(
            "{file} is played as it was recorded, without what its program does between, which \
             takes no time here"
        )
    });
    plan.placed.notes.extend(notes);
    let notes = isolation::notes(&plan, description);
    plan.placed.notes.extend(notes);
    Ok(plan)
}

fn isolation(plan: &Plan, arm: &Arm, description: &Description) -> Option<Reason> {
    let system = || {
        (!arm.system.is_empty())
            .then(|| "system is not simulated, since files and disks are not".into())
    };
    arm.each_limit()
        .find_map(|(_, limit)| limit.not_simulated())
        .or_else(system)
        .or_else(|| isolation::missing(plan, arm, description))
}

// Cases that differ in nothing else would come out as equal.
fn compares_widths(plan: &Plan, role: usize) -> Option<Reason> {
    let mut widths = plan.variants[role].iter().filter_map(|variant| match &variant.task {
        Task::Write(write) => Some(write.width),
        _ => None,
    });
    let first = widths.next()?;
    widths.any(|other| other != first).then(|| {
        "how wide a copy's registers are makes no difference in the simulation, so widths cannot \
         be compared"
            .into()
    })
}

// A simulated thread has no scheduler.
fn shared_cpu(plan: &Plan, active: &[Active]) -> Option<Reason> {
    let mut taken: Vec<CpuId> = Vec::new();
    for active in active {
        if matches!(plan.variants[active.role][active.variant].task, Task::Idle(_)) {
            continue;
        }
        for cpu in (0..active.count)
            .flat_map(|instance| plan.home(active.role, instance).iter().collect::<Vec<_>>())
        {
            if taken.contains(&cpu) {
                let shared =
                    format!("two tasks would share CPU {cpu}, and scheduling is not simulated");
                return Some(shared.into());
            }
            taken.push(cpu);
        }
    }
    None
}

fn not_simulated(
    task: &Task,
    description: &Description,
    recordings: &Recordings,
) -> Option<Reason> {
    let Task::Trace(trace) = task else { return task.not_simulated() };
    let Some(recorded) = recordings.get(&trace.file) else {
        return Some(format!("the recorded program {} was not read", trace.file.display()).into());
    };
    let known = &description.processor.flush;
    let mut played = recorded
        .flushes()
        .filter_map(|own| trace.flush.instead_of(own, description.processor.eadr));
    played.find(|flush| !known.contains(flush)).map(|flush| {
        format!(
            "{} would flush by {flush}, which the described processor lacks",
            trace.file.display()
        )
        .into()
    })
}

fn no_memory(task: &Task, description: &Description, cpu: CpuId) -> Option<Reason> {
    let target = task.target();
    let Some(node) = description.node(target, cpu) else {
        return Some(format!("the described machine has no {target}").into());
    };
    let bytes = task.size()?;
    let gib = u64::from(description.parts.nodes[node].gib);
    (bytes.0 > gib << 30).then(|| {
        format!("the described machine has {gib}GiB there, and {bytes} are asked for").into()
    })
}

impl Description {
    /// Which of the memory's nodes a target means to a task on a CPU: a socket's own for `dram`,
    /// the namespace at or above a path for `dax:`.
    pub(crate) fn node(&self, target: &Target, cpu: CpuId) -> Option<usize> {
        let sockets = self.parts.topology.sockets;
        let dram_of = |socket: u32| {
            self.parts.nodes.iter().position(|node| node.target == "dram" && node.socket == socket)
        };
        match target {
            Target::Dram => dram_of(self.llc_and_socket(cpu).1),
            Target::Node(id) if *id < sockets => dram_of(*id),
            Target::Dax(path) => self.parts.nodes.iter().position(|node| {
                node.target.strip_prefix("dax:").is_some_and(|mounted| path.starts_with(mounted))
            }),
            Target::Node(_) | Target::DevDax(_) => {
                let name = target.to_string();
                self.parts.nodes.iter().position(|node| node.target == name)
            }
            Target::Tmpfs(_) | Target::File(_) => None,
        }
    }
}
