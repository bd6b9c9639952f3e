//! One run of a command, and the runs that figures rest on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::order::Slot;

/// What one run took, and how it ended. All of it is of that run alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Took {
    /// From before it was started until its end was known, ns, by CLOCK_MONOTONIC.
    pub wall_ns: u64,
    /// CPU time in user mode, ns, of it and all it waited for.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// The most that one of its processes had in memory, bytes.
    pub peak_memory: u64,
    /// What the process that starts it has in memory, bytes: `peak_memory` is never less, whatever
    /// the command takes.
    pub memory_floor: u64,
    /// Page faults without reading from a disk.
    pub minor_faults: u64,
    /// Page faults with.
    pub major_faults: u64,
    /// Times that it waited for something.
    pub voluntary_switches: u64,
    /// Times that it was made to wait.
    pub involuntary_switches: u64,
    /// Instructions in user mode, where they are counted.
    pub instructions: Option<u64>,
    /// Cycles in user mode, where they are counted.
    pub cycles: Option<u64>,
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The names of processes that it started and that kept running after it had ended; not in
    /// `runs.parquet`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
}

impl Took {
    /// Whether it ended with exit code 0.
    pub fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// Its exit code as shells and hyperfine have it: 128 and the signal where one ended it.
    pub fn shells_code(&self) -> Option<i32> {
        self.code.or(self.signal.map(|signal| 128 + signal))
    }
}

/// A run, and when it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Whose.
    pub slot: Slot,
    /// Its round, from 1.
    pub round: u32,
    /// Its place in the round, from 0.
    pub place: u32,
    /// Whether it is dropped as warm-up.
    pub warm_up: bool,
    /// When it began, ns since 1970.
    pub began_unix_ns: u64,
    /// What it took.
    pub took: Took,
}

/// The runs of one slot that are not warm-up, by round.
pub fn kept(runs: &[Run], slot: Slot) -> BTreeMap<u32, &Took> {
    let mine = runs.iter().filter(|run| run.slot == slot && !run.warm_up);
    mine.map(|run| (run.round, &run.took)).collect()
}

/// A quantity of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusQuantity"))]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Wall time, ns.
    Wall,
    /// User time, ns.
    User,
    /// System time, ns.
    System,
    /// Peak memory, bytes.
    PeakMemory,
    /// Minor page faults.
    MinorFaults,
    /// Major page faults.
    MajorFaults,
    /// Voluntary context switches.
    VoluntarySwitches,
    /// Involuntary context switches.
    InvoluntarySwitches,
    /// Instructions.
    Instructions,
    /// Cycles.
    Cycles,
}

impl Quantity {
    /// All but the wall time.
    pub const OTHERS: [Quantity; 9] = [
        Quantity::User,
        Quantity::System,
        Quantity::PeakMemory,
        Quantity::MinorFaults,
        Quantity::MajorFaults,
        Quantity::VoluntarySwitches,
        Quantity::InvoluntarySwitches,
        Quantity::Instructions,
        Quantity::Cycles,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Wall => "time",
            Quantity::User => "user time",
            Quantity::System => "system time",
            Quantity::PeakMemory => "peak memory",
            Quantity::MinorFaults => "minor page faults",
            Quantity::MajorFaults => "major page faults",
            Quantity::VoluntarySwitches => "voluntary context switches",
            Quantity::InvoluntarySwitches => "involuntary context switches",
            Quantity::Instructions => "instructions",
            Quantity::Cycles => "cycles",
        }
    }

    /// Of a run; none where it was not counted.
    pub fn of(self, took: &Took) -> Option<f64> {
        let count = match self {
            Quantity::Wall => took.wall_ns,
            Quantity::User => took.user_ns,
            Quantity::System => took.system_ns,
            Quantity::PeakMemory => took.peak_memory,
            Quantity::MinorFaults => took.minor_faults,
            Quantity::MajorFaults => took.major_faults,
            Quantity::VoluntarySwitches => took.voluntary_switches,
            Quantity::InvoluntarySwitches => took.involuntary_switches,
            Quantity::Instructions => took.instructions?,
            Quantity::Cycles => took.cycles?,
        };
        Some(count as f64)
    }

    /// Whether starting a shell takes some of it, which is subtracted.
    pub fn is_time(self) -> bool {
        matches!(self, Quantity::Wall | Quantity::User | Quantity::System)
    }
}
