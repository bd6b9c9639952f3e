//! What can be asked.

mod answers;
mod lock;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use ringfence_experiment::task::{FenceAt, FenceKind, Instruction, WidthChoice};

pub use lock::{
    Lock, LockAction, LockCreate, LockList, LockMeasure, LockMisses, LockRemove, Place, WhichCache,
};

use crate::failure::Exit;

pub use answers::{Pair, PolluterArg, Progress, Prove, Sensitivity, Tune};

/// What does a durable write cost on this machine, whom does it disturb, and how is it fenced off?
///
/// Start with 'ringfence survey': it needs no configuration, no root and no special hardware.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, max_term_width = 100, arg_required_else_help = true,
          after_help = Exit::table())]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure this machine: costs, neighbours, advice (about two minutes)
    Survey(Survey),
    /// Prove that an aggressor does not slow a victim down beyond a budget, or find what helps
    Prove(Box<Prove>),
    /// Find the cheapest way to make stores durable on a target, and write it as a policy file
    Tune(Tune),
    /// Show packages, cores, SMT siblings, caches and NUMA nodes
    Topology(Look),
    /// Say what spoils measurements here, and what to do about it
    Doctor(Look),
    /// Show who may use which cache ways and how much bandwidth; put back what was left behind or kept
    Resctrl(Resctrl),
    /// Put back whatever runs that were killed have left changed: control groups, resctrl, settings
    Restore(PutBack),
    /// Keep a region in a cache: measure what does, lock one, list and remove them
    Lock(Lock),
    /// Say how durable a store to a file, directory or device can become, and why
    Explain(Explain),
    /// Measure what durable writes cost, over any combination of ways to write
    Write(Box<Write>),
    /// Measure how much aggressors slow a victim down
    Neighbours(Box<Neighbours>),
    /// Measure how tasks bear each other two by two, and advise who should run beside whom
    Pair(Box<Pair>),
    /// Measure how a polluter of growing footprint slows a victim down: how cache-sensitive is it?
    Sensitivity(Box<Sensitivity>),
    /// Run an experiment file
    Run(Box<Run>),
    /// Compare a task with itself: how often does this machine show an effect that is not there?
    Aa(Box<Aa>),
    /// Show a dataset again
    Show(Show),
    /// Write a dataset's figures as an HTML page that opens offline
    Report(Report),
    /// Measure what was published about flushes and neighbours, and set the figures side by side
    Reproduce(Reproduce),
    /// Compare one experiment's results from two machines, kernels or days
    Compare(Compare),
}

/// Flags of verbs that only look.
#[derive(Debug, ClapArgs)]
pub struct Look {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Read the kernel's files below this folder instead of /
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
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
    pub look: Look,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub journal: JournalFolder,
}

/// Where the journal of changes lies.
#[derive(Debug, ClapArgs)]
pub struct JournalFolder {
    /// Look for the journal of changes here instead of in /run/ringfence
    #[arg(long, value_name = "DIR", hide = true)]
    pub folder: Option<PathBuf>,
}

/// What `resctrl` can do besides showing.
#[derive(Debug, Subcommand)]
pub enum ResctrlAction {
    /// Put back what a run that was killed has left behind
    Recover(PutBack),
    /// Put back what 'prove --keep' has left in place
    Undo(PutBack),
    /// Leave everything as it is, and remove the journal that would put it back
    Forget(Forget),
}

/// Flags of `restore`, and of `resctrl recover` and `undo`.
#[derive(Debug, ClapArgs)]
pub struct PutBack {
    /// Print the steps, and take none
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
    /// Forget what is kept, instead of what a run that was killed has left behind
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
pub struct Explain {
    /// A file, which is not changed; a directory, in which a file would be made; or a /dev/daxX.Y
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of every verb that measures.
#[derive(Debug, Clone, ClapArgs)]
pub struct Output {
    /// Folder for the dataset; it must not exist yet or be empty [default: ringfence-NAME-TIME here]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// `survey`.
#[derive(Debug, ClapArgs)]
pub struct Survey {
    /// Take about half a minute, with wider intervals
    #[arg(long)]
    pub quick: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Write the experiments that would be run as files into this folder, and stop
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}

/// How an experiment is measured, as flags.
#[derive(Debug, Clone, ClapArgs)]
pub struct Measuring {
    /// Lives: starts of the measured task. A list such as 10,20,40 is looked at after each, and
    /// measuring stops there once precise enough
    #[arg(long, value_name = "N,...", value_delimiter = ',', help_heading = "Measuring")]
    pub lives: Option<Vec<u32>>,
    /// Blocks in a life: every case is measured once in each
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    pub blocks: Option<u32>,
    /// Length of a window, such as 20ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Measuring")]
    pub window: Option<String>,
    /// Least time between a change of tasks and the window
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Measuring")]
    pub settle: Option<String>,
    /// Length of the ping-pong before and after each pair of windows; 0ms for none
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Measuring")]
    pub probe: Option<String>,
    /// A change smaller than this does not matter, such as 1%
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Measuring")]
    pub margin: Option<String>,
    /// Stop at a look once every interval is at most so wide to either side, such as 0.5%
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Measuring")]
    pub precision: Option<String>,
    /// The share of intervals that hold the truth
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Measuring")]
    pub confidence: Option<String>,
    /// Begin no life after this time, such as 60s
    // The name it had while --budget was not a share everywhere.
    #[arg(
        long,
        alias = "budget",
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Measuring"
    )]
    pub time: Option<String>,
    /// Seed of everything random
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    pub seed: Option<u64>,
    /// Keep CPUs out of deep idle states meanwhile (wants write access to /dev/cpu_dma_latency)
    #[arg(long, help_heading = "Measuring")]
    pub no_deep_idle: bool,
    /// Write the experiment to this file, and stop
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub save: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}

/// How co-runners lie to the victim.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Placement {
    /// The first of llc, node, remote, smt that fits
    Auto,
    /// On the other hardware thread of the same core
    Smt,
    /// On other cores under the same last-level cache
    Llc,
    /// On the same NUMA node under another last-level cache
    Node,
    /// On another NUMA node
    Remote,
}

// What an option takes: `a, b (which is so), c`.
fn explained<const N: usize>(all: [(&str, Option<&str>); N]) -> String {
    let one = |(name, meaning): (&str, Option<&str>)| match meaning {
        Some(meaning) => format!("{name} ({meaning})"),
        None => name.into(),
    };
    all.map(one).join(", ")
}

/// `write`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Every axis takes a list separated by commas; all combinations are measured, interleaved.

Examples:
  ringfence write --instruction clwb,nt --block 64B,4KiB
  ringfence write --target tmpfs:/dev/shm --fence-at block --batch 1,2,4,8
  ringfence write --instruction nt --width sse2,avx2,avx512 --pattern random")]
pub struct Write {
    #[arg(long, short, value_name = "LIST", help_heading = "Axes")]
    #[arg(help = format!("{} [default: all but msync]", explained(Instruction::ALL.map(|i| (i.name(), i.meaning())))))]
    pub instruction: Option<String>,
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    #[arg(help = format!("Where fences stand: {} [default: block]", explained(FenceAt::ALL.map(|at| (at.name(), at.meaning())))))]
    pub fence_at: Option<String>,
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    #[arg(help = format!("The fence: {} [default: sfence]", explained(FenceKind::ALL.map(|fence| (fence.name(), fence.meaning())))))]
    pub fence: Option<String>,
    /// Blocks between two fences [default: 1]
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub batch: Option<String>,
    /// Bytes copied, then flushed: 64B to 2MiB [default: 64B,4KiB,1MiB]
    #[arg(long, short, value_name = "LIST", help_heading = "Axes")]
    pub block: Option<String>,
    /// sequential, random [default: sequential]
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub pattern: Option<String>,
    /// State of a line before the store: as-is, warm, cold [default: as-is]
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub line: Option<String>,
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    #[arg(help = format!("What copies: {} [default: auto]", explained(WidthChoice::ALL.map(|width| (width.name(), width.meaning())))))]
    pub width: Option<String>,
    /// Bytes written over and over [default: 256MiB]
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub size: Option<String>,
    /// dram, tmpfs:/dir, file:/path, dax:/path, devdax:/dev/daxX.Y, node:N [default: dram]
    #[arg(long, short, value_name = "LIST", help_heading = "Axes")]
    pub target: Option<String>,
    /// 4KiB, thp (transparent huge pages), 2MiB (reserved) [default: 4KiB]
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub pages: Option<String>,
    /// At most so many bytes a second, such as 500MiB/s
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub pace: Option<String>,
    /// Writers at once, each on a core of its own [default: 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Axes")]
    pub threads: Option<Vec<u32>>,
    /// CPUs of the writers, such as 2,4-6
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// `neighbours`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A TASK is a built-in workload with its parameters, each a value or a list separated by commas, or a
program's command line:
  write instruction=clwb,nt block=4KiB    chase footprint=4MiB    mcf footprint=8MiB
  stream size=192MiB    alu    idle    'stress-ng --cache 1'    read size=256KiB interval=10ms
  ring variant=ringfence,repaired entry=4KiB    (also naive, optimised)

Examples:
  ringfence neighbours --victim chase --aggressor 'write instruction=clwb,nt'
  ringfence neighbours --victim mcf --aggressor alu --placement smt")]
pub struct Neighbours {
    /// The task whose rate is the figure
    #[arg(long, value_name = "TASK", default_value = "chase")]
    pub victim: String,
    /// A task beside it; give several to compare them [default: a writer by each instruction, alu, idle]
    #[arg(long, value_name = "TASK")]
    pub aggressor: Vec<String>,
    /// Aggressors at once, each on a core of its own
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    pub aggressors: Vec<u32>,
    /// How the aggressors lie to the victim
    #[arg(long, value_enum, default_value = "auto")]
    pub placement: Placement,
    /// The victim's CPU, instead of the placement's
    #[arg(long, visible_alias = "victim-cpus", value_name = "CPU")]
    pub victim_cpu: Option<String>,
    /// The aggressors' CPUs, instead of the placement's
    #[arg(long, value_name = "CPUS")]
    pub aggressor_cpus: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// `run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  ringfence run experiment.toml --time 60s
  ringfence run --resume ringfence-neighbours-20260509-072933

What was interrupted, killed or ended when its time was spent goes on where it stopped, as it was planned;
only --time, --quiet, --json and --no-deep-idle can be given anew then. A dataset that is complete
is shown.")]
pub struct Run {
    /// The experiment
    #[arg(value_name = "FILE.toml")]
    pub file: Option<PathBuf>,
    /// Go on with this dataset where it was cut short, instead of running a file
    #[arg(long, value_name = "DATASET")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// `aa`.
#[derive(Debug, ClapArgs)]
pub struct Aa {
    /// The task that is compared with itself
    #[arg(long, value_name = "TASK", default_value = "chase")]
    pub victim: String,
    /// A task that runs beside it, in both arms
    #[arg(long, value_name = "TASK")]
    pub beside: Option<String>,
    /// How many experiments
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub experiments: u32,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// `show`.
#[derive(Debug, ClapArgs)]
pub struct Show {
    /// The dataset, or a survey's folder of datasets
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
}

/// `report`.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// The dataset, or a survey's folder of datasets
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
    /// The file to write [default: report.html in the dataset's folder]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `compare`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Two datasets of one experiment, or two surveys, which are compared dataset by dataset. To measure again
what a dataset holds: ringfence run DATASET/experiment.toml")]
pub struct Compare {
    /// The dataset, or survey, that came first
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The dataset, or survey, to compare it with
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
    /// Write it as a page into this file, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `reproduce`.
#[derive(Debug, ClapArgs)]
pub struct Reproduce {
    /// Experiments; without any, all that have published figures
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Take about ten seconds for each experiment instead of a minute, with wider intervals
    #[arg(long)]
    pub quick: bool,
    /// List the shipped experiments, and stop
    #[arg(long, conflicts_with_all = ["names", "quick", "out", "save"])]
    pub list: bool,
    /// Where persistent memory is mounted with DAX, instead of /mnt/pmem0
    #[arg(long, value_name = "DIR")]
    pub dax: Option<PathBuf>,
    /// Write the experiments as files into this folder, and stop
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}
