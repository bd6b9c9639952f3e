//! What the crate records of a command.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_persist::Flush;
use ringfence_trace::events::{Action, Ended};
use ringfence_trace::record::{Options, record};
use ringfence_trace::recording::{About, Reader, Writer};

use crate::effects::{Entry, Site, What};
use crate::modules::Modules;

pub struct Recorded {
    pub code: i32,
    /// Of each thread, and of the process that comes first.
    pub threads: Vec<Vec<Entry>>,
    pub first: Vec<Entry>,
    pub locked: u64,
    pub modules: Modules,
    /// Sites by the function that they stand in.
    pub functions: BTreeMap<String, HashSet<Site>>,
}

/// Records a command's use of a file, in `folder`.
pub fn of(folder: &Path, command: Vec<OsString>, file: PathBuf) -> Recorded {
    let trace = folder.join("trace");
    let mut writer = Writer::create(&trace, About::default()).unwrap();
    let options = Options { command, files: vec![file], ..Options::default() };
    let outcome = record(options, &mut writer).unwrap();
    writer.finish(outcome.ended.clone()).unwrap();
    let Ended::Exited(code) = outcome.ended else { panic!("{outcome:?}") };
    let reader = Reader::open(&trace).unwrap();
    let mut modules = Modules::default();
    let mut functions: BTreeMap<String, HashSet<Site>> = BTreeMap::new();
    let mut threads: BTreeMap<u32, Vec<Entry>> = BTreeMap::new();
    for event in reader.events() {
        let event = event.unwrap();
        let (what, bytes) = match &event.action {
            Action::Store { at, bytes } => (What::Store, Some((at.offset, bytes.len() as u64))),
            Action::NonTemporal { at, bytes } => {
                (What::NonTemporal, Some((at.offset, bytes.len() as u64)))
            }
            Action::Locked { stores } => {
                (What::Locked, stores.as_ref().map(|(at, bytes)| (at.offset, bytes.len() as u64)))
            }
            Action::Flush { flush, at } => (kind(*flush), Some((at.offset, 0))),
            Action::Sfence => (What::Sfence, None),
            Action::Mfence => (What::Mfence, None),
            // What the kernel did, which no tracer of instructions sees.
            _ => continue,
        };
        let at = reader.site(event.site).expect("an instruction");
        let site = modules.site(&at.module, at.address);
        if let Some(function) = reader.location(&at.module, at.address).function {
            functions.entry(function).or_default().insert(site);
        }
        threads.entry(event.thread).or_default().push(Entry { site, what, bytes });
    }
    let manifest = reader.manifest();
    let process =
        manifest.threads.iter().min_by_key(|thread| thread.id).map(|thread| thread.process);
    let in_first =
        |id: &u32| manifest.threads.iter().any(|one| one.id == *id && Some(one.process) == process);
    let first =
        threads.iter().filter(|(id, _)| in_first(id)).flat_map(|(_, all)| all.clone()).collect();
    let locked = manifest.locked_in_all.expect("a count");
    let threads = threads.into_values().collect();
    Recorded { code, threads, first, locked, modules, functions }
}

fn kind(flush: Flush) -> What {
    match flush {
        Flush::Clflush => What::Clflush,
        Flush::Clflushopt => What::Clflushopt,
        Flush::Clwb => What::Clwb,
    }
}
