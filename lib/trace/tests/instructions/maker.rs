//! Makes sequences: each instruction comes with what has to be in registers for it to access the
//! memory that it shall.

use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, EncodingKind, Instruction, MemoryOperand, Register,
};

use crate::addresses::{CODE, CONSTANTS, CONSTANTS_SIZE, FS_BASE, HIGH, LOW, LOW_SIZE, ORDINARY};
use crate::operands::{general, sized};
use crate::random::Random;

/// A sequence, to run at `code` of the executor.
#[derive(Debug, Clone)]
pub struct Sequence {
    pub seed: u64,
    pub at: u64,
    pub code: Vec<u8>,
    pub constants: Vec<u8>,
    /// The instructions that it is about.
    pub forms: Vec<Code>,
}

pub struct Maker {
    pub random: Random,
    pub at: u64,
    pub code: Vec<u8>,
    pub constants: Vec<u8>,
    /// What comes before the instruction that is being made.
    pub before: Vec<Instruction>,
    /// Whether a jump right behind the instruction comes before it, and is taken.
    pub skip: Option<bool>,
    /// Whether an instruction of x87 has been executed, which leaves its address behind.
    pub x87: bool,
}

/// Where a register's whole state is stored: zeros, of which the header has to consist.
pub const SLOT: u64 = HIGH + 0x2800;

pub fn bytes(register: Register, value: u64) -> Instruction {
    Instruction::with2(Code::Mov_r64_imm64, register, value).expect("any register takes any value")
}

pub fn plain(address: u64) -> MemoryOperand {
    MemoryOperand::new(Register::None, Register::None, 1, address as i64, 4, false, Register::None)
}

impl Maker {
    /// A sequence of some forms; those that cannot be encoded as chosen are left out.
    pub fn sequence(seed: u64, at: u64, forms: &[Code]) -> Sequence {
        let mut maker = Self::new(seed, at);
        let mut used = Vec::new();
        for code in forms {
            if (0..20).any(|_| maker.add(*code)) {
                used.push(*code);
            }
        }
        let end = Instruction::with1(Code::Jmp_rm64, plain(CONSTANTS + CONSTANTS_SIZE - 8));
        let end = end.expect("a jump through memory");
        assert!(maker.commit(&[end]));
        Sequence { seed, at, code: maker.code, constants: maker.constants, forms: used }
    }

    /// Nothing yet, to run at an address.
    pub fn new(seed: u64, at: u64) -> Self {
        assert!(at >= CODE);
        Self {
            random: Random(seed ^ 0x5eed),
            at,
            code: Vec::new(),
            constants: Vec::new(),
            before: Vec::new(),
            skip: None,
            x87: false,
        }
    }

    /// Adds an instruction of a form, with what it needs; `false` where the operands that were
    /// chosen cannot be encoded.
    pub fn add(&mut self, code: Code) -> bool {
        self.before.clear();
        let constants = self.constants.len();
        let Some(made) = self.special(code).unwrap_or_else(|| self.ordinary(code)) else {
            self.constants.truncate(constants);
            return false;
        };
        let mut all = std::mem::take(&mut self.before);
        all.extend(made);
        let done = self.commit(&all);
        if !done {
            self.constants.truncate(constants);
        }
        done
    }

    // Encodes them, if all of them can be, and are what they are meant to be.
    pub fn commit(&mut self, all: &[Instruction]) -> bool {
        let start = self.at + self.code.len() as u64;
        let mut code = Vec::new();
        for (number, one) in all.iter().enumerate() {
            let mut encoder = Encoder::new(64);
            let skip = self.skip.filter(|_| number + 1 == all.len());
            if let Some(taken) = skip {
                // stc or clc; jc
                code.extend([if taken { 0xf9 } else { 0xf8 }, 0x72, 0]);
            }
            let ip = start + code.len() as u64;
            if encoder.encode(one, ip).is_err() {
                return false;
            }
            let bytes = encoder.take_buffer();
            let decoded = Decoder::with_ip(64, &bytes, ip, DecoderOptions::NONE).decode();
            if decoded.is_invalid() || decoded.len() != bytes.len() {
                return false;
            }
            if skip.is_some() {
                *code.last_mut().expect("the jump") = bytes.len() as u8;
            }
            code.extend(bytes);
        }
        self.code.extend(code);
        true
    }

    /// Where the next instruction goes once those before it are there, if they are of a known
    /// length.
    pub fn here(&self) -> u64 {
        let mut encoder = Encoder::new(64);
        let mut at = self.at + self.code.len() as u64;
        for one in &self.before {
            at += encoder.encode(one, at).unwrap_or_default() as u64;
        }
        // The flag and the jump that may come before the instruction.
        at + if self.skip.is_some() { 3 } else { 0 }
    }

    /// Puts bytes among the constants, and tells where they are.
    pub fn constant(&mut self, bytes: &[u8]) -> u64 {
        while !self.constants.len().is_multiple_of(64) {
            self.constants.push(0);
        }
        let at = CONSTANTS + self.constants.len() as u64;
        self.constants.extend(bytes);
        assert!(self.constants.len() < CONSTANTS_SIZE as usize - 8);
        at
    }

    pub fn set(&mut self, register: Register, value: u64) {
        self.before.push(bytes(register.full_register(), value));
    }

    /// Where `size` bytes are to be accessed: within a file, mostly at ends of lines, pages and
    /// mappings.
    pub fn target(&mut self, size: u64) -> u64 {
        let random = &mut self.random;
        let region = random.of(&[LOW, LOW, LOW, HIGH, HIGH, ORDINARY]);
        self.target_in(region, size)
    }

    pub fn target_in(&mut self, region: u64, size: u64) -> u64 {
        let random = &mut self.random;
        let middle = region + 0x1000;
        let alignment = size.next_power_of_two();
        match random.below(8) {
            0 if size > 1 && size < 64 => middle - 1 - random.below(size - 1),
            1 if size > 1 && size < 64 => {
                middle + 64 * (1 + random.below(3)) - 1 - random.below(size - 1)
            }
            2 if region == LOW => LOW + LOW_SIZE - size,
            3 if region == LOW => LOW,
            4 => middle - 300 + random.below(500),
            _ => (middle - 256 + random.below(448)) & !(alignment - 1),
        }
    }

    /// Gives an instruction an address that comes to `target`, with random registers but those to
    /// be avoided.
    pub fn place(&mut self, made: &mut Instruction, target: u64, avoid: &[Register]) -> Option<()> {
        self.place_with(made, target, avoid, None)
    }

    pub fn place_with(
        &mut self,
        made: &mut Instruction,
        target: u64,
        avoid: &[Register],
        vector: Option<Register>,
    ) -> Option<()> {
        let near = target < 1 << 31;
        let free = |random: &mut Random, other: Register| {
            let one = (0..50)
                .map(|_| general(random, 8))
                .find(|one| !avoid.contains(one) && *one != other);
            one.unwrap_or(Register::R11)
        };
        let kind = if vector.is_some() { 1 } else { self.random.below(12) };
        let displacement = match self.random.below(4) {
            0 => 0,
            1 => self.random.around_zero(127),
            2 => 64 * self.random.around_zero(100),
            _ => self.random.around_zero(1 << 30),
        };
        let mut left = target.wrapping_sub(displacement as u64);
        let displ_size = if displacement != 0 || self.random.once_in(8) { 1 } else { 0 };
        match kind {
            0 if near => {
                made.set_memory_displacement64(target);
                made.set_memory_displ_size(if self.random.once_in(2) { 8 } else { 4 });
                return Some(());
            }
            1 if near && vector.is_none() => {
                made.set_memory_base(if self.random.once_in(5) {
                    Register::EIP
                } else {
                    Register::RIP
                });
                made.set_memory_displacement64(target);
                made.set_memory_displ_size(8);
                return Some(());
            }
            _ => {}
        }
        if near && self.random.once_in(12) {
            made.set_segment_prefix(Register::FS);
            left = left.wrapping_sub(FS_BASE);
        }
        let size = if near && self.random.once_in(10) { 4 } else { 8 };
        // What is beyond the 32 bits of an address does not count.
        let above = |random: &mut Random| if size == 4 { random.next() << 32 } else { 0 };
        let no_base = near && vector.is_none() && self.random.once_in(12);
        let mut index = Register::None;
        if let Some(vector) = vector {
            made.set_memory_index(vector);
        } else if no_base || self.random.once_in(2) {
            index = free(&mut self.random, Register::RSP);
            let scale = if no_base { 1 } else { self.random.of(&[1, 2, 4, 8]) };
            made.set_memory_index(sized(index, size));
            made.set_memory_index_scale(scale);
            let value = if no_base { left } else { self.random.around_zero(1 << 20) as u64 };
            left = left.wrapping_sub(value.wrapping_mul(scale.into()));
            let value = if size == 4 { value & 0xffff_ffff } else { value };
            let above = above(&mut self.random);
            self.set(index, value | above);
        }
        if !no_base {
            let base = free(&mut self.random, index);
            made.set_memory_base(sized(base, size));
            let left = if size == 4 { left & 0xffff_ffff } else { left };
            let above = above(&mut self.random);
            self.set(base, left | above);
        }
        made.set_memory_displacement64(displacement as u64);
        if size == 4 {
            made.set_memory_displacement64(displacement as u64 & 0xffff_ffff);
        }
        made.set_memory_displ_size(if no_base { 4 } else { displ_size });
        Some(())
    }

    // Any instruction that needs nothing but an address.
    fn ordinary(&mut self, code: Code) -> Option<Vec<Instruction>> {
        let (mut made, memory) = self.operands(code)?;
        let op = code.op_code();
        if memory.is_some() {
            if op.can_use_lock_prefix() && self.random.once_in(2) {
                made.set_has_lock_prefix(true);
            }
            let size = made.memory_size().size().max(1) as u64;
            let name = format!("{:?}", op.op_kind(memory?));
            if name.contains("vsib") {
                return self.gather(made, &name);
            }
            let mut target = self.target(size);
            // Most instructions of SSE fail where their operand is not aligned.
            let legacy = op.encoding() == EncodingKind::Legacy && size == 16;
            let moves = format!("{:?}", made.mnemonic());
            let aligned = legacy
                || moves.contains("mova")
                || moves.contains("movdqa")
                || moves.contains("movnt");
            if aligned && !self.random.once_in(20) {
                target &= !(size.next_power_of_two() - 1);
            }
            self.place(&mut made, target, &[])?;
            if made.has_op_mask() && self.random.once_in(4) {
                let value = self.random.of(&[0, 1, u64::MAX, 0x8000_0000_8000_8080]);
                self.mask(made.op_mask(), value);
            }
        }
        self.x87 |= format!("{:?}", code.mnemonic()).starts_with('F');
        Some(vec![made])
    }

    pub fn mask(&mut self, register: Register, value: u64) {
        let at = self.constant(&value.to_le_bytes());
        let load = Instruction::with2(Code::VEX_Kmovq_kr_km64, register, plain(at));
        self.before.extend(load);
    }

    fn gather(&mut self, mut made: Instruction, name: &str) -> Option<Vec<Instruction>> {
        let evex = made.op_code().encoding() == EncodingKind::EVEX;
        let number = self.random.below(if evex { 32 } else { 16 }) as u32;
        let first = match name.as_bytes().last() {
            Some(b'x') => Register::XMM0,
            Some(b'y') => Register::YMM0,
            _ => Register::ZMM0,
        };
        let wide = name.contains("vsib64");
        let mut indexes = Vec::new();
        for _ in 0..16 {
            let index = self.random.around_zero(40);
            if wide {
                indexes.extend(index.to_le_bytes());
            } else {
                indexes.extend((index as i32).to_le_bytes());
            }
        }
        let at = self.constant(&indexes[..64]);
        let load = if evex {
            Instruction::with2(
                Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512,
                Register::ZMM0 + number,
                plain(at),
            )
        } else {
            Instruction::with2(Code::VEX_Vmovdqu_ymm_ymmm256, Register::YMM0 + number, plain(at))
        };
        self.before.extend(load);
        let scale = self.random.of(&[1, 2, 4, 8]);
        made.set_memory_index_scale(scale);
        let region = self.random.of(&[LOW, HIGH, HIGH, ORDINARY]);
        self.place_with(&mut made, region + 0x1000, &[], Some(first + number))?;
        Some(vec![made])
    }
}
