//! Everything that is known of a machine, as one value.

use serde::{Deserialize, Serialize};

use crate::clock::TscEvidence;
use crate::doctor::{self, Finding};
use crate::features::{Features, Identity};
use crate::resctrl::{self, Offered};
use crate::root::{FsRoot, RootError};
use crate::targets::{self, Target};
use crate::topology::Topology;

/// The machine, as it is stored next to measurements in `machine.json`. It names neither host nor
/// user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Version of this structure; grows when a field changes its meaning.
    pub schema: u32,
    /// Kernel release, such as `6.12.0`.
    pub kernel: Option<String>,
    /// The processor by name.
    pub processor: Identity,
    /// What the processor can do; only known of the machine that the program runs on.
    pub features: Option<Features>,
    /// What speaks for the TSC as a clock.
    pub tsc: TscEvidence,
    /// Packages, cores, caches and nodes.
    pub topology: Topology,
    /// Memory to write to.
    pub targets: Vec<Target>,
    /// What resctrl offers and is set to; `None` where it is not mounted, and in files written
    /// before it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resctrl: Option<Offered>,
    /// Sources of noise, the worst first.
    pub findings: Vec<Finding>,
    /// Set if a file describes this machine and it is simulated, not examined; else `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

/// A described machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Simulated {
    /// Its short name.
    pub name: String,
    /// What a heading calls it.
    pub title: String,
    /// The text of the file that describes it.
    pub file: String,
}

impl Machine {
    /// The current [`Machine::schema`].
    pub const SCHEMA: u32 = 1;

    /// Looks at the machine below `root`. Measures nothing.
    ///
    /// Fails only where not even a list of CPUs can be read.
    pub fn examine(root: &FsRoot) -> Result<Self, RootError> {
        let topology = Topology::read(root)?;
        let targets = targets::find(root, &topology);
        let findings = doctor::examine(root, &topology, &targets);
        Ok(Self {
            schema: Self::SCHEMA,
            kernel: root.read_opt("/proc/sys/kernel/osrelease"),
            processor: Identity::from_cpuinfo(root),
            features: root.is_host().then(Features::detect),
            tsc: TscEvidence::gather(root),
            topology,
            targets,
            resctrl: resctrl::offered(root),
            findings,
            simulated: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn json_round_trip() {
        let tree = fixtures::cxl_node();
        let fenced = fixtures::xeon_2s64t();
        for root in [FsRoot::host(), tree.root(), fenced.root()] {
            let machine = Machine::examine(&root).unwrap();
            let json = serde_json::to_string_pretty(&machine).unwrap();
            assert_eq!(serde_json::from_str::<Machine>(&json).unwrap(), machine);
            assert_eq!(machine.features.is_some(), root.is_host());
        }
    }

    #[test]
    fn what_resctrl_offers_is_kept_and_may_be_missing() {
        let tree = fixtures::xeon_2s64t();
        let machine = Machine::examine(&tree.root()).unwrap();
        let offered = machine.resctrl.as_ref().unwrap();
        assert_eq!((offered.closids_free, offered.groups), (Some(15), 0));
        assert_eq!(offered.default.to_string(), "L3:0=7ff;1=7ff\nMB:0=100;1=100\n");
        let mut json = serde_json::to_value(&machine).unwrap();
        json.as_object_mut().unwrap().remove("resctrl");
        let older: Machine = serde_json::from_value(json).unwrap();
        assert_eq!(older, Machine { resctrl: None, ..machine });
    }

    #[test]
    fn names_no_host() {
        let json = serde_json::to_string(&Machine::examine(&FsRoot::host()).unwrap()).unwrap();
        let name = FsRoot::host().read_opt("/proc/sys/kernel/hostname").unwrap_or_default();
        // A short name such as "vm" may be part of some other word.
        assert!(name.len() < 8 || !json.contains(&name));
        assert!(!json.contains("hostname"));
    }
}
