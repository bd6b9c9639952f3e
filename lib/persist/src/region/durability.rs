//! How durable a store to a region can become, and the sentences that say why.

use std::fmt;

/// What a store to a region survives, and what it takes. Ordered by how directly stores reach a
/// medium: a request with `least` is met by that value and by every later one. So a caller that
/// requests [`Durability::PageCache`] may get [`Durability::UnprovenMedium`], where msync works but
/// nothing guarantees that data survives a power failure: [`Durability::survives_power_failure`]
/// distinguishes them.
#[doc(alias("pmem2_granularity", "PMEM2_GRANULARITY_CACHE_LINE"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Memory of this process, a memfd, a file on tmpfs, or a file on a disk that is memory itself:
    /// no store survives a power failure, whatever is flushed. Files on tmpfs survive the process.
    Volatile,
    /// A file through the page cache: a store is durable once
    /// [`Region::msync`](crate::Region::msync) of it has returned. Flushes and fences add nothing
    /// to that.
    PageCache,
    /// Mapped directly, as persistent memory is, but nothing vouches for the medium: DRAM set aside
    /// with `memmap=`, volatile CXL memory, or a region whose persistence domain the kernel does
    /// not know. A store that was flushed and fenced survives the process, and no power failure
    /// that anything vouches for. Made for tests and measurements.
    UnprovenMedium,
    /// Mapped directly onto a medium inside a power-fail protected domain: a store is durable once
    /// it has reached that domain.
    Persistent(Domain),
}

/// Where a store must have arrived to survive a power failure, as the platform's firmware states it
/// (ACPI 6.5, 5.2.25.9, NFIT Platform Capabilities Structure: bit 0, CPU cache flush; bit 1, memory
/// controller flush) and the kernel shows it in a region's `persistence_domain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {
    /// ADR, asynchronous DRAM refresh: the memory controller's write queue. A store is durable once
    /// it is flushed (or non-temporal) and fenced.
    Adr,
    /// eADR: the CPU's caches as well. A store is durable once it is globally visible, so that
    /// flushes may be left out; fences stay, for order and for non-temporal stores, which wait in
    /// write-combining buffers outside of the caches.
    Eadr,
}

impl Durability {
    /// Whether a store is durable without a flush of its line: under eADR alone. Fences stay.
    #[doc(alias = "pmem_has_auto_flush")]
    pub fn elides_flushes(self) -> bool {
        self == Durability::Persistent(Domain::Eadr)
    }

    /// Whether a store that was made durable as its kind demands, by msync or by flush and fence,
    /// survives a power failure.
    pub fn survives_power_failure(self) -> bool {
        matches!(self, Durability::PageCache | Durability::Persistent(_))
    }

    /// What it takes to make a store durable, in a clause.
    pub(super) fn contract(self) -> &'static str {
        match self {
            Durability::Volatile => "no store survives a power failure",
            Durability::PageCache => "a store is durable once msync has returned",
            Durability::UnprovenMedium => {
                "mapped like persistent memory, but nothing vouches that a flushed store survives \
                 a power failure"
            }
            Durability::Persistent(Domain::Adr) => {
                "a store is durable once it is flushed and fenced"
            }
            Durability::Persistent(Domain::Eadr) => {
                "a store is durable once it is globally visible: fences are needed, flushes are not"
            }
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Volatile => "volatile",
            Durability::PageCache => "page cache",
            Durability::UnprovenMedium => "unproven medium",
            Durability::Persistent(Domain::Adr) => "persistent (ADR)",
            Durability::Persistent(Domain::Eadr) => "persistent (eADR)",
        })
    }
}

/// What memory is, and why: a verdict, the reasons for it, and what would be more durable.
///
/// Displayed, it is one line with the verdict, then a line for each reason and for each remedy.
///
/// ```
/// use ringfence_persist::{Durability, Region};
///
/// let region = Region::memfd(4096, Durability::Volatile).unwrap();
/// assert_eq!(region.explain().durability(), Durability::Volatile);
/// println!("{}", region.explain());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub(super) subject: String,
    pub(super) durability: Durability,
    pub(super) reasons: Vec<String>,
    pub(super) remedies: Vec<String>,
}

impl Explanation {
    /// What is explained: a path, or a kind of memory.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The verdict.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The verdict in one line: what is explained, how durable it is, and what that takes of the
    /// writer.
    pub fn verdict(&self) -> String {
        format!("{}: {}: {}", self.subject, self.durability, self.durability.contract())
    }

    /// The reasons, at least one, each a clause or sentence without a full stop. The first one
    /// decides; the others are further findings, including doubts and missing permissions.
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// What to do to get something more durable; nothing where there is nothing more durable.
    pub fn remedies(&self) -> &[String] {
        &self.remedies
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verdict())?;
        for reason in &self.reasons {
            write!(f, "\n  because {reason}")?;
        }
        for remedy in &self.remedies {
            write!(f, "\n  for more, {remedy}")?;
        }
        Ok(())
    }
}
