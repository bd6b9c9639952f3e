//! Durations, shares and rates as people write them: `20ms`, `0.5%`, `500MiB/s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ringfence_machine::units::Bytes;

/// Why a text is not such a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {what}, such as {example}")]
pub struct ParseUnitError {
    text: String,
    what: &'static str,
    // Of what was probably meant, where that can be told.
    example: String,
}

/// Serialises a quantity as its text, and reads it back from there.
macro_rules! serde_as_text {
    ($($type:ty),+) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}
pub(crate) use serde_as_text;

/// A length of time; reads and prints `300ns`, `5us`, `20ms`, `1.5s`, `2min`, `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Span(pub Duration);

const SPANS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];

impl Span {
    /// `n` milliseconds.
    pub const fn ms(n: u64) -> Self {
        Self(Duration::from_millis(n))
    }

    /// Nanoseconds.
    pub fn ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Span {
    /// The next longer one that a person would type: whole seconds, or tenths below ten seconds.
    pub fn rounded_up(self) -> Self {
        let step_ms = if self.0.as_secs() < 10 { 100 } else { 1000 };
        let steps = self.0.as_nanos().div_ceil(step_ms * 1_000_000);
        Self::ms((steps * step_ms) as u64)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos() as f64;
        let (unit, one) = match ns {
            n if n < 1e3 => SPANS[0],
            n if n < 1e6 => SPANS[1],
            n if n < 1e9 => SPANS[2],
            _ => SPANS[3],
        };
        f.pad(&format!("{}{unit}", ns / one))
    }
}

impl FromStr for Span {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let what = "a duration: write a number with ns, us, ms, s, min or h";
        let bad = || {
            let example = text.parse::<u32>().map_or("20ms".into(), |number| format!("{number}ms"));
            ParseUnitError { text: text.into(), what, example }
        };
        let (number, unit) = split_number(text);
        let one = SPANS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?.1;
        let ns = number.parse::<f64>().map_err(|_| bad())? * one;
        // A year is longer than any measurement.
        if !(0.0..3.2e16).contains(&ns) {
            return Err(bad());
        }
        Ok(Self(Duration::from_nanos(ns.round() as u64)))
    }
}

/// A share of a whole; reads and prints `0.5%`, holds 0.005.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Share(pub f64);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded at the twelfth digit: 0.07 * 100 is not 7 in binary.
        f.pad(&format!("{}%", (self.0 * 1e14).round() / 1e12))
    }
}

impl FromStr for Share {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let what = "a share: write a percentage between 0% and 100%";
        let bad = || {
            // 0.05 is a share in most other places.
            let number = text.parse::<f64>().ok();
            let number = number.map(|number| if number < 1.0 { number } else { number / 100.0 });
            let meant =
                number.filter(|number| *number > 0.0 && *number <= 1.0).map_or(Share(0.005), Share);
            ParseUnitError { text: text.into(), what, example: meant.to_string() }
        };
        let number = text.trim().strip_suffix('%').ok_or_else(bad)?;
        let percent = number.trim().parse::<f64>().map_err(|_| bad())?;
        if (0.0..=100.0).contains(&percent) { Ok(Self(percent / 100.0)) } else { Err(bad()) }
    }
}

/// Bytes per second; reads and prints `500MiB/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Rate(pub Bytes);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Exact, so that what is written reads back as the same rate.
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
        let (unit, shift) = units
            .into_iter()
            .find(|(_, shift)| self.0.0.is_multiple_of(1 << shift))
            .unwrap_or(("B", 0));
        f.pad(&format!("{}{unit}/s", self.0.0 >> shift))
    }
}

impl FromStr for Rate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let what = "a rate: write a size per second";
        let bad = || {
            let size = text.trim().parse::<Bytes>().ok().filter(|size| size.0 > 0).map(Rate);
            // Few mean bytes by a number alone.
            let example = match text.trim().parse::<u32>() {
                Ok(number @ 1..) => format!("{number}MiB/s"),
                _ => size.map_or("500MiB/s".into(), |rate| rate.to_string()),
            };
            ParseUnitError { text: text.into(), what, example }
        };
        let size = text.trim().strip_suffix("/s").ok_or_else(bad)?;
        match size.parse::<Bytes>() {
            Ok(bytes) if bytes.0 > 0 => Ok(Self(bytes)),
            _ => Err(bad()),
        }
    }
}

impl Rate {
    /// A whole number of MiB a second, to two digits: no user would set 1234567 B/s.
    pub fn rounded(bytes_per_s: f64) -> Self {
        let mib = bytes_per_s / f64::from(1 << 20);
        let step = 10f64.powf((mib.log10().floor() - 1.0).max(0.0));
        Self(Bytes::mib(((mib / step).round() * step).max(1.0) as u64))
    }
}

serde_as_text!(Span, Share, Rate);

fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_what_they_print() {
        for text in ["300ns", "5us", "20ms", "1.5s", "90s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("2min".parse::<Span>().unwrap().0.as_secs(), 120);
        assert_eq!("1.5h".parse::<Span>().unwrap().0.as_secs(), 5400);
        for text in ["0.5%", "7%", "100%", "0.07%"] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        for text in ["500MiB/s", "1200MiB/s", "1GiB/s", "1234567B/s"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "20", "ms", "-1s", "1d", "9999h", "1e9s", "99999999999min"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        for text in ["", "5", "101%", "-1%", "x%", "NaN%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        for text in ["", "5", "5MiB", "0MiB/s", "x/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_advised_is_what_was_probably_meant() {
        fn advised<T: FromStr<Err = ParseUnitError>>(text: &str) -> String {
            let error = text.parse::<T>().err().map(|error| error.to_string()).unwrap_or_default();
            error.rsplit_once("such as ").unwrap().1.to_string()
        }
        assert_eq!(advised::<Span>("20"), "20ms");
        assert_eq!(advised::<Span>("soon"), "20ms");
        for (text, meant) in
            [("5", "5%"), ("0.05", "5%"), ("x", "0.5%"), ("500", "0.5%"), ("0", "0.5%")]
        {
            assert_eq!(advised::<Share>(text), meant, "{text}");
        }
        assert_eq!(advised::<Rate>("5MiB"), "5MiB/s");
        assert_eq!(advised::<Rate>("50"), "50MiB/s");
        assert_eq!(advised::<Rate>("fast"), "500MiB/s");
    }

    #[test]
    fn rates_are_rounded_to_two_digits() {
        for (mib, text) in
            [(1234.0, "1200MiB/s"), (47.3, "47MiB/s"), (0.2, "1MiB/s"), (2048.0, "2000MiB/s")]
        {
            assert_eq!(Rate::rounded(mib * f64::from(1 << 20)).to_string(), text);
        }
    }
}
