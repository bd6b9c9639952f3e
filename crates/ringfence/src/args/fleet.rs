//! `fleet`: one experiment on many machines.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// `fleet`.
#[derive(Debug, ClapArgs)]
#[command(
    subcommand_required = true,
    after_long_help = "\
Each task is one host. One folder contains all data of a fleet; it must be on a file system that \
all nodes share.

Examples:
  ringfence fleet submit try --local 2 -- survey --quick
  ringfence fleet report try
  ringfence fleet submit fleet --hosts 40 --slurm -p main -- survey
  ringfence fleet submit FILE.toml fleet --slurm --nodelist='n[1-9]'"
)]
pub struct Fleet {
    /// What to do
    #[command(subcommand)]
    pub action: FleetAction,
}

/// What `fleet` can do.
#[derive(Debug, Subcommand)]
pub enum FleetAction {
    /// Submit an experiment to Slurm, one task per node, or try it here
    Submit(FleetSubmit),
    /// List every task: waiting, running, done, failed and why, missing
    Status(FleetLook),
    /// Rerun failed and missing tasks
    Retry(FleetRetry),
    /// Collect one table of all hosts, for DuckDB, polars and pandas
    Gather(FleetDir),
    /// Report which hosts differ, and what to expect of a new one
    Report(FleetReport),
    /// Run one task here, as Slurm's script does on its node
    Task(FleetTask),
}

/// `fleet submit`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Copies this program and the experiment into the folder, and submits a job array with one task per \
node. Each task has its node to itself, and a time limit that follows from the experiment's time. \
If sbatch's options include a list of nodes, each task runs on one of them; otherwise Slurm chooses.

Examples:
  ringfence fleet submit try --local 2 -- survey --quick
  ringfence fleet submit fleet --hosts 40 --slurm -p main -- survey")]
pub struct FleetSubmit {
    /// An experiment file, unless a verb follows '--'; a folder
    #[arg(value_name = "FILE|DIR", num_args = 1..=2, required = true)]
    pub places: Vec<PathBuf>,
    /// Run this many tasks here, one after the other
    #[arg(long, value_name = "N", conflicts_with = "slurm")]
    pub local: Option<u32>,
    /// Number of nodes; Slurm chooses them
    #[arg(long, value_name = "N", conflicts_with = "local")]
    pub hosts: Option<u32>,
    /// Limit of a task's time [default: from its budget]
    ///
    /// Slurm ends a task that takes longer.
    #[arg(long, value_name = "TIME", conflicts_with = "local")]
    pub limit: Option<String>,
    /// Submit to Slurm, with these options of sbatch
    ///
    /// Everything up to '--' goes to sbatch.
    #[arg(long, value_name = "OPTION", num_args = 0.., allow_hyphen_values = true)]
    pub slurm: Option<Vec<String>>,
    /// The verb that each task runs, and its flags
    #[arg(value_name = "VERB", last = true)]
    pub verb: Vec<String>,
}

/// `fleet status`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence fleet status fleet
  ringfence fleet status fleet --wait && ringfence fleet report fleet")]
pub struct FleetLook {
    /// The folder of a fleet
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Wait until every task has ended; exit code 1 if any has no figures
    #[arg(long)]
    pub wait: bool,
    /// Print the tasks as JSON
    #[arg(long)]
    pub json: bool,
}

/// `fleet retry`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Submits failed and missing tasks again. A task that may still be running is not submitted.

Examples:
  ringfence fleet retry fleet
  ringfence fleet retry fleet --limit 2h
  ringfence fleet retry fleet --slurm --exclude=n7")]
pub struct FleetRetry {
    /// The folder of a fleet
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// A new limit of a task's time
    #[arg(long, value_name = "TIME")]
    pub limit: Option<String>,
    /// More options of sbatch
    ///
    /// Everything that follows goes to sbatch, after the options of 'submit'.
    #[arg(long, value_name = "OPTION", num_args = 0.., allow_hyphen_values = true)]
    pub slurm: Option<Vec<String>>,
}

/// `fleet gather`.
#[derive(Debug, ClapArgs)]
pub struct FleetDir {
    /// The folder of a fleet
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// `fleet report`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Collects new results first.

Examples:
  ringfence fleet report fleet --by processor,microcode --html fleet.html
  ringfence fleet report fleet --figure neighbours-chase --at-least 2x
  ringfence fleet report fleet --compare kernel=6.1:6.6
  ringfence fleet report after --compare before")]
pub struct FleetReport {
    /// The folder of a fleet
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Group hosts by these facts [default: processor]
    ///
    /// Columns of the table, such as processor, kernel, microcode, bios.
    #[arg(long, value_name = "FACT,...", value_delimiter = ',')]
    pub by: Option<Vec<String>>,
    /// Only figures whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub figure: Option<String>,
    /// Count hosts slowed by this or more
    ///
    /// A factor or a share, such as 2x or 10%.
    #[arg(long, value_name = "SLOWDOWN", default_value = "2x")]
    pub at_least: String,
    /// Compare FACT=BEFORE:AFTER, or an earlier fleet
    ///
    /// Two groups of hosts, such as kernel=6.1:6.6, or this fleet and the folder of one that was
    /// measured before.
    #[arg(long, value_name = "WHAT")]
    pub compare: Option<String>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Write it as an HTML page to this file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `fleet task`.
#[derive(Debug, ClapArgs)]
pub struct FleetTask {
    /// The folder of a fleet
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The task, from 1
    #[arg(value_name = "N")]
    pub number: u32,
    /// Read the kernel's files below this folder instead of /
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
}
