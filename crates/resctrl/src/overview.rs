//! Everything that resctrl shows, as a value: for those who look and change nothing.

use std::collections::BTreeMap;

use ringfence_sysfs::cpulist::CpuSet;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::fs::{MountOptions, Resctrl};
use crate::group::Group;
use crate::id::GroupId;
use crate::info::Info;
use crate::mode::Mode;
use crate::monitor::Reading;
use crate::schemata::{Domain, Schemata};

/// The mounted file system at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overview {
    /// Where it is mounted.
    pub place: String,
    /// How it is mounted.
    pub options: MountOptions,
    /// What can be shared out.
    pub info: Info,
    /// All groups, the default one first, each followed by its monitor groups.
    pub groups: Vec<GroupOverview>,
}

/// A group at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOverview {
    /// Which.
    pub group: GroupId,
    /// How it shares; `None` for monitor groups.
    pub mode: Option<Mode>,
    /// What it may use; empty for monitor groups.
    pub schemata: Schemata,
    /// What its masks come to.
    pub size: Sizes,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// How many threads it has.
    pub tasks: usize,
    /// What its threads use.
    pub readings: Vec<Reading>,
}

impl Overview {
    /// Reads it. A group that goes while it is read is left out.
    ///
    /// # Errors
    /// Where a file cannot be read or understood.
    pub fn read(fs: &Resctrl) -> Result<Self, Error> {
        let mut groups = Vec::new();
        for group in fs.groups()? {
            match GroupOverview::read(&group) {
                Ok(seen) => groups.push(seen),
                Err(_) if !group.exists() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { place: fs.place(), options: fs.options(), info: fs.info()?, groups })
    }

    /// Groups of control that can still be made; `None` where nothing is shared out.
    pub fn closids_free(&self) -> Option<u32> {
        self.info.closids_free(self.groups.iter().map(|group| (&group.group, group.mode)))
    }

    /// Groups and monitor groups that can still be made as far as monitoring goes, at most: the numbers of
    /// groups removed lately are busy until their lines have left the cache, and the kernel does not say
    /// how many those are. `None` where nothing is monitored. Groups that are being pseudo-locked, or are,
    /// are not monitored (Linux 6.1, `rdtgroup_locksetup_enter`).
    pub fn rmids_free(&self) -> Option<u32> {
        let has =
            |group: &&GroupOverview| !matches!(group.mode, Some(Mode::PseudoLocksetup | Mode::PseudoLocked));
        Some(self.info.monitoring.as_ref()?.num_rmids.saturating_sub(self.count(has)))
    }

    fn count(&self, has: impl Fn(&&GroupOverview) -> bool) -> u32 {
        u32::try_from(self.groups.iter().filter(has).count()).unwrap_or(u32::MAX)
    }
}

/// What the masks of a group come to, in bytes of cache, and bandwidths as they are: by resource and domain.
pub type Sizes = BTreeMap<String, BTreeMap<Domain, u64>>;

fn sizes(group: &Group) -> Result<Sizes, Error> {
    let mut sizes = Sizes::new();
    for size in group.size()? {
        sizes.entry(size.resource.to_string()).or_default().insert(size.domain, size.amount);
    }
    Ok(sizes)
}

impl GroupOverview {
    fn read(group: &Group) -> Result<Self, Error> {
        let mode = group.mode()?;
        // The kernel takes these files away from everybody, root included, while a group has no use for them.
        let locked = matches!(mode, Some(Mode::PseudoLocksetup | Mode::PseudoLocked));
        let (cpus, tasks) = (group.cpus(), group.tasks());
        Ok(Self {
            group: group.id().clone(),
            mode,
            schemata: group.schemata()?,
            size: sizes(group)?,
            cpus: if locked { cpus.unwrap_or_default() } else { cpus? },
            tasks: if locked { tasks.unwrap_or_default() } else { tasks? }.len(),
            // Its number for monitoring is somebody else's by now.
            readings: if locked { Vec::new() } else { group.monitored()? },
        })
    }

    /// The bytes of cache that its mask comes to.
    pub fn bytes(&self, resource: &str, domain: Domain) -> Option<u64> {
        self.size.get(resource)?.get(&domain).copied()
    }
}
