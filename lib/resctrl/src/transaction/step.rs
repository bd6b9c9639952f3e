//! What a transaction does, one thing at a time, as a value.

use std::fmt;

use ringfence_system::cpulist::CpuSet;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::fs::Resctrl;
use crate::id::GroupId;
use crate::kernel::Thread;
use crate::mode::Mode;
use crate::schemata::Schemata;

/// A single change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Step {
    /// Makes a group.
    Create {
        /// Which.
        group: GroupId,
    },
    /// Sets what a group may use; what is not named stays.
    Schemata {
        /// Which.
        group: GroupId,
        /// The settings.
        schemata: Schemata,
    },
    /// Sets how a group shares.
    Mode {
        /// Which.
        group: GroupId,
        /// The mode.
        mode: Mode,
    },
    /// Sets the CPUs of a group.
    Cpus {
        /// Which.
        group: GroupId,
        /// All of them.
        cpus: CpuSet,
    },
    /// Moves threads into a group. Those that have ended by then are left out. What they start in a
    /// group that the transaction has made goes where they came from; what they start in a group
    /// that was there before stays in it.
    Threads {
        /// Which.
        group: GroupId,
        /// The threads.
        threads: Vec<Thread>,
    },
    /// Removes a group that this transaction has made.
    Remove {
        /// Which.
        group: GroupId,
    },
}

impl Step {
    /// The group that it is about.
    pub fn group(&self) -> &GroupId {
        match self {
            Step::Create { group }
            | Step::Schemata { group, .. }
            | Step::Mode { group, .. }
            | Step::Cpus { group, .. }
            | Step::Threads { group, .. }
            | Step::Remove { group } => group,
        }
    }

    /// Takes it. Where the kernel has made something else of it than was asked for, returns the
    /// step that asks for just that.
    pub(crate) fn execute(&self, fs: &Resctrl) -> Result<Option<Step>, Error> {
        let group = fs.group(self.group());
        let done = match self {
            Step::Create { .. } => group.create_marked(),
            // A region that is being locked shows its schemata once it is.
            Step::Schemata { schemata, .. } if group.mode()? == Some(Mode::PseudoLocksetup) => {
                group.set_schemata(schemata)
            }
            Step::Schemata { group: id, schemata } => {
                let instead = group.set_schemata_checked(schemata)?.in_place_of(schemata);
                let step = || Step::Schemata { group: id.clone(), schemata: instead.clone() };
                return Ok((!instead.is_empty()).then(step));
            }
            Step::Mode { mode, .. } => group.set_mode(*mode),
            Step::Cpus { cpus, .. } => group.set_cpus(cpus),
            Step::Remove { .. } => group.remove(),
            Step::Threads { threads, .. } => threads.iter().try_for_each(|thread| {
                if fs.kernel().started(thread.tid) != Some(thread.start) {
                    return Ok(());
                }
                match group.add_thread(thread.tid) {
                    Err(error) if error.errno() == Some(libc::ESRCH) => Ok(()),
                    other => other,
                }
            }),
        };
        done.map(|()| None)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Create { group } => write!(f, "make group {group}"),
            Step::Schemata { group, schemata } => {
                let text = schemata.to_string();
                write!(f, "set {} in {group}", text.trim_end().replace('\n', ", "))
            }
            Step::Mode { group, mode } => write!(f, "make {group} {}", mode.word()),
            Step::Cpus { group, cpus } if cpus.is_empty() => {
                write!(f, "take all CPUs from {group}")
            }
            Step::Cpus { group, cpus } => write!(f, "give CPUs {cpus} to {group}"),
            Step::Threads { group, threads } => match threads.as_slice() {
                [one] => write!(f, "move thread {} to {group}", one.tid),
                many => write!(f, "move {} threads to {group}", many.len()),
            },
            Step::Remove { group } => write!(f, "remove group {group}"),
        }
    }
}
