//! Roles in control groups of their own, each while an arm runs that gives it a limit; else they
//! are where they were born, so that the arms without are measured as if there were no groups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::task::Variant;
use ringfence_experiment::{Arm, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_system::changes::Changes;

use super::cgroup::{self, Group};
use super::kind::{Isolation, Tasks};
use super::limit::{DEFAULT_WEIGHT, Limit, Weigher};
use crate::Error;

/// The groups of an experiment that are made for one kind of limit.
pub struct Grouped {
    // What is limited, in a word that groups and messages are called by.
    word: &'static str,
    changes: Changes,
    // By role.
    groups: BTreeMap<usize, Member>,
    // In the order of the experiment's arms, the limits by role.
    arms: Vec<BTreeMap<usize, Limit>>,
    // The group that processes are born in.
    home: PathBuf,
}

struct Member {
    group: Group,
    // Its limit while its role is at home: it throttles nothing that is still under way.
    at_rest: Limit,
    inside: bool,
}

/// What arms give to roles, by the roles' numbers, in the order of the arms.
pub fn by_arm<T>(
    plan: &Plan,
    of: impl Fn(&Arm) -> &BTreeMap<String, T>,
    limit: impl Fn(usize, &T) -> Limit,
) -> Vec<BTreeMap<usize, Limit>> {
    let roles = &plan.experiment.roles;
    let index = |name: &String| roles.iter().position(|role| role.name == *name);
    let of_arm = |arm: &Arm| {
        // Running processes are limited in place: see `adopted`.
        let is_started =
            |role: &usize| !plan.variants[*role].iter().any(|variant| variant.task.is_attached());
        let given = of(arm)
            .iter()
            .filter_map(|(name, value)| Some((index(name).filter(is_started)?, value)));
        given.map(|(role, value)| (role, limit(role, value))).collect()
    };
    plan.experiment.arms.iter().map(of_arm).collect()
}

/// What a role is given by a table of an arm in each case that is run: of all that it may run
/// there, what is found of each task, by the role's number.
///
/// # Errors
/// Why nothing is found of one, after the arm's name.
pub fn found<T>(
    plan: &Plan,
    wanted: impl Fn(&Arm, &str) -> bool,
    find: impl Fn(&Task) -> Result<T, Reason>,
) -> Result<BTreeMap<usize, Vec<T>>, String> {
    let mut all: BTreeMap<usize, Vec<T>> = BTreeMap::new();
    for (case, what) in plan.cases.iter().enumerate() {
        let arm = plan.experiment.arms.iter().find(|arm| arm.name == what.arm);
        let is_wanted = |active: &&Active| {
            let name = &plan.experiment.roles[active.role].name;
            arm.is_some_and(|arm| wanted(arm, name))
        };
        if plan.refusal(case).is_some() {
            continue;
        }
        for active in what.active.iter().filter(is_wanted) {
            let task = &plan.variants[active.role][active.variant].task;
            // Running processes are limited in place: see `adopted`.
            if task.is_attached() {
                continue;
            }
            let one = find(task);
            all.entry(active.role)
                .or_default()
                .push(one.map_err(|why| format!("of arm '{}': {why}", what.arm))?);
        }
    }
    Ok(all)
}

/// Whether one of a table's roles is started by us, and so put into a group that is made for it.
pub fn any_started<T>(plan: &Plan, active: &[Active], of: &BTreeMap<String, T>) -> bool {
    let is_started =
        |active: &&Active| !plan.variants[active.role][active.variant].task.is_attached();
    active
        .iter()
        .filter(is_started)
        .any(|one| of.contains_key(&plan.experiment.roles[one.role].name))
}

/// What holds a role in a group in an arm, besides the table that is called `but`: its name, and a
/// limit that is of the same controller.
pub fn others(arm: &Arm, role: &str, variant: &Variant, but: &str) -> Vec<(&'static str, Limit)> {
    let program = matches!(variant.task, Task::Command(_));
    let write = || Limit::Write { disks: Vec::new(), rate: None };
    let weight = || Limit::DiskWeight { by: Weigher::Bfq, weight: DEFAULT_WEIGHT };
    let all = [
        ("weight", arm.cpu_weight.get(role).map(|weight| Limit::Weight(*weight))),
        ("quota", variant.quota.filter(|_| program).map(Limit::Quota)),
        ("disk_write", arm.disk_write.get(role).map(|_| write())),
        ("disk_weight", arm.disk_weight.get(role).map(|_| weight())),
        ("memory_high", arm.memory_high.get(role).map(|_| Limit::MemoryHigh(None))),
    ];
    all.into_iter()
        .filter(|(name, _)| *name != but)
        .filter_map(|(name, limit)| Some((name, limit?)))
        .collect()
}

/// Why a role cannot be in a group of this limit, given the other settings that need a group.
pub fn refused(
    root: &FsRoot,
    limit: &Limit,
    no_group: impl Fn(String) -> Reason,
    others: &[(&str, Limit)],
) -> Option<Reason> {
    let group = match cgroup::try_make(root, limit) {
        Ok(group) => group,
        Err(why) => return Some(no_group(why)),
    };
    // Where they are of one hierarchy, so that a process can be in one of them only.
    others.iter().find_map(|(word, other)| {
        let other = cgroup::try_make(root, other).ok()?;
        (other.home(root) == group.home(root)).then(|| {
            format!(
                "its {word} needs a control group as well, and in one hierarchy a process is in \
                 one group only"
            )
            .into()
        })
    })
}

impl Grouped {
    /// Makes the groups, which are empty at first.
    ///
    /// # Errors
    /// Why that cannot be, in words.
    pub fn begin(
        root: &FsRoot,
        experiment: &str,
        word: &'static str,
        arms: Vec<BTreeMap<usize, Limit>>,
        at_rest: impl Fn(&Limit) -> Limit,
    ) -> Result<Self, String> {
        let mut changes = cgroup::begin(root, &format!("{word}s of experiment {experiment}"))?;
        let mut groups = BTreeMap::new();
        for (role, limit) in arms.iter().flatten() {
            if !groups.contains_key(role) {
                let at_rest = at_rest(limit);
                let name = format!("{}-{word}{role}", std::process::id());
                let group = Group::make(root, &mut changes, &name, &at_rest)?;
                groups.insert(*role, Member { group, at_rest, inside: false });
            }
        }
        let home = groups.values().next().and_then(|member| member.group.home(root));
        let home = home.ok_or("/proc/self/cgroup does not say where this program is")?;
        Ok(Self { word, changes, groups, arms, home })
    }
}

impl Member {
    fn enter(
        &mut self,
        changes: &mut Changes,
        limit: &Limit,
        home: &Path,
        pids: impl Fn() -> Vec<u32>,
        word: &str,
    ) -> Result<(), Error> {
        let set = self.group.set(changes, limit);
        set.map_err(|error| Error::Failed(format!("setting a {word} failed: {error}")))?;
        // Each time: what runs may have started others elsewhere meanwhile.
        move_all(changes, pids, home, self.group.path())?;
        self.inside = true;
        Ok(())
    }

    fn leave(
        &mut self,
        changes: &mut Changes,
        home: &Path,
        pids: impl Fn() -> Vec<u32>,
        word: &str,
    ) -> Result<(), Error> {
        if !std::mem::take(&mut self.inside) {
            return Ok(());
        }
        let set = self.group.set(changes, &self.at_rest);
        set.map_err(|error| Error::Failed(format!("removing a {word} failed: {error}")))?;
        move_all(changes, pids, self.group.path(), home)
    }
}

// A program may start others while its own are moved: those are born where their parent is, so that
// the second round finds the last that were born outside.
fn move_all(
    changes: &mut Changes,
    pids: impl Fn() -> Vec<u32>,
    from: &Path,
    to: &Path,
) -> Result<(), Error> {
    for _ in 0..2 {
        let moved = changes.move_processes(&pids(), from, to);
        moved.map_err(|error| Error::Failed(error.to_string()))?;
    }
    Ok(())
}

impl Isolation for Grouped {
    fn begin_trial(&mut self, _: &dyn Tasks) -> Result<(), Error> {
        // New ones are at home.
        for member in self.groups.values_mut() {
            member.inside = false;
        }
        Ok(())
    }

    fn set(&mut self, arm: usize, tasks: &dyn Tasks) -> Result<bool, Error> {
        let Self { word, changes, groups, arms, home } = self;
        for (role, member) in groups {
            let pids = || tasks.processes(*role);
            match arms[arm].get(role) {
                Some(limit) => member.enter(changes, limit, home, pids, word)?,
                None => member.leave(changes, home, pids, word)?,
            }
        }
        Ok(false)
    }

    fn end_trial(&mut self, tasks: &dyn Tasks) {
        let Self { word, changes, groups, home, .. } = self;
        for (role, member) in groups {
            // Those that live on are taken home, so that the groups are empty when they are
            // removed. What cannot be moved ends with its task.
            let _ = member.leave(changes, home, || tasks.processes(*role), word);
        }
    }

    fn end(mut self: Box<Self>) -> Result<Vec<String>, Error> {
        let restored = self.changes.put_back().map_err(|error| {
            Error::Failed(format!(
                "the results are kept, but control groups could not be removed: {error}; \
                 'ringfence restore' tries again"
            ))
        });
        restored.map(|restored| restored.said().cloned().collect())
    }
}
