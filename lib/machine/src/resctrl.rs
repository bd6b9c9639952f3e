//! The resources and settings of resctrl on this machine.

use ringfence_resctrl::info::Info;
use ringfence_resctrl::{Absent, MountOptions, Overview, Resctrl, Schemata};
use serde::{Deserialize, Serialize};

use crate::root::FsRoot;

/// Of resctrl, what figures depend on. Groups are counted, not named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Offered {
    /// How it is mounted.
    pub options: MountOptions,
    /// What can be shared out, and what is monitored.
    pub info: Info,
    /// What tasks may use that no group has.
    pub default: Schemata,
    /// Groups and monitor groups other than the default one.
    pub groups: usize,
    /// Groups that can still be made.
    pub closids_free: Option<u32>,
    /// Groups and monitor groups that can still be monitored, at most.
    pub rmids_free: Option<u32>,
}

impl From<&Overview> for Offered {
    fn from(seen: &Overview) -> Self {
        Self {
            options: seen.options,
            info: seen.info.clone(),
            default: seen.groups.first().map(|group| group.schemata.clone()).unwrap_or_default(),
            groups: seen.groups.len().saturating_sub(1),
            closids_free: seen.closids_free(),
            rmids_free: seen.rmids_free(),
        }
    }
}

/// What the resctrl below a root shows.
///
/// # Errors
/// Why there is none.
pub fn look(root: &FsRoot) -> Result<Overview, Absent> {
    Ok(Overview::read(&Resctrl::find(root)?))
}

/// As [`look`]; `None` where there is nothing to be seen, or not all of it is known that this says.
pub(crate) fn offered(root: &FsRoot) -> Option<Offered> {
    let seen = look(root).ok()?;
    let known =
        seen.unread.is_empty() && seen.groups.first().is_none_or(|group| group.unread.is_empty());
    known.then(|| Offered::from(&seen))
}

/// Whether it could be mounted.
pub(crate) fn is_mountable(absent: &Absent) -> bool {
    *absent == Absent::NotMounted
}
