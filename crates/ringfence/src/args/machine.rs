//! The verbs that look at a machine, and those that put its settings back.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::common::JournalFolder;

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

/// `machine`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence machine cascade-lake-optane
  ringfence machine
  ringfence write --machine cascade-lake-optane --target dax:/mnt/pmem0")]
pub struct Describe {
    /// A machine file, or the name of a machine that comes with Ringfence
    #[arg(value_name = "FILE")]
    pub machine: Option<String>,
    /// Print the machine file itself, to be changed
    #[arg(long, conflicts_with = "json", requires = "machine")]
    pub file: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `resctrl`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Resctrl {
    /// What to do; without it, everything is shown
    #[command(subcommand)]
    pub action: Option<ResctrlAction>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub inspect: Inspect,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub journal: JournalFolder,
}

/// What `resctrl` can do besides showing.
#[derive(Debug, Subcommand)]
pub enum ResctrlAction {
    /// Put back what a killed run has left changed in resctrl
    Recover(PutBack),
    /// Put back what 'prove --keep' has left in place
    Undo(PutBack),
    /// Leave resctrl as it is, and delete the journal that could put it back
    Forget(Forget),
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

/// Flags of `resctrl forget`.
#[derive(Debug, ClapArgs)]
pub struct Forget {
    /// Delete the journal of 'prove --keep' instead
    #[arg(long)]
    pub kept: bool,
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
  ringfence explain /tmp
  ringfence explain /dev/dax0.0")]
pub struct Explain {
    /// A file, a folder or a device such as /dev/dax0.0
    ///
    /// A file is not changed, and in a folder no file is created.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
