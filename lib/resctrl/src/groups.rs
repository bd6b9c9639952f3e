//! The groups of a mounted resctrl, and its end, which must find none in use.

use std::io;
use std::path::Path;

use crate::error::{Error, Refused};
use crate::fs::{self, Resctrl};
use crate::group::Group;
use crate::id::GroupId;

impl Resctrl {
    /// The group that has everything at first: of all tasks and CPUs that no other has.
    pub fn default_group(&self) -> Group {
        Group::new(self, GroupId::default())
    }

    /// A group, whether it exists or not.
    pub fn group(&self, id: &GroupId) -> Group {
        Group::new(self, id.clone())
    }

    /// All groups, the default one first, each followed by its monitor groups.
    ///
    /// # Errors
    /// Where they cannot be listed.
    pub fn groups(&self) -> Result<Vec<Group>, Error> {
        let (all, errors) = self.known_groups();
        errors.into_iter().next().map_or(Ok(all), Err)
    }

    /// Those that can be listed, and why not the rest.
    pub(crate) fn known_groups(&self) -> (Vec<Group>, Vec<Error>) {
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        let mut names = |path: &Path| {
            self.names(path).unwrap_or_else(|error| {
                errors.push(error);
                Vec::new()
            })
        };
        let controls = names(Path::new("")).into_iter().map(|name| GroupId::control(&name));
        // What the kernel itself puts there is none; groups alone have tasks.
        let controls = controls.filter(|id| self.kernel().exists(&id.path().join("tasks")));
        for id in std::iter::once(GroupId::default()).chain(controls) {
            let monitors = names(&id.path().join("mon_groups"));
            all.push(Group::new(self, id.clone()));
            all.extend(monitors.iter().map(|name| Group::new(self, id.with_monitor(name))));
        }
        (all, errors)
    }

    fn names(&self, path: &Path) -> Result<Vec<String>, Error> {
        match self.kernel().dirs(path) {
            Ok(names) => Ok(names),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path != Path::new("") => {
                Ok(Vec::new())
            }
            Err(source) => {
                let tried = format!("listing {}/{}", self.place(), path.display());
                Err(Refused::new(tried, source, None).into())
            }
        }
    }

    /// Unmounts it from this machine. Every group goes, and all tasks are as if there had been
    /// none.
    ///
    /// # Errors
    /// The kernel's refusal. Nothing is tried while a pseudo-locked region's device is in use:
    /// Linux 6.1 crashes at the next mount otherwise.
    pub fn unmount(self) -> Result<(), Error> {
        for group in self.groups()? {
            group.refuse_while_mapped("unmounting resctrl")?;
        }
        let place = self.place();
        let busy = |errno| {
            (errno == libc::EBUSY).then(|| {
                format!(
                    "a process has a file of {place} open, or it is its working directory: end it"
                )
            })
        };
        let refused = |source| {
            Refused::new(format!("unmounting {place}"), source, None).unless_said(busy).into()
        };
        fs::unmount(&place).map_err(refused)
    }
}
