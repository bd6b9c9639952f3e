//! I/O priorities as people write them: `idle`, `best-effort 7`.

use std::fmt;
use std::str::FromStr;

use crate::units::serde_as_text;

/// An I/O priority (ioprio_set(2)) that needs no privilege.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub enum IoPriority {
    /// The disk is for others first.
    Idle,
    /// The ordinary class, at a level from 0, the first, to 7.
    BestEffort(u8),
}

impl IoPriority {
    /// As the kernel writes it: the class in the upper three bits of sixteen.
    pub fn value(self) -> u16 {
        let (class, level) = match self {
            IoPriority::Idle => (3, 0),
            IoPriority::BestEffort(level) => (2, level),
        };
        class << 13 | u16::from(level)
    }
}

impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoPriority::Idle => f.pad("idle"),
            IoPriority::BestEffort(level) => f.pad(&format!("best-effort {level}")),
        }
    }
}

/// Why a text is no I/O priority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an I/O priority: write idle, or best-effort with a level from 0 to 7, such as \
     best-effort 7"
)]
pub struct ParseIoPriorityError(String);

impl FromStr for IoPriority {
    type Err = ParseIoPriorityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let level = |text: &str| text.trim().parse::<u8>().ok().filter(|level| *level < 8);
        match text.trim() {
            "idle" => Some(IoPriority::Idle),
            text => text.strip_prefix("best-effort ").and_then(level).map(IoPriority::BestEffort),
        }
        .ok_or_else(|| ParseIoPriorityError(text.into()))
    }
}

serde_as_text!(IoPriority);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_they_are_written() {
        for (text, value) in
            [("idle", 0x6000), ("best-effort 0", 0x4000), ("best-effort 7", 0x4007)]
        {
            let priority: IoPriority = text.parse().unwrap();
            assert_eq!((priority.to_string().as_str(), priority.value()), (text, value));
        }
        for text in ["", "best-effort", "best-effort 8", "best-effort -1", "realtime 0"] {
            let error = text.parse::<IoPriority>().unwrap_err().to_string();
            assert!(error.contains("such as best-effort 7"), "{error}");
        }
    }
}
