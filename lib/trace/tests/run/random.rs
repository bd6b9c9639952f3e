//! Random traces, in which a few threads meet in a few lines.

use std::collections::{BTreeMap, HashMap};

use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_persist::Flush;
use ringfence_trace::census::dynamic::Executed;
use ringfence_trace::events::{Action, Event, Location, Place};

use crate::builder::{PROGRAM, census};
use crate::reference::Reference;

fn place() -> impl Strategy<Value = Place> {
    // Around a page's end, so that a page can be made durable without the other.
    (1..=2u32, 3900..4400u64).prop_map(|(file, offset)| Place { file, offset })
}

fn stored() -> impl Strategy<Value = (Place, Vec<u8>)> {
    (place(), prop_oneof![1..9usize, 1..200usize]).prop_map(|(at, size)| (at, vec![1; size]))
}

fn action() -> impl Strategy<Value = Action> {
    let flush = prop::sample::select(Flush::ALL.to_vec());
    prop_oneof![
        6 => stored().prop_map(|(at, bytes)| Action::Store { at, bytes }),
        3 => stored().prop_map(|(at, bytes)| Action::NonTemporal { at, bytes }),
        1 => (place(), 1..64u32).prop_map(|(at, size)| Action::Load { at, size }),
        8 => (flush, place()).prop_map(|(flush, at)| Action::Flush { flush, at }),
        3 => Just(Action::Sfence),
        1 => Just(Action::Mfence),
        2 => prop::option::of(stored()).prop_map(|stores| Action::Locked { stores }),
        1 => (place(), 0..5000u64, prop::option::of(0..80u64))
            .prop_map(|(at, size, began)| Action::Msync { at, size, began }),
        1 => (place(), 0..5000u64).prop_map(|(at, size)| Action::SyncRange { at, size }),
        1 => stored().prop_map(|(at, bytes)| Action::Write { at, bytes }),
        1 => (1..=2u32, 3800..4500u64).prop_map(|(file, size)| Action::Truncate { file, size }),
        1 => vec(any::<u8>(), 0..9).prop_map(|bytes| Action::Output { bytes }),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    vec((1..4u32, 1..6u32, 1..3u32, action()), 0..80).prop_map(|all| {
        let event = |(sequence, (thread, site, callers, mut action))| {
            // None begins after it has ended.
            if let Action::Msync { began: Some(began), .. } = &mut action {
                *began = u64::min(*began, sequence - 1);
            }
            Event { sequence, thread, site, callers, action }
        };
        (1..).zip(all).map(event).collect()
    })
}

fn address(location: &Option<Location>) -> u32 {
    location.as_ref().map_or(0, |location| location.address as u32)
}

proptest! {
    #[test]
    fn it_is_as_the_reference_has_it(events in events()) {
        let (run, reference) = (census(&events), Reference::new(&events));
        let mut sites = HashMap::new();
        let (mut outside, mut total) = (Executed::default(), Executed::default());
        for ((site, callers), executed) in reference.executed() {
            *sites.entry(site).or_insert_with(Executed::default) += executed;
            total += executed;
            if callers == 1 {
                outside += executed;
            }
        }
        let found: HashMap<u32, Executed> =
            run.sites.iter().map(|row| (address(&row.location), row.executed)).collect();
        prop_assert_eq!(found, sites);
        prop_assert_eq!(run.total, total);
        let program = |row: &&ringfence_trace::census::dynamic::AtPlace| {
            row.location.as_ref().is_some_and(|place| place.module == PROGRAM)
        };
        let row = run.callers.iter().find(program);
        let found = row.map_or(Executed::default(), |row| row.executed);
        prop_assert_eq!(found, outside);
        prop_assert_eq!(run.most_dirty_lines, reference.most_dirty_lines());
        let found: BTreeMap<(u32, u32), u64> = run
            .races
            .iter()
            .map(|race| ((address(&race.first), address(&race.second)), race.count))
            .collect();
        prop_assert_eq!(found, reference.races());
    }
}
