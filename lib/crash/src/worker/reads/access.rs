//! Decodes an instruction that a closed page has stopped: what it reads and writes.

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, MemorySize, Mnemonic,
    OpAccess, OpKind, Register,
};

use super::ptrace::Registers;

/// What an instruction does to memory.
#[derive(Debug)]
pub(super) enum Access {
    /// It loads into a register or the flags, and does nothing else.
    Load(Load),
    /// It reads and writes these bytes.
    Bytes(Vec<Bytes>),
    /// It is a flush, which reads and writes nothing.
    Flush {
        /// Its length.
        length: u64,
    },
    /// That is not known.
    Unknown,
}

/// A load that changes nothing but a register and the flags.
#[derive(Debug)]
pub(super) struct Load {
    /// From where.
    pub(super) at: u64,
    /// Bytes: 1, 2, 4 or 8.
    pub(super) size: u64,
    what: Operation,
    // Its other operand, and whether that stands first.
    other: Other,
    is_first: bool,
    next: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Move,
    MoveSigned,
    Add,
    Subtract,
    Compare,
    And,
    Test,
    Or,
    Xor,
}

#[derive(Debug, Clone, Copy)]
enum Other {
    Register(Register),
    Number(u64),
}

/// Bytes that an instruction accesses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes {
    /// The first of them.
    pub(super) at: u64,
    /// How many.
    pub(super) size: u64,
    /// Whether it reads them.
    pub(super) reads: bool,
    /// Whether it writes all of them.
    pub(super) writes: bool,
}

/// Of the instruction with this code.
pub(super) fn access(code: &[u8], registers: &Registers) -> Access {
    let mut decoder = Decoder::with_ip(64, code, registers.rip, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let length = instruction.len() as u64;
    match instruction.mnemonic() {
        Mnemonic::INVALID => return Access::Unknown,
        Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb => {
            return Access::Flush { length };
        }
        _ => {}
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let mut all = Vec::new();
    for memory in info.used_memory() {
        let (reads, writes) = match memory.access() {
            OpAccess::None | OpAccess::NoMemAccess => continue,
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write => (false, true),
            OpAccess::CondWrite => (false, is_copy(&instruction)),
            OpAccess::ReadWrite => (true, true),
            OpAccess::ReadCondWrite => (true, false),
        };
        let value = |register: Register, _: usize, _: usize| value(registers, register);
        let Some(at) = memory.virtual_address(0, value) else { return Access::Unknown };
        // The decoder does not know how often a repeated instruction is executed.
        let size = match is_repeated(&instruction) {
            true => instruction.memory_size().size(),
            false => memory.memory_size().size(),
        } as u64;
        // With a mask, not all of it is written.
        let writes = writes && !instruction.has_op_mask();
        if size == 0 || instruction.is_vsib() {
            return Access::Unknown;
        }
        all.push(repeated(&instruction, Bytes { at, size, reads, writes }, registers));
    }
    match (load(&instruction), &all[..]) {
        (Some((what, other, is_first)), [one]) if one.size <= 8 => {
            let (Bytes { at, size, .. }, next) = (*one, registers.rip + length);
            Access::Load(Load { at, size, what, other, is_first, next })
        }
        _ => Access::Bytes(all),
    }
}

fn is_repeated(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

// Whether it copies or fills, so that its repetition does not end early.
fn is_copy(instruction: &Instruction) -> bool {
    use Mnemonic::{Movsb, Movsd, Movsq, Movsw, Stosb, Stosd, Stosq, Stosw};
    let copies = matches!(
        instruction.mnemonic(),
        Movsb | Movsw | Movsd | Movsq | Stosb | Stosw | Stosd | Stosq
    );
    copies && instruction.is_string_instruction()
}

/// The length of the instruction with this code.
pub(super) fn length(code: &[u8], at: u64) -> u64 {
    Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode().len() as u64
}

// Of all repetitions of it.
fn repeated(instruction: &Instruction, one: Bytes, registers: &Registers) -> Bytes {
    const DOWN: u64 = 0x400;
    if !is_repeated(instruction) {
        return one;
    }
    let size = one.size.saturating_mul(registers.rcx.max(1));
    let at = if registers.eflags & DOWN == 0 { one.at } else { one.at + one.size - size };
    Bytes { at, size, ..one }
}

// What it does, if that needs no more than a register, the flags and what it loads.
fn load(instruction: &Instruction) -> Option<(Operation, Other, bool)> {
    use Operation::{Add, And, Compare, Move, MoveSigned, Or, Subtract, Test, Xor};
    let what = match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx => Move,
        Mnemonic::Movsx | Mnemonic::Movsxd => MoveSigned,
        Mnemonic::Add => Add,
        Mnemonic::Sub => Subtract,
        Mnemonic::Cmp => Compare,
        Mnemonic::And => And,
        Mnemonic::Test => Test,
        Mnemonic::Or => Or,
        Mnemonic::Xor => Xor,
        _ => return None,
    };
    let is_number = matches!(
        instruction.memory_size(),
        MemorySize::UInt8
            | MemorySize::UInt16
            | MemorySize::UInt32
            | MemorySize::UInt64
            | MemorySize::Int8
            | MemorySize::Int16
            | MemorySize::Int32
            | MemorySize::Int64
    );
    // Processors differ in what `movsxd` with 16 bits does.
    if instruction.op_count() != 2 || !is_number || instruction.code() == Code::Movsxd_r16_rm16 {
        return None;
    }
    let other = |operand: u32| match instruction.op_kind(operand) {
        OpKind::Register => {
            let register = instruction.op_register(operand);
            register.is_gpr().then_some(Other::Register(register))
        }
        OpKind::Memory => None,
        _ => instruction.try_immediate(operand).ok().map(Other::Number),
    };
    if instruction.op1_kind() == OpKind::Memory {
        return Some((what, other(0)?, true));
    }
    // The others write their result to memory.
    matches!(what, Compare | Test).then_some((what, other(1)?, false))
}

impl Load {
    /// The registers after it, given what was loaded.
    pub(super) fn executed(&self, bytes: [u8; 8], registers: &Registers) -> Registers {
        use Operation::{Add, And, Compare, Move, MoveSigned, Or, Subtract, Test, Xor};
        let shift = 64 - 8 * self.size;
        let loaded = u64::from_le_bytes(bytes) << shift >> shift;
        let other = match self.other {
            Other::Register(register) => value(registers, register).unwrap_or(0),
            Other::Number(number) => number << shift >> shift,
        };
        let (first, second) = if self.is_first { (other, loaded) } else { (loaded, other) };
        let mut after = Registers { rip: self.next, ..*registers };
        let result = match self.what {
            Move => loaded,
            MoveSigned => ((loaded << shift) as i64 >> shift) as u64,
            Add => first.wrapping_add(second),
            Subtract | Compare => first.wrapping_sub(second),
            And | Test => first & second,
            Or => first | second,
            Xor => first ^ second,
        };
        if !matches!(self.what, Move | MoveSigned) {
            let flags = self.flags([first, second, result].map(|value| value << shift));
            after.eflags = registers.eflags & !FLAGS | flags;
        }
        if let (Other::Register(to), false) = (self.other, matches!(self.what, Compare | Test)) {
            put(&mut after, to, result);
        }
        after
    }

    // Intel SDM volume 1, 3.4.3.1; the values are moved to the top. After `and`, `or`, `xor` and
    // `test` the carry and the overflow are 0, and AF is left open: it becomes 0, too.
    fn flags(&self, [first, second, result]: [u64; 3]) -> u64 {
        let shift = 64 - 8 * self.size;
        let top = |value: u64| value >> 63;
        let parity = ((result >> shift) as u8).count_ones().is_multiple_of(2);
        let nibble = (first ^ second ^ result) >> shift >> 4 & 1;
        let (carry, overflow, nibble) = match self.what {
            Operation::Add => (result < first, top((first ^ result) & (second ^ result)), nibble),
            Operation::Subtract | Operation::Compare => {
                (first < second, top((first ^ second) & (first ^ result)), nibble)
            }
            _ => (false, 0, 0),
        };
        u64::from(carry)
            | u64::from(parity) << 2
            | nibble << 4
            | u64::from(result == 0) << 6
            | top(result) << 7
            | overflow << 11
    }
}

// CF, PF, AF, ZF, SF and OF.
const FLAGS: u64 = 0x8d5;

// Stores to a register, or to a part of one.
fn put(registers: &mut Registers, to: Register, value: u64) {
    let Some(place) = place(registers, to.full_register()) else { return };
    *place = match to.size() {
        8 => value,
        // The upper half becomes 0.
        4 => value & 0xffff_ffff,
        2 => *place & !0xffff | value & 0xffff,
        _ if is_second_byte(to) => *place & !0xff00 | (value & 0xff) << 8,
        _ => *place & !0xff | value & 0xff,
    };
}

fn is_second_byte(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

fn place(registers: &mut Registers, full: Register) -> Option<&mut u64> {
    Some(match full {
        Register::RAX => &mut registers.rax,
        Register::RBX => &mut registers.rbx,
        Register::RCX => &mut registers.rcx,
        Register::RDX => &mut registers.rdx,
        Register::RSI => &mut registers.rsi,
        Register::RDI => &mut registers.rdi,
        Register::RBP => &mut registers.rbp,
        Register::RSP => &mut registers.rsp,
        Register::R8 => &mut registers.r8,
        Register::R9 => &mut registers.r9,
        Register::R10 => &mut registers.r10,
        Register::R11 => &mut registers.r11,
        Register::R12 => &mut registers.r12,
        Register::R13 => &mut registers.r13,
        Register::R14 => &mut registers.r14,
        Register::R15 => &mut registers.r15,
        _ => return None,
    })
}

// A register's value, or that of a part of one.
fn value(registers: &Registers, register: Register) -> Option<u64> {
    match register {
        Register::FS => return Some(registers.fs_base),
        Register::GS => return Some(registers.gs_base),
        Register::CS | Register::DS | Register::ES | Register::SS => return Some(0),
        Register::RIP | Register::EIP => return Some(registers.rip),
        _ => {}
    }
    let mut copy = *registers;
    let full = *place(&mut copy, register.full_register())?;
    match register.size() {
        8 => Some(full),
        4 => Some(full & 0xffff_ffff),
        2 => Some(full & 0xffff),
        _ if is_second_byte(register) => Some(full >> 8 & 0xff),
        _ => Some(full & 0xff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Registers {
        // SAFETY: all of its fields are numbers.
        #[allow(unsafe_code, reason = "there is no other way to make one")]
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        (registers.rip, registers.rax, registers.rcx) = (0x1000, 0x8000, 3);
        (registers.rsi, registers.rdi) = (0x9000, 0xa000);
        registers
    }

    fn after(code: &[u8], bytes: u64) -> Registers {
        match access(code, &registers()) {
            Access::Load(load) => load.executed(bytes.to_le_bytes(), &registers()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn loads_leave_what_the_processor_leaves() {
        // mov rcx, [rax+8]; mov ecx, [rax]; mov cx, [rax]; mov ch, [rax]; movsx rcx, word [rax];
        // movzx ecx, byte [rax]
        assert_eq!(after(&[0x48, 0x8b, 0x48, 8], 0x1122_3344_5566_7788).rcx, 0x1122_3344_5566_7788);
        assert_eq!(after(&[0x8b, 8], 0xffff_ffff_8566_7788).rcx, 0x8566_7788);
        assert_eq!(after(&[0x66, 0x8b, 8], 0xffff).rcx, 0xffff);
        assert_eq!(after(&[0x8a, 0x28], 0x12).rcx, 0x1203);
        assert_eq!(after(&[0x48, 0x0f, 0xbf, 8], 0x8000).rcx, 0xffff_ffff_ffff_8000);
        assert_eq!(after(&[0x0f, 0xb6, 8], 0x8c).rcx, 0x8c);
        assert_eq!(after(&[0x0f, 0xb6, 8], 0x8c).rip, 0x1003);
    }

    #[test]
    fn others_say_which_bytes_they_access() {
        let bytes = |code: &[u8]| match access(code, &registers()) {
            Access::Bytes(all) => {
                let mut all: Vec<_> =
                    all.iter().map(|one| (one.at, one.size, one.reads, one.writes)).collect();
                all.sort_unstable();
                all
            }
            other => panic!("{other:?}"),
        };
        // add [rax], rcx; rep movsq; vmovdqu ymm0, [rax]; mov [rax], rcx
        assert_eq!(bytes(&[0x48, 1, 8]), [(0x8000, 8, true, true)]);
        let copy = [(0x9000, 24, true, false), (0xa000, 24, false, true)];
        assert_eq!(bytes(&[0xf3, 0x48, 0xa5]), copy);
        assert_eq!(bytes(&[0xc5, 0xfe, 0x6f, 0]), [(0x8000, 32, true, false)]);
        assert_eq!(bytes(&[0x48, 0x89, 8]), [(0x8000, 8, false, true)]);
        // clwb [rax]
        let flush = access(&[0x66, 0x0f, 0xae, 0x30], &registers());
        assert!(matches!(flush, Access::Flush { length: 4 }));
    }

    // What the processor itself does: the register and the flags behind `$name rcx, [rax]`, and the
    // like for other sizes.
    macro_rules! processor {
        ($name:literal, $register:literal, $from:expr, $with:expr) => {{
            let (mut to, flags): (u64, u64);
            // SAFETY: it reads what is ours, and the stack is as it was.
            #[allow(unsafe_code, reason = "the processor is asked")]
            unsafe {
                std::arch::asm!(
                    concat!($name, " ", $register, ", [rax]"), "pushfq", "pop rdx",
                    in("rax") &raw const $with, inout("rcx") $from => to, out("rdx") flags,
                );
            }
            (std::mem::take(&mut to), flags)
        }};
    }

    macro_rules! all_sizes {
        ($name:literal, $code:literal, $from:expr, $with:expr) => {
            [
                (vec![0x48, $code, 8], processor!($name, "rcx", $from, $with)),
                (vec![$code, 8], processor!($name, "ecx", $from, $with)),
                (vec![0x66, $code, 8], processor!($name, "cx", $from, $with)),
                (vec![$code - 1, 8], processor!($name, "cl", $from, $with)),
                (vec![$code - 1, 0x28], processor!($name, "ch", $from, $with)),
            ]
        };
    }

    proptest::proptest! {
        #[test]
        fn numbers_come_out_as_the_processor_has_them(
            from in proptest::prelude::any::<u64>(),
            with in proptest::prelude::any::<u64>(),
            is_near in proptest::prelude::any::<bool>(),
        ) {
            let with = if is_near { from ^ (with & 0x8000_0080_0000_8081) } else { with };
            let all = [
                (false, all_sizes!("add", 0x03, from, with)),
                (false, all_sizes!("sub", 0x2b, from, with)),
                (false, all_sizes!("cmp", 0x3b, from, with)),
                (true, all_sizes!("and", 0x23, from, with)),
                (true, all_sizes!("or", 0x0b, from, with)),
                (true, all_sizes!("xor", 0x33, from, with)),
                (true, all_sizes!("mov", 0x8b, from, with)),
            ];
            for (leaves_nibble_open, sizes) in all {
                for (code, (to, flags)) in sizes {
                    let before = Registers { rcx: from, eflags: 0x246, ..registers() };
                    let Access::Load(load) = access(&code, &before) else { panic!("{code:x?}") };
                    let after = load.executed(with.to_le_bytes(), &before);
                    proptest::prop_assert_eq!(after.rcx, to, "{:x?}", &code);
                    let is_move = code.contains(&0x8b) || code[0] == 0x8a;
                    let mask = if leaves_nibble_open { FLAGS & !0x10 } else { FLAGS };
                    if !is_move {
                        proptest::prop_assert_eq!(after.eflags & mask, flags & mask, "{:x?}", code);
                    }
                }
            }
        }
    }
}
