//! How long what is not ours may be paused.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{Share, Span};

/// Limits for pausing what is attached. It is paused for a window at a time, and runs the rest of
/// the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Freezing {
    /// The longest that it is paused at once.
    pub longest: Span,
    /// The share of its time in which it is paused, at most.
    pub share: Share,
    /// How it is paused; absent: by whatever is quickest and leaves its processes where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<FreezeBy>,
}

impl Default for Freezing {
    fn default() -> Self {
        Self { longest: Span::ms(100), share: Share(0.2), by: None }
    }
}

/// How what is attached is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FreezeBy {
    /// By its control group: `cgroup.freeze` of version 2, the freezer of version 1.
    Group,
    /// By `SIGSTOP` to each process.
    Signals,
    /// By `ptrace`, as debuggers do it: the kernel resumes all processes when the tracing process
    /// ends.
    Ptrace,
}

impl std::str::FromStr for FreezeBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "group" => Ok(Self::Group),
            "signals" => Ok(Self::Signals),
            "ptrace" => Ok(Self::Ptrace),
            _ => Err(format!(
                "'{text}' is not a method to pause a program: use group, signals or ptrace"
            )),
        }
    }
}

impl Freezing {
    /// From a pause until a window opens: processes that waited for the paused ones have noticed by
    /// then.
    pub const AFTER_FREEZE: Duration = Duration::from_millis(15);

    /// From a resume until a window opens. By then the backlog is worked off, and caches are
    /// refilled: a backlog takes up to the time paused times load / (1 - load).
    pub const AFTER_THAW: Duration = Duration::from_millis(300);

    /// The longest window that fits into a pause, in whole milliseconds.
    pub fn longest_window(&self) -> Span {
        let room = self.longest.0.saturating_sub(Self::AFTER_FREEZE + Self::MARGIN);
        Span::ms((room.as_millis() as u64).max(1))
    }

    /// The shortest pause that such a window fits into, in whole milliseconds.
    pub fn for_window(window: Span) -> Span {
        let pause = window.0 + Self::AFTER_FREEZE + Self::MARGIN;
        Span::ms(pause.as_nanos().div_ceil(1_000_000) as u64)
    }

    /// A window that fits into a pause. It is no longer than half a second, however long a pause
    /// may be: each has to wait until its pause fits into the share, so that a minute holds a few
    /// longer ones alone.
    pub fn window(&self) -> Span {
        self.longest_window().min(Span::ms(500))
    }

    /// What is paused for a share of its time in slices is so once in this time: several slices
    /// fall into a window.
    pub const SLICES: Duration = Duration::from_millis(25);

    /// The least share that is paused in slices, of a millisecond then.
    pub const LEAST_SLICED: f64 = 0.04;

    // For what comes late.
    const MARGIN: Duration = Duration::from_millis(5);

    /// The least time for a window with it paused and one with it running, with the waits before
    /// each.
    pub fn pair(&self, window: Duration) -> Duration {
        let paused = Self::AFTER_FREEZE + window;
        (paused + Self::AFTER_THAW + window).max(paused.div_f64(self.share.0.clamp(0.001, 1.0)))
    }

    /// The least that a window adds in which it is paused for a share of its time in slices: these
    /// count as its pauses do, and have begun a while before.
    pub fn slices(&self, window: Duration, sliced: Share) -> Duration {
        (Self::AFTER_THAW + window).mul_f64(sliced.0 / self.share.0.clamp(0.001, 1.0))
    }

    pub(super) fn problem(&self) -> Option<String> {
        if self.longest < Span::ms(20) || self.longest > Span::ms(10_000) {
            return Some(format!(
                "the longest pause, {} (--longest-freeze), is not between 20ms and 10s",
                self.longest
            ));
        }
        if !(0.001..=0.9).contains(&self.share.0) {
            return Some(format!(
                "the paused share, {} (--frozen-share), is not between 0.1% and 90%",
                self.share
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_fits_into_a_pause_and_pauses_into_their_share() {
        let freezing = Freezing::default();
        assert_eq!(freezing.window(), Span::ms(80));
        // 95 ms of a pair's 475 ms.
        assert_eq!(freezing.pair(Duration::from_millis(80)), Duration::from_millis(475));
        // All that may be paused is, for as long as it lasts.
        assert_eq!(
            freezing.slices(Duration::from_millis(80), Share(0.2)),
            Duration::from_millis(380)
        );
        let rare = Freezing { share: Share(0.05), ..freezing };
        assert_eq!(rare.pair(Duration::from_millis(80)), Duration::from_millis(1900));
        let long = Freezing { longest: Span::ms(10_000), ..freezing };
        assert_eq!(long.window(), Span::ms(500));
        assert_eq!(long.longest_window(), Span::ms(9980));
        assert_eq!(long.pair(long.window().0), Duration::from_millis(2575));
        assert_eq!(freezing.problem(), None);
        assert!(
            Freezing { longest: Span::ms(1), ..freezing }
                .problem()
                .unwrap()
                .contains("20ms and 10s")
        );
        assert!(Freezing { share: Share(0.0), ..freezing }.problem().unwrap().contains("90%"));
    }
}
