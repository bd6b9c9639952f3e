//! What an instruction does for durability: one table of all that are counted.

use std::fmt;
use std::ops::AddAssign;

use iced_x86::{Instruction, Mnemonic, OpKind};
use ringfence_persist::Flush;
use serde::Serialize;

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(with = "String", extend("enum" = Self::ALL.map(Self::name)))
)]
pub enum Operation {
    /// Writes a line back: `clflush`, `clflushopt`, `clwb`.
    Flush(Flush),
    /// `sfence`: orders stores, flushes and non-temporal stores.
    Sfence,
    /// `mfence`: orders all accesses.
    Mfence,
    /// `lfence`: orders loads, and no stores.
    Lfence,
    /// A store past the caches: `movnti`, `movntdq` and their kin, `maskmovdqu`, and the direct
    /// stores `movdiri` and `movdir64b`.
    NonTemporal,
    /// An instruction with a lock prefix, or `xchg` with memory, which locks without one (Intel SDM
    /// volume 3A, section 8.1.2.1).
    Locked,
}

impl Operation {
    /// All of them, in the order of columns.
    pub const ALL: [Self; 8] = [
        Self::Flush(Flush::Clflush),
        Self::Flush(Flush::Clflushopt),
        Self::Flush(Flush::Clwb),
        Self::NonTemporal,
        Self::Sfence,
        Self::Mfence,
        Self::Lfence,
        Self::Locked,
    ];

    /// Its name: an instruction's, or that of a kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flush(flush) => flush.name(),
            Self::NonTemporal => "nt store",
            Self::Sfence => "sfence",
            Self::Mfence => "mfence",
            Self::Lfence => "lfence",
            Self::Locked => "locked",
        }
    }

    /// What an instruction does, if it is one of these.
    #[inline]
    pub fn of(instruction: &Instruction) -> Option<Self> {
        use Mnemonic as M;
        // First what settles nearly all of them.
        if instruction.has_lock_prefix() {
            return can_be_locked(instruction).then_some(Self::Locked);
        }
        Some(match instruction.mnemonic() {
            M::Clflush => Self::Flush(Flush::Clflush),
            M::Clflushopt => Self::Flush(Flush::Clflushopt),
            M::Clwb => Self::Flush(Flush::Clwb),
            M::Sfence => Self::Sfence,
            M::Mfence => Self::Mfence,
            M::Lfence => Self::Lfence,
            M::Movnti
            | M::Movntq
            | M::Movntdq
            | M::Movntps
            | M::Movntpd
            | M::Movntss
            | M::Movntsd => Self::NonTemporal,
            M::Vmovntdq | M::Vmovntps | M::Vmovntpd => Self::NonTemporal,
            M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu => Self::NonTemporal,
            M::Movdiri | M::Movdir64b => Self::NonTemporal,
            M::Xchg if has_memory(instruction) => Self::Locked,
            _ => return None,
        })
    }

    /// Whether it has to do with durability even where nothing is shared between threads: all but
    /// locked instructions and `lfence`, which compilers emit for other reasons.
    pub const fn is_for_durability(self) -> bool {
        !matches!(self, Self::Locked | Self::Lfence)
    }

    /// Whether it completes the non-temporal stores before it.
    pub const fn is_fence_of_stores(self) -> bool {
        matches!(self, Self::Sfence | Self::Mfence | Self::Locked)
    }

    fn index(self) -> usize {
        Self::ALL.iter().position(|one| *one == self).expect("all of them are in ALL")
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Operation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

// With any other, the prefix is an error (Intel SDM volume 2A, "LOCK"). Such are found where data
// is read as code.
fn can_be_locked(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let takes_it = matches!(
        instruction.mnemonic(),
        M::Add
            | M::Adc
            | M::And
            | M::Btc
            | M::Btr
            | M::Bts
            | M::Cmpxchg
            | M::Cmpxchg8b
            | M::Cmpxchg16b
            | M::Dec
            | M::Inc
            | M::Neg
            | M::Not
            | M::Or
            | M::Sbb
            | M::Sub
            | M::Xor
            | M::Xadd
    );
    match instruction.mnemonic() {
        M::Xchg => has_memory(instruction),
        _ => takes_it && instruction.op0_kind() == OpKind::Memory,
    }
}

fn has_memory(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Memory || instruction.op1_kind() == OpKind::Memory
}

/// How many there are of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(
        rename = "OperationCounts",
        with = "std::collections::BTreeMap<Operation, u64>",
        extend("required" = Operation::ALL.map(Operation::name))
    )
)]
pub struct Counts([u64; Operation::ALL.len()]);

impl Counts {
    /// How many there are of one.
    pub fn of(&self, operation: Operation) -> u64 {
        self.0[operation.index()]
    }

    /// One more.
    pub fn add(&mut self, operation: Operation) {
        self.0[operation.index()] += 1;
    }

    /// Each with how many there are, in the order of [`Operation::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Operation, u64)> {
        Operation::ALL.into_iter().zip(self.0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }

    /// Whether there is one that is for durability ([`Operation::is_for_durability`]).
    pub fn are_for_durability(&self) -> bool {
        self.iter().any(|(operation, count)| count > 0 && operation.is_for_durability())
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }
}

impl Serialize for Counts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(operation, count)| (operation.name(), count)))
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    fn of(bytes: &[u8]) -> Option<Operation> {
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        assert_eq!(instruction.len(), bytes.len(), "{bytes:x?}");
        Operation::of(&instruction)
    }

    // Encodings as the manuals give them (Intel SDM volume 2).
    #[test]
    fn each_is_known_by_its_encoding() {
        for (bytes, operation) in [
            (&[0x0f, 0xae, 0x38][..], Some(Operation::Flush(Flush::Clflush))),
            (&[0x66, 0x0f, 0xae, 0x38], Some(Operation::Flush(Flush::Clflushopt))),
            (&[0x66, 0x0f, 0xae, 0x30], Some(Operation::Flush(Flush::Clwb))),
            (&[0x0f, 0xae, 0xf8], Some(Operation::Sfence)),
            (&[0x0f, 0xae, 0xf0], Some(Operation::Mfence)),
            (&[0x0f, 0xae, 0xe8], Some(Operation::Lfence)),
            // movnti [rax], ecx; movntdq [rax], xmm0; vmovntdq [rax], ymm0; vmovntdq [rax], zmm0
            (&[0x0f, 0xc3, 0x08], Some(Operation::NonTemporal)),
            (&[0x66, 0x0f, 0xe7, 0x00], Some(Operation::NonTemporal)),
            (&[0xc5, 0xfd, 0xe7, 0x00], Some(Operation::NonTemporal)),
            (&[0x62, 0xf1, 0x7d, 0x48, 0xe7, 0x00], Some(Operation::NonTemporal)),
            // movdir64b rax, [rcx]
            (&[0x66, 0x0f, 0x38, 0xf8, 0x01], Some(Operation::NonTemporal)),
            // lock inc dword [rax]; xchg [rax], ecx; xchg eax, ecx
            (&[0xf0, 0xff, 0x00], Some(Operation::Locked)),
            (&[0x87, 0x08], Some(Operation::Locked)),
            (&[0x87, 0xc8], None),
            // movntdqa xmm0, [rax] loads; xsaveopt [rax] and ldmxcsr [rax] share the opcode of clwb
            (&[0x66, 0x0f, 0x38, 0x2a, 0x00], None),
            (&[0x0f, 0xae, 0x30], None),
            (&[0x0f, 0xae, 0x10], None),
            // mov [rax], ecx
            (&[0x89, 0x08], None),
        ] {
            assert_eq!(of(bytes), operation, "{bytes:x?}");
        }
    }

    #[test]
    fn counts_add_up_by_operation() {
        let mut counts = Counts::default();
        assert!(counts.is_empty());
        for operation in Operation::ALL {
            counts.add(operation);
        }
        counts.add(Operation::Locked);
        let mut sum = counts;
        sum += counts;
        assert_eq!((sum.of(Operation::Locked), sum.of(Operation::Mfence)), (4, 2));
        let locked = {
            let mut one = Counts::default();
            one.add(Operation::Locked);
            one
        };
        assert!(!locked.are_for_durability() && counts.are_for_durability());
    }
}
