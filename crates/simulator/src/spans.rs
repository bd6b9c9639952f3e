//! How much shorter what an experiment says is in simulated time, where nothing disturbs.

use std::time::Duration;

/// Windows, and what precedes them, last this part of what the plan says.
pub const SHARE: u32 = 20;

/// How long is waited for caches to settle, at most.
pub const SETTLE_LIMIT: Duration = Duration::from_millis(40);

/// A task's sleep: shortened as windows are, and no longer than it takes caches to settle to what
/// runs with it.
pub fn sleep(span: Duration) -> Duration {
    (span / SHARE).min(SETTLE_LIMIT)
}
/// How much is simulated between two looks.
pub const LOOK: Duration = Duration::from_micros(50);
