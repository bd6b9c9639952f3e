use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;
use ringfence_resctrl::info::CacheInfo;
use ringfence_resctrl::{GroupState, Info, Mask, Mode, State};

use super::*;

fn asked(size: Bytes) -> Question {
    let noise = ringfence_experiment::task::text::parse("stream").unwrap();
    Question { size, interval: Span::ms(100), noise, cpu: None }
}

fn apart() -> Apart {
    let mut info = Info::default();
    info.caches.insert(
        "L3".into(),
        CacheInfo {
            num_closids: 16,
            cbm_mask: Mask(0x7ff),
            min_cbm_bits: 1,
            shareable_bits: Mask(0x600),
            io_alloc: Default::default(),
            sparse_masks: false,
            bit_usage: Default::default(),
        },
    );
    let group = |schemata: &str| GroupState {
        mode: Some(Mode::Shareable),
        schemata: schemata.parse().unwrap(),
        cpus: Default::default(),
        threads: Vec::new(),
    };
    let groups =
        [(".".parse().unwrap(), group("L3:0=7ff;1=7ff")), ("web".parse().unwrap(), group("L3:0=3f;1=7ff"))];
    let state = State { groups: groups.into(), ..State::default() };
    // Twice 256 KiB are half a way of 1 MiB.
    shared_out(&info, &state, (3, 0), 1 << 20, Bytes::kib(256)).unwrap()
}

fn names(experiment: &Experiment) -> Vec<&str> {
    experiment.arms.iter().map(|arm| arm.name.as_str()).collect()
}

#[test]
fn every_row_is_measured_alike_and_held_against_ordinary_memory() {
    let capabilities = Capabilities { apart: Some(apart()), can_lock: true, locks_anew: false };
    let experiment = experiment(&asked(Bytes::kib(256)), &capabilities).unwrap();
    let conditions = ["", ", noise", ", clflush", ", clflushopt", ", clwb"];
    let mut expected: Vec<String> = ["malloc", "own ways"]
        .iter()
        .flat_map(|row| conditions.iter().map(move |condition| format!("{row}{condition}")))
        .collect();
    // A flush would be felt in every later window of the region.
    expected.extend(["locked".into(), "locked, noise".into()]);
    assert_eq!(names(&experiment), expected);
    for (index, arm) in experiment.arms.iter().enumerate() {
        let baseline = match (index / 5, index % 5) {
            (0, 0) => None,
            (_, 0) => Some("malloc"),
            (row, _) => Some(["malloc", "own ways", "locked"][row]),
        };
        assert_eq!(arm.baseline.as_deref(), baseline, "{}", arm.name);
        assert_eq!(arm.active.contains(&NOISE.to_string()), arm.name.ends_with("noise"));
        let isolated = arm.name.starts_with("own ways");
        assert_eq!(
            arm.resctrl.get(READER).map(|mine| mine.to_string()),
            isolated.then(|| "L3:0=1\n".to_string())
        );
        assert_eq!(arm.resctrl.len(), if isolated { 3 } else { 0 }, "{:?}", arm.resctrl);
    }
    assert_eq!(experiment.arms[5].resctrl["/"].to_string(), "L3:0=7fe\n");
    assert_eq!(experiment.arms[5].resctrl["/web"].to_string(), "L3:0=3e\n");
    let flushed = &experiment.arms[9].set[READER];
    assert_eq!((flushed["flush"].as_str(), flushed["dirty"].as_bool()), (Some("clwb"), Some(true)));
    let locked = &experiment.arms[10].set[READER];
    assert_eq!(locked["memory"].as_str(), Some("locked:/dev/pseudo_lock/ringfence-lock"));
    // What was left in the cache by the arm before is gone when the window begins.
    assert!(experiment.measure.settle >= experiment.measure.window);
    assert_eq!(Experiment::parse(&experiment.to_toml()).unwrap(), experiment);
}

#[test]
fn a_flushed_region_is_held_against_memory_measured_at_the_same_time() {
    let experiment = after(&asked(Bytes::kib(256)), Flush::Clwb).unwrap();
    assert_eq!(experiment.name, "lock-after-clwb");
    assert_eq!(
        names(&experiment),
        ["malloc", "malloc, noise", "locked, after clwb", "locked, after clwb, noise"]
    );
    let baselines: Vec<Option<&str>> = experiment.arms.iter().map(|arm| arm.baseline.as_deref()).collect();
    assert_eq!(baselines, [None, Some("malloc"), Some("malloc"), Some("locked, after clwb")]);
    assert!(
        experiment.arms.iter().all(|arm| arm.set.get(READER).is_none_or(|set| !set.contains_key("flush")))
    );
}

#[test]
fn without_locking_ways_are_preloaded_and_without_ways_the_rest_runs() {
    let size = asked(Bytes::kib(256));
    let preloaded =
        experiment(&size, &Capabilities { apart: Some(apart()), can_lock: false, locks_anew: false })
            .unwrap();
    assert!(names(&preloaded).contains(&"own ways, preloaded, clwb"));
    let arm = preloaded.arms.iter().find(|arm| arm.name == "own ways, preloaded").unwrap();
    assert_eq!(arm.set[READER]["preload"].as_bool(), Some(true));
    assert_eq!(arm.resctrl[READER].to_string(), "L3:0=1\n");
    let bare = experiment(&size, &Capabilities::default()).unwrap();
    assert!(names(&bare).iter().all(|name| name.starts_with("malloc") || name.starts_with("locked")));
}

#[test]
fn on_a_machine_without_any_of_it_the_malloc_rows_are_measured() {
    let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
    let machine = ringfence_machine::Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
    let apart = nominal(&topology, 1, Bytes::mib(4)).unwrap();
    // 105 MiB in 15 ways of 7 MiB: two of them hold twice 4 MiB.
    assert_eq!(apart.reader.to_string(), "L3:0=3\n");
    assert_eq!(apart.others["/"].to_string(), "L3:0=7ffc\n");
    assert_eq!(nominal(&topology, 1, Bytes::mib(60)), None, "all of the cache is not apart from anything");
    let capabilities = Capabilities { apart: Some(apart), can_lock: false, locks_anew: false };
    let experiment = experiment(&asked(Bytes::mib(4)), &capabilities).unwrap();
    let plan = ringfence_engine::available::plan_for(&experiment, &machine, &|_| true).unwrap();
    if ringfence_isolation::resctrl::missing().is_none() {
        return ringfence_testbed::skip_here("without any of it", "resctrl is mounted here");
    }
    let run: Vec<&str> = plan.measured().into_iter().map(|case| plan.cases[case].arm.as_str()).collect();
    assert!(run.contains(&"malloc, noise") && run.iter().all(|arm| arm.starts_with("malloc")), "{run:?}");
    let why = |arm: &str| {
        let case = plan.cases.iter().position(|case| case.arm == arm).unwrap();
        plan.refusal(case).unwrap().to_string()
    };
    assert!(why("locked").contains("lock"), "{}", why("locked"));
    assert!(!why("own ways, preloaded").is_empty());
}

#[test]
fn readers_that_make_no_sense_are_refused() {
    let error = experiment(&asked(Bytes(100)), &Capabilities::default()).unwrap_err();
    assert!(error.0.contains("at least 4KiB"), "{error}");
}

// Where a region is locked anew before each window, it is flushed among the other arms.
#[test]
fn a_described_region_is_flushed_as_any_other() {
    let machine = ringfence_simulated::shipped::all();
    let of = |name: &str| machine.iter().find(|known| known.name == name).unwrap();
    let bytes = Bytes(256 << 10);
    let apart = described(of("goldmont-j3455"), 0, bytes).unwrap();
    // Two of eight parts are locked; the reader has as many again, twice.
    assert_eq!(apart.reader.to_string().trim(), "L2:0=3c", "{apart:?}");
    assert_eq!(apart.others["/"].to_string().trim(), "L2:0=c0", "{apart:?}");
    let why = described(of("laptop"), 0, bytes).unwrap_err();
    assert!(why.contains("no RDT"), "{why}");
    let capabilities = Capabilities { apart: Some(apart), can_lock: true, locks_anew: true };
    let arms = experiment(&asked(bytes), &capabilities).unwrap().arms;
    let locked: Vec<&str> =
        arms.iter().map(|arm| arm.name.as_str()).filter(|name| name.starts_with("locked")).collect();
    assert_eq!(locked, ["locked", "locked, noise", "locked, clflush", "locked, clflushopt", "locked, clwb"]);
}
