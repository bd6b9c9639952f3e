//! Limits for running processes. They are set in the processes' own control group while an arm runs
//! that uses them, and the previous values are restored afterwards. No process is moved: a process
//! without a control group of its own cannot be limited.

use std::path::PathBuf;

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::{Attached, Task};
use ringfence_experiment::units::Share;
use ringfence_experiment::{Arm, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_system::attach::Found;
use ringfence_system::changes::{Changes, Entry};
use serde::Serialize;

use super::kind::{Begun, Isolation, Kind, Tasks};
use super::limit::{Limit, Version};
use super::{cgroup, cpuset, disk};
use crate::{Error, attachment};

/// Isolation of running processes.
pub const KIND: Kind = Kind {
    wanted: |arm| {
        let of_roles =
            [arm.cpu_weight.is_empty(), arm.disk_write.is_empty(), arm.cpuset.is_empty()];
        of_roles.contains(&false) || arm.set.values().any(|set| set.quota().is_some())
    },
    missing: |plan, arm, active| active.iter().find_map(|active| settings(plan, arm, active).err()),
    begin,
    // The journal of changes has it.
    recover: || Ok(Vec::new()),
};

/// A value of a file, or of an entry in one.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The file.
    pub file: PathBuf,
    /// Which of its values, where it has a line for each device.
    pub entry: Option<Entry>,
    /// What it is given.
    pub value: String,
}

impl Setting {
    /// What is written to give it a value.
    pub fn line(&self, value: &str) -> String {
        self.entry.as_ref().map_or_else(|| value.to_owned(), |entry| entry.line(value))
    }

    /// What it is now.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn now(&self) -> Result<String, String> {
        let text = FsRoot::host().read_trimmed(&self.file).map_err(|error| error.to_string())?;
        Ok(self
            .entry
            .as_ref()
            .map_or_else(|| ringfence_system::changes::plain(&text), |entry| entry.of(&text)))
    }

    /// Sets it, and arranges for the previous value to be restored.
    ///
    /// # Errors
    /// What is refused.
    pub fn set(&self, changes: &mut Changes) -> Result<(), ringfence_system::changes::Error> {
        match &self.entry {
            Some(entry) => changes.set_entry(&self.file, entry.clone(), &self.value),
            None => changes.set(&self.file, &self.value),
        }
    }

    fn set_back(&self, changes: &mut Changes) -> Result<(), ringfence_system::changes::Error> {
        match &self.entry {
            Some(entry) => changes.set_back_entry(&self.file, entry),
            None => changes.set_back(&self.file),
        }
    }
}

/// What an arm gives to a role that is attached, file by file; nothing to others.
///
/// # Errors
/// Why it cannot.
pub fn settings(plan: &Plan, arm: &Arm, active: &Active) -> Result<Vec<Setting>, Reason> {
    let variant = &plan.variants[active.role][active.variant];
    let Task::Attached(attached) = &variant.task else { return Ok(Vec::new()) };
    let name = &plan.experiment.roles[active.role].name;
    all_files(attached, &limits(attached, arm, name, variant.quota)?)
}

fn all_files(attached: &Attached, limits: &[Limit]) -> Result<Vec<Setting>, Reason> {
    let all: Result<Vec<Vec<Setting>>, Reason> =
        limits.iter().map(|limit| files(attached, limit)).collect();
    Ok(all?.concat())
}

/// What an arm gives to a role that is attached.
///
/// # Errors
/// Where the disks that it writes to are not known.
pub fn limits(
    attached: &Attached,
    arm: &Arm,
    role: &str,
    quota: Option<Share>,
) -> Result<Vec<Limit>, Reason> {
    let weight = arm.cpu_weight.get(role).map(|weight| Limit::Weight(*weight));
    let cpus = arm.cpuset.get(role).map(|cpus| Limit::Cpus(cpus.clone()));
    let mut limits: Vec<Limit> =
        quota.map(Limit::Quota).into_iter().chain(weight).chain(cpus).collect();
    if let Some(rate) = arm.disk_write.get(role) {
        let disks = disk::of_attached(attached)?.into_iter().map(|disk| disk.number).collect();
        limits.push(Limit::Write { disks, rate: Some(*rate) });
    }
    Ok(limits)
}

/// A setting of a control group that was left in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The file.
    pub file: PathBuf,
    /// The value that was written.
    pub value: String,
    /// The value to write to restore the old setting.
    pub was: String,
}

/// Sets limits that stay on a running process; if this program is killed in between, none of them
/// stays. Returned is what was set, in order.
///
/// # Errors
/// Where there is no group for one of them, and what is refused.
pub fn keep(attached: &Attached, limits: &[Limit]) -> Result<Vec<Left>, Error> {
    let settings = all_files(attached, limits)
        .map_err(|why| Error::Usage(format!("it cannot be kept, because {why}")))?;
    let failed = |error: ringfence_system::changes::Error| {
        Error::Failed(format!("keeping a limit failed: {error}"))
    };
    let purpose = format!("limits of {}, to be kept", attached.target());
    let mut changes = cgroup::begin(&FsRoot::host(), &purpose).map_err(Error::Failed)?;
    let mut left = Vec::new();
    for setting in &settings {
        let was = setting.now().map_err(Error::Failed)?;
        setting.set(&mut changes).map_err(failed)?;
        let line = |value: &str| setting.line(value);
        left.push(Left {
            file: setting.file.clone(),
            value: line(&setting.value),
            was: line(&was),
        });
    }
    changes.keep().map_err(failed)?;
    Ok(left)
}

/// The folder of a control group that holds the attached processes and no others, and has the files
/// that a limit needs.
///
/// # Errors
/// Why there is none.
pub fn own_group(attached: &Attached, limit: &Limit) -> Result<(PathBuf, Version), Reason> {
    let (found, root) = (attachment::found(attached)?, FsRoot::host());
    let (folder, version) = of_found(&found, limit, &root)?;
    if let Limit::Cpus(cpus) = limit {
        cpuset::check(&root, &folder, version, &found.processes, cpus)?;
    }
    Ok((folder, version))
}

fn of_found(found: &Found, limit: &Limit, root: &FsRoot) -> Result<(PathBuf, Version), Reason> {
    let controller = limit.controller();
    let of = |group: &ringfence_system::attach::Group| {
        let version = if group.is_v2() { Version::Two } else { Version::One };
        let has = group.is_v2() || group.has(controller.name(Version::One));
        let settings = limit.settings(version);
        let there = !settings.is_empty()
            && settings.iter().all(|(file, _)| root.exists(group.folder.join(file)));
        (group.is_exact && has && there).then(|| (group.folder.clone(), version))
    };
    found.groups.iter().find_map(of).ok_or_else(|| {
        format!(
            "{} has no control group of its own with the controller '{}', and running processes \
             are not moved into one: start it in one, such as with systemd-run --scope",
            found.target,
            controller.name(Version::Two)
        )
        .into()
    })
}

/// The files that hold a limit of what is attached.
///
/// # Errors
/// As [`own_group`].
pub fn files(attached: &Attached, limit: &Limit) -> Result<Vec<Setting>, Reason> {
    let (folder, version) = own_group(attached, limit)?;
    let setting = |(file, entry, value): (&str, Option<Entry>, String)| {
        let file = folder.join(file);
        Setting { file, entry, value }
    };
    Ok(limit.entries(version).into_iter().map(setting).collect())
}

struct Adopted {
    changes: Changes,
    // By arm.
    arms: Vec<Vec<Setting>>,
    set: Vec<Setting>,
}

fn begin(plan: &Plan) -> Begun {
    let experiment = &plan.experiment;
    let mut arms = vec![Vec::new(); experiment.arms.len()];
    for case in plan.run_cases().map(|case| &plan.cases[case]) {
        let Some(number) = experiment.arms.iter().position(|arm| arm.name == case.arm) else {
            continue;
        };
        let of_case: Result<Vec<Vec<Setting>>, Reason> = case
            .active
            .iter()
            .map(|active| settings(plan, &experiment.arms[number], active))
            .collect();
        let of_case = of_case
            .map_err(|why| {
                Error::Usage(format!("arm '{}' cannot be run, because {why}", case.arm))
            })?
            .concat();
        // Another case of the arm gives the same role the same.
        for setting in of_case {
            if !arms[number].contains(&setting) {
                arms[number].push(setting);
            }
        }
    }
    if arms.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    let purpose = format!("limits for running processes, of experiment '{}'", experiment.name);
    let changes = cgroup::begin(&FsRoot::host(), &purpose).map_err(Error::Failed)?;
    Ok(Some(Box::new(Adopted { changes, arms, set: Vec::new() })))
}

impl Adopted {
    fn give_back(&mut self) -> Result<(), Error> {
        // A quota is restored before its period.
        while let Some(setting) = self.set.pop() {
            setting
                .set_back(&mut self.changes)
                .map_err(|error| Error::Failed(error.to_string()))?;
        }
        Ok(())
    }
}

impl Isolation for Adopted {
    fn begin_trial(&mut self, _: &dyn Tasks) -> Result<(), Error> {
        Ok(())
    }

    fn set(&mut self, arm: usize, _: &dyn Tasks) -> Result<bool, Error> {
        if self.set == self.arms[arm] {
            return Ok(false);
        }
        self.give_back()?;
        for setting in &self.arms[arm] {
            let set = setting.set(&mut self.changes);
            set.map_err(|error| {
                Error::Failed(format!("limiting running processes failed: {error}"))
            })?;
            self.set.push(setting.clone());
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
                "the results are kept, but limits of running processes could not be restored: \
                 {error}; 'ringfence restore' tries again"
            ))
        });
        restored.map(|restored| restored.said().cloned().collect())
    }
}
