//! `lock`: regions that stay in a cache.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::common::{JournalFolder, Measuring, On};

/// `lock`.
#[derive(Debug, ClapArgs)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = "\
Linux can only lock regions into the caches of Broadwell-X, Goldmont and Goldmont Plus. On other \
processors, 'measure' prints that and instead measures cache ways reserved for the reader, with \
preloading. Without resctrl, it measures ordinary memory only. 'create', 'remove' and 'misses' \
need root.

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
    /// Measure how fast memory is after a pause, with noise
    ///
    /// Measures random reads after a pause: from memory, from cache ways reserved for them and from
    /// a locked region, next to a task that fills the cache, and after a flush.
    Measure(Box<LockMeasure>),
    /// Lock a region into a cache, until it is removed
    Create(LockCreate),
    /// List the locked regions
    List(LockList),
    /// Remove a region, and release its cache ways
    Remove(LockRemove),
    /// Have the kernel count cache misses for regions of several sizes
    Misses(LockMisses),
}

/// `lock measure`.
#[derive(Debug, ClapArgs)]
pub struct LockMeasure {
    /// Number of bytes to read
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    pub size: String,
    /// The pause between two passes over the bytes [default: 2s, or 100ms with --quick]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, hide_short_help = true)]
    pub interval: Option<String>,
    /// The task that fills the cache
    #[arg(long, value_name = "TASK", default_value = "stream")]
    pub noise: String,
    /// The reader's CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Take 2 minutes instead of 15, with shorter pauses
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub on: On,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub measuring: Measuring,
}

/// Which cache a region is locked into.
#[derive(Debug, ClapArgs)]
pub struct WhichCache {
    /// The cache's level, 2 or 3 [default: 3 if possible]
    ///
    /// Level 3 is possible where its ways can be allocated.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=3))]
    pub level: Option<u32>,
    /// The cache's number [default: that of --cpu]
    ///
    /// 'ringfence resctrl' shows it after L3: or L2:
    #[arg(long, value_name = "ID", conflicts_with = "cpu")]
    pub cache: Option<u32>,
    /// A CPU that is to use the region [default: the first]
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
    /// The region's name, for mapping /dev/pseudo_lock/NAME
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The region's size, 4MiB at most
    ///
    /// It is rounded up to whole cache ways.
    #[arg(long, value_name = "SIZE")]
    pub size: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub which: WhichCache,
    /// Print the steps without taking them
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
    /// Sizes of the regions [default: 256KiB to 896KiB]
    ///
    /// The default sizes are 128KiB apart.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "256KiB,384KiB,512KiB,640KiB,768KiB,896KiB",
        hide_default_value = true
    )]
    pub size: Vec<String>,
    /// Passes over each region
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
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
