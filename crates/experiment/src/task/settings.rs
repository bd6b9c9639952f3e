//! Parameters that override a task's own.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::axes::{Axes, QUOTA, WORKLOAD};
use crate::units::Share;

/// Parameters of a role's tasks that an arm overrides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "TaskSettings", with = "serde_json::Map<String, serde_json::Value>")
)]
#[serde(transparent)]
pub struct Settings(Table);

impl Settings {
    /// A share of a CPU's time, which any workload may be given.
    pub fn of_quota(share: Share) -> Self {
        Self([(QUOTA.to_owned(), Value::String(share.to_string()))].into_iter().collect())
    }

    /// The table as it is written in a file.
    pub fn written(&self) -> &Table {
        &self.0
    }

    /// The share of a CPU's time, if one is set.
    pub fn quota(&self) -> Option<Share> {
        self.0.get(QUOTA).and_then(Value::as_str)?.parse().ok()
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds settings, which replace those of the same name.
    pub fn and(mut self, others: impl Into<Settings>) -> Self {
        self.0.extend(others.into().0);
        self
    }
}

impl<A: Axes> From<A> for Settings {
    fn from(axes: A) -> Self {
        let mut set = axes.written().clone();
        set.remove(WORKLOAD);
        Self(set)
    }
}
