//! What a task does: the built-in workloads and their parameters, as an experiment file names them.
//!
//! In a file any parameter may be a list; [`axes`] turns such a table into one concrete [`Task`]
//! per combination.

mod attachment;
pub mod axes;
mod churn;
mod command;
mod commit;
mod dirty;
mod figure;
mod instruction;
mod numbers;
mod probe;
mod read;
mod record;
mod ring;
mod scan;
mod server;
mod table;
mod target;
pub mod text;
mod trace;
mod word;
mod write;

use std::path::Path;

use ringfence_machine::features::Features;
use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::Reason;
use crate::units::Span;

pub use attachment::Attached;
pub use churn::Churn;
pub use command::{Command, DEFAULT_WARM_UP, LogUnit, ProgramUnit};
pub use commit::{Commit, Io, Layout, Sync};
pub use dirty::{Dirty, DirtyIo};
pub use figure::{Better, Counted, Figure, Finder, NoFigure};
pub use numbers::latency_in;
pub use ringfence_persist::{Flush, Width};

pub use instruction::{FenceAt, FenceKind, Instruction, WidthChoice};
pub use probe::Probe;
pub use read::{FlushBetween, Memory, Read};
pub use record::{PAYLOADS, Record, RecordMethod};
pub use ring::{Ring, RingVariant};
pub use scan::{Scan, ScanIo};
pub use server::{DEFAULT_READY_WITHIN, LineFound, Ready, Server};
pub use table::{table, words};
pub use target::Target;
pub use trace::{Flushes, Loads, Trace};
pub use write::{LineState, PageSize, Pattern, Write};

/// One task, every parameter decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "workload", rename_all = "lowercase")]
pub enum Task {
    /// Makes stores durable, or flushed; unit = lines of 64 bytes written.
    Write(Write),
    /// Pushes entries to a ring buffer, durable each, and reads them; unit = entries pushed and
    /// read.
    Ring(Ring),
    /// Writes records, each failure-atomic and durable; unit = records written.
    Record(Record),
    /// Appends records to a log in a file, each batch made durable; unit = commits.
    Commit(Commit),
    /// Writes blocks to a file and leaves them to the kernel, or to a gentler call; unit = bytes
    /// written.
    Dirty(Dirty),
    /// Creates, writes, renames and removes files; unit = files.
    Churn(Churn),
    /// Reads blocks of a file that are not in the page cache; unit = bytes read.
    Scan(Scan),
    /// A random pointer chase; unit = loads.
    Chase(Chase),
    /// Random reads at intervals, each timed; unit = reads.
    Read(Read),
    /// Reads and writes memory in order; unit = bytes moved.
    Stream(Stream),
    /// Integer arithmetic in registers; unit = multiplications.
    Alu(Alu),
    /// A minimum-cost-flow network simplex; unit = arcs priced.
    Mcf(Mcf),
    /// Asks a running service and times the answers; unit = answers.
    Probe(Probe),
    /// Running processes that this program did not start; unit = ns of CPU time.
    Attached(Attached),
    /// A recorded program, played on a described machine; unit = events of the recording.
    Trace(Trace),
    /// Any program; unit = as its parameter `unit` says.
    Command(Command),
    /// Nothing: the co-runner that cannot disturb, a control.
    Idle(Idle),
}

impl Task {
    /// The workload's name, as in a file.
    pub fn name(&self) -> &'static str {
        match self {
            Task::Write(_) => "write",
            Task::Ring(_) => "ring",
            Task::Record(_) => "record",
            Task::Commit(_) => "commit",
            Task::Dirty(_) => "dirty",
            Task::Churn(_) => "churn",
            Task::Scan(_) => "scan",
            Task::Chase(_) => "chase",
            Task::Read(_) => "read",
            Task::Stream(_) => "stream",
            Task::Alu(_) => "alu",
            Task::Mcf(_) => "mcf",
            Task::Probe(_) => "probe",
            Task::Attached(_) => "attached",
            Task::Trace(_) => "trace",
            Task::Command(_) => "command",
            Task::Idle(_) => "idle",
        }
    }

    /// What one unit of its work is, in the plural.
    pub fn unit(&self) -> &'static str {
        match self {
            Task::Write(_) => "lines",
            Task::Ring(_) => "entries",
            Task::Record(_) => "records",
            Task::Commit(_) => "commits",
            Task::Churn(_) => "files",
            Task::Chase(_) => "loads",
            Task::Read(_) => "reads",
            Task::Stream(_) | Task::Dirty(_) | Task::Scan(_) => "bytes",
            Task::Alu(_) => "multiplications",
            Task::Mcf(_) => "arcs priced",
            Task::Probe(_) => "answers",
            Task::Attached(_) => ProgramUnit::CpuTime.name(),
            Task::Trace(_) => "events",
            Task::Command(command) => command.unit.name(),
            Task::Idle(_) => "none",
        }
    }

    /// Bytes that one unit moves, where that is what the work is.
    pub fn bytes_per_unit(&self) -> Option<u64> {
        match self {
            Task::Write(_) => Some(64),
            Task::Ring(ring) => Some(ring.entry.0),
            Task::Record(record) => Some(record.payload.0),
            Task::Commit(commit) => Some(commit.bytes()),
            Task::Stream(_) | Task::Dirty(_) | Task::Scan(_) => Some(1),
            Task::Churn(_) | Task::Chase(_) | Task::Read(_) | Task::Alu(_) | Task::Mcf(_) => None,
            Task::Trace(_)
            | Task::Command(_)
            | Task::Idle(_)
            | Task::Probe(_)
            | Task::Attached(_) => None,
        }
    }

    /// Whether it stays on its CPU.
    pub fn pinned(&self) -> bool {
        match self {
            Task::Write(write) => write.pinned,
            Task::Ring(ring) => ring.pinned,
            Task::Record(_) | Task::Chase(_) | Task::Read(_) | Task::Stream(_) | Task::Alu(_) => {
                true
            }
            Task::Commit(_) | Task::Dirty(_) | Task::Churn(_) | Task::Scan(_) => true,
            Task::Mcf(_) | Task::Trace(_) | Task::Command(_) | Task::Idle(_) | Task::Probe(_) => {
                true
            }
            Task::Attached(_) => false,
        }
    }

    /// Whether it stands for running processes that this program did not start: they get no CPU
    /// from it, and pause for windows only.
    pub fn is_attached(&self) -> bool {
        matches!(self, Task::Attached(_))
    }

    /// Whether its time is the sum over its units, of which several may be in progress at once, and
    /// not the time in which it ran.
    pub fn is_timed_by_latency(&self) -> bool {
        match self {
            Task::Probe(_) => true,
            Task::Command(command) => command.unit == ProgramUnit::Latencies,
            _ => false,
        }
    }

    /// Whether its work is done by a running service.
    pub fn asks_a_service(&self) -> bool {
        matches!(self, Task::Probe(_))
    }

    /// The figure that replaces the time of its runs, if any.
    pub fn figure(&self) -> Option<&Figure> {
        match self {
            Task::Command(command) => command.figure.as_ref(),
            _ => None,
        }
    }

    /// Whether it counts the latencies of single units of its work.
    pub fn counts_latencies(&self) -> bool {
        match self {
            Task::Read(_) | Task::Commit(_) | Task::Probe(_) => true,
            Task::Chase(chase) => chase.histogram,
            Task::Command(command) => command.unit == ProgramUnit::Latencies,
            Task::Write(_) | Task::Ring(_) | Task::Record(_) | Task::Stream(_) | Task::Alu(_) => {
                false
            }
            Task::Mcf(_) | Task::Trace(_) | Task::Idle(_) => false,
            Task::Dirty(_) | Task::Churn(_) | Task::Scan(_) | Task::Attached(_) => false,
        }
    }

    /// Whether it is built in and uses a disk: it leaves the device something to do, which it waits
    /// for when it pauses, and which would be in the next window if that came at once.
    pub fn uses_a_disk(&self) -> bool {
        self.works_in().is_some()
    }

    /// Whether it writes to files that may lie on a disk.
    pub fn writes_files(&self) -> bool {
        self.writes_to().is_some()
    }

    /// The folder or the name of such files.
    pub fn writes_to(&self) -> Option<&Path> {
        fn file(target: &Target) -> Option<&Path> {
            match target {
                Target::File(path) => Some(path),
                _ => None,
            }
        }
        match self {
            Task::Write(write) => file(&write.target),
            Task::Ring(ring) => file(&ring.target),
            Task::Record(record) => file(&record.target),
            // A scan makes the file that it reads.
            _ => self.works_in(),
        }
    }

    /// The folder that it uses a disk in.
    pub fn works_in(&self) -> Option<&Path> {
        match self {
            Task::Commit(commit) => Some(&commit.dir),
            Task::Dirty(dirty) => Some(&dirty.dir),
            Task::Churn(churn) => Some(&churn.dir),
            Task::Scan(scan) => Some(&scan.dir),
            Task::Write(_) | Task::Ring(_) | Task::Record(_) | Task::Chase(_) | Task::Read(_) => {
                None
            }
            Task::Stream(_) | Task::Mcf(_) | Task::Alu(_) | Task::Idle(_) => None,
            Task::Trace(_) | Task::Command(_) | Task::Probe(_) | Task::Attached(_) => None,
        }
    }

    /// The folder in which its files have names while it runs; the process that ends it removes
    /// them.
    pub fn names_files_in(&self) -> Option<&Path> {
        match self {
            Task::Churn(churn) => Some(&churn.dir),
            _ => None,
        }
    }

    /// Whether it takes a `pace`, in bytes per second.
    pub fn takes_a_pace(&self) -> bool {
        matches!(self, Task::Write(_) | Task::Dirty(_) | Task::Scan(_))
    }

    /// What should be known of its figures, in a sentence, whatever they are.
    pub fn caution(&self) -> Option<String> {
        match self {
            Task::Dirty(dirty) => dirty.caution(),
            _ => None,
        }
    }

    /// Whether it waits in system calls for a device, for as long as that takes.
    pub fn waits_for_a_device(&self) -> bool {
        matches!(self, Task::Commit(_))
    }

    /// Whether what it times are loads, of which some hit a cache and some miss.
    pub fn times_loads(&self) -> bool {
        self.counts_latencies() && matches!(self, Task::Read(_) | Task::Chase(_))
    }

    /// The shortest window that is sure to hold some of its work, where it does not work all the
    /// time.
    pub fn least_window(&self) -> Option<Span> {
        match self {
            Task::Read(read) => Some(read.least_window()),
            Task::Commit(_) | Task::Dirty(_) | Task::Churn(_) | Task::Scan(_) => {
                Some(Commit::LEAST_WINDOW)
            }
            Task::Write(_) | Task::Ring(_) | Task::Record(_) | Task::Chase(_) | Task::Stream(_) => {
                None
            }
            Task::Probe(probe) => Some(probe.least_window()),
            Task::Alu(_) | Task::Mcf(_) | Task::Trace(_) | Task::Command(_) | Task::Idle(_) => None,
            Task::Attached(_) => None,
        }
    }

    /// Why it is not run: there is no such method, or a processor with these features lacks it.
    /// Where they are not known, it has all.
    pub fn missing(&self, features: Option<&Features>) -> Option<Reason> {
        match self {
            Task::Write(write) => write.missing(features),
            Task::Read(read) => read.missing(features),
            Task::Commit(commit) => commit.impossible(),
            Task::Ring(_) | Task::Record(_) | Task::Chase(_) | Task::Stream(_) | Task::Alu(_) => {
                None
            }
            Task::Mcf(_) | Task::Trace(_) | Task::Command(_) | Task::Idle(_) => None,
            Task::Dirty(_)
            | Task::Churn(_)
            | Task::Scan(_)
            | Task::Probe(_)
            | Task::Attached(_) => None,
        }
    }

    /// Checks what the types cannot: ranges and combinations.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Task::Write(write) => write.check(),
            Task::Ring(ring) => ring.check(),
            Task::Record(record) => record.check(),
            Task::Commit(commit) => commit.check(),
            Task::Dirty(dirty) => dirty.check(),
            Task::Churn(churn) => churn.check(),
            Task::Scan(scan) => scan.check(),
            Task::Chase(chase) => at_least("footprint", chase.footprint, Bytes::kib(4)),
            Task::Read(read) => read.check(),
            Task::Mcf(mcf) if mcf.instances.is_some_and(|count| count == 0 || count > 4096) => {
                Err("instances must be between 1 and 4096".into())
            }
            Task::Mcf(mcf) => {
                let each = Bytes(mcf.footprint.0 / u64::from(mcf.instance_count()));
                at_least("footprint per instance", each, Bytes::kib(4))
            }
            Task::Stream(stream) => at_least("size", stream.size, Bytes::kib(4)),
            Task::Probe(probe) => probe.check(),
            Task::Attached(attached) => attached.check(),
            Task::Trace(trace) => trace.check(),
            Task::Command(command) => command.check(),
            Task::Alu(_) | Task::Idle(_) => Ok(()),
        }
    }
}

fn at_least(key: &str, value: Bytes, least: Bytes) -> Result<(), String> {
    if value < least {
        Err(format!("{key} = {value} is too small: at least {least}"))
    } else {
        Ok(())
    }
}

/// A pointer chase: each load's address comes from the load before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Chase {
    /// Bytes chased through, one load per line, each line once per round.
    pub footprint: Bytes,
    /// The pages it lies in.
    pub pages: PageSize,
    /// Whether to time every load alone and count the latencies, which slows the chase down.
    pub histogram: bool,
}

impl Default for Chase {
    fn default() -> Self {
        Self { footprint: Bytes::mib(4), pages: PageSize::Base, histogram: false }
    }
}

/// A sequential reader and writer: `a[i] = b[i] + c[i]` over three arrays, as in STREAM's add.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Bytes in the three arrays together.
    pub size: Bytes,
}

impl Default for Stream {
    fn default() -> Self {
        Self { size: Bytes::mib(192) }
    }
}

/// Integer multiplications that touch no memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Alu {
    /// For checking the measurement itself: the share of its work that it skips while this variant
    /// runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handicap: Option<crate::units::Share>,
}

/// A network simplex on timetabling instances, solved in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mcf {
    /// Approximate bytes of nodes and arcs, all instances together; they are sized to it.
    pub footprint: Bytes,
    /// How many instances; absent: one per 256 KiB. The rate swings tenfold over one solution, and
    /// the more solutions are under way, each at another point, the steadier their sum is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// Seed of the instances.
    pub seed: u64,
}

impl Default for Mcf {
    fn default() -> Self {
        Self { footprint: Bytes::mib(8), instances: None, seed: 1 }
    }
}

impl Mcf {
    /// How many instances it comes to.
    pub fn instance_count(&self) -> u32 {
        let auto = (self.footprint.0 / Bytes::kib(256).0).clamp(1, 4096) as u32;
        self.instances.unwrap_or(auto)
    }
}

/// Nothing at all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idle {}
