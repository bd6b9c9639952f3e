//! What is carried on from crash to crash is what is worked out anew for each: stores, keys, and
//! what is left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, Hasher};

use proptest::prelude::*;
use rustc_hash::{FxBuildHasher, FxHasher};

use super::*;
use crate::bytes::Bytes;
use crate::choices::{Choices, Random};
use crate::content::Left;
use crate::crash_image::scratch;
use crate::event::{Event, Kind, Source, Write};
use crate::profile::Profile;
use crate::run::memory::left;

// Three lines, one of which is far away.
const LINES: [usize; 3] = [0, 1, 1 << 34];

fn event(random: &mut Random) -> Kind {
    let line = LINES[random.below(3) as usize];
    let word = line * 8 + random.below(2) as usize;
    let mask = [0xff, 0xff, 0x0f, 0x3c][random.below(4) as usize];
    // Few values, so that some states are equal.
    let write = Write { word, bytes: (1 + random.below(3)).to_le_bytes(), mask };
    match random.below(14) {
        0..4 => Kind::Store(write),
        4 => Kind::Stream(Write { mask: 0xff, ..write }),
        5..7 => Kind::Flushopt(line),
        7..9 => Kind::Flush(line),
        9 | 10 => Kind::Sfence,
        11 => Kind::Mfence,
        12 => Kind::Locked(Write { mask: 0xff, ..write }),
        _ => Kind::Mark(random.below(2)),
    }
}

fn here() -> Source {
    std::panic::Location::caller()
}

fn words() -> impl Iterator<Item = usize> {
    LINES.into_iter().flat_map(|line| line * 8..line * 8 + 3)
}

// The same stores, and the same decisions to take, as far as one goes in taking them.
fn same(one: &CrashImage, other: &scratch::CrashImage, events: &[Event], random: &mut Random) {
    let (mut one, mut other) = (one.clone(), other.clone());
    // Where all ways leave the same bytes a decision settles nothing.
    for _ in 0..8 {
        assert_eq!(one.fates([events].into_iter()), other.fates());
        let fates = other.fates();
        let count = |fate| fates.iter().filter(|other| **other == fate).count();
        use crate::fate::Fate::{Either, Lost};
        assert_eq!(
            (one.stores(), one.lost_and_open()),
            (fates.len(), (count(Lost), count(Either)))
        );
        for word in words() {
            assert_eq!(one.plain(word), other.plain(word));
            assert_eq!(one.values(word), other.values(word));
            assert_eq!(one.hides(word), other.hides(word));
            assert_eq!(one.fences_before(word), other.fences_before(word));
            for all in [false, true] {
                assert_eq!(
                    one.writes(word, all).into_vec(),
                    other.writes(word, all).collect::<Vec<_>>()
                );
            }
        }
        let open: Vec<usize> = words().filter(|word| one.plain(*word).is_none()).collect();
        if open.is_empty() {
            break;
        }
        let word = open[random.below(open.len() as u64) as usize];
        let (ways, others) = (one.outcomes(word), other.outcomes(word));
        let bytes = |bytes, mask| (crate::bytes::masked(bytes, mask), mask);
        assert_eq!(
            ways.iter().map(|way| bytes(way.bytes, way.mask)).collect::<Vec<_>>(),
            others.iter().map(|way| bytes(way.bytes, way.mask)).collect::<Vec<_>>()
        );
        let chosen = random.below(ways.len() as u64) as usize;
        assert_eq!(one.decide(&ways[chosen]), other.decide(&others[chosen]));
    }
}

// What was left and its key, looking at every word of every layer.
fn from_scratch(state: &State) -> (BTreeMap<usize, Left>, u64) {
    let mut words = BTreeSet::new();
    state.layers.iter().for_each(|layer| words.extend(layer.words()));
    let all: BTreeMap<usize, Left> =
        words.into_iter().map(|word| (word, left(&state.layers, false, word))).collect();
    let key = all.values().fold(0u64, |key, left| key.wrapping_add(left.key));
    (all.into_iter().filter(|(_, left)| *left != Left::default()).collect(), key)
}

fn carried(state: &State) -> (BTreeMap<usize, Left>, u64) {
    let mut all = BTreeMap::new();
    state.memory.words.for_each(&mut |word, left| _ = all.insert(word, *left));
    (all, state.memory.key)
}

// The key of the first run's crash as it was made of all words each time.
fn first_key(profile: Profile, events: &[Event]) -> (u64, bool) {
    let layer = scratch::CrashImage::of(profile, events, 0);
    let marks: Vec<u64> = events.iter().filter_map(|event| event.kind.mark()).collect();
    let hash = |feed: &dyn Fn(&mut FxHasher)| {
        let mut hasher = FxBuildHasher.build_hasher();
        feed(&mut hasher);
        mix(hasher.finish())
    };
    let mut ties = false;
    let mut sum = hash(&|into| {
        marks.hash(into);
        layer.ties_key(0, into);
    });
    ties |= layer.has_ties();
    for word in layer.words() {
        let values = layer.values(word);
        let plain: BTreeSet<Bytes> = values.iter().map(|(bytes, _)| *bytes).collect();
        sum = sum.wrapping_add(match plain.first() {
            Some(bytes) if plain.len() == 1 => match u64::from_le_bytes(*bytes) {
                0 => 0,
                bytes => mix(mix(bytes).wrapping_add(word as u64)),
            },
            _ => hash(&|into| {
                word.hash(into);
                layer.word_key(word, into);
            }),
        });
    }
    (sum, ties)
}

fn run(profile: Profile, kills: bool) -> Run {
    let mut run = Run::new(profile, usize::MAX, false, Rc::default());
    (run.merges, run.kills) = (false, kills);
    run
}

fn record(run: &mut Run, kind: Kind) {
    run.record(kind, here());
}

// Goes on for some events from `state`, and looks at each crash there: one of the states found.
fn life(
    run: &mut Run,
    state: &Rc<State>,
    pending: &[Event],
    random: &mut Random,
) -> (Rc<State>, Vec<Event>) {
    let fresh = |run: &mut Run, killed: bool| {
        let carried_on = run.leaving.take();
        let state = if killed { run.kill() } else { run.crash() };
        run.leaving = carried_on;
        state
    };
    run.begin(state);
    run.rewind();
    run.choices = Choices::random(Random(random.next()));
    let mut found: Vec<(Rc<State>, Vec<Event>)> = Vec::new();
    for _ in 0..1 + random.below(12) {
        if random.below(4) == 0 && !state.layers.is_empty() {
            let word = LINES[random.below(3) as usize] * 8 + random.below(2) as usize;
            run.read(word, [0xff, 0x0f][random.below(2) as usize], here());
        } else {
            record(run, event(random));
        }
        if random.below(3) == 0 {
            continue;
        }
        let events = [pending, &run.events].concat();
        if run.kills {
            let (state, anew) = (run.kill(), fresh(run, true));
            let settled = scratch::CrashImage::of(run.profile, &events, events.len()).is_settled();
            assert_eq!((state.is_none(), anew.is_none()), (settled, settled));
            if let (Some(mut state), Some(anew)) = (state, anew) {
                assert_eq!(carried(&state), from_scratch(&state));
                assert_eq!(carried(&state), carried(&anew));
                let (walk, other) =
                    (&state.killed.as_ref().unwrap().0, &anew.killed.as_ref().unwrap().0);
                assert_eq!(walk.history(), other.history());
                same(
                    &walk.image(),
                    &scratch::CrashImage::of(run.profile, &events, events.len()),
                    &events,
                    random,
                );
                state.last_run(&run.events.as_slice().into(), &run.marks.as_slice().into());
                found.push((Rc::new(state), events.clone()));
            }
        }
        let (mut state, anew) = (run.crash().unwrap(), fresh(run, false).unwrap());
        assert_eq!(carried(&state), from_scratch(&state), "{events:?}");
        assert_eq!(carried(&state), carried(&anew));
        let key = |state: &State| run.key(&state.layers, &state.memory, state.marks);
        assert_eq!(key(&state), key(&anew));
        let scratch = scratch::CrashImage::of(run.profile, &events, pending.len());
        same(state.layers.last().unwrap(), &scratch, &events, random);
        let (images, other) = (run.leaving.as_ref().unwrap().walk.images(), scratch.images());
        assert!((images - other).abs() <= other * 1e-12, "{images}, {other}");
        state.last_run(&run.events.as_slice().into(), &run.marks.as_slice().into());
        found.push((Rc::new(state), Vec::new()));
    }
    if found.is_empty() {
        let mut state = run.crash().unwrap();
        state.last_run(&run.events.as_slice().into(), &run.marks.as_slice().into());
        found.push((Rc::new(state), Vec::new()));
    }
    found.swap_remove(random.below(found.len() as u64) as usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("RINGFENCE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
    ))]

    #[test]
    fn what_is_carried_on_is_what_is_worked_out_anew(seed: u64, kills: bool) {
        for profile in Profile::ALL {
            let mut random = Random(seed);
            let mut run = run(profile, kills);
            let (mut state, mut pending) = (Rc::new(State::nothing()), Vec::new());
            for _ in 0..3 {
                (state, pending) = life(&mut run, &state, &pending, &mut random);
            }
        }
    }

    #[test]
    fn states_are_equal_where_they_were(seed: u64) {
        for profile in Profile::ALL {
            let mut random = Random(seed);
            let mut run = run(profile, false);
            run.begin(&Rc::new(State::nothing()));
            run.rewind();
            let (mut keys, mut back) = (HashMap::new(), HashMap::new());
            for _ in 0..20 {
                record(&mut run, event(&mut random));
                let state = run.crash().unwrap();
                let key = run.key(&state.layers, &state.memory, state.marks);
                let (before, ties) = first_key(profile, &run.events);
                prop_assert_eq!(*keys.entry(before).or_insert(key), key, "{} \
                    {:?}", profile, run.events);
                // Ties to what came before all of them said something that makes no difference.
                let kinds: Vec<Kind> = run.events.iter().map(|event| event.kind).collect();
                let (other, others) = back.entry(key).or_insert_with(|| (before, kinds.clone()));
                prop_assert!(ties || *other == before, "{profile}: {others:?} and {kinds:?}");
            }
        }
    }
}
