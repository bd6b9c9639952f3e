//! Reasons in a form that every text can use.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// Why something is so: a clause to follow "because", without a capital at its start and without a
/// full stop at its end. So a text can go on after it, and can join several with "and".
///
/// It is stored as its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Reason(String);

impl Reason {
    /// The clause.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for Reason {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Reason {
    fn from(clause: String) -> Self {
        Self(clause)
    }
}

impl From<&str> for Reason {
    fn from(clause: &str) -> Self {
        Self(clause.to_owned())
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.0
    }
}

impl PartialEq<str> for Reason {
    fn eq(&self, clause: &str) -> bool {
        self.0 == clause
    }
}

impl PartialEq<&str> for Reason {
    fn eq(&self, clause: &&str) -> bool {
        self.0 == *clause
    }
}
