//! Which functions name functions that make something durable.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

use crate::code::Image;

/// Where the function begins that an address lies in.
pub fn around(bodies: &BTreeMap<u64, u64>, address: u64) -> Option<u64> {
    let (start, end) = bodies.range(..=address).next_back()?;
    (address < *end).then_some(*start)
}

/// The functions whose code has the address of one of these, or that of a pointer to one, other
/// than to call it.
///
/// Every byte may begin an address: what only looks like one is found out by the reader of the
/// code.
pub fn choosers(
    image: &Image,
    bodies: &BTreeMap<u64, u64>,
    functions: &BTreeSet<u64>,
    pointers: &BTreeMap<u64, u64>,
) -> BTreeSet<u64> {
    let to_these = pointers.iter().filter(|(_, target)| functions.contains(*target));
    let wanted: FxHashSet<u64> =
        functions.iter().chain(to_these.map(|(place, _)| place)).copied().collect();
    let (Some(first), Some(last)) = (wanted.iter().min(), wanted.iter().max()) else {
        return BTreeSet::new();
    };
    let is_wanted = |address: u64| (*first..=*last).contains(&address) && wanted.contains(&address);
    let mut found = BTreeSet::new();
    for section in &image.sections {
        for (offset, word) in section.bytes.windows(4).enumerate() {
            let number = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let here = section.address.wrapping_add(offset as u64);
            let is_relative = is_wanted(here.wrapping_add(4).wrapping_add_signed(number.into()));
            let is_absolute = image.is_fixed() && is_wanted((number as u32).into());
            if (is_relative && !is_call(&section.bytes[..offset])) || is_absolute {
                found.extend(around(bodies, here));
            }
        }
    }
    found
}

// Whether these bytes end with the opcode of a direct call or jump.
fn is_call(before: &[u8]) -> bool {
    match before {
        [.., 0xe8 | 0xe9] => true,
        [.., 0x0f, condition] => condition & 0xf0 == 0x80,
        _ => false,
    }
}
