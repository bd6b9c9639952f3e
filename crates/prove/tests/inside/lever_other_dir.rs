use super::*;
use ringfence_experiment::task::axes;
use ringfence_machine::fixtures::FixtureTree;

fn task(table: &str) -> Task {
    axes::expand(&table.parse().unwrap()).unwrap().remove(0).task
}

// A disk with two partitions, another disk, and memory.
fn tree() -> FixtureTree {
    let tree = FixtureTree::empty("other-dir");
    let (one, two) = ("/sys/devices/pci/block/vda", "/sys/devices/pci/block/vdb");
    tree.write(format!("{one}/dev"), "254:0\n")
        .write(format!("{one}/vda1/partition"), "1\n")
        .write(format!("{one}/vda2/partition"), "2\n")
        .write(format!("{two}/dev"), "254:16\n")
        .link("/sys/dev/block/254:1", format!("{one}/vda1"))
        .link("/sys/dev/block/254:2", format!("{one}/vda2"))
        .link("/sys/dev/block/254:16", two)
        .write(
            "/proc/self/mountinfo",
            "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n28 27 254:2 / /home rw - xfs /dev/vda2 rw\n\
             29 27 254:16 / /data rw - ext4 /dev/vdb rw\n30 27 0:23 / /dev/shm rw - tmpfs tmpfs rw\n\
             31 27 0:24 / /far rw - nfs4 server:/far rw\n",
        );
    tree
}

fn place(tree: &FixtureTree, path: &str, device: u64) -> Place {
    Place { path: path.into(), device, medium: Medium::of(&tree.root(), Path::new(path), device) }
}

#[test]
fn it_says_what_is_shared_as_before() {
    let tree = tree();
    let root = place(&tree, "/srv", 254 << 8 | 1);
    let said = |path: &str, device: u64| compared(&root, &place(&tree, path, device), "the victim's files");
    for (path, device, part) in [
        ("/var", 254 << 8 | 1, "/var is on the file system of the victim's files: its journal and its disk"),
        ("/home/x", 254 << 8 | 2, "(xfs) on the same disk as the victim's files (vda): the disk is shared"),
        ("/data", 254 << 8 | 16, "(ext4) on another disk (vdb) than the victim's files (vda)"),
        ("/dev/shm", 23, "in memory (tmpfs): nothing there reaches a disk"),
        ("/far", 24, "another file system (nfs4); whether that is on another disk"),
    ] {
        assert!(said(path, device).contains(part), "{}", said(path, device));
    }
}

#[test]
fn only_built_in_tasks_on_files_are_moved() {
    for table in ["workload = 'dirty'", "workload = 'churn'", "workload = 'scan'", "workload = 'commit'"] {
        assert_eq!(own_folder(&task(table)), Ok(Path::new(".")), "{table}");
    }
    let refused = |table: &str| own_folder(&task(table)).unwrap_err();
    assert!(refused("workload = 'command'\nrun = 'true'").contains("knows itself"));
    assert!(refused("workload = 'alu'").contains("uses no files"));
}

#[test]
fn the_arm_sets_the_folder_alone() {
    let table: Table = "workload = 'dirty'\ndir = '/a'\nio = 'direct'".parse().unwrap();
    let offered = candidate(&OtherDir, &table, Path::new("/b"), "c".into());
    assert_eq!(offered.arm.name, "other dir /b");
    assert_eq!(
        offered.arm.set["aggressor"],
        Table::from_iter([("dir".to_string(), Value::String("/b".into()))])
    );
    assert!(offered.keep.ends_with("here: dirty dir=/b io=direct"), "{}", offered.keep);
    assert_eq!(offered.caveat.as_deref(), Some("c"));
}
