//! What a description plants comes out of plans that run on it, through the runner that measures real machines.

mod support;

use std::sync::atomic::AtomicBool;

use ringfence_engine::runner;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::sample::Sample;
use ringfence_simulated::{Description, SimulatedEngine, TrialsAtOnce, plan};
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
        format!("task = {{ workload = 'write', instruction = 'none', size = '128MiB' }}\ncpus = '{cpu}'")
    };
    let here = slowdown(&epyc, victim, &writer(1));
    let there = slowdown(&epyc, victim, &writer(epyc.parts.topology.cores_per_llc));
    assert!(here > 1.1, "{here}");
    assert!(there < 1.05 && there < here, "{there}");
}

// Whatever ran before, a victim cache that adapts included.
#[test]
fn who_is_alone_again_is_as_fast_as_before() {
    let roles = [
        "name = 'victim'\ntask = { workload = 'chase', footprint = '4MiB' }\ncpus = '0'",
        "name = 'other'\ntask = { workload = 'write', instruction = 'none', size = '128MiB' }\ncpus = '1'",
    ];
    for inclusion in ["victim", "non-inclusive"] {
        let machine =
            machine("laptop", &[("inclusion = \"non-inclusive\"", &format!("inclusion = \"{inclusion}\""))]);
        let samples = run(&machine, &experiment(&roles, &format!("{ALONE}{BESIDE}")));
        let alone = samples.iter().filter(|sample| sample.case == 0);
        let ns: Vec<f64> = alone.map(|sample| sample.busy_ns as f64 / sample.units as f64).collect();
        let (least, most) =
            (ns.iter().copied().fold(f64::MAX, f64::min), ns.iter().copied().fold(0.0, f64::max));
        assert!(ns.len() == 2 && most / least < 1.1, "{inclusion}: {ns:?}");
    }
}

#[test]
fn media_that_write_half_as_fast_take_twice_as_long() {
    let writer = |target: &str| {
        format!(
            "name = 'victim'\ntask = {{ workload = 'write', instruction = 'nt', block = '1MiB', size = '64MiB', target = '{target}' }}\ncount = 6"
        )
    };
    let cost = |description: &Description, target: &str| {
        ns(&run(description, &experiment(&[&writer(target)], ALONE)), 0)
    };
    let as_it_is = machine("cascade-lake-optane", &[]);
    let line = as_it_is.text.lines().find(|line| line.starts_with("media_write_gb_per_s")).unwrap();
    let rate: f64 = line.split('=').nth(1).unwrap().trim().parse().unwrap();
    let slow = machine("cascade-lake-optane", &[(line, &format!("media_write_gb_per_s = {}", rate / 2.0))]);
    let optane = "dax:/mnt/pmem0";
    near(cost(&slow, optane) / cost(&as_it_is, optane), 2.0, 0.1);
    near(cost(&slow, "dram") / cost(&as_it_is, "dram"), 1.0, 0.0001);
}

#[test]
fn lines_that_are_cold_are_fetched_in_the_measured_time() {
    let write = |line: &str| {
        format!(
            "name = 'victim'\ntask = {{ workload = 'write', instruction = 'none', fence_at = 'block', block = '64B', size = '1MiB', line = '{line}' }}"
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
    let chase = "name = 'victim'\ntask = { workload = 'chase', footprint = '16KiB', histogram = true }";
    let laptop = machine("laptop", &[]);
    for sample in run(&laptop, &experiment(&[chase], ALONE)) {
        let latencies = sample.latencies.unwrap();
        assert!(latencies.total().abs_diff(sample.units) <= 1, "{} of {}", latencies.total(), sample.units);
    }
    assert!(ns(&run(&laptop, &experiment(&[chase], ALONE)), 0) < 3.0 * laptop.parts.l1.latency_ns);
    let scale = laptop.scale();
    assert!(scale.hit_ns < scale.miss_ns && scale.threshold_ns().is_some());
}

#[test]
fn a_paced_writer_keeps_its_pace() {
    let writer = "name = 'victim'\ntask = { workload = 'write', instruction = 'nt', pace = '100MiB/s', size = '16MiB' }";
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
        "name = 'other'\ntask = { workload = 'write', instruction = ['clwb', 'nt'], size = '64MiB' }",
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
        found.not_run.first().map(|not_run| not_run.reason.clone()).unwrap_or_default()
    };
    for (task, said) in [
        (
            "task = { workload = 'ring', target = 'tmpfs:/dev/shm' }",
            "the described machine has no tmpfs:/dev/shm",
        ),
        (
            "task = { workload = 'read', memory = 'locked:/dev/pseudo_lock/a', interval = '0ms' }",
            "pseudo-locked regions are not simulated",
        ),
        ("task = { workload = 'command', run = 'true' }", "programs are not simulated"),
        (
            "task = { workload = 'write', target = 'dax:/mnt/pmem0' }",
            "the described machine has no dax:/mnt/pmem0",
        ),
        ("task = { workload = 'write', target = 'file:/tmp/x' }", "the described machine has no file:/tmp/x"),
        ("task = { workload = 'write', prefault = false }", "page faults are not simulated"),
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
    let shared = plan(&experiment(&roles, &format!("{ALONE}{BESIDE}")), &laptop, &laptop.machine()).unwrap();
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

// A laptop whose last level is small, so that it fills soon, and has classes. By LRU what it holds does not depend on
// what ran before.
fn with_classes(processor: &str) -> Description {
    let sources = "[sources]\n\"processor.classes\" = \"planted\"\n";
    machine(
        "laptop",
        &[
            ("bandwidth_control = false\n", processor),
            ("size_kib = 1280\nways = 20", "size_kib = 80\nways = 20"),
            (
                "size_kib = 12288\nways = 12\nlatency_ns = 11.0\nreplacement = \"drrip\"",
                "size_kib = 768\nways = 12\nlatency_ns = 11.0\nreplacement = \"lru\"",
            ),
            ("[sources]\n", sources),
        ],
    )
}

const CLASSES: &str = "classes = 4\nbandwidth_control = true\n";
// Half of the last level, in eight times what the second holds.
const SMALL: &str = "name = 'victim'\ntask = { workload = 'chase', footprint = '384KiB' }\ncpus = '0'";
const STREAM: &str = "name = 'other'\ntask = { workload = 'stream', size = '16MiB' }\ncpus = '1'";

// Beside the stream as it is, and with what each table says; after which nothing is set again.
fn isolated(tables: &[&str]) -> String {
    let arm = |(number, table): (usize, &&str)| {
        format!(
            "[[arm]]\nname = 'set {number}'\nactive = ['victim', 'other']\nbaseline = 'alone'\nresctrl = {{ {table} }}\n"
        )
    };
    format!("{ALONE}{BESIDE}{}", tables.iter().enumerate().map(arm).collect::<String>())
}

fn units(samples: &[Sample], case: u32, role: &str) -> f64 {
    let of_role = || samples.iter().filter(|sample| sample.case == case && &*sample.role == role);
    of_role().map(|sample| sample.units).sum::<u64>() as f64
        / of_role().map(|sample| sample.busy_ns).sum::<u64>() as f64
}

#[test]
fn ways_of_its_own_bring_a_victim_back_and_all_ways_do_nothing() {
    let laptop = with_classes(CLASSES);
    let arms =
        isolated(&["victim = 'L3:0=0ff', other = 'L3:0=f00'", "victim = 'L3:0=fff', other = 'L3:0=fff'"]);
    let samples = run(&laptop, &experiment(&[SMALL, STREAM], &arms));
    let [alone, beside, apart, all] = [0, 1, 2, 3].map(|case| ns(&samples, case));
    assert!(beside > 1.5 * alone, "{beside} beside, {alone} alone");
    // Eight of twelve ways are 512 KiB.
    assert!(apart - alone < 0.1 * (beside - alone), "{apart} apart, {beside} beside, {alone} alone");
    near(all, beside, 0.05);
}

#[test]
fn full_masks_are_as_no_classes() {
    let laptop = with_classes(CLASSES);
    let arms = |table: &str| {
        let sets = if table.is_empty() { String::new() } else { format!("resctrl = {{ {table} }}\n") };
        format!("{ALONE}[[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = 'alone'\n{sets}")
    };
    let figures = |table: &str| run(&laptop, &experiment(&[SMALL, STREAM], &arms(table)));
    let without = figures("");
    assert_eq!(without, figures("victim = 'L3:0=fff', '/' = \"L3:0=fff\\nMB:0=100\""));
}

#[test]
fn a_limit_slows_whom_it_limits_and_relieves_the_victim() {
    let intel = with_classes(CLASSES);
    let samples =
        run(&intel, &experiment(&[SMALL, STREAM], &isolated(&["other = 'MB:0=45'", "other = 'MB:0=10'"])));
    let stream = [1, 2, 3].map(|case| units(&samples, case, "other"));
    // Amounts are rounded up to steps: 45 % are 50 %. A line in so many ns, by what the description says of DRAM.
    let lines_per_ns = f64::from(intel.parts.core.fill_buffers) / intel.scale().miss_ns;
    let bytes = |share: f64| share * lines_per_ns * 64.0;
    let rate = |case: u32| {
        let of_it = samples.iter().filter(|sample| sample.case == case && &*sample.role == "other");
        let (bytes, ns) = of_it.fold((0, 0), |(bytes, ns), one| (bytes + one.units, ns + one.length_ns));
        bytes as f64 / ns as f64
    };
    near(rate(3), bytes(0.1), 0.02);
    assert!(
        rate(2) <= bytes(0.5) * 1.001 && rate(2) >= 0.9 * bytes(0.5).min(rate(1)),
        "{} {}",
        rate(2),
        rate(1)
    );
    assert!(stream[0] >= stream[1] && stream[1] > stream[2], "{stream:?}");
    let [beside, gentle] = [1, 3].map(|case| ns(&samples, case));
    assert!(gentle < 0.5 * beside, "{gentle} limited, {beside} beside");
}

#[test]
fn amds_limit_is_of_what_a_cache_reads_from_memory() {
    let epyc = machine("zen3-epyc", &[]);
    let roles = [
        "name = 'victim'\ntask = { workload = 'stream', size = '128MiB' }\ncpus = '0'",
        "name = 'other'\ntask = { workload = 'chase', footprint = '4MiB' }\ncpus = '1'",
    ];
    // Eight eighths of a GB/s, as resctrl counts them.
    let arms = format!(
        "{ALONE}[[arm]]\nname = 'limited'\nactive = ['victim', 'other']\nbaseline = 'alone'\nresctrl = {{ victim = 'MB:0=8', other = 'MB:0=8' }}\n"
    );
    let samples = run(&epyc, &experiment(&roles, &arms));
    let of_case = |role: &str, case: u32| {
        let of_it = samples.iter().filter(move |sample| sample.case == case && &*sample.role == role);
        of_it.fold((0, 0), |(units, ns), one| (units + one.units, ns + one.length_ns))
    };
    let bytes = samples
        .iter()
        .filter(|one| one.case == 1 && &*one.role == "victim")
        .map(|one| one.units)
        .sum::<u64>();
    near(bytes as f64 / of_case("victim", 1).1 as f64, f64::from(1 << 30) / 1e9, 0.02);
    // What the cache answers is not limited: a load takes what the last level takes.
    let (loads, ns) = of_case("other", 1);
    assert!((ns as f64 / loads as f64) < 2.0 * epyc.parts.llc.latency_ns, "{loads} in {ns} ns");
}

#[test]
fn what_a_machine_does_not_share_out_is_not_run() {
    let why = |description: &Description, table: &str| {
        let experiment = experiment(&[SMALL, STREAM], &isolated(&[table]));
        let plan = plan(&experiment, description, &description.machine()).unwrap();
        plan.not_run.first().map(|not_run| not_run.reason.clone()).unwrap_or_default()
    };
    let none = machine("laptop", &[]);
    assert!(why(&none, "victim = 'L3:0=f'").contains("no RDT"), "{}", why(&none, "victim = 'L3:0=f'"));
    let ways = with_classes("classes = 2\nbandwidth_control = false\n");
    assert_eq!(why(&ways, "victim = 'L3:0=f'"), "");
    for (table, part) in [
        ("victim = 'MB:0=50'", "shares out no MB:0; what there is: L3:0=fff"),
        ("victim = 'L2:0=f'", "shares out no L2:0"),
        ("victim = 'L3CODE:0=f'", "shares out no L3CODE:0"),
        ("victim = 'L3:1=f'", "shares out no L3:1"),
        ("victim = 'L3:0=1fff'", "has bits beyond fff"),
        ("victim = 'L3:0=f0f'", "has gaps"),
        ("victim = 'L3:0=f', other = 'L3:0=ff0'", "takes 3 groups, and the described processor has 2"),
        ("'/web' = 'L3:0=f'", "no group 'web'"),
    ] {
        assert!(why(&ways, table).contains(part), "{table}: {}", why(&ways, table));
    }
    let limits = with_classes(CLASSES);
    assert!(why(&limits, "other = 'MB:0=5'").contains("is not from 10 to 100"));
}

#[test]
fn trials_at_once_are_those_one_after_the_other() {
    let laptop = machine("laptop", &[]);
    let roles = [
        "name = 'victim'\ntask = { workload = 'chase', footprint = '256KiB' }\ncpus = '0'",
        "name = 'other'\ntask = { workload = 'write', instruction = ['none', 'clwb'], size = '1MiB' }\ncpus = '1'",
    ];
    let mut experiment = experiment(&roles, &format!("{ALONE}{BESIDE}"));
    experiment.measure.looks = vec![5];
    let plan = plan(&experiment, &laptop, &laptop.machine()).unwrap();
    let stop = AtomicBool::new(false);
    let mut alone = SimulatedEngine::new(&plan, &laptop, &stop);
    let expected = runner::run(&plan, &mut alone, &stop, &mut Nobody).unwrap();
    for threads in [1, 2, 3, 9] {
        let mut engine = TrialsAtOnce::new(&plan, &laptop, &stop, threads);
        assert_eq!(runner::run(&plan, &mut engine, &stop, &mut Nobody).unwrap(), expected, "{threads}");
        assert_eq!(ringfence_engine::Engine::elapsed(&engine), ringfence_engine::Engine::elapsed(&alone));
    }
    // What was asked to stop stops, and hands out no half of a trial.
    let stop = AtomicBool::new(true);
    let mut engine = TrialsAtOnce::new(&plan, &laptop, &stop, 2);
    match runner::run(&plan, &mut engine, &stop, &mut Nobody) {
        Ok((samples, ended)) => assert!(samples.is_empty() && ended == Ended::Interrupted),
        Err(error) => assert!(matches!(error, ringfence_engine::EngineError::Interrupted), "{error}"),
    }
}
