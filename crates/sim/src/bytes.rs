//! Eight bytes at a time, as one number: what vector instructions would do, without asking for any.

/// A one in each byte.
pub const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
const LOW: u64 = !HIGH;

/// A hash of a line that is never zero.
#[inline]
pub fn hash(line: u32) -> u8 {
    ((line.wrapping_mul(0x9e37_79b9) >> 24) as u8).max(1)
}

/// The high bit of each byte that is zero. Bytes above the first such may be marked without being zero, too.
#[inline]
pub fn maybe_zero(bytes: u64) -> u64 {
    bytes.wrapping_sub(ONES) & !bytes & HIGH
}

/// A bit for each byte that is zero.
#[inline]
pub fn zero(bytes: u64) -> u32 {
    let high = !(((bytes & LOW) + LOW) | bytes | LOW);
    // Each high bit comes to stand at the place of its byte, and no two sums meet.
    ((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

/// A one in each byte whose bit is set.
#[inline]
pub fn spread(bits: u32) -> u64 {
    let apart = (u64::from(bits & 0xff).wrapping_mul(ONES)) & 0x8040_2010_0804_0201;
    ((((apart & LOW) + LOW) | apart) & HIGH) >> 7
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_and_bytes_agree(bytes in prop::array::uniform8(prop_oneof![Just(0_u8), any::<u8>()]), bits in 0_u32..256) {
            let number = u64::from_le_bytes(bytes);
            let zeros: u32 = (0..8).filter(|place| bytes[*place] == 0).map(|place| 1 << place).sum();
            prop_assert_eq!(zero(number), zeros);
            prop_assert_eq!(maybe_zero(number).trailing_zeros() / 8, zeros.trailing_zeros().min(8));
            let ones: [u8; 8] = std::array::from_fn(|place| (bits >> place & 1) as u8);
            prop_assert_eq!(spread(bits), u64::from_le_bytes(ones));
        }
    }
}
