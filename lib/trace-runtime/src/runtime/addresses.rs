//! Addresses: what an instruction accesses, and where a file's bytes are accessed in place of that.

use super::frame::Registers;
use super::sys;
use crate::layout::{ALIAS, Site};

/// The alias of an address.
pub const fn alias(address: u64) -> u64 {
    address ^ ALIAS
}

/// The address that an instruction accesses, without what lies in vectors.
pub fn address(site: &Site, registers: &Registers) -> u64 {
    let index = registers.of(site.index).wrapping_mul(u64::from(site.scale));
    let sum = registers.of(site.base).wrapping_add(index).wrapping_add(site.displacement);
    let sum = if site.narrow != 0 { sum & 0xffff_ffff } else { sum };
    match site.segment {
        0 => sum,
        segment => sum.wrapping_add(segment_base(segment)),
    }
}

/// Where a segment begins: 1 is `fs`, 2 is `gs`.
pub fn segment_base(segment: u8) -> u64 {
    // `gs` is ours, and 0 in the program's eyes.
    if segment == 2 { 0 } else { sys::fs_base() }
}
