//! The checksum of entries and records: XXH3 with 64 bits and a seed, as its specification fixes
//! it.
//!
//! It detects torn and left-over bytes, but not deliberately forged ones. It accepts unrelated
//! bytes with a probability of about 2^-64 (XXH3 passes the usual collision tests for 64 bits; the
//! figure is that of an ideal function, not a proof).

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// The checksum of `bytes` under `seed`.
#[inline]
pub fn of(bytes: &[u8], seed: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// The checksum of pieces, as if they were one after the other.
pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, seed: u64) -> u64 {
    let mut state = XxHash3_64::with_seed(seed);
    pieces.into_iter().for_each(|piece| state.write(piece));
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The format on the medium stands on these values: they are the reference implementation's
    // (xxHash 0.8, sanity vectors of XXH3_64bits for the empty input with seeds 0 and
    // 0x9E3779B185EBCA8D).
    #[test]
    fn it_is_xxh3() {
        assert_eq!(of(b"", 0), 0x2d06_8005_38d3_94c2);
        assert_eq!(of(b"", 0x9e37_79b1_85eb_ca8d), 0xa8a6_b918_b2f0_364a);
    }

    #[test]
    fn pieces_count_as_one() {
        let bytes: Vec<u8> = (0..3000u32).map(|i| (i * 7) as u8).collect();
        for (len, cut) in [(0, 0), (1, 0), (64, 40), (241, 1), (3000, 1024), (3000, 2999)] {
            let (one, other) = bytes[..len].split_at(cut);
            assert_eq!(of_pieces([one, other], 5), of(&bytes[..len], 5), "{len} cut at {cut}");
        }
    }
}
