//! What is recorded of the sequences: the file after each of them, and each access that can be told
//! from the code.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use ringfence_trace::code::Operation;
use ringfence_trace::events::Action;
use ringfence_trace::recording::Reader;

use crate::addresses::{CODE, CONSTANTS, FS_BASE, HIGH, HIGH_SIZE, LOW, LOW_SIZE};
use crate::executor::{Became, FILE_SIZE};
use crate::maker::Sequence;

/// An access, as recorded or expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Access {
    pc: u64,
    kind: &'static str,
    offset: u64,
    size: u64,
}

impl Access {
    fn recorded(pc: u64, action: &Action) -> Self {
        let kind = match action {
            Action::Store { .. } => "store",
            Action::NonTemporal { .. } => "non-temporal",
            Action::Locked { stores: Some(_) } => "locked",
            Action::Load { .. } => "load",
            Action::Flush { .. } => "flush",
            Action::Sfence => "sfence",
            Action::Mfence => "mfence",
            // Also a locked instruction that stores to no file.
            _ => "other",
        };
        let size = match action {
            Action::Load { size, .. } => (*size).into(),
            action => action.stores().map_or(0, |(_, bytes)| bytes.len() as u64),
        };
        Self { pc, kind, offset: action.at().map_or(u64::MAX, |at| at.offset), size }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    words.fold(1, |sum, word| {
        let sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^ (sum >> 29)
    })
}

/// Where an address lies in the file.
fn offset(address: u64) -> Option<u64> {
    match address {
        LOW.. if address < LOW + LOW_SIZE => Some(address - LOW),
        HIGH.. if address < HIGH + HIGH_SIZE => Some(address - HIGH + LOW_SIZE),
        _ => None,
    }
}

/// Compares a recording with what the sequences did natively; `initial` is what the file held
/// before. Returns how many accesses were expected and seen.
pub fn check(
    reader: &Reader,
    sequences: &[Sequence],
    native: &[Became],
    loads: bool,
    patched: bool,
    initial: Vec<u8>,
) -> Result<usize, String> {
    let mut file = initial;
    assert_eq!(file.len() as u64, FILE_SIZE);
    let mut seen = Vec::new();
    let mut counted = 0;
    let mut running: Option<usize> = None;
    let end = |running: &mut Option<usize>,
               seen: &mut Vec<Access>,
               file: &[u8]|
     -> Result<usize, String> {
        let Some(number) = running.take() else { return Ok(0) };
        let (low, high) = file.split_at(LOW_SIZE as usize);
        let memory = [hash(low), hash(&high[..HIGH_SIZE as usize])];
        if memory != native[number].memory[..2] {
            return Err(format!(
                "the stores recorded of sequence {number} do not add up to what it stored: {seen:?}"
            ));
        }
        let found = std::mem::take(seen);
        if native[number].failed[0] != 0 {
            return Ok(0);
        }
        let Expected { accesses, all_of } =
            expected(&sequences[number], native[number].flags, loads, patched);
        let times = |one: &Access| found.iter().filter(|other| *other == one).count();
        let missing = accesses.iter().find(|one| times(one) != 1);
        let more = found
            .iter()
            .find(|one| all_of.contains(&one.pc) && one.kind != "other" && !accesses.contains(one));
        match missing.or(more) {
            Some(one) => Err(format!(
                "of sequence {number}, {:x?}: {one:x?} is missing or too much: {found:x?}",
                sequences[number]
            )),
            None => Ok(accesses.len()),
        }
    };
    for event in reader.events() {
        let event = event.map_err(|error| error.to_string())?;
        let pc = reader.site(event.site).map_or(0, |site| site.address);
        let stored = event.action.stores();
        if let Some((at, bytes)) = stored
            && at.offset == LOW_SIZE + HIGH_SIZE
            && pc < CODE
        {
            counted += end(&mut running, &mut seen, &file)?;
            running = Some(u64::from_le_bytes(bytes.try_into().expect("8 bytes")) as usize);
        } else if pc < CODE {
            counted += end(&mut running, &mut seen, &file)?;
        } else {
            seen.push(Access::recorded(pc, &event.action));
        }
        if let Some((at, bytes)) = stored {
            let from = at.offset as usize;
            file[from..from + bytes.len()].copy_from_slice(bytes);
        }
    }
    counted += end(&mut running, &mut seen, &file)?;
    Ok(counted)
}

/// How the jump begins that ends a sequence.
const END: [u8; 4] = [0x67, 0xff, 0x24, 0x25];
const ZERO: u64 = 0x40;

#[derive(Default)]
struct Expected {
    accesses: Vec<Access>,
    /// Instructions of which all stores are among them, and all loads where these are recorded.
    all_of: HashSet<u64>,
}

impl Expected {
    // A store under a mask: one for each run of elements, or one of all of them where they are
    // packed.
    fn masked(&mut self, one: &Instruction, at: u64, mask: u64) {
        let element = one.memory_size().element_size().max(1) as u64;
        let count = one.memory_size().size() as u64 / element;
        let mut access = |first: u64, size: u64| {
            let access = Access {
                pc: one.ip(),
                kind: "store",
                offset: at + first * element,
                size: size * element,
            };
            self.accesses.push(access);
        };
        let is_set = |bit: u64| bit < count && mask >> bit & 1 != 0;
        let mut bit = 0;
        if format!("{:?}", one.mnemonic()).contains("compress") {
            match (0..count).filter(|bit| is_set(*bit)).count() {
                0 => {}
                size => access(0, size as u64),
            }
            bit = count;
        }
        while bit < count {
            let run = (bit..).take_while(|bit| is_set(*bit)).count() as u64;
            if run > 0 {
                access(bit, run);
            }
            bit += run + 1;
        }
        self.all_of.insert(one.ip());
    }

    // One whose size and address are what they seem to be. `exchanged` says whether a compare and
    // exchange has stored, where that is known: of the last instruction, by the zero flag.
    fn simple(
        &mut self,
        one: &Instruction,
        at: u64,
        access: OpAccess,
        exchanged: Option<bool>,
        loads: bool,
    ) {
        let size = one.memory_size().size() as u64;
        let of = |kind| Access { pc: one.ip(), kind, offset: at, size };
        let kind = match Operation::of(one) {
            Some(Operation::NonTemporal) => "non-temporal",
            Some(Operation::Locked) => "locked",
            _ => "store",
        };
        let (reads, stores) = match access {
            OpAccess::Read => (true, false),
            OpAccess::Write => (false, true),
            OpAccess::ReadWrite => (true, true),
            OpAccess::ReadCondWrite => match exchanged {
                Some(exchanged) => (true, exchanged),
                None => return,
            },
            OpAccess::CondWrite | OpAccess::CondRead => return,
            OpAccess::None | OpAccess::NoMemAccess => (false, false),
        };
        self.all_of.insert(one.ip());
        if reads && loads {
            self.accesses.push(of("load"));
        }
        if stores {
            self.accesses.push(of(kind));
        }
    }
}

// The accesses of a sequence whose addresses are known from the values that it puts into registers.
fn expected(sequence: &Sequence, flags: u64, loads: bool, patched: bool) -> Expected {
    let mut factory = InstructionInfoFactory::new();
    let mut known = HashMap::<Register, u64>::new();
    let mut expected = Expected::default();
    let mut skips = false;
    let mut decoder = Decoder::with_ip(64, &sequence.code, sequence.at, DecoderOptions::NONE);
    while decoder.can_decode() {
        let one = decoder.decode();
        match one.code() {
            Code::Stc | Code::Clc => skips = one.code() == Code::Stc,
            // Over the next one.
            Code::Jb_rel8_64 if skips => {
                let _ = decoder.decode();
                continue;
            }
            _ => {}
        }
        let info = factory.info(&one);
        let value = |register: Register| match register {
            Register::FS => Some(FS_BASE),
            _ if register.is_segment_register() => Some(0),
            _ => {
                let full = known.get(&register.full_register())?;
                Some(if register.is_gpr32() { full & 0xffff_ffff } else { *full })
            }
        };
        let operand = (0..one.op_count()).find(|at| one.op_kind(*at) == OpKind::Memory);
        let address =
            operand.and_then(|at| one.virtual_address(at, 0, |register, _, _| value(register)));
        let operation = Operation::of(&one).filter(|_| patched);
        if let (Some(Operation::Flush(_)), Some(at)) = (operation, address.and_then(offset)) {
            expected.accesses.push(Access { pc: one.ip(), kind: "flush", offset: at, size: 0 });
        }
        if let Some(fence @ (Operation::Sfence | Operation::Mfence)) = operation {
            expected.accesses.push(Access {
                pc: one.ip(),
                kind: fence.name(),
                offset: u64::MAX,
                size: 0,
            });
        }
        let stores_masked = one.has_op_mask() && operand == Some(0) && !one.is_vsib();
        if let (true, false, Some(at), Some(mask)) =
            (stores_masked, loads, address.and_then(offset), known.get(&one.op_mask()))
        {
            expected.masked(&one, at, *mask);
        }
        let mut accesses = info.used_memory().iter().map(|one| one.access());
        let access = accesses.find(|access| *access != OpAccess::NoMemAccess);
        if let (true, Some(at), Some(access)) = (is_simple(&one), address.and_then(offset), access)
        {
            let rest = &sequence.code[decoder.position()..];
            let is_last = rest.is_empty() || rest.starts_with(&END);
            let exchanged = is_last.then_some(flags & ZERO != 0);
            expected.simple(&one, at, access, exchanged, loads);
        }
        for used in info.used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                known.remove(&used.register().full_register());
            }
        }
        known.extend(put_into_register(&one, &sequence.constants));
    }
    expected
}

// The register that an instruction puts a known value into, and that value.
fn put_into_register(one: &Instruction, constants: &[u8]) -> Option<(Register, u64)> {
    let from = one.memory_displacement64().wrapping_sub(CONSTANTS) as usize;
    let value = match one.code() {
        Code::Mov_r64_imm64 => one.immediate(1),
        Code::VEX_Kmovq_kr_km64 if one.memory_base() == Register::None => {
            let bytes = constants.get(from..from.saturating_add(8))?;
            u64::from_le_bytes(bytes.try_into().expect("eight of them"))
        }
        _ => return None,
    };
    Some((one.op0_register(), value))
}

// Whether its size and its address are what they seem to be, and it accesses all of that.
fn is_simple(one: &Instruction) -> bool {
    let by_register =
        matches!(one.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc);
    let other = matches!(
        one.mnemonic(),
        Mnemonic::Vmaskmovps
            | Mnemonic::Vmaskmovpd
            | Mnemonic::Vpmaskmovd
            | Mnemonic::Vpmaskmovq
            | Mnemonic::Push
            | Mnemonic::Pop
            | Mnemonic::Call
            | Mnemonic::Xlatb
    );
    let flush = matches!(Operation::of(one), Some(Operation::Flush(_)));
    !by_register
        && !other
        && !flush
        && !one.has_op_mask()
        && !one.is_vsib()
        && one.memory_size().size() > 0
}
