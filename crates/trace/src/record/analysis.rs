//! Which instructions of a program file have to be seen although no access to a file's memory gives them away:
//! fences, locked instructions, and flushes where loads are not recorded. And where a jump may replace them.

use std::collections::{BTreeMap, HashSet};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::stub::{JUMP, Jump};
use super::unwind::Unwinding;
use crate::code::{Body, Image, ImageError, Operation};

/// An instruction that is to be replaced.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) instruction: Instruction,
    /// Instructions behind it that make room for a jump, if they are needed.
    pub(super) displaced: Vec<Instruction>,
    /// The next such instruction, with whose stub this one's goes on.
    pub(super) chained: Option<u64>,
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
    pub(super) unwinding: Unwinding,
    bodies: Vec<Body>,
    targets: HashSet<u64>,
    // Parts of the file as they are loaded: address, offset in the file, bytes.
    segments: Vec<(u64, u64, u64)>,
}

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
        let unwinding = Unwinding::of(bytes);
        let mut analysis = Self { segments, unwinding, ..Self::default() };
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
        (analysis.bodies, analysis.targets) = (bodies, targets);
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
        // From the last to the first: one may go on with the stub of the next.
        let mut jumps = BTreeMap::new();
        for (number, one) in all.iter().enumerate().rev().filter(|(_, one)| is_wanted(one)) {
            let is_alone = jumps_anywhere || lands;
            let room = if is_alone { None } else { room(&all[number..], |at| targets.contains(&at), &jumps) };
            let can_jump = one.len() >= JUMP || room.is_some();
            let (displaced, chained) = room.unwrap_or_default();
            if can_jump {
                let jump = Jump { entry: one.ip(), displaced: Vec::new(), on: None, length: JUMP };
                jumps.insert(one.ip(), jump);
            }
            let from = (one.ip() - start) as usize;
            let bytes = bytes[from..from + one.len()].to_vec();
            self.candidates.push(Candidate { instruction: *one, displaced, chained, can_jump, bytes });
        }
    }

    /// The function that holds an address.
    pub(super) fn body_at(&self, address: u64) -> Option<Body> {
        let next = self.bodies.partition_point(|body| body.start <= address);
        self.bodies.get(next.checked_sub(1)?).filter(|body| address < body.end).copied()
    }

    /// The instructions behind the one at `pc` that make room for a jump, and where their stub goes on if not behind
    /// them. `code` is that of the function that the file has at `body`, and that lies at `start`.
    pub(super) fn displaced(
        &self,
        code: &[u8],
        body: Body,
        (start, pc): (u64, u64),
        jumps: &BTreeMap<u64, Jump>,
    ) -> Option<(Vec<Instruction>, Option<u64>)> {
        let all: Vec<Instruction> =
            Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter().collect();
        let number = all.iter().position(|one| one.ip() == pc).filter(|_| !body.lands)?;
        let shift = start.wrapping_sub(body.start);
        let is_plain = |one: &Instruction| {
            one.code() != Code::INVALID && one.flow_control() != FlowControl::IndirectBranch
        };
        all.iter()
            .all(is_plain)
            .then(|| room(&all[number..], |at| self.targets.contains(&at.wrapping_sub(shift)), jumps))?
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

// What stands behind the first instruction, until there is room for a jump. It may end in an instruction that was
// replaced by a jump itself, whose stub comes next then.
fn room(
    all: &[Instruction],
    is_target: impl Fn(u64) -> bool,
    jumps: &BTreeMap<u64, Jump>,
) -> Option<(Vec<Instruction>, Option<u64>)> {
    let (first, rest) = all.split_first()?;
    let (mut room, mut displaced) = (first.len(), Vec::new());
    let mut rest = rest.iter();
    while room < JUMP {
        let next = rest.next()?;
        if is_target(next.ip()) {
            return None;
        }
        if let Some(jump) = jumps.get(&next.ip()) {
            return (room + next.len() >= JUMP).then_some((displaced, Some(jump.entry)));
        }
        if !is_movable(next) {
            return None;
        }
        room += next.len();
        displaced.push(*next);
    }
    Some((displaced, None))
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
    plain && !is_wanted(instruction)
}
