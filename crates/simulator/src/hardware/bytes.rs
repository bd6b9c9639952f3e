//! Eight bytes at a time, as one number: what vector instructions would do, without asking for any.

/// A one in each byte.
pub const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// A hash of a line that is never zero.
#[inline]
pub fn hash(line: u32) -> u8 {
    ((line.wrapping_mul(0x9e37_79b9) >> 24) as u8).max(1)
}

/// The high bit of each byte that is zero. Bytes above the first such may be marked without being
/// zero, too.
#[inline]
pub fn maybe_zero(bytes: u64) -> u64 {
    bytes.wrapping_sub(ONES) & !bytes & HIGH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_zero_is_found(
            bytes in prop::array::uniform8(prop_oneof![Just(0_u8), any::<u8>()]),
        ) {
            let first = bytes.iter().position(|byte| *byte == 0).unwrap_or(8);
            let found = maybe_zero(u64::from_le_bytes(bytes)).trailing_zeros() / 8;
            prop_assert_eq!(found, first as u32);
        }
    }
}
