//! The verbs that run experiments.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use ringfence_experiment::task::{FenceAt, FenceKind, Instruction, WidthChoice};

use super::client::{Client, Shown};
use super::common::{Measuring, Metric, On, Output, Placement};
use super::services::Services;

/// `survey`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence survey
  ringfence survey --quick --out my-machine")]
pub struct Survey {
    /// Take about half a minute, with wider intervals
    #[arg(long)]
    pub quick: bool,
    /// Folder to measure durable commits in [default: .]
    ///
    /// This takes about 15 seconds, and uses an unnamed log of a few MiB.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Also measure commits next to writers that stall the disk
    ///
    /// Every process that uses the disk waits for these writers, and tens of GiB are written.
    #[arg(long)]
    pub disturb_disk: bool,
    /// Seed for everything that is random
    #[arg(long, default_value_t = 1, value_name = "N", hide_short_help = true)]
    pub seed: u64,
    /// Write the experiments as files instead of running them
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}

// The values of an option: `a, b (its meaning), c`.
pub(super) fn explained<const N: usize>(all: [(&str, Option<&str>); N]) -> String {
    let one = |(name, meaning): (&str, Option<&str>)| match meaning {
        Some(meaning) => format!("{name} ({meaning})"),
        None => name.into(),
    };
    all.map(one).join(", ")
}

// The same, in one line.
fn named<const N: usize>(all: [&str; N]) -> String {
    all.join(", ")
}

/// `write`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Every axis takes a list separated by commas; all combinations are measured.
  ringfence write --instruction clwb,nt --block 64B,4KiB")]
#[command(after_long_help = "\
Every axis takes a list separated by commas; all combinations are measured, interleaved.

Examples:
  ringfence write --instruction clwb,nt --block 64B,4KiB
  ringfence write --target tmpfs:/dev/shm --fence-at block --batch 1,2,4,8
  ringfence write --instruction nt --width sse2,avx2,avx512 --pattern random")]
pub struct Write {
    #[arg(long, short, value_name = "LIST", help_heading = "Axes")]
    #[arg(help = named(Instruction::ALL.map(Instruction::name)))]
    #[arg(long_help = format!(
        "How cache lines are moved towards memory: {} [default: all but msync]",
        explained(Instruction::ALL.map(|i| (i.name(), i.meaning())))
    ))]
    pub instruction: Option<String>,
    /// Bytes per block [default: 64B,4KiB,1MiB]
    ///
    /// A block is the unit of durability: it is copied, then flushed. Its size is 64B to 2MiB.
    #[arg(long, short, value_name = "LIST", help_heading = "Axes")]
    pub block: Option<String>,
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    #[arg(help = format!("{} [default: block]", named(FenceAt::ALL.map(FenceAt::name))))]
    #[arg(long_help = format!(
        "Where fences are placed: {} [default: block]",
        explained(FenceAt::ALL.map(|at| (at.name(), at.meaning())))
    ))]
    pub fence_at: Option<String>,
    #[arg(long, value_name = "LIST", help_heading = "Axes", hide_short_help = true)]
    #[arg(help = format!(
        "The fence instruction: {} [default: sfence]",
        explained(FenceKind::ALL.map(|fence| (fence.name(), fence.meaning())))
    ))]
    pub fence: Option<String>,
    /// Blocks between two fences [default: 1]
    #[arg(long, value_name = "LIST", help_heading = "Axes", hide_short_help = true)]
    pub batch: Option<String>,
    /// sequential, random [default: sequential]
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub pattern: Option<String>,
    /// State of a line before the store: as-is, warm, cold [default: as-is]
    #[arg(long, value_name = "LIST", help_heading = "Axes", hide_short_help = true)]
    pub line: Option<String>,
    #[arg(long, value_name = "LIST", help_heading = "Axes", hide_short_help = true)]
    #[arg(help = format!(
        "The instructions that copy cache lines: {} [default: auto]",
        explained(WidthChoice::ALL.map(|width| (width.name(), width.meaning())))
    ))]
    pub width: Option<String>,
    /// Bytes to overwrite repeatedly [default: 256MiB]
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub size: Option<String>,
    /// dram, tmpfs:/dir, file:/path, ... [default: dram]
    ///
    /// The memory to write to: one of dram, tmpfs:/dir, file:/path, dax:/path, devdax:/dev/daxX.Y
    /// and node:N. Files are unlinked while they are open, and a file that exists is never written
    /// to; but a device-DAX device is overwritten.
    #[arg(long, short, value_name = "LIST", help_heading = "Axes")]
    pub target: Option<String>,
    /// Page size: 4KiB, thp (transparent huge pages), 2MiB (reserved) [default: 4KiB]
    #[arg(long, value_name = "LIST", help_heading = "Axes", hide_short_help = true)]
    pub pages: Option<String>,
    /// Write no faster than this, such as 500MiB/s
    #[arg(long, value_name = "LIST", help_heading = "Axes", hide_short_help = true)]
    pub pace: Option<String>,
    /// Writers at once, each on its own core [default: 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Axes")]
    pub threads: Option<Vec<u32>>,
    /// CPUs for the writers, such as 2,4-6
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// `neighbours`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A TASK is a built-in workload or a program's command line, in quotes:
  ringfence neighbours --victim chase --aggressor 'write instruction=clwb,nt'")]
#[command(after_long_help = "\
A TASK is a built-in workload with its parameters, each one value or a list separated by commas; \
or a \
program's command line:
  write instruction=clwb,nt block=4KiB    chase footprint=4MiB    mcf footprint=8MiB
  stream size=192MiB    alu    idle    'stress-ng --cache 1'    read size=256KiB interval=10ms
  ring variant=ringfence,repaired entry=4KiB    (also naive, optimised)

Examples:
  ringfence neighbours --victim chase --aggressor 'write instruction=clwb,nt'
  ringfence neighbours --victim mcf --aggressor alu --placement smt
  ringfence neighbours --server ./server --ready port:7777 --client ./bench")]
pub struct Neighbours {
    /// The task that is slowed down
    #[arg(long, value_name = "TASK", default_value = "chase")]
    pub victim: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub services: Services,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub client: Client,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub shown: Shown,
    /// A task to run beside it; may be repeated
    ///
    /// Several are compared with each other. Without this flag, the aggressors are a writer with
    /// each instruction, alu and idle.
    #[arg(long, value_name = "TASK")]
    pub aggressor: Vec<String>,
    /// How many aggressors run at once, each on its own core
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1",
        hide_short_help = true
    )]
    pub aggressors: Vec<u32>,
    /// Where aggressors run relative to the victim
    #[arg(long, value_enum, value_name = "WHERE", default_value = "auto", hide_short_help = true)]
    pub placement: Placement,
    /// The victim's CPU, instead of a placement
    #[arg(long, alias = "victim-cpus", value_name = "CPU", conflicts_with = "placement")]
    pub victim_cpu: Option<String>,
    /// The aggressors' CPUs, instead of a placement
    #[arg(long, value_name = "CPUS", conflicts_with = "placement")]
    pub aggressor_cpus: Option<String>,
    /// Measure episodes, which show delayed effects [default: 40s+37s]
    ///
    /// Instead of a window, victim and aggressor run together for the first time, or until the
    /// aggressor reaches its limit. Then the aggressor is stopped, its files unsynced, and the
    /// victim is measured for the second time. The window without aggressors is as long, so a pair
    /// of the default length takes at least two and a half minutes. The default of 6 trials takes a
    /// quarter of an hour for each aggressor. Aggressors must be built in.
    #[arg(
        long,
        value_name = "TIME+TIME",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with = "window",
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub episode: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub metric: Metric,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// `run`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
--resume continues a run that was interrupted or killed, or whose time ran out. The plan stays the \
same: only --time, --quiet, --json and --no-deep-idle can be given with it. A complete dataset is \
printed.

Examples:
  ringfence run experiment.toml --time 60s
  ringfence run --resume neighbours-20260509-072933")]
pub struct Run {
    /// The experiment file
    #[arg(value_name = "FILE.toml")]
    pub file: Option<PathBuf>,
    /// Continue this dataset where it was interrupted
    #[arg(long, value_name = "DATASET")]
    pub resume: Option<PathBuf>,
    /// Let arms change settings of the whole system, and restore them
    #[arg(long, hide_short_help = true)]
    pub system: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// `aa`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence aa --victim mcf --experiments 50")]
pub struct Aa {
    /// The task to compare with itself
    #[arg(long, value_name = "TASK", default_value = "chase")]
    pub victim: String,
    /// A task to run beside it, in both arms
    #[arg(long, value_name = "TASK")]
    pub beside: Option<String>,
    /// A task to run between the windows that are compared
    ///
    /// Its after-effects, such as dirty pages, would show as an effect.
    #[arg(long, value_name = "TASK")]
    pub between: Option<String>,
    /// Number of experiments
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub experiments: u32,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub metric: Metric,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// `notes run`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  ringfence notes run --list
  ringfence notes run note-001 --quick
  ringfence notes run --simulated")]
pub struct Reproduce {
    /// Names of experiments, or note-000 to note-004 [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Take ten seconds per experiment instead of a minute
    ///
    /// The intervals are wider then.
    #[arg(long)]
    pub quick: bool,
    /// Simulate them on described machines; nothing is measured
    ///
    /// On the described machines closest to those of the publications, or on that of --machine.
    /// Details that a publication leaves open are simulated in several versions. Everything takes
    /// about 16 minutes on two CPUs.
    #[arg(long, conflicts_with_all = ["quick", "dax", "save", "list"])]
    pub simulated: bool,
    /// Figures measured here, for comparison
    ///
    /// A folder that 'ringfence notes run' wrote on this machine.
    #[arg(long, value_name = "DIR", requires = "simulated")]
    pub measured: Option<PathBuf>,
    /// List the experiments instead of running them
    #[arg(long, conflicts_with_all = ["quick", "out", "save"])]
    pub list: bool,
    /// Folder on a DAX file system [default: /mnt/pmem0]
    #[arg(long, value_name = "DIR")]
    pub dax: Option<PathBuf>,
    /// Write the experiments as files into this folder
    ///
    /// Nothing is run.
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}
