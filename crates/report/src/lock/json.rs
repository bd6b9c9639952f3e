//! Locked regions as JSON.

use ringfence_studies::lock::{Misses, Region};
use serde::Serialize;

use crate::json::Document;

/// Regions that are locked into caches.
pub fn lock_list(regions: &[Region]) -> impl Serialize {
    #[derive(Serialize)]
    struct Regions<'a> {
        regions: &'a [Region],
    }
    Document { schema: "ringfence/lock-list/2", body: Regions { regions } }
}

/// What the kernel counted in passes over locked regions.
pub fn lock_misses(misses: &[Misses]) -> impl Serialize {
    #[derive(Serialize)]
    struct All<'a> {
        misses: &'a [Misses],
    }
    Document { schema: "ringfence/lock-misses/2", body: All { misses } }
}
