//! A group: its ways and bandwidth, its tasks and CPUs, and what it uses.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ringfence_system::cpulist::CpuSet;

use crate::error::{Error, Refused};
use crate::fs::{Failed, Resctrl, Says};
use crate::id::GroupId;
use crate::kernel::{Kernel, Thread, WriteError};
use crate::mode::Mode;
use crate::monitor::{self, Reading};
use crate::remedy;
use crate::schemata::{Domain, Resource, Schemata, Setting};

/// What a group's mask in one cache comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// Of which resource.
    pub resource: Resource,
    /// The cache or memory.
    pub domain: Domain,
    /// Bytes; for bandwidth, the amount in its unit. 0 while a group is set up for pseudo-locking.
    pub amount: u64,
}

/// A group. It may have been removed since: then operations are refused with `ENOENT`.
///
/// What is written here stays until it is changed again: [`crate::Transaction`] writes so that it
/// is restored.
#[derive(Debug, Clone)]
pub struct Group {
    fs: Resctrl,
    id: GroupId,
}

impl Group {
    pub(crate) fn new(fs: &Resctrl, id: GroupId) -> Self {
        Self { fs: fs.clone(), id }
    }

    /// Which group.
    pub fn id(&self) -> &GroupId {
        &self.id
    }

    /// Whether it exists.
    pub fn exists(&self) -> bool {
        self.fs.kernel().exists(&self.id.path().join("tasks"))
    }

    /// The path of one of its files.
    pub fn place(&self, file: &str) -> String {
        let parts = [self.fs.place(), self.id.text(), file.to_owned()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    fn read(&self, file: &str) -> Result<String, Error> {
        let read = self.fs.kernel().read(&self.id.path().join(file));
        read.map_err(|source| {
            let refused = Refused::new(format!("reading {}", self.place(file)), source, None);
            refused.unless_said(|errno| self.forbidden(errno, "read", file)).into()
        })
    }

    // Files of tasks and CPUs lose every permission while a region is being locked, and resctrl
    // checks them for root too.
    fn forbidden(&self, errno: i32, what: &str, file: &str) -> Option<String> {
        if errno != libc::EACCES {
            return None;
        }
        let kept = matches!(file, "tasks" | "cpus" | "cpus_list") && !self.id.is_monitor();
        let mode = if kept { self.mode().ok().flatten() } else { None };
        Some(match mode {
            Some(Mode::PseudoLocksetup | Mode::PseudoLocked) => remedy::LOCKED.to_owned(),
            _ => remedy::forbidden(what, &self.place(file)),
        })
    }

    // The folder that a group is made in and removed from.
    fn forbidden_above(&self, errno: i32) -> Option<String> {
        let place = self.place("");
        let above = place.rsplit_once('/').map_or("", |(above, _)| above);
        (errno == libc::EACCES).then(|| remedy::forbidden("write to", above))
    }

    fn read_if_there(&self, file: &str) -> Result<Option<String>, Error> {
        if self.fs.kernel().exists(&self.id.path().join(file)) {
            self.read(file).map(Some)
        } else {
            Ok(None)
        }
    }

    fn content(&self, file: &str, text: &str, why: impl fmt::Display) -> Error {
        let text = text.trim().chars().take(80).collect();
        Error::Content { path: self.place(file).into(), text, why: why.to_string() }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        self.id.check()?;
        let path = self.id.path().join(file);
        let tried = || {
            let text = text.trim_end().replace('\n', " ");
            format!("writing '{text}' to {}", self.place(file))
        };
        let says = if file.starts_with("cpus") { Says::More } else { Says::Anew };
        let written = self.fs.run(tried, says, |kernel| {
            kernel.write(&path, text).map_err(|WriteError { opened, source }| {
                // A group that was removed is not found, and a text past a page is not looked at,
                // before the status is cleared.
                let heard =
                    opened && source.kind() != io::ErrorKind::NotFound && text.len() <= 4096;
                Failed { heard, source }
            })
        });
        let remedy = |errno| match (errno, file) {
            (libc::EINVAL, "schemata") => Some(
                "name only caches and memories that the group's schemata lists for that resource"
                    .to_owned(),
            ),
            _ => self.forbidden(errno, "write", file),
        };
        written.map_err(|refused| refused.unless_said(remedy).into())
    }

    /// Makes it. A group of control gets the ways that are not exclusive to others.
    ///
    /// # Errors
    /// The kernel's refusal: out of CLOSIDs or RMIDs, no ways left, or the name is taken.
    #[doc(alias = "pqos_alloc_assign")]
    pub fn create(&self) -> Result<(), Error> {
        self.make(|kernel, path| kernel.make_dir(path))
    }

    /// The same with the mark of a transaction ([`Kernel::make_marked_dir`]).
    pub(crate) fn create_marked(&self) -> Result<(), Error> {
        self.make(|kernel, path| kernel.make_marked_dir(path))
    }

    fn make(&self, make: impl FnOnce(&dyn Kernel, &Path) -> io::Result<()>) -> Result<(), Error> {
        self.id.check()?;
        if self.id.is_default() {
            return Err(Error::Usage("the default group always exists".into()));
        }
        let made = self.fs.run(
            || format!("making {}", self.place("")),
            Says::More,
            |kernel| make(kernel, &self.id.path()).map_err(|source| Failed { heard: true, source }),
        );
        let remedy = |errno| match errno {
            libc::EPERM if self.id.is_monitor() => {
                Some("this machine has no monitoring: make a control group".into())
            }
            libc::EPERM => Some("this machine allocates nothing: make a monitor group".to_owned()),
            _ => self.forbidden_above(errno),
        };
        made.map_err(|refused| refused.unless_said(remedy).into())
    }

    /// Removes it, with its monitor groups; its tasks and CPUs go to the default group, or from a
    /// monitor group to the group above.
    ///
    /// # Errors
    /// The kernel's refusal. Nothing is tried while a pseudo-locked region's device is in use.
    #[doc(alias = "pqos_alloc_release")]
    pub fn remove(&self) -> Result<(), Error> {
        self.id.check()?;
        if self.id.is_default() {
            return Err(Error::Usage("the default group cannot be removed".into()));
        }
        self.refuse_while_mapped(&format!("removing {}", self.place("")))?;
        let removed = self.fs.run(
            || format!("removing {}", self.place("")),
            Says::Nothing,
            |kernel| {
                kernel.remove_dir(&self.id.path()).map_err(|source| Failed { heard: true, source })
            },
        );
        removed.map_err(|refused| refused.unless_said(|errno| self.forbidden_above(errno)).into())
    }

    /// Refuses what would take away a pseudo-locked region that a process uses, or may use unseen:
    /// Linux 6.1 crashes when resctrl is mounted again after a pseudo-locked group was removed
    /// whose device was open.
    ///
    /// # Errors
    /// [`Error::Busy`] then, with what was `tried`; or where the mode cannot be read.
    pub fn refuse_while_mapped(&self, tried: &str) -> Result<(), Error> {
        if self.id.is_monitor() || self.mode()? != Some(Mode::PseudoLocked) {
            return Ok(());
        }
        let device = self.device();
        let users = self.fs.kernel().users_of(&device);
        if users.is_empty() {
            let Some(why) = self.fs.kernel().unseen() else { return Ok(()) };
            return Err(Error::Busy(format!(
                "{tried} was not tried: the users of {} are unknown, because {why}, and the kernel \
                 can crash when a region in use is removed; run this as root outside any \
                 container, where /proc shows every process",
                device.display()
            )));
        }
        let pids = users.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        Err(Error::Busy(format!(
            "{tried} was not tried: {} is in use by process {pids}, and the kernel can crash when \
             a mapped region is removed; end it first",
            device.display()
        )))
    }

    /// The device of its pseudo-locked region.
    pub fn device(&self) -> PathBuf {
        Path::new("/dev/pseudo_lock").join(self.id.path().file_name().unwrap_or_default())
    }

    /// How it shares; `None` for monitor groups, and where nothing is shared out.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn mode(&self) -> Result<Option<Mode>, Error> {
        let Some(text) = self.read_if_there("mode")? else { return Ok(None) };
        let mode =
            Mode::of(text.trim()).ok_or_else(|| self.content("mode", &text, "an unknown mode"));
        mode.map(Some)
    }

    /// Sets how it shares.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        self.write("mode", &format!("{}\n", mode.word()))
    }

    /// What it may use; empty for monitor groups.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub fn schemata(&self) -> Result<Schemata, Error> {
        let Some(text) = self.read_if_there("schemata")? else { return Ok(Schemata::new()) };
        text.parse().map_err(|error| self.content("schemata", &text, error))
    }

    /// Sets what it may use; what is not named stays as it is. All or nothing: lines are checked
    /// before any takes effect.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(alias("pqos_l3ca_set", "pqos_mba_set"))]
    pub fn set_schemata(&self, schemata: &Schemata) -> Result<(), Error> {
        if schemata.is_empty() {
            return Ok(());
        }
        self.write("schemata", &schemata.to_string())
    }

    /// As [`Group::set_schemata`], and reads back what took effect: bandwidth is rounded up to the
    /// next step.
    ///
    /// # Errors
    /// As above; or if another mask than the requested one is in effect.
    pub fn set_schemata_checked(&self, schemata: &Schemata) -> Result<Schemata, Error> {
        self.set_schemata(schemata)?;
        let found = self.schemata()?;
        for (resource, domain, asked) in schemata.settings() {
            let in_effect = found.get(resource, domain);
            let rounded = match (asked, in_effect) {
                (Setting::Amount(asked), Some(Setting::Amount(found))) => found >= asked,
                (asked, found) => found == Some(asked),
            };
            if !rounded {
                return Err(Error::NotInEffect {
                    group: self.id.to_string(),
                    asked: format!("{resource}:{domain}={asked}"),
                    found: in_effect
                        .map_or("nothing".into(), |found| format!("{resource}:{domain}={found}")),
                });
            }
        }
        Ok(found)
    }

    /// The bytes of cache that its masks select; bandwidths as they are. For a pseudo-locked group,
    /// the size of its region.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub fn size(&self) -> Result<Vec<Size>, Error> {
        let Some(text) = self.read_if_there("size")? else { return Ok(Vec::new()) };
        let mut sizes = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let read = || -> Option<Vec<Size>> {
                let (name, values) = line.split_once(':')?;
                let resource = Resource::of(name.trim());
                let size = |part: &str| {
                    let (domain, amount) = part.split_once('=')?;
                    let (domain, amount) =
                        (domain.trim().parse().ok()?, amount.trim().parse().ok()?);
                    Some(Size { resource: resource.clone(), domain, amount })
                };
                values.split(';').map(size).collect()
            };
            sizes.extend(read().ok_or_else(|| {
                self.content("size", &text, "expected sizes such as L3:0=1048576")
            })?);
        }
        Ok(sizes)
    }

    /// The CPUs whose tasks of the default group count as this group's.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    #[doc(alias = "pqos_alloc_assoc_get")]
    pub fn cpus(&self) -> Result<CpuSet, Error> {
        // The mask is there since Linux 4.10, the list since 4.13.
        let Some(text) = self.read_if_there("cpus_list")? else {
            let text = self.read("cpus")?;
            return CpuSet::from_mask(&text).map_err(|error| self.content("cpus", &text, error));
        };
        text.trim().parse().map_err(|error| self.content("cpus_list", &text, error))
    }

    /// Sets them; its other CPUs go to the default group.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(alias = "pqos_alloc_assoc_set")]
    pub fn set_cpus(&self, cpus: &CpuSet) -> Result<(), Error> {
        self.write("cpus_list", &format!("{cpus}\n"))
    }

    /// The ids of its threads as this process sees them. The list is a snapshot: threads come and
    /// go.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub fn tasks(&self) -> Result<Vec<u32>, Error> {
        let text = self.read("tasks")?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let ids: Result<Vec<u32>, _> = lines.map(str::parse).collect();
        ids.map_err(|_| self.content("tasks", &text, "expected one number a line"))
    }

    /// The same with the time each was started; those that have ended in between are left out.
    ///
    /// # Errors
    /// As above.
    pub fn threads(&self) -> Result<Vec<Thread>, Error> {
        let kernel = self.fs.kernel();
        let known = |tid: u32| kernel.started(tid).map(|start| Thread { tid, start });
        Ok(self.tasks()?.into_iter().filter_map(known).collect())
    }

    /// Moves one thread into it. What it starts from now on is born here.
    ///
    /// # Errors
    /// The kernel's refusal: there is no such thread, or it belongs to another user.
    #[doc(alias = "pqos_alloc_assoc_set_pid")]
    pub fn add_thread(&self, tid: u32) -> Result<(), Error> {
        self.write("tasks", &format!("{tid}\n"))
    }

    /// What its tasks use, by domain and event; empty where nothing is monitored.
    ///
    /// # Errors
    /// Where the folder cannot be listed.
    #[doc(alias = "pqos_mon_poll")]
    pub fn monitored(&self) -> Result<Vec<Reading>, Error> {
        monitor::read(self.fs.kernel(), &self.id.path()).map_err(|source| {
            Refused::new(format!("reading {}", self.place("mon_data")), source, None).into()
        })
    }
}
