//! All settings of resctrl as a value: the state that a transaction restores.

use std::collections::BTreeMap;

use ringfence_system::cpulist::CpuSet;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::fs::Resctrl;
use crate::id::GroupId;
use crate::info::Info;
use crate::kernel::Thread;
use crate::mode::Mode;
use crate::schemata::Schemata;

/// A group at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    /// How it shares; `None` for monitor groups.
    pub mode: Option<Mode>,
    /// What it may use; empty for monitor groups.
    pub schemata: Schemata,
    /// Its CPUs; none of a group that is (being) pseudo-locked.
    pub cpus: CpuSet,
    /// Its threads. For the default group none are named: it has all that no other has.
    pub threads: Vec<Thread>,
}

/// All groups at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    /// By group.
    pub groups: BTreeMap<GroupId, GroupState>,
    /// Settings of resctrl as a whole, by their file below `info/`, where the kernel has them:
    /// `L3/io_alloc`, `L3_MON/mbm_assign_mode`. No step changes them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub whole: BTreeMap<String, String>,
}

impl State {
    /// The present state. A group that goes while it is read is left out.
    ///
    /// # Errors
    /// Where a file cannot be read or understood.
    pub fn read(fs: &Resctrl) -> Result<Self, Error> {
        let mut groups = BTreeMap::new();
        for group in fs.groups()? {
            let read = || -> Result<GroupState, Error> {
                let (mode, schemata) = (group.mode()?, group.schemata()?);
                // It has none, and its files of them cannot be read, by root neither, or name
                // others' CPUs.
                if matches!(mode, Some(Mode::PseudoLocksetup | Mode::PseudoLocked)) {
                    return Ok(GroupState {
                        mode,
                        schemata,
                        cpus: CpuSet::new(),
                        threads: Vec::new(),
                    });
                }
                let threads = if group.id().is_default() { Vec::new() } else { group.threads()? };
                Ok(GroupState { mode, schemata, cpus: group.cpus()?, threads })
            };
            match read() {
                Ok(state) => {
                    groups.insert(group.id().clone(), state);
                }
                Err(_) if !group.exists() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { groups, whole: whole(&fs.info()?) })
    }

    /// The group of control that has a thread, as far as it is named here: the default one
    /// otherwise.
    pub fn control_of(&self, thread: Thread) -> GroupId {
        let found = self.groups.iter().find(|(_, state)| state.threads.contains(&thread));
        found.map_or_else(GroupId::default, |(id, _)| id.parent())
    }

    /// The monitor group that has a thread, if one has.
    pub fn monitor_of(&self, thread: Thread) -> Option<GroupId> {
        let mut monitors = self.groups.iter().filter(|(id, _)| id.is_monitor());
        monitors.find(|(_, state)| state.threads.contains(&thread)).map(|(id, _)| id.clone())
    }
}

fn whole(info: &Info) -> BTreeMap<String, String> {
    let caches = info.caches.iter().filter(|(_, cache)| !cache.io_alloc.is_unsupported());
    let caches =
        caches.map(|(name, cache)| (format!("{name}/io_alloc"), cache.io_alloc.to_string()));
    let mode = info.monitoring.as_ref().and_then(|monitoring| monitoring.mbm_assign_mode.clone());
    caches.chain(mode.map(|mode| ("L3_MON/mbm_assign_mode".to_owned(), mode))).collect()
}
