//! What of a unit of work is compared: the mean time that it takes, or a quantile of its latencies.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::nearest;

/// A quantile of latencies that a figure can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Quantile {
    /// The median.
    P50,
    /// Nine in ten take at most this long.
    P90,
    /// 99 in 100 take at most this long.
    P99,
    /// 999 in 1000 take at most this long.
    #[serde(rename = "p99.9")]
    P999,
}

impl Quantile {
    /// All of them, ascending.
    pub const ALL: [Self; 4] = [Self::P50, Self::P90, Self::P99, Self::P999];

    /// The share of latencies that are at most as long.
    pub fn share(self) -> f64 {
        match self {
            Self::P50 => 0.5,
            Self::P90 => 0.9,
            Self::P99 => 0.99,
            Self::P999 => 0.999,
        }
    }

    /// The number of latencies of which one is longer.
    pub fn one_in(self) -> u64 {
        match self {
            Self::P50 => 2,
            Self::P90 => 10,
            Self::P99 => 100,
            Self::P999 => 1000,
        }
    }

    /// As in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
        }
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a figure is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("enum" = Self::NAMES)))]
#[serde(try_from = "String", into = "String")]
pub enum Quantity {
    /// All time over all units.
    #[default]
    Mean,
    /// A quantile of the latencies of single units, which the task must count.
    Quantile(Quantile),
}

impl Quantity {
    /// Their names, the default first.
    pub const NAMES: [&str; 5] = ["mean", "p50", "p90", "p99", "p99.9"];

    /// As in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Quantile(quantile) => quantile.name(),
        }
    }

    /// The quantile, where it is one.
    pub fn quantile(self) -> Option<Quantile> {
        match self {
            Self::Mean => None,
            Self::Quantile(quantile) => Some(quantile),
        }
    }

    /// A slowdown of it: `slowdown`, `p99 slowdown`.
    pub fn slowdown(self) -> &'static str {
        match self {
            Self::Mean => "slowdown",
            Self::Quantile(Quantile::P50) => "p50 slowdown",
            Self::Quantile(Quantile::P90) => "p90 slowdown",
            Self::Quantile(Quantile::P99) => "p99 slowdown",
            Self::Quantile(Quantile::P999) => "p99.9 slowdown",
        }
    }

    /// What follows a figure in ns, or heads a column of them: `per commit`, `p99 per commit`; the
    /// unit is in the singular.
    pub fn per(self, unit: &str) -> String {
        match self {
            Self::Mean => format!("per {unit}"),
            Self::Quantile(quantile) => format!("{quantile} per {unit}"),
        }
    }

    /// Whether it is the default quantity.
    pub fn is_mean(&self) -> bool {
        *self == Self::Mean
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mean" {
            return Ok(Self::Mean);
        }
        let known = Quantile::ALL.into_iter().find(|quantile| quantile.name() == text);
        known.map(Self::Quantile).ok_or_else(|| {
            let near = nearest::nearest(text, &Self::NAMES);
            let near = near.map_or(String::new(), |near| format!(" (did you mean '{near}'?)"));
            format!(
                "'{text}' is not a quantity{near}; the quantities are: {}",
                Self::NAMES.join(", ")
            )
        })
    }
}

impl TryFrom<String> for Quantity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.name().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in Quantity::NAMES {
            assert_eq!(name.parse::<Quantity>().unwrap().name(), name);
        }
        let refused = "p999".parse::<Quantity>().unwrap_err();
        assert!(
            refused.contains("'p999' is not a quantity") && refused.contains("p99.9"),
            "{refused}"
        );
        for quantile in Quantile::ALL {
            assert!(
                (quantile.one_in() as f64 * (1.0 - quantile.share()) - 1.0).abs() < 1e-9,
                "{quantile}"
            );
        }
    }
}
