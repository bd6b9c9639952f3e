//! Instructions that need more than an address: strings, the stack, jumps, and those that load a
//! state.

use iced_x86::{Code, Instruction, MemoryOperand, Mnemonic, OpKind, Register};

use crate::addresses::{CODE, FS_BASE, HIGH, HIGH_SIZE, LOW, LOW_SIZE, ORDINARY};
use crate::maker::{Maker, SLOT, bytes, plain};

type Made = Option<Vec<Instruction>>;

fn at(base: Register) -> MemoryOperand {
    MemoryOperand::with_base(base)
}

impl Maker {
    /// What such an instruction needs and itself; `None` where it is an ordinary one.
    pub fn special(&mut self, code: Code) -> Option<Made> {
        use Mnemonic as M;
        if code.is_string_instruction() {
            return Some(self.string(code));
        }
        Some(match code.mnemonic() {
            M::Push | M::Pop | M::Pushf | M::Pushfq | M::Popf | M::Popfq | M::Leave | M::Enter => {
                self.stack(code)
            }
            M::Call | M::Jmp | M::Ret => self.branch(code),
            M::Xlatb => {
                let target = self.target(256);
                let mut made = xlat();
                let by_fs = target < 1 << 31 && self.random.once_in(3);
                if by_fs {
                    made.set_segment_prefix(Register::FS);
                }
                self.set(Register::RBX, target - if by_fs { FS_BASE } else { 0 });
                Some(vec![made])
            }
            M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu => {
                let target = self.target(16);
                self.set(Register::RDI, target);
                self.operands(code).map(|(mut made, _)| {
                    made.set_op0_kind(OpKind::MemorySegRDI);
                    if target < 1 << 31 && self.random.once_in(4) {
                        made.set_op0_kind(OpKind::MemorySegEDI);
                    }
                    vec![made]
                })
            }
            M::Bt | M::Bts | M::Btr | M::Btc => self.bits(code),
            M::Cmpxchg | M::Cmpxchg8b | M::Cmpxchg16b => self.exchange(code),
            M::Div | M::Idiv => self.division(code),
            M::Xsave
            | M::Xsave64
            | M::Xsavec
            | M::Xsavec64
            | M::Xsaveopt
            | M::Xsaveopt64
            | M::Fxsave
            | M::Fxsave64 => self.save(code, None),
            M::Xrstor => self.save(Code::Xsave_mem, Some(code)),
            M::Xrstor64 => self.save(Code::Xsavec64_mem, Some(code)),
            M::Fxrstor => self.save(Code::Fxsave_m512byte, Some(code)),
            M::Fxrstor64 => self.save(Code::Fxsave64_m512byte, Some(code)),
            M::Fnstenv | M::Fnsave => self.environment(code, None),
            M::Fldenv => {
                let save = if code == Code::Fldenv_m14byte {
                    Code::Fnstenv_m14byte
                } else {
                    Code::Fnstenv_m28byte
                };
                self.environment(save, Some(code))
            }
            M::Frstor => {
                let save = if code == Code::Frstor_m94byte {
                    Code::Fnsave_m94byte
                } else {
                    Code::Fnsave_m108byte
                };
                self.environment(save, Some(code))
            }
            M::Fldcw => self.control(code, 0x37f | self.random.clone().below(4) << 10, 2),
            M::Ldmxcsr | M::Vldmxcsr => {
                self.control(code, 0x1f80 | self.random.clone().below(8) << 13, 4)
            }
            _ => return None,
        })
    }

    fn string(&mut self, code: Code) -> Made {
        let mut made = Instruction::default();
        made.set_code(code);
        let kinds = code.op_code().op_kinds().to_vec();
        for (index, kind) in (0u32..).zip(kinds) {
            match format!("{kind:?}").as_str() {
                "seg_rSI" => made.set_op_kind(index, OpKind::MemorySegRSI),
                "es_rDI" => made.set_op_kind(index, OpKind::MemoryESRDI),
                "al" => register(&mut made, index, Register::AL),
                "ax" => register(&mut made, index, Register::AX),
                "eax" => register(&mut made, index, Register::EAX),
                "rax" => register(&mut made, index, Register::RAX),
                _ => return None,
            }
        }
        let size = made.memory_size().size() as u64;
        let compares = matches!(
            code.mnemonic(),
            Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsd | Mnemonic::Cmpsq
        ) || format!("{:?}", code.mnemonic()).starts_with("Scas");
        match self.random.below(3) {
            0 => {}
            1 if compares => made.set_has_repne_prefix(true),
            _ => made.set_has_rep_prefix(true),
        }
        let down = self.random.once_in(3);
        self.before.push(Instruction::with(if down { Code::Std } else { Code::Cld }));
        let count = if self.random.once_in(8) { 0 } else { self.random.below(300 / size) };
        let (mut from, mut to) = (self.ends(size), self.ends(size));
        if self.random.once_in(4) {
            // Overlapping.
            to = from.wrapping_add((size as i64 * self.random.around_zero(4)) as u64);
        }
        if compares && self.random.once_in(2) {
            // The same, so that it goes on.
            to = from;
        }
        // An element that lies in a file in part alone is refused.
        if from > HIGH && self.random.once_in(4) {
            from = from.wrapping_add(1);
        }
        let mut above = 0;
        if from < 1 << 31 && to < 1 << 31 && self.random.once_in(6) {
            above = self.random.next() << 32;
            for at in 0..made.op_count() {
                match made.op_kind(at) {
                    OpKind::MemorySegRSI => made.set_op_kind(at, OpKind::MemorySegESI),
                    OpKind::MemoryESRDI => made.set_op_kind(at, OpKind::MemoryESEDI),
                    _ => {}
                }
            }
        }
        let uses_source =
            (0..made.op_count()).any(|at| format!("{:?}", made.op_kind(at)).contains("Seg"));
        if uses_source && from < 1 << 31 && self.random.once_in(6) {
            made.set_segment_prefix(Register::FS);
            from -= FS_BASE;
        }
        self.set(Register::RSI, from | above);
        self.set(Register::RDI, to | above);
        self.set(Register::RCX, count | above);
        Some(vec![made])
    }

    // Within what is mapped, in whole elements up to the ends of the mapping.
    fn ends(&mut self, size: u64) -> u64 {
        match self.random.below(4) {
            0 => LOW + LOW_SIZE - size * self.random.below(40),
            1 => HIGH + 0x1000 + size * self.random.below(40),
            2 => ORDINARY + 0x1000 - size * self.random.below(40),
            _ => LOW + 0x1000 - size * self.random.below(40),
        }
    }

    // A stack that mostly lies in the file.
    fn use_stack(&mut self) -> u64 {
        let stack = self.target(16);
        self.set(Register::RSP, stack);
        stack
    }

    fn stack(&mut self, code: Code) -> Made {
        let stack = self.use_stack();
        match code.mnemonic() {
            Mnemonic::Enter => {
                let from = self.target(8);
                self.set(Register::RBP, from);
                let (size, level) = (self.random.below(200), self.random.below(35));
                let level = if self.random.once_in(2) { 0 } else { level };
                return Some(vec![Instruction::with2(code, size as u32, level as u32).ok()?]);
            }
            Mnemonic::Popf | Mnemonic::Popfq => {
                // All that a program may set but the flags that trap, nest or check alignment.
                let flags = self.random.next() & 0x20_0cd5 | 0x202;
                let store =
                    Instruction::with2(Code::Mov_rm64_imm32, at(Register::RSP), flags as i32);
                self.before.extend(store);
                return Some(vec![Instruction::with(code)]);
            }
            Mnemonic::Leave => {
                self.set(Register::RBP, stack);
                if self.random.once_in(2) {
                    let other = self.random.next();
                    self.set(Register::RSP, other);
                }
                return Some(vec![Instruction::with(code)]);
            }
            _ => {}
        }
        if code.op_code().op_count() == 0 {
            return Some(vec![Instruction::with(code)]);
        }
        let (mut made, memory) = self.operands(code)?;
        if memory.is_some() {
            let target = self.target(8);
            if self.random.once_in(3) {
                // By the stack pointer itself.
                made.set_memory_base(Register::RSP);
                let mut displacement = self.random.around_zero(120) as u64;
                let ends = [LOW, ORDINARY, HIGH, HIGH + HIGH_SIZE];
                if ends.iter().any(|end| stack.wrapping_add(displacement).abs_diff(*end) < 24) {
                    // No value lies in the file in part.
                    displacement = displacement.wrapping_sub(64);
                }
                made.set_memory_displacement64(displacement);
                made.set_memory_displ_size(1);
            } else {
                self.place(&mut made, target, &[Register::RSP])?;
            }
        }
        Some(vec![made])
    }

    // Jumps come to what follows them.
    fn branch(&mut self, code: Code) -> Made {
        let stack = self.use_stack();
        let op = code.op_code();
        match (code.mnemonic(), op.op_count()) {
            (Mnemonic::Ret, _) => {
                if !matches!(code, Code::Retnq | Code::Retnq_imm16) {
                    return None;
                }
                let return_to = self.here() + 8;
                let push =
                    Instruction::with2(Code::Mov_rm64_imm32, at(Register::RSP), return_to as i32)
                        .ok()?;
                // `mov [rsp], imm32` has 8 bytes, and this one or three.
                let length = if code == Code::Retnq { 1 } else { 3 };
                let push_to = Instruction::with2(
                    Code::Mov_rm64_imm32,
                    at(Register::RSP),
                    (return_to + length) as i32,
                );
                self.before.push(push_to.unwrap_or(push));
                if code == Code::Retnq {
                    return Some(vec![Instruction::with(code)]);
                }
                let (made, _) = self.operands(code)?;
                Some(vec![made])
            }
            _ if code == Code::Call_rel32_64 => {
                let next = self.here() + 5;
                Some(vec![Instruction::with_branch(code, next).ok()?])
            }
            _ if matches!(code, Code::Call_rm64 | Code::Jmp_rm64) => {
                let register = self.random.of(&[Register::RDX, Register::R9, Register::RDI]);
                if self.random.once_in(4) {
                    let next = self.here() + 10 + if register == Register::R9 { 3 } else { 2 };
                    // Seldom to an address that no processor has.
                    let to = if self.random.once_in(40) { next | 1 << 52 } else { next };
                    self.set(register, to);
                    return Some(vec![Instruction::with1(code, register).ok()?]);
                }
                let target = self.target(8);
                if target.abs_diff(stack) < 64 {
                    return None;
                }
                // Where it leads to is in memory, too.
                let prefix = u64::from(register == Register::R9);
                let next = self.here() + 10 + 7 + 2 + prefix;
                self.before.push(bytes(register, target));
                let store = Instruction::with2(Code::Mov_rm64_imm32, at(register), next as i32);
                self.before.extend(store);
                assert!(next > CODE);
                Some(vec![Instruction::with1(code, at(register)).ok()?])
            }
            _ => None,
        }
    }

    fn bits(&mut self, code: Code) -> Made {
        let (mut made, memory) = self.operands(code)?;
        if memory.is_none() {
            return Some(vec![made]);
        }
        if code.op_code().can_use_lock_prefix() && self.random.once_in(2) {
            made.set_has_lock_prefix(true);
        }
        let size = made.memory_size().size() as u64;
        let region = self.random.of(&[LOW, HIGH, ORDINARY]);
        let target = self.target_in(region, size);
        if made.op1_kind() != OpKind::Register {
            self.place(&mut made, target, &[])?;
            return Some(vec![made]);
        }
        let register = made.op1_register().full_register();
        let bits = self.random.around_zero(1500);
        self.place(&mut made, target, &[register])?;
        let above = if size == 8 { 0 } else { self.random.next() << (8 * size) };
        let mask = if size == 8 { u64::MAX } else { (1 << (8 * size)) - 1 };
        self.set(register, bits as u64 & mask | above);
        Some(vec![made])
    }

    fn exchange(&mut self, code: Code) -> Made {
        let (mut made, memory) = self.operands(code)?;
        if memory.is_some() {
            let size = made.memory_size().size() as u64;
            // What is there is loaded 16 bytes at a time.
            let mut target = self.target(size);
            if target < ORDINARY {
                target = target.min(ORDINARY - 16);
            }
            if size == 16 {
                target &= !15;
            }
            made.set_has_lock_prefix(self.random.once_in(2));
            if self.random.once_in(2) {
                // What is there, so that it succeeds.
                let half = if size == 8 && code == Code::Cmpxchg8b_m64 { 4 } else { 8 };
                self.set(Register::RCX, target);
                let load = |register, from| Instruction::with2(Code::Mov_r64_rm64, register, from);
                self.before.extend(load(Register::RAX, at(Register::RCX)));
                let second = MemoryOperand::with_base_displ(Register::RCX, half);
                self.before.extend(load(Register::RDX, second));
            }
            self.place(&mut made, target, &[Register::RAX, Register::RDX])?;
        }
        Some(vec![made])
    }

    fn division(&mut self, code: Code) -> Made {
        let (mut made, memory) = self.operands(code)?;
        if memory.is_some() {
            let size = made.memory_size().size() as u64;
            let target = self.target(size);
            self.place(&mut made, target, &[Register::RAX, Register::RDX])?;
        }
        if !self.random.once_in(50) {
            self.set(Register::RDX, 0);
            let value = self.random.below(0x7f);
            self.set(Register::RAX, value);
        }
        Some(vec![made])
    }

    // Stores a state, and then loads it from there.
    fn save(&mut self, code: Code, load: Option<Code>) -> Made {
        let (_, parts) = (self.clear_x87(), self.random.next() & 0xe7);
        self.set(Register::RAX, parts);
        self.set(Register::RDX, 0);
        let target = SLOT + 64 * self.random.below(4);
        let register = self.random.of(&[Register::RSI, Register::R8, Register::RBP]);
        self.set(register, target);
        let memory = at(register);
        let mut all = vec![Instruction::with1(code, memory).ok()?];
        if let Some(load) = load {
            all.push(Instruction::with1(load, memory).ok()?);
        }
        Some(all)
    }

    // Without the address of its last instruction, which is not the program's.
    fn clear_x87(&mut self) {
        if self.x87 {
            self.before.push(Instruction::with(Code::Fninit));
        }
        self.x87 = false;
    }

    fn environment(&mut self, code: Code, load: Option<Code>) -> Made {
        self.clear_x87();
        let target = self.target_in(HIGH, 128);
        let mut made = Instruction::with1(code, plain(0)).ok()?;
        self.place(&mut made, target, &[])?;
        let mut all = vec![made];
        if let Some(load) = load {
            made.set_code(load);
            all.push(made);
        }
        Some(all)
    }

    fn control(&mut self, code: Code, value: u64, size: u64) -> Made {
        let value = if size == 2 { value } else { value & 0x7fff };
        let target = self.target(size);
        self.set(Register::RCX, target);
        let store = Instruction::with2(Code::Mov_rm32_imm32, at(Register::RCX), value as i32);
        let word = Instruction::with2(Code::Mov_rm16_imm16, at(Register::RCX), value as i32);
        self.before.extend(if size == 2 { word } else { store });
        let mut made = Instruction::with1(code, plain(0)).ok()?;
        self.place(&mut made, target, &[])?;
        Some(vec![made])
    }
}

fn register(made: &mut Instruction, index: u32, register: Register) {
    made.set_op_kind(index, OpKind::Register);
    made.set_op_register(index, register);
}

fn xlat() -> Instruction {
    let mut made = Instruction::default();
    made.set_code(Code::Xlat_m8);
    made.set_op0_kind(OpKind::Memory);
    made.set_memory_base(Register::RBX);
    made.set_memory_index(Register::AL);
    made
}
