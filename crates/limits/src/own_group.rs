//! Limits for running processes. They are set in the processes' own control group while an arm runs
//! that uses them, and the previous values are restored afterwards. No process is moved: a process
//! without a control group of its own cannot be limited.

use std::path::PathBuf;

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::shell;
use ringfence_experiment::task::{Attached, Task};
use ringfence_experiment::units::Share;
use ringfence_experiment::{Arm, Error, Limit, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_system::attach::Found;
use ringfence_system::changes::Changes;
use serde::Serialize;

use super::kind::{Begun, Isolation, Kind, Tasks};
use super::setting::{GroupSettings, Setting, Version};
use super::{cgroup, quota};
use crate::attachment;

/// What running processes are given in their own control group for a limit, or why they cannot
/// have it; none for limits of other kinds.
pub type InPlace = fn(&Attached, &Limit) -> Option<Result<GroupSettings, Reason>>;

/// Isolation of running processes, by these kinds of limits.
pub struct OwnGroup(pub &'static [InPlace]);

impl OwnGroup {
    // What an arm gives to a role that is attached, file by file; nothing to others.
    fn settings(&self, plan: &Plan, arm: &Arm, active: &Active) -> Result<Vec<Setting>, Reason> {
        let variant = &plan.variants[active.role][active.variant];
        let Task::Attached(attached) = &variant.task else { return Ok(Vec::new()) };
        let name = &plan.experiment.roles[active.role].name;
        self.of_attached(attached, arm.limits_of(name), variant.quota)
    }

    fn of_attached(
        &self,
        attached: &Attached,
        limits: &[Limit],
        quota: Option<Share>,
    ) -> Result<Vec<Setting>, Reason> {
        let mut all = Vec::new();
        if let Some(quota) = quota {
            all.extend(files(attached, &quota::settings(quota))?);
        }
        for limit in limits {
            for settings in self.0.iter().filter_map(|in_place| in_place(attached, limit)) {
                all.extend(files(attached, &settings?)?);
            }
        }
        Ok(all)
    }

    /// Sets limits that stay on a running process; if this program is killed in between, none of
    /// them stays. Returned is what was set, in order.
    ///
    /// # Errors
    /// Where there is no group for one of them, and what is refused.
    pub fn keep(
        &self,
        attached: &Attached,
        limits: &[Limit],
        quota: Option<Share>,
    ) -> Result<Vec<Left>, Error> {
        let settings = self
            .of_attached(attached, limits, quota)
            .map_err(|why| Error::usage(format!("it cannot be kept, because {why}")))?;
        if settings.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |error: ringfence_system::changes::Error| {
            Error::failed(format!("keeping a limit failed: {error}"))
        };
        let purpose = format!("limits of {}, to be kept", attached.target());
        let mut changes = cgroup::begin(&FsRoot::host(), &purpose)?;
        let mut left = Vec::new();
        for setting in &settings {
            let was = setting.now()?;
            setting.set(&mut changes).map_err(failed)?;
            left.push(Left {
                file: setting.file.clone(),
                value: setting.text(),
                was: setting.line(&was),
            });
        }
        changes.keep().map_err(failed)?;
        Ok(left)
    }
}

impl Kind for OwnGroup {
    fn wanted(&self, arm: &Arm) -> bool {
        !arm.limits.is_empty() || arm.set.values().any(|set| set.quota().is_some())
    }

    fn missing(&self, plan: &Plan, arm: &Arm, active: &[Active]) -> Option<Reason> {
        active.iter().find_map(|active| self.settings(plan, arm, active).err())
    }

    fn begin(&self, plan: &Plan) -> Begun {
        let experiment = &plan.experiment;
        let mut arms = vec![Vec::new(); experiment.arms.len()];
        for case in plan.run_cases().map(|case| &plan.cases[case]) {
            let named = experiment.arms.iter().position(|arm| arm.name == case.arm);
            let Some(number) = named else { continue };
            for active in &case.active {
                let settings = self.settings(plan, &experiment.arms[number], active);
                // Another case of the arm gives the same role the same.
                for setting in settings.map_err(Error::usage)? {
                    if !arms[number].contains(&setting) {
                        arms[number].push(setting);
                    }
                }
            }
        }
        if arms.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let purpose = format!("limits for running processes, of experiment '{}'", experiment.name);
        let changes = cgroup::begin(&FsRoot::host(), &purpose)?;
        Ok(Some(Box::new(Adopted { changes, arms, set: Vec::new() })))
    }
}

/// A setting of a control group that was left in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "KeptLimit"))]
pub struct Left {
    /// The file.
    pub file: PathBuf,
    /// The value that was written.
    pub value: String,
    /// The value to write to restore the old setting.
    pub was: String,
}

/// The folder of a control group that holds the attached processes and no others, and has the files
/// that these settings need.
///
/// # Errors
/// Why there is none.
pub fn own_group(found: &Found, settings: &GroupSettings) -> Result<(PathBuf, Version), Reason> {
    let (controller, root) = (settings.controller, FsRoot::host());
    let of = |group: &ringfence_system::attach::Group| {
        let version = if group.is_v2() { Version::Two } else { Version::One };
        let has = group.is_v2() || group.has(controller.name(Version::One));
        let files = settings.files(version);
        let there =
            !files.is_empty() && files.iter().all(|one| root.exists(group.folder.join(&one.file)));
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

// The files of what is attached that hold these settings.
fn files(attached: &Attached, settings: &GroupSettings) -> Result<Vec<Setting>, Reason> {
    let (folder, version) = own_group(&attachment::found(attached)?, settings)?;
    let setting = |one: &Setting| Setting { file: folder.join(&one.file), ..one.clone() };
    Ok(settings.files(version).iter().map(setting).collect())
}

/// What keeps a limit of a running process, in words, and the commands that do so; for a systemd
/// unit by its properties, such as `CPUQuota=25%`, if it has some for it.
///
/// # Errors
/// Why it cannot be limited.
pub fn kept(
    attached: &Attached,
    settings: &GroupSettings,
    properties: &[String],
) -> Result<(String, Vec<String>), Reason> {
    let files = files(attached, settings)?;
    if let Some(unit) = attached.unit.as_ref().filter(|_| !properties.is_empty()) {
        let words = ["systemctl", "set-property", "--runtime", unit].into_iter();
        let command = shell::line(words.chain(properties.iter().map(String::as_str)));
        return Ok((
            "give the unit these properties; without --runtime it outlives a reboot".into(),
            vec![command],
        ));
    }
    let commands = files.iter().map(|one| shell::write(&one.text(), &one.file)).collect();
    let values: Vec<String> =
        files.iter().map(|one| format!("'{}' to {}", one.text(), one.file.display())).collect();
    Ok((
        format!(
            "write {} in its control group; the program that created the group may overwrite it",
            values.join(" and ")
        ),
        commands,
    ))
}

struct Adopted {
    changes: Changes,
    // By arm.
    arms: Vec<Vec<Setting>>,
    set: Vec<Setting>,
}

impl Adopted {
    fn give_back(&mut self) -> Result<(), Error> {
        // A quota is restored before its period.
        while let Some(setting) = self.set.pop() {
            setting.set_back(&mut self.changes).map_err(Error::failed_by)?;
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
            set.map_err(Error::trying("limiting running processes failed"))?;
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
            Error::failed(format!(
                "the results are kept, but limits of running processes could not be restored: \
                 {error}; 'ringfence restore' tries again"
            ))
        });
        restored.map(|restored| restored.said().cloned().collect())
    }
}
