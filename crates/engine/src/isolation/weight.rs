//! The CPU's time, shared out by weight among tasks that want the same CPU at once: `cpu.weight` of version 2 of
//! control groups, `cpu.shares` of version 1 (kernel documentation, admin-guide/cgroup-v2 and
//! scheduler/sched-design-CFS).
//!
//! Only while an arm runs that gives a role a weight are its processes in a group of their own, one for the role;
//! else they are where they were born, so that the arms without are measured as if there were no groups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_changes::Changes;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Task;
use ringfence_machine::root::FsRoot;

use super::cgroup::{self, Group, Limit};
use super::kind::{Isolation, Kind, Tasks};
use crate::EngineError;

/// Isolation by weight.
pub const KIND: Kind = Kind {
    wanted: |arm| !arm.cpu_weight.is_empty(),
    missing: || {
        cgroup::cannot_make(&FsRoot::host())
            .map(|why| format!("no control group with a cpu.weight can be made here: {why}"))
    },
    begin: |plan| Ok(Some(Box::new(Weights::begin(plan)?))),
    // The journal of changes has it.
    recover: || Ok(Vec::new()),
};

struct Weights {
    changes: Changes,
    // By role: its group, and whether its processes are in there.
    groups: BTreeMap<usize, (Group, bool)>,
    // In the order of the experiment's arms, the weights by role.
    arms: Vec<BTreeMap<usize, u32>>,
    // The group that processes are born in.
    home: PathBuf,
}

impl Weights {
    fn begin(plan: &Plan) -> Result<Self, EngineError> {
        let experiment = &plan.experiment;
        let index = |name: &String| experiment.roles.iter().position(|role| role.name == *name);
        let of_arm = |arm: &ringfence_experiment::Arm| {
            arm.cpu_weight.iter().filter_map(|(name, weight)| Some((index(name)?, *weight))).collect()
        };
        let arms: Vec<BTreeMap<usize, u32>> = experiment.arms.iter().map(of_arm).collect();
        // A process is in one group of a hierarchy, and a program's quota wants one too. In another arm it does no harm:
        // a program with a quota is a process of its own, which stays where it is.
        for (arm, weights) in experiment.arms.iter().zip(&arms) {
            let limited = |role: usize| {
                let cases = plan.cases.iter().filter(|case| case.arm == arm.name);
                let mut active = cases.flat_map(|case| &case.active).filter(|active| active.role == role);
                active.any(|active| {
                    let variant = &plan.variants[role][active.variant];
                    variant.quota.is_some() && matches!(variant.task, Task::Command(_))
                })
            };
            if let Some(&role) = weights.keys().find(|role| limited(**role)) {
                return Err(EngineError::Usage(format!(
                    "arm '{}': '{}' has a quota and a weight, and a process can be in one control group only: give it one of them",
                    arm.name, experiment.roles[role].name
                )));
            }
        }
        let root = FsRoot::host();
        let cannot = |why: String| {
            EngineError::Usage(format!("no control group with a cpu.weight can be made: {why}"))
        };
        let mut groups = BTreeMap::new();
        let purpose = format!("weights of experiment '{}'", experiment.name);
        let mut changes = cgroup::begin(&root, &purpose).map_err(cannot)?;
        for role in arms.iter().flat_map(BTreeMap::keys) {
            if !groups.contains_key(role) {
                let limit = Limit::Weight(cgroup::DEFAULT_WEIGHT);
                let name = format!("{}-weight{role}", std::process::id());
                let group = Group::make(&root, &mut changes, &name, limit).map_err(cannot)?;
                groups.insert(*role, (group, false));
            }
        }
        let home = groups.values().next().and_then(|(group, _)| group.home(&root));
        let home =
            home.ok_or_else(|| cannot("/proc/self/cgroup does not say where this program is".into()))?;
        Ok(Self { changes, groups, arms, home })
    }

    fn go_home(&mut self, tasks: &dyn Tasks) -> Result<(), EngineError> {
        for (role, (group, inside)) in &mut self.groups {
            if std::mem::take(inside) {
                move_all(&mut self.changes, *role, group.path(), &self.home, tasks)?;
            }
        }
        Ok(())
    }
}

// A program may start others while its own are moved: those are born where their parent is, so that the second round
// finds the last that were born outside.
fn move_all(
    changes: &mut Changes,
    role: usize,
    from: &Path,
    to: &Path,
    tasks: &dyn Tasks,
) -> Result<(), EngineError> {
    for _ in 0..2 {
        let moved = changes.move_processes(&tasks.processes(role), from, to);
        moved.map_err(|error| EngineError::Failed(error.to_string()))?;
    }
    Ok(())
}

impl Isolation for Weights {
    fn begin_trial(&mut self, _: &dyn Tasks) -> Result<(), EngineError> {
        // New ones are at home.
        for (_, inside) in self.groups.values_mut() {
            *inside = false;
        }
        Ok(())
    }

    fn set(&mut self, arm: usize, tasks: &dyn Tasks) -> Result<bool, EngineError> {
        let Self { changes, groups, arms, home } = self;
        for (role, (group, inside)) in groups {
            match arms[arm].get(role) {
                Some(weight) => {
                    group.set(changes, Limit::Weight(*weight)).map_err(|error| {
                        EngineError::Failed(format!("setting a weight of {weight} failed: {error}"))
                    })?;
                    // Each time: what runs may have started others elsewhere meanwhile.
                    move_all(changes, *role, home, group.path(), tasks)?;
                    *inside = true;
                }
                None if *inside => {
                    move_all(changes, *role, group.path(), home, tasks)?;
                    *inside = false;
                }
                None => {}
            }
        }
        Ok(false)
    }

    fn end_trial(&mut self, tasks: &dyn Tasks) {
        // Those that live on are taken home, so that the groups are empty when they are removed. What cannot be moved
        // ends with its task.
        let _ = self.go_home(tasks);
    }

    fn end(mut self: Box<Self>) -> Result<Vec<String>, EngineError> {
        let restored = self.changes.put_back().map_err(|error| {
            EngineError::Failed(format!(
                "what was measured is kept, but its control groups could not be removed: {error}; 'ringfence restore' tries \
                 again"
            ))
        });
        restored.map(|restored| restored.said().cloned().collect())
    }
}
