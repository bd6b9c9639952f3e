//! Source lines whose flushes were needless: of the flush itself, and of every call that led to it.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::attribution;
use super::counts::Executed;
use super::findings::{Confidence, MANY_NEEDLESS};
use super::key::Key;
use crate::events::Location;
use crate::recording::Reader;

/// A source line under which flushes were needless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NeedlessLine {
    /// The function, source file and line; of code without line numbers, the function or address.
    pub place: String,
    /// Whether it is in the program, or in a library that came with it.
    pub own: bool,
    /// High where all of its flushes were needless, or else medium.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["high", "medium"])))]
    pub confidence: Confidence,
    /// Flushes by it, and by what it called.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub flushes: u64,
    /// Those of them that were needless.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub needless: u64,
}

/// Lines with at least a tenth of their flushes needless, without the making of pools: the
/// program's own first, then those with more confidence, then those with more needless flushes.
/// Besides, what the making of pools executed.
pub fn lines(
    recording: &Reader,
    rows: &FxHashMap<Key, Executed>,
) -> (Vec<NeedlessLine>, Option<Executed>) {
    let mut all: BTreeMap<String, (bool, u64, u64)> = BTreeMap::new();
    let mut making: Option<Executed> = None;
    for (key, executed) in rows {
        let frames = attribution::frames(recording, *key);
        if attribution::makes_pool(&frames) {
            *making.get_or_insert_default() += *executed;
            continue;
        }
        if executed.flushes() == 0 {
            continue;
        }
        // A function that calls itself counts once.
        let frames = frames.iter().filter(|frame| !attribution::starts_programs(frame));
        let places: BTreeMap<String, bool> =
            frames.map(|frame| (line(frame), attribution::is_own(frame))).collect();
        for (place, own) in places {
            let (_, flushes, needless) = all.entry(place).or_insert((own, 0, 0));
            *flushes += executed.flushes();
            *needless += executed.needless_flushes();
        }
    }
    let mut found: Vec<NeedlessLine> = all
        .into_iter()
        .filter(|(_, (_, flushes, needless))| *needless as f64 >= MANY_NEEDLESS * *flushes as f64)
        .map(|(place, (own, flushes, needless))| {
            let confidence =
                if needless == flushes { Confidence::High } else { Confidence::Medium };
            NeedlessLine { place, own, confidence, flushes, needless }
        })
        .collect();
    found.sort_by_key(|one| (!one.own, one.confidence, std::cmp::Reverse(one.needless)));
    (found, making)
}

fn line(place: &Location) -> String {
    match place.source() {
        Some(_) => place.name(),
        None => place.to_string(),
    }
}
