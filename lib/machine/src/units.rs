//! Sizes as people write them: IEC, in and out (`64B`, `4KiB`, `1.5GiB`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes.
///
/// Reads `4096`, `4096B`, `4KiB`, `1.5MiB`; prints the largest unit that divides it
/// exactly, quarters with two decimals, and otherwise one decimal of the largest unit below it.
///
/// ```
/// use ringfence_machine::units::Bytes;
/// let size: Bytes = "4KiB".parse().unwrap();
/// assert_eq!(size.0, 4096);
/// assert_eq!(size.to_string(), "4KiB");
/// assert_eq!(Bytes(105 << 20).to_string(), "105MiB");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Bytes(pub u64);

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl Bytes {
    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in UNITS {
            let one = 1u64 << shift;
            if self.0 >= one && self.0.is_multiple_of(one) {
                return f.pad(&format!("{}{unit}", self.0 >> shift));
            }
            // What no unit divides is rounded: 1536 bytes read best as 1.5KiB. Caches of 1.25MiB
            // are common.
            if self.0 > one && shift > 0 {
                let quarter = (self.0 % one * 4).is_multiple_of(one)
                    && !(self.0 % one * 2).is_multiple_of(one);
                let decimals = if quarter { 2 } else { 1 };
                return f.pad(&format!("{:.decimals$}{unit}", self.0 as f64 / one as f64));
            }
        }
        f.pad("0B")
    }
}

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size: write a number with B, KiB, MiB, GiB or TiB, such as \
         {example}", example = example(.0))]
pub struct ParseBytesError(String);

// What was probably meant: 4KiB by 4KB, 4K or 4k.
fn example(text: &str) -> String {
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = unit.trim().to_ascii_lowercase();
    let meant = UNITS.iter().map(|(name, _)| name).find(|name| {
        let letter = name[..1].to_ascii_lowercase();
        unit == letter || unit == format!("{letter}b") || unit == format!("{letter}i")
    });
    match meant {
        Some(name) if !number.is_empty() => format!("{number}{name}"),
        _ => "4KiB".into(),
    }
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseBytesError(text.to_string());
        let trimmed = text.trim();
        let digits =
            trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let unit = unit.trim_start();
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" => 0,
            wanted => {
                UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).ok_or_else(bad)?.1
            }
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(Bytes).ok_or_else(bad);
        }
        let value: f64 = number.parse().map_err(|_| bad())?;
        let bytes = value * (1u64 << shift) as f64;
        if bytes.fract() != 0.0 || bytes >= 2f64.powi(63) {
            return Err(bad());
        }
        Ok(Bytes(bytes as u64))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // What is printed rounded would not read back as the same size.
        let text = self.to_string();
        if text.contains('.') {
            serializer.serialize_str(&format!("{}B", self.0))
        } else {
            serializer.serialize_str(&text)
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a size such as 4KiB, or a number of bytes")]
        enum Raw {
            Number(u64),
            Text(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Number(bytes) => Ok(Bytes(bytes)),
            Raw::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for bytes in [0, 1, 64, 4096, 1 << 20, 105 << 20, 1 << 30, 3 << 40] {
            assert_eq!(Bytes(bytes).to_string().parse::<Bytes>().unwrap(), Bytes(bytes));
        }
        assert_eq!(Bytes(1536).to_string(), "1.5KiB");
        for (kib, text) in
            [(1280, "1.25MiB"), (2816, "2.75MiB"), (2560, "2.5MiB"), (1300, "1.3MiB")]
        {
            assert_eq!(Bytes::kib(kib).to_string(), text);
        }
        assert_eq!("1.5KiB".parse::<Bytes>().unwrap(), Bytes(1536));
    }

    #[test]
    fn refuses_what_is_no_size() {
        for text in ["", "KiB", "4 apples", "-1", "4KB", "1e3", "0.3B", "99999999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        for (text, meant) in [("4KB", "4KiB"), ("512m", "512MiB"), ("1Gi", "1GiB"), ("big", "4KiB")]
        {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("such as {meant}")), "{error}");
        }
    }
}
