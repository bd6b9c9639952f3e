//! `resctrl`: options for cache ways, memory bandwidth, and the tasks that use them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::common::JournalFolder;
use super::machine::{Inspect, PutBack};

/// `resctrl`.
#[derive(Debug, ClapArgs)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "\
Examples:
  ringfence resctrl
  ringfence resctrl run --l3 4 --mba 50 -- ./batch
  ringfence resctrl apply --unit backup.service --l3 0x3 --for 10min
  ringfence resctrl watch"
)]
pub struct Resctrl {
    /// What to do; by default, everything is shown
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
    /// Run a command with its own cache ways and bandwidth
    Run(Confined),
    /// Limit running processes, until Ctrl-C or for a time
    Apply(Apply),
    /// Show cache occupancy and memory traffic of groups, live
    Watch(Watch),
    /// Restore what a killed run left changed in resctrl
    Recover(PutBack),
    /// Undo what 'prove --keep' or 'apply --keep' left in place
    Undo(Undo),
    /// Keep resctrl as it is, and delete the journal that could restore it
    Forget(Forget),
}

/// Ways and bandwidth.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Limits {
    /// L3 ways: a mask such as 0xf, or a number such as 4
    ///
    /// For each cache by its number: '0=0xf;1=0xf0', or with commas. A cache that is not named
    /// stays as it was. A number selects adjacent ways that no exclusive group or locked region has
    /// and, if possible, that devices do not use. With CDP, code and data get the same ways.
    #[arg(long, value_name = "MASK|WAYS")]
    pub l3: Option<String>,
    /// The same for the L2
    #[arg(long, value_name = "MASK|WAYS")]
    pub l2: Option<String>,
    /// Memory bandwidth: 50 is percent, or MB/s if mounted so
    ///
    /// Percent of the total, or MB/s if resctrl is mounted with mba_MBps (AMD: eighths of a GB/s).
    /// A unit is optional, but must be the right one: 50%, 2000MB/s. For each memory by its number:
    /// '0=50;1=100'.
    #[arg(long, value_name = "AMOUNT")]
    pub mba: Option<String>,
}

impl Limits {
    /// The limits to check.
    pub fn given(&self) -> ringfence_limits::running::Limits {
        let Self { l3, l2, mba } = self.clone();
        ringfence_limits::running::Limits { l3, l2, mba }
    }
}

/// The kernel's files, and where the journal of changes lies.
#[derive(Debug, ClapArgs)]
pub struct Kernel {
    /// Use the kernel's files below this folder instead of /
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub journal: JournalFolder,
}

/// `resctrl run`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
The command and all that it starts run in their own group. The group is removed when the command \
ends, even if ringfence is killed; processes that still run then continue without limits. Signals \
are forwarded. The exit code is the command's, or 128 plus the number of the signal that ended it. \
A resource without a limit stays as it is for ringfence itself. Other processes may still use the \
same ways.

Examples:
  ringfence resctrl run --l3 0xf -- ./batch
  ringfence resctrl run --l3 '0=0xf;1=0xf0' --mba 50 --cpus 5-6 -- ./batch --all")]
pub struct Confined {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub limits: Limits,
    /// CPUs that the command may run on, such as 5-6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Print the steps without taking them
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub kernel: Kernel,
    /// The command, behind '--'
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub command: Vec<OsString>,
}

/// Running processes.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Target {
    /// Processes, with all that they started
    #[arg(long, value_name = "N,...", value_delimiter = ',', group = "target")]
    pub pid: Vec<u32>,
    /// A control group, with all below it
    ///
    /// Its folder, or its path as /proc/PID/cgroup shows it, such as /system.slice/backup.service.
    #[arg(long, value_name = "PATH", group = "target")]
    pub cgroup: Option<String>,
    /// A unit of systemd, such as backup.service
    #[arg(long, value_name = "NAME", group = "target")]
    pub unit: Option<String>,
    /// A container, by its id or the beginning of it
    #[arg(long, value_name = "ID", group = "target")]
    pub container: Option<String>,
}

impl Target {
    /// All named targets; may be empty.
    pub fn named(
        &self,
    ) -> Result<Vec<ringfence_limits::running::Target>, ringfence_experiment::Error> {
        let others =
            [("cgroup", &self.cgroup), ("unit", &self.unit), ("container", &self.container)];
        let others = others.into_iter().filter_map(|(flag, name)| Some((flag, name.clone()?)));
        let pids = self.pid.iter().map(|pid| ("pid", pid.to_string()));
        pids.chain(others)
            .map(|(flag, name)| ringfence_limits::running::named(flag, &name))
            .collect()
    }
}

/// `resctrl apply`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
All threads move to a group with these limits, and processes that they start join it. At the end \
the threads move back. Processes that the system or remote access depends on are refused: process \
1, kernel threads, sshd, systemd's own processes, container runtimes, and ringfence itself with \
the processes that started it or read its output.

Examples:
  ringfence resctrl apply --pid 4711 --l3 0x3 --mba 20
  ringfence resctrl apply --unit backup.service --l3 2 --for 10min
  ringfence resctrl apply --cgroup /user.slice --mba 50 --keep
  ringfence resctrl apply --pid 4711 --none --for 1min")]
pub struct Apply {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub target: Target,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub limits: Limits,
    /// No limits: move to the default group
    #[arg(long, conflicts_with_all = ["l3", "l2", "mba"])]
    pub none: bool,
    /// Keep the limits, and print how to undo them
    #[arg(long, conflicts_with = "time")]
    pub keep: bool,
    /// Restore after this time, such as 30s or 10min
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true)]
    pub time: Option<String>,
    /// Print the steps without taking them
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub kernel: Kernel,
}

/// `resctrl watch`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
On a terminal, one table is redrawn; elsewhere each group and cache is a line of fields separated \
by tabs, below one header line. A group's figures include those of its monitor groups. With --pid, \
--cgroup, --unit or --container, temporary monitor groups are created, and only they are shown.

Examples:
  ringfence resctrl watch
  ringfence resctrl watch --pid 4711 --interval 500ms --count 20
  ringfence resctrl watch --json | jq '.used[] | [.group, .total]'")]
pub struct Watch {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub target: Target,
    /// The time between two readings, 10ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true)]
    pub interval: String,
    /// Stop after this many readings [default: at Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print JSON, one document per line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub kernel: Kernel,
}

/// Flags of `resctrl undo`.
#[derive(Debug, ClapArgs)]
pub struct Undo {
    /// The name that 'apply --keep' printed; without it, 'prove --keep'
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub put_back: PutBack,
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
