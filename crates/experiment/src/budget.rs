//! What a victim may be slowed down by, or how long it may take: the limit that a verdict is about.

use std::fmt;
use std::str::FromStr;

use crate::quantity::Quantity;
use crate::units::{Share, Span, serde_as_text};

/// A limit; reads and prints `2%`, `p99<5ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub enum Budget {
    /// The slowdown that is allowed: 5% is a factor of 1.05.
    Slowdown(Share),
    /// The longest that a quantity of single units of work may be, whatever it is alone.
    AtMost(Quantity, Span),
}

impl Budget {
    /// The largest figure that keeps to it: a factor of what it is alone, or ns.
    pub fn limit(&self) -> f64 {
        match self {
            Self::Slowdown(share) => 1.0 + share.0,
            Self::AtMost(_, time) => time.ns() as f64,
        }
    }

    /// Whether it limits the quantity itself, and not its ratio to the quantity alone.
    pub fn is_absolute(&self) -> bool {
        matches!(self, Self::AtMost(..))
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slowdown(share) => share.fmt(f),
            Self::AtMost(quantity, time) => f.pad(&format!("{quantity}<{time}")),
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((quantity, time)) = text.split_once('<') else {
            if text.contains('>') {
                return Err(format!(
                    "'{text}' has the wrong sign: write the longest time that is allowed, such as \
                     'p99<5ms'"
                ));
            }
            return match text.trim().parse::<Quantity>() {
                Ok(quantity) => {
                    Err(format!("'{text}' is a metric without a bound: write '{quantity}<5ms'"))
                }
                Err(_) => text.parse().map(Self::Slowdown).map_err(|error| error.to_string()),
            };
        };
        let quantity: Quantity =
            quantity.trim().parse().map_err(|why| format!("'{text}': {why}"))?;
        let time = time.strip_prefix('=').unwrap_or(time).trim();
        let time: Span = time.parse().map_err(|why| format!("'{text}': {why}"))?;
        if time.0.is_zero() {
            return Err(format!(
                "'{text}': the bound must be more than 0, such as '{quantity}<5ms'"
            ));
        }
        Ok(Self::AtMost(quantity, time))
    }
}

serde_as_text!(Budget);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Quantile;

    #[test]
    fn budgets_are_read_as_they_are_written() {
        for text in ["2%", "0.5%", "p99<5ms", "p99.9<310us", "mean<1.5s"] {
            assert_eq!(text.parse::<Budget>().unwrap().to_string(), text);
        }
        let bound = Budget::AtMost(Quantity::Quantile(Quantile::P99), Span::ms(5));
        for text in ["p99<5ms", "p99 < 5ms", " p99 <= 5 ms ", "p99<=5000us"] {
            assert_eq!(text.parse::<Budget>().unwrap(), bound, "{text}");
        }
        assert_eq!((bound.limit(), Budget::Slowdown(Share(0.5)).limit()), (5e6, 1.5));
        let json = serde_json::to_string(&bound).unwrap();
        assert_eq!((json.as_str(), serde_json::from_str(&json).unwrap()), ("\"p99<5ms\"", bound));
    }

    #[test]
    fn what_is_no_budget_is_refused_with_what_would_be() {
        for (text, said) in [
            ("p98<5ms", "'p98' is not a quantity"),
            ("p99<5", "'5' is not a duration"),
            ("p99<", "'' is not a duration"),
            ("<5ms", "'' is not a quantity"),
            ("p99<5%", "'5%' is not a duration"),
            ("p99<0ms", "more than 0, such as 'p99<5ms'"),
            ("p99>5ms", "the wrong sign"),
            ("p99", "write 'p99<5ms'"),
            ("5", "such as 5%"),
            ("p99<5ms<6ms", "'5ms<6ms' is not a duration"),
        ] {
            let refused = text.parse::<Budget>().unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
