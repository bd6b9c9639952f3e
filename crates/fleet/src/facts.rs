//! What a host is, in columns.

use std::collections::BTreeSet;
use std::path::Path;

use ringfence_experiment::Error;
use ringfence_machine::Machine;
use ringfence_machine::features::has_cpuinfo_flag;
use ringfence_machine::hypervisor;
use ringfence_machine::root::FsRoot;
use serde::{Deserialize, Serialize};

use crate::attempt::{self, HOST};

/// What is known of a host before a task runs there. Unlike `machine.json` of a dataset it names
/// the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The node as the engine calls it: unique, unlike the names that hosts give themselves.
    pub node: String,
    /// The name that the host gives itself.
    pub hostname: Option<String>,
    /// The processor.
    pub cpu: Option<String>,
    /// `GenuineIntel`, `AuthenticAMD`, ...
    pub vendor: Option<String>,
    /// Display family.
    pub family: Option<u32>,
    /// Display model.
    pub model: Option<u32>,
    /// Stepping.
    pub stepping: Option<u32>,
    /// Microcode.
    pub microcode: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The hypervisor, where there is one.
    pub hypervisor: Option<String>,
    /// The firmware's version.
    pub bios: Option<String>,
    /// What the maker calls the machine.
    pub product: Option<String>,
    /// Sockets.
    pub sockets: Option<u32>,
    /// Cores that run.
    pub cores: Option<u32>,
    /// Hardware threads that run.
    pub threads: Option<u32>,
    /// Whether cores run several threads.
    pub smt: Option<bool>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// The frequency governor; of several all.
    pub governor: Option<String>,
    /// Whether boost is on.
    pub boost: Option<bool>,
    /// Whether there is `clwb`.
    pub clwb: Option<bool>,
    /// Whether AVX-512 can be used.
    pub avx512: Option<bool>,
    /// What doctor found, by its names.
    pub doctor: Vec<String>,
    /// What other work there was when the task began, where doctor saw any.
    pub busy: Option<String>,
}

/// A fact as a value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// Text.
    Text(Option<String>),
    /// A number.
    Number(Option<u32>),
    /// Yes or no.
    Flag(Option<bool>),
}

impl Facts {
    /// Those of an attempt, as they were written when it began.
    pub(crate) fn read(attempt: &Path) -> Result<Self, Error> {
        let path = attempt.join(HOST);
        let facts: Option<Self> = attempt::get(&path)?;
        facts.ok_or_else(|| Error::failed(format!("{} is missing", path.display())))
    }

    /// Looks at the machine below `root`; `node` is what the engine calls it.
    ///
    /// # Errors
    /// Where not even its CPUs can be listed.
    pub fn look(root: &FsRoot, node: &str) -> Result<Self, Error> {
        let machine = Machine::examine(root).map_err(Error::failed_by)?;
        let features = machine.features.as_ref();
        let flag = |name: &str| Some(has_cpuinfo_flag(root, name));
        let topology = &machine.topology;
        let busy = machine.findings.iter().filter(|finding| BUSY.contains(&finding.id.as_str()));
        let busy: Vec<String> = busy.map(|finding| finding.cause.clone()).collect();
        let by_cpuid = features.and_then(|features| features.hypervisor.clone());
        let hypervisor = by_cpuid.filter(|name| name != "unknown").or_else(|| {
            hypervisor::guest(root)
                .map(|guest| guest.hypervisor.unwrap_or_else(|| "unknown".into()))
        });
        let some = |count: usize| u32::try_from(count).ok().filter(|count| *count > 0);
        Ok(Self {
            node: node.into(),
            hostname: root.read_opt("/proc/sys/kernel/hostname"),
            cpu: machine.processor.brand.clone(),
            vendor: machine.processor.vendor.clone(),
            family: machine.processor.family,
            model: machine.processor.model,
            stepping: machine.processor.stepping,
            microcode: machine.processor.microcode.clone(),
            kernel: machine.kernel.clone(),
            hypervisor,
            bios: root.read_opt("/sys/class/dmi/id/bios_version"),
            product: root.read_opt("/sys/class/dmi/id/product_name"),
            sockets: some(topology.packages.len()),
            cores: some(topology.cores.len()).filter(|_| topology.cores_known()),
            threads: some(topology.online.len()),
            smt: (!topology.cores.is_empty())
                .then(|| topology.cores.iter().any(|core| core.cpus.len() > 1)),
            numa_nodes: some(topology.nodes.len()),
            governor: governor(root, &machine),
            boost: boost(root),
            clwb: features.map_or_else(|| flag("clwb"), |features| Some(features.clwb)),
            avx512: features.map_or_else(|| flag("avx512f"), |features| Some(features.avx512f)),
            doctor: {
                let ids: BTreeSet<String> =
                    machine.findings.into_iter().map(|finding| finding.id).collect();
                ids.into_iter().collect()
            },
            busy: (!busy.is_empty()).then(|| busy.join("; ")),
        })
    }

    /// As columns, in a fixed order; the node is the partition's name too, as text whatever it
    /// looks like.
    pub fn columns(&self) -> Vec<(&'static str, Fact)> {
        let text = |value: &Option<String>| Fact::Text(value.clone());
        vec![
            ("node", Fact::Text(Some(self.node.clone()))),
            ("hostname", text(&self.hostname)),
            // Samples have a column of the CPU's number.
            ("processor", text(&self.cpu)),
            ("vendor", text(&self.vendor)),
            ("family", Fact::Number(self.family)),
            ("model", Fact::Number(self.model)),
            ("stepping", Fact::Number(self.stepping)),
            ("microcode", text(&self.microcode)),
            ("kernel", text(&self.kernel)),
            ("hypervisor", text(&self.hypervisor)),
            ("bios", text(&self.bios)),
            ("product", text(&self.product)),
            ("sockets", Fact::Number(self.sockets)),
            ("cores", Fact::Number(self.cores)),
            ("threads", Fact::Number(self.threads)),
            ("smt", Fact::Flag(self.smt)),
            ("numa_nodes", Fact::Number(self.numa_nodes)),
            ("governor", text(&self.governor)),
            ("boost", Fact::Flag(self.boost)),
            ("clwb", Fact::Flag(self.clwb)),
            ("avx512", Fact::Flag(self.avx512)),
            ("doctor", Fact::Text(Some(self.doctor.join(",")))),
            ("busy", text(&self.busy)),
        ]
    }
}

impl Fact {
    /// As people read it; `unknown` where it is not known.
    pub fn words(&self) -> String {
        let words = match self {
            Self::Text(value) => value.clone(),
            Self::Number(value) => value.map(|value| value.to_string()),
            Self::Flag(value) => value.map(|value| if value { "yes" } else { "no" }.into()),
        };
        words.unwrap_or_else(|| "unknown".into())
    }
}

/// Doctor's findings that tell of others' work.
const BUSY: [&str; 2] = ["load", "steal-time"];

fn governor(root: &FsRoot, machine: &Machine) -> Option<String> {
    let of =
        |cpu| root.read_opt(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    let names: BTreeSet<String> = machine.topology.online.iter().filter_map(of).collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(","))
}

fn boost(root: &FsRoot) -> Option<bool> {
    let file = |name: &str| root.read_opt(format!("/sys/devices/system/cpu/{name}"));
    let turbo = file("intel_pstate/no_turbo").map(|text| text == "0");
    turbo.or_else(|| file("cpufreq/boost").map(|text| text == "1"))
}

#[cfg(test)]
mod tests {
    use ringfence_machine::fixtures;

    use super::*;

    #[test]
    fn a_server_and_a_guest_are_what_their_files_say() {
        let tree = fixtures::xeon_2s64t();
        let xeon = Facts::look(&tree.root(), "n1").unwrap();
        assert_eq!(
            (xeon.sockets, xeon.cores, xeon.threads, xeon.smt),
            (Some(2), Some(32), Some(64), Some(true))
        );
        assert_eq!((xeon.node.as_str(), xeon.numa_nodes), ("n1", Some(2)));
        assert!(xeon.avx512 == Some(true) && xeon.hypervisor.is_none(), "{xeon:?}");
        let tree = fixtures::vm_2cpu();
        tree.write("/proc/loadavg", "1.90 1.0 1.0 2/100 1\n");
        let guest = Facts::look(&tree.root(), "n2").unwrap();
        assert!(guest.hypervisor.is_some() && guest.avx512 == Some(true), "{guest:?}");
        assert!(guest.busy.as_ref().unwrap().contains("on average 1.9 tasks"), "{guest:?}");
        assert!(
            guest.doctor.contains(&"load".to_string())
                && guest.doctor.contains(&"virtual-machine".to_string())
        );
        let zen = Facts::look(&fixtures::zen_multi_llc().root(), "n3").unwrap();
        assert_eq!(zen.avx512, Some(false), "{zen:?}");
        let names: BTreeSet<&str> = guest.columns().iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), xeon.columns().len());
        let again: Facts = serde_json::from_value(serde_json::to_value(&guest).unwrap()).unwrap();
        assert_eq!(again, guest);
    }
}
