//! Persistent-memory regions, namespaces and device DAX.

use std::path::Path;

use rustix::fs::{Access, access};

use crate::root::FsRoot;
use crate::topology::Topology;
use crate::units::Bytes;

use super::target::{Target, TargetKind};

/// What the kernel knows of the region behind a device.
#[derive(Default)]
pub(super) struct Region {
    pub node: Option<u32>,
    pub persistence_domain: Option<String>,
    pub origin: Option<Origin>,
    provider: Option<String>,
}

/// What a device's memory is, by the driver that found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// A module of persistent memory (`ndbusN/regionN`).
    Nvdimm,
    /// CXL memory in RAM mode, which alone has a `dax_regionN`.
    Cxl,
    /// Memory that firmware has set aside for a purpose (`EFI_MEMORY_SP`, `hmem.N`).
    SetAside,
}

impl Origin {
    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Origin::Nvdimm => "persistent memory",
            Origin::Cxl => "volatile CXL memory",
            Origin::SetAside => "memory that firmware has set aside, as HBM or CXL memory",
        }
    }

    fn of(dir: &Path) -> Option<Self> {
        let name = |dir: &Path| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = |name: &str, prefix: &str| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        };
        let (here, above) = (name(dir), dir.parent().map(name).unwrap_or_default());
        if numbered(&here, "region") && numbered(&above, "ndbus") {
            Some(Origin::Nvdimm)
        } else if numbered(&here, "dax_region") {
            Some(Origin::Cxl)
        } else if here.starts_with("hmem.") {
            Some(Origin::SetAside)
        } else {
            None
        }
    }
}

impl Region {
    pub(super) fn explain(&self) -> String {
        if let Some(origin) = self.origin.filter(|origin| *origin != Origin::Nvdimm) {
            return format!("{}: nothing is durable there", origin.words());
        }
        match (self.persistence_domain.as_deref(), self.provider.as_deref()) {
            (_, Some("e820")) => {
                "carved out of DRAM by memmap=: it behaves like persistent memory and keeps nothing"
                    .into()
            }
            (Some("cpu_cache"), _) => {
                "stores survive power loss once globally visible (eADR)".into()
            }
            (Some("memory_controller"), _) => {
                "stores survive power loss once flushed to the memory controller (ADR)".into()
            }
            (Some(other), _) => format!("the kernel calls its persistence domain '{other}'"),
            (None, _) => "the kernel does not know whether it survives power loss".into(),
        }
    }
}

/// The region that the device at sysfs path `device` lies in. Devices are folders below their
/// region, the region is one below its bus.
pub(super) fn region_of(root: &FsRoot, device: &str) -> Region {
    let mut region = Region::default();
    let Some(device) = root.resolved(device) else { return region };
    let read = |path: &std::path::Path, name: &str| root.read_opt(path.join(name));
    for dir in device.ancestors() {
        region.node = region.node.or_else(|| read(dir, "numa_node")?.parse().ok());
        region.persistence_domain =
            region.persistence_domain.or_else(|| read(dir, "persistence_domain"));
        region.provider = region.provider.or_else(|| read(dir, "provider"));
        region.origin = region.origin.or_else(|| Origin::of(dir));
    }
    region
}

pub(super) fn namespaces(root: &FsRoot) -> Vec<Target> {
    let dir = "/sys/bus/nd/devices";
    let names = root.list_opt(dir).into_iter().filter(|name| name.starts_with("namespace"));
    let mut targets = Vec::new();
    for name in names {
        let path = format!("{dir}/{name}");
        let size = root.parse_opt::<u64>(format!("{path}/size")).unwrap_or(0);
        // Every region has an empty namespace from which the next one is made.
        if size == 0 {
            continue;
        }
        let why = match root.read_opt(format!("{path}/mode")).as_deref() {
            Some("dax") => continue, // listed as a device
            Some("memory") => "in fsdax mode: reached through a file system mounted with -o dax",
            Some("sector") => {
                "in sector mode: cannot be mapped; recreate it with ndctl in fsdax or devdax mode"
            }
            _ => "in raw mode: recreate it with ndctl in fsdax or devdax mode",
        };
        let region = region_of(root, &path);
        targets.push(Target {
            size: Some(Bytes(size)),
            node: region.node,
            persistence_domain: region.persistence_domain,
            ..Target::unusable(TargetKind::Namespace, name, why)
        });
    }
    targets
}

/// A device of `/sys/bus/dax`.
pub(super) struct DaxDevice {
    pub name: String,
    pub region: Region,
    // The driver's name, if one is bound to it.
    driver: Option<String>,
    // The node that its memory is, or would be.
    target_node: Option<u32>,
}

impl DaxDevice {
    /// The node that its memory was given to as ordinary memory.
    pub fn given_to(&self) -> Option<u32> {
        self.target_node.filter(|_| self.driver.as_deref() == Some("kmem"))
    }
}

const DAX: &str = "/sys/bus/dax/devices";

pub(super) fn dax_devices(root: &FsRoot) -> Vec<DaxDevice> {
    let device = |name: String| {
        let path = format!("{DAX}/{name}");
        let driver = root.link(format!("{path}/driver"));
        DaxDevice {
            region: region_of(root, &path),
            driver: driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
            target_node: root.parse_opt(format!("{path}/target_node")),
            name,
        }
    };
    root.list_opt(DAX).into_iter().map(device).collect()
}

pub(super) fn devdax(root: &FsRoot, devices: &[DaxDevice], topology: &Topology) -> Vec<Target> {
    devices.iter().map(|device| devdax_target(root, device, topology)).collect()
}

fn devdax_target(root: &FsRoot, device: &DaxDevice, topology: &Topology) -> Target {
    let path = format!("{DAX}/{}", device.name);
    let (name, region) = (format!("devdax:/dev/{}", device.name), &device.region);
    // What a device would be, or was to be, need not be there.
    let there = |node: &u32| topology.nodes.iter().any(|known| known.id == *node);
    let target = match device.driver.as_deref() {
        Some("device_dax") => match accessible(root, &device.name) {
            Ok(()) => Target::new(TargetKind::Devdax, name, region.explain()),
            Err(why) => Target::unusable(TargetKind::Devdax, name, why),
        },
        Some("kmem") => {
            let why = match device.target_node {
                Some(node) if there(&node) => {
                    format!("in system-ram mode: its memory is that of node:{node}")
                }
                Some(node) => format!(
                    "in system-ram mode, for node {node}, which is not there: bring its memory \
                     online (daxctl \
                     online-memory {})",
                    device.name
                ),
                None => "in system-ram mode: its memory is that of a node".into(),
            };
            Target::unusable(TargetKind::Devdax, name, why)
        }
        _ => Target::unusable(
            TargetKind::Devdax,
            name,
            "no driver is bound to it; bind device_dax with daxctl reconfigure-device \
             --mode=devdax",
        ),
    };
    Target {
        size: root.parse_opt(format!("{path}/size")).map(Bytes),
        align: root.parse_opt(format!("{path}/align")).map(Bytes),
        node: device.given_to().or(region.node).or(device.target_node).filter(there),
        persistence_domain: region.persistence_domain.clone(),
        volatile: matches!(region.origin, Some(Origin::Cxl | Origin::SetAside)),
        ..target
    }
}

fn accessible(root: &FsRoot, device: &str) -> Result<(), String> {
    if root.is_host()
        && let Err(error) = access(format!("/dev/{device}"), Access::READ_OK | Access::WRITE_OK)
    {
        return Err(format!(
            "this process may not open /dev/{device}: {}",
            std::io::Error::from(error)
        ));
    }
    Ok(())
}
