//! Why measuring ended.

/// Why measuring ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "why", content = "what")]
pub enum Ended {
    /// After the last look that was planned.
    Complete,
    /// At a look, since everything was known as precisely as asked.
    Precise,
    /// The time ran out: no other trial fits into it, or the last one exceeded it by more than the
    /// length of a trial. Datasets written before it was called so say `budget`.
    #[serde(alias = "budget")]
    Time,
    /// An end was requested.
    Interrupted,
    /// A limit that protects the system was reached; what was measured before is kept.
    Limit(String),
    /// Something failed; what was measured before is kept.
    Failed(String),
}

/// How the reason of an end by a limit begins.
pub const AT_A_LIMIT: &str = "a limit was reached: ";

impl Ended {
    /// Whether it ended as planned, so that there is nothing to continue. Time that was spent is
    /// such an end.
    pub fn is_planned(&self) -> bool {
        self.early().is_none()
    }

    /// Why it ended early, if it did.
    pub fn early(&self) -> Option<&str> {
        match self {
            Self::Complete | Self::Precise | Self::Time => None,
            Self::Interrupted => Some("interrupted"),
            Self::Limit(why) | Self::Failed(why) => Some(why),
        }
    }
}
