//! The verbs that answer a question with a verdict: `prove`, `tune`, `pair`, `sensitivity`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::{Measuring, Output, Placement};
use crate::failure::Exit;

/// How a program shows its progress.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Progress {
    /// Instructions retired, where the kernel counts them
    Instructions,
    /// A line on its standard output per unit of work
    Lines,
    /// A number that it writes to the file named by $RINGFENCE_COUNTER (8 bytes, native byte order)
    Counter,
    /// It ends after a fixed amount of work and is started again: finished runs per window
    Runs,
    /// CPU time: how much it ran, not how fast (for aggressors)
    CpuTime,
}

/// `prove`.
#[derive(Debug, ClapArgs)]
#[command(after_help = Exit::table_and("\
A TASK is a program's command line, or a built-in workload: chase footprint=4MiB, write instruction=clwb,
ring, stream, mcf, alu. A victim that is a program must show its progress: where the kernel counts
instructions nothing is needed; else let it write a line per unit of work (--victim-progress lines) or
count in a file (--victim-progress counter), or give a command that ends and time its runs (--victim-run).

A victim that is a program is stopped half of the time first: one that takes as long then (it ends after a
fixed time, say) gets no verdict, nor does an aggressor that does next to nothing.

Levers: placement (farther CPUs), instruction and pace (built-in writers), env (programs linked with PMDK),
quota (CPU time of the aggressor), cat (ways of the cache for the victim alone), mba (memory bandwidth of the
aggressor), cat+mba. The last three want a mounted resctrl and, as a rule, root.

Examples:
  ringfence prove --victim mcf --aggressor 'write instruction=nt' --budget 5%
  ringfence prove --victim-run './sort input' --aggressor ./backup --budget 2%
  ringfence prove --victim ./bench --victim-progress lines --aggressor ./noise"))]
pub struct Prove {
    /// The task that must not be slowed down
    #[arg(long, value_name = "TASK", required_unless_present_any = ["victim_run", "resume"])]
    pub victim: Option<String>,
    /// A command with a fixed amount of work, timed from start to end, run by run
    #[arg(long, value_name = "COMMAND", conflicts_with = "victim")]
    pub victim_run: Option<String>,
    /// The task beside it
    #[arg(long, value_name = "TASK", required_unless_present = "resume")]
    pub aggressor: Option<String>,
    /// The slowdown of the victim that is allowed
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, default_value = "2%")]
    pub budget: String,
    /// How a victim that is a program shows its progress [default: instructions]
    #[arg(long, value_enum, value_name = "HOW", conflicts_with = "victim_run")]
    pub victim_progress: Option<Progress>,
    /// How an aggressor that is a program shows its progress [default: instructions, else CPU time]
    #[arg(long, value_enum, value_name = "HOW")]
    pub aggressor_progress: Option<Progress>,
    /// How long programs run after their start before they are measured [default: 200ms]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub warm_up: Option<String>,
    /// Aggressors at once, each on a core of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub aggressors: u32,
    /// How the aggressors lie to the victim
    #[arg(long, value_enum, default_value = "auto")]
    pub placement: Placement,
    /// The victim's CPU instead of the placement's; a program may use all that are named
    #[arg(long, visible_alias = "victim-cpus", value_name = "CPUS")]
    pub victim_cpu: Option<String>,
    /// The aggressors' CPUs instead of the placement's; a single program may use all that are named
    #[arg(long, value_name = "CPUS")]
    pub aggressor_cpus: Option<String>,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Levers")]
    #[arg(help = format!("Try only these levers: {}", ringfence_studies::prove::lever_names().join(", ")))]
    pub levers: Vec<String>,
    /// Where cat or mba keep the budget, leave that in place; 'ringfence resctrl undo' puts it back
    #[arg(long, help_heading = "Levers")]
    pub keep: bool,
    /// An environment variable to try on the aggressor; may be given several times
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Levers")]
    pub try_env: Vec<String>,
    /// Lives (starts of the victim) at most, in each of the first and last stage [default: 48, of runs 24]
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    pub lives: Option<u32>,
    /// Blocks in a life [default: 2, of runs 1]
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    pub blocks: Option<u32>,
    /// Length of a window [default: 50ms, with programs 100ms]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Measuring")]
    pub window: Option<String>,
    /// Least time between a change of tasks and the window [default: 2ms]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Measuring")]
    pub settle: Option<String>,
    /// The longest wait after a change of cat or mba until rates stand still [default: 10s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Measuring")]
    pub fence_settle: Option<String>,
    /// The share of intervals that hold the truth [default: 95%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Measuring")]
    pub confidence: Option<String>,
    /// Time for everything, such as 5min: spent until it is settled, and kept to within one life
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Measuring")]
    pub time: Option<String>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Measuring")]
    pub seed: u64,
    /// Go on with an interrupted proof in this folder
    #[arg(long, value_name = "DIR", help_heading = "Output",
          conflicts_with_all = ["victim", "victim_run", "aggressor", "out"])]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}

/// `tune`.
#[derive(Debug, ClapArgs)]
#[command(after_help = Exit::table_and("\
Examples:
  ringfence tune dram
  ringfence tune dax:/mnt/pmem/file --victim mcf --budget 2%"))]
pub struct Tune {
    /// dram, tmpfs:/dir, file:/path, dax:/path, devdax:/dev/daxX.Y, node:N
    #[arg(value_name = "TARGET", default_value = "dram")]
    pub target: String,
    /// A task that the writer must not slow down beyond the budget
    #[arg(long, value_name = "TASK")]
    pub victim: Option<String>,
    /// The slowdown of the victim that is allowed [default: 2%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub budget: Option<String>,
    /// The block that is written beside the victim [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    pub block: Option<String>,
    /// How the writer lies to the victim
    #[arg(long, value_enum, default_value = "auto")]
    pub placement: Placement,
    /// Bytes of the target that are written over and over [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Lives of the costs and of the confirmation
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Measuring")]
    pub lives: u32,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Measuring")]
    pub seed: u64,
    /// The policy file; it must not exist [default: ringfence-policy.toml]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub policy: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}

/// `pair`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A TASK is written as for 'ringfence neighbours', without lists. Tasks are numbered as they come; those
that are the same are measured once. Takes about a minute for up to four different tasks.

Examples:
  ringfence pair --task 'chase footprint=64MiB' --task mcf --task alu
  ringfence pair --task mcf --task stream --task alu --present 1+3,2
  ringfence pair --resume ringfence-pair-20260509-072933")]
pub struct Pair {
    /// A task; give two to ten
    #[arg(long, value_name = "TASK")]
    pub task: Vec<String>,
    /// How they are paired now, such as 1+3,2+4 [default: as they come, 1+2,3+4]
    #[arg(long, value_name = "PAIRS")]
    pub present: Option<String>,
    /// How the two CPUs lie to each other [default: smt where there are siblings, else auto]
    #[arg(long, value_enum)]
    pub placement: Option<Placement>,
    /// Go on with this folder where it was cut short
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// Who pollutes the cache.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PolluterArg {
    /// Plain stores, one line after the other
    Write,
    /// A random pointer chase
    Chase,
}

/// `sensitivity`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Takes about half a minute for each victim and polluter. Several victims are measured together, and
the most sensitive one is named.

Examples:
  ringfence sensitivity --victim mcf
  ringfence sensitivity --victim mcf --victim alu --polluter write,chase
  ringfence sensitivity --victim mcf --footprint 1MiB,8MiB,64MiB --lives 20")]
pub struct Sensitivity {
    /// The task whose rate is the figure; give several to compare them
    #[arg(long, value_name = "TASK", required = true)]
    pub victim: Vec<String>,
    /// Who pollutes the cache
    #[arg(long, value_enum, value_delimiter = ',', default_value = "write")]
    pub polluter: Vec<PolluterArg>,
    /// The polluter's footprints [default: doubling, from a quarter of L2 to twice the last-level cache]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub footprint: Option<Vec<String>>,
    /// How the polluter lies to the victim
    #[arg(long, value_enum, default_value = "auto")]
    pub placement: Placement,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}
