//! What groups use, reading by reading.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_experiment::Error;
use ringfence_resctrl::info::MonitoringInfo;
use ringfence_resctrl::monitor::{self, Reading, Used};
use ringfence_resctrl::{GroupId, Resctrl, State, Step, Thread, Transaction};
use ringfence_system::root::FsRoot;

use crate::running::targets::Targets;

/// What is not counted here, a sentence each.
///
/// # Errors
/// Where nothing is.
pub fn missing(info: Option<&MonitoringInfo>) -> Result<Vec<String>, Error> {
    let none = "not run, because resctrl has no monitoring here (info/L3_MON is missing): the \
                processor or its hypervisor offers none, or the kernel was started with \
                rdt=!cmt,!mbmtotal,!mbmlocal";
    let Some(info) = info else { return Err(Error::usage(none)) };
    let features = [
        ("occupancy of the cache", "llc_occupancy"),
        ("traffic to all memory", "mbm_total_bytes"),
        ("traffic to local memory", "mbm_local_bytes"),
    ];
    let lacks =
        features.iter().filter(|(_, event)| !info.mon_features.iter().any(|known| known == event));
    let said = |(what, event): &(&str, &str)| {
        format!("{what}: not run, because info/L3_MON/mon_features names no {event}")
    };
    let sentences: Vec<String> = lacks.map(said).collect();
    match sentences.len() == features.len() {
        true => Err(Error::usage(sentences.join("; "))),
        false => Ok(sentences),
    }
}

/// The counters of all groups, or of some, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readings(BTreeMap<GroupId, Vec<Reading>>);

impl Readings {
    /// Reads those of groups that are still there.
    ///
    /// # Errors
    /// Where the kernel's files cannot be read.
    pub fn take(fs: &Resctrl, only: Option<&BTreeSet<GroupId>>) -> Result<Self, Error> {
        let mut all = BTreeMap::new();
        for group in fs.groups()? {
            if only.is_some_and(|only| !only.contains(group.id())) {
                continue;
            }
            match group.monitored() {
                Ok(readings) => _ = all.insert(group.id().clone(), readings),
                Err(_) if !group.exists() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self(all))
    }

    /// The usage since an earlier reading, `seconds` ago.
    pub fn used_since(&self, before: &Self, seconds: f64) -> Vec<Used> {
        let none = Vec::new();
        let of = |(group, now): (&GroupId, &Vec<Reading>)| {
            monitor::used(group, before.0.get(group).unwrap_or(&none), now, seconds)
        };
        self.0.iter().flat_map(of).collect()
    }
}

/// Makes monitor groups of this name for what is watched, and moves it there: one below each group
/// of control in which any of it is.
///
/// # Errors
/// Where the kernel refuses, or all has ended before it was moved.
pub fn groups(
    change: &mut Transaction,
    root: &FsRoot,
    targets: &mut Targets,
    name: &str,
) -> Result<BTreeSet<GroupId>, Error> {
    let mut groups = BTreeSet::new();
    let mut moved = BTreeSet::new();
    loop {
        let fs = change.resctrl();
        let state = State::read(fs)?;
        let mut new: BTreeMap<GroupId, Vec<Thread>> = BTreeMap::new();
        // What they start meanwhile is born where they are.
        for tid in targets.processes(root)?.into_iter().flat_map(|pid| fs.kernel().threads(pid)) {
            let Some(start) = fs.kernel().started(tid) else { continue };
            let thread = Thread { tid, start };
            let is_in = state.monitor_of(thread).is_some_and(|group| groups.contains(&group));
            if moved.insert(thread) && !is_in {
                new.entry(state.control_of(thread)).or_default().push(thread);
            }
        }
        if new.is_empty() {
            break;
        }
        for (control, threads) in new {
            let group = control.with_monitor(name);
            if groups.insert(group.clone()) {
                change.apply(Step::Create { group: group.clone() })?;
            }
            change.apply(Step::Threads { group, threads })?;
        }
    }
    if moved.is_empty() {
        return Err(Error::usage(format!(
            "{} has ended: there is nothing to watch",
            targets.name()
        )));
    }
    Ok(groups)
}
