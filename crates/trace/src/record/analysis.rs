//! Which instructions of a program file have to be seen although no access to a file's memory gives them away:
//! fences, locked instructions, and flushes where loads are not recorded. And where a jump may replace them.

use std::collections::HashSet;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpKind, Register,
};

use crate::code::{Image, ImageError, Operation};

/// An instruction that is to be replaced.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) instruction: Instruction,
    /// Instructions behind it that make room for a jump, if they are needed.
    pub(super) displaced: Vec<Instruction>,
    /// Whether there is room for a jump.
    pub(super) can_jump: bool,
    pub(super) bytes: Vec<u8>,
}

/// What is to be replaced in a program file.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    pub(super) candidates: Vec<Candidate>,
    /// Instructions that were left alone, since what they stand in may be data.
    pub(super) doubtful: u64,
    // Parts of the file as they are loaded: address, offset in the file, bytes.
    segments: Vec<(u64, u64, u64)>,
}

const JUMP: usize = 5;

impl Analysis {
    /// Of a file.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, ImageError> {
        let image = Image::parse(bytes)?;
        let segments = image.segments();
        if image.bits != 64 {
            return Ok(Self { segments, ..Self::default() });
        }
        let bodies = image.bodies();
        let targets = branch_targets(&image);
        let mut analysis = Self { segments, ..Self::default() };
        for section in &image.sections {
            let end = section.address + section.bytes.len() as u64;
            let first = bodies.partition_point(|body| body.start < section.address);
            let mut at = section.address;
            for body in bodies[first..].iter().take_while(|body| body.start < end) {
                if body.start < at {
                    continue;
                }
                analysis.doubtful += unconfirmed(slice(section, at, body.start), at);
                analysis.body(
                    slice(section, body.start, body.end.min(end)),
                    body.start,
                    body.lands,
                    &targets,
                );
                at = body.end.min(end);
            }
            analysis.doubtful += unconfirmed(slice(section, at, end), at);
        }
        Ok(analysis)
    }

    // A function: read from its first instruction to its last.
    fn body(&mut self, bytes: &[u8], start: u64, lands: bool, targets: &HashSet<u64>) {
        let all: Vec<Instruction> =
            Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter().collect();
        if all.iter().any(|one| one.code() == Code::INVALID) {
            self.doubtful += all.iter().filter(|one| is_wanted(one)).count() as u64;
            return;
        }
        let jumps_anywhere = all.iter().any(|one| one.flow_control() == FlowControl::IndirectBranch);
        for (number, one) in all.iter().enumerate().filter(|(_, one)| is_wanted(one)) {
            let mut displaced = Vec::new();
            let mut room = one.len();
            for next in &all[number + 1..] {
                if room >= JUMP
                    || lands
                    || jumps_anywhere
                    || targets.contains(&next.ip())
                    || !is_movable(next)
                {
                    break;
                }
                room += next.len();
                displaced.push(*next);
            }
            let can_jump = room >= JUMP;
            if !can_jump {
                displaced.clear();
            }
            let from = (one.ip() - start) as usize;
            let bytes = bytes[from..from + one.len()].to_vec();
            self.candidates.push(Candidate { instruction: *one, displaced, can_jump, bytes });
        }
    }

    /// The address in the file of what lies at an offset of it.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let holds = |(_, from, size): &&(u64, u64, u64)| (*from..from + size).contains(&offset);
        self.segments.iter().find(holds).map(|(address, from, _)| address + (offset - from))
    }

    /// The offset in the file of an address.
    pub(super) fn offset(&self, address: u64) -> Option<u64> {
        let holds = |(from, _, size): &&(u64, u64, u64)| (*from..from + size).contains(&address);
        self.segments.iter().find(holds).map(|(from, offset, _)| offset + (address - from))
    }
}

fn slice<'a>(section: &crate::code::Section<'a>, from: u64, to: u64) -> &'a [u8] {
    let at = |address: u64| (address.saturating_sub(section.address) as usize).min(section.bytes.len());
    &section.bytes[at(from)..at(to).max(at(from))]
}

/// Whether an instruction has to be seen.
fn is_wanted(instruction: &Instruction) -> bool {
    !matches!(Operation::of(instruction), None | Some(Operation::Lfence | Operation::NonTemporal))
}

// What looks like instructions outside of all functions.
fn unconfirmed(bytes: &[u8], start: u64) -> u64 {
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter().filter(is_wanted).count() as u64
}

// Where direct jumps and calls lead, in all of the file.
fn branch_targets(image: &Image) -> HashSet<u64> {
    let mut targets = HashSet::new();
    let mut instruction = Instruction::default();
    for section in &image.sections {
        let mut decoder = Decoder::with_ip(64, section.bytes, section.address, DecoderOptions::NONE);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if matches!(instruction.op0_kind(), OpKind::NearBranch64) {
                targets.insert(instruction.near_branch_target());
            }
        }
    }
    targets
}

// Whether it does the same elsewhere, and nobody sees from where it ran.
fn is_movable(instruction: &Instruction) -> bool {
    let plain = matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Return | FlowControl::UnconditionalBranch
    );
    plain
        && !is_wanted(instruction)
        && InstructionInfoFactory::new()
            .info(instruction)
            .used_registers()
            .iter()
            .all(|one| one.register() != Register::RIP)
}
