//! A survey of an invented machine with known effects, to test the conclusions drawn from it.

use std::path::Path;

use ringfence_dataset::Recorder;
use ringfence_experiment::Experiment;
use ringfence_experiment::class::Class;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::{self, Plan};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::{
    Commit, DirtyIo, FenceAt, Flush, Instruction, Layout, LineState, Sync, Task, Write,
};
use ringfence_machine::Machine;
use ringfence_machine::fixtures::vm_2cpu;
use ringfence_machine::probe::{Capacity, PingPong, Plateau, Reload};
use ringfence_machine::units::Bytes;

use crate::findings::Findings;
use crate::survey::experiments::{self, Writers};
use crate::survey::{Depth, Files, Level, Probes, Reloads, Survey, conclude, folder};

/// How much longer the victim takes per unit next to a writer: (victim, instruction, paced) to a
/// factor.
pub type Harm = fn(&str, Instruction, bool) -> f64;

/// As on a Zen 5: clwb and plain stores flood the shared cache, whatever their rate; clflush harms
/// a little by its rate; non-temporal stores not at all.
pub fn zen(victim: &str, instruction: Instruction, paced: bool) -> f64 {
    match (victim, instruction) {
        ("chase", Instruction::Flush(Flush::Clwb)) => 12.0,
        ("chase", Instruction::None) => 11.0,
        ("chase", Instruction::Flush(Flush::Clflush)) if !paced => 1.08,
        _ => 1.0,
    }
}

/// No task harms another.
pub fn harmless(_: &str, _: Instruction, _: bool) -> f64 {
    1.0
}

/// A survey of two CPUs under one L3 where a line costs what [`ns_per_line`] says and victims
/// suffer as `harm` says, with a noise of 0.2 % from window to window.
pub fn survey(harm: Harm) -> Survey {
    build(harm, &mut |_, _| {})
}

/// The same, with its datasets in a folder that is empty or does not exist, as a survey leaves it.
///
/// # Panics
/// Where the folder cannot be written to.
pub fn survey_in(dir: &Path, harm: Harm) -> Survey {
    let machine = serde_json::to_value(machine()).expect("a machine has text keys only");
    let survey = build(harm, &mut |plan, samples| {
        let folder = dir.join(&plan.experiment.name);
        let mut recorder =
            Recorder::create(&folder, plan, &machine).expect("the folder can be written to");
        recorder.append(samples).expect("the samples are the plan's");
        recorder.finish(&Ended::Complete).expect("the folder can be written to");
    });
    folder::kept(&survey).write(dir).expect("the folder can be written to");
    survey
}

fn machine() -> Machine {
    Machine::examine(&vm_2cpu().root()).expect("a fixture is a machine")
}

fn build(harm: Harm, keep: &mut dyn FnMut(&Plan, &[Sample])) -> Survey {
    let machine = machine();
    let topology = machine.topology.clone();
    let size = Bytes::mib(256);
    let mut survey = Survey::new(machine, probes(), size);
    let plan = |experiment: &Experiment| {
        let mut plan =
            Plan::new(experiment, &topology, None).expect("the survey's experiments are sound");
        // Whatever processor the test runs on, the fixture's has every instruction.
        plan.not_run.clear();
        plan
    };
    let cost = plan(&experiments::cost(Depth::Quick, size, 1));
    let measured = samples(&cost, "writer", false, harm);
    keep(&cost, &measured);
    survey.add_cost(&cost, &measured);
    for paced in [false, true] {
        let pace = if paced { survey.slowest_writer() } else { None };
        survey.pace = pace.map(|pace| pace.to_string());
        for victim in experiments::victims(survey.probes.victim_footprint) {
            let writers = match pace {
                Some(pace) => Writers::Paced(pace),
                None => Writers::AtFullRate(conclude::cheapest_elsewhere(&survey)),
            };
            let plan = plan(&experiments::neighbours(Depth::Quick, &victim, &writers, size, 1));
            let measured = samples(&plan, &victim.name, paced, harm);
            keep(&plan, &measured);
            survey.add_neighbours(&victim.name, paced, &plan, &measured);
        }
    }
    let files = Files { dir: "/data".into(), disturb: true };
    for experiment in files.experiments(Depth::Quick, 1) {
        let plan = plan(&experiment);
        let measured = samples(&plan, "committer", false, harm);
        keep(&plan, &measured);
        survey.files.push(Findings::new(&plan, &measured, None));
    }
    survey.conclude();
    survey
}

/// What a line costs there, ns.
pub fn ns_per_line(write: &Write) -> f64 {
    let copy = if write.line == LineState::Cold { 5.0 } else { 2.0 };
    let flush = match write.instruction {
        Instruction::None => 0.0,
        Instruction::Nt => 1.0,
        Instruction::Flush(Flush::Clflush) => 100.0,
        Instruction::Flush(_) | Instruction::Msync => 10.0,
    };
    let lines = write.block.0 as f64 / 64.0;
    let fences = match write.fence_at {
        FenceAt::None => 0.0,
        FenceAt::Block => 1.0 / lines,
        FenceAt::Line | FenceAt::Around => 1.0,
    };
    copy + flush + fences * 80.0
}

/// What a durable commit costs there, ns.
pub fn ns_per_commit(commit: &Commit) -> f64 {
    let metadata = if commit.layout == Layout::Append { 2_000.0 } else { 0.0 };
    let times = if commit.sync == Sync::Fsync { 1_000.0 } else { 0.0 };
    8_000.0 + metadata + times
}

fn probes() -> Probes {
    let reload =
        |ns: f64| Reload { median_ns: ns, p10_ns: ns * 0.9, p90_ns: ns * 1.1, rounds: 100 };
    let cache = |level: u8, nominal: Bytes, from: Bytes, holds: (Bytes, Bytes), ns: f64| Capacity {
        level,
        nominal,
        measured: Some(Bytes(((holds.0.0 * holds.1.0) as f64).sqrt() as u64 / 64 * 64)),
        at_least: Some(holds.0),
        below: Some(holds.1),
        from: Some(from),
        plateau_ns: Some(ns),
        why: "made up".into(),
    };
    Probes {
        cpu: 0,
        round_trips: vec![PingPong {
            cpus: (0, 1),
            median_ns: 110.0,
            p10_ns: 100.0,
            p90_ns: 130.0,
            round_trips: 10_000,
        }],
        latency: None,
        caches: vec![
            cache(1, Bytes::kib(48), Bytes::kib(8), (Bytes::kib(45), Bytes::kib(52)), 1.0),
            cache(2, Bytes::mib(1), Bytes::kib(60), (Bytes::kib(1000), Bytes::kib(1200)), 4.0),
            cache(3, Bytes::mib(32), Bytes::mib(2), (Bytes::mib(8), Bytes::mib(10)), 12.0),
        ],
        memory: Some(Plateau { from: Bytes::mib(16), to: Bytes::mib(128), ns: 95.0, until: None }),
        latency_small_pages: None,
        victim_footprint: Bytes::mib(4),
        victim_level: Some(Level { name: "L3".into(), ns: 12.0, from_ns: 8.3, to_ns: 23.9 }),
        victim_footprint_from:
            "well inside L3, which answers in 12.0 ns from 2MiB on and holds 8MiB".into(),
        reloads: Reloads {
            cached: Some(reload(2.0)),
            after: vec![
                ("clflush".into(), reload(100.0)),
                ("clflushopt".into(), reload(100.0)),
                ("clwb".into(), reload(2.2)),
            ],
        },
        failed: Vec::new(),
    }
}

fn samples(plan: &Plan, victim: &str, paced: bool, harm: Harm) -> Vec<Sample> {
    let mut all = Vec::new();
    // Windows of 10 ms, a third more between them.
    let mut start_ns = 0;
    let trials = plan.experiment.measure.looks.last().copied().unwrap_or(0);
    for trial in 0..trials {
        let rounds = plan::trial(plan, trial).rounds;
        for (round, steps) in rounds.into_iter().enumerate() {
            for (number, step) in steps.into_iter().enumerate() {
                for (position, &case) in step.windows.iter().enumerate() {
                    let place = (trial, round as u32, number as u32, position as u32);
                    let window = window(plan, case, victim, paced, harm, place);
                    all.extend(window.into_iter().map(|sample| Sample {
                        step_case: step.case as u32,
                        start_ns,
                        ..sample
                    }));
                    start_ns += 13_000_000;
                }
            }
        }
    }
    all
}

fn window(
    plan: &Plan,
    case: usize,
    victim: &str,
    paced: bool,
    harm: Harm,
    (trial, round, step, position): (u32, u32, u32, u32),
) -> Vec<Sample> {
    let active = &plan.cases[case].active;
    let task = |role: usize, variant: usize| &plan.variants[role][variant].task;
    let beside = active.iter().find(|active| active.role != plan.metric);
    let factor = match beside.map(|active| task(active.role, active.variant)) {
        Some(Task::Write(write)) => harm(victim, write.instruction, paced),
        Some(Task::Dirty(dirty)) if dirty.io == DirtyIo::Dontcache => 50.0,
        _ => 1.0,
    };
    // A fixed pattern of about 0.2 %, other for every window.
    let seed = trial * 7919 + round * 104_729 + step * 1_299_709 + position * 15_485_863;
    let noise = 1.0 + f64::from(seed.wrapping_mul(2_654_435_761) % 2001) / 5e5 - 0.002;
    let sample = |role: usize, variant: usize| {
        let is_metric = role == plan.metric;
        let ns_per_unit = match task(role, variant) {
            Task::Write(write) => {
                write.pace.map_or(ns_per_line(write), |pace| 64e9 / pace.0.0 as f64)
            }
            Task::Idle(_) => f64::INFINITY,
            Task::Commit(commit) => ns_per_commit(commit),
            _ => 2.0,
        };
        let ns_per_unit = ns_per_unit * if is_metric { factor * noise } else { 1.0 };
        Sample {
            trial,
            round,
            step,
            position,
            case: case as u32,
            role: plan.experiment.roles[role].name.as_str().into(),
            cpu: role as u32,
            class: Class::Sharing,
            ping_before_ns: Some(110.0),
            ping_after_ns: Some(112.0),
            length_ns: 10_000_000,
            busy_ns: 10_000_000,
            units: (10_000_000.0 / ns_per_unit) as u64,
            ..Sample::default()
        }
    };
    active.iter().map(|active| sample(active.role, active.variant)).collect()
}
