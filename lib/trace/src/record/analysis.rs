//! Which instructions of a program file have to be seen although no access to a file's memory gives
//! them away: fences, locked instructions, and flushes where loads are not recorded. And where a
//! jump may replace them.

use std::collections::{BTreeMap, HashSet};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::stub::{JUMP, Jump};
use super::unwind::Unwinding;
use crate::code::{Body, Image, ImageError, Operation};

/// An instruction to replace.
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

/// Instructions that may be there, and that are not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Unseen {
    pub(super) flushes: u64,
    /// `sfence` and `mfence`.
    pub(super) fences: u64,
    pub(super) locked: u64,
}

impl Unseen {
    fn add(&mut self, instruction: &Instruction) {
        match Operation::of(instruction) {
            Some(Operation::Flush(_)) => self.flushes += 1,
            Some(Operation::Locked) => self.locked += 1,
            _ => self.fences += 1,
        }
    }
}

/// The instructions to replace in a program file.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    pub(super) candidates: Vec<Candidate>,
    /// The parts that were not changed, because they may be data.
    pub(super) unseen: Unseen,
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
                analysis.gap(slice(section, at, body.start), at, &bodies);
                analysis.body(
                    slice(section, body.start, body.end.min(end)),
                    body.start,
                    body.lands,
                    &targets,
                );
                at = body.end.min(end);
            }
            analysis.gap(slice(section, at, end), at, &bodies);
        }
        (analysis.bodies, analysis.targets) = (bodies, targets);
        Ok(analysis)
    }

    // What neither symbols nor unwind tables name: code of files that have neither, or data between
    // functions. It is code if all of it decodes. Data seldom does, and next to never with one of
    // the few encodings of a flush or fence in it. A lock prefix is one byte, which data have more
    // often, so locked instructions also want a call that leads to code.
    fn gap(&mut self, bytes: &[u8], start: u64, bodies: &[Body]) {
        let all = decoded(bytes, start);
        if !all.iter().any(is_wanted) {
            return;
        }
        let is_valid = all.iter().all(|one| one.code() != Code::INVALID);
        let leads_to_code = |one: &Instruction| {
            let to = one.near_branch_target();
            one.flow_control() == FlowControl::Call
                && (body_at(bodies, to).is_some()
                    || all.binary_search_by_key(&to, Instruction::ip).is_ok())
        };
        let calls = is_valid && all.iter().any(leads_to_code);
        for one in all.iter().filter(|one| is_wanted(one)) {
            if !is_valid || is_locked(one) && !calls {
                self.unseen.add(one);
                continue;
            }
            // Where functions begin is not known, so nothing behind it can make room.
            self.candidate(bytes, start, one, (Vec::new(), None), one.len() >= JUMP);
        }
    }

    fn candidate(
        &mut self,
        code: &[u8],
        start: u64,
        instruction: &Instruction,
        (displaced, chained): (Vec<Instruction>, Option<u64>),
        can_jump: bool,
    ) {
        let from = (instruction.ip() - start) as usize;
        let bytes = code[from..from + instruction.len()].to_vec();
        self.candidates.push(Candidate {
            instruction: *instruction,
            displaced,
            chained,
            can_jump,
            bytes,
        });
    }

    // A function: read from its first instruction to its last.
    fn body(&mut self, bytes: &[u8], start: u64, lands: bool, targets: &HashSet<u64>) {
        let all = decoded(bytes, start);
        if all.iter().any(|one| one.code() == Code::INVALID) {
            all.iter().filter(|one| is_wanted(one)).for_each(|one| self.unseen.add(one));
            return;
        }
        let jumps_anywhere =
            all.iter().any(|one| one.flow_control() == FlowControl::IndirectBranch);
        // From the last to the first: one may go on with the stub of the next.
        let mut jumps = BTreeMap::new();
        for (number, one) in all.iter().enumerate().rev().filter(|(_, one)| is_wanted(one)) {
            let is_alone = jumps_anywhere || lands;
            let room = if is_alone {
                None
            } else {
                room(&all[number..], |at| targets.contains(&at), &jumps)
            };
            let can_jump = one.len() >= JUMP || room.is_some();
            if can_jump {
                let jump = Jump { entry: one.ip(), displaced: Vec::new(), on: None, length: JUMP };
                jumps.insert(one.ip(), jump);
            }
            self.candidate(bytes, start, one, room.unwrap_or_default(), can_jump);
        }
    }

    /// The function that holds an address.
    pub(super) fn body_at(&self, address: u64) -> Option<Body> {
        body_at(&self.bodies, address)
    }

    /// The instructions behind the one at `pc` that make room for a jump, and where their stub goes
    /// on if not behind them. `code` is that of the function that the file has at `body`, and that
    /// lies at `start`.
    pub(super) fn displaced(
        &self,
        code: &[u8],
        body: Body,
        (start, pc): (u64, u64),
        jumps: &BTreeMap<u64, Jump>,
    ) -> Option<(Vec<Instruction>, Option<u64>)> {
        let all = decoded(code, start);
        let number = all.iter().position(|one| one.ip() == pc).filter(|_| !body.lands)?;
        let shift = start.wrapping_sub(body.start);
        let is_plain = |one: &Instruction| {
            one.code() != Code::INVALID && one.flow_control() != FlowControl::IndirectBranch
        };
        all.iter().all(is_plain).then(|| {
            room(&all[number..], |at| self.targets.contains(&at.wrapping_sub(shift)), jumps)
        })?
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

// What stands behind the first instruction, until there is room for a jump. It may end in an
// instruction that was replaced by a jump itself, whose stub comes next then.
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
    let at =
        |address: u64| (address.saturating_sub(section.address) as usize).min(section.bytes.len());
    &section.bytes[at(from)..at(to).max(at(from))]
}

/// Whether an instruction has to be seen.
fn is_wanted(instruction: &Instruction) -> bool {
    !matches!(Operation::of(instruction), None | Some(Operation::Lfence | Operation::NonTemporal))
}

fn is_locked(instruction: &Instruction) -> bool {
    matches!(Operation::of(instruction), Some(Operation::Locked))
}

fn decoded(bytes: &[u8], start: u64) -> Vec<Instruction> {
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter().collect()
}

fn body_at(bodies: &[Body], address: u64) -> Option<Body> {
    let next = bodies.partition_point(|body| body.start <= address);
    bodies.get(next.checked_sub(1)?).filter(|body| address < body.end).copied()
}

// Where direct jumps and calls lead, in all of the file.
fn branch_targets(image: &Image) -> HashSet<u64> {
    let mut targets = HashSet::new();
    let mut instruction = Instruction::default();
    for section in &image.sections {
        let mut decoder =
            Decoder::with_ip(64, section.bytes, section.address, DecoderOptions::NONE);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if matches!(instruction.op0_kind(), OpKind::NearBranch64) {
                targets.insert(instruction.near_branch_target());
            }
        }
    }
    targets
}

// Whether it does the same elsewhere, and nothing can tell where it ran from.
fn is_movable(instruction: &Instruction) -> bool {
    let plain = matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Return | FlowControl::UnconditionalBranch
    );
    plain && !is_wanted(instruction)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SFENCE: [u8; 3] = [0x0f, 0xae, 0xf8];
    // `lock inc dword [rax]`.
    const LOCKED: [u8; 3] = [0xf0, 0xff, 0x00];
    // `call`, to where it stands.
    const CALL: [u8; 5] = [0xe8, 0xfb, 0xff, 0xff, 0xff];
    // No 64-bit instruction.
    const DATA: [u8; 1] = [0x06];

    fn gap(parts: &[&[u8]]) -> (usize, Unseen) {
        let mut analysis = Analysis::default();
        analysis.gap(&parts.concat(), 0x1000, &[]);
        assert!(analysis.candidates.iter().all(|one| one.displaced.is_empty() && !one.can_jump));
        (analysis.candidates.len(), analysis.unseen)
    }

    #[test]
    fn what_has_no_name_is_code_if_all_of_it_decodes() {
        let none = Unseen::default();
        assert_eq!(gap(&[]), (0, none));
        assert_eq!(gap(&[&SFENCE, &SFENCE]), (2, none));
        assert_eq!(gap(&[&SFENCE, &LOCKED, &CALL]), (2, none));
        // Without a call, a lock prefix may be any byte.
        assert_eq!(gap(&[&SFENCE, &LOCKED]), (1, Unseen { locked: 1, ..none }));
        let all = [&SFENCE[..], &[0x0f, 0xae, 0x3f], &LOCKED, &CALL, &DATA];
        assert_eq!(gap(&all), (0, Unseen { flushes: 1, fences: 1, locked: 1 }));
        assert_eq!(gap(&[&CALL, &DATA]), (0, none));
    }
}
