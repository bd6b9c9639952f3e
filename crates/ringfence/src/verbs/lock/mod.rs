//! `lock`: regions that stay in a cache.

mod measure;
mod places;

use std::sync::atomic::Ordering;

use ringfence_machine::root::FsRoot;
use ringfence_machine::topology::Topology;
use ringfence_machine::units::Bytes;
use ringfence_report::json;
use ringfence_resctrl::{Domain, Options, Resctrl};
use ringfence_studies::lock;

use crate::args::{
    Lock, LockAction, LockCreate, LockList, LockMisses, LockRemove, Place, WhichCache,
};
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

use places::{find, size};

pub fn run(args: &Lock) -> Result<(), Failure> {
    match &args.action {
        LockAction::Measure(asked) => measure::run(asked),
        LockAction::Create(asked) => create(asked),
        LockAction::List(asked) => list(asked),
        LockAction::Remove(asked) => remove(asked),
        LockAction::Misses(asked) => misses(asked),
    }
}

fn options(place: &Place) -> Options {
    Options { folder: place.journal.folder.clone(), ..Options::default() }
}

fn which(root: &FsRoot, fs: &Resctrl, asked: &WhichCache) -> Result<(u32, Domain), Failure> {
    let topology = Topology::read(root).map_err(Failure::failed_by)?;
    let cpu = asked.cpu.or_else(|| topology.usable().first());
    let cpu =
        cpu.ok_or_else(|| Failure::usage("no CPU can be used here: name a cache with --cache"))?;
    if let Some(named) = asked.cpu.filter(|named| topology.cpu(*named).is_none()) {
        return Err(Failure::usage(format!("--cpu: there is no CPU {named} here")));
    }
    match (asked.cache, asked.level) {
        (Some(cache), Some(level)) => Ok((level, cache)),
        (Some(cache), None) => {
            let level = if fs.info()?.of_level(3).is_empty() { 2 } else { 3 };
            Ok((level, cache))
        }
        (None, level) => Ok(lock::default_cache(fs, &topology, level, cpu)?),
    }
}

// The processor's answer comes before that of what is mounted.
fn can(root: &FsRoot) -> Result<(), Failure> {
    match ringfence_resctrl::pseudo::support(root) {
        ringfence_resctrl::pseudo::Support::Can(_) => Ok(()),
        ringfence_resctrl::pseudo::Support::Cannot(why) => Err(Failure::usage(why)),
    }
}

fn create(asked: &LockCreate) -> Result<(), Failure> {
    let root = host::root(&asked.place.root)?;
    let bytes = size("size", &asked.size)?;
    can(&root)?;
    let fs = find(&root)?;
    let at = which(&root, &fs, &asked.which)?;
    let plan =
        lock::create(&root, &fs, &asked.name, at, bytes, asked.dry_run, &options(&asked.place))?;
    output::print(&ringfence_report::lock_created(&plan, asked.dry_run, &output::style()))
}

fn list(asked: &LockList) -> Result<(), Failure> {
    let root = host::root(&asked.place.root)?;
    let fs = find(&root)?;
    let regions = lock::locked(&root, &fs, &options(&asked.place))?;
    if asked.json {
        return output::print_json(&json::lock_list(&regions));
    }
    output::print(&ringfence_report::locked(&regions, &output::style()))
}

fn remove(asked: &LockRemove) -> Result<(), Failure> {
    let root = host::root(&asked.place.root)?;
    let fs = find(&root)?;
    let restored = lock::remove(&fs, &asked.name, &options(&asked.place))?;
    output::print(&ringfence_report::restored(&restored, false, &output::style()))
}

fn misses(asked: &LockMisses) -> Result<(), Failure> {
    let root = host::root(&asked.place.root)?;
    let sizes: Vec<Bytes> =
        asked.size.iter().map(|text| size("size", text)).collect::<Result<_, _>>()?;
    can(&root)?;
    let fs = find(&root)?;
    let at = which(&root, &fs, &asked.which)?;
    let stop = host::stop_on_signals()?;
    let stopped = || stop.load(Ordering::Relaxed);
    let all =
        lock::misses(&root, &fs, at, &sizes, asked.repeats, &options(&asked.place), &stopped)?;
    if asked.json {
        return output::print_json(&json::lock_misses(&all));
    }
    output::print(&ringfence_report::lock_misses(&all, &output::style()))
}
