//! Windows that are long enough to see what comes late.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::Span;

/// What takes the place of a window where aggressors cause harm late: all roles run for `beside`,
/// or until the aggressors have reached their limits. Then the metric's role keeps running alone
/// for `tail`, while what the aggressors have left behind stays as it is.
///
/// The defaults are for pages that are left to the kernel. It writes back pages that have been
/// dirty for `vm.dirty_expire_centisecs`, by default 30 s, and looks for them every
/// `vm.dirty_writeback_centisecs`, by default 5 s (Documentation/admin-guide/sysctl/vm.rst in
/// Linux). So write-back of a page begins at the latest 35 s after it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Episode {
    /// How long all roles run, at most.
    pub beside: Span,
    /// How long the metric's role is measured after the others have stopped.
    pub tail: Span,
}

impl Default for Episode {
    fn default() -> Self {
        Self { beside: Span::ms(40_000), tail: Span::ms(37_000) }
    }
}

impl Episode {
    /// Both parts together.
    pub fn length(&self) -> Span {
        Span(self.beside.0 + self.tail.0)
    }

    pub(super) fn problem(&self) -> Option<String> {
        if self.beside < Span::ms(1) || self.tail < Span::ms(1) || self.length() > Span::ms(600_000)
        {
            return Some(format!(
                "an episode of {self}: each part must be at least 1ms, and both together at most \
                 10min"
            ));
        }
        None
    }
}

impl fmt::Display for Episode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}+{}", self.beside, self.tail))
    }
}

impl FromStr for Episode {
    type Err = String;

    /// As it prints: `40s+37s`, or the first alone.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (beside, tail) =
            text.split_once('+').map_or((text, None), |(beside, tail)| (beside, Some(tail)));
        let span = |text: &str| {
            text.trim().parse::<Span>().map_err(|_| {
                "an episode is the time with all tasks plus the time after it, such as 40s+37s"
                    .to_owned()
            })
        };
        Ok(Self { beside: span(beside)?, tail: tail.map_or(Ok(Self::default().tail), span)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_reads_as_it_prints() {
        for (text, beside, tail) in
            [("40s+37s", 40_000, 37_000), ("500ms + 1s", 500, 1000), ("20s", 20_000, 37_000)]
        {
            let episode: Episode = text.parse().unwrap();
            assert_eq!(
                episode,
                Episode { beside: Span::ms(beside), tail: Span::ms(tail) },
                "{text}"
            );
            assert_eq!(episode.to_string().parse(), Ok(episode));
        }
        for text in ["", "+", "40s+", "+37s", "40", "40s-37s", "1s+1s+1s"] {
            assert!(text.parse::<Episode>().unwrap_err().contains("such as 40s+37s"), "{text}");
        }
    }

    #[test]
    fn no_part_is_empty_and_both_end() {
        let problem =
            |beside, tail| Episode { beside: Span::ms(beside), tail: Span::ms(tail) }.problem();
        assert_eq!(Episode::default().problem(), None);
        assert_eq!(problem(1, 1), None);
        assert!(problem(0, 1).unwrap().contains("an episode of 0ns+1ms"));
        assert!(problem(1, 0).is_some() && problem(300_000, 300_001).is_some());
    }
}
