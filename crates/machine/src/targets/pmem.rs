//! Persistent-memory regions, namespaces and device DAX.

use rustix::fs::{Access, access};

use crate::root::FsRoot;
use crate::units::Bytes;

use super::target::{Target, TargetKind};

/// What the kernel knows of the region behind a device.
#[derive(Default)]
pub(super) struct Region {
    pub node: Option<u32>,
    pub persistence_domain: Option<String>,
    provider: Option<String>,
}

impl Region {
    pub(super) fn explain(&self) -> String {
        match (self.persistence_domain.as_deref(), self.provider.as_deref()) {
            (_, Some("e820")) => {
                "carved out of DRAM by memmap=: it behaves like persistent memory and keeps nothing".into()
            }
            (Some("cpu_cache"), _) => "stores survive power loss once globally visible (eADR)".into(),
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
        region.persistence_domain = region.persistence_domain.or_else(|| read(dir, "persistence_domain"));
        region.provider = region.provider.or_else(|| read(dir, "provider"));
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

pub(super) fn devdax(root: &FsRoot) -> Vec<Target> {
    let dir = "/sys/bus/dax/devices";
    root.list_opt(dir)
        .into_iter()
        .map(|device| devdax_target(root, &format!("{dir}/{device}"), &device))
        .collect()
}

fn devdax_target(root: &FsRoot, path: &str, device: &str) -> Target {
    let name = format!("devdax:/dev/{device}");
    let region = region_of(root, path);
    let driver = root.link(format!("{path}/driver"));
    let driver = driver.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
    let node = root.parse_opt::<u32>(format!("{path}/target_node"));
    let target = match driver.as_deref() {
        Some("device_dax") => match accessible(root, device) {
            Ok(()) => Target::new(TargetKind::Devdax, name, region.explain()),
            Err(why) => Target::unusable(TargetKind::Devdax, name, why),
        },
        Some("kmem") => {
            let node = node.map_or("a node".to_string(), |node| format!("node:{node}"));
            let why = format!("in system-ram mode: its memory is that of {node}");
            Target::unusable(TargetKind::Devdax, name, why)
        }
        _ => Target::unusable(
            TargetKind::Devdax,
            name,
            "no driver is bound to it; bind device_dax with daxctl reconfigure-device --mode=devdax",
        ),
    };
    Target {
        size: root.parse_opt(format!("{path}/size")).map(Bytes),
        align: root.parse_opt(format!("{path}/align")).map(Bytes),
        node: region.node.or(node),
        persistence_domain: region.persistence_domain,
        ..target
    }
}

fn accessible(root: &FsRoot, device: &str) -> Result<(), String> {
    if root.is_host()
        && let Err(error) = access(format!("/dev/{device}"), Access::READ_OK | Access::WRITE_OK)
    {
        return Err(format!("this process may not open /dev/{device}: {}", std::io::Error::from(error)));
    }
    Ok(())
}
