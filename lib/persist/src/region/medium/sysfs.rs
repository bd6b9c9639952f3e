//! The parts of a device, from its folders under `/sys/devices`.

use std::fs;
use std::path::{Path, PathBuf};

/// A leaf below a file system or behind a devdax device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ground {
    /// A region of the nvdimm subsystem.
    Nd(NdRegion),
    /// A CXL region that is not persistent memory; its folder.
    CxlVolatile(String),
    /// Memory that firmware set aside for special purposes (EFI_MEMORY_SP), which is volatile; its
    /// folder.
    SoftReserved(String),
    /// A block device whose blocks are memory: zram, brd.
    RamDisk(String),
    /// Any other device; its name.
    Device(String),
    /// Nothing is known, because.
    Unknown(String),
}

/// A region of the nvdimm subsystem (Documentation/driver-api/nvdimm/nvdimm.rst in Linux).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NdRegion {
    /// Its folder, `/sys/devices/.../ndbusN/regionN`.
    pub path: String,
    /// What registered the bus: `ACPI.NFIT`, `e820`, `CXL`, `of_pmem`, `virtioN`.
    pub provider: Option<String>,
    /// `nd_pmem`, or `nd_volatile` where the firmware lists the range as volatile.
    pub devtype: Option<String>,
    /// `memory_controller` or `cpu_cache`; the file is absent where the firmware says neither.
    pub persistence_domain: Option<String>,
    /// The namespace, where its disk cannot be mapped directly: `queue/dax` is 0 in raw and sector
    /// mode (Documentation/ABI/stable/sysfs-block in Linux).
    pub indirect: Option<String>,
    /// Modules of the region that say of themselves that they may lose what is written:
    /// `nmem0 not_armed`.
    pub failing: Vec<String>,
}

impl NdRegion {
    /// `region0`.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The tree with `sys/`, `proc/` and `dev/` that stands for the machine.
pub(crate) struct Tree<'a>(pub &'a Path);

impl Tree<'_> {
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    pub fn read(&self, path: &str) -> Option<String> {
        read(&self.path(path))
    }

    /// Where a path ends up behind its links, if that is inside of the tree.
    pub fn resolve(&self, path: &str) -> Option<PathBuf> {
        let resolved = fs::canonicalize(self.path(path)).ok()?;
        resolved.starts_with(fs::canonicalize(self.0).ok()?).then_some(resolved)
    }

    /// A path of the tree as the machine would write it.
    pub fn shown(&self, path: &Path) -> String {
        let base = fs::canonicalize(self.0).unwrap_or_default();
        format!("/{}", path.strip_prefix(&base).unwrap_or(path).display())
    }

    /// The devices below the one in folder `device` (resolved), through device mapper and md.
    pub fn grounds(&self, device: &Path) -> Vec<Ground> {
        self.grounds_below(device, 8)
    }

    fn grounds_below(&self, device: &Path, depth: usize) -> Vec<Ground> {
        let name = name(device);
        if depth == 0 {
            return vec![Ground::Unknown(format!(
                "{name} is stacked on too many devices to follow"
            ))];
        }
        let slaves = fs::read_dir(device.join("slaves")).into_iter().flatten().flatten();
        let mut grounds = Vec::new();
        for slave in slaves {
            match fs::canonicalize(slave.path()) {
                Ok(slave) => grounds.extend(self.grounds_below(&slave, depth - 1)),
                Err(error) => {
                    grounds.push(Ground::Unknown(format!("{}: {error}", slave.path().display())))
                }
            }
        }
        if grounds.is_empty() {
            grounds.push(self.ground(device, &name));
        }
        grounds
    }

    // Devices are folders below their region, a region is one below its bus.
    fn ground(&self, device: &Path, device_name: &str) -> Ground {
        for dir in device.ancestors() {
            let name = name(dir);
            let parent = dir.parent().map(self::name).unwrap_or_default();
            if numbered(&name, "region") && numbered(&parent, "ndbus") {
                return Ground::Nd(self.nd_region(dir, device));
            }
            // Only a region in RAM mode has one.
            if numbered(&name, "dax_region") {
                return Ground::CxlVolatile(self.shown(dir.parent().unwrap_or(dir)));
            }
            if name.starts_with("hmem.") {
                return Ground::SoftReserved(self.shown(dir));
            }
            if numbered(&name, "zram") || (numbered(&name, "ram") && parent == "block") {
                return Ground::RamDisk(name);
            }
        }
        Ground::Device(device_name.into())
    }

    fn nd_region(&self, dir: &Path, device: &Path) -> NdRegion {
        let bus = dir.parent().unwrap_or(dir);
        NdRegion {
            path: self.shown(dir),
            provider: read(&bus.join("provider")),
            devtype: read(&dir.join("devtype")),
            persistence_domain: read(&dir.join("persistence_domain")),
            indirect: indirect(device),
            failing: (0..32)
                .map_while(|n| read(&dir.join(format!("mapping{n}"))))
                .filter_map(|m| failing(bus, &m))
                .collect(),
        }
    }
}

// A partition lies in its disk's folder, and a disk in that of its namespace, or of what was made
// of one, which names it.
fn indirect(device: &Path) -> Option<String> {
    let disk = device.ancestors().take(2).find(|dir| dir.join("queue").is_dir())?;
    let holder = disk.parent()?.parent()?;
    let namespace = || {
        read(&holder.join("namespace"))
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| name(holder))
    };
    (read(&disk.join("queue/dax"))? == "0").then(namespace)
}

// Modules are folders of the bus; a mapping is `nmem0,START,SIZE,POSITION`. The flags are those of
// the NFIT (ACPI 6.5, 5.2.25.3, NVDIMM State Flags) that speak of writes to come.
fn failing(bus: &Path, mapping: &str) -> Option<String> {
    let module = mapping.split(',').next()?;
    let flags = ["nfit", "papr"]
        .iter()
        .find_map(|kind| read(&bus.join(module).join(kind).join("flags")))?;
    let bad: Vec<&str> = flags
        .split_whitespace()
        .filter(|flag| ["not_armed", "save_fail", "flush_fail"].contains(flag))
        .collect();
    (!bad.is_empty()).then(|| format!("{module} {}", bad.join(" ")))
}

fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
