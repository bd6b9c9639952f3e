//! Locked regions as JSON.

use ringfence_studies::lock::{Misses, Region};
use serde::Serialize;

/// `lock list`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/lock-list/2")]
pub(crate) struct LockList<'a> {
    /// All locked regions, of this program or not.
    regions: &'a [Region],
}

/// `lock misses`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/lock-misses/2")]
pub(crate) struct LockMisses<'a> {
    /// What the kernel counted, by size.
    misses: &'a [Misses],
}

/// Regions that are locked into caches.
pub fn lock_list(regions: &[Region]) -> impl Serialize {
    LockList { regions }
}

/// What the kernel counted in passes over locked regions.
pub fn lock_misses(misses: &[Misses]) -> impl Serialize {
    LockMisses { misses }
}
