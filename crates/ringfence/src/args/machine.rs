//! The verbs that describe a machine, and those that restore its settings.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::common::JournalFolder;
use super::whatif::WhatIf;

/// Flags of verbs that change and measure nothing.
#[derive(Debug, ClapArgs)]
pub struct Inspect {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Read the kernel's files below this folder instead of /
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
}

/// `doctor`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence doctor
  ringfence doctor --why")]
pub struct Doctor {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub inspect: Inspect,
    /// Print cause, consequence and remedy of each
    ///
    /// The memory that tasks can write to is listed as well, and findings about persistent memory
    /// are printed even on a machine without it.
    #[arg(long, short = 'v', alias = "verbose")]
    pub why: bool,
}

/// `machine`.
#[derive(Debug, ClapArgs)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "\
Examples:
  ringfence machine cascade-lake-optane
  ringfence machine
  ringfence write --machine cascade-lake-optane --target dax:/mnt/pmem0
  ringfence machine new --from mine --out here.toml
  ringfence machine check here.toml --from mine"
)]
pub struct Describe {
    /// What to do; without it, a machine is shown
    #[command(subcommand)]
    pub action: Option<MachineAction>,
    /// A machine file, or the name of a machine that comes with Ringfence
    #[arg(value_name = "FILE")]
    pub machine: Option<String>,
    /// Print the machine file itself, for editing
    #[arg(long, conflicts_with = "json", requires = "machine")]
    pub file: bool,
    /// Print where each value comes from
    #[arg(long, short = 'v', alias = "verbose", requires = "machine")]
    pub why: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What `machine` can do besides showing.
#[derive(Debug, Subcommand)]
pub enum MachineAction {
    /// Write the machine file of this host, or of one that was surveyed
    New(MachineNew),
    /// Compare a machine file with the write table of a survey
    Check(MachineCheck),
    /// Print how much each figure changes when a value grows by a tenth
    Sensitivity(MachineSensitivity),
    /// Fit values of a machine file to measured costs
    ///
    /// Changes the named values so that the simulator reproduces half of the measured cells, or the
    /// cells that you name. Prints how far the other cells are off before and after.
    Fit(Box<Calibrate>),
    /// Simulate a described machine, and the same with changes
    ///
    /// Runs the same plan on a described machine and on the same machine with some of its values
    /// changed, and compares both case by case: would more ways, another DIMM population, eADR, no
    /// SMT help? Nothing is measured.
    #[command(name = "whatif")]
    WhatIf(Box<WhatIf>),
    /// Show this host: cores, SMT siblings, caches and NUMA nodes
    Host(Inspect),
}

/// `machine new`.
#[derive(Debug, ClapArgs)]
pub struct MachineNew {
    /// A survey: its machine is described from its findings
    ///
    /// Without it, this host is described, and every latency is assumed.
    #[arg(long, value_name = "SURVEY")]
    pub from: Option<PathBuf>,
    /// Write the machine file here instead of printing it
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `machine check`.
#[derive(Debug, ClapArgs)]
pub struct MachineCheck {
    /// A machine file, or the name of a machine that comes with Ringfence
    #[arg(value_name = "FILE")]
    pub machine: String,
    /// The folder of a survey of the same machine
    #[arg(long, value_name = "SURVEY")]
    pub from: PathBuf,
    /// Print a table of Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `machine sensitivity`.
#[derive(Debug, ClapArgs)]
pub struct MachineSensitivity {
    /// A machine file, or the name of a machine that comes with Ringfence
    #[arg(value_name = "FILE")]
    pub machine: String,
    /// An experiment file; without it, some write costs
    #[arg(long, value_name = "FILE")]
    pub experiment: Option<PathBuf>,
    /// The memory that is written
    #[arg(long, value_name = "TARGET", default_value = "dram", conflicts_with = "experiment")]
    pub target: String,
    /// Print a table of Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `machine fit`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence machine fit here.toml --from mine --out fitted.toml
  ringfence machine fit here.toml --from costs --fit core.fence_ns --use clwb")]
pub struct Calibrate {
    /// A machine file, or the name of a machine that comes with Ringfence
    #[arg(value_name = "MACHINE")]
    pub machine: String,
    /// What was measured: a dataset, or a survey
    ///
    /// For a survey, the write table is used. It must come from the machine that the file
    /// describes.
    #[arg(long, value_name = "DATASET")]
    pub from: PathBuf,
    /// Values to fit [default: those of 'machine new']
    ///
    /// Each by its path, such as core.fence_ns.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub fit: Vec<String>,
    /// Use cells whose label contains this; may be repeated
    ///
    /// All others are left out.
    #[arg(long = "use", value_name = "TEXT", conflicts_with = "seed")]
    pub cells: Vec<String>,
    /// Seed that selects the half, without --use
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the machine file with the fitted values here
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `restore`, and of `resctrl recover` and `undo`.
#[derive(Debug, ClapArgs)]
pub struct PutBack {
    /// Print the steps without taking them
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Use the kernel's files below this folder instead of /
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub journal: JournalFolder,
}

/// `explain`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence explain .
  ringfence explain /dev/dax0.0")]
pub struct Explain {
    /// A file, a folder or a device such as /dev/dax0.0
    ///
    /// A file is not changed, and in a folder no file is created.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Print every layer, with reasons and sources
    #[arg(long, short)]
    pub verbose: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
