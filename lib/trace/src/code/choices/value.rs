//! What registers and the stack may hold, as far as addresses go.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::Register;
use rustc_hash::FxHashSet;

// More possibilities than this are of no use.
const MOST: usize = 32;

// Marks what stands for too many possibilities.
const ANY: u64 = 1 << 63;

/// What is known of a file before.
pub struct Known<'a> {
    /// Where functions begin.
    pub functions: &'a FxHashSet<u64>,
    /// Where their addresses lie in data.
    pub pointers: &'a BTreeMap<u64, u64>,
}

/// What a function does with addresses of functions.
#[derive(Debug, Default)]
pub struct Facts {
    /// Where it stores them: at an address of the file, or in a structure.
    pub stores: BTreeMap<Item, BTreeSet<u64>>,
    /// Which it returns.
    pub returns: BTreeSet<u64>,
}

/// One thing that a register may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// An address of the file.
    Address(u64),
    /// What an instruction, or a caller, left in a register, and so many bytes more.
    Left { origin: u64, offset: i64 },
}

impl Item {
    /// What is in a register from an instruction on that nothing is known of; 0 stands for the
    /// function's beginning.
    pub fn left(instruction: u64, register: usize) -> Self {
        Self::Left { origin: instruction << 8 | register as u64, offset: 0 }
    }

    pub fn plus(self, bytes: i64) -> Self {
        match self {
            Self::Address(address) => Self::Address(address.wrapping_add_signed(bytes)),
            Self::Left { origin, offset } => {
                Self::Left { origin, offset: offset.wrapping_add(bytes) }
            }
        }
    }

    /// Whether it represents too many possibilities.
    pub fn is_any(self) -> bool {
        matches!(self, Self::Left { origin, .. } if origin & ANY != 0)
    }

    /// Whether it is an address on the stack.
    pub fn is_stack(self) -> bool {
        let stack = Register::RSP.number() as u64;
        matches!(self, Self::Left { origin, .. } if origin & 0xff == stack) && !self.is_any()
    }
}

/// Everything that something may hold.
pub type Value = BTreeSet<Item>;

/// All that a function has at hand, at one place in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub general: [Value; 16],
    // The lower 16 bytes, in two halves.
    pub vectors: [[Value; 2]; 16],
    pub stack: BTreeMap<Item, Value>,
}

impl State {
    /// Where a function begins.
    pub fn beginning() -> Self {
        let mut state = Self::default();
        for (number, register) in state.general.iter_mut().enumerate() {
            register.insert(Item::left(0, number));
        }
        state
    }

    /// Adds what may be there when one comes from elsewhere to this block. Whether that is more
    /// than before.
    pub fn join(&mut self, other: &Self, block: u64) -> bool {
        let mut more = false;
        for (number, (own, other)) in self.general.iter_mut().zip(&other.general).enumerate() {
            more |= join(own, other, block << 8 | number as u64);
        }
        let lanes = self.vectors.iter_mut().flatten().zip(other.vectors.iter().flatten());
        for (number, (own, other)) in lanes.enumerate() {
            more |= join(own, other, block << 8 | (16 + number) as u64);
        }
        for (place, value) in &other.stack {
            more |= join(self.stack.entry(*place).or_default(), value, block << 8 | 64);
        }
        more
    }
}

fn join(own: &mut Value, other: &Value, origin: u64) -> bool {
    let any = Item::Left { origin: origin | ANY, offset: 0 };
    if own.contains(&any) {
        return false;
    }
    let before = own.len();
    own.extend(other);
    if own.len() > MOST {
        *own = Value::from([any]);
        return true;
    }
    own.len() > before
}
