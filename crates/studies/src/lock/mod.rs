//! What keeps a region of memory in a cache: how long random reads of it take after a pause, from
//! ordinary memory, from cache ways of its own and from a pseudo-locked region, alone and with
//! noise; and what a flush instruction inside the region does to it.
//!
//! The experiment is that of the kernel's pseudo-locking patches (R. Chatre, LKML, 2017-11-13),
//! measured as one: every row is an arm, its windows lie beside those of its baseline.
//!
//! A flush takes the lines of a locked region out of it for good: nothing that runs may fill its
//! ways. So the region is not flushed among the arms, where all windows after it would be of
//! another region, but once by each instruction, in a fresh region, with an experiment of its own
//! after it ([`after`]).

mod capabilities;
mod flush;
mod measure;
mod region;

use std::collections::BTreeMap;
use std::path::Path;

use ringfence_experiment::task::{Flush, FlushBetween, Memory, OneTask, Reads, Settings, Tasks};
use ringfence_experiment::units::Span;
use ringfence_experiment::{
    Arm, Error, Experiment, Kind, Limit, Measure, Placement, PlacementKind, Role,
};
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::units::Bytes;
use ringfence_resctrl::Schemata;

pub use capabilities::{Apart, Capabilities, described, nominal, shared_out};
pub use flush::flush_once;
pub use measure::{Held, Locking, Ready, capabilities, capabilities_of, support_of};
pub use region::{Misses, NAME, Region, create, default_cache, locked, misses, remove};

/// The experiment's name, also in files.
pub const EXPERIMENT: &str = "lock";

const READER: &str = "reader";
const NOISE: &str = "noise";

/// The question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Bytes that are read.
    pub size: Bytes,
    /// The pause between two rounds of reads.
    pub interval: Span,
    /// The task that runs next to the reader in half of the arms.
    pub noise: Tasks,
    /// The reader's CPU; absent: the placement's choice.
    pub cpu: Option<CpuId>,
}

/// What a row's memory is called, and how a reader is given it.
struct Row {
    name: String,
    reader: Settings,
    resctrl: BTreeMap<String, Schemata>,
    // Whether what the reader has flushed in a window is back for the next one.
    refills: bool,
}

impl Row {
    fn new(name: &str, reader: Settings, refills: bool) -> Self {
        Self { name: name.into(), reader, resctrl: BTreeMap::new(), refills }
    }

    fn locked(name: &str, locked_anew: bool) -> Self {
        let device = Memory::Locked(Path::new("/dev/pseudo_lock").join(NAME));
        Self::new(name, Reads::default().memory(device).into(), locked_anew)
    }
}

/// The experiment: a row for ordinary memory, one for ways of its own, one for a locked region, and
/// one for ways of its own with preloading where no region can be locked; each idle and beside
/// noise, and all but the locked region flushed by each instruction before every pause.
///
/// # Errors
/// Where the reader makes no sense, such as a size that is not a multiple of 4 KiB.
pub fn experiment(asked: &Question, capabilities: &Capabilities) -> Result<Experiment, Error> {
    let question = "What keeps a region in the cache, from noise and from flush instructions?";
    of_rows(asked, EXPERIMENT, question, &rows(capabilities))
}

/// The experiment after a region was flushed once by an instruction: the region and ordinary
/// memory, idle and beside noise.
///
/// # Errors
/// As [`experiment`].
pub fn after(asked: &Question, flush: Flush) -> Result<Experiment, Error> {
    let question = format!("Does a locked region still keep its lines after one {flush} of each?");
    let malloc = Row::new("malloc", Settings::default(), false);
    let rows = [malloc, Row::locked(&after_name(flush), false)];
    of_rows(asked, &format!("{EXPERIMENT}-after-{flush}"), &question, &rows)
}

fn after_name(flush: Flush) -> String {
    format!("locked, after {flush}")
}

fn of_rows(
    asked: &Question,
    name: &str,
    question: &str,
    rows: &[Row],
) -> Result<Experiment, Error> {
    let window = window(asked)?;
    let mut arms = Vec::new();
    for row in rows {
        // Everything is compared with the first row, idle; and each row's own harm with the row
        // itself, idle.
        let first = arms.first().map(|arm: &Arm| arm.name.clone());
        let idle = arm(row, "", &[READER], first.as_deref(), None);
        let base = idle.name.clone();
        arms.push(idle);
        arms.push(arm(row, ", noise", &[READER, NOISE], Some(&base), None));
        for flush in Flush::ALL.iter().filter(|_| row.refills) {
            arms.push(arm(row, &format!(", {flush}"), &[READER], Some(&base), Some(*flush)));
        }
    }
    let mut reader = Role::new(READER, reader(asked));
    reader.cpus = asked.cpu.map(|cpu| [cpu].into_iter().collect());
    let experiment = Experiment {
        measure: Measure {
            looks: vec![5],
            rounds: 1,
            window,
            // A round under the arm's own conditions lies before the window: what the arm before
            // has left in the cache, or taken from it, is not this one's.
            settle: window,
            ..Measure::default()
        },
        placement: Placement { kind: PlacementKind::Auto },
        roles: vec![reader, Role::new(NOISE, asked.noise.clone())],
        arms,
        kind: Some(Kind::Lock),
        ..Experiment::asking(name, question, READER)
    };
    experiment.check()?;
    Ok(experiment)
}

fn arm(
    row: &Row,
    suffix: &str,
    active: &[&str],
    baseline: Option<&str>,
    flush: Option<Flush>,
) -> Arm {
    let mut reader = row.reader.clone();
    if let Some(flush) = flush {
        // What makes stores durable flushes lines that were stored to.
        let flushed = Reads::default().flush(FlushBetween(Some(flush))).dirty(true);
        reader = reader.and(flushed);
    }
    let mut arm = Arm::new(&format!("{}{suffix}", row.name), active, baseline);
    if !reader.is_empty() {
        arm.set.insert(READER.into(), reader);
    }
    for (name, schemata) in &row.resctrl {
        arm.limit(name, Limit::Resctrl(schemata.clone()));
    }
    arm
}

/// What an arm's name is made of: what is read, and under which condition (`idle`, `noise`, or the
/// flush instruction).
///
/// ```
/// use ringfence_studies::lock::parts;
/// assert_eq!(parts("own ways, preloaded, noise"), ("own ways, preloaded", "noise"));
/// assert_eq!(parts("locked, after clwb"), ("locked, after clwb", "idle"));
/// ```
pub fn parts(arm: &str) -> (&str, &str) {
    match arm.rsplit_once(", ") {
        Some((row, last)) if last == NOISE || last.parse::<Flush>().is_ok() => (row, last),
        _ => (arm, "idle"),
    }
}

fn reader(asked: &Question) -> Tasks {
    Reads::default().size(asked.size).access(Bytes(32)).interval(asked.interval).into()
}

// Long enough for a pause and a round.
fn window(asked: &Question) -> Result<Span, Error> {
    let reader = OneTask::try_from(reader(asked)).map_err(Error::usage)?;
    Ok(reader.task().least_window().unwrap_or(asked.interval))
}

fn rows(capabilities: &Capabilities) -> Vec<Row> {
    let mut rows = vec![Row::new("malloc", Settings::default(), true)];
    let apart = |name, reader| {
        let apart = capabilities.apart.as_ref()?;
        let mut row = Row::new(name, reader, true);
        row.resctrl = apart.others.clone();
        row.resctrl.insert(READER.into(), apart.reader.clone());
        Some(row)
    };
    rows.extend(apart("own ways", Settings::default()));
    if !capabilities.can_lock {
        rows.extend(apart("own ways, preloaded", Reads::default().preload(true).into()));
    }
    rows.push(Row::locked("locked", capabilities.locks_anew));
    if !capabilities.can_lock && !capabilities.locks_anew {
        // Listed with the reason why they are not run.
        rows.extend(Flush::ALL.map(|flush| Row::locked(&after_name(flush), false)));
    }
    rows
}

#[cfg(test)]
mod tests {
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
        let groups = [
            (".".parse().unwrap(), group("L3:0=7ff;1=7ff")),
            ("web".parse().unwrap(), group("L3:0=3f;1=7ff")),
        ];
        let state = State { groups: groups.into(), ..State::default() };
        // Twice 256 KiB are half a way of 1 MiB.
        shared_out(&info, &state, (3, 0), 1 << 20, Bytes::kib(256)).unwrap()
    }

    fn resctrl(arm: &Arm) -> Vec<(&str, String)> {
        arm.resctrl().map(|(name, schemata)| (name, schemata.to_string())).collect()
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
            let expected = [("/", "L3:0=7fe\n"), ("/web", "L3:0=3e\n"), (READER, "L3:0=1\n")];
            let sets = resctrl(arm);
            match isolated {
                true => assert_eq!(sets, expected.map(|(name, text)| (name, text.to_owned()))),
                false => assert!(sets.is_empty(), "{sets:?}"),
            }
        }
        let flushed = experiment.arms[9].set[READER].written();
        assert_eq!(
            (flushed["flush"].as_str(), flushed["dirty"].as_bool()),
            (Some("clwb"), Some(true))
        );
        let locked = experiment.arms[10].set[READER].written();
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
        let baselines: Vec<Option<&str>> =
            experiment.arms.iter().map(|arm| arm.baseline.as_deref()).collect();
        assert_eq!(baselines, [None, Some("malloc"), Some("malloc"), Some("locked, after clwb")]);
        assert!(
            experiment.arms.iter().all(|arm| arm
                .set
                .get(READER)
                .is_none_or(|set| !set.written().contains_key("flush")))
        );
    }

    #[test]
    fn without_locking_ways_are_preloaded_and_without_ways_the_rest_runs() {
        let size = asked(Bytes::kib(256));
        let preloaded = experiment(
            &size,
            &Capabilities { apart: Some(apart()), can_lock: false, locks_anew: false },
        )
        .unwrap();
        assert!(names(&preloaded).contains(&"own ways, preloaded, clwb"));
        let arm = preloaded.arms.iter().find(|arm| arm.name == "own ways, preloaded").unwrap();
        assert_eq!(arm.set[READER].written()["preload"].as_bool(), Some(true));
        assert!(resctrl(arm).contains(&(READER, "L3:0=1\n".to_owned())));
        let bare = experiment(&size, &Capabilities::default()).unwrap();
        assert!(
            names(&bare)
                .iter()
                .all(|name| name.starts_with("malloc") || name.starts_with("locked"))
        );
    }

    #[test]
    fn on_a_machine_without_any_of_it_the_malloc_rows_are_measured() {
        let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
        let machine = ringfence_machine::Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
        let apart = nominal(&topology, 1, Bytes::mib(4)).unwrap();
        // 105 MiB in 15 ways of 7 MiB: two of them hold twice 4 MiB.
        assert_eq!(apart.reader.to_string(), "L3:0=3\n");
        assert_eq!(apart.others["/"].to_string(), "L3:0=7ffc\n");
        assert_eq!(
            nominal(&topology, 1, Bytes::mib(60)),
            None,
            "all of the cache is not apart from anything"
        );
        let capabilities = Capabilities { apart: Some(apart), can_lock: false, locks_anew: false };
        let experiment = experiment(&asked(Bytes::mib(4)), &capabilities).unwrap();
        let plan = ringfence_engine::available::plan_for(&experiment, &machine, &|_| true).unwrap();
        if ringfence_limits::resctrl::missing().is_none() {
            return ringfence_testbed::skip_here("without any of it", "resctrl is mounted here");
        }
        let run: Vec<&str> =
            plan.measured().into_iter().map(|case| plan.cases[case].arm.as_str()).collect();
        assert!(
            run.contains(&"malloc, noise") && run.iter().all(|arm| arm.starts_with("malloc")),
            "{run:?}"
        );
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
        assert!(error.text().contains("at least 4KiB"), "{error}");
    }

    // Where a region is locked anew before each window, it is flushed among the other arms.
    #[test]
    fn a_described_region_is_flushed_as_any_other() {
        let machine = ringfence_simulator::catalogue::all();
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
        let locked: Vec<&str> = arms
            .iter()
            .map(|arm| arm.name.as_str())
            .filter(|name| name.starts_with("locked"))
            .collect();
        assert_eq!(
            locked,
            ["locked", "locked, noise", "locked, clflush", "locked, clflushopt", "locked, clwb"]
        );
    }
}
