//! The tasks on described machines: each parameter that is a task's mechanism changes what the
//! mechanism says.

mod support;

use support::{ALONE, BESIDE, experiment, machine, near, ns, run, slowdown};

fn alone(machine: &ringfence_simulator::Description, task: &str) -> f64 {
    ns(&run(machine, &experiment(&[&format!("name = 'victim'\n{task}")], ALONE)), 0)
}

#[test]
fn reads_take_as_long_as_the_level_that_answers() {
    let laptop = machine("laptop", &[]);
    let read = |rest: &str| {
        alone(
            &laptop,
            &format!("task = {{ workload = 'read', size = '16KiB', interval = '0ms', {rest} }}"),
        )
    };
    let scale = laptop.scale();
    // Reads are timed with what they take of the ports, and what waits for them.
    let ports = 3.0 * laptop.parts.core.issue.load_ns;
    let (hit, miss) = (read("access = '64B'"), read("access = '64B', flush = 'clflush'"));
    assert!(hit >= scale.hit_ns && hit <= scale.hit_ns + ports, "{hit} and {scale:?}");
    assert!(miss >= scale.miss_ns && miss <= scale.miss_ns + ports, "{miss} and {scale:?}");
    // Of two reads of a line one finds it in the cache.
    near(read("access = '32B', flush = 'clflush'"), (hit + miss) / 2.0, 0.01);
    near(read("access = '32B', flush = 'clflush', dirty = true"), (hit + miss) / 2.0, 0.01);
}

#[test]
fn what_is_read_is_what_is_timed_and_sleep_is_not() {
    let laptop = machine("laptop", &[]);
    let task = "name = 'victim'\ntask = \
                { workload = 'read', size = '16KiB', interval = '20ms', preload = true }";
    let mut wanted = experiment(&[task], ALONE);
    wanted.measure.window = ringfence_experiment::units::Span::ms(25);
    for sample in run(&laptop, &wanted) {
        let latencies = sample.latencies.clone().unwrap();
        assert!(sample.units >= 512 && latencies.total() == sample.units, "{} reads", sample.units);
        assert!(sample.length_ns > 1_000_000 && sample.busy_ns < 40 * sample.units, "{sample:?}");
    }
}

#[test]
fn sleep_gives_a_neighbour_time_to_evict_what_was_read() {
    // Two last-level caches of 1 MiB, two cores below each.
    let goldmont = machine("goldmont-j3455", &[]);
    let slowdown = |cpu: u32| {
        let roles = [
            "name = 'victim'\ntask = \
             { workload = 'read', size = '256KiB', access = '64B', interval = '40ms' }\ncpus = '0'",
            &format!(
                "name = 'other'\ntask = {{ workload = 'stream', size = '6MiB' }}\ncpus = '{cpu}'"
            ),
        ];
        let mut wanted = experiment(&roles, &format!("{ALONE}{BESIDE}"));
        wanted.measure.window = ringfence_experiment::units::Span::ms(45);
        let samples = run(&goldmont, &wanted);
        ns(&samples, 1) / ns(&samples, 0)
    };
    let (here, there) = (slowdown(1), slowdown(2));
    assert!(here > 1.5 && there < 1.2, "{here} and {there}");
}

const MCF: &str = "task = { workload = 'mcf', footprint = '1MiB' }\ncpus = '0'";

#[test]
fn the_network_simplex_is_slower_the_farther_its_lines_are() {
    let goldmont = machine("goldmont-j3455", &[]);
    let ours = format!("size_kib = {}", goldmont.parts.llc.size_kib);
    let smaller = machine("goldmont-j3455", &[(&*ours, "size_kib = 256")]);
    let (fits, misses) = (alone(&goldmont, MCF), alone(&smaller, MCF));
    assert!(misses > 1.3 * fits, "{misses} and {fits} ns an arc");
    let stream =
        |cpu: u32| format!("task = {{ workload = 'stream', size = '6MiB' }}\ncpus = '{cpu}'");
    let (here, there) =
        (slowdown(&goldmont, MCF, &stream(1)), slowdown(&goldmont, MCF, &stream(2)));
    assert!(here > 1.2 && here > 1.1 * there, "{here} and {there}");
}

#[test]
fn equal_seeds_solve_alike_and_trials_begin_elsewhere() {
    let laptop = machine("laptop", &[]);
    let mut wanted = experiment(&[&format!("name = 'victim'\n{MCF}")], ALONE);
    let one = run(&laptop, &wanted);
    assert_eq!(one, run(&laptop, &wanted));
    assert!(one.len() == 2 && one[0].units != one[1].units, "{one:?}");
    wanted.seed += 1;
    assert_ne!(one, run(&laptop, &wanted));
}

// A machine on which a value is another one: the first line that begins with the key.
fn with(name: &str, key: &str, value: &str) -> ringfence_simulator::Description {
    let as_it_is = machine(name, &[]);
    let line = as_it_is.text.lines().find(|line| line.starts_with(&format!("{key} ="))).unwrap();
    machine(name, &[(&format!("\n{line}\n"), &format!("\n{key} = {value}\n"))])
}

const XEON: &str = "cascade-lake-optane";

fn small(machine: &ringfence_simulator::Description, task: &str) -> f64 {
    alone(machine, &format!("task = {{ {task}, size = '256KiB' }}\ncpus = '0'"))
}

#[test]
fn each_fence_of_a_ring_or_record_costs_what_a_fence_costs() {
    let fence_ns = machine(XEON, &[]).parts.core.fence_ns;
    for (task, fences) in [
        ("workload = 'record', method = 'same-line'", 1.0),
        ("workload = 'record', method = 'checksum'", 1.0),
        ("workload = 'record', method = 'slots'", 1.0),
        ("workload = 'record', method = 'flag'", 2.0),
        ("workload = 'ring', variant = 'ringfence'", 1.0),
        ("workload = 'ring', variant = 'repaired'", 2.0),
        // It has none: its flushes are ordered.
        ("workload = 'ring', variant = 'naive'", 0.0),
    ] {
        let dearer = with(XEON, "fence_ns", &format!("{}", fence_ns + 200.0));
        let more = small(&dearer, task) - small(&machine(XEON, &[]), task);
        assert!((more - 200.0 * fences).abs() < 5.0, "{task}: {more} for {fences} fences");
    }
}

#[test]
fn non_temporal_stores_read_no_line_that_they_write() {
    // No line of a store behind a fence is fetched before the fence is passed.
    let ours = with(XEON, "rfo_past_fences", "0");
    let read = match &ours.parts.nodes[0].device {
        ringfence_simulator::hardware::machine::Device::Dram(dram) => dram.latency_ns,
        ringfence_simulator::hardware::machine::Device::Optane(_) => {
            unreachable!("the first node is ordinary memory")
        }
    };
    let (now, slower) = (format!("latency_ns = {read}"), format!("latency_ns = {}", read + 300.0));
    let slower =
        ringfence_simulator::Description::parse(&ours.text.replace(&now, &slower)).unwrap();
    let slow = |method: &str| {
        let task = format!("workload = 'record', method = '{method}'");
        small(&slower, &task) - small(&ours, &task)
    };
    // The line of the flag is read. Stores of payloads ask for their lines first, which then are
    // there in time.
    let (flag, same_line) = (slow("flag"), slow("same-line"));
    assert!((flag - 300.0).abs() < 30.0 && same_line.abs() < 5.0, "{flag} and {same_line}");
    let (checksum, slots) = (slow("checksum"), slow("slots"));
    assert!(checksum.abs() < 5.0 && slots.abs() < 5.0, "{checksum} and {slots}");
}

#[test]
fn a_position_that_is_flushed_is_read_again_unless_its_line_stays() {
    // The processor's own clwb drops the line.
    let saved = |variant: &str| {
        let task = format!("workload = 'ring', variant = '{variant}'");
        small(&machine(XEON, &[]), &task) - small(&with(XEON, "clwb", "\"kept\""), &task)
    };
    // The slides' rings look up the position where they keep it, ours keeps it at hand, and clflush
    // drops lines anywhere.
    let (optimised, ours, naive) = (saved("optimised"), saved("ringfence"), saved("naive"));
    assert!(optimised > 50.0, "{optimised}");
    assert!(ours.abs() < 5.0 && naive.abs() < 5.0, "{ours} and {naive}");
}

#[test]
fn entries_of_a_batch_share_a_fence() {
    let dearer = with(XEON, "fence_ns", "402.1");
    let batch = |batch: u32| {
        let task = format!("workload = 'ring', batch = {batch}");
        small(&dearer, &task) - small(&machine(XEON, &[]), &task)
    };
    let (one, four) = (batch(1), batch(4));
    assert!((one - 400.0).abs() < 10.0, "{one}");
    assert!(four < 110.0, "{four}");
}

#[test]
fn entries_that_are_read_back_from_slower_memory_take_longer() {
    let cost = |target: &str| {
        small(
            &machine(XEON, &[]),
            &format!("workload = 'ring', entry = '4KiB', target = '{target}'"),
        )
    };
    let (dram, optane) = (cost("dram"), cost("dax:/mnt/pmem0"));
    assert!(optane > 1.05 * dram, "{optane} and {dram}");
}

#[test]
fn every_window_of_a_trial_covers_the_same_stretch_of_a_solution() {
    let goldmont = machine("goldmont-j3455", &[]);
    let other = "name = 'other'\ntask = { workload = 'stream', size = '6MiB' }\ncpus = '1'";
    let mut wanted =
        experiment(&[&format!("name = 'victim'\n{MCF}"), other], &format!("{ALONE}{BESIDE}"));
    wanted.measure.rounds = 2;
    let samples = run(&goldmont, &wanted);
    assert!(ns(&samples, 1) > 1.1 * ns(&samples, 0), "{} and {}", ns(&samples, 1), ns(&samples, 0));
    for trial in 0..2 {
        let of_it =
            samples.iter().filter(|sample| sample.trial == trial && &*sample.role == "victim");
        let units: Vec<u64> = of_it.map(|sample| sample.units).collect();
        // Work is counted by portions of up to 2048 arcs, and looked at every few microseconds.
        let (least, most) = (units.iter().min().unwrap(), units.iter().max().unwrap());
        assert!(units.len() == 4 && most - least <= 3 * 2048, "{units:?}");
    }
}
