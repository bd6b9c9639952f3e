//! Caches and bandwidth: each role that any arm partitions is in a group of its own, and an arm's
//! settings are applied before its windows, within one transaction that is undone at the end.
//!
//! After a change the tasks run until their rates are stable: a mask keeps new lines out, it does
//! not evict those that are there (kernel documentation, x86/resctrl, "Notes on cache occupancy
//! monitoring and control").

mod bandwidth;
mod both;
mod settings;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::{Arm, Error, Experiment, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_resctrl::transaction::{self, Restored};
use ringfence_resctrl::{GroupId, Options, Resctrl, Schemata, Step, Transaction};
use serde::Serialize;

use crate::kind::{Begun, Isolation, Kind, Tasks};

pub use bandwidth::Bandwidth;
pub use both::Both;
pub use settings::Settings;
pub use ways::Ways;

/// Isolation by resctrl.
pub struct ByResctrl;

impl Kind for ByResctrl {
    fn wanted(&self, arm: &Arm) -> bool {
        arm.resctrl().next().is_some()
    }

    fn missing(&self, _: &Plan, _: &Arm, _: &[Active]) -> Option<Reason> {
        missing()
    }

    fn begin(&self, plan: &Plan) -> Begun {
        let begun =
            Partitions::begin(&plan.experiment, &format!("experiment {}", plan.experiment.name))?;
        Ok(begun.map(|partitions| Box::new(partitions) as Box<dyn Isolation>))
    }

    fn recover(&self) -> Result<Vec<String>, Error> {
        put_back(Duration::ZERO)
    }
}

struct Partitions {
    transaction: Transaction,
    settings: Settings,
    present: BTreeMap<GroupId, Schemata>,
    // What was found outside its group, one sentence each.
    strays: Vec<String>,
}

impl Partitions {
    fn begin(experiment: &Experiment, purpose: &str) -> Result<Option<Self>, Error> {
        let fs = Resctrl::find(&FsRoot::host()).map_err(ringfence_resctrl::Error::from)?;
        let mut transaction = Transaction::begin(&fs, purpose, &Options::default())?;
        let settings = Settings::of(experiment, transaction.before()).map_err(Error::usage)?;
        let Some(settings) = settings else { return Ok(None) };
        for group in settings.roles.values() {
            transaction.apply(Step::Create { group: group.clone() })?;
            // A new group has what the kernel finds free: let it have what its tasks had.
            transaction
                .apply(Step::Schemata { group: group.clone(), schemata: settings.first.clone() })?;
        }
        let own = settings.roles.values().map(|group| (group.clone(), settings.first.clone()));
        let others = transaction
            .before()
            .groups
            .iter()
            .map(|(id, state)| (id.clone(), state.schemata.clone()));
        let present = others.chain(own).collect();
        Ok(Some(Self { transaction, settings, present, strays: Vec::new() }))
    }

    // Whether anything had to be changed.
    fn change(&mut self, arm: usize) -> Result<bool, Error> {
        let mut changed = false;
        for (group, wanted) in self.settings.arms[arm].clone() {
            let present = self.present.entry(group.clone()).or_default();
            let schemata = wanted.differing_from(present);
            if !schemata.is_empty() {
                *present = present.overlaid(&schemata);
                self.transaction.apply(Step::Schemata { group, schemata })?;
                changed = true;
            }
        }
        Ok(changed)
    }

    // What a task starts is born into its group. So a process outside of it was moved by another
    // program, or began while its parent was being moved and left that parent before it was found.
    fn look_for_strays(&mut self, tasks: &dyn Tasks) {
        let fs = self.transaction.resctrl();
        let inside = |group: &GroupId| fs.group(group).tasks().unwrap_or_default();
        let groups: BTreeMap<usize, (&GroupId, BTreeSet<u32>)> = self
            .settings
            .roles
            .iter()
            .map(|(role, group)| (*role, (group, inside(group).into_iter().collect())))
            .collect();
        let mut outside = |pids: &[u32], groups: &[&BTreeSet<u32>], whose: &str| {
            for pid in pids {
                let threads = fs.kernel().threads(*pid);
                let strays =
                    threads.iter().filter(|tid| !groups.iter().any(|group| group.contains(tid)));
                let living = strays.filter(|tid| fs.kernel().started(**tid).is_some()).count();
                if living > 0 {
                    let sentence = format!(
                        "{living} of the {} threads of process {pid}, {whose}, were in another \
                         group, without the intended settings",
                        threads.len()
                    );
                    if !self.strays.contains(&sentence) {
                        self.strays.push(sentence);
                    }
                }
            }
        };
        for (role, (group, inside)) in &groups {
            outside(&tasks.processes(*role), &[inside], &format!("which belongs to {group}"));
        }
        let all: Vec<&BTreeSet<u32>> = groups.values().map(|(_, inside)| inside).collect();
        outside(&tasks.orphans(), &all, "which a task started and left running");
    }
}

impl Isolation for Partitions {
    fn begin_trial(&mut self, tasks: &dyn Tasks) -> Result<(), Error> {
        for (&role, group) in &self.settings.roles {
            // A program may start others while its own processes are moved. They are born into the
            // group of their parent, so that the second round finds the last ones that were born
            // outside.
            for _ in 0..2 {
                for pid in tasks.processes(role) {
                    self.transaction.move_process(group, pid)?;
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, arm: usize, _: &dyn Tasks) -> Result<bool, Error> {
        self.change(arm)
    }

    fn end_trial(&mut self, tasks: &dyn Tasks) {
        self.look_for_strays(tasks);
    }

    fn end(self: Box<Self>) -> Result<Vec<String>, Error> {
        let Self { mut transaction, strays, .. } = *self;
        let earlier = transaction.recovered().map(said).unwrap_or_default();
        let restored = transaction.restore();
        restored.map(|restored| [earlier, said(&restored), strays].concat()).map_err(|error| {
            Error::failed(format!(
                "the results are kept, but resctrl could not be restored: {error}; 'ringfence \
                 resctrl recover' tries again"
            ))
        })
    }
}

/// The settings that were kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kept {
    /// The groups that were made, by role.
    pub groups: BTreeMap<String, GroupId>,
    /// How many processes are in them that ran already, by role.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, std::num::NonZeroUsize>"))]
    pub moved: BTreeMap<String, usize>,
    /// What every group that was touched may use now.
    pub settings: BTreeMap<GroupId, Schemata>,
    /// Where resctrl is mounted.
    pub place: String,
}

/// Applies the settings of an experiment's arm, moves the running processes of its roles into their
/// groups, and leaves everything in place until [`ringfence_resctrl::transaction::undo_kept`].
///
/// # Errors
/// Where resctrl is not there, is being changed by another process, or refuses; and where something
/// is kept already.
pub fn keep(
    experiment: &Experiment,
    arm: &str,
    running: impl Fn(&str) -> Vec<u32>,
) -> Result<Kept, Error> {
    let nothing =
        || Error::usage(format!("arm '{arm}' sets nothing in resctrl: there is nothing to keep"));
    let number = experiment.arms.iter().position(|known| known.name == arm).ok_or_else(nothing)?;
    let mut partitions =
        Partitions::begin(experiment, &format!("kept by prove: {arm}"))?.ok_or_else(nothing)?;
    partitions.change(number)?;
    let role =
        |(role, group): (&usize, &GroupId)| (experiment.roles[*role].name.clone(), group.clone());
    let groups: BTreeMap<String, GroupId> = partitions.settings.roles.iter().map(role).collect();
    let mut moved = BTreeMap::new();
    for (role, group) in &groups {
        // As at the beginning of a trial: what was started meanwhile is found by a second look.
        for pid in [running(role), running(role)].concat() {
            partitions.transaction.move_process(group, pid)?;
        }
        moved.insert(role.clone(), running(role).len());
    }
    moved.retain(|_, count| *count > 0);
    let settings = partitions.settings.arms[number].clone();
    let place = partitions.transaction.resctrl().place();
    partitions.transaction.keep()?;
    Ok(Kept { groups, moved, settings, place })
}

/// Restores the leftovers of a killed run, once no other process is changing resctrl.
///
/// # Errors
/// Where another process still does after `wait`, or something cannot be restored.
pub fn recover(wait: Duration) -> Result<(), Error> {
    put_back(wait).map(|_| ())
}

// What should be known of it, one sentence each.
fn put_back(wait: Duration) -> Result<Vec<String>, Error> {
    let options = Options { wait, ..Options::default() };
    if transaction::pending(&options)
        .iter()
        .any(|(what, _)| *what == transaction::Pending::Unfinished)
        && let Ok(fs) = Resctrl::find(&FsRoot::host())
    {
        return Ok(transaction::recover(&fs, &options)?.as_ref().map(said).unwrap_or_default());
    }
    Ok(Vec::new())
}

fn said(restored: &Restored) -> Vec<String> {
    let others = |text: &String| {
        format!("another program changed resctrl meanwhile, and its change was kept: {text}")
    };
    let left = restored.left.iter().map(others);
    left.chain(restored.notes.iter().chain(&restored.waiting).cloned()).collect()
}

/// Why this machine cannot hold arms that set resctrl, if so.
pub fn missing() -> Option<Reason> {
    Resctrl::find(&FsRoot::host()).err().map(|why| why.to_string().into())
}
