//! A limit that stops an experiment once it is known on which side of it arms lie.

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::one_or_many::OneOrMany;
use crate::quantity::Quantity;
use crate::units::{Share, Span};

/// A limit, and the arms that are compared with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(extend("oneOf" = [{ "required": ["slowdown"] }, { "required": ["at_most"] }]))
)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// An arm, or several; for a slowdown, each with a baseline.
    pub arm: OneOrMany<String>,
    /// The largest slowdown that is allowed: 5% is a factor of 1.05.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Share>,
    /// In its place: the longest that the experiment's quantity may be in these arms, which the
    /// metric's task must count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Span>,
}

impl Decide {
    /// An arm with a budget, for the quantity that the experiment is about.
    pub fn of(arm: &str, budget: Budget) -> Self {
        let (slowdown, at_most) = match budget {
            Budget::Slowdown(share) => (Some(share), None),
            Budget::AtMost(_, time) => (None, Some(time)),
        };
        Self { arm: OneOrMany::One(arm.into()), slowdown, at_most }
    }

    /// Several arms, each compared with the budget separately.
    pub fn of_each(arms: &[String], budget: Budget) -> Self {
        match arms {
            [arm] => Self::of(arm, budget),
            _ => Self { arm: OneOrMany::Many(arms.to_vec()), ..Self::of("", budget) },
        }
    }

    /// The limit, of an experiment about this quantity; `None` where it names none, or two.
    pub fn budget(&self, quantity: Quantity) -> Option<Budget> {
        match (self.slowdown, self.at_most) {
            (Some(share), None) => Some(Budget::Slowdown(share)),
            (None, Some(time)) => Some(Budget::AtMost(quantity, time)),
            _ => None,
        }
    }
}
