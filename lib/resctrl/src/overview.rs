//! Everything that resctrl shows, as a value: for callers that look and change nothing.

use std::collections::BTreeMap;

use ringfence_system::cpulist::CpuSet;
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// Where it is mounted.
    pub place: String,
    /// How it is mounted.
    pub options: MountOptions,
    /// What can be shared out.
    pub info: Info,
    /// All groups, the default one first, each followed by its monitor groups.
    pub groups: Vec<GroupOverview>,
    /// What of `info/` and of the list of groups could not be read or understood, one sentence
    /// each: it is missing above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// A group at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupOverview {
    /// Which.
    pub group: GroupId,
    /// How it shares; `None` for monitor groups, and where that is not known.
    pub mode: Option<Mode>,
    /// What it may use; empty for monitor groups.
    pub schemata: Schemata,
    /// What its masks come to.
    pub size: Sizes,
    /// Its CPUs; `None` where they are not known.
    pub cpus: Option<CpuSet>,
    /// How many threads it has; `None` where that is not known.
    pub tasks: Option<usize>,
    /// What its threads use.
    pub readings: Vec<Reading>,
    /// What of it could not be read or understood, one sentence each: it is missing above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

impl Overview {
    /// Reads it. A group that goes while it is read is left out; of what cannot be read or
    /// understood the rest is shown ([`Overview::all_unread`]).
    pub fn read(fs: &Resctrl) -> Self {
        let (groups, mut errors) = fs.known_groups();
        let seen = groups.iter().map(|group| (group, GroupOverview::read(group)));
        let is_there = |(group, seen): &(&Group, GroupOverview)| {
            seen.unread.is_empty() || group.id().is_default() || group.exists()
        };
        let groups = seen.filter(is_there).map(|(_, seen)| seen).collect();
        let (info, more) = fs.known_info();
        errors.extend(more);
        let unread = errors.iter().map(ToString::to_string).collect();
        Self { place: fs.place(), options: fs.options(), info, groups, unread }
    }

    /// What could not be read or understood, of the whole and of each group, one sentence each.
    pub fn all_unread(&self) -> impl Iterator<Item = &String> {
        self.unread.iter().chain(self.groups.iter().flat_map(|group| &group.unread))
    }

    /// Groups of control that can still be made; `None` where nothing is shared out, or not all of
    /// it is known.
    pub fn closids_free(&self) -> Option<u32> {
        let free =
            self.info.closids_free(self.groups.iter().map(|group| (&group.group, group.mode)));
        free.filter(|_| self.unread.is_empty())
    }

    /// Groups and monitor groups that can still be made as far as monitoring goes, at most: the
    /// numbers of groups removed lately are busy until their lines have left the cache, and the
    /// kernel does not say how many those are. `None` where nothing is monitored, or not all of it
    /// is known. Groups that are being pseudo-locked, or are, are not monitored (Linux 6.1,
    /// `rdtgroup_locksetup_enter`).
    pub fn rmids_free(&self) -> Option<u32> {
        if !self.unread.is_empty() {
            return None;
        }
        let has = |group: &&GroupOverview| {
            !matches!(group.mode, Some(Mode::PseudoLocksetup | Mode::PseudoLocked))
        };
        Some(self.info.monitoring.as_ref()?.num_rmids.saturating_sub(self.count(has)))
    }

    fn count(&self, has: impl Fn(&&GroupOverview) -> bool) -> u32 {
        u32::try_from(self.groups.iter().filter(has).count()).unwrap_or(u32::MAX)
    }
}

/// What the masks of a group come to, in bytes of cache, and bandwidths as they are: by resource
/// and domain.
pub type Sizes = BTreeMap<String, BTreeMap<Domain, u64>>;

fn sizes(group: &Group) -> Result<Sizes, Error> {
    let mut sizes = Sizes::new();
    for size in group.size()? {
        sizes.entry(size.resource.to_string()).or_default().insert(size.domain, size.amount);
    }
    Ok(sizes)
}

fn known<T>(read: Result<T, Error>, unread: &mut Vec<String>) -> Option<T> {
    read.map_err(|error| unread.push(error.to_string())).ok()
}

impl GroupOverview {
    fn read(group: &Group) -> Self {
        let mut unread = Vec::new();
        let mode = known(group.mode(), &mut unread).flatten();
        // The kernel takes these files away from all users, root included, while a group has no use
        // for them.
        let locked = matches!(mode, Some(Mode::PseudoLocksetup | Mode::PseudoLocked));
        let (cpus, tasks) = (group.cpus(), group.tasks());
        let (cpus, tasks) = match locked {
            true => (Some(cpus.unwrap_or_default()), Some(tasks.unwrap_or_default())),
            false => (known(cpus, &mut unread), known(tasks, &mut unread)),
        };
        Self {
            group: group.id().clone(),
            mode,
            schemata: known(group.schemata(), &mut unread).unwrap_or_default(),
            size: known(sizes(group), &mut unread).unwrap_or_default(),
            cpus,
            tasks: tasks.map(|tasks| tasks.len()),
            // Its number for monitoring belongs to another group by now.
            readings: if locked {
                Vec::new()
            } else {
                known(group.monitored(), &mut unread).unwrap_or_default()
            },
            unread,
        }
    }

    /// The bytes of cache that its mask comes to.
    pub fn bytes(&self, resource: &str, domain: Domain) -> Option<u64> {
        self.size.get(resource)?.get(&domain).copied()
    }
}
