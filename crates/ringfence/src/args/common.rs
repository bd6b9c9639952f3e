//! Flags that several verbs share.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use ringfence_experiment::quantity::Quantity;

/// Flags of every verb that measures.
#[derive(Debug, Clone, ClapArgs)]
pub struct Output {
    /// Folder for the results [default: a new one, see 'show']
    ///
    /// The folder must be empty or not exist yet. By default it is a new folder below
    /// $XDG_STATE_HOME/ringfence (~/.local/state/ringfence); under sudo, below that of the user who
    /// called it.
    #[arg(long, short, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Print everything, such as histograms and what was not run
    #[arg(long, short, help_heading = "Output")]
    pub verbose: bool,
    /// Let built-in tasks write this much to disks [default: 20GiB]
    ///
    /// A run that reaches the limit ends with the results so far, and is undecided. Writes of other
    /// programs are not limited.
    #[arg(long, value_name = "SIZE", help_heading = "Measuring", hide_short_help = true)]
    pub write_limit: Option<String>,
}

/// How an experiment is measured, as flags.
#[derive(Debug, Clone, ClapArgs)]
pub struct Measuring {
    /// Trials: how often the measured task is started
    ///
    /// With a list such as 10,20,40, measuring stops after the first of these numbers at which the
    /// intervals are narrow enough (see --precision).
    #[arg(
        long,
        alias = "lives",
        value_name = "N,...",
        value_delimiter = ',',
        help_heading = "Measuring"
    )]
    pub trials: Option<Vec<u32>>,
    /// Time to measure, such as 60s
    ///
    /// Without --trials, the time is used until the question is settled. If it is too short for
    /// every case, the least useful cases are left out. A trial that would end later is only
    /// started if the first figure needs it.
    // The name it had while --budget was not a share everywhere.
    #[arg(
        long,
        aliases = ["budget", "duration"],
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Measuring"
    )]
    pub time: Option<String>,
    /// Rounds in each trial; a round measures every case once
    #[arg(
        long,
        alias = "blocks",
        value_name = "N",
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub rounds: Option<u32>,
    /// Length of a window, which is one stretch of measured time, such as 20ms
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub window: Option<String>,
    /// Wait at least this long between a change of tasks and the next window
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub settle: Option<String>,
    /// Length of the ping-pong between cores before and after each pair of windows; 0ms for none
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub probe: Option<String>,
    /// The largest change that does not matter to you, such as 1%
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub margin: Option<String>,
    /// Stop at a number in --trials once no interval is wider than this to either side, such as
    /// 0.5%
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub precision: Option<String>,
    /// Share of intervals that contain the true value, such as 95%
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        help_heading = "Measuring",
        hide_short_help = true
    )]
    pub confidence: Option<String>,
    /// Seed for everything that is random
    #[arg(long, value_name = "N", help_heading = "Measuring", hide_short_help = true)]
    pub seed: Option<u64>,
    /// Keep CPUs out of deep idle states while measuring (needs write access to
    /// /dev/cpu_dma_latency)
    #[arg(long, help_heading = "Measuring", hide_short_help = true)]
    pub no_deep_idle: bool,
    /// Write the experiment to this file instead of running it
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub save: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: Output,
}

/// The metric of the victim, or of the measured task, that is compared.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Metric {
    #[arg(long, value_name = "QUANTITY", help_heading = "Measuring")]
    #[arg(help = "Compare mean, p50, p90, p99 or p99.9 [default: mean]")]
    #[arg(long_help = format!(
        "What is compared: {} [default: mean]\n\nThe mean time of a unit of work, or a quantile of \
         the latencies of single units. Latencies are counted for responses to probe:SERVICE, for \
         commit, read and 'chase histogram=true', and for a program that reports latencies. A \
         quantile needs many: p99 needs 1000 on each side, p99.9 needs 10000, and more if slow \
         ones come in bursts. With fewer, it is refused, and the number of trials that would be \
         enough is printed.",
        Quantity::NAMES.join(", ")
    ))]
    pub metric: Option<String>,
}

/// What is measured, or simulated.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct On {
    /// Simulate a described machine; nothing is measured
    ///
    /// A file that describes a machine, or the name of one that comes with Ringfence ('ringfence
    /// machine' lists them), in place of this machine. Every figure is then marked as simulated.
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    pub machine: Option<String>,
}

/// Where co-runners run relative to the victim.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Placement {
    /// The first of llc, node, remote and smt that this machine can hold
    Auto,
    /// The other hardware thread of the same core
    Smt,
    /// Another core that shares the last-level cache
    Llc,
    /// Another last-level cache on the same NUMA node
    Node,
    /// Another NUMA node, of another package if there is one
    Remote,
}

/// Where the journal of changes lies.
#[derive(Debug, ClapArgs)]
pub struct JournalFolder {
    /// Look for the journal of changes here instead of in /run/ringfence
    #[arg(long, value_name = "DIR", hide = true)]
    pub folder: Option<PathBuf>,
}
