//! Settings of the whole system while an arm runs: a disk's scheduler and how many requests may
//! wait in it (`/sys/block/DISK/queue`; kernel documentation, ABI/stable/sysfs-block), and the
//! dirty pages from which on the kernel writes back (`vm.dirty_background_bytes`;
//! admin-guide/sysctl/vm).
//!
//! They are changed only where the user has allowed it ([`allow`]). Each arm has a journal of
//! changes of its own, which is undone as the arm ends.
//!
//! The kernel changes some of them together: a disk's scheduler begins with its own number of
//! requests, and sets how background writes are throttled (block/elevator.c, block/blk-wbt.c);
//! dirty_background_bytes sets dirty_background_ratio to 0, and the other way round. Settings that
//! changed along with others are restored, too; settings of the scheduler itself (`queue/iosched`)
//! are not.

mod lever;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::system::SystemSetting;
use ringfence_experiment::{Arm, Error, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;
use ringfence_system::changes::{Changes, Options, Write};
use rustix::fs::Access;

use crate::kind::{Begun, Isolation, Kind, Tasks};

pub use lever::{DirtyBackground, QueueRequests, Scheduler};

/// Isolation by system-wide settings.
pub struct BySystem;

impl Kind for BySystem {
    fn wanted(&self, arm: &Arm) -> bool {
        !arm.system.is_empty()
    }

    fn missing(&self, _: &Plan, arm: &Arm, _: &[Active]) -> Option<Reason> {
        not_allowed().or_else(|| missing(&FsRoot::host(), arm))
    }

    fn begin(&self, plan: &Plan) -> Begun {
        Ok(Some(Box::new(System::of(plan, FsRoot::host(), Options::default()))))
    }
}

static ALLOWED: AtomicBool = AtomicBool::new(false);

/// Lets arms change the whole system from now on.
pub fn allow() {
    ALLOWED.store(true, Ordering::Relaxed);
}

fn not_allowed() -> Option<Reason> {
    (!ALLOWED.load(Ordering::Relaxed))
        .then(|| "it changes the whole system; --system allows it".into())
}

const BYTES: &str = "/proc/sys/vm/dirty_background_bytes";
const RATIO: &str = "/proc/sys/vm/dirty_background_ratio";

/// The file of the kernel that holds a setting.
pub fn file(setting: &SystemSetting) -> PathBuf {
    match setting {
        SystemSetting::Scheduler(disk) => queue(disk, "scheduler"),
        SystemSetting::Requests(disk) => queue(disk, "nr_requests"),
        SystemSetting::DirtyBackground => BYTES.into(),
    }
}

fn queue(disk: &str, file: &str) -> PathBuf {
    Path::new("/sys/block").join(disk).join("queue").join(file)
}

/// The schedulers that a disk may have, that in use among them.
pub fn schedulers(root: &FsRoot, disk: &str) -> Vec<String> {
    let text = root.read_opt(queue(disk, "scheduler")).unwrap_or_default();
    text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

/// A setting as the kernel takes it.
pub fn value(setting: &SystemSetting, value: &str) -> String {
    match (setting, value.parse::<Bytes>()) {
        (SystemSetting::DirtyBackground, Ok(bytes)) => bytes.0.to_string(),
        _ => value.to_owned(),
    }
}

fn missing(root: &FsRoot, arm: &Arm) -> Option<Reason> {
    arm.system.iter().find_map(|(setting, value)| {
        let file = file(setting);
        let writable = rustix::fs::access(root.path(&file), Access::READ_OK | Access::WRITE_OK);
        if let Err(error) = writable {
            let error = std::io::Error::from(error);
            return Some(format!("{} cannot be written: {error}", file.display()).into());
        }
        match setting {
            SystemSetting::Scheduler(disk) => {
                let offered = schedulers(root, disk);
                let unknown = !offered.contains(value);
                unknown.then(|| {
                    format!(
                        "the kernel offers no scheduler {value} for {disk}, but {}",
                        offered.join(", ")
                    )
                    .into()
                })
            }
            _ => None,
        }
    })
}

// What is written on the way back, where that is not the old value alone.
fn back(root: &FsRoot, setting: &SystemSetting) -> Vec<Write> {
    let as_now = |file: PathBuf| Some(Write { value: root.read_opt(&file)?, file });
    match setting {
        SystemSetting::Scheduler(disk) => {
            let text = root.read_opt(queue(disk, "scheduler")).unwrap_or_default();
            let first = Write {
                file: queue(disk, "scheduler"),
                value: ringfence_system::changes::plain(&text),
            };
            let along = ["nr_requests", "wbt_lat_usec"].map(|file| as_now(queue(disk, file)));
            std::iter::once(first).chain(along.into_iter().flatten()).collect()
        }
        // 0 is not taken back.
        SystemSetting::DirtyBackground if root.read_opt(BYTES).as_deref() == Some("0") => {
            as_now(RATIO.into()).into_iter().collect()
        }
        SystemSetting::DirtyBackground | SystemSetting::Requests(_) => Vec::new(),
    }
}

struct System {
    root: FsRoot,
    options: Options,
    experiment: String,
    // In the order of the experiment's arms.
    arms: Vec<BTreeMap<SystemSetting, String>>,
    // The arm's whose settings are in place.
    present: BTreeMap<SystemSetting, String>,
    changes: Option<Changes>,
    said: Vec<String>,
}

impl System {
    fn of(plan: &Plan, root: FsRoot, options: Options) -> Self {
        let arms = plan.experiment.arms.iter().map(|arm| arm.system.clone()).collect();
        let experiment = plan.experiment.name.clone();
        Self {
            root,
            options,
            experiment,
            arms,
            present: BTreeMap::new(),
            changes: None,
            said: Vec::new(),
        }
    }

    fn put_back(&mut self) -> Result<(), Error> {
        self.present.clear();
        let Some(mut changes) = self.changes.take() else { return Ok(()) };
        let restored = changes.put_back().map_err(|error| {
            Error::failed(format!(
                "the results are kept, but settings of the whole system could not be restored: \
                 {error}; 'ringfence restore' tries again"
            ))
        })?;
        for one in restored.said() {
            if !self.said.contains(one) {
                self.said.push(one.clone());
            }
        }
        Ok(())
    }

    fn change(
        &mut self,
        wanted: &BTreeMap<SystemSetting, String>,
    ) -> Result<(), ringfence_system::changes::Error> {
        let purpose = format!("settings of the whole system in experiment {}", self.experiment);
        let changes = self.changes.insert(Changes::begin(&self.root, &purpose, &self.options)?);
        for (setting, to) in wanted {
            changes.set_undone_by(file(setting), &value(setting, to), back(&self.root, setting))?;
        }
        Ok(())
    }
}

impl Isolation for System {
    fn begin_trial(&mut self, _: &dyn Tasks) -> Result<(), Error> {
        Ok(())
    }

    fn set(&mut self, arm: usize, _: &dyn Tasks) -> Result<bool, Error> {
        let wanted = self.arms[arm].clone();
        if wanted == self.present {
            return Ok(false);
        }
        self.put_back()?;
        if wanted.is_empty() {
            return Ok(false);
        }
        self.change(&wanted).map_err(Error::failed_by)?;
        self.present = wanted;
        Ok(false)
    }

    fn end_trial(&mut self, _: &dyn Tasks) {
        if let Err(error) = self.put_back() {
            self.said.push(error.to_string());
        }
    }

    fn end(mut self: Box<Self>) -> Result<Vec<String>, Error> {
        self.put_back()?;
        Ok(self.said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_machine::fixtures::FixtureTree;

    struct Nobody;

    impl Tasks for Nobody {
        fn processes(&self, _: usize) -> Vec<u32> {
            Vec::new()
        }

        fn orphans(&self) -> Vec<u32> {
            Vec::new()
        }
    }

    const SCHEDULER: &str = "/sys/block/vda/queue/scheduler";
    const REQUESTS: &str = "/sys/block/vda/queue/nr_requests";

    fn tree(name: &str) -> FixtureTree {
        let tree = FixtureTree::empty(name);
        tree.write(SCHEDULER, "none [mq-deadline] bfq\n")
            .write(REQUESTS, "256\n")
            .write(BYTES, "33554432\n")
            .write(RATIO, "0\n");
        tree
    }

    fn settings(of: &[(&str, &str)]) -> BTreeMap<SystemSetting, String> {
        of.iter().map(|(setting, value)| (setting.parse().unwrap(), (*value).to_owned())).collect()
    }

    fn system(tree: &FixtureTree, arms: &[&[(&str, &str)]]) -> System {
        let root = tree.root();
        System {
            options: Options { folder: Some(root.path("/run/ringfence")), ..Options::default() },
            root,
            experiment: "x".into(),
            arms: arms.iter().map(|arm| settings(arm)).collect(),
            present: BTreeMap::new(),
            changes: None,
            said: Vec::new(),
        }
    }

    #[test]
    fn settings_are_there_while_their_arm_runs() {
        let tree = tree("system-arms");
        let arms: [&[(&str, &str)]; 3] = [
            &[],
            &[("vda/nr_requests", "16")],
            &[("vda/scheduler", "none"), ("vm.dirty_background_bytes", "16MiB")],
        ];
        let mut system = system(&tree, &arms);
        let now = || [SCHEDULER, REQUESTS, BYTES].map(|file| tree.root().read_opt(file).unwrap());
        // A copy of the scheduler's file shows what was written, and lists nothing.
        let before = ["none [mq-deadline] bfq", "256", "33554432"];
        let back = ["mq-deadline", "256", "33554432"];
        for (arm, is) in [
            (0, before),
            (1, ["none [mq-deadline] bfq", "16", "33554432"]),
            (1, ["none [mq-deadline] bfq", "16", "33554432"]),
            (0, before),
            (2, ["none", "256", "16777216"]),
            (1, ["mq-deadline", "16", "33554432"]),
        ] {
            assert!(!system.set(arm, &Nobody).unwrap());
            assert_eq!(now(), is, "arm {arm}");
            let journals = tree.root().list("/run/ringfence").unwrap_or_default();
            let journals = journals.iter().filter(|name| name.ends_with(".journal")).count();
            assert_eq!(journals, usize::from(arm > 0), "arm {arm}");
        }
        system.end_trial(&Nobody);
        assert_eq!(now(), back);
        assert_eq!(Box::new(system).end().unwrap(), [""; 0]);
    }

    #[test]
    fn what_others_have_changed_is_left_and_told_once() {
        let tree = tree("system-others");
        let mut system = system(&tree, &[&[("vda/nr_requests", "16")]]);
        for _ in 0..2 {
            system.set(0, &Nobody).unwrap();
            tree.write(REQUESTS, "32\n");
            system.end_trial(&Nobody);
            assert_eq!(tree.root().read_opt(REQUESTS).as_deref(), Some("32"));
            tree.write(REQUESTS, "256\n");
        }
        let said = Box::new(system).end().unwrap();
        assert_eq!(said, ["/sys/block/vda/queue/nr_requests is now 32, was 256 before"]);
    }

    #[test]
    fn dropped_in_an_arm_it_puts_back() {
        let tree = tree("system-dropped");
        let mut system = system(&tree, &[&[("vda/nr_requests", "16")]]);
        system.set(0, &Nobody).unwrap();
        drop(system);
        assert_eq!(tree.root().read_opt(REQUESTS).as_deref(), Some("256"));
        assert_eq!(tree.root().list("/run/ringfence").unwrap(), [""; 0]);
    }

    #[test]
    fn a_part_that_is_refused_takes_the_rest_back() {
        let tree = tree("system-refused");
        let mut system = system(&tree, &[&[("vda/nr_requests", "16"), ("vdb/nr_requests", "16")]]);
        let error = system.set(0, &Nobody).unwrap_err().to_string();
        assert!(error.contains("/sys/block/vdb/queue/nr_requests"), "{error}");
        drop(system);
        assert_eq!(tree.root().read_opt(REQUESTS).as_deref(), Some("256"));
    }

    #[test]
    fn the_way_back_has_what_the_kernel_changes_along() {
        let tree = tree("system-back");
        let written = |setting: &str| {
            let back = back(&tree.root(), &setting.parse().unwrap());
            back.into_iter()
                .map(|write| (write.file.display().to_string(), write.value))
                .collect::<Vec<_>>()
        };
        let pair = |file: &str, value: &str| (file.to_owned(), value.to_owned());
        assert_eq!(
            written("vda/scheduler"),
            [pair(SCHEDULER, "mq-deadline"), pair(REQUESTS, "256")]
        );
        assert_eq!(written("vm.dirty_background_bytes"), []);
        tree.write(BYTES, "0\n").write(RATIO, "10\n");
        assert_eq!(written("vm.dirty_background_bytes"), [pair(RATIO, "10")]);
    }

    #[test]
    fn what_is_not_there_or_not_allowed_is_not_run() {
        let tree = tree("system-missing");
        let missing = |setting: &str, value: &str| {
            let arm = Arm { system: settings(&[(setting, value)]), ..Arm::new("a", &[], None) };
            missing(&tree.root(), &arm)
        };
        assert_eq!(missing("vda/scheduler", "bfq"), None);
        assert!(missing("vda/scheduler", "kyber").unwrap().contains("but none, mq-deadline, bfq"));
        assert!(
            missing("vdb/nr_requests", "8")
                .unwrap()
                .contains("vdb/queue/nr_requests cannot be written: No such")
        );
        assert!(not_allowed().unwrap().contains("--system allows it"));
    }
}
