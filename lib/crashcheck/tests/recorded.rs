//! What recorded programs can leave, against the rules told one crash at a time: several threads,
//! system calls, sectors.

use std::collections::BTreeSet;
use std::ops::Range;

use proptest::prelude::*;
use ringfence_crashcheck::{Fate, Kind, Leaves, Profile, Recorded, Write, WrittenBack};

// Two words in each of three lines, the last two of which share a sector.
const WORDS: [usize; 6] = [0, 7, 64, 65, 72, 79];

#[derive(Debug, Clone, Copy)]
enum Did {
    Thread(u32, Kind),
    Begins(u32, usize, usize),
    Ends(u32),
}

type Memory = Vec<[u8; 8]>;

fn write(place: usize, value: u8, mask: u8) -> Write {
    let bytes = std::array::from_fn(|byte| if mask >> byte & 1 == 1 { value } else { 0 });
    Write { word: WORDS[place], bytes, mask }
}

fn did() -> impl Strategy<Value = Did> {
    let store = (0..WORDS.len(), 1u8..9, prop::sample::select(vec![0xffu8, 0x0f, 0x18]))
        .prop_map(|(place, value, mask)| write(place, value, mask));
    let line = || prop::sample::select(vec![0usize, 8, 9]);
    let kind = prop_oneof![
        6 => store.clone().prop_map(Kind::Store),
        2 => store.clone().prop_map(Kind::Stream),
        1 => store.prop_map(Kind::Locked),
        4 => line().prop_map(Kind::Flushopt),
        3 => line().prop_map(Kind::Flush),
        3 => Just(Kind::Sfence),
        1 => Just(Kind::Mfence),
        1 => Just(Kind::LockedOnly),
    ];
    prop_oneof![
        12 => (0u32..3, kind).prop_map(|(thread, kind)| Did::Thread(thread, kind)),
        1 => (0u32..2, 0usize..3, 1usize..4).prop_map(|(call, from, count)| {
            Did::Begins(call, from * 512, (from + count) * 512)
        }),
        1 => (0u32..2).prop_map(Did::Ends),
    ]
}

// Calls begin before they end, and end.
fn paired(all: Vec<Did>) -> Vec<Did> {
    let mut under_way = [false; 2];
    all.into_iter()
        .filter(|did| match did {
            Did::Begins(call, ..) => !std::mem::replace(&mut under_way[*call as usize], true),
            Did::Ends(call) => std::mem::replace(&mut under_way[*call as usize], false),
            Did::Thread(..) => true,
        })
        .collect()
}

struct Rules {
    written_back: WrittenBack,
    all: Vec<Did>,
}

impl Rules {
    fn unit(&self, word: usize) -> usize {
        match self.written_back {
            WrittenBack::ByLines(_) => word / 8,
            WrittenBack::BySectors(bytes) => word / (bytes / 8),
        }
    }

    // Stores, with where they came and whether they are non-temporal.
    fn stores(&self) -> Vec<(usize, Write, bool)> {
        let stored = |(at, did): (usize, &Did)| {
            let Did::Thread(_, kind) = did else { return None };
            let streamed = matches!(kind, Kind::Stream(_))
                && matches!(self.written_back, WrittenBack::ByLines(_));
            Some((at, kind.write()?, streamed))
        };
        self.all.iter().enumerate().filter_map(stored).collect()
    }

    // Whether whatever began at one place was waited for by the end.
    fn is_durable(&self, at: usize, word: usize, streamed: bool) -> bool {
        let end = |call: u32, from: usize| {
            self.all[from..].iter().any(|did| matches!(did, Did::Ends(one) if *one == call))
        };
        let by_call = self.all.iter().enumerate().skip(at).any(|(begun, did)| match did {
            Did::Begins(call, from, to) => {
                (from / 8..to / 8).contains(&self.covered(word, streamed, *from / 8..*to / 8))
                    && end(*call, begun)
            }
            _ => false,
        });
        let WrittenBack::ByLines(profile) = self.written_back else { return by_call };
        let fenced = |thread: u32, from: usize, clflush: bool| {
            self.all[from + 1..].iter().any(|did| match did {
                Did::Thread(one, kind) if *one == thread => match kind {
                    Kind::Mfence => true,
                    Kind::Sfence => !clflush || profile != Profile::OldAmd,
                    Kind::Locked(_) | Kind::LockedOnly => !clflush,
                    _ => false,
                },
                _ => false,
            })
        };
        let by_thread = self.all.iter().enumerate().skip(at).any(|(now, did)| match did {
            Did::Thread(thread, Kind::Stream(_)) => {
                streamed && now == at && fenced(*thread, now, false)
            }
            Did::Thread(thread, Kind::Flushopt(line)) => {
                !streamed && *line == word / 8 && fenced(*thread, now, false)
            }
            Did::Thread(thread, Kind::Flush(line)) => {
                !streamed && *line == word / 8 && fenced(*thread, now, true)
            }
            _ => false,
        });
        by_call || by_thread
    }

    // A call covers a line or a sector of which it covers anything: one of its words, or none.
    fn covered(&self, word: usize, streamed: bool, words: Range<usize>) -> usize {
        let unit = self.unit(word);
        match streamed {
            true => word,
            false => words.clone().find(|one| self.unit(*one) == unit).unwrap_or(usize::MAX),
        }
    }

    // Every content that a crash at the end can leave.
    fn memories(&self) -> BTreeSet<Memory> {
        let stores = self.stores();
        let mut all = BTreeSet::new();
        // Of each store: there or not.
        for chosen in 0u32..1 << stores.len() {
            let there = |number: usize| chosen >> number & 1 == 1;
            let allowed = stores.iter().enumerate().all(|(number, (at, write, streamed))| {
                if self.is_durable(*at, write.word, *streamed) && !there(number) {
                    return false;
                }
                // Ordinary stores of a unit: a first part of them.
                *streamed
                    || there(number)
                    || !stores.iter().enumerate().skip(number + 1).any(|(other, (_, later, nt))| {
                        !nt && self.unit(later.word) == self.unit(write.word) && there(other)
                    })
            });
            if !allowed {
                continue;
            }
            let mut memory = vec![[0; 8]; WORDS.len()];
            let reached = (0..stores.len()).filter(|number| there(*number));
            for (_, write, _) in reached.map(|number| &stores[number]) {
                let place = WORDS.iter().position(|word| *word == write.word).unwrap();
                for (byte, stored) in memory[place].iter_mut().enumerate() {
                    if write.mask >> byte & 1 == 1 {
                        *stored = write.bytes[byte];
                    }
                }
            }
            all.insert(memory);
        }
        all
    }
}

fn explored(leaves: &Leaves, all: &mut BTreeSet<Memory>) {
    let Some(unit) = leaves.units().into_iter().next() else {
        all.insert(WORDS.iter().map(|word| leaves.word(*word).unwrap().0).collect());
        return;
    };
    for way in 0..leaves.ways(unit) {
        let mut decided = leaves.clone();
        decided.decide(unit, way);
        assert_eq!(decided.ways(unit), 1);
        explored(&decided, all);
    }
}

fn run(written_back: WrittenBack, all: &[Did]) -> Recorded {
    let mut recorded = Recorded::new(written_back);
    for did in all {
        match did {
            Did::Thread(thread, kind) => recorded.step(*thread, *kind),
            Did::Begins(call, from, to) => recorded.sync_begins(*call, *from..*to),
            Did::Ends(call) => recorded.sync_ends(*call),
        }
    }
    recorded
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_left_is_what_the_rules_say(
        all in prop::collection::vec(did(), 0..22),
        way in prop::sample::select(vec![
            WrittenBack::ByLines(Profile::Amd),
            WrittenBack::ByLines(Profile::OldAmd),
            WrittenBack::BySectors(512),
            WrittenBack::BySectors(64),
        ]),
    ) {
        let mut all = paired(all);
        let stores = |did: &&Did| matches!(did, Did::Thread(_, kind) if kind.write().is_some());
        while all.iter().filter(stores).count() > 12 {
            all.pop();
        }
        let mut found = BTreeSet::new();
        let mut recorded = run(way, &all);
        explored(&recorded.leaves(), &mut found);
        let rules = Rules { written_back: way, all };
        let expected = rules.memories();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(recorded.is_certain(), recorded.leaves().units().is_empty());
        if recorded.is_certain() {
            prop_assert_eq!(found.len(), 1);
        }
        let stored: BTreeSet<usize> =
            rules.stores().iter().map(|(_, write, _)| write.word).collect();
        prop_assert!(stored.is_subset(&recorded.changed().into_iter().collect()));
        prop_assert!(recorded.changed().is_empty());
    }
}

fn store(place: usize, value: u8) -> Kind {
    Kind::Store(write(place, value, 0xff))
}

#[test]
fn a_fence_of_another_thread_waits_for_nothing() {
    let flushed = [Did::Thread(0, store(0, 1)), Did::Thread(0, Kind::Flushopt(0))];
    for (thread, certain) in [(0, true), (1, false)] {
        let all = [&flushed[..], &[Did::Thread(thread, Kind::Sfence)]].concat();
        let recorded = run(WrittenBack::ByLines(Profile::IntelAdr), &all);
        assert_eq!(recorded.is_certain(), certain);
    }
}

#[test]
fn a_call_covers_what_was_stored_before_it_began() {
    let all = [
        Did::Thread(0, store(0, 1)),
        Did::Begins(0, 0, 4096),
        Did::Thread(1, store(1, 2)),
        Did::Ends(0),
    ];
    let recorded = run(WrittenBack::BySectors(64), &all);
    let mut leaves = recorded.leaves();
    let units = leaves.units();
    assert_eq!(units.len(), 1);
    leaves.decide(units[0], 0);
    assert_eq!((leaves.word(0).unwrap().0[0], leaves.word(7).unwrap().0[0]), (1, 0));
    let kinds: Vec<Kind> = all
        .iter()
        .filter_map(|did| if let Did::Thread(_, kind) = did { Some(*kind) } else { None })
        .collect();
    assert_eq!(leaves.fates(&kinds), [Fate::Reached, Fate::Lost]);
}

// `clflush` is in order with the stores behind it, whichever line they are to.
#[test]
fn what_clflush_ties_is_decided_together() {
    let all =
        [Did::Thread(0, store(0, 1)), Did::Thread(0, Kind::Flush(0)), Did::Thread(0, store(2, 2))];
    let leaves = run(WrittenBack::ByLines(Profile::IntelAdr), &all).leaves();
    let units = leaves.units();
    assert_eq!(units.len(), 2);
    let mut first_lost = leaves.clone();
    first_lost.decide(units[0], 0);
    assert_eq!(first_lost.ways(units[1]), 1);
    let mut second_there = leaves;
    second_there.decide(units[1], 1);
    assert_eq!(second_there.word(0).unwrap().0[0], 1);
}

#[test]
fn durable_caches_lose_a_last_part_of_all_stores() {
    let all = [Did::Thread(0, store(0, 1)), Did::Thread(0, store(2, 2))];
    let leaves = run(WrittenBack::ByLines(Profile::Eadr), &all).leaves();
    let units = leaves.units();
    assert_eq!((units.len(), leaves.ways(units[0])), (1, 3));
}
