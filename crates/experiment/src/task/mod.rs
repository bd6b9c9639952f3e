//! What a task does: the built-in workloads and their parameters, as an experiment file names them.
//!
//! Each workload has a file here: the parameters of one [`Task`], the properties that follow from
//! them ([`Parameters`]), and the same parameters as lists, as a file may have them (in [`Tasks`]).

mod alu;
mod attachment;
mod axes;
mod chase;
mod churn;
mod command;
mod commit;
mod dirty;
mod figure;
mod idle;
mod instruction;
mod mcf;
mod numbers;
mod parameters;
mod probe;
mod read;
mod record;
mod ring;
mod scan;
mod server;
mod settings;
mod stream;
mod target;
mod tasks;
pub mod text;
mod trace;
mod variants;
mod word;
mod write;

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::one_or_many::OneOrMany;

pub use alu::{Alu, Alus};
pub use attachment::{Attached, Attachments};
use axes::Axes;
pub use chase::{Chase, Chases};
pub use churn::{Churn, Churns};
pub use command::{Command, Commands, DEFAULT_WARM_UP, LogUnit, ProgramUnit};
pub use commit::{Commit, Commits, Io, Layout, Sync};
pub use dirty::{Dirties, Dirty, DirtyIo};
pub use figure::{Better, Counted, Figure, Finder, NoFigure};
pub use idle::{Idle, Idles};
pub use instruction::{FenceAt, FenceKind, Instruction, WidthChoice};
pub use mcf::{Mcf, Mcfs};
pub use numbers::latency_in;
pub use parameters::Parameters;
pub use probe::{Probe, Probes};
pub use read::{FlushBetween, Memory, Read, Reads};
pub use record::{PAYLOADS, Record, RecordMethod, Records};
pub use ring::{Ring, RingVariant, Rings};
pub use ringfence_persist::{Flush, Width};
pub use scan::{Scan, ScanIo, Scans};
pub use server::{DEFAULT_READY_WITHIN, LineFound, Ready, Server};
pub use settings::Settings;
pub use stream::{Stream, Streams};
pub use target::Target;
pub use tasks::OneTask;
pub use trace::{Flushes, Loads, Trace, Traces};
pub use variants::{Variant, variants};
pub use write::{LineState, PageSize, Pattern, Write, Writes};

/// Declares the workloads. Only the code that runs or simulates them lists them as well.
macro_rules! workloads {
    ($($(#[$doc:meta])* $task:ident as $axes:ident,)*) => {
        /// One task, every parameter decided. Its properties are in [`Parameters`].
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "workload", rename_all = "lowercase")]
        pub enum Task {
            $($(#[$doc])* $task($task),)*
        }

        /// A task as a file has it: of a workload, each parameter with a value or with a list,
        /// whose values make tasks of their own.
        #[derive(Debug, Clone, PartialEq)]
        #[cfg_attr(
            feature = "schema",
            derive(schemars::JsonSchema),
            schemars(
                with = "serde_json::Map<String, serde_json::Value>",
                extend("required" = ["workload"]),
                extend("properties" = {
                    "workload": { "description": "Which workload.", "enum": WORKLOADS }
                }),
            )
        )]
        pub enum Tasks {
            $($(#[$doc])* $task($axes),)*
        }

        /// The built-in workloads' names.
        pub const WORKLOADS: &[&str] = &[$($task::WORKLOAD,)*];

        impl Task {
            /// The workload's name, as in a file.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Task::$task(_) => $task::WORKLOAD,)*
                }
            }
        }

        impl Deref for Task {
            type Target = dyn Parameters;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Task::$task(task) => task,)*
                }
            }
        }

        impl Tasks {
            fn named(workload: &str) -> Option<Self> {
                match workload {
                    $($task::WORKLOAD => Some(Tasks::$task($axes::default())),)*
                    _ => None,
                }
            }

            // One task, with the value of each list at the index that `place` returns.
            fn task(&self, place: &dyn Fn(&str) -> usize) -> Task {
                match self {
                    $(Tasks::$task(axes) => axes.task(place).into(),)*
                }
            }

            fn axes(&self) -> &dyn Axes {
                match self {
                    $(Tasks::$task(axes) => axes,)*
                }
            }

            fn axes_mut(&mut self) -> &mut dyn Axes {
                match self {
                    $(Tasks::$task(axes) => axes,)*
                }
            }
        }

        $(
            impl From<$task> for Task {
                fn from(task: $task) -> Self {
                    Task::$task(task)
                }
            }

            impl From<$axes> for Tasks {
                fn from(axes: $axes) -> Self {
                    Tasks::$task(axes)
                }
            }

            impl From<$axes> for OneOrMany<Tasks> {
                fn from(axes: $axes) -> Self {
                    OneOrMany::One(axes.into())
                }
            }
        )*
    };
}

workloads! {
    /// Makes stores durable, or flushed; unit = lines of 64 bytes written.
    Write as Writes,
    /// Pushes entries to a ring buffer, durable each, and reads them; unit = entries pushed and
    /// read.
    Ring as Rings,
    /// Writes records, each failure-atomic and durable; unit = records written.
    Record as Records,
    /// Appends records to a log in a file, each batch made durable; unit = commits.
    Commit as Commits,
    /// Writes blocks to a file and leaves them to the kernel, or to a gentler call; unit = bytes
    /// written.
    Dirty as Dirties,
    /// Creates, writes, renames and removes files; unit = files.
    Churn as Churns,
    /// Reads blocks of a file that are not in the page cache; unit = bytes read.
    Scan as Scans,
    /// A random pointer chase; unit = loads.
    Chase as Chases,
    /// Random reads at intervals, each timed; unit = reads.
    Read as Reads,
    /// Reads and writes memory in order; unit = bytes moved.
    Stream as Streams,
    /// Integer arithmetic in registers; unit = multiplications.
    Alu as Alus,
    /// A minimum-cost-flow network simplex; unit = arcs priced.
    Mcf as Mcfs,
    /// Asks a running service and times the answers; unit = answers.
    Probe as Probes,
    /// Running processes that this program did not start; unit = ns of CPU time.
    Attached as Attachments,
    /// A recorded program, played on a described machine; unit = events of the recording.
    Trace as Traces,
    /// Any program; unit = as its parameter `unit` says.
    Command as Commands,
    /// Nothing: the co-runner that cannot disturb, a control.
    Idle as Idles,
}

impl Task {
    /// Whether it stands for running processes that this program did not start: they get no CPU
    /// from it, and pause for windows only.
    pub fn is_attached(&self) -> bool {
        matches!(self, Task::Attached(_))
    }

    /// Whether its work is done by a running service.
    pub fn asks_a_service(&self) -> bool {
        matches!(self, Task::Probe(_))
    }
}
