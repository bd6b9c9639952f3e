//! `/sys` and `/proc` of machines whose files lie on this and on that.

use ringfence_system::fixture::FixtureTree;

/// What a disk's queue states.
pub struct Disk<'a> {
    pub dir: &'a str,
    pub number: &'a str,
    pub write_cache: &'a str,
    pub fua: &'a str,
    pub scheduler: &'a str,
}

impl Disk<'_> {
    /// Writes it, with what most disks state.
    pub fn write(&self, tree: &FixtureTree) {
        let Disk { dir, number, .. } = self;
        let name = dir.rsplit('/').next().unwrap();
        for (file, text) in [
            ("write_cache", self.write_cache),
            ("fua", self.fua),
            ("scheduler", self.scheduler),
            ("rotational", "0"),
            ("nr_requests", "256"),
            ("logical_block_size", "512"),
            ("physical_block_size", "4096"),
            ("atomic_write_unit_min_bytes", "0"),
            ("atomic_write_unit_max_bytes", "0"),
            ("wbt_lat_usec", "75000"),
        ] {
            tree.write(format!("{dir}/queue/{file}"), format!("{text}\n"));
        }
        tree.write(format!("{dir}/size"), "83886080\n")
            .write(format!("{dir}/dev"), format!("{number}\n"));
        tree.write(format!("{dir}/stat"), STAT);
        tree.link(format!("/sys/dev/block/{number}"), dir)
            .link(format!("/sys/class/block/{name}"), dir);
    }
}

/// Reads, merged, sectors, ms; writes, merged, sectors, ms; in flight, ms, ms; discards; flushes.
pub const STAT: &str = "  100  0  800  9  200  0  4000  9  0  18  18  0  0  0  0  50  9\n";

pub const VDA: &str = "/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda";

fn partition(tree: &FixtureTree, disk: &str, name: &str, number: &str) {
    let dir = format!("{disk}/{name}");
    tree.write(format!("{dir}/partition"), "1\n")
        .write(format!("{dir}/size"), "83884032\n")
        .write(format!("{dir}/dev"), format!("{number}\n"))
        .link(format!("/sys/dev/block/{number}"), &dir)
        .link(format!("/sys/class/block/{name}"), &dir);
}

/// ext4 with a journal on the first partition of a virtio disk, in a virtual machine.
pub fn virtio() -> FixtureTree {
    let tree = FixtureTree::empty("medium-virtio");
    Disk {
        dir: VDA,
        number: "254:0",
        write_cache: "write back",
        fua: "0",
        scheduler: "none [mq-deadline] kyber bfq",
    }
    .write(&tree);
    partition(&tree, VDA, "vda1", "254:1");
    tree.write("/sys/fs/ext4/vda1/journal_task", "123\n")
        .write("/proc/cpuinfo", "processor : 0\nflags : fpu sse2 hypervisor\n")
        .write("/proc/sys/vm/dirty_expire_centisecs", "3000\n")
        .write(
            "/proc/self/mountinfo",
            "27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw,discard,errors=remount-ro\n\
             28 27 0:23 / /dev/shm rw,nosuid - tmpfs tmpfs rw\n",
        );
    tree
}

/// XFS on a partition of NVMe, encrypted; on bare metal.
pub fn crypt() -> FixtureTree {
    let tree = FixtureTree::empty("medium-crypt");
    let nvme = "/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";
    Disk {
        dir: nvme,
        number: "259:0",
        write_cache: "write back",
        fua: "1",
        scheduler: "[none] mq-deadline",
    }
    .write(&tree);
    tree.write(format!("{nvme}/queue/atomic_write_unit_min_bytes"), "512\n")
        .write(format!("{nvme}/queue/atomic_write_unit_max_bytes"), "65536\n")
        .write(format!("{nvme}/device/model"), "EXAMPLE SSD 2TB                \n")
        .write(format!("{nvme}/device/transport"), "pcie\n");
    partition(&tree, nvme, "nvme0n1p2", "259:2");
    let dm = "/sys/devices/virtual/block/dm-0";
    Disk { dir: dm, number: "252:0", write_cache: "write back", fua: "1", scheduler: "none" }
        .write(&tree);
    tree.write(format!("{dm}/dm/name"), "home\n")
        .write(format!("{dm}/dm/uuid"), "CRYPT-LUKS2-0123-home\n")
        .link(format!("{dm}/slaves/nvme0n1p2"), format!("{nvme}/nvme0n1p2"))
        .write("/proc/cpuinfo", "processor : 0\nflags : fpu sse2\n")
        .write(
            "/proc/self/mountinfo",
            "27 1 252:0 / /home rw,noatime - xfs /dev/mapper/home rw,attr2,inode64,logbufs=8\n",
        );
    tree
}

/// ext4 on a RAID of two SATA disks, of which one states no volatile cache.
pub fn raid(level: &str) -> FixtureTree {
    let tree = FixtureTree::empty("medium-raid");
    let sd =
        |name: &str| format!("/sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/{name}");
    for (name, number, cache) in [("sda", "8:0", "write back"), ("sdb", "8:16", "write through")] {
        let dir = sd(name);
        Disk { dir: &dir, number, write_cache: cache, fua: "0", scheduler: "[bfq]" }.write(&tree);
        tree.write(format!("{dir}/queue/rotational"), "1\n")
            .write(format!("{dir}/device/vendor"), "ATA     \n")
            .write(format!("{dir}/device/model"), "EXAMPLE DISK    \n");
    }
    let md = "/sys/devices/virtual/block/md0";
    Disk { dir: md, number: "9:0", write_cache: "write back", fua: "1", scheduler: "none" }
        .write(&tree);
    tree.write(format!("{md}/md/level"), format!("{level}\n"))
        .write(format!("{md}/md/raid_disks"), "2\n")
        .write(format!("{md}/md/degraded"), "0\n")
        .write(format!("{md}/md/consistency_policy"), "resync\n")
        .link(format!("{md}/slaves/sda"), sd("sda"))
        .link(format!("{md}/slaves/sdb"), sd("sdb"))
        .write("/sys/fs/ext4/md0/journal_task", "77\n")
        .write(
            "/proc/self/mountinfo",
            "27 1 9:0 / /srv rw - ext4 /dev/md0 rw,data=journal,commit=30\n",
        );
    tree
}

/// ext4 in a file that is used as a disk; the file lies on the ext4 of [`virtio`].
pub fn looped() -> FixtureTree {
    let tree = virtio();
    let dir = "/sys/devices/virtual/block/loop0";
    Disk { dir, number: "7:0", write_cache: "write back", fua: "0", scheduler: "[none]" }
        .write(&tree);
    tree.write(format!("{dir}/loop/backing_file"), "/images/disk.img\n")
        .write(format!("{dir}/loop/dio"), "0\n")
        .write("/images/disk.img", "")
        .write("/sys/fs/ext4/loop0/journal_task", "88\n")
        .write(
            "/proc/self/mountinfo",
            "27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n\
             30 27 0:29 / /run rw - tmpfs tmpfs rw\n\
             31 27 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
        );
    tree
}

/// A container's overlay, whose upper folder lies on the ext4 of [`virtio`].
pub fn overlay(options: &str) -> FixtureTree {
    let tree = virtio();
    tree.folder("/var/lib/c/upper").write(
        "/proc/self/mountinfo",
        format!(
            "27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n\
             60 27 0:50 / /merged rw - overlay overlay rw,lowerdir=/l,{options}\n"
        ),
    );
    tree
}

/// Files of others: NFS, 9p, a virtual machine's host.
pub fn served() -> FixtureTree {
    let tree = FixtureTree::empty("medium-served");
    tree.write(
        "/proc/self/mountinfo",
        "40 1 0:40 / /nfs rw - nfs4 server:/export rw,vers=4.2,hard,proto=tcp\n\
         41 1 0:41 / /9p rw - 9p host rw,trans=virtio,cache=loose\n\
         42 1 0:42 / /host rw - virtiofs share rw\n\
         43 1 0:43 / /win rw - cifs //s/share rw,vers=3.1.1,nostrictsync\n",
    );
    tree
}

/// btrfs over two disks, with the device numbers that it makes up.
pub fn btrfs() -> FixtureTree {
    let tree = FixtureTree::empty("medium-btrfs");
    let disks = [("sda", "8:0"), ("sdb", "8:16")];
    for (name, number) in disks {
        let dir = format!("/sys/devices/pci0000:00/ata1/block/{name}");
        Disk { dir: &dir, number, write_cache: "write back", fua: "1", scheduler: "[none]" }
            .write(&tree);
        tree.link(format!("/sys/fs/btrfs/1234-abcd/devices/{name}"), &dir);
    }
    tree.folder("/sys/fs/btrfs/features").write(
        "/proc/self/mountinfo",
        "27 1 0:33 /@home /home rw,relatime - btrfs /dev/sda \
         rw,compress=zstd:3,discard=async,subvol=/@home\n",
    );
    tree
}
