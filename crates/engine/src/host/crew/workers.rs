//! Which worker processes a plan needs, and what is known of each.

use ringfence_experiment::plan::{Plan, is_whole_run};
use ringfence_experiment::task::Task;
use ringfence_machine::counters::Counters;
use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::probe::pin;
use ringfence_machine::topology::Topology;

use crate::shm::order;

/// A worker process: one instance of a role with some of its variants.
pub struct Worker {
    pub slot: usize,
    pub role: usize,
    pub instance: u32,
    pub cpu: CpuId,
    /// All CPUs that it may use; more than one for programs alone.
    pub home: CpuSet,
    /// The role's variants that it holds. Programs and probes have a worker each, all others share
    /// one.
    pub variants: Vec<usize>,
    /// Whether it reports only when asked.
    pub on_demand: bool,
    /// Whether it asks a service that is already running.
    pub probe: bool,
    /// Whether its time is the sum that its units report, and not the time in which it ran.
    pub tells_time: bool,
    /// Whether its work is done by processes that it starts.
    pub program: bool,
    pub pid: Option<i32>,
    /// How it ended, once it has.
    pub ended: Option<String>,
    pub ordered: u32,
    /// Hardware counters of this process, where the kernel gives any.
    pub counters: Option<Counters>,
}

/// The workers that a plan needs.
pub fn of_plan(plan: &Plan) -> Vec<Worker> {
    let mut workers: Vec<Worker> = Vec::new();
    let run: Vec<usize> = plan.run_cases().collect();
    for (role, cpus) in plan.placed.cpus.iter().enumerate() {
        // Only variants of cases that are run: the others may name memory that is not there.
        let needed = |variant: usize| {
            run.iter().any(|case| {
                plan.cases[*case]
                    .active
                    .iter()
                    .any(|active| active.role == role && active.variant == variant)
            })
        };
        let variants: Vec<usize> = (0..plan.variants[role].len()).filter(|v| needed(*v)).collect();
        let is_program = |v: &usize| matches!(plan.variants[role][*v].task, Task::Command(_));
        let is_attached = |v: &usize| plan.variants[role][*v].task.is_attached();
        let variants: Vec<usize> = variants.into_iter().filter(|v| !is_attached(v)).collect();
        let is_idle = |v: &usize| matches!(plan.variants[role][*v].task, Task::Idle(_));
        let is_probe = |v: &usize| plan.variants[role][*v].task.asks_a_service();
        // A neighbour's rate is by the clock, as that of any other.
        let tells_time = |v: &usize| {
            let task = &plan.variants[role][*v].task;
            is_probe(v)
                || (role == plan.metric && (task.is_timed_by_latency() || task.figure().is_some()))
        };
        let (programs, steady): (Vec<usize>, Vec<usize>) =
            variants.into_iter().partition(is_program);
        let (idle, steady): (Vec<usize>, Vec<usize>) = steady.into_iter().partition(is_idle);
        let (probes, steady): (Vec<usize>, Vec<usize>) = steady.into_iter().partition(is_probe);
        for (instance, &cpu) in cpus.iter().enumerate() {
            let mut add = |variants: Vec<usize>, on_demand: bool, program: bool| {
                workers.push(Worker {
                    slot: workers.len(),
                    role,
                    instance: instance as u32,
                    cpu,
                    home: plan.home(role, instance as u32),
                    probe: variants.iter().all(is_probe),
                    tells_time: variants.iter().all(tells_time),
                    variants,
                    on_demand,
                    program,
                    pid: None,
                    ended: None,
                    ordered: order::PAUSE,
                    counters: None,
                });
            };
            if !steady.is_empty() {
                add(steady.clone(), false, false);
            }
            if !idle.is_empty() {
                add(idle.clone(), true, false);
            }
            for &probe in &probes {
                add(vec![probe], false, false);
            }
            for &program in &programs {
                let whole = is_whole_run(&plan.variants[role][program].task);
                add(vec![program], !whole, true);
            }
        }
    }
    workers
}

/// The supervisor wakes at both ends of a window; where there are CPUs to spare, not on theirs.
pub fn step_aside(topology: &Topology, workers: &[Worker]) {
    let mut busy = CpuSet::new();
    for worker in workers {
        for cpu in worker.home.iter() {
            busy.insert(cpu);
            for sibling in topology.smt_siblings(cpu).iter() {
                busy.insert(sibling);
            }
        }
    }
    let rest = topology.usable().difference(&busy);
    if !rest.is_empty() {
        // Only a courtesy: where it is refused, the measurement stands as well.
        let _ = pin::set_affinity(&rest);
    }
}
