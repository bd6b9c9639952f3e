//! Exclusive ways for one group: their bits, and the ways that remain for the others. Pure
//! functions of what `info/` and the groups say.

use std::collections::BTreeMap;

use crate::id::GroupId;
use crate::info::{CacheInfo, Info};
use crate::mode::Mode;
use crate::schemata::{Domain, Mask, Resource, Schemata};
use crate::state::State;
use crate::transaction::Step;

/// A cache in two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// The exclusive ways, which are adjacent.
    pub alone: Mask,
    /// The ways for all others, which are adjacent unless the processor accepts masks with gaps.
    pub others: Mask,
    /// Whether I/O may use some of the exclusive ways.
    pub with_io: bool,
}

/// Splits the free ways of a domain: `ways` of them become exclusive, at the end of the cache that
/// I/O does not use; where masks may have gaps, also in between.
///
/// # Errors
/// Why it cannot be, to follow "because".
pub fn split(cache: &CacheInfo, domain: Domain, taken: Mask, ways: u32) -> Result<Split, String> {
    let least = cache.min_cbm_bits.max(1);
    if ways < least {
        return Err(format!("a mask needs at least {least} bits"));
    }
    let all = cache.cbm_mask;
    let free =
        if cache.sparse_masks { all.without(taken) } else { longest_run(all.without(taken)) };
    if free.count() < ways + least {
        let why = if taken.is_empty() { "" } else { "; the rest is exclusive or pseudo-locked" };
        return Err(format!(
            "{ways} exclusive ways would leave fewer than {least} of the {} free ways{why}",
            free.count()
        ));
    }
    let mut places = vec![end_of(free, ways, false), end_of(free, ways, true)];
    if cache.sparse_masks {
        places.extend(
            (0..=64 - ways.min(64))
                .map(|bit| Mask::run(bit, ways))
                .filter(|run| run.is_within(free)),
        );
    }
    let io = cache.io_ways(domain);
    let fits = |alone: &Mask| {
        let rest = free.without(*alone);
        alone.is_contiguous() && (cache.sparse_masks || rest.is_contiguous())
    };
    let alone = places.into_iter().filter(fits).min_by_key(|alone| alone.and(io).count());
    let alone = alone.ok_or("the free ways have gaps, which this processor does not allow")?;
    Ok(Split { alone, others: free.without(alone), with_io: alone.overlaps(io) })
}

// The lowest or highest bits of a mask, so many.
fn end_of(mask: Mask, count: u32, high: bool) -> Mask {
    let bits = (0..64).filter(|bit| mask.0 >> bit & 1 == 1);
    let fold = |all: u64, bit: u32| all | 1 << bit;
    let count = count as usize;
    Mask(if high { bits.rev().take(count).fold(0, fold) } else { bits.take(count).fold(0, fold) })
}

// The longest run of neighbouring bits, the lowest of several.
fn longest_run(mask: Mask) -> Mask {
    let mut best = Mask(0);
    let mut bit = 0;
    while bit < 64 {
        let run = (mask.0 >> bit).trailing_ones();
        if run > best.count() {
            best = Mask::run(bit, run);
        }
        bit += run.max(1);
    }
    best
}

/// Exclusive ways for one group in some caches, and what that takes from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolation {
    /// What the one may use of these caches; nothing else is named.
    pub alone: Schemata,
    /// What all others may use there.
    pub others: Schemata,
    /// New settings of existing groups, the default one included: their old ones without the
    /// exclusive ways.
    pub shrunk: BTreeMap<GroupId, Schemata>,
    /// The split of each cache.
    pub splits: BTreeMap<Domain, Split>,
}

/// Plans `ways` exclusive ways of the caches `domains` at a level for one group.
///
/// Groups that exist keep what they have of the others' ways; exclusive ones and pseudo-locked
/// regions keep all they have.
///
/// # Errors
/// Why it cannot be, to follow "because".
pub fn isolate(
    info: &Info,
    state: &State,
    level: u32,
    domains: &[Domain],
    ways: u32,
) -> Result<Isolation, String> {
    let resources = info.of_level(level);
    let Some(cache) = resources.first().and_then(|resource| info.cache(resource)) else {
        return Err(format!("resctrl cannot allocate ways of an L{level} here"));
    };
    let mut isolation = Isolation {
        alone: Schemata::new(),
        others: Schemata::new(),
        shrunk: BTreeMap::new(),
        splits: BTreeMap::new(),
    };
    for &domain in domains {
        let split = split(cache, domain, taken(info, state, &resources, domain), ways)?;
        isolation.splits.insert(domain, split);
        for resource in &resources {
            isolation.alone.set_mask(resource.clone(), domain, split.alone);
            isolation.others.set_mask(resource.clone(), domain, split.others);
            for (id, group) in &state.groups {
                let Some(mask) = group.schemata.mask(resource, domain) else { continue };
                if !mask.overlaps(split.alone) || group.mode != Some(Mode::Shareable) {
                    continue;
                }
                let rest = mask.without(split.alone);
                let fits = rest.count() >= cache.min_cbm_bits.max(1)
                    && (cache.sparse_masks || rest.is_contiguous());
                if !fits {
                    return Err(format!(
                        "{id} has {resource}:{domain}={mask}, and no valid mask would remain for \
                         it without {}",
                        split.alone
                    ));
                }
                isolation.shrunk.entry(id.clone()).or_default().set_mask(
                    resource.clone(),
                    domain,
                    rest,
                );
            }
        }
    }
    Ok(isolation)
}

/// Ways of a cache that exclusive groups and pseudo-locked regions have.
pub fn taken(info: &Info, state: &State, resources: &[Resource], domain: Domain) -> Mask {
    let mut taken = Mask(0);
    for resource in resources {
        let usage = info.cache(resource).and_then(|cache| cache.bit_usage.get(&domain));
        taken = taken.or(usage.map_or(Mask(0), |usage| usage.ways("EP")));
        let owners = state
            .groups
            .values()
            .filter(|group| matches!(group.mode, Some(Mode::Exclusive | Mode::PseudoLocked)));
        for group in owners {
            taken = taken.or(group.schemata.mask(resource, domain).unwrap_or_default());
        }
    }
    taken
}

impl Isolation {
    /// The steps that create a group with the exclusive ways. The group is shareable, as every new
    /// one: only `exclusive` keeps groups that are made later off its ways ([`Step::Mode`]).
    pub fn steps(&self, group: &GroupId) -> Vec<Step> {
        let shrink = self
            .shrunk
            .iter()
            .map(|(id, schemata)| Step::Schemata { group: id.clone(), schemata: schemata.clone() });
        let mut steps: Vec<Step> = shrink.collect();
        steps.push(Step::Create { group: group.clone() });
        steps.push(Step::Schemata { group: group.clone(), schemata: self.alone.clone() });
        steps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::info::IoAlloc;

    fn split(cache: &CacheInfo, taken: Mask, ways: u32) -> Result<Split, String> {
        super::split(cache, 0, taken, ways)
    }

    fn cache(ways: u32, io: u64, least: u32, sparse: bool) -> CacheInfo {
        CacheInfo {
            num_closids: 16,
            cbm_mask: Mask::run(0, ways),
            min_cbm_bits: least,
            shareable_bits: Mask(io),
            sparse_masks: sparse,
            bit_usage: BTreeMap::new(),
            io_alloc: IoAlloc::Disabled,
        }
    }

    #[test]
    fn ways_that_devices_were_given_are_left_to_them() {
        let given = |mask: u64, sparse: bool| {
            let io_alloc = IoAlloc::Enabled(BTreeMap::from([(0, Mask(mask)), (1, Mask(0xff00))]));
            CacheInfo { io_alloc, ..cache(16, 0, 1, sparse) }
        };
        assert_eq!(split(&given(0xff, false), Mask(0), 4).unwrap().alone, Mask(0xf000));
        assert_eq!(super::split(&given(0xff, false), 1, Mask(0), 4).unwrap().alone, Mask(0xf));
        // At both ends: only masks with gaps can go around them.
        assert!(split(&given(0xf00f, false), Mask(0), 4).unwrap().with_io);
        let between = split(&given(0xf00f, true), Mask(0), 4).unwrap();
        assert_eq!((between.alone, between.with_io), (Mask(0xf0), false));
        // All of it, as it is when it was just switched on.
        assert!(split(&given(0xffff, true), Mask(0), 4).unwrap().with_io);
    }

    #[test]
    fn the_end_without_io_is_taken() {
        let broadwell = cache(20, 0xc0000, 1, false);
        let found = split(&broadwell, Mask(0), 4).unwrap();
        assert_eq!(found, Split { alone: Mask(0xf), others: Mask(0xffff0), with_io: false });
        let reversed = cache(20, 0x3, 1, false);
        assert_eq!(split(&reversed, Mask(0), 4).unwrap().alone, Mask(0xf0000));
        // Between a locked region below and I/O above.
        assert_eq!(split(&broadwell, Mask(0x7), 4).unwrap().alone, Mask(0x78));
        assert!(split(&cache(11, 0x7ff, 2, false), Mask(0), 4).unwrap().with_io);
        for (cache, taken, ways, part) in [
            (cache(11, 0, 2, false), 0, 1, "at least 2 bits"),
            (cache(11, 0, 2, false), 0, 10, "would leave fewer than 2 of the 11"),
            (cache(11, 0, 1, false), 0x3e0, 5, "exclusive or pseudo-locked"),
        ] {
            assert!(split(&cache, Mask(taken), ways).unwrap_err().contains(part));
        }
    }

    fn state(groups: &[(&str, Mode, &str)]) -> State {
        let group = |(name, mode, schemata): &(&str, Mode, &str)| {
            let state = crate::GroupState {
                mode: Some(*mode),
                schemata: schemata.parse().unwrap(),
                cpus: Default::default(),
                threads: Vec::new(),
            };
            (name.parse().unwrap(), state)
        };
        State { groups: groups.iter().map(group).collect(), ..State::default() }
    }

    #[test]
    fn others_keep_what_is_left_of_theirs() {
        let mut info = Info::default();
        info.caches.insert("L3CODE".into(), cache(20, 0xc0000, 1, false));
        info.caches.insert("L3DATA".into(), cache(20, 0xc0000, 1, false));
        let state = state(&[
            (".", Mode::Shareable, "L3CODE:0=ffffc;1=fffff\nL3DATA:0=ffffc;1=fffff"),
            ("a", Mode::Shareable, "L3CODE:0=3fc;1=f\nL3DATA:0=ff000;1=f"),
            ("own", Mode::Exclusive, "L3CODE:0=3\nL3DATA:0=3"),
        ]);
        let isolation = super::isolate(&info, &state, 3, &[0], 4).unwrap();
        assert_eq!(isolation.alone.to_string(), "L3CODE:0=3c\nL3DATA:0=3c\n");
        assert_eq!(isolation.others.to_string(), "L3CODE:0=fffc0\nL3DATA:0=fffc0\n");
        let shrunk = |name: &str| isolation.shrunk[&name.parse().unwrap()].to_string();
        assert_eq!(shrunk("a"), "L3CODE:0=3c0\n");
        assert_eq!(shrunk("."), "L3CODE:0=fffc0\nL3DATA:0=fffc0\n");
        assert!(!isolation.shrunk.contains_key(&"own".parse().unwrap()));
        let narrow = self::state(&[
            (".", Mode::Shareable, "L3CODE:0=fffff\nL3DATA:0=fffff"),
            ("b", Mode::Shareable, "L3CODE:0=3\nL3DATA:0=3"),
        ]);
        let why = super::isolate(&info, &narrow, 3, &[0], 4).unwrap_err();
        assert!(why.contains("b has L3CODE:0=3"), "{why}");
    }

    proptest! {
        #[test]
        fn a_split_is_one(
            ways in 1u32..33,
            io in any::<u64>(),
            taken in any::<u64>(),
            least in 1u32..4,
            wanted in 1u32..20,
            sparse in any::<bool>(),
        ) {
            let cache = cache(ways, io & Mask::run(0, ways).0, least, sparse);
            let taken = Mask(taken);
            if let Ok(split) = split(&cache, taken, wanted) {
                prop_assert!(!split.alone.overlaps(split.others));
                prop_assert!(split.alone.or(split.others).is_within(cache.cbm_mask.without(taken)));
                prop_assert_eq!(split.alone.count(), wanted);
                prop_assert!(split.alone.is_contiguous());
                prop_assert!(split.others.count() >= least && wanted >= least);
                prop_assert!(sparse || split.others.is_contiguous());
                prop_assert_eq!(split.with_io, split.alone.overlaps(cache.shareable_bits));
            }
        }

        #[test]
        fn with_all_ways_free_every_size_fits(ways in 2u32..33, wanted in 1u32..32) {
            let split = split(&cache(ways, 0, 1, false), Mask(0), wanted);
            prop_assert_eq!(split.is_ok(), wanted < ways);
        }
    }
}
