//! Capacity bitmasks: a bit is a way, or a share of the cache of equal size.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A capacity bitmask (CBM), written in hexadecimal without a prefix, as the kernel does.
///
/// ```
/// use ringfence_resctrl::Mask;
/// let mask: Mask = "f0".parse().unwrap();
/// assert_eq!((mask.count(), mask.is_contiguous()), (4, true));
/// assert_eq!(Mask::run(4, 4), mask);
/// assert!("".parse::<Mask>().is_err() && "0xf0".parse::<Mask>().is_err());
/// ```
#[doc(alias("CBM", "ways_mask"))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Mask(pub u64);

impl Mask {
    /// `bits` neighbouring bits, the lowest at `first`. Bits beyond 64 are left out.
    pub fn run(first: u32, bits: u32) -> Self {
        let ones = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        Self(ones.checked_shl(first).unwrap_or(0))
    }

    /// How many bits are set.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether no bit is set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether its bits are neighbours; the empty mask is not.
    pub fn is_contiguous(self) -> bool {
        self.0 != 0 && {
            let low = self.0 >> self.0.trailing_zeros();
            low & low.wrapping_add(1) == 0
        }
    }

    /// Bits in both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Bits in either.
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Bits of this one that are not in the other.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether a bit is set in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of its bits are in the other.
    pub fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({self})")
    }
}

/// Why a text is not a mask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a mask: write up to 16 hexadecimal digits without a prefix, such as f0")]
pub struct ParseMaskError(String);

impl FromStr for Mask {
    type Err = ParseMaskError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        value.map(Self).ok_or_else(|| ParseMaskError(text.chars().take(40).collect()))
    }
}

impl Serialize for Mask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours() {
        for (mask, expected) in
            [(0, false), (1, true), (0xf0, true), (5, false), (u64::MAX, true), (1 << 63, true)]
        {
            assert_eq!(Mask(mask).is_contiguous(), expected, "{mask:x}");
        }
        assert_eq!(Mask::run(0, 64), Mask(u64::MAX));
        assert_eq!(Mask::run(60, 8), Mask(0xf << 60));
        assert_eq!(Mask::run(64, 1), Mask(0));
    }

    #[test]
    fn texts() {
        for bad in ["", " f", "0x1", "g", "+1", "-1", "11111111111111111"] {
            assert!(bad.parse::<Mask>().is_err(), "{bad}");
        }
        assert_eq!("FfF".parse::<Mask>().unwrap().to_string(), "fff");
    }
}
