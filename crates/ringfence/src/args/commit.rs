//! What commits to files cost.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use ringfence_experiment::task::{Io, Layout, Sync};

use super::common::{Measuring, Metric, On};
use super::measuring::explained;

/// `commit`.
#[derive(Debug, ClapArgs)]
// In other verbs `--budget` is an old name of `--time`.
#[command(mut_arg("time", |time| time.alias(None::<&str>)))]
#[command(after_help = "\
Every axis takes a list separated by commas; all combinations are measured.
  ringfence commit . --sync fdatasync,uring --layout append")]
#[command(after_long_help = "\
A commit writes a batch of records to a log, and waits until it is durable. Every axis takes a \
list separated by commas; all combinations are measured, interleaved. The log is an unnamed file: \
it disappears with the run, even if the run is killed. No other file is changed.

Examples:
  ringfence commit
  ringfence commit /var/lib/postgresql --budget 'p99<10ms'
  ringfence commit /var/lib/postgresql --record 8KiB
  ringfence commit . --sync fdatasync --batch 1,8,64 --layout append,written")]
pub struct Commit {
    /// Folder whose file system is measured [default: .]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The longest time of a commit, such as 'p99<10ms'
    ///
    /// Is this disk fast enough? The exit code is the answer: 0 met, 3 missed, 4 undecided. The
    /// budget applies to fdatasync onto the end of a growing file, or to what --sync, --io and
    /// --layout name. Measuring ends once the question is settled.
    #[arg(long, value_name = "BOUND")]
    pub budget: Option<String>,
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    #[arg(help = "Call: fsync, fdatasync, o-dsync, uring, ...")]
    #[arg(long_help = format!(
        "How a batch is made durable: {} [default: {SYNCS}]",
        explained(Sync::ALL.map(|sync| (sync.name(), Some(sync.meaning()))))
    ))]
    pub sync: Option<String>,
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    #[arg(help = "I/O mode: buffered, direct, dontcache, ...")]
    #[arg(long_help = format!(
        "The I/O mode: {} [default: {IOS}]",
        explained(Io::ALL.map(|io| (io.name(), Some(io.meaning()))))
    ))]
    pub io: Option<String>,
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    #[arg(help = "Layout: append, written, allocated, ...")]
    #[arg(long_help = format!(
        "The part of the file that is written: {} [default: {LAYOUTS}]",
        explained(Layout::ALL.map(|layout| (layout.name(), Some(layout.meaning()))))
    ))]
    pub layout: Option<String>,
    /// Bytes of a record [default: 4KiB]
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub record: Option<String>,
    /// Records that one sync makes durable [default: 1]
    ///
    /// One call writes them.
    #[arg(long, value_name = "LIST", help_heading = "Axes")]
    pub batch: Option<String>,
    /// Size of the log; at its end, writing starts over [default: 16MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Axes", hide_short_help = true)]
    pub size: Option<String>,
    /// Writers per log: threads that commit to it at the same time [default: 1]
    #[arg(long, value_name = "LIST", help_heading = "Axes", hide_short_help = true)]
    pub writers: Option<String>,
    /// Logs at once, each with its own writers [default: 1]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Axes",
        hide_short_help = true
    )]
    pub threads: Option<Vec<u32>>,
    /// CPUs for the writers, such as 2,4-6
    #[arg(long, value_name = "CPUS", help_heading = "Axes", hide_short_help = true)]
    pub cpus: Option<String>,
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

/// The method that a budget applies to by default: the plainest.
pub const PLAINEST: [&str; 3] = ["fdatasync", "buffered", "append"];

/// The calls that are measured by default.
pub const SYNCS: &str = "fsync,fdatasync,o-dsync,uring";
/// The same.
pub const IOS: &str = "buffered,direct";
/// The same.
pub const LAYOUTS: &str = "append,written";
