//! One experiment on many machines: tasks in a folder, an engine that people have, and one table of
//! what came of it.
//!
//! A fleet is a folder:
//!
//! | what | holds |
//! |---|---|
//! | `fleet.toml` | [`Spec`]: the request, its time and its engine |
//! | `ringfence` | the program that every task runs |
//! | `experiment.toml` | the experiment, where it was a file |
//! | `submissions/1/` | the script that Slurm was handed, the command, the job's name and number |
//! | `tasks/0001/attempt-1/` | an attempt at a task: its datasets, the machine, how it ended |
//! | `tasks/0001/first.json` | which attempt counts: the first that was complete |
//! | `nodes/NAME` | which task has measured a node |
//! | `submitting` | is locked by the process that hands tasks in, or runs them here |
//! | `table/` | what [`gather()`] makes of all of it |
//!
//! An attempt writes to a folder of its own, `attempt-1.part`, and takes its name when all of it is
//! there. So a task that runs twice, because an engine thinks a running node dead, neither loses
//! nor mixes anything.

#![forbid(unsafe_code)]

mod attempt;
mod ended;
mod error;
mod facts;
mod folder;
mod lock;
mod order;
mod retry;
mod run;
mod same_experiment;
mod slurm;
mod slurm_tasks;
mod state;
mod status;
mod submission;
mod table;

pub use attempt::{Outcome, Started};

pub use facts::{Fact, Facts};
pub use folder::{Engine, Spec, create, is_fleet, open, static_problem};
pub use lock::Submitting;
pub use order::{Order, Ordered, order};
pub use retry::{Retry, retry};
pub use run::{Place, run_task};
pub use same_experiment::same_experiment;
pub use state::State;
pub use status::{Task, Tried, look};
pub use submission::{may_have_job, submit};
pub use table::{Figure, Gathered, LeftOut, OnHost, Read, gather, is_current, read};
