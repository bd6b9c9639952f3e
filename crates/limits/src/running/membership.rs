//! A group with limits, and processes moved into it.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_experiment::Error;
use ringfence_resctrl::{GroupId, Resctrl, Schemata, State, Step, Transaction};
use ringfence_system::root::FsRoot;

use crate::running::limits::{Checked, Limits, check};
use crate::running::loan;
use crate::running::targets::Targets;

/// Checks limits for these processes: what they would have otherwise, which is what the first of
/// them has, and what they are to have.
///
/// # Errors
/// As of [`check`], and where the kernel's files cannot be read.
pub fn check_for(
    asked: &Limits,
    fs: &Resctrl,
    state: &State,
    processes: &BTreeSet<u32>,
) -> Result<(Schemata, Checked), Error> {
    let homes: Vec<_> = processes.iter().map(|pid| loan::home(fs, state, *pid)).collect();
    let base = homes.first().map(|(_, schemata)| schemata.clone()).unwrap_or_default();
    let mut checked = check(asked, &fs.info()?, state, &base)?;
    if !asked.is_none() && homes.iter().any(|(_, schemata)| *schemata != base) {
        let first = &homes[0].0;
        checked.notes.push(format!(
            "the processes are in groups with different limits: any limit that you do not give is \
             taken from {first}"
        ));
    }
    Ok((base, checked))
}

/// Makes a group that has this: a new one has what the kernel finds free.
///
/// # Errors
/// Where the kernel refuses.
pub fn make_group(
    change: &mut Transaction,
    group: &GroupId,
    wanted: &Schemata,
) -> Result<(), Error> {
    change.apply(Step::Create { group: group.clone() })?;
    let schemata = wanted.differing_from(&change.resctrl().group(group).schemata()?);
    if !schemata.is_empty() {
        change.apply(Step::Schemata { group: group.clone(), schemata })?;
    }
    Ok(())
}

/// Processes that were moved, and how many threads of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved(BTreeMap<u32, usize>);

impl Moved {
    /// How many processes.
    pub fn processes(&self) -> usize {
        self.0.len()
    }

    /// How many threads, of all.
    pub fn threads(&self) -> usize {
        self.0.values().sum()
    }

    /// Whether all have ended, and what they have started in this group, too. A process that has
    /// left the group counts as ended, unless it is the default group, which holds others.
    pub fn have_ended(&self, fs: &Resctrl, group: &GroupId) -> bool {
        if group.is_default() {
            return self.0.keys().all(|pid| fs.kernel().threads(*pid).is_empty());
        }
        fs.group(group).tasks().is_ok_and(|tasks| tasks.is_empty())
    }
}

// How often to look for processes that were started meanwhile.
const LOOKS: usize = 20;

/// Moves all processes into a group. A process may start others while it is moved, which are born
/// into its old group, so this repeats until it finds no more of them. Moves no process where all
/// have ended.
///
/// # Errors
/// Where the kernel refuses, or one that is not to be touched has joined: then all is as before.
pub fn move_into(
    change: &mut Transaction,
    root: &FsRoot,
    targets: &mut Targets,
    group: &GroupId,
) -> Result<Moved, Error> {
    let mut moved = BTreeMap::new();
    for _ in 0..LOOKS {
        let living = match targets.processes(root) {
            Ok(living) => living,
            Err(error) => {
                change.restore()?;
                return Err(error);
            }
        };
        let new: Vec<u32> = living.into_iter().filter(|pid| !moved.contains_key(pid)).collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            let threads = change.move_process(group, pid)?;
            if threads > 0 {
                moved.insert(pid, threads);
            }
        }
    }
    Ok(Moved(moved))
}
