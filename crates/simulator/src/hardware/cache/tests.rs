//! Caches against models that are as simple as can be.

use proptest::prelude::*;

use super::*;

const WAYS: u32 = 4;

// 16 sets of 4 ways.
fn small(replacement: Replacement) -> Cache {
    Cache::new(4, WAYS, replacement)
}

fn read(cache: &mut Cache, line: u32, mask: u32) -> Option<Evicted> {
    match cache.find(line) {
        Some(slot) => {
            cache.touch(slot);
            None
        }
        None => cache.insert(line, false, mask).1,
    }
}

proptest! {
    #[test]
    fn lru_gives_up_what_was_used_least_recently(
        steps in prop::collection::vec((0_u32..128, any::<bool>(), 1_u32..16), 1..400)
    ) {
        let mut cache = small(Replacement::Lru);
        // For each set its lines with their ways, the one used last at the end.
        let mut model = vec![Vec::<(u32, u32)>::new(); 16];
        for (line, remove, mask) in steps {
            let set = &mut model[(line % 16) as usize];
            let known = set.iter().position(|(other, _)| *other == line);
            prop_assert_eq!(cache.find(line).is_some(), known.is_some());
            if let (Some(slot), true) = (cache.find(line), remove) {
                cache.remove(slot);
                set.retain(|(other, _)| *other != line);
                continue;
            }
            if let Some(place) = known {
                let entry = set.remove(place);
                set.push(entry);
                prop_assert_eq!(read(&mut cache, line, mask), None);
                continue;
            }
            let free = (0..WAYS).any(|way| {
                mask & (1 << way) != 0 && set.iter().all(|(_, used)| *used != way)
            });
            let oldest = set.iter().position(|(_, way)| mask & (1 << way) != 0);
            let expected = (!free).then(|| set.remove(oldest.unwrap()).0);
            let (slot, evicted) = cache.insert(line, false, mask);
            prop_assert_eq!(evicted.map(|evicted| evicted.line), expected);
            let way = slot % 8;
            prop_assert!(mask & (1 << way) != 0);
            set.push((line, way));
        }
    }

    #[test]
    fn every_policy_keeps_to_its_mask_and_fills_empty_ways_first(
        replacement in prop::sample::select(vec![
            Replacement::Lru,
            Replacement::TreePlru,
            Replacement::Drrip,
        ]),
        kib in prop::sample::select(vec![(4_u32, 4_u32), (11, 11), (16, 16), (5, 20)]),
        steps in prop::collection::vec((0_u32..2000, 1_u32..(1 << 20)), 1..400)
    ) {
        let (kib, ways) = kib;
        let mut cache = Cache::new(kib, ways, replacement);
        let mut there = std::collections::BTreeMap::new();
        for (line, mask) in steps {
            let mask = mask & ((1 << ways) - 1);
            if mask == 0 || there.contains_key(&line) {
                continue;
            }
            let sets = kib * 16 / ways;
            let taken: u32 = there
                .iter()
                .filter(|(other, _)| *other % sets == line % sets)
                .map(|(_, way)| 1_u32 << way)
                .sum();
            let (slot, evicted) = cache.insert(line, true, mask);
            let way = slot % ways.next_power_of_two().max(8);
            prop_assert!(mask & (1 << way) != 0);
            prop_assert_eq!(evicted.is_none(), mask & !taken != 0);
            if let Some(evicted) = evicted {
                prop_assert_eq!(there.remove(&evicted.line), Some(way));
                prop_assert!(evicted.dirty);
            }
            there.insert(line, way);
            prop_assert!(there.keys().all(|line| cache.find(*line).is_some()));
        }
        prop_assert_eq!(cache.lines().count(), there.len());
    }
}

fn misses(replacement: Replacement, lines: u32, rounds: u32) -> u32 {
    let mut cache = Cache::new(64, 16, replacement);
    let mut missed = 0;
    for line in (0..rounds).flat_map(|_| 0..lines) {
        if cache.find(line).is_none() {
            missed += 1;
            cache.missed(line);
        }
        read(&mut cache, line, ALL_WAYS);
    }
    missed
}

#[test]
fn a_loop_that_does_not_fit_defeats_lru_and_not_drrip() {
    // 1,024 lines fit; a loop over a quarter more never finds anything under LRU.
    assert_eq!(misses(Replacement::Lru, 1280, 50), 1280 * 50);
    let drrip = misses(Replacement::Drrip, 1280, 50);
    assert!(drrip < 1280 * 50 * 2 / 3, "{drrip}");
    for fits in [Replacement::Lru, Replacement::TreePlru, Replacement::Drrip] {
        assert_eq!(misses(fits, 1024, 50), 1024);
    }
}

#[test]
fn the_tree_points_away_from_what_was_used() {
    let mut cache = small(Replacement::TreePlru);
    for line in [0, 16, 32, 48] {
        read(&mut cache, line, ALL_WAYS);
    }
    // Ways 0 to 3 in order: the tree points to way 0; once that is used, to the other half.
    read(&mut cache, 0, ALL_WAYS);
    assert_eq!(read(&mut cache, 64, ALL_WAYS).unwrap().line, 32);
    assert_eq!(read(&mut cache, 80, ALL_WAYS).unwrap().line, 16);
}
