//! Properties of a workload that follow from its parameters.

use std::path::{Path, PathBuf};

use ringfence_machine::features::Features;
use ringfence_machine::units::Bytes;

use super::{Figure, Settings, Target};
use crate::Reason;
use crate::units::{Rate, Span};

static DRAM: Target = Target::Dram;

/// The parameters of a workload, and what follows from them. The defaults hold for most workloads.
pub trait Parameters {
    /// What one unit of its work is, in the plural.
    fn unit(&self) -> &'static str;

    /// Bytes that one unit moves, where that is what the work is.
    fn bytes_per_unit(&self) -> Option<u64> {
        None
    }

    /// Checks what the types cannot: ranges and combinations.
    ///
    /// # Errors
    /// One sentence with the remedy.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Why it is not run: there is no such method, or a processor with these features lacks it.
    /// Where they are not known, it has all.
    fn missing(&self, _: Option<&Features>) -> Option<Reason> {
        None
    }

    /// Why it is not simulated, whatever the described machine is.
    fn not_simulated(&self) -> Option<Reason> {
        Some(match self.works_in() {
            Some(_) => "files and disks are not simulated".into(),
            None => "this workload is not simulated".into(),
        })
    }

    /// Whether it stays on its CPU.
    fn pinned(&self) -> bool {
        true
    }

    /// The memory that its data lies in.
    fn target(&self) -> &Target {
        &DRAM
    }

    /// Bytes of its data in memory, where its parameters say that.
    fn size(&self) -> Option<Bytes> {
        None
    }

    /// Whether its data lies in memory that nothing else reserves: not in files, devices or huge
    /// pages.
    fn takes_ordinary_memory(&self) -> bool {
        matches!(self.target(), Target::Dram | Target::Node(_))
    }

    /// The folder that it uses a disk in.
    fn works_in(&self) -> Option<&Path> {
        None
    }

    /// Whether it is built in and uses a disk: it leaves the device something to do, which it waits
    /// for when it pauses, and which would be in the next window if that came at once.
    fn uses_a_disk(&self) -> bool {
        self.works_in().is_some()
    }

    /// The folder or the name of files, which may lie on a disk, that it writes to.
    fn writes_to(&self) -> Option<&Path> {
        match self.target() {
            Target::File(path) => Some(path),
            // A scan makes the file that it reads.
            _ => self.works_in(),
        }
    }

    /// Whether it writes to files that may lie on a disk.
    fn writes_files(&self) -> bool {
        self.writes_to().is_some()
    }

    /// About how many bytes a second it writes to such files at most, on a fast disk.
    fn file_bytes_per_s(&self) -> Option<f64> {
        matches!(self.target(), Target::File(_)).then_some(FAST_DISK)
    }

    /// Bytes that it writes to files before the first window of a trial.
    fn prepares(&self) -> Bytes {
        Bytes(0)
    }

    /// The folder in which its files have names while it runs; the process that ends it removes
    /// them.
    fn names_files_in(&self) -> Option<&Path> {
        None
    }

    /// The setting of its pace, in bytes per second, if it has one.
    fn with_pace(&self, _: Rate) -> Option<Settings> {
        None
    }

    /// The setting of the folder that it uses a disk in, if it does.
    fn with_folder(&self, _: PathBuf) -> Option<Settings> {
        None
    }

    /// Whether it waits in system calls for a device, for as long as that takes.
    fn waits_for_a_device(&self) -> bool {
        false
    }

    /// The shortest window that is sure to hold some of its work, where it does not work all the
    /// time.
    fn least_window(&self) -> Option<Span> {
        None
    }

    /// Whether it counts the latencies of single units of its work.
    fn counts_latencies(&self) -> bool {
        false
    }

    /// Whether what it times are loads, of which some hit a cache and some miss.
    fn times_loads(&self) -> bool {
        false
    }

    /// Whether its time is the sum over its units, of which several may be in progress at once, and
    /// not the time in which it ran.
    fn is_timed_by_latency(&self) -> bool {
        false
    }

    /// The figure that replaces the time of its runs, if any.
    fn figure(&self) -> Option<&Figure> {
        None
    }

    /// What should be known of its figures, in a sentence, whatever they are.
    fn caution(&self) -> Option<String> {
        None
    }
}

/// Bytes a second that a fast disk takes.
pub(super) const FAST_DISK: f64 = 1e9;

/// Commits a second that a fast disk takes.
pub(super) const FAST_COMMITS: f64 = 10_000.0;

/// The rate of writing to a fast disk that a pace leaves.
pub(super) fn paced(pace: Option<Rate>) -> f64 {
    pace.map_or(FAST_DISK, |pace| (pace.0.0 as f64).min(FAST_DISK))
}

pub(super) fn at_least(key: &str, value: Bytes, least: Bytes) -> Result<(), String> {
    if value < least {
        Err(format!("{key} = {value} is too small: at least {least}"))
    } else {
        Ok(())
    }
}
