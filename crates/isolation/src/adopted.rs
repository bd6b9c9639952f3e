//! Limits for what runs already: set in its own control group while an arm runs that gives it some, and put back to what was
//! there. Nobody is moved: who has no group of its own cannot be limited.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfence_attach::Found;
use ringfence_changes::Changes;
use ringfence_experiment::Arm;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::axes::QUOTA;
use ringfence_experiment::task::{Attached, Task};
use ringfence_machine::root::FsRoot;

use super::cgroup;
use super::kind::{Begun, Isolation, Kind, Tasks};
use super::limit::{Limit, Version};
use crate::{Error, attached};

/// Isolation of what runs already.
pub const KIND: Kind = Kind {
    wanted: |arm| !arm.cpu_weight.is_empty() || arm.set.values().any(|set| set.contains_key(QUOTA)),
    missing: |plan, arm, active| {
        let mut limits = active.iter().filter_map(|active| limits(plan, arm, active));
        limits.find_map(|(attached, limits)| limits.iter().find_map(|limit| files(attached, limit).err()))
    },
    begin,
    // The journal of changes has it.
    recover: || Ok(Vec::new()),
};

// What an arm gives to a role that is attached.
fn limits<'a>(plan: &'a Plan, arm: &Arm, active: &Active) -> Option<(&'a Attached, Vec<Limit>)> {
    let variant = &plan.variants[active.role][active.variant];
    let Task::Attached(attached) = &variant.task else { return None };
    let weight = arm.cpu_weight.get(&plan.experiment.roles[active.role].name);
    let weight = weight.map(|weight| Limit::Weight(*weight));
    let limits: Vec<Limit> = variant.quota.map(Limit::Quota).into_iter().chain(weight).collect();
    (!limits.is_empty()).then_some((attached, limits))
}

/// The folder of a control group that holds what is attached and nobody else, and has what a limit takes.
///
/// # Errors
/// Why there is none, to follow "because".
pub fn own_group(attached: &Attached, limit: &Limit) -> Result<(PathBuf, Version), String> {
    let found = attached::found(attached)?;
    of_found(&found, limit, &FsRoot::host())
}

fn of_found(found: &Found, limit: &Limit, root: &FsRoot) -> Result<(PathBuf, Version), String> {
    let controller = limit.controller();
    let of = |group: &ringfence_attach::Group| {
        let version = if group.is_v2() { Version::Two } else { Version::One };
        let has = group.is_v2() || group.has(controller.name(Version::One));
        let settings = limit.settings(version);
        let there =
            !settings.is_empty() && settings.iter().all(|(file, _)| root.exists(group.folder.join(file)));
        (group.is_exact && has && there).then(|| (group.folder.clone(), version))
    };
    found.groups.iter().find_map(of).ok_or_else(|| {
        format!(
            "{} has no control group of its own with the controller '{}', and what runs already is not moved into one: start \
             it in one, such as by systemd-run --scope",
            found.target,
            controller.name(Version::Two)
        )
    })
}

// The files that hold a limit, and what is written there.
fn files(attached: &Attached, limit: &Limit) -> Result<Vec<(PathBuf, String)>, String> {
    let (folder, version) = own_group(attached, limit)?;
    Ok(limit.settings(version).into_iter().map(|(file, text)| (folder.join(file), text)).collect())
}

struct Adopted {
    changes: Changes,
    // By arm.
    arms: Vec<BTreeMap<PathBuf, String>>,
    set: Vec<PathBuf>,
}

fn begin(plan: &Plan) -> Begun {
    let experiment = &plan.experiment;
    let mut arms = vec![BTreeMap::new(); experiment.arms.len()];
    let mut any = false;
    for case in plan.run_cases().map(|case| &plan.cases[case]) {
        let Some(number) = experiment.arms.iter().position(|arm| arm.name == case.arm) else { continue };
        for active in &case.active {
            let Some((attached, limits)) = limits(plan, &experiment.arms[number], active) else { continue };
            for limit in limits {
                let files = files(attached, &limit).map_err(|why| {
                    Error::Usage(format!("arm '{}' cannot be run, because {why}", case.arm))
                })?;
                arms[number].extend(files);
                any = true;
            }
        }
    }
    if !any {
        return Ok(None);
    }
    let purpose = format!("limits for what runs already, of experiment '{}'", experiment.name);
    let changes = cgroup::begin(&FsRoot::host(), &purpose).map_err(Error::Failed)?;
    Ok(Some(Box::new(Adopted { changes, arms, set: Vec::new() })))
}

impl Adopted {
    fn give_back(&mut self) -> Result<(), Error> {
        // A quota is given back before its period.
        while let Some(file) = self.set.pop() {
            self.changes.set_back(&file).map_err(|error| Error::Failed(error.to_string()))?;
        }
        Ok(())
    }
}

impl Isolation for Adopted {
    fn begin_trial(&mut self, _: &dyn Tasks) -> Result<(), Error> {
        Ok(())
    }

    fn set(&mut self, arm: usize, _: &dyn Tasks) -> Result<bool, Error> {
        if self.set.iter().eq(self.arms[arm].keys()) {
            return Ok(false);
        }
        self.give_back()?;
        for (file, text) in &self.arms[arm] {
            let set = self.changes.set(file, text);
            set.map_err(|error| Error::Failed(format!("limiting what runs already failed: {error}")))?;
            self.set.push(file.clone());
        }
        Ok(false)
    }

    fn end_trial(&mut self, _: &dyn Tasks) {
        // What fails here is tried again at the end.
        let _ = self.give_back();
    }

    fn end(mut self: Box<Self>) -> Result<Vec<String>, Error> {
        let restored = self.changes.put_back().map_err(|error| {
            Error::Failed(format!(
                "what was measured is kept, but limits of what runs already could not be put back: {error}; 'ringfence \
                 restore' tries again"
            ))
        });
        restored.map(|restored| restored.said().cloned().collect())
    }
}
