//! Roles in control groups of their own, each while an arm runs that gives it a limit; else they
//! are where they were born, so that the arms without are measured as if there were no groups.
//!
//! Running processes are not moved: see [`crate::own_group`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::{Arm, Error, Limit, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_system::changes::Changes;

use super::cgroup::{self, Group};
use super::kind::{Begun, Isolation, Kind, Tasks};
use super::setting::GroupSettings;

/// What a group is given for these tasks of a role: for a limit of its kind, or without one, so
/// that it throttles nothing. In an error: why the tasks cannot be limited.
pub type ForTasks = fn(&FsRoot, &[&Task], Option<&Limit>) -> Result<GroupSettings, Reason>;

/// A kind of limit for which tasks are moved into a control group.
pub struct GroupKind {
    /// Whether a limit is of this kind.
    pub is: fn(&Limit) -> bool,
    /// What is limited, in a word that groups and messages are called by.
    pub word: &'static str,
    /// What a group has then, such as `a cpu.weight`.
    pub what: &'static str,
    /// What a group is given.
    pub settings: ForTasks,
}

impl GroupKind {
    fn of_role<'a>(&self, arm: &'a Arm, role: &str) -> Option<&'a Limit> {
        arm.limits_of(role).iter().find(|limit| (self.is)(limit))
    }

    /// Makes a group for a task, and removes it: what it was shows where one can be made.
    ///
    /// # Errors
    /// Why none can be made here.
    pub fn try_make(&self, task: &Task, limit: Option<&Limit>) -> Result<Group, Reason> {
        let root = FsRoot::host();
        let settings = (self.settings)(&root, &[task], limit)?;
        cgroup::try_make(&root, &settings).map_err(|why| self.no_group(why.text()))
    }

    fn no_group(&self, why: &str) -> Reason {
        format!("no control group with {} can be created here: {why}", self.what).into()
    }

    // What each role may run in an arm that is run and gives it such a limit.
    fn tasks<'a>(&self, plan: &'a Plan) -> BTreeMap<usize, Vec<&'a Task>> {
        let mut all: BTreeMap<usize, Vec<&Task>> = BTreeMap::new();
        for case in plan.run_cases().map(|case| &plan.cases[case]) {
            let arm = plan.experiment.arms.iter().find(|arm| arm.name == case.arm);
            for active in &case.active {
                let role = &plan.experiment.roles[active.role].name;
                let task = &plan.variants[active.role][active.variant].task;
                if arm.is_some_and(|arm| self.of_role(arm, role).is_some()) && !task.is_attached() {
                    all.entry(active.role).or_default().push(task);
                }
            }
        }
        all
    }

    fn groups(&self, plan: &Plan) -> Result<Option<Grouped>, Reason> {
        let root = FsRoot::host();
        let tasks = self.tasks(plan);
        if tasks.is_empty() {
            return Ok(None);
        }
        let of_arm = |arm: &Arm| {
            let limits = tasks.iter().filter_map(|(role, tasks)| {
                Some((role, tasks, self.of_role(arm, &plan.experiment.roles[*role].name)?))
            });
            limits
                .map(|(role, tasks, limit)| {
                    Ok((*role, (self.settings)(&root, tasks, Some(limit))?))
                })
                .collect::<Result<BTreeMap<_, _>, Reason>>()
        };
        let arms = plan.experiment.arms.iter().map(of_arm).collect::<Result<Vec<_>, Reason>>()?;
        let purpose = format!("{}s of experiment {}", self.word, plan.experiment.name);
        let no_group = |why: Error| self.no_group(why.text());
        let mut changes = cgroup::begin(&root, &purpose).map_err(no_group)?;
        let mut groups = BTreeMap::new();
        for (role, tasks) in &tasks {
            let at_rest = (self.settings)(&root, tasks, None)?;
            let name = format!("{}-{}{role}", std::process::id(), self.word);
            let group = Group::make(&root, &mut changes, &name, &at_rest).map_err(no_group)?;
            groups.insert(*role, Member { group, at_rest, inside: false });
        }
        let home = groups.values().find_map(|member| member.group.home()).map(Path::to_owned);
        let home = home
            .ok_or_else(|| self.no_group("/proc/self/cgroup does not say where this program is"))?;
        Ok(Some(Grouped { word: self.word, changes, groups, arms, home }))
    }
}

impl Kind for GroupKind {
    fn wanted(&self, arm: &Arm) -> bool {
        arm.each_limit().any(|(_, limit)| (self.is)(limit))
    }

    fn missing(&self, plan: &Plan, arm: &Arm, active: &[Active]) -> Option<Reason> {
        active.iter().find_map(|active| {
            let limit = self.of_role(arm, &plan.experiment.roles[active.role].name)?;
            let task = &plan.variants[active.role][active.variant].task;
            if task.is_attached() {
                return None;
            }
            self.try_make(task, Some(limit)).err()
        })
    }

    fn begin(&self, plan: &Plan) -> Begun {
        let groups = self.groups(plan).map_err(Error::usage)?;
        Ok(groups.map(|groups| Box::new(groups) as Box<dyn Isolation>))
    }

    fn group(&self, limit: &Limit, task: &Task) -> Option<GroupSettings> {
        if !(self.is)(limit) || task.is_attached() {
            return None;
        }
        (self.settings)(&FsRoot::host(), &[task], Some(limit)).ok()
    }
}

/// Why a task cannot be in all groups that it needs, by the names of what they are for.
pub fn conflict(groups: &[(&str, GroupSettings)]) -> Option<Reason> {
    let root = FsRoot::host();
    let mut homes: Vec<(PathBuf, &str)> = Vec::new();
    for (name, settings) in groups {
        let Ok(made) = cgroup::try_make(&root, settings) else { continue };
        let Some(home) = made.home().map(Path::to_owned) else { continue };
        if let Some((_, other)) = homes.iter().find(|(known, _)| *known == home) {
            let why = format!(
                "its {other} and its {name} need a control group each, and in one hierarchy a \
                 process is in one group only"
            );
            return Some(why.into());
        }
        homes.push((home, name));
    }
    None
}

// The groups of an experiment that are made for one kind of limit.
struct Grouped {
    // What is limited, in a word that groups and messages are called by.
    word: &'static str,
    changes: Changes,
    // By role.
    groups: BTreeMap<usize, Member>,
    // In the order of the experiment's arms, by role.
    arms: Vec<BTreeMap<usize, GroupSettings>>,
    // The group that processes are born in.
    home: PathBuf,
}

struct Member {
    group: Group,
    // Its settings while its role is at home: it throttles nothing that is still under way.
    at_rest: GroupSettings,
    inside: bool,
}

impl Member {
    fn enter(
        &mut self,
        changes: &mut Changes,
        limit: &GroupSettings,
        home: &Path,
        pids: impl Fn() -> Vec<u32>,
        word: &str,
    ) -> Result<(), Error> {
        let set = self.group.set(changes, limit);
        set.map_err(Error::trying(format_args!("setting a {word} failed")))?;
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
        set.map_err(Error::trying(format_args!("removing a {word} failed")))?;
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
        moved.map_err(Error::failed_by)?;
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
            Error::failed(format!(
                "the results are kept, but control groups could not be removed: {error}; \
                 'ringfence restore' tries again"
            ))
        });
        restored.map(|restored| restored.said().cloned().collect())
    }
}
