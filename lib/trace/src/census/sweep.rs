//! Reading code, instruction by instruction.

use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::{Function, Site};
use crate::code::unfenced::{self, Known};
use crate::code::{self, Counts, Image, Operation, Piece};

// More code than this is divided among processors.
const WORTH_DIVIDING: u64 = 1 << 20;

struct Found {
    section: usize,
    offset: usize,
    operation: Operation,
}

/// What the code of an image has, by function.
pub fn sweep(image: &Image, threads: usize) -> (Counts, Vec<Function>) {
    let pieces = image.pieces();
    let threads = if image.code_bytes() < WORTH_DIVIDING { 1 } else { threads };
    let found: Vec<Found> = match threads {
        0 | 1 => read(image, &pieces),
        threads => std::thread::scope(|scope| {
            let parts: Vec<_> =
                shares(&pieces, threads).map(|share| scope.spawn(|| read(image, share))).collect();
            // A thread that panicked has found a bug of ours: so does this one, then.
            parts
                .into_iter()
                .flat_map(|part| part.join().expect("reading code does not panic"))
                .collect()
        }),
    };
    by_function(image, &found)
}

// About the same number of bytes each.
fn shares(pieces: &[Piece], threads: usize) -> impl Iterator<Item = &[Piece]> {
    let bytes: usize = pieces.iter().map(|piece| piece.end - piece.start).sum();
    let share = bytes.div_ceil(threads).max(1);
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let mut taken = 0;
        let full = |piece: &Piece| {
            taken += piece.end - piece.start;
            taken >= share
        };
        let count = rest.iter().position(full).map_or(rest.len(), |last| last + 1);
        let (first, others) = rest.split_at(count);
        rest = others;
        (!first.is_empty()).then_some(first)
    })
}

fn read(image: &Image, pieces: &[Piece]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut instruction = Instruction::default();
    for piece in pieces {
        let bytes = &image.sections[piece.section].bytes[piece.start..piece.end];
        // As objdump reads: what a processor refuses has its length, too.
        let options = DecoderOptions::MPX | DecoderOptions::NO_INVALID_CHECK;
        let mut decoder = Decoder::new(image.bits, bytes, options);
        while decoder.can_decode() {
            let at = decoder.position();
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                // As objdump goes on: behind the prefixes and one byte.
                let next = at + prefixes(&bytes[at..], image.bits) + 1;
                // It fails only beyond the end.
                let _ = decoder.set_position(next.min(bytes.len()));
            } else if let Some(operation) = Operation::of(&instruction) {
                let at = at + idle_rex(&bytes[at..at + instruction.len()], image.bits);
                found.push(Found { section: piece.section, offset: piece.start + at, operation });
            }
        }
    }
    found
}

// A REX prefix counts only directly before the opcode (Intel SDM volume 2A, section 2.2.1). One
// before another prefix does nothing, and objdump shows it as a line of its own.
fn idle_rex(instruction: &[u8], bits: u32) -> usize {
    let is_rex = |byte: u8| bits == 64 && (0x40..=0x4f).contains(&byte);
    let count = prefixes(instruction, bits);
    (1..count).rev().find(|at| is_rex(instruction[at - 1])).unwrap_or(0)
}

// How many bytes of prefixes there are.
fn prefixes(bytes: &[u8], bits: u32) -> usize {
    let is_prefix = |byte: &u8| match byte {
        0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3 => true,
        0x40..=0x4f => bits == 64,
        _ => false,
    };
    bytes.iter().take_while(|byte| is_prefix(byte)).count().min(bytes.len().saturating_sub(1))
}

fn by_function(image: &Image, found: &[Found]) -> (Counts, Vec<Function>) {
    let (mut total, mut all): (Counts, Vec<Function>) = (Counts::default(), Vec::new());
    if found.is_empty() {
        return (total, all);
    }
    let functions = image.functions();
    let has_stores = found.iter().any(|one| one.operation == Operation::NonTemporal);
    let known = if has_stores { known(image, &functions, found) } else { Known::default() };
    let (mut last, mut has_stores) = (None, false);
    for one in found {
        let section = &image.sections[one.section];
        let place = functions
            .at(one.section, one.offset)
            .map(|function| (function.section, function.offset));
        if all.is_empty() || last != Some(place) {
            let name = functions.at(one.section, one.offset).map_or_else(
                || format!("{} at {:#x}", section.name, section.address),
                |function| function.name(),
            );
            all.push(Function { name, counts: Counts::default(), unfenced: 0, sites: Vec::new() });
            (last, has_stores) = (Some(place), false);
        }
        let function = all.last_mut().expect("one is there");
        let address = section.address + one.offset as u64;
        function.sites.push(Site { address, operation: one.operation });
        if one.operation == Operation::NonTemporal && !has_stores {
            has_stores = true;
            let body = functions.at(one.section, one.offset);
            function.unfenced = body.map_or(0, |body| unfenced(image, body, &known));
        }
        function.counts.add(one.operation);
        total.add(one.operation);
    }
    (total, all)
}

// What the functions are that may complete the non-temporal stores of others.
fn known(image: &Image, functions: &code::Functions, found: &[Found]) -> Known {
    let fences = found.iter().filter(|one| one.operation.is_fence_of_stores());
    let address = |section: usize, offset: usize| image.sections[section].address + offset as u64;
    let begins = |one: &Found| {
        let function = functions.at(one.section, one.offset)?;
        Some(address(function.section, function.offset))
    };
    Known {
        functions: functions
            .iter()
            .map(|function| address(function.section, function.offset))
            .collect(),
        with_fence: fences.filter_map(begins).collect(),
        is_linked: image.is_linked(),
    }
}

fn unfenced(image: &Image, function: &code::Function, known: &Known) -> u64 {
    let section = &image.sections[function.section];
    let end = function.offset.saturating_add(function.size() as usize);
    let Some(bytes) = section.bytes.get(function.offset..end) else { return 0 };
    unfenced::unfenced(bytes, section.address + function.offset as u64, image.bits, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_of_it_in_order() {
        let pieces: Vec<Piece> =
            (0..10).map(|i| Piece { section: 0, start: i * 10, end: i * 10 + 10 }).collect();
        for threads in 1..15 {
            let all: Vec<&[Piece]> = shares(&pieces, threads).collect();
            assert!(all.len() <= threads, "{threads}");
            assert_eq!(all.concat(), pieces);
        }
        assert_eq!(shares(&[], 3).count(), 0);
    }

    #[test]
    fn prefixes_end_before_the_last_byte() {
        assert_eq!(prefixes(&[0xf0, 0x48, 0x90], 64), 2);
        assert_eq!(prefixes(&[0x48, 0x90], 32), 0);
        assert_eq!(prefixes(&[0xf0, 0xf0], 64), 1);
        assert_eq!(idle_rex(&[0x44, 0xf0, 0x48, 0x0f, 0xb1, 0x0a], 64), 1);
        assert_eq!(idle_rex(&[0xf0, 0x48, 0x0f, 0xb1, 0x0a], 64), 0);
    }
}
