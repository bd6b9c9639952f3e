//! What a description plants comes out of plans that run on it, through the runner that measures
//! real machines.

mod support;

use std::sync::atomic::AtomicBool;

use ringfence_engine::runner;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::units::Span;
use ringfence_simulator::{Description, SimulatedEngine, TrialsAtOnce, plan};
use support::{ALONE, BESIDE, Nobody, experiment, machine, near, ns, run, slowdown};

#[test]
fn siblings_that_multiply_take_as_much_longer_as_their_ports_are_shared() {
    let alu = "task = { workload = 'alu' }\ncpus = '0'";
    let sibling = "task = { workload = 'alu' }\ncpus = '4'";
    let other_core = "task = { workload = 'alu' }\ncpus = '1'";
    let shared = |share: &str| {
        let laptop = machine("laptop", &[]);
        let line = laptop.text.lines().find(|line| line.starts_with("compute_share")).unwrap();
        machine("laptop", &[(line, &format!("compute_share = {share}"))])
    };
    near(slowdown(&shared("1.0"), alu, sibling), 2.0, 0.01);
    near(slowdown(&shared("0.75"), alu, sibling), 1.5, 0.02);
    near(slowdown(&shared("0.5"), alu, sibling), 1.0, 0.01);
    near(slowdown(&shared("1.0"), alu, other_core), 1.0, 0.0001);
}

#[test]
fn a_writer_takes_cache_from_whom_it_shares_it_with() {
    let epyc = machine("zen3-epyc", &[]);
    let victim = "task = { workload = 'chase', footprint = '8MiB' }\ncpus = '0'";
    let writer = |cpu: u32| {
        format!(
            "task = {{ workload = 'write', instruction = 'none', size = '128MiB' }}\ncpus = '{cpu}'"
        )
    };
    let here = slowdown(&epyc, victim, &writer(1));
    let there = slowdown(&epyc, victim, &writer(epyc.parts.topology.cores_per_llc));
    assert!(here > 1.1, "{here}");
    assert!(there < 1.05 && there < here, "{there}");
}

#[test]
fn writers_have_memory_of_their_own_and_share_a_device() {
    let writer = |target: &str, cpu: u32| {
        format!(
            "task = {{ workload = 'write', instruction = 'none', size = '64KiB', target = \
             '{target}' }}\ncpus = '{cpu}'"
        )
    };
    let optane = machine("cascade-lake-optane", &[]);
    let beside = |target| slowdown(&optane, &writer(target, 0), &writer(target, 1));
    near(beside("dram"), 1.0, 0.01);
    near(beside("dax:/mnt/pmem0"), 1.0, 0.01);
    let device = machine(
        "cascade-lake-optane",
        &[("target = \"dax:/mnt/pmem0\"", "target = \"devdax:/dev/dax0.0\"")],
    );
    let shared =
        slowdown(&device, &writer("devdax:/dev/dax0.0", 0), &writer("devdax:/dev/dax0.0", 1));
    assert!(shared > 1.5, "{shared}");
}

// Whatever ran before, a victim cache that adapts included.
#[test]
fn who_is_alone_again_is_as_fast_as_before() {
    let roles = [
        "name = 'victim'\ntask = { workload = 'chase', footprint = '4MiB' }\ncpus = '0'",
        "name = 'other'\ntask = \
         { workload = 'write', instruction = 'none', size = '128MiB' }\ncpus = '1'",
    ];
    for inclusion in ["victim", "non-inclusive"] {
        let machine = machine(
            "laptop",
            &[("inclusion = \"non-inclusive\"", &format!("inclusion = \"{inclusion}\""))],
        );
        let samples = run(&machine, &experiment(&roles, &format!("{ALONE}{BESIDE}")));
        let alone = samples.iter().filter(|sample| sample.case == 0);
        let ns: Vec<f64> =
            alone.map(|sample| sample.busy_ns as f64 / sample.units as f64).collect();
        let (least, most) =
            (ns.iter().copied().fold(f64::MAX, f64::min), ns.iter().copied().fold(0.0, f64::max));
        assert!(ns.len() == 2 && most / least < 1.1, "{inclusion}: {ns:?}");
    }
}

// Adaptive replacement has two states here, and goes from one to the other within a tenth of a
// second. What begins in neither of them, and is left until it has settled, is as fast as after any
// time.
#[test]
fn a_window_finds_what_a_longer_wait_finds() {
    let machine = machine("cascade-lake-optane", &[]);
    let roles = [
        "name = 'victim'\ntask = { workload = 'chase', footprint = '2MiB' }\ncpus = '0'",
        "name = 'other'\ntask = { workload = 'write', instruction = 'none' }\ncpus = '1'",
    ];
    let beside = |settle| {
        let mut experiment = experiment(&roles, &format!("{ALONE}{BESIDE}"));
        experiment.measure.settle = Span::ms(settle);
        ns(&run(&machine, &experiment), 1)
    };
    near(beside(50), beside(2000), 0.02);
}

#[test]
fn media_that_write_half_as_fast_take_twice_as_long() {
    let writer = |target: &str| {
        format!(
            "name = 'victim'\ntask = {{ workload = 'write', instruction = 'nt', block = '1MiB', \
             size = '64MiB', target = '{target}' }}\ncount = 6"
        )
    };
    let cost = |description: &Description, target: &str| {
        ns(&run(description, &experiment(&[&writer(target)], ALONE)), 0)
    };
    let as_it_is = machine("cascade-lake-optane", &[]);
    let line = as_it_is.text.lines().find(|line| line.starts_with("media_write_gb_per_s")).unwrap();
    let rate: f64 = line.split('=').nth(1).unwrap().trim().parse().unwrap();
    let slow = machine(
        "cascade-lake-optane",
        &[(line, &format!("media_write_gb_per_s = {}", rate / 2.0))],
    );
    let optane = "dax:/mnt/pmem0";
    near(cost(&slow, optane) / cost(&as_it_is, optane), 2.0, 0.1);
    near(cost(&slow, "dram") / cost(&as_it_is, "dram"), 1.0, 0.0001);
}

#[test]
fn lines_that_are_cold_are_fetched_in_the_measured_time() {
    let write = |line: &str| {
        format!(
            "name = 'victim'\ntask = {{ workload = 'write', instruction = 'none', fence_at = \
             'block', block = '64B', size = '1MiB', line = '{line}' }}"
        )
    };
    let laptop = machine("laptop", &[]);
    let cost = |line: &str| run(&laptop, &experiment(&[&write(line)], ALONE));
    let (warm, cold) = (cost("warm"), cost("cold"));
    assert!(ns(&cold, 0) > 10.0 * ns(&warm, 0), "{} and {}", ns(&cold, 0), ns(&warm, 0));
    // What prepares them is not in it.
    assert!(cold.iter().all(|sample| sample.busy_ns < sample.length_ns));
}

#[test]
fn latencies_that_are_counted_are_those_of_the_level() {
    let chase =
        "name = 'victim'\ntask = { workload = 'chase', footprint = '16KiB', histogram = true }";
    let laptop = machine("laptop", &[]);
    for sample in run(&laptop, &experiment(&[chase], ALONE)) {
        let latencies = sample.latencies.unwrap();
        assert!(
            latencies.total().abs_diff(sample.units) <= 1,
            "{} of {}",
            latencies.total(),
            sample.units
        );
    }
    assert!(ns(&run(&laptop, &experiment(&[chase], ALONE)), 0) < 3.0 * laptop.parts.l1.latency_ns);
    let scale = laptop.scale();
    assert!(scale.hit_ns < scale.miss_ns && scale.threshold_ns().is_some());
}

#[test]
fn a_paced_writer_keeps_its_pace() {
    let writer = "name = 'victim'\ntask = \
                  { workload = 'write', instruction = 'nt', pace = '100MiB/s', size = '16MiB' }";
    near(
        ns(&run(&machine("laptop", &[]), &experiment(&[writer], ALONE)), 0),
        64e9 / (100.0 * 1048576.0),
        0.05,
    );
}

#[test]
fn equal_seeds_give_equal_samples_and_others_do_not() {
    let laptop = machine("laptop", &[]);
    let roles = [
        "name = 'victim'\ntask = { workload = 'chase', footprint = '1MiB' }",
        "name = 'other'\ntask = \
         { workload = 'write', instruction = ['clwb', 'nt'], size = '4MiB' }",
    ];
    let mut wanted = experiment(&roles, &format!("{ALONE}{BESIDE}"));
    let (one, again) = (run(&laptop, &wanted), run(&laptop, &wanted));
    assert_eq!(one, again);
    wanted.seed += 1;
    assert_ne!(one, run(&laptop, &wanted));
}

#[test]
fn what_is_not_simulated_is_not_run_and_says_why() {
    let laptop = machine("laptop", &[]);
    let reason = |role: &str| {
        let wanted = experiment(&[&format!("name = 'victim'\n{role}")], ALONE);
        let found = plan(&wanted, &laptop, &laptop.machine()).unwrap();
        found.not_run.first().map(|not_run| not_run.reason.to_string()).unwrap_or_default()
    };
    for (task, said) in [
        (
            "task = { workload = 'ring', target = 'tmpfs:/dev/shm' }",
            "the described machine has no tmpfs:/dev/shm",
        ),
        (
            "task = { workload = 'read', memory = 'locked:/dev/pseudo_lock/a', interval = '0ms' }",
            "does not lock regions",
        ),
        ("task = { workload = 'command', run = 'true' }", "programs are not simulated"),
        (
            "task = { workload = 'write', target = 'dax:/mnt/pmem0' }",
            "the described machine has no dax:/mnt/pmem0",
        ),
        (
            "task = { workload = 'write', target = 'file:/tmp/x' }",
            "the described machine has no file:/tmp/x",
        ),
        ("task = { workload = 'write', prefault = false }", "page faults are not simulated"),
        ("task = { workload = 'write', width = ['sse2', 'avx2'] }", "widths cannot be compared"),
        ("task = { workload = 'write', width = 'avx2' }", ""),
        ("task = { workload = 'alu' }\ncount = 9", "9 cores"),
        ("task = { workload = 'idle' }", ""),
    ] {
        let found = reason(task);
        assert!(found.contains(said) && found.is_empty() == said.is_empty(), "{task}: {found}");
    }
    let roles = [
        "name = 'victim'\ntask = { workload = 'alu' }\ncpus = '0'",
        "name = 'other'\ntask = { workload = 'alu' }\ncpus = '0'",
    ];
    let shared =
        plan(&experiment(&roles, &format!("{ALONE}{BESIDE}")), &laptop, &laptop.machine()).unwrap();
    assert!(shared.not_run[0].reason.contains("would share CPU 0"), "{:?}", shared.not_run);
}

#[test]
fn a_run_that_is_stopped_ends_as_one() {
    let (laptop, stop) = (machine("laptop", &[]), AtomicBool::new(true));
    let wanted = experiment(&["name = 'victim'\ntask = { workload = 'alu' }"], ALONE);
    let plan = plan(&wanted, &laptop, &laptop.machine()).unwrap();
    let mut engine = SimulatedEngine::new(&plan, &laptop, &stop);
    let (samples, ended) = runner::run(&plan, &mut engine, &stop, &mut Nobody).unwrap();
    assert!(samples.is_empty() && ended == Ended::Interrupted);
}

#[test]
fn trials_at_once_are_those_one_after_the_other() {
    let laptop = machine("laptop", &[]);
    let roles = [
        "name = 'victim'\ntask = { workload = 'chase', footprint = '256KiB' }\ncpus = '0'",
        "name = 'other'\ntask = \
         { workload = 'write', instruction = ['none', 'clwb'], size = '1MiB' }\ncpus = '1'",
    ];
    let mut experiment = experiment(&roles, &format!("{ALONE}{BESIDE}"));
    experiment.measure.looks = vec![5];
    let plan = plan(&experiment, &laptop, &laptop.machine()).unwrap();
    let stop = AtomicBool::new(false);
    let mut alone = SimulatedEngine::new(&plan, &laptop, &stop);
    let expected = runner::run(&plan, &mut alone, &stop, &mut Nobody).unwrap();
    for threads in [1, 2, 3, 9] {
        let mut engine = TrialsAtOnce::new(&plan, &laptop, &stop, threads);
        assert_eq!(
            runner::run(&plan, &mut engine, &stop, &mut Nobody).unwrap(),
            expected,
            "{threads}"
        );
        assert_eq!(
            ringfence_engine::Engine::elapsed(&engine),
            ringfence_engine::Engine::elapsed(&alone)
        );
    }
    // What was asked to stop stops, and hands out no half of a trial.
    let stop = AtomicBool::new(true);
    let mut engine = TrialsAtOnce::new(&plan, &laptop, &stop, 2);
    match runner::run(&plan, &mut engine, &stop, &mut Nobody) {
        Ok((samples, ended)) => assert!(samples.is_empty() && ended == Ended::Interrupted),
        Err(error) => {
            assert_eq!(error, ringfence_experiment::Error::interrupted())
        }
    }
}
