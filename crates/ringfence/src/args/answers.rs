//! The verbs that answer a question with a verdict: `prove`, `tune`, `pair`, `sensitivity`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::client::{Client, Progress, Shown};
use super::common::{Measuring, Metric, On, Output, Placement};
use super::services::Services;
use crate::failure::Exit;

/// `prove`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A TASK is a built-in workload, a program's command line, or a running service or process:
  ringfence prove --victim mcf --aggressor 'write instruction=nt' --budget 5%
  ringfence prove --victim 'run:./sort input' --aggressor ./backup --budget 2%
  ringfence prove --victim probe:redis://localhost --aggressor pid:4711 --metric p99")]
#[command(override_usage = "ringfence prove --victim TASK --aggressor TASK [OPTION]...")]
#[command(after_long_help = Exit::table_and("\
A TASK is a program's command line or a built-in workload: chase footprint=4MiB, write \
instruction=clwb, ring, stream, mcf, alu. A victim that is a program must show its progress. \
run:COMMAND is a command that exits: its runs are timed. probe:SERVICE queries a running service. \
pid:N, unit:NAME, cgroup:PATH and container:ID are running processes.

Examples:
  ringfence prove --victim mcf --aggressor 'write instruction=nt' --budget 5%
  ringfence prove --victim 'run:./sort input' --aggressor ./backup --budget 2%
  ringfence prove --victim ./bench --victim-progress lines --aggressor ./noise
  ringfence prove --victim commit --aggressor dirty --budget 'p99<5ms'"))]
pub struct Prove {
    /// The task that must not be slowed down
    #[arg(
        long,
        value_name = "TASK",
        required_unless_present_any = ["victim_run", "victim_probe", "client", "resume"]
    )]
    pub victim: Option<String>,
    /// --victim run:COMMAND
    #[arg(long, value_name = "COMMAND", hide = true)]
    #[arg(conflicts_with_all = ["victim", "victim_probe"])]
    pub victim_run: Option<String>,
    /// The task to run beside it
    #[arg(
        long,
        value_name = "TASK",
        required_unless_present_any = [
            "resume",
            "aggressor_pid",
            "aggressor_cgroup",
            "aggressor_unit",
            "aggressor_container",
        ]
    )]
    pub aggressor: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub services: Services,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub client: Client,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub shown: Shown,
    /// What is allowed: 2%, or 'p99<5ms'
    ///
    /// A share such as 2% is the allowed slowdown. A bound such as 'p99<5ms' limits a metric to a
    /// duration, however large it is when the victim runs alone: mean, p50, p90, p99 or p99.9, for
    /// a victim whose latencies are counted. It also sets --metric.
    #[arg(long, value_name = "BUDGET", allow_hyphen_values = true, default_value = "2%")]
    pub budget: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub metric: Metric,
    /// How an aggressor that is a program shows its progress [default: instructions, else cpu-time]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Programs", hide_short_help = true)]
    pub aggressor_progress: Option<Progress>,
    /// How long programs run before they are measured [default: 200ms]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Programs",
        hide_short_help = true
    )]
    pub warm_up: Option<String>,
    /// How many aggressors run at once, each on its own core
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub aggressors: u32,
    /// Where aggressors run relative to the victim
    #[arg(
        long,
        value_enum,
        value_name = "WHERE",
        default_value = "auto",
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub placement: Placement,
    /// The victim's CPU, instead of a placement
    ///
    /// A program may use every CPU named here.
    #[arg(long, alias = "victim-cpus", value_name = "CPUS", conflicts_with = "placement")]
    pub victim_cpu: Option<String>,
    /// The aggressors' CPUs, instead of a placement
    ///
    /// A single program may use every CPU named here.
    #[arg(long, value_name = "CPUS", conflicts_with = "placement")]
    pub aggressor_cpus: Option<String>,
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Levers",
        hide_short_help = true
    )]
    #[arg(help = format!("Try only these levers: \
                          {}", ringfence_studies::prove::lever_names().join(", ")))]
    pub levers: Vec<String>,
    /// Leave the winning setting in place, if it can stay after the run
    ///
    /// 'ringfence resctrl undo' removes cat and mba again. A running process keeps its quota,
    /// weight, cpuset or io-limit in its own control group; the commands that remove it are
    /// printed.
    #[arg(long, help_heading = "Levers")]
    pub keep: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    /// An environment variable to try on the aggressor; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Levers", hide_short_help = true)]
    pub try_env: Vec<String>,
    /// Another folder to try for the files of a built-in aggressor
    #[arg(long, value_name = "DIR", help_heading = "Levers", hide_short_help = true)]
    pub other_dir: Option<PathBuf>,
    /// Let levers change settings of the whole system, and restore them
    #[arg(long, help_heading = "Levers", hide_short_help = true)]
    pub system: bool,
    /// At most this many trials (starts of the victim) in the first stage, and in the last
    /// [default: as many as fit into --time; 24 with run:COMMAND, 48 with --machine]
    #[arg(
        long,
        alias = "lives",
        value_name = "N",
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub trials: Option<u32>,
    /// Rounds in each trial [default: 2; 1 with run:COMMAND, and with files]
    #[arg(
        long,
        alias = "blocks",
        value_name = "N",
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub rounds: Option<u32>,
    /// Length of a window, one stretch of measured time [default: 50ms; 100ms with programs, 400ms
    /// with files]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub window: Option<String>,
    /// Wait at least this long between a change of tasks and the next window [default: 2ms]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub settle: Option<String>,
    /// Wait at most this long for rates to become steady after a change of cat or mba [default:
    /// 10s]
    #[arg(
        long,
        alias = "fence-settle",
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub isolation_settle: Option<String>,
    /// Share of intervals that contain the true value [default: 95%]
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub confidence: Option<String>,
    /// Time for all stages together [default: 60s]
    ///
    /// Measuring ends earlier once the question is settled, and later by one trial at most. There
    /// is no default with --trials, run:COMMAND, --client and --machine: these take the time of
    /// their trials.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Measuring")]
    pub time: Option<String>,
    /// Seed for everything that is random
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub seed: u64,
    /// Continue the interrupted proof in this folder
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Output",
        conflicts_with_all = [
            "victim",
            "victim_run",
            "victim_probe",
            "client",
            "aggressor",
            "aggressor_pid",
            "aggressor_cgroup",
            "aggressor_unit",
            "aggressor_container",
            "out",
        ]
    )]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}

/// `tune`.
#[derive(Debug, ClapArgs)]
#[command(after_long_help = Exit::table_and("\
Examples:
  ringfence tune dram
  ringfence tune file:/var/lib/db
  ringfence tune file:/var/lib/db --layout append
  ringfence tune dax:/mnt/pmem/file --victim mcf --budget 2%"))]
pub struct Tune {
    /// Memory such as dram, or a folder: file:DIR
    ///
    /// One of dram, tmpfs:/dir, dax:/path, devdax:/dev/daxX.Y and node:N, or file:DIR. For a
    /// folder, it finds the cheapest durable method to commit records to files in it: call, layout,
    /// and records per sync.
    #[arg(value_name = "TARGET", default_value = "dram")]
    pub target: String,
    /// A task that the writer must not slow down
    ///
    /// It may be slowed down by the budget at most.
    #[arg(long, value_name = "TASK")]
    pub victim: Option<String>,
    /// The slowdown that is allowed [default: 2%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub budget: Option<String>,
    /// Size of a block next to the victim; for file:DIR, of a record [default: 4KiB]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub block: Option<String>,
    /// Where the writer runs relative to the victim
    #[arg(long, value_enum, value_name = "WHERE", default_value = "auto", hide_short_help = true)]
    pub placement: Placement,
    /// Bytes that are overwritten repeatedly [default: 256MiB; for file:DIR 4MiB]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub size: Option<String>,
    /// For file:DIR: calls to choose from, besides fdatasync [default: all that are durable]
    ///
    /// A list of fdatasync, fsync, o-dsync, rwf-dsync, msync and uring: the calls that your program
    /// can use.
    #[arg(long, value_name = "LIST", hide_short_help = true)]
    pub sync: Option<String>,
    /// For file:DIR: layouts to choose from, besides append [default: all]
    ///
    /// A list of append, written, keep-size and allocated.
    #[arg(long, value_name = "LIST", hide_short_help = true)]
    pub layout: Option<String>,
    /// Trials (starts of a task) for the costs, and for the confirmation [default: 10]
    ///
    /// For file:DIR, 3 for the costs and 8 for the confirmation.
    #[arg(
        long,
        alias = "lives",
        value_name = "N",
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub trials: Option<u32>,
    /// Seed for everything that is random
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub seed: u64,
    /// The policy file [default: ringfence-policy.toml]
    ///
    /// It must not exist yet.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub policy: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}

/// `pair`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A TASK is a built-in workload or a program's command line, in quotes:
  ringfence pair --task 'chase footprint=64MiB' --task mcf --task alu")]
#[command(after_long_help = "\
A TASK is written as for 'ringfence neighbours', without lists. Tasks are numbered in the order \
given; identical ones are measured once. This takes about a minute for up to four different tasks.

Examples:
  ringfence pair --task 'chase footprint=64MiB' --task mcf --task alu
  ringfence pair --task mcf --task stream --task alu --present 1+3,2
  ringfence pair --resume pair-20260509-072933")]
pub struct Pair {
    /// A task; give two to ten
    #[arg(long, value_name = "TASK")]
    pub task: Vec<String>,
    /// The current pairs, such as 1+3,2+4
    ///
    /// By default they are the tasks in the order given: 1+2,3+4.
    #[arg(long, value_name = "PAIRS")]
    pub present: Option<String>,
    /// Where the two CPUs are relative to each other [default: smt if there are siblings, else
    /// auto]
    #[arg(long, value_enum, value_name = "WHERE", hide_short_help = true)]
    pub placement: Option<Placement>,
    /// Continue the interrupted run in this folder
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// What pollutes the cache.
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
A TASK is a built-in workload or a program's command line, in quotes:
  ringfence sensitivity --victim mcf --victim alu")]
#[command(after_long_help = "\
This takes about half a minute for each victim and polluter. Several victims are measured \
together, and the most sensitive one is named.

Examples:
  ringfence sensitivity --victim mcf
  ringfence sensitivity --victim mcf --victim alu --polluter write,chase
  ringfence sensitivity --victim mcf --footprint 1MiB,8MiB,64MiB --trials 20")]
pub struct Sensitivity {
    /// The task that is slowed down; may be repeated
    ///
    /// Several are compared with each other.
    #[arg(long, value_name = "TASK", required = true)]
    pub victim: Vec<String>,
    /// What pollutes the cache
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "write",
        hide_short_help = true
    )]
    pub polluter: Vec<PolluterArg>,
    /// The polluter's footprints, such as 1MiB,8MiB
    ///
    /// Without it, they double from a quarter of L2 to twice the last-level cache.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub footprint: Option<Vec<String>>,
    /// Where the polluter runs relative to the victim
    #[arg(long, value_enum, value_name = "WHERE", default_value = "auto", hide_short_help = true)]
    pub placement: Placement,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}
