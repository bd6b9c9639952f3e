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
    /// Run a command with cache ways and bandwidth of its own
    Run(Confined),
    /// Limit what runs already, until Ctrl-C or for a time
    Apply(Apply),
    /// Show what groups hold of caches and move to memory, live
    Watch(Watch),
    /// Put back what a killed run has left changed in resctrl
    Recover(PutBack),
    /// Put back what 'prove --keep' or 'apply --keep' left in place
    Undo(Undo),
    /// Leave resctrl as it is, and delete the journal that could put it back
    Forget(Forget),
}

/// Ways and bandwidth.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Limits {
    /// Ways of the L3: a mask, 0xf; or how many, 4
    ///
    /// For each cache by its number: '0=0xf;1=0xf0', or with commas. A cache that is not named
    /// stays as it was. A number of ways is of neighbouring ones that no exclusive group or locked
    /// region has, where possible away from those that devices use. With CDP, code and data get the
    /// same.
    #[arg(long, value_name = "MASK|WAYS")]
    pub l3: Option<String>,
    /// The same of the L2
    #[arg(long, value_name = "MASK|WAYS")]
    pub l2: Option<String>,
    /// Memory bandwidth: 50 is percent, or MB/s if mounted so
    ///
    /// Percent of what there is, or, where resctrl is mounted with mba_MBps, MB/s (AMD: eighths of
    /// a GB/s). A unit may be written, and must be the right one: 50%, 2000MB/s. For each memory by
    /// its number: '0=50;1=100'.
    #[arg(long, value_name = "AMOUNT")]
    pub mba: Option<String>,
}

impl Limits {
    /// As they are checked.
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
The command, and all that it starts, is in a group of its own, which is removed when the command \
ends, also if ringfence \
is killed: what still runs then runs on without limits. Signals are passed on. The exit code is \
the command's, or 128 \
and the number of the signal that ended it. What is not limited stays as it is for ringfence \
itself. Others may still use the \
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

/// What runs already.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Target {
    /// Processes, with all that they have started
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
    /// All that is named; nothing where nothing is.
    pub fn named(
        &self,
    ) -> Result<Vec<ringfence_limits::running::Target>, ringfence_limits::running::Error> {
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
All threads go into a group with these limits, and what they start is born there. At the end they \
go back to where they \
were. What the system or the way in depends on is refused: process 1, kernel threads, sshd, \
systemd's own, what holds \
containers, and ringfence itself with those that have started it or read what it prints.

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
    /// No limits of their own: into the default group
    #[arg(long, conflicts_with_all = ["l3", "l2", "mba"])]
    pub none: bool,
    /// Leave it in force; how to undo it is printed
    #[arg(long, conflicts_with = "time")]
    pub keep: bool,
    /// Put it back after this time, such as 30s or 10min
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
On a terminal one table is drawn again and again; elsewhere each group and cache is a line with \
tabs in between, under \
one line of heads. A group's figures include those of its monitor groups. With --pid, --cgroup, \
--unit or --container, \
monitor groups are made for the time of watching, and only they are shown.

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
    /// End after so many [default: at Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print JSON, a document a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub kernel: Kernel,
}

/// Flags of `resctrl undo`.
#[derive(Debug, ClapArgs)]
pub struct Undo {
    /// What 'apply --keep' has printed; without it, 'prove --keep'
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
