//! How lines are moved towards memory, with what they are copied, and what orders that.

use ringfence_machine::features::Features;
use ringfence_persist::{Flush, Width};

use super::word::serde_as_word;

/// How lines are moved towards memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// A flush of each line after ordinary stores.
    Flush(Flush),
    /// Non-temporal stores.
    Nt,
    /// Ordinary stores alone: nothing is flushed.
    None,
    /// Ordinary stores, then `msync` of the block: for files in the page cache.
    Msync,
}

impl Instruction {
    /// All of them: first those that flush a line.
    pub const ALL: [Instruction; Flush::ALL.len() + 3] = {
        let mut all = [Instruction::Nt; Flush::ALL.len() + 3];
        let mut index = 0;
        while index < Flush::ALL.len() {
            all[index] = Instruction::Flush(Flush::ALL[index]);
            index += 1;
        }
        all[index + 1] = Instruction::None;
        all[index + 2] = Instruction::Msync;
        all
    };

    /// Its word in files and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Instruction::Flush(flush) => flush.name(),
            Instruction::Nt => "nt",
            Instruction::None => "none",
            Instruction::Msync => "msync",
        }
    }

    /// What it means, for those whose name does not tell.
    pub const fn meaning(self) -> Option<&'static str> {
        match self {
            Instruction::Nt => Some("non-temporal"),
            Instruction::None => Some("plain stores"),
            Instruction::Flush(_) | Instruction::Msync => None,
        }
    }

    /// What tables call it.
    pub const fn label(self) -> &'static str {
        match self {
            Instruction::None => "plain store",
            other => other.name(),
        }
    }

    /// The flush instruction it stands for, if it is one.
    pub fn flush(self) -> Option<Flush> {
        match self {
            Instruction::Flush(flush) => Some(flush),
            Instruction::Nt | Instruction::None | Instruction::Msync => None,
        }
    }

    /// Those that a survey compares in memory: all but `msync`, which needs a file.
    pub fn in_memory() -> impl Iterator<Item = Instruction> + Clone {
        Self::ALL.into_iter().filter(|instruction| *instruction != Instruction::Msync)
    }

    /// Those that flush memory, whatever is mapped: flush instructions and non-temporal stores.
    pub fn flushing() -> impl Iterator<Item = Instruction> + Clone {
        Self::in_memory().filter(|instruction| *instruction != Instruction::None)
    }
}

/// Whether a processor has a flush instruction.
pub(super) fn has_flush(features: &Features, flush: Flush) -> bool {
    features.has(flush.name())
}

/// What lines are copied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WidthChoice {
    /// The widest registers there are.
    Auto,
    /// Registers of this width.
    Vector(Width),
    /// `rep movsb` of a whole block, as wide as the processor chooses.
    Movsb,
}

impl WidthChoice {
    /// All of them.
    pub const ALL: [WidthChoice; Width::ALL.len() + 2] = {
        let mut all = [WidthChoice::Auto; Width::ALL.len() + 2];
        let mut index = 0;
        while index < Width::ALL.len() {
            all[index + 1] = WidthChoice::Vector(Width::ALL[index]);
            index += 1;
        }
        all[index + 1] = WidthChoice::Movsb;
        all
    };

    /// Its word in files and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            WidthChoice::Auto => "auto",
            WidthChoice::Vector(width) => width.name(),
            WidthChoice::Movsb => "movsb",
        }
    }

    /// What it means, for those whose name does not tell.
    pub const fn meaning(self) -> Option<&'static str> {
        match self {
            WidthChoice::Auto => Some("the widest registers"),
            WidthChoice::Movsb => Some("whole blocks"),
            WidthChoice::Vector(_) => None,
        }
    }

    /// Whether a processor with these features can copy so, and its operating system lets it.
    pub(super) fn is_there(self, features: &Features) -> bool {
        match self {
            WidthChoice::Auto | WidthChoice::Movsb => true,
            WidthChoice::Vector(width) => features.has(width.name()),
        }
    }
}

/// The fence instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FenceKind {
    /// `sfence`.
    Sfence,
    /// `mfence`.
    Mfence,
    /// A locked instruction that changes nothing.
    Locked,
    /// `lfence`, which orders no stores: what it costs is worth knowing, but nothing is durable
    /// behind it.
    Lfence,
}

impl FenceKind {
    /// All of them.
    pub const ALL: [FenceKind; 4] =
        [FenceKind::Sfence, FenceKind::Mfence, FenceKind::Locked, FenceKind::Lfence];

    /// Its word in files and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            FenceKind::Sfence => "sfence",
            FenceKind::Mfence => "mfence",
            FenceKind::Locked => "locked",
            FenceKind::Lfence => "lfence",
        }
    }

    /// What it means, for those whose name does not tell.
    pub const fn meaning(self) -> Option<&'static str> {
        match self {
            FenceKind::Lfence => Some("orders no stores"),
            FenceKind::Sfence | FenceKind::Mfence | FenceKind::Locked => None,
        }
    }

    /// Whether flushes and non-temporal stores before it are done when it is.
    pub const fn orders_stores(self) -> bool {
        match self {
            FenceKind::Sfence | FenceKind::Mfence | FenceKind::Locked => true,
            FenceKind::Lfence => false,
        }
    }
}

/// The places of fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FenceAt {
    /// Nowhere.
    None,
    /// After every `batch` blocks.
    Block,
    /// After every line.
    Line,
    /// Before and after every line.
    Around,
}

impl FenceAt {
    /// All of them.
    pub const ALL: [FenceAt; 4] = [FenceAt::None, FenceAt::Block, FenceAt::Line, FenceAt::Around];

    /// Its word in files and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            FenceAt::None => "none",
            FenceAt::Block => "block",
            FenceAt::Line => "line",
            FenceAt::Around => "around",
        }
    }

    /// What it means, for those whose name does not tell.
    pub const fn meaning(self) -> Option<&'static str> {
        match self {
            FenceAt::Around => Some("every line"),
            FenceAt::None | FenceAt::Block | FenceAt::Line => None,
        }
    }
}

serde_as_word!(Instruction, WidthChoice, FenceKind, FenceAt);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_has_a_word_of_its_own_and_is_read_by_it() {
        fn check<
            T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
        >(
            all: &[T],
            names: &[&str],
        ) {
            for (choice, name) in all.iter().zip(names) {
                assert_eq!(serde_json::to_value(choice).unwrap(), *name);
                assert_eq!(serde_json::from_value::<T>((*name).into()).unwrap(), *choice);
            }
            let mut once = names.to_vec();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), names.len(), "{names:?}");
            let error = serde_json::from_value::<T>("wlcb".into()).unwrap_err().to_string();
            assert!(
                error.contains("unknown variant `wlcb`") && error.contains(names[0]),
                "{error}"
            );
        }
        check(&Instruction::ALL, &Instruction::NAMES);
        check(&WidthChoice::ALL, &WidthChoice::NAMES);
        check(&FenceKind::ALL, &FenceKind::NAMES);
        check(&FenceAt::ALL, &FenceAt::NAMES);
        assert_eq!(Instruction::NAMES, ["clflush", "clflushopt", "clwb", "nt", "none", "msync"]);
        assert_eq!(WidthChoice::NAMES, ["auto", "sse2", "avx2", "avx512", "movsb"]);
    }

    #[test]
    fn the_machines_features_know_every_instruction_and_width() {
        let mut features = Features::detect();
        (features.clflush, features.clflushopt, features.clwb) = (true, true, true);
        (features.sse2, features.avx2, features.avx512f) = (true, true, true);
        assert!(Flush::ALL.into_iter().all(|flush| has_flush(&features, flush)));
        assert!(WidthChoice::ALL.into_iter().all(|width| width.is_there(&features)));
        (features.clwb, features.avx512f) = (false, false);
        assert!(!has_flush(&features, Flush::Clwb));
        assert!(!WidthChoice::Vector(Width::Avx512).is_there(&features));
    }

    #[test]
    fn what_a_survey_compares() {
        let names = |all: &mut dyn Iterator<Item = Instruction>| {
            all.map(Instruction::name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&mut Instruction::in_memory()),
            ["clflush", "clflushopt", "clwb", "nt", "none"]
        );
        assert_eq!(names(&mut Instruction::flushing()), ["clflush", "clflushopt", "clwb", "nt"]);
    }
}
