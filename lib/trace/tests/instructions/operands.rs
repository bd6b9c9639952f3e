//! Operands of an instruction: random registers, values and places in memory.

use iced_x86::{Code, EncodingKind, Instruction, OpCodeOperandKind, OpKind, Register};

use crate::forms::is_memory;
use crate::maker::Maker;
use crate::random::Random;

/// General registers, by their size in bytes.
pub fn general(random: &mut Random, size: usize) -> Register {
    let first = match size {
        1 => {
            // The high bytes come behind the first four.
            return random.of(&[
                Register::AL,
                Register::CL,
                Register::DL,
                Register::BL,
                Register::AH,
                Register::CH,
                Register::DH,
                Register::BH,
                Register::SPL,
                Register::BPL,
                Register::SIL,
                Register::DIL,
                Register::R8L,
                Register::R11L,
                Register::R12L,
                Register::R15L,
            ]);
        }
        2 => Register::AX,
        4 => Register::EAX,
        _ => Register::RAX,
    };
    first + random.below(16) as u32
}

/// The other name of a general register.
pub fn sized(register: Register, size: usize) -> Register {
    let number = register.full_register() as u32 - Register::RAX as u32;
    match size {
        2 => Register::AX + number,
        4 => Register::EAX + number,
        _ => Register::RAX + number,
    }
}

fn immediate(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.below(4),
        1 => random.below(256),
        2 => (random.around_zero(128)) as u64,
        _ => random.next(),
    }
}

impl Maker {
    /// An instruction of a form with random operands, none of them yet in memory: which one is to
    /// be.
    pub fn operands(&mut self, code: Code) -> Option<(Instruction, Option<u32>)> {
        let op = code.op_code();
        let mut made = Instruction::default();
        made.set_code(code);
        let mut memory = None;
        for (at, kind) in (0u32..).zip(op.op_kinds().iter().copied()) {
            if is_memory(kind)
                && (format!("{kind:?}").starts_with("mem") || !self.random.once_in(12))
            {
                memory = Some(at);
                made.set_op_kind(at, OpKind::Memory);
            } else {
                self.register_or_value(&mut made, at, kind)?;
            }
        }
        if op.require_op_mask_register() || op.can_use_op_mask_register() && !self.random.once_in(3)
        {
            made.set_op_mask(Register::K1 + self.random.below(7) as u32);
            let stores = memory == Some(0);
            made.set_zeroing_masking(
                op.can_use_zeroing_masking() && !stores && self.random.once_in(2),
            );
        }
        made.set_is_broadcast(memory.is_some() && op.can_broadcast() && self.random.once_in(2));
        Some((made, memory))
    }

    fn register_or_value(
        &mut self,
        made: &mut Instruction,
        at: u32,
        kind: OpCodeOperandKind,
    ) -> Option<()> {
        let random = &mut self.random;
        let evex = made.code().op_code().encoding() == EncodingKind::EVEX;
        let name = format!("{kind:?}");
        let vectors = if evex { 32 } else { 16 };
        let register = match name.as_str() {
            "es" | "cs" | "ss" | "ds" | "fs" | "gs" => {
                let all = [
                    Register::ES,
                    Register::CS,
                    Register::SS,
                    Register::DS,
                    Register::FS,
                    Register::GS,
                ];
                all[["es", "cs", "ss", "ds", "fs", "gs"].iter().position(|one| *one == name)?]
            }
            "al" => Register::AL,
            "cl" => Register::CL,
            "ax" => Register::AX,
            "dx" => Register::DX,
            "eax" => Register::EAX,
            "rax" => Register::RAX,
            "st0" => Register::ST0,
            "sti_opcode" => Register::ST0 + random.below(8) as u32,
            _ if name.starts_with("imm") => return value(random, made, at, &name),
            _ if name.starts_with("r8") => general(random, 1),
            _ if name.starts_with("r16") => general(random, 2),
            _ if name.starts_with("r32") => general(random, 4),
            _ if name.starts_with("r64") => general(random, 8),
            _ if name.starts_with('k') => Register::K0 + random.below(8) as u32,
            _ if name.starts_with("mm") => Register::MM0 + random.below(8) as u32,
            _ if name.starts_with("xmm") => Register::XMM0 + random.below(vectors) as u32,
            _ if name.starts_with("ymm") => Register::YMM0 + random.below(vectors) as u32,
            _ if name.starts_with("zmm") => Register::ZMM0 + random.below(vectors) as u32,
            _ => return None,
        };
        made.set_op_kind(at, OpKind::Register);
        made.set_op_register(at, register);
        Some(())
    }
}

fn value(random: &mut Random, made: &mut Instruction, at: u32, name: &str) -> Option<()> {
    let value = immediate(random);
    let second = (0..at).any(|one| {
        made.op_kind(one) == OpKind::Immediate8 || made.op_kind(one) == OpKind::Immediate16
    });
    match name {
        "imm4_m2z" => {
            made.set_op_kind(at, OpKind::Immediate8);
            made.set_immediate8(value as u8 & 3);
        }
        "imm8_const_1" => {
            made.set_op_kind(at, OpKind::Immediate8);
            made.set_immediate8(1);
        }
        "imm8" if second => {
            made.set_op_kind(at, OpKind::Immediate8_2nd);
            made.set_immediate8_2nd(value as u8);
        }
        "imm8" => {
            made.set_op_kind(at, OpKind::Immediate8);
            made.set_immediate8(value as u8);
        }
        "imm8sex16" => {
            made.set_op_kind(at, OpKind::Immediate8to16);
            made.set_immediate8to16(value as i8 as i16);
        }
        "imm8sex32" => {
            made.set_op_kind(at, OpKind::Immediate8to32);
            made.set_immediate8to32(value as i8 as i32);
        }
        "imm8sex64" => {
            made.set_op_kind(at, OpKind::Immediate8to64);
            made.set_immediate8to64(value as i8 as i64);
        }
        "imm16" => {
            made.set_op_kind(at, OpKind::Immediate16);
            made.set_immediate16(value as u16);
        }
        "imm32" => {
            made.set_op_kind(at, OpKind::Immediate32);
            made.set_immediate32(value as u32);
        }
        "imm32sex64" => {
            made.set_op_kind(at, OpKind::Immediate32to64);
            made.set_immediate32to64(value as i32 as i64);
        }
        "imm64" => {
            made.set_op_kind(at, OpKind::Immediate64);
            made.set_immediate64(value);
        }
        _ => return None,
    }
    Some(())
}
