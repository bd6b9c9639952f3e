//! Tasks and CPUs of groups, and the process table (`rdtgroup.c`).

use libc::{EINVAL, EOVERFLOW, EPERM, ERANGE, ESRCH};
use ringfence_system::cpulist::CpuSet;

use super::machine::{Machine, Place};
use super::masks::come_online;
use super::processes::Task;
use super::schemas::go_offline;
use crate::mode::Mode;

impl Machine {
    pub fn task(&self, tid: u32) -> Option<(u32, Task)> {
        self.processes.iter().find_map(|(pid, process)| Some((*pid, *process.threads.get(&tid)?)))
    }

    /// Changes what a task's numbers are.
    fn set_task(&mut self, tid: u32, closid: u32, rmid: u32) {
        for process in self.processes.values_mut() {
            if let Some(task) = process.threads.get_mut(&tid) {
                (task.closid, task.rmid) = (closid, rmid);
            }
        }
    }

    /// `rdt_move_group_tasks`.
    pub fn move_all(&mut self, which: impl Fn(&Task) -> bool, closid: u32, rmid: u32) {
        for task in self.processes.values_mut().flat_map(|process| process.threads.values_mut()) {
            if which(task) {
                (task.closid, task.rmid) = (closid, rmid);
            }
        }
    }

    /// A new process or thread starts with the numbers of the one it comes from.
    pub fn start(&mut self, tid: u32, from: Option<u32>) -> Task {
        let (closid, rmid) = from
            .and_then(|from| self.task(from))
            .map_or((0, 0), |(_, task)| (task.closid, task.rmid));
        self.ticks += 1;
        self.next_id = self.next_id.max(tid + 1);
        Task { start: self.ticks, closid, rmid }
    }

    /// `show_rdt_tasks`.
    pub fn show_tasks(&self, place: &Place) -> String {
        let group = &self.groups[place.group];
        let belongs = |task: &Task| match place.monitor {
            Some(monitor) => task.rmid == group.monitors[monitor].rmid,
            None => self.hardware.allocates() && task.closid == group.closid,
        };
        let threads = self.processes.values().flat_map(|process| &process.threads);
        threads.filter(|(_, task)| belongs(task)).map(|(tid, _)| format!("{tid}\n")).collect()
    }

    /// `rdtgroup_tasks_assigned`, of a group of control.
    pub fn has_tasks(&self, group: usize) -> bool {
        !self.show_tasks(&Place { group, monitor: None }).is_empty()
    }

    /// `rdtgroup_tasks_write`.
    pub fn write_tasks(&mut self, place: &Place, text: &str) -> Result<(), i32> {
        let Some(tid) = text.trim().parse::<i32>().ok().filter(|tid| *tid >= 0) else {
            return Err(EINVAL);
        };
        self.status.clear();
        if matches!(self.groups[place.group].mode, Mode::PseudoLocked | Mode::PseudoLocksetup) {
            return self.refuse(EINVAL, "Pseudo-locking in progress");
        }
        let tid = if tid == 0 { self.current } else { tid as u32 };
        let Some((pid, task)) = self.task(tid) else {
            return self.refuse(ESRCH, format!("No task {tid}"));
        };
        if self.user.0 != 0 && self.processes[&pid].user != self.user.0 {
            return self.refuse(EPERM, format!("No permission to move task {tid}"));
        }
        let group = &self.groups[place.group];
        match place.monitor {
            None => self.set_task(tid, group.closid, group.rmid),
            Some(monitor) if group.closid == task.closid => {
                self.set_task(tid, task.closid, group.monitors[monitor].rmid);
            }
            Some(_) => return self.refuse(EINVAL, "Can't move task to different control group"),
        }
        Ok(())
    }

    /// `rdtgroup_cpus_write`. It leaves the status as it was and adds to it.
    pub fn write_cpus(&mut self, place: &Place, text: &str, list: bool) -> Result<(), i32> {
        if matches!(self.groups[place.group].mode, Mode::PseudoLocked | Mode::PseudoLocksetup) {
            return self.refuse(EINVAL, "Pseudo-locking in progress");
        }
        let parsed = if list { text.trim().parse().ok() } else { bits(text.trim()) };
        let Some(new): Option<CpuSet> = parsed else {
            return self.refuse(EINVAL, "Bad CPU list/mask");
        };
        // `cpulist_parse` and `cpumask_parse`, of CPUs that there cannot be.
        if new.last().is_some_and(|cpu| cpu >= self.hardware.cpus) {
            return self.refuse(if list { ERANGE } else { EOVERFLOW }, "Bad CPU list/mask");
        }
        if !new.is_subset(&self.hardware.online()) {
            return self.refuse(EINVAL, "Can only assign online CPUs");
        }
        match place.monitor {
            None => self.control_cpus(place.group, new),
            Some(monitor) => self.monitor_cpus(place.group, monitor, new),
        }
    }

    /// `resctrl_online_cpu` and `resctrl_offline_cpu`.
    pub fn set_online(&mut self, cpu: u32, online: bool) {
        if online {
            self.hardware.offline.remove(cpu);
            let default = self.default_place();
            self.groups[default].cpus.insert(cpu);
            come_online(self);
            return;
        }
        self.hardware.offline.insert(cpu);
        go_offline(&mut self.schemas, &self.hardware);
        for group in &mut self.groups {
            group.cpus.remove(cpu);
            for monitor in &mut group.monitors {
                monitor.cpus.remove(cpu);
            }
        }
    }

    /// `cpus_ctrl_write`.
    fn control_cpus(&mut self, place: usize, new: CpuSet) -> Result<(), i32> {
        let default = self.default_place();
        let dropped = self.groups[place].cpus.difference(&new);
        if !dropped.is_empty() {
            if place == default {
                return self.refuse(EINVAL, "Can't drop CPUs from default group");
            }
            self.groups[default].cpus = self.groups[default].cpus.union(&dropped);
        }
        let added = new.difference(&self.groups[place].cpus);
        for (other, group) in self.groups.iter_mut().enumerate() {
            if other != place && !group.cpus.is_disjoint(&added) {
                group.cpus = group.cpus.difference(&added);
                for monitor in &mut group.monitors {
                    monitor.cpus = monitor.cpus.intersection(&group.cpus);
                }
            }
        }
        self.groups[place].cpus = new;
        for monitor in &mut self.groups[place].monitors {
            monitor.cpus = CpuSet::new();
        }
        Ok(())
    }

    /// `cpus_mon_write`.
    fn monitor_cpus(&mut self, place: usize, monitor: usize, new: CpuSet) -> Result<(), i32> {
        if !new.is_subset(&self.groups[place].cpus) {
            return self.refuse(EINVAL, "Can only add CPUs to mongroup that belong to parent");
        }
        for (other, monitors) in self.groups[place].monitors.iter_mut().enumerate() {
            if other != monitor {
                monitors.cpus = monitors.cpus.difference(&new);
            }
        }
        self.groups[place].monitors[monitor].cpus = new;
        Ok(())
    }
}

/// A bitmap of CPUs in words of 32 bits, separated by commas.
fn bits(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    for (word, digits) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| word as u32 * 32 + bit));
    }
    Some(cpus)
}

/// The same the other way round, as wide as the machine.
pub(super) fn bitmap(cpus: &CpuSet, all: u32) -> String {
    let word = |word: u32| {
        let bits = (0..32).filter(|bit| cpus.contains(word * 32 + bit));
        bits.fold(0u32, |mask, bit| mask | 1 << bit)
    };
    let count = all.div_ceil(32).max(1);
    let top = (all.max(1) - 1) as usize % 32 / 4 + 1;
    let words = (0..count).rev().map(|place| {
        if place + 1 == count {
            format!("{:0top$x}", word(place))
        } else {
            format!("{:08x}", word(place))
        }
    });
    words.collect::<Vec<_>>().join(",")
}
