//! What is set in a control group: values of files of one of the kernel's controllers, in each
//! version of control groups that has them. Kernel documentation: admin-guide/cgroup-v2,
//! admin-guide/cgroup-v1.

use std::path::PathBuf;

use ringfence_machine::root::FsRoot;
use ringfence_system::changes::{Changes, Entry, Error};
use serde::{Deserialize, Serialize};

/// A version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy.
    Two,
}

/// What shares something out among groups.
#[derive(Debug, PartialEq, Eq)]
pub struct Controller {
    /// What the kernel calls it in version 1.
    pub one: &'static str,
    /// What the kernel calls it in version 2.
    pub two: &'static str,
    /// Why no group has it, where none does.
    pub not_there: &'static str,
}

impl Controller {
    /// What the kernel calls it.
    pub const fn name(&self, version: Version) -> &'static str {
        match version {
            Version::One => self.one,
            Version::Two => self.two,
        }
    }
}

/// The controller of the CPU's time.
pub const CPU: Controller = Controller {
    one: "cpu",
    two: "cpu",
    not_there: "no CPU controller of control groups is mounted, or none is delegated to a group",
};

/// The controller of what is given to disks.
pub const DISK: Controller = Controller {
    one: "blkio",
    two: "io",
    not_there: "blkio of cgroup v1 is not mounted, and io of cgroup v2 is not delegated to a group \
                (as root: 'echo +io > /sys/fs/cgroup/cgroup.subtree_control')",
};

/// A value of a file, or of an entry in one.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The file, below the group's folder or complete.
    pub file: PathBuf,
    /// Which of its values, where it has a line for each device.
    pub entry: Option<Entry>,
    /// What it is given.
    pub value: String,
}

impl Setting {
    /// The line that gives it its value.
    pub fn text(&self) -> String {
        self.line(&self.value)
    }

    /// What is written to give it a value.
    pub fn line(&self, value: &str) -> String {
        self.entry.as_ref().map_or_else(|| value.to_owned(), |entry| entry.line(value))
    }

    /// What it is now.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn now(&self) -> Result<String, ringfence_experiment::Error> {
        let text = FsRoot::host()
            .read_trimmed(&self.file)
            .map_err(ringfence_experiment::Error::failed_by)?;
        Ok(self
            .entry
            .as_ref()
            .map_or_else(|| ringfence_system::changes::plain(&text), |entry| entry.of(&text)))
    }

    /// Sets it, and arranges for the previous value to be restored.
    ///
    /// # Errors
    /// What is refused.
    pub fn set(&self, changes: &mut Changes) -> Result<(), Error> {
        match &self.entry {
            Some(entry) => changes.set_entry(&self.file, entry.clone(), &self.value),
            None => changes.set(&self.file, &self.value),
        }
    }

    /// Restores the previous value.
    ///
    /// # Errors
    /// What is refused.
    pub fn set_back(&self, changes: &mut Changes) -> Result<(), Error> {
        match &self.entry {
            Some(entry) => changes.set_back_entry(&self.file, entry),
            None => changes.set_back(&self.file),
        }
    }
}

/// What a group is made for, or given while an arm runs.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSettings {
    /// The controller whose files these are.
    pub controller: &'static Controller,
    one: Vec<Setting>,
    two: Vec<Setting>,
}

impl GroupSettings {
    /// Nothing yet, of a controller.
    pub const fn of(controller: &'static Controller) -> Self {
        Self { controller, one: Vec::new(), two: Vec::new() }
    }

    /// The same with another value of a file.
    pub fn with(self, version: Version, file: &str, value: impl ToString) -> Self {
        self.with_entry(version, file, None, value.to_string())
    }

    /// The same with another value of an entry in a file.
    pub fn with_entry(
        mut self,
        version: Version,
        file: &str,
        entry: Option<Entry>,
        value: String,
    ) -> Self {
        let all = if version == Version::One { &mut self.one } else { &mut self.two };
        all.push(Setting { file: file.into(), entry, value });
        self
    }

    /// The values in a version, in the order in which they are written; none in a version that does
    /// not have it.
    pub fn files(&self, version: Version) -> &[Setting] {
        match version {
            Version::One => &self.one,
            Version::Two => &self.two,
        }
    }

    // What is written to which file of a group of ours.
    #[cfg(test)]
    pub(crate) fn written(&self, version: Version) -> Vec<String> {
        let line = |one: &Setting| format!("{} = {}", one.file.display(), one.text());
        self.files(version).iter().map(line).collect()
    }
}
