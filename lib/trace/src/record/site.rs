//! What an instruction does to memory, in the words of the runtime.

use iced_x86::{
    Code, Instruction, InstructionInfo, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess,
    OpKind, Register,
};
use ringfence_persist::Flush;
use ringfence_trace_runtime::layout::{Site, condition, how, register, what};

use crate::code::Operation;

/// A site without a stub.
pub(super) fn describe(instruction: &Instruction, info: &InstructionInfo) -> Site {
    let (mut reads, mut writes, mut size) = (false, false, 0);
    for memory in info.used_memory() {
        size = size.max(bytes(memory.memory_size()));
        match memory.access() {
            OpAccess::Read | OpAccess::CondRead => reads = true,
            OpAccess::Write | OpAccess::CondWrite => writes = true,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (reads, writes) = (true, true),
            OpAccess::None | OpAccess::NoMemAccess => {}
        }
    }
    let mut site = Site {
        pc: instruction.ip(),
        run: 0,
        after: 0,
        inner: 0,
        displacement: 0,
        immediate: 0,
        id: 0,
        hits: 0,
        size,
        length: instruction.len() as u8,
        what: what_of(instruction),
        how: how::STUB,
        condition: condition::NONE,
        reads: reads.into(),
        writes: writes.into(),
        base: register::NONE,
        index: register::NONE,
        scale: 1,
        segment: 0,
        narrow: 0,
        operand: register::NONE,
        mask: 0,
        mask_is_vector: 0,
        element: 0,
        elements: 0,
        index_size: 0,
        repeat: 0,
        packed: 0,
        borrowed: register::NONE,
        patched: 0,
        may_change: 0,
        bytes: [0; 15],
    };
    if instruction.code() == Code::Movsxd_r16_rm16 {
        // Processors of AMD load four bytes for two.
        site.size = 4;
    }
    address(&mut site, instruction);
    special(&mut site, instruction);
    let explicit = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
    if site.how == how::STUB && !explicit && (reads || writes) {
        // A copy would access what the program's does.
        site.how = how::NOT;
    }
    site
}

fn what_of(instruction: &Instruction) -> u8 {
    match Operation::of(instruction) {
        Some(Operation::Flush(Flush::Clflush)) => what::CLFLUSH,
        Some(Operation::Flush(Flush::Clflushopt)) => what::CLFLUSHOPT,
        Some(Operation::Flush(Flush::Clwb)) => what::CLWB,
        Some(Operation::Sfence) => what::SFENCE,
        Some(Operation::Mfence) => what::MFENCE,
        Some(Operation::NonTemporal) => what::NON_TEMPORAL,
        Some(Operation::Locked) => what::LOCKED,
        Some(Operation::Lfence) | None => what::ACCESS,
    }
}

fn bytes(size: MemorySize) -> u32 {
    match size {
        // Of those without a size, the processor knows it.
        MemorySize::Xsave | MemorySize::Xsave64 => std::arch::x86_64::__cpuid_count(0xd, 0).ebx,
        MemorySize::Fxsave_512Byte | MemorySize::Fxsave64_512Byte => 512,
        _ => size.size() as u32,
    }
}

/// The number of a general register in the runtime's order.
pub(super) fn number(register: Register) -> u8 {
    match register.full_register() {
        Register::R8 => 0,
        Register::R9 => 1,
        Register::R10 => 2,
        Register::R11 => 3,
        Register::R12 => 4,
        Register::R13 => 5,
        Register::R14 => 6,
        Register::R15 => 7,
        Register::RDI => 8,
        Register::RSI => 9,
        Register::RBP => 10,
        Register::RBX => 11,
        Register::RDX => 12,
        Register::RAX => 13,
        Register::RCX => 14,
        Register::RSP => 15,
        _ => register::NONE,
    }
}

fn address(site: &mut Site, instruction: &Instruction) {
    site.segment = match instruction.memory_segment() {
        Register::FS => 1,
        Register::GS => 2,
        _ => 0,
    };
    if instruction.is_ip_rel_memory_operand() {
        site.displacement = instruction.ip_rel_memory_address();
        return;
    }
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    site.displacement = instruction.memory_displacement64();
    site.narrow = u8::from(
        [base, index].iter().any(|one| one.is_gpr32())
            || instruction.memory_displ_size() == 4
                && base == Register::None
                && index == Register::None,
    );
    site.base = number(base);
    if index.is_gpr() {
        site.index = number(index);
        site.scale = instruction.memory_index_scale() as u8;
    }
}

// What a copy with another address is not enough for.
fn special(site: &mut Site, instruction: &Instruction) {
    use Mnemonic as M;
    if let Some(kind) = string_kind(instruction) {
        return string(site, instruction, kind);
    }
    let memory = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
    let element = site.size as u8;
    match instruction.mnemonic() {
        M::Clflush | M::Clflushopt | M::Clwb | M::Sfence | M::Mfence => {
            (site.reads, site.writes) = (0, 0);
        }
        M::Cldemote
        | M::Prefetch
        | M::Prefetchnta
        | M::Prefetcht0
        | M::Prefetcht1
        | M::Prefetcht2
        | M::Prefetchw => {
            site.what = what::NOTHING;
        }
        M::Enter if instruction.code() == Code::Enterq_imm16_imm8 => {
            (site.element, site.how) = (8, how::ENTER);
            (site.immediate, site.operand) =
                (instruction.immediate(0), instruction.immediate8_2nd() & 31);
        }
        M::Movsd | M::Cmpsd => masked(site, instruction, memory),
        M::Push => push(site, instruction, memory),
        M::Pop => pop(site, instruction, memory),
        M::Pushfq | M::Pushf => (site.element, site.how) = (element, how::PUSH_FLAGS),
        M::Popfq | M::Popf => (site.element, site.how) = (element, how::POP_FLAGS),
        M::Call => call(site, instruction),
        M::Jmp if instruction.code() == Code::Jmp_rm64 => site.how = how::JUMP_MEMORY,
        M::Jmp => site.how = how::NOT,
        M::Ret if matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) => {
            (site.element, site.how) = (8, how::RETURN);
            if instruction.op_count() > 0 {
                site.immediate = instruction.immediate(0);
            }
        }
        M::Leave => (site.element, site.how) = (element, how::LEAVE),
        M::Xlatb => (site.how, site.index) = (how::XLAT, register::NONE),
        M::Bt | M::Bts | M::Btr | M::Btc
            if memory && instruction.op1_kind() == OpKind::Register =>
        {
            site.how = how::BIT;
            site.operand = number(instruction.op1_register());
        }
        M::Cmpxchg | M::Cmpxchg8b | M::Cmpxchg16b => site.condition = condition::EXCHANGED,
        M::Maskmovdqu | M::Vmaskmovdqu => masked_move(site, instruction, 16),
        M::Maskmovq => masked_move(site, instruction, 8),
        // Ours lies in `gs`.
        M::Lgs => site.how = how::NOT,
        M::Mov if instruction.op0_register() == Register::GS => site.how = how::NOT,
        M::Movdir64b
        | M::Enqcmd
        | M::Enqcmds
        | M::Clzero
        | M::Monitor
        | M::Monitorx
        | M::Umonitor
        | M::Tileloadd
        | M::Tileloaddt1
        | M::Tilestored => site.how = how::NOT,
        _ if instruction.is_vsib() => gather(site, instruction),
        _ => masked(site, instruction, memory),
    }
}

fn push(site: &mut Site, instruction: &Instruction, memory: bool) {
    site.element = site.size as u8;
    if memory {
        site.how = how::PUSH_MEMORY;
        return;
    }
    site.how = how::PUSH;
    site.operand = number(instruction.op0_register());
    if instruction.op0_kind() != OpKind::Register {
        site.immediate = instruction.immediate(0);
    } else if site.operand == register::NONE {
        site.how = how::PUSH_SEGMENT;
        site.operand = if instruction.op0_register() == Register::FS { 1 } else { 2 };
    }
}

fn pop(site: &mut Site, instruction: &Instruction, memory: bool) {
    site.element = site.size as u8;
    site.operand = number(instruction.op0_register());
    site.how = match (memory, site.operand) {
        (true, _) => how::POP_MEMORY,
        (false, register::NONE) => how::NOT,
        _ => how::POP,
    };
}

fn call(site: &mut Site, instruction: &Instruction) {
    (site.element, site.size) = (8, 8);
    match instruction.op0_kind() {
        OpKind::NearBranch64 => {
            (site.how, site.immediate) = (how::CALL, instruction.near_branch64())
        }
        OpKind::Register => {
            (site.how, site.operand) = (how::CALL_REGISTER, number(instruction.op0_register()))
        }
        OpKind::Memory if instruction.code() == Code::Call_rm64 => site.how = how::CALL_MEMORY,
        _ => site.how = how::NOT,
    }
}

// Of bytes under a mask in a vector, to where `rdi` points.
fn masked_move(site: &mut Site, instruction: &Instruction, elements: u8) {
    (site.how, site.base, site.mask_is_vector) = (how::MASKED_MOVE, number(Register::RDI), 1);
    site.narrow = (instruction.op0_kind() == OpKind::MemorySegEDI).into();
    site.operand = instruction.op1_register().number() as u8;
    site.mask = instruction.op2_register().number() as u8;
    (site.element, site.elements, site.reads, site.writes) = (1, elements, 0, 1);
}

fn string_kind(instruction: &Instruction) -> Option<u8> {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Movsb | M::Movsw | M::Movsd | M::Movsq if instruction.is_string_instruction() => {
            Some(how::MOVS)
        }
        M::Stosb | M::Stosw | M::Stosd | M::Stosq => Some(how::STOS),
        M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => Some(how::LODS),
        M::Cmpsb | M::Cmpsw | M::Cmpsq => Some(how::CMPS),
        M::Cmpsd if instruction.is_string_instruction() => Some(how::CMPS),
        M::Scasb | M::Scasw | M::Scasd | M::Scasq => Some(how::SCAS),
        _ => None,
    }
}

fn string(site: &mut Site, instruction: &Instruction, kind: u8) {
    site.how = kind;
    site.element = instruction.memory_size().size() as u8;
    site.size = site.element.into();
    site.repeat = match (instruction.has_rep_prefix(), instruction.has_repne_prefix()) {
        (true, _) => 1,
        (_, true) => 2,
        _ => 0,
    };
    let kinds = [instruction.op0_kind(), instruction.op1_kind()];
    site.narrow =
        kinds.iter().any(|kind| matches!(kind, OpKind::MemoryESEDI | OpKind::MemorySegESI)).into();
    // Of the source alone; of `rdi` it cannot be another one.
    site.segment = match instruction.segment_prefix() {
        Register::FS => 1,
        Register::GS => 2,
        _ => 0,
    };
}

fn gather(site: &mut Site, instruction: &Instruction) {
    let size = instruction.memory_size().element_size().max(1);
    site.element = size as u8;
    site.scale = instruction.memory_index_scale() as u8;
    let index = instruction.memory_index();
    // The vector of indexes goes where nothing else of a gather is.
    site.immediate = index.number() as u64;
    let mnemonic = format!("{:?}", instruction.mnemonic());
    let is_gather = mnemonic.contains("gather");
    site.index_size = if instruction.is_vsib64() { 8 } else { 4 };
    let vector = if is_gather { instruction.op0_register() } else { instruction.op1_register() };
    site.operand = vector.number() as u8;
    let elements = (vector.size() / size).min(index.size() / usize::from(site.index_size));
    site.elements = elements as u8;
    site.size = size as u32;
    site.how = if is_gather { how::GATHER } else { how::SCATTER };
    (site.reads, site.writes) = (is_gather.into(), (!is_gather).into());
    if instruction.has_op_mask() {
        site.mask = instruction.op_mask().number() as u8;
    } else {
        (site.mask, site.mask_is_vector) = (instruction.op2_register().number() as u8, 1);
    }
    if mnemonic.contains("pf") {
        site.what = what::NOTHING;
    }
}

fn masked(site: &mut Site, instruction: &Instruction, memory: bool) {
    use Mnemonic as M;
    let by_vector = matches!(
        instruction.mnemonic(),
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq
    );
    if !memory || !(by_vector || instruction.has_op_mask()) || instruction.is_broadcast() {
        return;
    }
    let size = match instruction.memory_size().element_size() {
        0 => return,
        size => size,
    };
    // Scalars and those whose result is in a mask have one, too.
    site.how = how::MASKED;
    site.element = size as u8;
    site.elements = (site.size as usize / size) as u8;
    if by_vector {
        let which = instruction.op1_register();
        (site.mask, site.mask_is_vector) = (which.number() as u8, 1);
    } else {
        site.mask = instruction.op_mask().number() as u8;
    }
    let name = format!("{:?}", instruction.mnemonic());
    site.packed = u8::from(name.contains("compress") || name.contains("expand"));
}

/// Decodes one instruction, with what it uses.
pub(super) fn decode(
    bytes: &[u8],
    pc: u64,
    factory: &mut InstructionInfoFactory,
) -> (Instruction, Site) {
    let instruction =
        iced_x86::Decoder::with_ip(64, bytes, pc, iced_x86::DecoderOptions::NONE).decode();
    let site = describe(&instruction, factory.info(&instruction));
    (instruction, site)
}
