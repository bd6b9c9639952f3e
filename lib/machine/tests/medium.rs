//! From a file to its medium, on trees that stand in for machines: the way down, where a flush
//! goes, and what follows.

#[path = "medium/trees.rs"]
mod trees;

use std::path::Path;
use std::time::Duration;

use ringfence_machine::doctor::Severity;
use ringfence_machine::medium::{
    Below, Device, DeviceKind, Durable, FileSystemKind, Medium, Reach, Reading,
};
use ringfence_system::fixture::FixtureTree;

// As stat(2) would give it, for small numbers.
fn at(tree: &FixtureTree, path: &str, (major, minor): (u64, u64)) -> Medium {
    Medium::of(&tree.root(), Path::new(path), major << 8 | minor)
}

fn device(below: &[Below]) -> &Device {
    match below {
        [Below::Device(device)] => device,
        other => panic!("one device is below, not {other:?}"),
    }
}

fn promise(medium: &Medium, call: &str) -> (Durable, String) {
    let found = medium.promises.iter().find(|promise| promise.call == call).unwrap();
    (found.durable, found.how.clone())
}

fn text(medium: &Medium) -> String {
    let parts = medium.shown().into_iter().flat_map(|part| {
        let lines = part.lines.into_iter().map(|(lead, text)| format!("{lead}|{text}\n"));
        std::iter::once(format!("# {}\n", part.heading)).chain(lines).collect::<Vec<_>>()
    });
    parts.collect()
}

fn ids(medium: &Medium) -> Vec<String> {
    medium.findings().into_iter().map(|finding| finding.id).collect()
}

fn disks(names: &[&str]) -> Reach {
    Reach::Disks(names.iter().map(ToString::to_string).collect())
}

// Never is anything promised to be durable of these.
#[track_caller]
fn weak_calls_are_weak(medium: &Medium) {
    for call in ["sync_file_range", "O_DIRECT", "none"] {
        assert_eq!(promise(medium, call).0, Durable::No, "{call}");
    }
}

#[test]
fn ext4_on_a_partition_of_a_virtio_disk() {
    let medium = at(&trees::virtio(), "/home/me/file", (254, 1));
    let fs = &medium.file_system;
    assert_eq!((fs.name.as_str(), fs.kind, fs.journal), ("ext4", FileSystemKind::Disk, Some(true)));
    let options: Vec<&str> = fs.options.iter().map(|setting| setting.option.as_str()).collect();
    assert_eq!(options, ["relatime", "discard"]);
    let partition = device(&fs.below);
    assert_eq!(
        (partition.name.as_str(), partition.kind, &partition.queue),
        ("vda1", DeviceKind::Partition, &None)
    );
    let disk = device(&partition.below);
    let queue = disk.queue.as_ref().unwrap();
    assert_eq!(
        (disk.name.as_str(), disk.kind, disk.bytes),
        ("vda", DeviceKind::Virtio, Some(40 << 30))
    );
    assert_eq!(
        (queue.scheduler.as_deref(), queue.fua, queue.wbt_lat_usec),
        (Some("mq-deadline"), Some(false), Some(75000))
    );
    assert_eq!((queue.logical_block_bytes, queue.physical_block_bytes), (Some(512), Some(4096)));
    assert_eq!(medium.flush, disks(&["vda"]));
    for call in ["fsync", "fdatasync", "O_SYNC", "O_DSYNC", "RWF_DSYNC", "msync"] {
        assert_eq!(promise(&medium, call).0, Durable::Yes, "{call}");
    }
    weak_calls_are_weak(&medium);
    let (_, how) = promise(&medium, "fsync");
    assert!(how.contains("the journal is committed; then vda is told to flush its cache"), "{how}");
    assert!(promise(&medium, "O_DSYNC").1.contains("without FUA, each takes a flush"));
    assert!(promise(&medium, "none").1.contains("dirty for 30 s"));
    assert!(
        medium.unknown[0].contains("whether the host stores what vda is asked"),
        "{:?}",
        medium.unknown
    );
    assert_eq!(ids(&medium), ["disk-queue"]);
}

#[test]
fn xfs_encrypted_on_nvme() {
    let medium = at(&trees::crypt(), "/home/me", (252, 0));
    let crypt = device(&medium.file_system.below);
    assert_eq!(
        (crypt.kind, crypt.what.as_str()),
        (DeviceKind::Mapper, "dm-crypt (encrypted) 'home'")
    );
    let disk = device(&device(&crypt.below).below);
    assert_eq!((disk.kind, disk.model.as_deref()), (DeviceKind::Nvme, Some("EXAMPLE SSD 2TB")));
    assert_eq!(disk.queue.as_ref().unwrap().atomic_write_unit_max_bytes, Some(65536));
    assert_eq!(medium.flush, disks(&["nvme0n1"]));
    assert!(
        promise(&medium, "O_DSYNC").1.contains("one write with FUA"),
        "{:?}",
        promise(&medium, "O_DSYNC")
    );
    assert!(
        medium.unknown[0].starts_with("whether nvme0n1 does what it reports"),
        "{:?}",
        medium.unknown
    );
    assert!(text(&medium).contains("writes of 512B to 64KiB are never torn"), "{}", text(&medium));
}

#[test]
fn a_raid_of_two_disks_one_of_which_has_no_volatile_cache() {
    let medium = at(&trees::raid("raid1"), "/srv/db", (9, 0));
    let raid = device(&medium.file_system.below);
    assert_eq!(
        (raid.kind, raid.what.as_str(), raid.below.len()),
        (DeviceKind::Raid, "raid1 of 2 (md)", 2)
    );
    assert!(raid.notes.is_empty(), "{:?}", raid.notes);
    assert_eq!(medium.flush, disks(&["sda"]));
    assert_eq!(
        medium.disks().iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>(),
        ["sda", "sdb"]
    );
    assert_eq!(medium.disks()[0].model.as_deref(), Some("ATA EXAMPLE DISK"));
    // With data in the journal, O_DIRECT is buffered: nothing to say of FUA.
    assert_eq!(promise(&medium, "O_DSYNC").1, "each write returns as if fdatasync had followed");
    assert!(text(&medium).contains("rotational; scheduler bfq"), "{}", text(&medium));
    let five = at(&trees::raid("raid5"), "/srv/db", (9, 0));
    let notes = &device(&five.file_system.below).notes;
    assert!(notes[0].contains("parity can be wrong"), "{notes:?}");
}

#[test]
fn a_raid_that_holds_flushes_back_is_found() {
    let tree = trees::raid("raid1");
    tree.write("/sys/devices/virtual/block/md0/queue/write_cache", "write through\n");
    let medium = at(&tree, "/srv/db", (9, 0));
    let Reach::Stopped(why) = &medium.flush else { panic!("{:?}", medium.flush) };
    assert!(
        why.contains("md0 reports that it has no volatile cache") && why.contains("to sda"),
        "{why}"
    );
    assert_eq!(promise(&medium, "fsync").0, Durable::No);
}

#[test]
fn a_disk_without_a_volatile_cache_has_nothing_to_flush_with_or_without_barriers() {
    let tree = trees::virtio();
    tree.write(format!("{}/queue/write_cache", trees::VDA), "write through\n");
    let mount = |options: &str| {
        tree.write(
            "/proc/self/mountinfo",
            format!("27 1 254:1 / / rw - ext4 /dev/vda1 rw,{options}\n"),
        );
        at(&tree, "/x", (254, 1))
    };
    for options in ["discard", "nobarrier"] {
        let medium = mount(options);
        assert_eq!(medium.flush, Reach::NothingToFlush(vec!["vda".into()]));
        let (durable, how) = promise(&medium, "fsync");
        assert!(durable == Durable::Yes && how.contains("no flush is sent to it"), "{how}");
    }
    tree.write(format!("{}/queue/write_cache", trees::VDA), "write back\n");
    for options in ["nobarrier", "barrier=0"] {
        let medium = mount(options);
        let Reach::Stopped(why) = &medium.flush else { panic!("{:?}", medium.flush) };
        assert!(why.contains(options) && why.contains("no flush is sent to vda"), "{why}");
        assert_eq!(promise(&medium, "fdatasync").0, Durable::No);
        let found = medium.findings();
        assert_eq!(
            (found[0].id.as_str(), found[0].severity),
            ("disk-not-flushed", Severity::Serious)
        );
    }
    let medium = mount("sync");
    assert_eq!(promise(&medium, "none").0, Durable::Yes);
}

#[test]
fn a_file_system_in_a_file_goes_on_to_where_that_lies() {
    let tree = trees::looped();
    let medium = at(&tree, "/mnt/file", (7, 0));
    let disk = device(&medium.file_system.below);
    let [Below::File { path, file_system }] = &disk.below[..] else { panic!("{disk:?}") };
    assert_eq!((path.as_str(), file_system.name.as_str()), ("/images/disk.img", "ext4"));
    assert_eq!(medium.flush, disks(&["vda"]));
    assert!(
        promise(&medium, "fsync")
            .1
            .contains("loop0 is told to flush becomes an fsync of /images/disk.img")
    );
    assert!(text(&medium).contains("data are cached twice"), "{}", text(&medium));
    // Of the disk at the bottom alone the load matters.
    assert_eq!(medium.disks().len(), 1);
    // What a task asks is the loop device, and what writes in the end is the disk.
    let names =
        |all: Vec<&Device>| all.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(medium.asked()), ["loop0"]);
    assert_eq!(names(medium.disks()), ["vda"]);
    // A loop device that takes no flush leaves its file's pages dirty.
    let loop0 = "/sys/devices/virtual/block/loop0";
    tree.write(format!("{loop0}/queue/write_cache"), "write through\n");
    assert_eq!(
        at(&tree, "/mnt/file", (7, 0)).flush,
        Reach::Stopped("loop0 accepts no flush, so its file is never synced".into())
    );
    // So does one that is sent none, whatever the disk below states.
    tree.write(format!("{loop0}/queue/write_cache"), "write back\n");
    let barriers = tree.root().read_trimmed("/proc/self/mountinfo").unwrap();
    tree.write("/proc/self/mountinfo", format!("{barriers},nobarrier\n"));
    for cache in ["write back", "write through"] {
        tree.write(format!("{}/queue/write_cache", trees::VDA), cache);
        let medium = at(&tree, "/mnt/file", (7, 0));
        let why = "ext4 is mounted with nobarrier: no flush is sent to loop0, so its file is never \
                   synced";
        assert_eq!(medium.flush, Reach::Stopped(why.into()), "{cache}");
        let (durable, how) = promise(&medium, "fsync");
        assert!(
            durable == Durable::No && how.contains(why) && !how.contains("becomes an fsync"),
            "{how}"
        );
    }
    // And one whose file lies in memory loses all.
    tree.write(format!("{loop0}/loop/backing_file"), "/run/disk.img\n").write("/run/disk.img", "");
    let medium = at(&tree, "/mnt/file", (7, 0));
    assert_eq!(medium.flush, Reach::Memory("tmpfs".into()));
    assert_eq!(promise(&medium, "fsync").0, Durable::No);
}

#[test]
fn an_overlay_goes_on_to_its_upper_folder() {
    let tree = trees::overlay("upperdir=/var/lib/c/upper,workdir=/var/lib/c/work");
    // A file's st_dev can be that of the file system below, or made up.
    for dev in [(0, 50), (254, 1), (0, 99)] {
        let medium = at(&tree, "/merged/file", dev);
        assert_eq!(
            (medium.file_system.kind, &medium.flush),
            (FileSystemKind::Overlay, &disks(&["vda"]))
        );
        assert!(promise(&medium, "fsync").1.contains("the journal is committed"));
    }
    for option in ["volatile", "fsync=volatile"] {
        let tree = trees::overlay(&format!("upperdir=/var/lib/c/upper,{option}"));
        let medium = at(&tree, "/merged/file", (0, 50));
        assert!(
            matches!(&medium.flush, Reach::Stopped(why) if why.contains(option)),
            "{:?}",
            medium.flush
        );
        let (durable, how) = promise(&medium, "fsync");
        assert!(durable == Durable::No && how.starts_with("the call does nothing"), "{how}");
    }
    // From inside of a container its upper folder is out of sight.
    let hidden = trees::overlay("upperdir=/elsewhere/upper");
    let medium = at(&hidden, "/merged/file", (0, 50));
    assert_eq!(promise(&medium, "fsync").0, Durable::Unknown);
    assert!(
        medium.unknown[0].contains("/elsewhere/upper, on which it lies, cannot be seen"),
        "{:?}",
        medium.unknown
    );
    let medium = at(&trees::overlay("index=off"), "/merged/file", (0, 50));
    assert!(text(&medium).contains("no upper folder"), "{}", text(&medium));
}

#[test]
fn memory_has_nothing_below() {
    let medium = at(&trees::virtio(), "/dev/shm/x", (0, 23));
    assert_eq!(
        (medium.file_system.kind, &medium.flush),
        (FileSystemKind::Memory, &Reach::Memory("tmpfs".into()))
    );
    assert!(medium.promises.iter().all(|promise| promise.durable == Durable::No));
    assert!(medium.unknown.is_empty() && medium.disks().is_empty() && ids(&medium).is_empty());
}

#[test]
fn what_a_server_has_is_as_durable_as_it_says() {
    let tree = trees::served();
    for (path, minor, how, unknown) in [
        ("/nfs/x", 40, "COMMIT", "an export with 'async'"),
        ("/9p/x", 41, "Tfsync", "the server behind 9p"),
        ("/host/x", 42, "FUSE_FSYNC", "the server behind virtiofs"),
    ] {
        let medium = at(&tree, path, (0, minor));
        let (durable, said) = promise(&medium, "fsync");
        assert_eq!(durable, Durable::AsTheServerSays, "{path}");
        assert!(
            said.contains(how) && medium.unknown[0].contains(unknown),
            "{said} {:?}",
            medium.unknown
        );
        weak_calls_are_weak(&medium);
    }
    let medium = at(&tree, "/win/x", (0, 43));
    assert_eq!(promise(&medium, "fsync").0, Durable::No);
    assert_eq!(ids(&medium), ["disk-not-flushed"]);
}

#[test]
fn btrfs_has_all_its_disks_though_its_device_numbers_are_made_up() {
    let tree = trees::btrfs();
    let medium = at(&tree, "/home/me/x", (0, 77));
    assert_eq!(
        (medium.file_system.name.as_str(), &medium.flush),
        ("btrfs", &disks(&["sda", "sdb"]))
    );
    let options: Vec<&str> =
        medium.file_system.options.iter().map(|setting| setting.option.as_str()).collect();
    assert_eq!(options, ["relatime", "compress=zstd:3", "discard=async"]);
    assert!(promise(&medium, "fsync").1.contains("sda and sdb are told to flush their cache"));
    // Without the list, at least the one that was mounted.
    tree.remove("/sys/fs/btrfs");
    assert_eq!(at(&tree, "/home/me/x", (0, 77)).flush, disks(&["sda"]));
}

#[test]
fn zfs_does_not_say_where_it_lies() {
    let tree = FixtureTree::empty("medium-zfs");
    tree.write(
        "/proc/self/mountinfo",
        "27 1 0:33 / /tank rw,noatime - zfs tank rw,xattr,posixacl\n",
    );
    let medium = at(&tree, "/tank/x", (0, 33));
    assert_eq!(
        (medium.file_system.kind, promise(&medium, "fsync").0),
        (FileSystemKind::Pool, Durable::Unknown)
    );
    assert!(medium.unknown.iter().any(|text| text.contains("zfsprops(7)")), "{:?}", medium.unknown);
}

#[test]
fn of_mounts_on_one_point_the_device_decides() {
    let tree = trees::virtio();
    tree.write(
        "/proc/self/mountinfo",
        "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
         28 27 254:1 / /a/b rw - ext4 /dev/vda1 rw,commit=9\n\
         29 27 0:60 / /a rw - tmpfs hides rw\n",
    );
    assert_eq!(at(&tree, "/a/b/x", (0, 60)).file_system.source, "hides");
    assert!(
        at(&tree, "/a/b/x", (254, 1))
            .file_system
            .options
            .iter()
            .any(|setting| setting.option == "commit=9")
    );
}

#[test]
fn without_a_journal_it_is_said() {
    let tree = trees::virtio();
    tree.write("/sys/fs/ext4/vda1/journal_task", "<none>\n");
    let medium = at(&tree, "/x", (254, 1));
    assert_eq!(medium.file_system.journal, Some(false));
    assert!(promise(&medium, "fsync").1.contains("without a journal"));
    assert_eq!(ids(&medium), ["disk-no-journal", "disk-queue"]);
}

#[test]
fn what_is_missing_or_damaged_is_said_and_never_guessed() {
    let nothing = FixtureTree::empty("medium-nothing");
    let medium = at(&nothing, "/x", (254, 1));
    assert_eq!(
        (medium.file_system.name.as_str(), promise(&medium, "fsync").0),
        ("unknown", Durable::Unknown)
    );
    assert!(medium.unknown[0].contains("/proc/self/mountinfo"), "{:?}", medium.unknown);

    // No mounts, as in some sandboxes; the device is known all the same.
    let tree = trees::virtio();
    tree.remove("/proc/self/mountinfo");
    assert_eq!(at(&tree, "/x", (254, 1)).flush, disks(&["vda"]));

    let tree = trees::virtio();
    tree.remove("/sys/dev/block");
    let medium = at(&tree, "/x", (254, 1));
    assert!(
        matches!(&medium.flush, Reach::Unknown(why) if why.contains("/sys/dev/block/254:1")),
        "{:?}",
        medium.flush
    );

    let tree = trees::virtio();
    for (file, text) in [
        ("write_cache", "sideways\n"),
        ("fua", "maybe\n"),
        ("scheduler", "\n"),
        ("wbt_lat_usec", "-1\n"),
    ] {
        tree.write(format!("{}/queue/{file}", trees::VDA), text);
    }
    let medium = at(&tree, "/x", (254, 1));
    let queue = medium.disks()[0].queue.clone().unwrap();
    assert_eq!(
        (queue.write_cache, queue.fua, queue.scheduler, queue.wbt_lat_usec),
        (None, None, None, None)
    );
    assert!(
        matches!(&medium.flush, Reach::Unknown(why) if why.contains("vda does not report")),
        "{:?}",
        medium.flush
    );
    assert_eq!(promise(&medium, "fsync").0, Durable::Unknown);

    let tree = trees::virtio();
    tree.remove(format!("{}/queue", trees::VDA));
    assert_eq!(promise(&at(&tree, "/x", (254, 1)), "fsync").0, Durable::Unknown);

    let tree = trees::raid("raid1");
    tree.remove("/sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sdb");
    let medium = at(&tree, "/srv/db", (9, 0));
    assert!(
        matches!(&medium.flush, Reach::Unknown(why) if why.ends_with("slaves/sdb leads nowhere")),
        "{:?}",
        medium.flush
    );

    let tree = trees::looped();
    tree.remove("/sys/devices/virtual/block/loop0/loop");
    assert_eq!(promise(&at(&tree, "/mnt/x", (7, 0)), "fsync").0, Durable::Unknown);
}

#[test]
fn a_loop_in_the_stack_ends() {
    let tree = trees::looped();
    // A file that lies on the device that it makes, and a device made of itself.
    tree.write("/sys/devices/virtual/block/loop0/loop/backing_file", "/mnt/disk.img\n")
        .write("/mnt/disk.img", "");
    assert_eq!(promise(&at(&tree, "/mnt/x", (7, 0)), "fsync").0, Durable::Unknown);
    let tree = trees::raid("raid0");
    let md = "/sys/devices/virtual/block/md0";
    tree.remove(format!("{md}/slaves")).link(format!("{md}/slaves/md0"), md);
    assert_eq!(promise(&at(&tree, "/srv/x", (9, 0)), "fsync").0, Durable::Unknown);
}

#[test]
fn foreign_load_between_two_readings() {
    let tree = trees::virtio();
    let mut medium = at(&tree, "/x", (254, 1));
    let before = Reading::of(&tree.root(), &medium.disks());
    let quarter = Duration::from_millis(250);
    medium.load = before.until(&before, quarter);
    assert!(!medium.load[0].is_written_to());
    assert!(!text(&medium).contains("another program writes to it"));
    tree.write(
        format!("{}/stat", trees::VDA),
        "  101  0  808  9  209  0  6048  9  2  30  18  0  0  0  0  53  9\n",
    );
    medium.load = before.until(&Reading::of(&tree.root(), &medium.disks()), quarter);
    let busiest = before.busiest_until(&Reading::of(&tree.root(), &medium.disks()));
    assert_eq!(busiest, Some(Duration::from_millis(12)));
    let load = &medium.load[0];
    assert_eq!((load.device.as_str(), load.reads, load.read_bytes), ("vda", 1, 4096));
    assert_eq!(
        (load.writes, load.written_bytes, load.flushes, load.in_flight),
        (9, 1 << 20, Some(3), 2)
    );
    assert!(load.is_written_to());
    assert_eq!(ids(&medium), ["disk-written-to", "disk-queue"]);
    assert!(
        text(&medium).contains(
            "9 writes (1MiB), 3 flushes and 1 reads (4KiB) in 0.25 s, 2 in flight: another"
        ),
        "{}",
        text(&medium)
    );
    // Counts of a kernel before 5.5, and of a disk that came again, and none.
    tree.write(format!("{}/stat", trees::VDA), "5 0 0 0 5 0 0 0 0 0 0\n");
    let later = before.until(&Reading::of(&tree.root(), &medium.disks()), quarter);
    assert_eq!((later[0].writes, later[0].flushes), (0, None));
    // A disk that does not count has constant counts, which say nothing.
    let counting = format!("{}/queue/iostats", trees::VDA);
    for (value, known) in [("1\n", 1), ("0\n", 0)] {
        tree.write(&counting, value);
        assert_eq!(before.until(&Reading::of(&tree.root(), &medium.disks()), quarter).len(), known);
    }
    tree.remove(&counting);
    tree.write(format!("{}/stat", trees::VDA), "damaged\n");
    assert!(before.until(&Reading::of(&tree.root(), &medium.disks()), quarter).is_empty());
}

#[test]
fn this_machine_can_be_followed() {
    use std::os::unix::fs::MetadataExt;
    let dir = std::env::current_dir().unwrap();
    let device = std::fs::metadata(&dir).unwrap().dev();
    let medium = Medium::of(&ringfence_machine::root::FsRoot::host(), &dir, device);
    assert_eq!(medium.promises.len(), 9);
    assert!(text(&medium).starts_with("# From file to medium\n"));
}
