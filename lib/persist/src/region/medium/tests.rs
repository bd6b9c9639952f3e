//! Every medium: from a folder that stands for the machine, or from facts, to the verdict.

use std::path::Path;

use super::facts::{Below, Layer};
use super::sysfs::{Ground, NdRegion};
use super::*;
use crate::region::durability::{Domain, Durability, Explanation};
use crate::region::tree::Tree;

const NFIT: &str = "sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0";
const ADR: Durability = Durability::Persistent(Domain::Adr);
const EADR: Durability = Durability::Persistent(Domain::Eadr);

/// A machine with pmem0 (259:0), mounted at /mnt/pmem with `options`.
fn pmem(bus: &str, provider: &str, domain: Option<&str>, options: &str) -> Tree {
    let tree = Tree::new();
    tree.write(&format!("{bus}/provider"), &format!("{provider}\n"));
    tree.write(&format!("{bus}/region0/devtype"), "nd_pmem\n");
    if let Some(domain) = domain {
        tree.write(&format!("{bus}/region0/persistence_domain"), &format!("{domain}\n"));
    }
    tree.write(&format!("{bus}/region0/namespace0.0/block/pmem0/pmem0p1/size"), "1\n");
    tree.link("sys/dev/block/259:0", &format!("{bus}/region0/namespace0.0/block/pmem0"));
    tree.link("sys/dev/block/259:1", &format!("{bus}/region0/namespace0.0/block/pmem0/pmem0p1"));
    tree.write(
        "proc/self/mountinfo",
        &format!(
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
             36 27 259:0 / /mnt/pmem rw,relatime shared:1 - ext4 /dev/pmem0 {options}\n\
             37 27 259:1 / /mnt/part rw - xfs /dev/pmem0p1 rw,dax=always\n"
        ),
    );
    tree.write("sys/devices/virtio1/block/vda/size", "1\n");
    tree.link("sys/dev/block/254:0", "sys/devices/virtio1/block/vda");
    tree.write("proc/cmdline", "root=/dev/vda quiet\n");
    tree.write("proc/cpuinfo", "flags\t\t: fpu sse2 clwb\n");
    tree
}

fn facts(tree: &Tree, path: &str) -> Facts {
    Facts::of_file(tree.path(), None, Path::new(path), 0)
}

fn on(tree: &Tree, path: &str, map_sync: MapSync) -> Explanation {
    judge(path.into(), &facts(tree, path), &map_sync)
}

#[track_caller]
fn assert_said(explanation: &Explanation, durability: Durability, parts: &[&str]) {
    assert_eq!(explanation.durability(), durability, "{explanation}");
    assert!(explanation.reasons()[0].contains(parts[0]), "{explanation}");
    for part in parts {
        assert!(explanation.to_string().contains(part), "'{part}' is not in\n{explanation}");
    }
    // Something more durable is shown wherever there is something.
    assert_eq!(explanation.remedies().is_empty(), durability >= ADR, "{explanation}");
}

fn refused() -> MapSync {
    MapSync::Refused(libc::EOPNOTSUPP)
}

#[test]
fn nvdimms_of_either_domain() {
    let adr = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "rw,dax=always");
    for (path, fs) in [("/mnt/pmem/x", "ext4 (/dev/pmem0)"), ("/mnt/part/x", "xfs (/dev/pmem0p1)")]
    {
        let said = on(&adr, path, MapSync::Accepted);
        let file = "/sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region0/persistence_domain is \
                    memory_controller";
        assert_said(&said, ADR, &[file, fs, "accepted MAP_SYNC", "ACPI.NFIT", "dax=always"]);
        assert!(!said.to_string().contains("virtual machine"), "{said}");
    }
    let eadr = pmem(NFIT, "ACPI.NFIT", Some("cpu_cache"), "rw,dax");
    eadr.write("proc/cpuinfo", "processor : 0\nflags : fpu hypervisor\n");
    let said = on(&eadr, "/mnt/pmem/x", MapSync::Accepted);
    assert_said(&said, EADR, &["cpu_cache (eADR)", "hypervisor's word", "flushes are not"]);
    assert!(said.durability().elides_flushes() && !ADR.elides_flushes());
}

#[test]
fn a_namespace_that_is_no_fsdax_one() {
    let raw = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "rw");
    raw.write(&format!("{NFIT}/region0/namespace0.0/block/pmem0/queue/dax"), "0\n");
    for path in ["/mnt/pmem/x", "/mnt/part/x"] {
        let said = on(&raw, path, refused());
        let remedy = "ndctl create-namespace --force --reconfig namespace0.0 --mode fsdax";
        assert_said(&said, Durability::PageCache, &["EOPNOTSUPP", remedy]);
    }
    let sector = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "rw");
    sector.write(&format!("{NFIT}/region0/btt0.1/namespace"), "namespace0.2\n");
    sector.write(&format!("{NFIT}/region0/btt0.1/block/pmem0s/queue/dax"), "0\n");
    sector.link("sys/dev/block/259:2", &format!("{NFIT}/region0/btt0.1/block/pmem0s"));
    sector.write("proc/self/mountinfo", "36 27 259:2 / /mnt/pmem rw - ext4 /dev/pmem0s rw\n");
    let said = on(&sector, "/mnt/pmem/x", refused());
    assert_said(
        &said,
        Durability::PageCache,
        &["EOPNOTSUPP", "--reconfig namespace0.2 --mode fsdax"],
    );
    let fsdax = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "rw");
    fsdax.write(&format!("{NFIT}/region0/namespace0.0/block/pmem0/queue/dax"), "1\n");
    let said = on(&fsdax, "/mnt/pmem/x", refused());
    assert_said(&said, Durability::PageCache, &["EOPNOTSUPP", "mount it with -o dax"]);
}

#[test]
fn a_folder_where_no_file_can_be_made_agrees_with_its_files() {
    let read_only = || MapSync::NoFile("no file can be made there (Read-only file system)".into());
    let adr = Some("memory_controller");
    for options in ["ro,dax=always", "ro,dax"] {
        let tree = pmem(NFIT, "ACPI.NFIT", adr, options);
        let file = on(&tree, "/mnt/pmem/x", MapSync::Accepted);
        let folder = on(&tree, "/mnt/pmem", read_only());
        assert_said(
            &folder,
            ADR,
            &["is memory_controller", "mounted with DAX", "not tried: no file can be made"],
        );
        assert_eq!(
            (folder.durability(), &folder.reasons()[0]),
            (file.durability(), &file.reasons()[0])
        );
    }
    // A file that MAP_SYNC was not asked of is not mapped so, whatever could be.
    let tree = pmem(NFIT, "ACPI.NFIT", adr, "rw,dax");
    let not_asked = MapSync::NotTried("nobody asked for it".into());
    assert_said(&on(&tree, "/mnt/pmem/x", not_asked), Durability::PageCache, &["nobody asked"]);
    // Where files differ, or the device has no synchronous faults, the folder says no more than it
    // can.
    let each = pmem(NFIT, "ACPI.NFIT", adr, "ro,dax=inode");
    let said = on(&each, "/mnt/pmem", read_only());
    assert_said(
        &said,
        Durability::PageCache,
        &["not mapped with MAP_SYNC", "each is explained by itself"],
    );
    let bus = "sys/devices/pci0000:00/0000:00:03.0/virtio1/ndbus0";
    for (tree, path) in [
        (pmem(bus, "virtio1", None, "ro,dax"), "/mnt/pmem"),
        (pmem(NFIT, "ACPI.NFIT", adr, "ro"), "/mnt/pmem"),
    ] {
        assert_said(
            &on(&tree, path, read_only()),
            Durability::PageCache,
            &["not mapped with MAP_SYNC"],
        );
    }
    let indirect = pmem(NFIT, "ACPI.NFIT", adr, "ro,dax");
    indirect.write(&format!("{NFIT}/region0/namespace0.0/block/pmem0/queue/dax"), "0\n");
    assert_said(
        &on(&indirect, "/mnt/pmem", read_only()),
        Durability::PageCache,
        &["not mapped with MAP_SYNC"],
    );
}

#[test]
fn what_the_firmware_does_not_vouch_for() {
    let unproven = Durability::UnprovenMedium;
    let silent = pmem(NFIT, "ACPI.NFIT", None, "rw,dax");
    let said = on(&silent, "/mnt/pmem/x", MapSync::Accepted);
    assert_said(
        &said,
        unproven,
        &["persistence_domain is not there", "accept Durability::UnprovenMedium"],
    );

    let odd = pmem(NFIT, "ACPI.NFIT", Some("none"), "rw,dax");
    assert_said(
        &on(&odd, "/mnt/pmem/x", MapSync::Accepted),
        unproven,
        &["is 'none', which vouches for nothing"],
    );

    let volatile = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "rw,dax");
    volatile.write(&format!("{NFIT}/region0/devtype"), "nd_volatile\n");
    assert_said(
        &on(&volatile, "/mnt/pmem/x", MapSync::Accepted),
        unproven,
        &["lists region0 as volatile"],
    );

    let failing = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "rw,dax");
    failing.write(&format!("{NFIT}/region0/mapping0"), "nmem0,0,1073741824,0\n");
    failing.write(&format!("{NFIT}/region0/mapping1"), "nmem1,0,1073741824,1\n");
    failing.write(&format!("{NFIT}/nmem0/nfit/flags"), "smart_notify\n");
    assert_said(&on(&failing, "/mnt/pmem/x", MapSync::Accepted), ADR, &["memory_controller"]);
    failing.write(&format!("{NFIT}/nmem1/nfit/flags"), "save_fail not_armed smart_notify\n");
    let said = on(&failing, "/mnt/pmem/x", MapSync::Accepted);
    assert_said(&said, unproven, &["may lose what is written: nmem1 save_fail not_armed"]);
}

#[test]
fn dram_set_aside_with_memmap() {
    let bus = "sys/devices/platform/e820_pmem/ndbus0";
    let tree = pmem(bus, "e820", None, "rw,dax=always");
    // A type 12 range of the firmware's: nothing is known of it.
    let said = on(&tree, "/mnt/pmem/x", MapSync::Accepted);
    assert_said(&said, Durability::UnprovenMedium, &["e820 table (type 12)"]);
    assert_said(&on(&tree, "/mnt/pmem/x", refused()), Durability::PageCache, &["mounted with DAX"]);
    tree.write("proc/cmdline", "memmap=1G$8G memmap=4G!12G,2G!20G quiet");
    let said = on(&tree, "/mnt/pmem/x", MapSync::Accepted);
    assert_said(
        &said,
        Durability::UnprovenMedium,
        &["region0 is DRAM set aside by memmap=4G!12G memmap=2G!20G"],
    );
    // With the page cache between, not even the lab's pretence of persistence is left.
    assert_said(
        &on(&tree, "/mnt/pmem/x", refused()),
        Durability::Volatile,
        &["is DRAM set aside by memmap="],
    );
    // Another region is not DRAM because one is.
    let nfit = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "rw,dax");
    nfit.write("proc/cmdline", "memmap=4G!12G");
    assert_said(&on(&nfit, "/mnt/pmem/x", MapSync::Accepted), ADR, &["memory_controller"]);
}

#[test]
fn map_sync_refused_on_persistent_memory() {
    let mounted = |options: &str| pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), options);
    let cases = [
        ("rw,dax=always", "EOPNOTSUPP, though ext4 is mounted with DAX"),
        ("rw,dax=inode", "does not have the DAX attribute"),
        ("rw", "lies on persistent memory and is mounted without DAX"),
        ("rw,dax=never", "lies on persistent memory and is mounted without DAX"),
    ];
    for (options, part) in cases {
        assert_said(
            &on(&mounted(options), "/mnt/pmem/x", refused()),
            Durability::PageCache,
            &[part],
        );
    }
    let said = on(&mounted("rw"), "/mnt/pmem/x", refused());
    assert!(said.remedies()[0].contains("mount it with -o dax"), "{said}");
    let said = on(&mounted("rw,dax=inode"), "/mnt/pmem/x", refused());
    assert!(said.remedies()[0].contains("chattr +x"), "{said}");
    let virtio = pmem("sys/devices/pci0/virtio3/ndbus0", "virtio3", None, "rw,dax=always");
    let said = on(&virtio, "/mnt/pmem/x", refused());
    assert_said(
        &said,
        Durability::PageCache,
        &["needs a flush request to the host, which msync makes"],
    );
}

#[test]
fn device_dax() {
    let cases = [
        (
            "sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region0/dax0.1/dax0.0",
            ADR,
            "memory_controller",
        ),
        (
            "sys/devices/pci0/virtio3/ndbus0/region0/dax0.1/dax0.0",
            Durability::UnprovenMedium,
            "which no instruction makes",
        ),
        (
            "sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0",
            Durability::UnprovenMedium,
            "volatile CXL memory (/sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0 is in \
             RAM mode)",
        ),
        ("sys/devices/platform/hmem.0/dax0.0", Durability::UnprovenMedium, "EFI_MEMORY_SP"),
        ("sys/devices/odd/dax0.0", Durability::UnprovenMedium, "nothing says what it is"),
        // A region of some other subsystem.
        ("sys/devices/odd0/region0/dax0.0", Durability::UnprovenMedium, "nothing says what it is"),
    ];
    for (dir, durability, part) in cases {
        let tree = Tree::new();
        tree.write(&format!("{dir}/size"), "1\n");
        tree.link("sys/dev/char/252:0", dir);
        if let Some((bus, _)) = dir.split_once("/region0").filter(|(bus, _)| bus.contains("ndbus"))
        {
            let nfit = bus.contains("ACPI0012");
            tree.write(&format!("{bus}/provider"), if nfit { "ACPI.NFIT" } else { "virtio3" });
            if nfit {
                tree.write(&format!("{bus}/region0/persistence_domain"), "memory_controller\n");
            }
        }
        let facts = Facts::of_devdax(tree.path(), 252, 0);
        let said = judge("/dev/dax0.0".into(), &facts, &MapSync::NotTried("no need".into()));
        assert_said(&said, durability, &[part, "no page cache between"]);
    }
    let facts = Facts::of_devdax(Tree::new().path(), 252, 0);
    let said = judge("/dev/dax0.0".into(), &facts, &MapSync::NotTried("no need".into()));
    assert_said(&said, Durability::UnprovenMedium, &["/sys/dev/char/252:0 is not there"]);
}

#[test]
fn persistent_cxl_memory() {
    let bus = "sys/devices/platform/ACPI0017:00/nvdimm-bridge0/ndbus0";
    let tree = pmem(bus, "CXL", Some("memory_controller"), "rw,dax");
    assert_said(
        &on(&tree, "/mnt/pmem/x", MapSync::Accepted),
        ADR,
        &["memory_controller", "registered by CXL"],
    );
}

#[test]
fn stacked_devices_are_as_durable_as_the_least_of_them() {
    let tree = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "rw,dax");
    tree.write("sys/devices/virtual/block/dm-0/size", "1\n");
    tree.link(
        "sys/devices/virtual/block/dm-0/slaves/pmem0",
        &format!("{NFIT}/region0/namespace0.0/block/pmem0"),
    );
    tree.link("sys/dev/block/253:0", "sys/devices/virtual/block/dm-0");
    tree.write("proc/self/mountinfo", "36 1 253:0 / /mnt rw - ext4 /dev/mapper/striped rw,dax\n");
    assert_said(&on(&tree, "/mnt/x", MapSync::Accepted), ADR, &["region0/persistence_domain"]);
    let second = "sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region1";
    tree.write(&format!("{second}/namespace1.0/block/pmem1/size"), "1\n");
    tree.link(
        "sys/devices/virtual/block/dm-0/slaves/pmem1",
        &format!("{second}/namespace1.0/block/pmem1"),
    );
    let said = on(&tree, "/mnt/x", MapSync::Accepted);
    assert_said(&said, Durability::UnprovenMedium, &["region1/persistence_domain is not there"]);
    // A stack that goes in a circle ends.
    tree.link("sys/devices/virtual/block/dm-0/slaves/dm-0", "sys/devices/virtual/block/dm-0");
    let said = on(&tree, "/mnt/x", MapSync::Accepted);
    assert_eq!(said.durability(), Durability::UnprovenMedium);
}

/// Mounts at /mnt, beside an ext4 root on vda.
fn mounted(line: &str) -> Tree {
    let tree = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "rw,dax");
    tree.write(
        "proc/self/mountinfo",
        &format!(
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n30 27 0:28 / /tmp rw - tmpfs tmpfs \
             rw\n{line}\n"
        ),
    );
    tree
}

#[test]
fn ordinary_file_systems() {
    use Durability::{PageCache, Volatile};
    let cases = [
        ("40 27 254:0 / /mnt rw - ext4 /dev/vda rw", PageCache, "ext4 is not mounted with DAX"),
        ("40 27 254:0 / /mnt rw - xfs /dev/vda rw", PageCache, "xfs is not mounted with DAX"),
        ("40 27 0:33 / /mnt rw - btrfs /dev/vda rw", PageCache, "btrfs cannot map synchronously"),
        ("40 27 0:33 / /mnt rw - nfs4 server:/x rw", PageCache, "nfs4 cannot map synchronously"),
        (
            "40 27 0:33 / /mnt rw - fuse.sshfs x rw",
            PageCache,
            "fuse.sshfs cannot map synchronously",
        ),
        (
            "40 27 0:33 / /mnt rw - overlay overlay rw,upperdir=/far/u",
            PageCache,
            "overlay cannot map",
        ),
        ("40 27 0:33 / /mnt rw - overlay overlay rw,upperdir=/u", PageCache, "overlay cannot map"),
        (
            "40 27 0:33 / /mnt rw - overlay overlay rw,upperdir=/tmp/u",
            Volatile,
            "it lies on /tmp/u, and tmpfs is memory",
        ),
        (
            "40 27 0:33 / /mnt rw - overlay overlay rw,volatile,upperdir=/u",
            Volatile,
            "it syncs nothing",
        ),
        (
            "40 27 0:33 / /mnt rw - overlay overlay rw,upperdir=/u,fsync=volatile",
            Volatile,
            "it syncs nothing",
        ),
        ("40 27 0:33 / /mnt rw - tmpfs none rw", Volatile, "tmpfs is memory"),
        ("40 27 0:33 / /mnt rw - hugetlbfs none rw", Volatile, "hugetlbfs is memory"),
        ("40 27 0:33 / /mnt rw - proc proc rw", Volatile, "stores no files"),
        ("40 27 252:0 / /mnt rw - ext4 /dev/zram0 rw", Volatile, "zram0 is a disk in memory"),
        ("40 27 1:0 / /mnt rw - ext4 /dev/ram0 rw", Volatile, "ram0 is a disk in memory"),
        (
            "40 27 7:0 / /mnt rw - ext4 /dev/loop0 rw",
            Volatile,
            "it lies on /tmp/image, and tmpfs is memory",
        ),
    ];
    for (line, durability, part) in cases {
        let tree = mounted(line);
        for folder in ["u", "tmp/u", "tmp/image"] {
            std::fs::create_dir_all(tree.path().join(folder)).unwrap();
        }
        for (number, disk) in [("252:0", "zram0"), ("1:0", "ram0"), ("7:0", "loop0")] {
            tree.write(&format!("sys/devices/virtual/block/{disk}/size"), "1\n");
            tree.link(
                &format!("sys/dev/block/{number}"),
                &format!("sys/devices/virtual/block/{disk}"),
            );
        }
        tree.write("sys/devices/virtual/block/loop0/loop/backing_file", "/tmp/image\n");
        let said = on(&tree, "/mnt/x", refused());
        assert_said(&said, durability, &[part, "mounted at /mnt"]);
    }
}

#[test]
fn doubts_are_told() {
    let cases = [
        ("40 27 254:0 / /mnt rw - ext4 /dev/vda rw,nobarrier", "mounted without barriers"),
        ("40 27 0:33 / /mnt rw - btrfs /dev/vda rw", "can meet a full file system"),
        ("40 27 0:33 / /mnt rw - 9p share rw", "what that server makes of it"),
        (
            "40 27 0:33 / /mnt rw - overlay overlay rw,upperdir=/far/u",
            "/far/u, on which it lies, cannot be seen",
        ),
        ("40 27 0:33 / /mnt rw - bcachefs x rw", "what bcachefs lies on cannot be seen"),
    ];
    for (line, part) in cases {
        assert_said(
            &on(&mounted(line), "/mnt/x", refused()),
            Durability::PageCache,
            &["MAP_SYNC was refused", part],
        );
    }
    // An upper folder that the mount itself seems to hold is another namespace's.
    let tree = Tree::new();
    tree.write("proc/self/mountinfo", "1 0 0:33 / / rw - overlay overlay rw,upperdir=/u");
    std::fs::create_dir(tree.path().join("u")).unwrap();
    assert_said(
        &on(&tree, "/x", refused()),
        Durability::PageCache,
        &["MAP_SYNC", "cannot be seen from here"],
    );
}

#[test]
fn the_mount_is_the_one_that_the_file_was_opened_through() {
    let tree =
        mounted("40 27 0:33 / /mnt rw - tmpfs none rw\n41 40 254:0 / /mnt rw - ext4 /dev/vda rw");
    let of = |id, magic| match Facts::of_file(tree.path(), id, Path::new("/mnt/x"), magic).kind {
        Kind::File(layer) => layer.fs,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (of(None, 0), of(Some(40), 0), of(Some(41), 0)),
        ("ext4".into(), "tmpfs".into(), "ext4".into())
    );
    // A memfd was mounted nowhere.
    assert_eq!(of(Some(99), 0x0102_1994), "tmpfs");
    let facts = Facts::of_file(tree.path(), Some(99), Path::new("/memfd:x (deleted)"), 0x0102_1994);
    assert_said(
        &judge("x".into(), &facts, &refused()),
        Durability::Volatile,
        &["tmpfs is memory", "mount cannot be seen"],
    );
    assert_eq!(of(Some(99), 0xabc), "a file system of type 0xabc");
}

#[test]
fn what_cannot_be_written_keeps_its_verdict_and_says_so() {
    let tree = pmem(NFIT, "ACPI.NFIT", Some("memory_controller"), "ro,dax");
    let why = "Read-only file system (os error 30)";
    let facts = Facts { unwritable: Some(why.into()), ..facts(&tree, "/mnt/pmem/x") };
    assert_said(
        &judge("x".into(), &facts, &MapSync::Accepted),
        ADR,
        &["memory_controller", "ro,dax", why],
    );
    let not_tried = MapSync::NotTried("no file can be made there (Permission denied)".into());
    let said = judge("x".into(), &facts, &not_tried);
    assert_said(
        &said,
        Durability::PageCache,
        &["no file can be made there (Permission denied)", why],
    );
}

#[test]
fn memory() {
    for (kind, part) in [(Kind::Anonymous, "ends with the process"), (Kind::Memfd, "memfd")] {
        let said =
            judge("memory".into(), &Facts::of_memory(kind), &MapSync::NotTried("memory".into()));
        assert_said(&said, Durability::Volatile, &[part]);
    }
}

#[test]
fn map_sync_alone_proves_nothing() {
    let layer = |below| Layer { fs: "ext4".into(), mount: None, below };
    let with = |below| Facts {
        kind: Kind::File(layer(below)),
        memmap: vec![],
        virtual_machine: false,
        unwritable: None,
    };
    let proven = NdRegion { persistence_domain: Some("cpu_cache".into()), ..NdRegion::default() };
    for below in [
        vec![],
        vec![Below::Ground(Ground::Device("sda".into()))],
        vec![Below::Ground(Ground::Unknown("it is hidden".into()))],
        vec![
            Below::Ground(Ground::Nd(proven.clone())),
            Below::Ground(Ground::RamDisk("ram0".into())),
        ],
        vec![Below::Layer(
            "/x".into(),
            Box::new(layer(vec![Below::Ground(Ground::Nd(proven.clone()))])),
        )],
    ] {
        let said = judge("x".into(), &with(below), &MapSync::Accepted);
        assert_eq!(said.durability(), Durability::UnprovenMedium, "{said}");
    }
    let said =
        judge("x".into(), &with(vec![Below::Ground(Ground::Nd(proven))]), &MapSync::Accepted);
    assert_eq!(said.durability(), EADR);
}

#[test]
fn durabilities_are_ordered() {
    let ordered =
        [Durability::Volatile, Durability::PageCache, Durability::UnprovenMedium, ADR, EADR];
    assert!(ordered.is_sorted());
    assert!(ordered.windows(2).all(|pair| pair[0] < pair[1]));
}
