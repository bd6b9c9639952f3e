//! `lock`: what can be asked of regions that stay in a cache.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::{JournalFolder, Measuring};

/// `lock`.
#[derive(Debug, ClapArgs)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Linux locks regions into the caches of Broadwell-X, Goldmont and Goldmont Plus alone. Elsewhere 'measure' says
so, and measures cache ways of one's own with preloading in their stead; without resctrl, ordinary memory alone.
'create', 'remove' and 'misses' want root.

Examples:
  ringfence lock measure --quick
  ringfence lock measure --size 256KiB --noise 'write instruction=nt'
  ringfence lock create hot --size 256KiB --dry-run"
)]
pub struct Lock {
    /// What to do
    #[command(subcommand)]
    pub action: LockAction,
}

/// What `lock` can do.
#[derive(Debug, Subcommand)]
pub enum LockAction {
    /// Measure random reads after a pause: from memory, own cache ways and a locked region, beside noise, and flushed
    Measure(Box<LockMeasure>),
    /// Lock a region into a cache; it stays until it is removed
    Create(LockCreate),
    /// List the regions that there are
    List(LockList),
    /// Remove a region, and give back what was taken from others for it
    Remove(LockRemove),
    /// Have the kernel count the misses of passes over regions of several sizes
    Misses(LockMisses),
}

/// `lock measure`.
#[derive(Debug, ClapArgs)]
pub struct LockMeasure {
    /// Bytes that are read
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    pub size: String,
    /// The pause between two rounds of reads [default: 2s; 100ms with --quick]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub interval: Option<String>,
    /// The task beside the reader that drives its lines out
    #[arg(long, value_name = "TASK", default_value = "stream")]
    pub noise: String,
    /// The reader's CPU, instead of the placement's
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Take minutes instead of a quarter of an hour, with shorter pauses
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// Which cache a region is to lie in.
#[derive(Debug, ClapArgs)]
pub struct WhichCache {
    /// The cache's level, 2 or 3 [default: 3 where its ways are shared out, else 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=3))]
    pub level: Option<u32>,
    /// The cache's number, as 'ringfence resctrl' shows it behind L3: or L2: [default: that of --cpu]
    #[arg(long, value_name = "ID", conflicts_with = "cpu")]
    pub cache: Option<u32>,
    /// A CPU that is to use the region [default: the first that may be used]
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
}

/// The kernel's files, and where the journal of changes lies.
#[derive(Debug, ClapArgs)]
pub struct Place {
    /// Use the kernel's files below this folder instead of /
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub journal: JournalFolder,
}

/// `lock create`.
#[derive(Debug, ClapArgs)]
pub struct LockCreate {
    /// The region's name: /dev/pseudo_lock/NAME is mapped
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its bytes: rounded up to whole ways, 4MiB at most
    #[arg(long, value_name = "SIZE")]
    pub size: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub which: WhichCache,
    /// Print the steps, and take none
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub place: Place,
}

/// `lock list`.
#[derive(Debug, ClapArgs)]
pub struct LockList {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub place: Place,
}

/// `lock remove`.
#[derive(Debug, ClapArgs)]
pub struct LockRemove {
    /// The region's name
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub place: Place,
}

/// `lock misses`.
#[derive(Debug, ClapArgs)]
pub struct LockMisses {
    /// Sizes of regions
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "256KiB,384KiB,512KiB,640KiB,768KiB,896KiB"
    )]
    pub size: Vec<String>,
    /// Passes over each
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeats: u32,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub which: WhichCache,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub place: Place,
}
