//! The code that runs in place of a program's instruction.
//!
//! A stub begins with the runtime's `enter`, where the program jumps to it; goes on with the
//! instruction itself, its address replaced by what the runtime has put into the thread's block;
//! then with the runtime's `leave`, where it stores; and ends behind the program's instruction. A
//! breakpoint or a fault goes to the second part directly.

use std::mem::offset_of;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Encoder, Instruction, InstructionBlock,
    InstructionInfoFactory, MemoryOperand, OpAccess, OpKind, Register,
};
use ringfence_trace_runtime::layout::{Block, COUNTS, Site, TABLE_SHIFTS, how, register, what};

use super::site::number;

/// A stub's bytes, and where its parts begin.
#[derive(Debug)]
pub(super) struct Stub {
    pub(super) code: Vec<u8>,
    /// As [`Site::run`].
    pub(super) run: u64,
    /// As [`Site::after`].
    pub(super) after: u64,
    /// As [`Site::inner`].
    pub(super) inner: u64,
    /// As [`Site::borrowed`].
    pub(super) borrowed: u8,
    /// Where copies of the program's instructions lie.
    pub(super) copies: Vec<Copied>,
}

/// A jump to a stub.
#[derive(Debug, Clone)]
pub(super) struct Jump {
    /// Where it leads.
    pub(super) entry: u64,
    /// Instructions behind it whose bytes it takes, too.
    pub(super) displaced: Vec<Instruction>,
    /// Where their stub goes on, if not behind them.
    pub(super) on: Option<u64>,
    /// Bytes.
    pub(super) length: usize,
}

/// An instruction of the program in a stub.
#[derive(Debug, Clone)]
pub(super) struct Copied {
    pub(super) at: u64,
    /// Where the program has it.
    pub(super) origin: u64,
    /// What is copied behind it.
    pub(super) rest: Vec<Instruction>,
    /// Where the stub goes on behind that.
    pub(super) on: u64,
}

// A field of the thread's block.
fn own(field: usize) -> MemoryOperand {
    MemoryOperand::new(Register::None, Register::None, 1, field as i64, 8, false, Register::GS)
}

fn relative(address: u64) -> MemoryOperand {
    MemoryOperand::with_base_displ(Register::RIP, address as i64)
}

struct Assembler {
    encoder: Encoder,
    start: u64,
    at: u64,
}

type Encoded<T = ()> = Result<T, iced_x86::IcedError>;

impl Assembler {
    fn new(start: u64) -> Self {
        Self { encoder: Encoder::new(64), start, at: start }
    }

    fn put(&mut self, instruction: &Instruction) -> Encoded {
        self.at += self.encoder.encode(instruction, self.at)? as u64;
        Ok(())
    }

    fn save(&mut self, field: usize, register: Register) -> Encoded {
        self.put(&Instruction::with2(Code::Mov_rm64_r64, own(field), register)?)
    }

    fn load(&mut self, register: Register, field: usize) -> Encoded {
        self.put(&Instruction::with2(Code::Mov_r64_rm64, register, own(field))?)
    }

    // Calls the runtime on the thread's own stack, with the site's address, which lies at
    // `literal`.
    fn call_runtime(&mut self, routine: usize, literal: u64) -> Encoded {
        self.save(offset_of!(Block, rsp), Register::RSP)?;
        self.load(Register::RSP, offset_of!(Block, stack))?;
        self.put(&Instruction::with1(Code::Push_rm64, relative(literal))?)?;
        self.put(&Instruction::with1(Code::Call_rm64, own(routine))?)?;
        self.load(Register::RSP, offset_of!(Block, rsp))
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let mut all = self.encoder.take_buffer();
        all.extend_from_slice(bytes);
        self.at += bytes.len() as u64;
        self.encoder.set_buffer(all);
    }

    // Leaves zero in `rcx` where what the instruction accesses is surely no file's, and, with
    // `also`, it was zero before. Its own value is saved.
    fn guard(&mut self, site: &Site, instruction: &Instruction, also: bool) -> Encoded {
        let (rcx, rdx) = (Register::RCX, Register::RDX);
        let [left, right] = TABLE_SHIFTS;
        self.save(offset_of!(Block, spill3), rdx)?;
        let mut operands = Vec::new();
        if is_string(site) {
            let both =
                [site.how != how::LODS, matches!(site.how, how::MOVS | how::LODS | how::CMPS)];
            let registers = [Register::RDI, Register::RSI];
            operands.extend(
                registers
                    .into_iter()
                    .zip(both)
                    .filter(|(_, is_used)| *is_used)
                    .map(|(one, _)| MemoryOperand::with_base(one)),
            );
        } else {
            operands.push(MemoryOperand::new(
                instruction.memory_base(),
                instruction.memory_index(),
                instruction.memory_index_scale(),
                instruction.memory_displacement64() as i64,
                instruction.memory_displ_size(),
                false,
                Register::None,
            ));
        }
        for (number, operand) in operands.into_iter().enumerate() {
            // The second lookup adds to what the first has found.
            let found = also || number > 0;
            if found {
                self.save(offset_of!(Block, spill), rcx)?;
                self.load(rcx, offset_of!(Block, spill2))?;
            }
            self.put(&Instruction::with2(Code::Lea_r64_m, rcx, operand)?)?;
            for (shift, code) in
                [(left, Code::VEX_Shlx_r64_rm64_r64), (right, Code::VEX_Shrx_r64_rm64_r64)]
            {
                self.put(&Instruction::with2(Code::Mov_r32_imm32, Register::EDX, shift)?)?;
                self.put(&Instruction::with3(code, rcx, rcx, rdx)?)?;
            }
            self.load(rdx, offset_of!(Block, table))?;
            let entry = MemoryOperand::with_base_index(rdx, rcx);
            self.put(&Instruction::with2(Code::Movzx_r32_rm8, Register::ECX, entry)?)?;
            if found {
                self.load(rdx, offset_of!(Block, spill))?;
                self.put(&Instruction::with2(
                    Code::Lea_r64_m,
                    rcx,
                    MemoryOperand::with_base_index(rcx, rdx),
                )?)?;
            }
            self.load(rdx, offset_of!(Block, spill3))?;
        }
        Ok(())
    }

    // Instructions as they are, at another place.
    fn moved(&mut self, instructions: &[Instruction]) -> Encoded {
        let block = InstructionBlock::new(instructions, self.at);
        let code = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)?.code_buffer;
        self.bytes(&code);
        Ok(())
    }

    // Behind an instruction's own part: those that the jump to the stub displaced, and the jump
    // back.
    fn go_on(&mut self, displaced: &[Instruction], on: u64, copies: &mut Vec<Copied>) -> Encoded {
        if !displaced.is_empty() {
            // An instruction that faults there has to fault at the address that it comes from.
            let mut at = self.at;
            for (number, one) in displaced.iter().enumerate() {
                let rest = displaced[number + 1..].to_vec();
                copies.push(Copied { at, origin: one.ip(), rest, on });
                at += one.len() as u64;
            }
            self.moved(displaced)?;
        }
        self.jump(on)
    }

    // Counts an execution of a site, in `rcx`.
    fn count(&mut self, id: u32) -> Encoded {
        let (rcx, count) = (Register::RCX, (COUNTS + 8 * u64::from(id)) as usize);
        self.load(rcx, count)?;
        let next = MemoryOperand::with_base_displ(rcx, 1);
        self.put(&Instruction::with2(Code::Lea_r64_m, rcx, next)?)?;
        self.save(count, rcx)
    }

    // Lets the short jump at `jump` lead to here.
    fn lead_here(&mut self, jump: u64) -> Encoded {
        let distance = self.at - (jump + 2);
        let mut all = self.encoder.take_buffer();
        all[(jump + 1 - self.start) as usize] =
            i8::try_from(distance).map_err(|_| iced_error())? as u8;
        self.encoder.set_buffer(all);
        Ok(())
    }

    // A jump that reaches anywhere: its target follows it.
    fn jump(&mut self, target: u64) -> Encoded {
        self.put(&Instruction::with1(Code::Jmp_rm64, relative(self.at + 6))?)?;
        self.bytes(&target.to_le_bytes());
        Ok(())
    }
}

// What a stub is built of.
pub(super) struct Parts<'a> {
    pub(super) site: &'a Site,
    pub(super) instruction: &'a Instruction,
    /// Instructions behind it whose bytes the jump takes, too.
    pub(super) displaced: &'a [Instruction],
    /// Where it goes on, if not behind them.
    pub(super) on: Option<u64>,
    /// Whether it mostly accesses other memory than the files': the table of addresses decides
    /// first.
    pub(super) guarded: bool,
}

/// Assembles the stub of a site, to lie at `start`.
pub(super) fn assemble(parts: &Parts<'_>, start: u64) -> Option<Stub> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(parts.instruction);
    let used: Vec<Register> =
        info.used_registers().iter().map(|one| one.register().full_register()).collect();
    if !has_explicit_memory(parts.instruction) {
        return with(parts, start, None).ok();
    }
    // Instructions with `ah` and its kin cannot be encoded with the newer registers: the old ones
    // come first.
    const CANDIDATES: [Register; 15] = [
        Register::RDI,
        Register::RSI,
        Register::RDX,
        Register::RCX,
        Register::RBX,
        Register::RAX,
        Register::RBP,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    CANDIDATES
        .into_iter()
        .filter(|one| !used.contains(one) || is_only_address(parts.instruction, info, *one))
        .find_map(|borrowed| with(parts, start, Some(borrowed)).ok())
}

fn is_string(site: &Site) -> bool {
    (how::MOVS..=how::SCAS).contains(&site.how)
}

/// Whether the table of addresses can say that an instruction does not access the files.
pub(super) fn can_be_guarded(site: &Site, instruction: &Instruction) -> bool {
    let explicit = has_explicit_memory(instruction) && !instruction.is_ip_rel_memory_operand();
    let plain = site.narrow == 0
        && site.segment == 0
        && matches!(site.what, what::ACCESS | what::NON_TEMPORAL | what::LOCKED);
    let both = is_string(site) || explicit && site.how == how::STUB;
    // Shifts that change no flags.
    plain && both && std::arch::is_x86_feature_detected!("bmi2")
}

fn has_explicit_memory(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|at| instruction.op_kind(at) == iced_x86::OpKind::Memory)
}

// A register that is used for the address alone is free, too: but it has to be read before it is
// replaced, which the runtime has done, and to be put back.
fn is_only_address(
    instruction: &Instruction,
    info: &iced_x86::InstructionInfo,
    register: Register,
) -> bool {
    let as_operand = (0..instruction.op_count()).any(|at| {
        instruction.op_kind(at) == iced_x86::OpKind::Register
            && instruction.op_register(at).full_register() == register
    });
    let is_written = info.used_registers().iter().any(|one| {
        one.register().full_register() == register
            && !matches!(one.access(), OpAccess::Read | OpAccess::CondRead)
    });
    let is_address = [instruction.memory_base(), instruction.memory_index()]
        .iter()
        .any(|one| one.full_register() == register);
    // Implicit operands, such as those of `cmpxchg16b`, are among the registers used as often as
    // they are used.
    let uses = info
        .used_registers()
        .iter()
        .filter(|one| one.register().full_register() == register)
        .count();
    is_address
        && !as_operand
        && !is_written
        && uses == 1
        && info.used_memory().len() == 1
        && !is_implicit(instruction, register)
}

fn is_implicit(instruction: &Instruction, register: Register) -> bool {
    // What the instruction uses without its memory operand.
    let mut without = *instruction;
    without.set_memory_base(Register::None);
    without.set_memory_index(Register::None);
    let mut factory = InstructionInfoFactory::new();
    factory
        .info(&without)
        .used_registers()
        .iter()
        .any(|one| one.register().full_register() == register)
}

fn with(parts: &Parts<'_>, start: u64, borrowed: Option<Register>) -> Encoded<Stub> {
    let (site, instruction) = (parts.site, parts.instruction);
    let mut code = Assembler::new(start);
    let mut copies = Vec::new();
    let next = site.pc + u64::from(site.length);
    let behind = parts.displaced.last().map_or(next, Instruction::next_ip);
    code.bytes(&site.pc.to_le_bytes());
    let mut inner = 0;
    let on = parts.on.unwrap_or(behind);
    // Where a jump leads to: the first byte behind the literal. Most executions have nothing to do
    // with the files, and go on at once. No flag may change on the way.
    let rcx = Register::RCX;
    let is_counted = site.what == what::LOCKED && site.id != 0;
    if is_counted || parts.guarded {
        code.save(offset_of!(Block, spill2), rcx)?;
        if is_counted {
            code.count(site.id)?;
            code.load(rcx, offset_of!(Block, pending))?;
        }
        if parts.guarded {
            code.guard(site, instruction, is_counted)?;
        }
        // Over the load, of nine bytes, and the jump behind it.
        code.put(&Instruction::with_branch(Code::Jrcxz_rel8_64, code.at + 2 + 9 + 2)?)?;
        code.load(rcx, offset_of!(Block, spill2))?;
        let jump_at = code.at;
        code.bytes(&[0xeb, 0]);
        code.load(rcx, offset_of!(Block, spill2))?;
        inner = code.at;
        copies.push(Copied { at: inner, origin: site.pc, rest: parts.displaced.to_vec(), on });
        code.moved(std::slice::from_ref(instruction))?;
        code.go_on(parts.displaced, on, &mut copies)?;
        code.lead_here(jump_at)?;
    }
    code.call_runtime(offset_of!(Block, enter), start)?;
    let run = code.at;
    if let Some(borrowed) = borrowed {
        code.save(offset_of!(Block, spill), borrowed)?;
        code.load(borrowed, offset_of!(Block, target))?;
        code.put(&with_address(instruction, borrowed))?;
        code.load(borrowed, offset_of!(Block, spill))?;
    } else {
        code.moved(&[with_plain_pointers(instruction)])?;
    }
    let is_string = is_string(site);
    if is_string
        || site.writes != 0 && matches!(site.what, what::ACCESS | what::NON_TEMPORAL | what::LOCKED)
    {
        code.call_runtime(offset_of!(Block, leave), start)?;
    }
    if is_string {
        code.put(&Instruction::with1(Code::Jmp_rm64, own(offset_of!(Block, target)))?)?;
    }
    let after = code.at;
    code.go_on(parts.displaced, on, &mut copies)?;
    let borrowed = borrowed.map_or(register::NONE, number);
    Ok(Stub { code: code.encoder.take_buffer(), run, after, inner, borrowed, copies })
}

// iced's errors cannot be made: that of an instruction that does not exist is as good.
fn iced_error() -> iced_x86::IcedError {
    Encoder::new(64).encode(&Instruction::default(), 0).expect_err("no instruction is not encoded")
}

/// The same instruction, with its address in a register.
fn with_address(instruction: &Instruction, borrowed: Register) -> Instruction {
    let mut copy = *instruction;
    copy.set_code(match instruction.code() {
        // Those that have their address in the instruction have no room for a register.
        Code::Mov_AL_moffs8 => Code::Mov_r8_rm8,
        Code::Mov_AX_moffs16 => Code::Mov_r16_rm16,
        Code::Mov_EAX_moffs32 => Code::Mov_r32_rm32,
        Code::Mov_RAX_moffs64 => Code::Mov_r64_rm64,
        Code::Mov_moffs8_AL => Code::Mov_rm8_r8,
        Code::Mov_moffs16_AX => Code::Mov_rm16_r16,
        Code::Mov_moffs32_EAX => Code::Mov_rm32_r32,
        Code::Mov_moffs64_RAX => Code::Mov_rm64_r64,
        code => code,
    });
    copy.set_memory_base(borrowed);
    copy.set_memory_index(Register::None);
    copy.set_memory_index_scale(1);
    copy.set_memory_displacement64(0);
    copy.set_memory_displ_size(0);
    copy.set_segment_prefix(Register::None);
    copy
}

// A string instruction whose pointers have 64 bits and no segment.
fn with_plain_pointers(instruction: &Instruction) -> Instruction {
    let mut copy = *instruction;
    for at in 0..instruction.op_count() {
        match instruction.op_kind(at) {
            OpKind::MemorySegESI => copy.set_op_kind(at, OpKind::MemorySegRSI),
            OpKind::MemoryESEDI => copy.set_op_kind(at, OpKind::MemoryESRDI),
            _ => {}
        }
    }
    if instruction.is_string_instruction() {
        copy.set_segment_prefix(Register::None);
    }
    copy
}

/// Bytes of a jump.
pub(super) const JUMP: usize = 5;
/// A breakpoint.
pub(super) const BREAKPOINT: u8 = 0xcc;

/// The bytes that replace an instruction with a jump to `target`, or none where that is too far.
pub(super) fn jump_bytes(at: u64, target: u64, length: usize) -> Option<Vec<u8>> {
    let distance = i32::try_from(target.wrapping_sub(at + 5) as i64).ok()?;
    let mut bytes = vec![0xe9];
    bytes.extend_from_slice(&distance.to_le_bytes());
    // Never reached.
    bytes.resize(length, BREAKPOINT);
    Some(bytes)
}

/// Where a jump to a stub that lies at `start` leads.
pub(super) const fn entry(start: u64) -> u64 {
    start + 8
}
