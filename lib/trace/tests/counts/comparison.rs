//! Two tracers' entries of one program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::effects::{Entry, Site, What};
use crate::modules::Modules;

// How many, and of how many bytes.
type Count = (u64, u64);

fn count<K: Ord>(threads: &[Vec<Entry>], key: impl Fn(&Entry) -> K) -> BTreeMap<K, Count> {
    let mut counts: BTreeMap<K, Count> = BTreeMap::new();
    for entry in threads.iter().flatten() {
        let count = counts.entry(key(entry)).or_default();
        count.0 += 1;
        count.1 += entry.bytes.map_or(0, |(_, size)| size);
    }
    counts
}

/// Whether both have the same: by kind, by site, and thread by thread in the same order. The
/// threads themselves have no order. Prints how many there are of each kind.
pub fn assert_same(
    what: &str,
    mut one: Vec<Vec<Entry>>,
    mut recorded: Vec<Vec<Entry>>,
    modules: &Modules,
) {
    let by_kind = [&one, &recorded].map(|threads| count(threads, |entry| entry.what));
    println!("{what}: {:?}", by_kind[1]);
    let by_site = [&one, &recorded].map(|threads| count(threads, |entry| (entry.site, entry.what)));
    if by_site[0] != by_site[1] {
        panic!("{what}: of each kind {by_kind:?}; {}", sites(&by_site, modules));
    }
    for threads in [&mut one, &mut recorded] {
        threads.retain(|thread| !thread.is_empty());
        threads.sort();
    }
    assert_eq!(one.len(), recorded.len(), "{what}: threads");
    for (one, recorded) in one.iter().zip(&recorded) {
        let same = one.iter().zip(recorded).take_while(|(one, other)| one == other).count();
        let next = |entries: &[Entry]| entries[same..].iter().take(3).copied().collect::<Vec<_>>();
        assert!(
            one == recorded,
            "{what}: after {same} entries that are the same come {:x?}, recorded {:x?}",
            next(one),
            next(recorded)
        );
    }
}

fn sites(by_site: &[BTreeMap<(Site, What), Count>; 2], modules: &Modules) -> String {
    let mut text = "of these sites so many, so many bytes; recorded:\n".to_owned();
    let all: BTreeSet<_> = by_site.iter().flat_map(BTreeMap::keys).collect();
    for key in all.into_iter().filter(|key| by_site[0].get(key) != by_site[1].get(key)).take(40) {
        let [one, recorded] =
            by_site.each_ref().map(|sites| sites.get(key).copied().unwrap_or_default());
        let _ = writeln!(text, "{}: {:?} {one:?} {recorded:?}", modules.name(key.0), key.1);
    }
    text
}
