//! The state of the modelled kernel, and groups that come and go (`rdtgroup.c`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use libc::{EACCES, EBUSY, EEXIST, EINVAL, ENOENT, ENOSPC, EPERM};
use ringfence_system::cpulist::CpuSet;

use super::hardware::Hardware;
use super::processes::Process;
use super::schemas::{Schema, go_offline, schemas};
use crate::mode::Mode;
use crate::schemata::{Domain, Resource};

/// A group of control, or (inside one) a monitor group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub name: String,
    /// Never given twice.
    pub ino: u64,
    pub closid: u32,
    pub rmid: u32,
    pub mode: Mode,
    pub cpus: CpuSet,
    pub region: Option<Region>,
    pub monitors: Vec<Monitor>,
}

#[derive(Debug, Clone)]
pub(super) struct Monitor {
    pub name: String,
    pub ino: u64,
    pub rmid: u32,
    pub cpus: CpuSet,
}

/// `struct pseudo_lock_region`: there from `pseudo-locksetup` on; where it is once a schemata was
/// read.
#[derive(Debug, Clone, Default)]
pub(super) struct Region {
    pub at: Option<(u32, Domain, u64)>,
}

/// What a path below the mount stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its place in `groups`.
    pub group: usize,
    /// Its place in that group's `monitors`.
    pub monitor: Option<usize>,
}

pub(super) struct Machine {
    pub hardware: Hardware,
    pub schemas: Vec<Schema>,
    /// The newest first, the default one last (`rdt_all_groups`).
    pub groups: Vec<Group>,
    pub free_closids: BTreeSet<u32>,
    /// The one that was freed first is taken first (`rmid_free_lru`).
    pub free_rmids: VecDeque<u32>,
    /// Those whose lines are still in the cache.
    pub limbo: Vec<u32>,
    /// Whether freed ones go there.
    pub limbo_on: bool,
    pub last_ino: u64,
    /// That of `info`.
    pub session: u64,
    pub status: Status,
    pub controls: BTreeMap<(Resource, Domain, u32), u64>,
    pub threshold: u64,
    pub processes: BTreeMap<u32, Process>,
    pub next_id: u32,
    pub ticks: u64,
    /// The user that asks, and whether the files are that user's.
    pub user: (u32, bool),
    /// The task that asks.
    pub current: u32,
    pub traffic: u64,
    pub readings: BTreeMap<(String, Domain, String), String>,
    pub device_users: BTreeMap<String, Vec<u32>>,
    pub no_contiguous_memory: bool,
    /// The inodes of folders with the mark.
    pub marked: BTreeSet<u64>,
}

/// `last_cmd_status`: 512 bytes, after which nothing more is taken until it is cleared.
#[derive(Debug, Default)]
pub(super) struct Status {
    text: String,
    full: bool,
}

impl Status {
    const SIZE: usize = 512;

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn say(&mut self, text: &str) {
        self.full |= self.text.len() + text.len() + 1 > Self::SIZE;
        if !self.full {
            self.text.push_str(text);
        }
    }

    pub fn text(&self) -> String {
        if self.text.is_empty() { "ok\n".into() } else { self.text.clone() }
    }
}

impl Machine {
    pub fn new(hardware: Hardware) -> Self {
        let schemas = schemas(&hardware);
        let closids = schemas.iter().map(|schema| schema.closids).min().unwrap_or(32);
        let default = Group {
            name: String::new(),
            ino: 1,
            closid: 0,
            rmid: 0,
            mode: Mode::Shareable,
            cpus: hardware.online(),
            region: None,
            monitors: Vec::new(),
        };
        let bytes = hardware.l3.as_ref().map_or(0, |cache| u64::from(cache.ways) * cache.way_bytes);
        Self {
            schemas,
            groups: vec![default],
            free_closids: (1..closids).collect(),
            free_rmids: (1..hardware.rmids).collect(),
            limbo: Vec::new(),
            limbo_on: false,
            last_ino: 2,
            session: 2,
            status: Status::default(),
            controls: BTreeMap::new(),
            threshold: bytes / u64::from(hardware.rmids.max(1)),
            processes: BTreeMap::new(),
            next_id: 1000,
            ticks: 100,
            user: (0, true),
            current: 0,
            traffic: 0,
            readings: BTreeMap::new(),
            device_users: BTreeMap::new(),
            no_contiguous_memory: false,
            marked: BTreeSet::new(),
            hardware,
        }
    }

    fn next_ino(&mut self) -> u64 {
        self.last_ino += 1;
        self.last_ino
    }

    /// The number of a folder: of `info`, or of a group.
    pub fn inode(&self, parts: &[&str]) -> Option<u64> {
        if parts == ["info"] {
            return Some(self.session);
        }
        let (place, rest) = self.place(parts)?;
        let group = &self.groups[place.group];
        let ino = place.monitor.map_or(group.ino, |monitor| group.monitors[monitor].ino);
        rest.is_empty().then_some(ino)
    }

    /// `rdt_kill_sb` and `rdt_get_tree`.
    pub fn remount(&mut self) {
        let hardware = std::mem::replace(&mut self.hardware, Hardware::broadwell());
        let fresh = Self::new(hardware);
        self.move_all(|_| true, 0, 0);
        let session = self.next_ino();
        *self = Self {
            last_ino: session,
            session,
            processes: std::mem::take(&mut self.processes),
            next_id: self.next_id,
            ticks: self.ticks,
            user: self.user,
            current: self.current,
            limbo_on: self.limbo_on,
            ..fresh
        };
        go_offline(&mut self.schemas, &self.hardware);
    }

    pub fn say(&mut self, text: impl AsRef<str>) {
        self.status.say(&format!("{}\n", text.as_ref()));
    }

    pub fn refuse<T>(&mut self, errno: i32, text: impl AsRef<str>) -> Result<T, i32> {
        self.say(text);
        Err(errno)
    }

    pub fn monitors(&self) -> bool {
        self.hardware.rmids > 0
    }

    pub fn default_place(&self) -> usize {
        self.groups.len() - 1
    }

    pub fn find(&self, control: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.name == control)
    }

    /// `rdtgroup_mode_by_closid`: of the newest group of that number.
    pub fn mode_of(&self, closid: u32) -> Option<Mode> {
        self.groups.iter().find(|group| group.closid == closid).map(|group| group.mode)
    }

    /// The numbers in use (`closid_allocated`).
    pub fn closids_in_use(&self) -> Vec<u32> {
        let all = self.schemas.iter().map(|schema| schema.closids).min().unwrap_or(32);
        (0..all).filter(|closid| !self.free_closids.contains(closid)).collect()
    }

    /// `alloc_rmid`.
    pub fn take_rmid(&mut self) -> Result<u32, i32> {
        match self.free_rmids.pop_front() {
            Some(rmid) => Ok(rmid),
            None => {
                let errno = if self.limbo.is_empty() { ENOSPC } else { EBUSY };
                self.refuse(errno, "Out of RMIDs")
            }
        }
    }

    /// `free_rmid`.
    pub fn give_rmid(&mut self, rmid: u32) {
        if rmid == 0 {
            return;
        }
        if self.limbo_on { self.limbo.push(rmid) } else { self.free_rmids.push_back(rmid) }
    }

    pub fn may_change(&self) -> bool {
        self.user.0 == 0 || self.user.1
    }

    /// `rdtgroup_mkdir`, behind what the file system itself refuses.
    pub fn make_dir(&mut self, parts: &[&str]) -> Result<(), i32> {
        if self.is_folder(parts) {
            return Err(EEXIST);
        }
        let Some((name, above)) = parts.split_last() else { return Err(EEXIST) };
        if !self.is_folder(above) {
            return Err(ENOENT);
        }
        if !self.may_change() {
            return Err(EACCES);
        }
        if name.contains('\n') {
            return Err(EINVAL);
        }
        match *above {
            [] if self.hardware.allocates() => self.make_control(name),
            ["mon_groups"] if self.monitors() && *name != "mon_groups" => {
                self.make_monitor(self.default_place(), name)
            }
            [control, "mon_groups"] if self.monitors() && *name != "mon_groups" => {
                let group = self.find(control).ok_or(ENOENT)?;
                self.make_monitor(group, name)
            }
            _ => Err(EPERM),
        }
    }

    fn make_control(&mut self, name: &str) -> Result<(), i32> {
        // The number for monitoring is taken first.
        let rmid = if self.monitors() { self.take_rmid()? } else { 0 };
        let Some(closid) = self.free_closids.pop_first() else {
            self.say("Out of CLOSIDs");
            self.give_rmid(rmid);
            return Err(ENOSPC);
        };
        if let Err(errno) = self.init_controls(closid) {
            self.free_closids.insert(closid);
            self.give_rmid(rmid);
            return Err(errno);
        }
        let group = Group {
            name: name.to_owned(),
            ino: self.next_ino(),
            closid,
            rmid,
            mode: Mode::Shareable,
            cpus: CpuSet::new(),
            region: None,
            monitors: Vec::new(),
        };
        self.groups.insert(0, group);
        Ok(())
    }

    fn make_monitor(&mut self, group: usize, name: &str) -> Result<(), i32> {
        if matches!(self.groups[group].mode, Mode::PseudoLocksetup | Mode::PseudoLocked) {
            return self.refuse(EINVAL, "Pseudo-locking in progress");
        }
        let rmid = self.take_rmid()?;
        let monitor =
            Monitor { name: name.to_owned(), ino: self.next_ino(), rmid, cpus: CpuSet::new() };
        self.groups[group].monitors.push(monitor);
        Ok(())
    }

    /// `rdtgroup_rmdir`.
    pub fn remove_dir(&mut self, parts: &[&str]) -> Result<(), i32> {
        if parts.is_empty() {
            return Err(EBUSY);
        }
        if !self.is_folder(parts) {
            return Err(ENOENT);
        }
        if !self.may_change() {
            return Err(EACCES);
        }
        match self.place(parts) {
            Some((Place { group, monitor: Some(monitor) }, [])) => {
                self.remove_monitor(group, monitor)
            }
            Some((Place { group, monitor: None }, [])) => self.remove_control(group),
            _ => return Err(EPERM),
        }
        Ok(())
    }

    fn remove_monitor(&mut self, group: usize, monitor: usize) {
        let monitor = self.groups[group].monitors.remove(monitor);
        let (closid, rmid) = (self.groups[group].closid, self.groups[group].rmid);
        self.move_all(|task| task.rmid == monitor.rmid, closid, rmid);
        self.give_rmid(monitor.rmid);
    }

    fn remove_control(&mut self, place: usize) {
        let group = self.groups.remove(place);
        match group.mode {
            Mode::PseudoLocked => {
                let users = self.device_users.remove(&group.name).unwrap_or_default();
                // The memory is then neither freed nor forgotten, and the next mount follows it.
                assert!(
                    users.is_empty(),
                    "{} was removed while its device is open: Linux 6.1 crashes",
                    group.name
                );
            }
            Mode::PseudoLocksetup => {
                self.free_closids.insert(group.closid);
            }
            Mode::Shareable | Mode::Exclusive => {
                self.move_all(|task| task.closid == group.closid, 0, 0);
                let default = self.default_place();
                self.groups[default].cpus = self.groups[default].cpus.union(&group.cpus);
                self.free_closids.insert(group.closid);
                self.give_rmid(group.rmid);
                for monitor in &group.monitors {
                    self.give_rmid(monitor.rmid);
                }
            }
        }
        self.readings.retain(|(of, _, _), _| {
            *of != group.name && !of.starts_with(&format!("{}/", group.name))
        });
    }
}
