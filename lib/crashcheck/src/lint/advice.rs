//! What a finding advises, given what is known of the program.

/// What is known of the program beyond the instructions in a run: advice rests on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything that the program does to its memory, which flushes make durable.
    Whole,
    /// Only what it did to some files. Fences may complete stores to other memory.
    Files {
        /// What makes a store to the file durable.
        durable_by: DurableBy,
        /// Whether the flush may be meant to drop its line from the caches.
        drops: Drops,
    },
}

/// What makes a store to a file durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurableBy {
    /// A flush and a fence: the file is mapped directly (DAX).
    Flush,
    /// `msync` and related calls: the file is in the page cache.
    Msync,
    /// Nothing: the file system is in memory.
    Nothing,
    /// It is not known.
    Unknown,
}

/// Whether a flush may be meant to drop its line from the caches, so that a later load reads
/// memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drops {
    /// It is `clwb`, or no load of the line followed.
    No,
    /// Loads were not recorded.
    Perhaps,
    /// A load of the line followed.
    Loaded,
}

impl Scope {
    /// How to make a store durable, where `instructions` say how flushes and fences do.
    pub fn durable(self, them: &str, instructions: &str) -> String {
        let stands_in = format!("if it stands in for persistent memory: {instructions}");
        match self {
            Scope::Whole | Scope::Files { durable_by: DurableBy::Flush, .. } => instructions.into(),
            Scope::Files { durable_by: DurableBy::Msync, .. } => {
                format!(
                    "msync {them}, as flushes do not make a file in the page cache durable \
                     ({stands_in})"
                )
            }
            Scope::Files { durable_by: DurableBy::Nothing, .. } => {
                format!("nothing makes {them} durable on a file system in memory ({stands_in})")
            }
            Scope::Files { durable_by: DurableBy::Unknown, .. } => {
                format!("{instructions} (if the file is in the page cache: msync {them})")
            }
        }
    }

    /// What advice to leave a flush out does not hold for.
    pub(super) fn unless_dropped(self) -> &'static str {
        match self {
            Scope::Whole | Scope::Files { drops: Drops::No, .. } => "",
            Scope::Files { drops: Drops::Perhaps, .. } => {
                " (not if it is meant to drop the line from the caches)"
            }
            Scope::Files { drops: Drops::Loaded, .. } => {
                " (not if it is meant to drop the line from the caches: a load of the line \
                 followed)"
            }
        }
    }
}
