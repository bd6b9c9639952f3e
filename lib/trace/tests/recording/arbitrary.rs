//! Events at random.

use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_persist::Flush;
use ringfence_trace::events::{Action, Event, Place, TracedFile};

/// Bytes of each of the files.
pub const SIZE: u64 = 8192;

pub fn files() -> Vec<TracedFile> {
    (1..=2)
        .map(|id| TracedFile { id, path: format!("/mnt/pmem/{id}"), size: SIZE, medium: None })
        .collect()
}

fn place() -> impl Strategy<Value = Place> {
    (1..=2u32, 0..SIZE).prop_map(|(file, offset)| Place { file, offset })
}

fn stored() -> impl Strategy<Value = (Place, Vec<u8>)> {
    (place(), vec(any::<u8>(), 1..200))
}

pub fn action() -> impl Strategy<Value = Action> {
    let flush = prop::sample::select(Flush::ALL.to_vec());
    prop_oneof![
        4 => stored().prop_map(|(at, bytes)| Action::Store { at, bytes }),
        2 => stored().prop_map(|(at, bytes)| Action::NonTemporal { at, bytes }),
        1 => (place(), any::<u32>()).prop_map(|(at, size)| Action::Load { at, size }),
        3 => (flush, place()).prop_map(|(flush, at)| Action::Flush { flush, at }),
        2 => Just(Action::Sfence),
        1 => Just(Action::Mfence),
        1 => prop::option::of(stored()).prop_map(|stores| Action::Locked { stores }),
        1 => (place(), any::<u64>(), any::<Option<u64>>())
            .prop_map(|(at, size, began)| Action::Msync { at, size, began }),
        1 => (place(), any::<u64>()).prop_map(|(at, size)| Action::SyncRange { at, size }),
        1 => (place(), any::<u64>(), any::<u64>())
            .prop_map(|(at, address, size)| Action::Map { at, address, size }),
        1 => (place(), any::<u64>(), any::<u64>())
            .prop_map(|(at, address, size)| Action::Unmap { at, address, size }),
        1 => stored().prop_map(|(at, bytes)| Action::Write { at, bytes }),
        1 => (1..=2u32, 0..2 * SIZE).prop_map(|(file, size)| Action::Truncate { file, size }),
        1 => vec(any::<u8>(), 0..200).prop_map(|bytes| Action::Output { bytes }),
    ]
}

prop_compose! {
    /// Numbers rise by 1 or more.
    pub fn events()(
        actions in vec((1..4u64, 0..3u32, 0..4u32, 0..3u32, action()), 0..120)
    ) -> Vec<Event> {
        let mut sequence = 0;
        actions.into_iter().map(|(step, thread, site, callers, action)| {
            sequence += step;
            Event { sequence, thread, site, callers, action }
        }).collect()
    }
}
