//! From facts to a verdict with its reasons: a function of values.

use std::path::Path;

use ringfence_system::mounts::Mount;

use super::facts::{Below, Facts, Kind, Layer};
use super::sysfs::{Ground, NdRegion};
use crate::region::durability::{Domain, Durability, Explanation};

/// What became of mapping a file with `MAP_SYNC`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MapSync {
    Accepted,
    /// Refused with this errno.
    Refused(i32),
    /// Not requested, for this reason.
    NotTried(String),
    /// Of a folder: there was no file to try it with, because.
    NoFile(String),
}

/// Says how durable memory is, and why.
pub(crate) fn judge(subject: String, facts: &Facts, map_sync: &MapSync) -> Explanation {
    let mut said = match &facts.kind {
        Kind::Anonymous => Said::volatile("it is anonymous memory, which ends with the process"),
        Kind::Memfd => {
            Said::volatile("it is a memfd, a file in memory that ends with its last descriptor")
        }
        Kind::DevDax(grounds) => {
            let mut said = direct(grounds, facts);
            said.also.insert(
                0,
                "it is a device-DAX device, which is mapped with no page cache between".into(),
            );
            said
        }
        Kind::File(layer) => file(layer, facts, map_sync),
    };
    said.also.extend(
        facts.unwritable.iter().map(|why| format!("nothing can be stored there now: {why}")),
    );
    let mut reasons = vec![said.why];
    reasons.extend(said.also);
    Explanation {
        subject,
        remedies: remedies(said.durability, facts),
        durability: said.durability,
        reasons,
    }
}

struct Said {
    durability: Durability,
    why: String,
    also: Vec<String>,
}

impl Said {
    fn new(durability: Durability, why: impl Into<String>) -> Self {
        Self { durability, why: why.into(), also: Vec::new() }
    }

    fn volatile(why: impl Into<String>) -> Self {
        Self::new(Durability::Volatile, why)
    }

    fn unproven(why: impl Into<String>) -> Self {
        Self::new(Durability::UnprovenMedium, why)
    }
}

fn file(layer: &Layer, facts: &Facts, map_sync: &MapSync) -> Said {
    let said = match (map_sync, lost(layer, facts)) {
        (MapSync::Accepted, _) => {
            let grounds: Vec<Ground> = layer.below.iter().map(ground).collect();
            let mut said = direct(&grounds, facts);
            said.also.insert(
                0,
                "the kernel accepted MAP_SYNC: stores reach the medium with no page cache between"
                    .into(),
            );
            said
        }
        (MapSync::NoFile(why), _) if maps_synchronously(layer) => {
            let grounds: Vec<Ground> = layer.below.iter().map(ground).collect();
            let mut said = direct(&grounds, facts);
            said.also.insert(
                0,
                format!(
                    "{} is mounted with DAX on a device that has synchronous faults, so that files \
                     are mapped with no \
                     page cache between; it was not tried: {why}",
                    layer.fs
                ),
            );
            said
        }
        (_, Some(why)) => Said::volatile(why),
        (MapSync::Refused(errno), None) => {
            let mut said = Said::new(Durability::PageCache, refused(layer, *errno));
            said.also = doubts(layer);
            said
        }
        (MapSync::NotTried(why) | MapSync::NoFile(why), None) => {
            let mut said =
                Said::new(Durability::PageCache, format!("it was not mapped with MAP_SYNC: {why}"));
            said.also = doubts(layer);
            if matches!(map_sync, MapSync::NoFile(_)) && mounted(layer, "dax=inode") {
                said.also.push(format!(
                    "{} is mounted with dax=inode: files there that have the DAX attribute are \
                     mapped directly, each \
                     is explained by itself",
                    layer.fs
                ));
            }
            said
        }
    };
    let mut also = described(layer);
    also.extend(said.also);
    Said { also, ..said }
}

fn mounted(layer: &Layer, option: &str) -> bool {
    layer.mount.as_ref().is_some_and(|mount| mount.has(option))
}

fn is_virtio(region: &NdRegion) -> bool {
    region.provider.as_deref().is_some_and(|name| name.starts_with("virtio"))
}

/// Whether the kernel accepts `MAP_SYNC` for every file of a file system, as far as its mount and
/// device tell: ext4 and XFS do with DAX (their `mmap_supported_flags`), and of the nvdimm
/// subsystem's disks all but virtio-pmem (`dax_synchronous`).
fn maps_synchronously(layer: &Layer) -> bool {
    let synchronous = |below: &Below| {
        matches!(
            below,
            Below::Ground(Ground::Nd(region)) if region.indirect.is_none() && !is_virtio(region)
        )
    };
    ["ext4", "xfs"].contains(&layer.fs.as_str())
        && (mounted(layer, "dax") || mounted(layer, "dax=always"))
        && !layer.below.is_empty()
        && layer.below.iter().all(synchronous)
}

fn ground(below: &Below) -> Ground {
    match below {
        Below::Ground(ground) => ground.clone(),
        Below::Layer(path, _) => Ground::Unknown(format!("it lies on the file {}", path.display())),
    }
}

/// Memory that is mapped with nothing between: the least durable of what it lies on decides.
fn direct(grounds: &[Ground], facts: &Facts) -> Said {
    let said = grounds.iter().map(|ground| match ground {
        Ground::Nd(region) => nd(region, facts),
        Ground::CxlVolatile(path) => Said::unproven(format!(
            "it is volatile CXL memory ({path} is \
            in RAM mode)"
        )),
        Ground::SoftReserved(path) => Said::unproven(format!(
            "it is memory that the firmware reserved for special purposes (EFI_MEMORY_SP, {path}), \
             such as HBM or volatile CXL memory"
        )),
        Ground::RamDisk(name) => Said::unproven(format!("{name} is a disk in ordinary memory")),
        Ground::Device(name) => Said::unproven(format!(
            "{name} lies in no region of the nvdimm subsystem: nothing says \
                                    what it is"
        )),
        Ground::Unknown(why) => Said::unproven(format!("nothing says what it lies on: {why}")),
    });
    let least = said.min_by_key(|said| said.durability);
    least.unwrap_or_else(|| Said::unproven("nothing says what it lies on"))
}

fn nd(region: &NdRegion, facts: &Facts) -> Said {
    let (name, path) = (region.name(), &region.path);
    let file = format!("{path}/persistence_domain");
    if let Some(why) = emulated(region, facts) {
        return Said::unproven(why);
    }
    if region.devtype.as_deref() == Some("nd_volatile") {
        return Said::unproven(format!(
            "the firmware lists {name} as volatile ({path}/devtype is nd_volatile)"
        ));
    }
    if !region.failing.is_empty() {
        let modules = region.failing.join(", ");
        return Said::unproven(format!(
            "modules of {name} say that they may lose what is written: {modules}"
        ));
    }
    let mut said = match (region.persistence_domain.as_deref(), region.provider.as_deref()) {
        (Some("memory_controller"), _) => Said::new(
            Durability::Persistent(Domain::Adr),
            format!(
                "{file} is memory_controller (ADR): what has reached the memory controller \
                 survives a power failure"
            ),
        ),
        (Some("cpu_cache"), _) => Said::new(
            Durability::Persistent(Domain::Eadr),
            format!("{file} is cpu_cache (eADR): the CPU's caches are flushed when power fails"),
        ),
        (Some(other), _) => {
            Said::unproven(format!("{file} is '{other}', which vouches for nothing"))
        }
        (None, Some(provider)) if provider.starts_with("virtio") => Said::unproven(format!(
            "{name} is virtio-pmem: the host keeps what is written only after a flush request, \
             which no instruction makes"
        )),
        (None, _) => Said::unproven(format!(
            "{file} is not there: the firmware does not say what survives a power failure"
        )),
    };
    if let Some(provider) = &region.provider {
        said.also.push(format!("{name} was registered by {provider}"));
    }
    if facts.virtual_machine && said.durability > Durability::UnprovenMedium {
        said.also.push(
            "this is a virtual machine: the persistence domain is its hypervisor's \
                        word, and what lies behind it cannot be seen from here"
                .into(),
        );
    }
    said
}

/// Why a region is ordinary DRAM, or may be.
fn emulated(region: &NdRegion, facts: &Facts) -> Option<String> {
    if region.provider.as_deref() != Some("e820") {
        return None;
    }
    let name = region.name();
    Some(if facts.memmap.is_empty() {
        format!(
            "{name} comes from the e820 table (type 12), which does not say whether anything keeps \
             it through a power failure"
        )
    } else {
        format!(
            "{name} is DRAM set aside by {} on the kernel's command line",
            facts.memmap.join(" ")
        )
    })
}

/// Why what was synced to a file system is lost when power fails.
fn lost(layer: &Layer, facts: &Facts) -> Option<String> {
    if ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs", "rootfs"].contains(&layer.fs.as_str()) {
        return Some(format!(
            "{} is memory: its files end with the mount or at power-off",
            layer.fs
        ));
    }
    let kernels = [
        "proc",
        "sysfs",
        "cgroup",
        "cgroup2",
        "debugfs",
        "tracefs",
        "securityfs",
        "configfs",
        "devpts",
        "bpf",
        "mqueue",
        "binfmt_misc",
        "efivarfs",
        "pstore",
    ];
    if kernels.contains(&layer.fs.as_str()) {
        return Some(format!("{} shows the kernel's own state and stores no files", layer.fs));
    }
    // The second since Linux 6.18 at the latest.
    let volatile = |mount: &Mount| mount.has("volatile") || mount.has("fsync=volatile");
    if layer.fs == "overlay" && layer.mount.as_ref().is_some_and(volatile) {
        return Some("the overlay is mounted with 'volatile': it syncs nothing".into());
    }
    layer.below.iter().find_map(|below| match below {
        Below::Layer(path, layer) => {
            lost(layer, facts).map(|why| format!("it lies on {}, and {why}", path.display()))
        }
        Below::Ground(Ground::RamDisk(name)) => Some(format!("{name} is a disk in memory")),
        // Set aside by hand, that is; of other e820 regions nothing is known.
        Below::Ground(Ground::Nd(region)) if !facts.memmap.is_empty() => emulated(region, facts),
        Below::Ground(_) => None,
    })
}

fn refused(layer: &Layer, errno: i32) -> String {
    let with = format!("MAP_SYNC was refused with {}", errno_name(errno));
    let has = |option| mounted(layer, option);
    let virtio =
        |below: &Below| matches!(below, Below::Ground(Ground::Nd(region)) if is_virtio(region));
    let nd = layer.below.iter().any(|below| matches!(below, Below::Ground(Ground::Nd(_))));
    if has("dax") || has("dax=always") {
        if layer.below.iter().any(virtio) {
            return format!(
                "{with}: the file is mapped directly, but its virtio-pmem device needs a flush \
                 request to the host, which msync makes"
            );
        }
        return format!(
            "{with}, though {} is mounted with DAX: the device or the kernel has no synchronous \
             faults, so that msync must write the file system's own data",
            layer.fs
        );
    }
    if has("dax=inode") {
        return format!(
            "{with}: {} is mounted with dax=inode and the file does not have the DAX attribute",
            layer.fs
        );
    }
    match layer.fs.as_str() {
        "ext4" | "xfs" | "ext2" if nd => {
            format!(
                "{with}: {} lies on persistent memory and is mounted without DAX, so that stores \
                 go to the page cache",
                layer.fs
            )
        }
        "ext4" | "xfs" => {
            format!(
                "{with}: {} is not mounted with DAX, so that stores go to the page cache",
                layer.fs
            )
        }
        fs => format!("{with}: {fs} cannot map synchronously, so that stores go to the page cache"),
    }
}

/// What makes the word of msync worth less.
fn doubts(layer: &Layer) -> Vec<String> {
    let mut doubts = Vec::new();
    let has = |option| mounted(layer, option);
    if has("nobarrier") || has("barrier=0") {
        doubts.push(
            "it is mounted without barriers: msync does not empty the disk's own cache, \
                     which must survive a power failure itself"
                .into(),
        );
    }
    let served = ["fuse", "fuseblk", "9p", "nfs", "nfs4", "cifs", "smb3", "virtiofs"];
    if served.iter().any(|fs| layer.fs == *fs || layer.fs.starts_with(&format!("{fs}."))) {
        doubts.push(format!(
            "{} hands msync to a server: durable means what that server makes of it",
            layer.fs
        ));
    } else if layer.below.is_empty() {
        doubts.push(format!("what {} lies on cannot be seen from here", layer.fs));
    }
    if layer.fs == "btrfs" {
        doubts.push(
            "btrfs writes to new blocks each time: a store can meet a full file system, \
                     which ends in SIGBUS, however well the file was allocated"
                .into(),
        );
    }
    for below in &layer.below {
        match below {
            Below::Ground(Ground::Unknown(why)) => doubts.push(why.clone()),
            Below::Layer(_, layer) => doubts.extend(self::doubts(layer)),
            Below::Ground(_) => {}
        }
    }
    doubts
}

fn described(layer: &Layer) -> Vec<String> {
    let mut said = Vec::new();
    match &layer.mount {
        Some(mount) => said.push(format!(
            "it lies on {} ({}), mounted at {} with {}",
            layer.fs,
            mount.source,
            mount.point.display(),
            mount.options.join(",")
        )),
        None => said.push(format!("it lies on {}, whose mount cannot be seen from here", layer.fs)),
    }
    for below in &layer.below {
        match below {
            Below::Ground(Ground::Nd(region)) => {
                said.push(format!("{} lies in {}", layer.fs, region.path))
            }
            Below::Layer(path, layer) => said.push(format!(
                "below that, {} lies on {}{}",
                path.display(),
                layer.fs,
                at(layer)
            )),
            Below::Ground(_) => {}
        }
    }
    said
}

fn at(layer: &Layer) -> String {
    let point: Option<&Path> = layer.mount.as_ref().map(|mount| mount.point.as_path());
    point.map_or(String::new(), |point| format!(" mounted at {}", point.display()))
}

fn remedies(durability: Durability, facts: &Facts) -> Vec<String> {
    const DIRECT: &str = "use a file on ext4 or XFS mounted with -o dax on persistent memory, or a \
                          /dev/daxX.Y device; 'ringfence doctor' lists what is here";
    let mut remedies = Vec::new();
    match (durability, &facts.kind) {
        (Durability::Volatile, Kind::DevDax(_)) | (Durability::Persistent(_), _) => {}
        (Durability::Volatile, _) => {
            remedies.push("use a file on a disk's file system, which msync makes durable".into());
            remedies.push(DIRECT.into());
        }
        (Durability::PageCache, Kind::File(layer)) => {
            let nd = layer.below.iter().any(|below| matches!(below, Below::Ground(Ground::Nd(_))));
            let mount = layer.mount.as_ref();
            if mount.is_some_and(|mount| mount.has("dax=inode")) {
                remedies.push("set the DAX attribute on its folder before the file is made: xfs_io \
                               -c 'chattr +x' FOLDER".into());
            } else if let Some(namespace) = layer.below.iter().find_map(indirect) {
                remedies.push(format!(
                    "give it a namespace that can be mapped directly, which loses the files that \
                     are on it: ndctl create-namespace --force --reconfig {namespace} --mode \
                     fsdax; then make ext4 or XFS there and mount it with -o dax"
                ));
            } else if nd
                && ["ext4", "xfs"].contains(&layer.fs.as_str())
                && !mount.is_some_and(|mount| mount.has("dax") || mount.has("dax=always"))
            {
                remedies.push("mount it with -o dax: it lies on a region of persistent \
                               memory".into());
            } else {
                remedies.push(DIRECT.into());
            }
        }
        (Durability::PageCache, _) => remedies.push(DIRECT.into()),
        (Durability::UnprovenMedium, _) => remedies.push(
            "use persistent memory whose region states a persistence_domain: 'ndctl list -R' shows \
             it; where the platform is known to keep its memory, accept Durability::UnprovenMedium \
             by name".into(),
        ),
    }
    remedies
}

fn indirect(below: &Below) -> Option<&str> {
    match below {
        Below::Ground(Ground::Nd(region)) => region.indirect.as_deref(),
        _ => None,
    }
}

/// The symbolic name of an errno that mmap gives, mmap(2).
fn errno_name(errno: i32) -> String {
    let name = match errno {
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EINVAL => "EINVAL",
        libc::EACCES => "EACCES",
        libc::EPERM => "EPERM",
        libc::ENODEV => "ENODEV",
        libc::EIO => "EIO",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        _ => return format!("errno {errno} ({})", std::io::Error::from_raw_os_error(errno)),
    };
    name.into()
}
