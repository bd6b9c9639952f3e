//! What keeps a region of memory in a cache: how long random reads of it take after a pause, from ordinary
//! memory, from cache ways of its own and from a pseudo-locked region, beside nobody and beside noise; and
//! what a flush instruction inside the region does to it.
//!
//! The experiment is that of the kernel's pseudo-locking patches (R. Chatre, LKML, 2017-11-13), measured
//! as one: every row is an arm, its windows lie beside those of its baseline.
//!
//! A flush takes the lines of a locked region out of it for good: nothing that runs may fill its ways. So
//! the region is not flushed among the arms, where all windows after it would be of another region, but once
//! by each instruction, in a fresh region, with an experiment of its own after it ([`after`]).

mod capabilities;
mod flush;
mod region;

use std::collections::BTreeMap;

use ringfence_experiment::task::axes;
use ringfence_experiment::task::{Flush, Task};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Arm, Experiment, ExperimentError, Kind, Measure, Placement, PlacementKind, Role};
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::units::Bytes;
use ringfence_resctrl::Schemata;
use toml::{Table, Value};

pub use capabilities::{Apart, Capabilities, described, nominal, shared_out};
pub use flush::flush_once;
pub use region::{Misses, NAME, Region, create, default_cache, locked, misses, remove};

/// The experiment's name, also in files.
pub const EXPERIMENT: &str = "lock";

const READER: &str = "reader";
const NOISE: &str = "noise";

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Bytes that are read.
    pub size: Bytes,
    /// The pause between two rounds of reads.
    pub interval: Span,
    /// The task that runs beside the reader in half of the arms.
    pub noise: Table,
    /// The reader's CPU; absent: the placement's choice.
    pub cpu: Option<CpuId>,
}

/// What a row's memory is called, and how a reader is given it.
struct Row {
    name: String,
    reader: Table,
    resctrl: BTreeMap<String, Schemata>,
    // Whether what the reader has flushed in a window is back for the next one.
    refills: bool,
}

impl Row {
    fn new(name: &str, reader: Table, refills: bool) -> Self {
        Self { name: name.into(), reader, resctrl: BTreeMap::new(), refills }
    }

    fn locked(name: &str, locked_anew: bool) -> Self {
        let device = format!("locked:/dev/pseudo_lock/{NAME}");
        Self::new(name, Table::from_iter([("memory".to_string(), device.into())]), locked_anew)
    }
}

/// The experiment: a row for ordinary memory, one for ways of its own, one for a locked region, and one for
/// ways of its own with preloading where no region can be locked; each idle and beside noise, and all but
/// the locked region flushed by each instruction before every pause.
///
/// # Errors
/// Where the reader makes no sense, such as a size that is not a multiple of 4 KiB.
pub fn experiment(asked: &Question, capabilities: &Capabilities) -> Result<Experiment, ExperimentError> {
    let question = "What keeps a region in the cache, from noise and from flush instructions?";
    of_rows(asked, EXPERIMENT, question, &rows(capabilities))
}

/// The experiment after a region was flushed once by an instruction: the region and ordinary memory, idle
/// and beside noise.
///
/// # Errors
/// As [`experiment`].
pub fn after(asked: &Question, flush: Flush) -> Result<Experiment, ExperimentError> {
    let question = format!("Does a locked region still keep its lines after one {flush} of each?");
    let malloc = Row::new("malloc", Table::new(), false);
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
) -> Result<Experiment, ExperimentError> {
    let window = window(asked)?;
    let mut arms = Vec::new();
    for row in rows {
        // Everything is held against the first row, idle; and each row's own harm against itself, idle.
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
            // A round under the arm's own conditions lies before the window: what the arm before has left in
            // the cache, or taken from it, is not this one's.
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

fn arm(row: &Row, suffix: &str, active: &[&str], baseline: Option<&str>, flush: Option<Flush>) -> Arm {
    let mut reader = row.reader.clone();
    if let Some(flush) = flush {
        // What makes stores durable flushes lines that were stored to.
        reader.insert("flush".into(), flush.name().into());
        reader.insert("dirty".into(), true.into());
    }
    let mut arm = Arm::new(&format!("{}{suffix}", row.name), active, baseline);
    if !reader.is_empty() {
        arm.set.insert(READER.into(), reader);
    }
    arm.resctrl = row.resctrl.clone();
    arm
}

/// What an arm's name is made of: what is read, and under which condition (`idle`, `noise`, or the flush
/// instruction).
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

fn reader(asked: &Question) -> Table {
    let mut table = Table::new();
    table.insert("workload".into(), "read".into());
    table.insert("size".into(), asked.size.to_string().into());
    table.insert("access".into(), "32B".into());
    table.insert("interval".into(), asked.interval.to_string().into());
    table
}

// Long enough for a pause and a round.
fn window(asked: &Question) -> Result<Span, ExperimentError> {
    let variants = axes::expand(&reader(asked)).map_err(|why| ExperimentError(why.to_string()))?;
    let task = variants.first().map(|variant| &variant.task);
    task.map_or(Ok(()), Task::check).map_err(ExperimentError)?;
    Ok(task.and_then(Task::least_window).unwrap_or(asked.interval))
}

fn rows(capabilities: &Capabilities) -> Vec<Row> {
    let mut rows = vec![Row::new("malloc", Table::new(), true)];
    let apart = |name, reader| {
        let apart = capabilities.apart.as_ref()?;
        let mut row = Row::new(name, reader, true);
        row.resctrl = apart.others.clone();
        row.resctrl.insert(READER.into(), apart.reader.clone());
        Some(row)
    };
    rows.extend(apart("own ways", Table::new()));
    if !capabilities.can_lock {
        let preload = Table::from_iter([("preload".to_string(), Value::from(true))]);
        rows.extend(apart("own ways, preloaded", preload));
    }
    rows.push(Row::locked("locked", capabilities.locks_anew));
    if !capabilities.can_lock && !capabilities.locks_anew {
        // Listed with the reason why they are not run.
        rows.extend(Flush::ALL.map(|flush| Row::locked(&after_name(flush), false)));
    }
    rows
}

#[cfg(test)]
#[path = "../../tests/inside/lock.rs"]
mod tests;
