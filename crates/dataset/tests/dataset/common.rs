//! A plan and samples to write.

use ringfence_experiment::Experiment;
use ringfence_experiment::class::Class;
use ringfence_experiment::placement::{Place, Placed};
use ringfence_experiment::plan::{self, NotRun, Plan};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task;

const EXPERIMENT: &str = r#"
schema = 1
name = "chase-beside-clwb"
question = "How much does a clwb writer slow a pointer chase down?"
metric = "victim"

[[role]]
name = "victim"
task = { workload = "chase", footprint = "4MiB" }

[[role]]
name = "aggressor"
task = { workload = "write", instruction = ["clflush", "nt"] }

[[arm]]
name = "alone"
active = ["victim"]

[[arm]]
name = "beside"
active = ["victim", "aggressor"]
baseline = "alone"
"#;

/// As planned on a machine unlike this one: CPU 300, a case that was not run.
pub fn plan() -> Plan {
    let experiment = Experiment::parse(EXPERIMENT).unwrap();
    let of_role = |role| task::variants(role, &experiment.arms).unwrap();
    let variants: Vec<_> = experiment.roles.iter().map(of_role).collect();
    let cases = plan::cases(&experiment, &variants).unwrap();
    let not_run = vec![NotRun { case: 2, reason: "this machine has no nt".into() }];
    let placed = Placed {
        cpus: vec![vec![2], vec![300]],
        places: vec![Place::Home, Place::Remote],
        notes: vec!["co-runners are far away".into()],
    };
    Plan::stored(experiment, cases, not_run, placed).unwrap()
}

/// What `machine.json` holds.
pub fn machine() -> serde_json::Value {
    serde_json::json!({ "cpu": "a fast one", "llc_bytes": 33_554_432_u64, "tsc_ghz": 0.1 })
}

/// The samples of one step: two windows, the victim in both, the aggressor in one.
pub fn step(number: u32) -> Vec<Sample> {
    [(0, "victim", 0), (1, "victim", 1), (1, "aggressor", 1)]
        .map(|(position, role, case)| Sample {
            trial: number / 20,
            round: number / 10 % 2,
            step: number % 10,
            position,
            step_case: 1,
            case,
            role: role.into(),
            cpu: if role == "victim" { 2 } else { 300 },
            class: if number.is_multiple_of(7) { Class::Mixed } else { Class::Sharing },
            ping_before_ns: Some(66.0 + 0.1 * f64::from(number % 40)),
            ping_after_ns: (!number.is_multiple_of(3)).then_some(70.5),
            start_ns: 40_000_000 * u64::from(number) + 20_000_000 * u64::from(position),
            length_ns: 20_000_000 + u64::from(number.wrapping_mul(2_654_435_761) % 50_000),
            busy_ns: 20_000_000,
            units: 250_000 + u64::from(number.wrapping_mul(2_246_822_519) % 10_000),
            cycles: (role == "victim").then_some(u64::MAX - u64::from(number)),
            llc_misses: Some(u64::from(number)),
            // The victim counts in two windows of three.
            latencies: (role == "victim" && !number.is_multiple_of(3)).then(|| {
                vec![(24, 1000 + u64::from(number)), (96, u64::from(position) + 1)].into()
            }),
            ..Sample::default()
        })
        .into()
}

/// The samples of the first steps.
pub fn samples(steps: u32) -> Vec<Sample> {
    (0..steps).flat_map(step).collect()
}

/// Leaves a test out for want of something on this machine, and says so.
pub fn skip(reason: &str) {
    let required = std::env::var("RINGFENCE_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!required, "{reason}");
    eprintln!("skipped: {reason}");
}
