//! Another folder for the files of a built-in aggressor, which the user names.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Settings, Task};
use ringfence_machine::medium::{FileSystemKind, Medium};
use ringfence_machine::root::FsRoot;

use ringfence_limits::lever::{Candidate, Lever, LeverContext};

pub struct OtherDir;

impl Lever for OtherDir {
    fn name(&self) -> &'static str {
        "other-dir"
    }

    fn about(&self) -> &'static str {
        "files in the folder of --other-dir (built-in tasks on files)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let own = own_folder(context.aggressor)?;
        let other =
            context.other_dir.ok_or("no other folder is named; name one with --other-dir")?;
        let root = FsRoot::host();
        let (here, there) = (Place::of(&root, own)?, Place::of(&root, other)?);
        if here.path == there.path {
            return Err(
                format!("the aggressor's files are in {} already", there.path.display()).into()
            );
        }
        // What counts is what would share a disk with the victim's files.
        let baseline = context.baseline;
        let victims =
            baseline.variants[baseline.metric].first().and_then(|variant| variant.task.works_in());
        let caveat = match victims {
            Some(folder) => compared(&Place::of(&root, folder)?, &there, "the victim's files"),
            None => compared(&here, &there, "the folder that it has now"),
        };
        let set = context.aggressor.with_folder(there.path.clone());
        let set = set.ok_or("the aggressor uses no files")?;
        let moved = context.aggressor_with(&set);
        Ok(vec![candidate(self, &there.path, set, &moved, caveat)])
    }
}

fn own_folder(task: &Task) -> Result<&Path, Reason> {
    match task {
        Task::Command(_) => {
            Err("the aggressor is a program, which chooses the place of its files itself".into())
        }
        task => task.works_in().ok_or_else(|| "the aggressor uses no files".into()),
    }
}

fn candidate(
    lever: &dyn Lever,
    dir: &Path,
    set: Settings,
    moved: &str,
    caveat: String,
) -> Candidate {
    let keep = format!("have the aggressor keep its files in {}; here: {moved}", dir.display());
    Candidate {
        caveat: Some(caveat),
        ..Candidate::set(lever, format!("other dir {}", dir.display()), set, keep)
    }
}

// A folder, and what it lies on.
struct Place {
    path: PathBuf,
    device: u64,
    medium: Medium,
}

impl Place {
    fn of(root: &FsRoot, folder: &Path) -> Result<Self, Reason> {
        let found = || {
            let path = fs::canonicalize(folder)?;
            let device = fs::metadata(&path)?.dev();
            Ok(Self { medium: Medium::of(root, &path, device), path, device })
        };
        found().map_err(|error: std::io::Error| {
            format!("looking at {}: {error}", folder.display()).into()
        })
    }

    fn disks(&self) -> Vec<&str> {
        self.medium.disks().into_iter().map(|disk| disk.name.as_str()).collect()
    }

    // Subvolumes have device numbers of their own.
    fn is_of_the_file_system(&self, other: &Self) -> bool {
        let (own, others) = (&self.medium.file_system, &other.medium.file_system);
        let one_source =
            own.source.starts_with('/') && own.source == others.source && own.name == others.name;
        self.device == other.device || one_source
    }
}

// What is shared as before, and what no longer is.
fn compared(than: &Place, there: &Place, whose: &str) -> String {
    let file_system = &there.medium.file_system;
    let folder = there.path.display();
    if file_system.kind == FileSystemKind::Memory {
        return format!(
            "{folder} is in memory ({}): its files never reach a disk, are lost at a restart, and \
             take memory from other programs",
            file_system.name
        );
    }
    if than.is_of_the_file_system(there) {
        return format!(
            "{folder} is on the file system of {whose}: its journal and its disk are shared as \
             before"
        );
    }
    let (before, after) = (than.disks(), there.disks());
    let shared: Vec<&str> = after.iter().filter(|disk| before.contains(disk)).copied().collect();
    let on = format!("{folder} is on another file system ({})", file_system.name);
    match (shared.is_empty(), before.is_empty() || after.is_empty()) {
        (false, _) => {
            format!(
                "{on} on the same disk as {whose} ({}): the disk is shared as before",
                shared.join(", ")
            )
        }
        (true, true) => {
            format!("{on}; whether it is on another disk than {whose} is unknown")
        }
        (true, false) => format!(
            "{on} on another disk ({}) than {whose} ({}): what the disks have in common is shared \
             as before, such as a controller, the host's device below virtual disks, and the \
             kernel's limit on dirty pages",
            after.join(", "),
            before.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::Tasks;
    use ringfence_machine::fixtures::FixtureTree;

    fn task(table: &str) -> Task {
        Tasks::parse(&table.parse().unwrap()).unwrap().each().unwrap().remove(0).0
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
                 29 27 254:16 / /data rw - ext4 /dev/vdb rw\n30 27 0:23 / /dev/shm rw - tmpfs \
                 tmpfs rw\n\
                 31 27 0:24 / /far rw - nfs4 server:/far rw\n",
            );
        tree
    }

    fn place(tree: &FixtureTree, path: &str, device: u64) -> Place {
        Place {
            path: path.into(),
            device,
            medium: Medium::of(&tree.root(), Path::new(path), device),
        }
    }

    #[test]
    fn it_says_what_is_shared_as_before() {
        let tree = tree();
        let root = place(&tree, "/srv", 254 << 8 | 1);
        let said = |path: &str, device: u64| {
            compared(&root, &place(&tree, path, device), "the victim's files")
        };
        for (path, device, part) in [
            (
                "/var",
                254 << 8 | 1,
                "/var is on the file system of the victim's files: its journal and its disk",
            ),
            (
                "/home/x",
                254 << 8 | 2,
                "(xfs) on the same disk as the victim's files (vda): the disk is shared",
            ),
            ("/data", 254 << 8 | 16, "(ext4) on another disk (vdb) than the victim's files (vda)"),
            ("/dev/shm", 23, "in memory (tmpfs): its files never reach a disk"),
            ("/far", 24, "another file system (nfs4); whether it is on another disk"),
        ] {
            assert!(said(path, device).contains(part), "{}", said(path, device));
        }
    }

    #[test]
    fn only_built_in_tasks_on_files_are_moved() {
        for table in
            ["workload = 'dirty'", "workload = 'churn'", "workload = 'scan'", "workload = 'commit'"]
        {
            assert_eq!(own_folder(&task(table)), Ok(Path::new(".")), "{table}");
        }
        let refused = |table: &str| own_folder(&task(table)).unwrap_err();
        assert!(
            refused("workload = 'command'\nrun = 'true'")
                .contains("chooses the place of its files itself")
        );
        assert!(refused("workload = 'alu'").contains("uses no files"));
    }

    #[test]
    fn the_arm_sets_the_folder_alone() {
        let set = task("workload = 'dirty'").with_folder("/b".into()).unwrap();
        let table = "workload = 'dirty'\ndir = '/a'\nio = 'direct'".parse().unwrap();
        let moved = Tasks::parse(&table).unwrap().with(&set).unwrap().to_string();
        let offered = candidate(&OtherDir, Path::new("/b"), set, &moved, "c".into());
        assert_eq!(offered.arm.name, "other dir /b");
        assert_eq!(offered.arm.set["aggressor"].written().to_string(), "dir = \"/b\"\n");
        assert!(offered.keep.ends_with("here: dirty dir=/b io=direct"), "{}", offered.keep);
        assert_eq!(offered.caveat.as_deref(), Some("c"));
    }
}
