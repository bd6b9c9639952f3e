//! Recorded programs on described machines: what is known of a recording comes out of its play.

mod support;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use ringfence_engine::runner;
use ringfence_experiment::Experiment;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::units::Span;
use ringfence_persist::Flush;
use ringfence_simulator::{
    Bytes, Description, Did, Recorded, Recordings, SimulatedEngine, TrialsAtOnce, plan, plan_with,
};
use support::{ALONE, BESIDE, Nobody, experiment, machine, near, ns, run};

const XEON: &str = "cascade-lake-optane";
const FILE: &str = "trace";

fn played(description: &Description, experiment: &Experiment, recorded: Recorded) -> Vec<Sample> {
    let mut recordings = Recordings::default();
    recordings.add(Path::new(FILE), recorded);
    let machine = description.machine();
    let plan = plan_with(&recordings, experiment, description, &machine).unwrap();
    assert!(plan.not_run.is_empty(), "{:?}", plan.not_run);
    let note = plan.placed.notes.join(" ");
    assert!(
        note.contains("trace is played as it was recorded, without what its program does"),
        "{note}"
    );
    let stop = AtomicBool::new(false);
    let mut engine = SimulatedEngine::new(&plan, description, &stop).playing(&recordings);
    let (samples, _) = runner::run(&plan, &mut engine, &stop, &mut Nobody).unwrap();
    let mut at_once = TrialsAtOnce::new(&plan, description, &stop, 2).playing(&recordings);
    assert_eq!(runner::run(&plan, &mut at_once, &stop, &mut Nobody).unwrap().0, samples);
    samples
}

fn at(offset: u64, size: u64) -> Option<Bytes> {
    Some(Bytes { file: 1, offset, size })
}

const TARGET: &str = "target = 'dax:/mnt/pmem0'";

fn victim(rest: &str) -> String {
    format!("name = 'victim'\ntask = {{ workload = 'trace', file = '{FILE}', {TARGET} }}\n{rest}")
}

// What the writer does: blocks of 4 KiB over a MiB, a fence behind each.
fn blocks(did: Did, flush: Option<Flush>) -> Recorded {
    let mut recorded = Recorded::default();
    for block in 0..256 {
        for line in 0..64 {
            recorded.push(1, did, at(block * 4096 + line * 64, 64)).unwrap();
        }
        for line in 0..64 {
            if let Some(flush) = flush {
                recorded.push(1, Did::Flush(flush), at(block * 4096 + line * 64, 64)).unwrap();
            }
        }
        recorded.push(1, Did::Sfence, None).unwrap();
    }
    recorded
}

#[test]
fn a_recorded_writer_takes_as_long_as_the_writer() {
    let xeon = machine(XEON, &[]);
    // Conflicts in a DIMM's buffers depend on where the file lies.
    let targets = [("target = 'dram'", 0.01), (TARGET, 0.02)];
    for (name, did, flush) in [
        ("clwb", Did::Store, Some(Flush::Clwb)),
        ("clflush", Did::Store, Some(Flush::Clflush)),
        ("nt", Did::NonTemporal, None),
    ] {
        for (target, share) in targets {
            let writer = format!(
                "name = 'victim'\ntask = {{ workload = 'write', instruction = '{name}', block = \
                 '4KiB', size = '1MiB', {target} }}"
            );
            let player = format!(
                "name = 'victim'\ntask = {{ workload = 'trace', file = '{FILE}', {target} }}\n\
                 cpus = '0'"
            );
            // Long enough for several stalls of a DIMM.
            let alone = |role: &str| {
                let mut wanted = experiment(&[role], ALONE);
                wanted.measure.window = Span::ms(100);
                wanted
            };
            let line = ns(&run(&xeon, &alone(&writer)), 0);
            let recorded = blocks(did, flush);
            let lines = 256.0 * 64.0 / recorded.events() as f64;
            let event = ns(&played(&xeon, &alone(&player), recorded), 0);
            near(event / lines, line, share);
        }
    }
}

#[test]
fn flushes_are_by_the_instruction_that_is_asked_for_and_left_out_where_none_is_needed() {
    let cost = |text: &Description, flush: &str| {
        let task = format!(
            "name = 'victim'\ntask = {{ workload = 'trace', file = '{FILE}', {TARGET}, flush = \
             '{flush}' }}"
        );
        let recorded = blocks(Did::Store, Some(Flush::Clwb));
        ns(&played(text, &experiment(&[&task], ALONE), recorded), 0)
    };
    let volatile = machine(XEON, &[]);
    let survives = machine(XEON, &[("[processor]\n", "[processor]\neadr = true\n")]);
    let recorded = cost(&volatile, "recorded");
    near(cost(&volatile, "clwb"), recorded, 0.01);
    near(cost(&volatile, "as-needed"), recorded, 0.01);
    near(cost(&survives, "recorded"), recorded, 0.01);
    near(cost(&survives, "as-needed"), cost(&volatile, "none"), 0.0001);
    assert!(cost(&volatile, "clflush") > 1.5 * recorded);
    assert!(cost(&survives, "as-needed") < 0.5 * recorded);
}

// Each thread stores to lines of its own, and flushes and fences each.
fn threads(count: u32, apart: u64) -> Recorded {
    let mut recorded = Recorded::default();
    for line in 0..2048u64 {
        for thread in 1..=count {
            let offset = u64::from(thread) * apart + line % 1024 * 64;
            recorded.push(thread, Did::Store, at(offset, 8)).unwrap();
            recorded.push(thread, Did::Flush(Flush::Clwb), at(offset, 64)).unwrap();
            recorded.push(thread, Did::Sfence, None).unwrap();
        }
    }
    recorded
}

#[test]
fn threads_that_share_no_line_go_on_beside_each_other_where_they_have_cpus() {
    let xeon = machine(XEON, &[]);
    let cost = |count: u32, cpus: &str| {
        let wanted = experiment(&[&victim(&format!("cpus = '{cpus}'"))], ALONE);
        let samples = played(&xeon, &wanted, threads(count, 1 << 20));
        assert_eq!(samples.len(), 2, "one sample a window, whatever the CPUs");
        ns(&samples, 0)
    };
    let one = cost(1, "0");
    // In turn on one CPU, at once on two; a CPU for which there is no thread stays idle.
    let (in_turn, at_once, idle) = (cost(2, "0"), cost(2, "0-1"), cost(2, "0-3"));
    assert!(in_turn > 0.9 * one, "{in_turn} and {one}");
    near(at_once, one / 2.0, 0.1);
    near(idle, at_once, 0.01);
}

#[test]
fn threads_keep_the_recorded_order_where_they_touch_the_same_line() {
    let xeon = machine(XEON, &[]);
    let cost = |flag: u64| {
        let mut recorded = Recorded::default();
        let mut durable = |thread: u32, line: u64| {
            let offset = (u64::from(thread) << 20) + line % 1024 * 64;
            recorded.push(thread, Did::Store, at(offset, 8)).unwrap();
            recorded.push(thread, Did::Flush(Flush::Clwb), at(offset, 64)).unwrap();
            recorded.push(thread, Did::Sfence, None).unwrap();
        };
        // Both have begun; then one does all its work, and the other does its own.
        durable(2, 0);
        (0..2048).for_each(|line| durable(1, line));
        recorded.push(1, Did::Store, at(0, 8)).unwrap();
        recorded.push(2, Did::Store, at(flag, 8)).unwrap();
        let mut durable = |line: u64| {
            let offset = (2 << 20) + line % 1024 * 64;
            recorded.push(2, Did::Store, at(offset, 8)).unwrap();
            recorded.push(2, Did::Flush(Flush::Clwb), at(offset, 64)).unwrap();
            recorded.push(2, Did::Sfence, None).unwrap();
        };
        (0..2048).for_each(&mut durable);
        ns(&played(&xeon, &experiment(&[&victim("cpus = '0-1'")], ALONE), recorded), 0)
    };
    // The one waits for a line of the other's, or for none.
    let (waits, does_not) = (cost(0), cost(64));
    near(waits / does_not, 2.0, 0.1);
}

#[test]
fn a_neighbour_slows_a_recorded_program_and_is_slowed_by_it() {
    let xeon = machine(XEON, &[]);
    let writer = format!(
        "name = 'other'\ntask = {{ workload = 'write', instruction = 'nt', block = '4KiB', size = \
         '64MiB', {TARGET} }}\ncpus = '1-12'\ncount = 12"
    );
    let wanted = experiment(&[&victim("cpus = '0'"), &writer], &format!("{ALONE}{BESIDE}"));
    let samples = played(&xeon, &wanted, blocks(Did::NonTemporal, None));
    assert!(ns(&samples, 1) > 1.5 * ns(&samples, 0), "{} and {}", ns(&samples, 1), ns(&samples, 0));
}

#[test]
fn loads_that_depend_on_each_other_take_longer() {
    let xeon = machine(XEON, &[]);
    let cost = |loads: &str| {
        let mut recorded = Recorded::default();
        // Far apart, so that none is fetched ahead.
        (0..8192u64).for_each(|line| {
            recorded.push(1, Did::Load, at(line * 7919 % 65536 * 4096, 8)).unwrap()
        });
        recorded.push(1, Did::Store, at(0, 8)).unwrap();
        let task = format!(
            "name = 'victim'\ntask = {{ workload = 'trace', file = '{FILE}', {TARGET}, loads = \
             '{loads}' }}"
        );
        ns(&played(&xeon, &experiment(&[&task], ALONE), recorded), 0)
    };
    let (apart, chained) = (cost("independent"), cost("dependent"));
    assert!(chained > 3.0 * apart, "{chained} and {apart}");
}

#[test]
fn what_cannot_be_played_is_not_run_and_says_why() {
    let reason = |name: &str, rest: &str, recordings: &Recordings| {
        let description = machine(name, &[]);
        let role = format!(
            "name = 'victim'\ntask = {{ workload = 'trace', file = '{FILE}'{rest} }}\ncpus = '0'"
        );
        let plan = plan_with(
            recordings,
            &experiment(&[&role], ALONE),
            &description,
            &description.machine(),
        )
        .unwrap();
        plan.nothing_to_measure().unwrap()
    };
    assert!(reason(XEON, "", &Recordings::default()).contains("was not read"));
    let mut recordings = Recordings::default();
    recordings.add(Path::new(FILE), blocks(Did::Store, Some(Flush::Clwb)));
    let lacks = reason("goldmont-j3455", "", &recordings);
    assert!(lacks.contains("would flush by clwb, which the described processor lacks"), "{lacks}");
    assert!(
        reason("laptop", ", target = 'dax:/mnt/pmem0'", &recordings)
            .contains("has no dax:/mnt/pmem0")
    );
    // A plan that is made without recordings.
    let description = machine(XEON, &[]);
    let program =
        experiment(&["name = 'victim'\ntask = { workload = 'command', run = 'true' }"], ALONE);
    let why =
        plan(&program, &description, &description.machine()).unwrap().nothing_to_measure().unwrap();
    assert!(
        why.contains("programs are not simulated, but for what 'ringfence trace' recorded"),
        "{why}"
    );
}
