//! Traces that are made in a few words.

use ringfence_persist::Flush;
use ringfence_trace::census::dynamic::{self, Executed, Run};
use ringfence_trace::events::{
    Action, Callers, Ended, Event, Frame, Medium, Place, Site, Thread, TracedFile,
};
use ringfence_trace::recording::{About, Reader, Writer};

pub const PROGRAM: &str = "/no/such/program";
pub const LIBRARY: &str = "/no/such/library.so";

pub fn at(offset: u64) -> Place {
    Place { file: 1, offset }
}

pub fn store(offset: u64, size: usize) -> Action {
    Action::Store { at: at(offset), bytes: vec![7; size] }
}

pub fn nt(offset: u64, size: usize) -> Action {
    Action::NonTemporal { at: at(offset), bytes: vec![7; size] }
}

pub fn clwb(offset: u64) -> Action {
    Action::Flush { flush: Flush::Clwb, at: at(offset) }
}

pub fn locked(offset: u64) -> Action {
    Action::Locked { stores: Some((at(offset), vec![7; 8])) }
}

pub const SFENCE: Action = Action::Sfence;
pub const ELSEWHERE: Action = Action::Locked { stores: None };

/// Events of threads at sites: the site's number is the event's, from 1, and its callers are 1.
pub fn events(all: impl IntoIterator<Item = (u32, Action)>) -> Vec<Event> {
    let event = |(number, (thread, action))| Event {
        sequence: u64::from(number),
        thread,
        site: number,
        callers: 1,
        action,
    };
    (1..).zip(all).map(event).collect()
}

// Callers 1 are called from the library, and that from the program at 0x500.
const CALLERS: [&[(&str, u64)]; 2] = [&[(LIBRARY, 0x300), (PROGRAM, 0x501)], &[(LIBRARY, 0x300)]];

/// The census of events. Sites lie in the library, at their number; callers 1 are called from the
/// library, and that from the program at 0x500.
pub fn census(events: &[Event]) -> Run {
    census_on(Some(Medium::Dax), false, events)
}

/// The same of files on a medium, with loads recorded or not.
pub fn census_on(medium: Option<Medium>, loads: bool, events: &[Event]) -> Run {
    let last = events.iter().map(|event| event.site).max().unwrap_or(0);
    let sites: Vec<_> = (1..=last.into()).map(|address| (LIBRARY, address)).collect();
    made(medium, loads, &sites, &CALLERS, events)
}

/// The same of sites at these addresses, the first of which is number 1.
pub fn census_of_sites(addresses: &[u64], events: &[Event]) -> Run {
    let sites: Vec<_> = addresses.iter().map(|address| (LIBRARY, *address)).collect();
    census_called(&sites, &CALLERS, events)
}

/// The same of these sites and callers, each a module and an address.
pub fn census_called(sites: &[(&str, u64)], callers: &[&[(&str, u64)]], events: &[Event]) -> Run {
    made(Some(Medium::Dax), false, sites, callers, events)
}

fn made(
    medium: Option<Medium>,
    loads: bool,
    sites: &[(&str, u64)],
    callers: &[&[(&str, u64)]],
    events: &[Event],
) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), About { loads, ..About::default() }).unwrap();
    for id in 1..=2 {
        writer.file(TracedFile { id, path: format!("/mnt/{id}"), size: 1 << 20, medium }).unwrap();
    }
    for (id, (module, address)) in (1..).zip(sites) {
        writer.site(&Site { id, module: (*module).into(), address: *address, bytes: vec![0x90] });
    }
    for (id, frames) in (1..).zip(callers) {
        let frame =
            |(module, address): &(&str, u64)| Frame { module: (*module).into(), address: *address };
        writer.callers(&Callers { id, frames: frames.iter().map(frame).collect() });
    }
    writer.thread(Thread { id: 1, process: 1, tid: 1, name: "it".into() });
    events.iter().for_each(|event| writer.push(event).unwrap());
    writer.finish(Ended::Exited(0)).unwrap();
    dynamic::of(&Reader::open(folder.path()).unwrap()).unwrap()
}

/// What was executed by the event of this number.
pub fn of(run: &Run, number: u64) -> Executed {
    let is_it = |place: &ringfence_trace::events::Location| place.address == number;
    run.sites.iter().find(|row| row.location.as_ref().is_some_and(is_it)).unwrap().executed
}
