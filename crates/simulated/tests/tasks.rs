//! The tasks on described machines: each parameter that is a task's mechanism changes what the mechanism says.

mod support;

use support::{ALONE, BESIDE, experiment, machine, near, ns, run, slowdown};

fn alone(machine: &ringfence_simulated::Description, task: &str) -> f64 {
    ns(&run(machine, &experiment(&[&format!("name = 'victim'\n{task}")], ALONE)), 0)
}

#[test]
fn reads_take_as_long_as_the_level_that_answers() {
    let laptop = machine("laptop", &[]);
    let read = |rest: &str| {
        alone(&laptop, &format!("task = {{ workload = 'read', size = '16KiB', interval = '0ms', {rest} }}"))
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
    let task =
        "name = 'victim'\ntask = { workload = 'read', size = '16KiB', interval = '20ms', preload = true }";
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
            "name = 'victim'\ntask = { workload = 'read', size = '256KiB', access = '64B', interval = '40ms' }\ncpus = '0'",
            &format!("name = 'other'\ntask = {{ workload = 'stream', size = '6MiB' }}\ncpus = '{cpu}'"),
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
    let stream = |cpu: u32| format!("task = {{ workload = 'stream', size = '6MiB' }}\ncpus = '{cpu}'");
    let (here, there) = (slowdown(&goldmont, MCF, &stream(1)), slowdown(&goldmont, MCF, &stream(2)));
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
