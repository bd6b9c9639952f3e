//! The tree of files: what is where, may be opened, and says what.

use std::path::Path;

use libc::{EACCES, EINVAL, EISDIR, ENOENT};

use super::machine::{Machine, Place};
use super::masks::number;
use super::tasks::bitmap;
use crate::mode::Mode;
use crate::schemata::{Domain, Resource};

const EVENTS: [&str; 3] = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];

/// The parts of a path below the mount.
pub(super) fn parts(path: &Path) -> Vec<&str> {
    path.iter()
        .filter_map(|part| part.to_str())
        .filter(|part| !matches!(*part, "." | "/"))
        .collect()
}

impl Machine {
    /// The group that a path leads into, and the rest of the path.
    pub fn place<'a>(&self, path: &'a [&'a str]) -> Option<(Place, &'a [&'a str])> {
        let (group, rest) = match path {
            ["info", ..] => return None,
            [control, rest @ ..] if !control.is_empty() && self.find(control).is_some() => {
                (self.find(control)?, rest)
            }
            rest => (self.default_place(), rest),
        };
        if let ["mon_groups", name, rest @ ..] = rest
            && let Some(monitor) =
                self.groups[group].monitors.iter().position(|monitor| monitor.name == *name)
        {
            return Some((Place { group, monitor: Some(monitor) }, rest));
        }
        Some((Place { group, monitor: None }, rest))
    }

    fn domain_folders(&self) -> Vec<String> {
        let all = self.hardware.l3.as_ref().map_or(vec![0], |cache| cache.domains.clone());
        let l3 = all.iter().filter(|domain| {
            self.hardware.l3.is_none() || !self.hardware.cpus_of(3, **domain).is_empty()
        });
        l3.map(|domain| format!("mon_L3_{domain:02}")).collect()
    }

    /// The names of the folders in a folder; `None` where there is no such folder.
    pub fn folders(&self, path: &[&str]) -> Option<Vec<String>> {
        if let ["info", rest @ ..] = path {
            let mut names: Vec<String> =
                self.schemas.iter().map(|schema| schema.resource.name().to_owned()).collect();
            if self.monitors() {
                names.push("L3_MON".into());
            }
            return match rest {
                [] => Some(names),
                [one] if names.iter().any(|name| name == one) => Some(Vec::new()),
                _ => None,
            };
        }
        let (place, rest) = self.place(path)?;
        let group = &self.groups[place.group];
        let monitored = self.monitors();
        match rest {
            [] => {
                let mut names = Vec::new();
                if monitored {
                    names.push("mon_data".to_owned());
                }
                if monitored && place.monitor.is_none() {
                    names.push("mon_groups".into());
                }
                if place == (Place { group: self.default_place(), monitor: None }) {
                    names.push("info".into());
                    names.extend(
                        self.groups
                            .iter()
                            .map(|group| group.name.clone())
                            .filter(|name| !name.is_empty()),
                    );
                }
                Some(names)
            }
            ["mon_groups"] if monitored && place.monitor.is_none() => {
                Some(group.monitors.iter().map(|monitor| monitor.name.clone()).collect())
            }
            ["mon_data"] if monitored => Some(self.domain_folders()),
            ["mon_data", name]
                if monitored && self.domain_folders().iter().any(|one| one == name) =>
            {
                Some(Vec::new())
            }
            _ => None,
        }
    }

    pub fn is_folder(&self, path: &[&str]) -> bool {
        self.folders(path).is_some()
    }

    /// Whether there is such a file.
    pub fn is_file(&self, path: &[&str]) -> bool {
        let Some((name, folder)) = path.split_last() else { return false };
        if !self.is_folder(folder) {
            return false;
        }
        match folder {
            ["info"] => *name == "last_cmd_status",
            ["info", resource] => self.info(resource, name).is_some(),
            _ => match self.place(folder) {
                Some((_, ["mon_data", _])) => EVENTS.contains(name),
                Some((place, [])) => {
                    matches!(*name, "cpus" | "cpus_list" | "tasks")
                        || place.monitor.is_none() && matches!(*name, "schemata" | "mode" | "size")
                }
                _ => false,
            },
        }
    }

    /// A file that carries no permission for any user, root included
    /// (`rdtgroup_locksetup_user_restrict`, and resctrl's root checks again at open).
    fn restricted(&self, place: &Place, name: &str, writing: bool) -> bool {
        let listed = matches!(name, "cpus" | "cpus_list");
        match self.groups[place.group].mode {
            Mode::PseudoLocksetup => listed || name == "tasks",
            Mode::PseudoLocked => name == "tasks" || writing && listed,
            Mode::Shareable | Mode::Exclusive => false,
        }
    }

    pub fn read(&mut self, path: &[&str]) -> Result<String, i32> {
        if self.is_folder(path) {
            return Err(EISDIR);
        }
        let (name, folder) = path.split_last().filter(|_| self.is_file(path)).ok_or(ENOENT)?;
        match folder {
            ["info"] => return Ok(self.status.text()),
            ["info", resource] => return self.info(resource, name).ok_or(ENOENT),
            _ => {}
        }
        let (place, rest) = self.place(folder).ok_or(ENOENT)?;
        if let ["mon_data", domain] = rest {
            return Ok(self.counter(&place, domain, name));
        }
        if self.restricted(&place, name, false) {
            return Err(EACCES);
        }
        let group = &self.groups[place.group];
        let cpus = match (place.monitor, group.region.as_ref().and_then(|region| region.at)) {
            (Some(monitor), _) => group.monitors[monitor].cpus.clone(),
            (None, Some((level, domain, _))) if group.mode == Mode::PseudoLocked => {
                self.hardware.cpus_of(level, domain)
            }
            (None, _) => group.cpus.clone(),
        };
        Ok(match *name {
            "cpus_list" => format!("{cpus}\n"),
            "cpus" => format!("{}\n", bitmap(&cpus, self.hardware.cpus)),
            "tasks" => self.show_tasks(&place),
            "schemata" => self.show_schemata(place.group),
            "size" => self.show_size(place.group),
            "mode" => format!("{}\n", group.mode.word()),
            _ => return Err(ENOENT),
        })
    }

    /// Writes; the first of the error is whether the file was opened.
    pub fn write(&mut self, path: &[&str], text: &str) -> Result<(), (bool, i32)> {
        if self.is_folder(path) {
            return Err((false, EISDIR));
        }
        let (name, folder) =
            path.split_last().filter(|_| self.is_file(path)).ok_or((false, ENOENT))?;
        if *folder == ["info", "L3_MON"] && *name == "max_threshold_occupancy" && self.may_change()
        {
            let most = self
                .hardware
                .l3
                .as_ref()
                .map_or(u64::MAX, |cache| cache.way_bytes * u64::from(cache.ways));
            self.threshold =
                number(text.trim(), 10).filter(|bytes| *bytes <= most).ok_or((true, EINVAL))?;
            return Ok(());
        }
        let (place, rest) = self.place(folder).ok_or((false, EACCES))?;
        let changeable = matches!(*name, "cpus" | "cpus_list" | "tasks" | "schemata" | "mode");
        if !rest.is_empty()
            || !changeable
            || !self.may_change()
            || self.restricted(&place, name, true)
        {
            return Err((false, EACCES));
        }
        let done = match *name {
            "tasks" => self.write_tasks(&place, text),
            "cpus" | "cpus_list" => self.write_cpus(&place, text, *name == "cpus_list"),
            "schemata" => self.write_schemata(place.group, text),
            _ => self.write_mode(place.group, text),
        };
        done.map_err(|errno| (true, errno))
    }

    fn info(&self, resource: &str, name: &str) -> Option<String> {
        if resource == "L3_MON" {
            return Some(match name {
                "num_rmids" => format!("{}\n", self.hardware.rmids),
                "mon_features" => EVENTS.map(|event| format!("{event}\n")).concat(),
                "max_threshold_occupancy" => format!("{}\n", self.threshold),
                _ => return None,
            });
        }
        let schema = self.schemas.iter().find(|schema| schema.resource.name() == resource)?;
        if name == "num_closids" {
            return Some(format!("{}\n", schema.closids));
        }
        if let Some(level) = schema.resource.cache_level() {
            let cache = self.hardware.cache(level)?;
            return Some(match name {
                "cbm_mask" => format!("{}\n", cache.all()),
                "min_cbm_bits" => format!("{}\n", cache.min_bits),
                "shareable_bits" => format!("{}\n", cache.shareable),
                "bit_usage" => self.show_bit_usage(&Resource::of(resource)),
                _ => return None,
            });
        }
        let mb = self.hardware.mb.as_ref()?;
        Some(match name {
            "min_bandwidth" => format!("{}\n", mb.min),
            "bandwidth_gran" => format!("{}\n", mb.step),
            "delay_linear" => format!("{}\n", u8::from(mb.percent)),
            "thread_throttle_mode" if mb.percent => "max\n".into(),
            _ => return None,
        })
    }

    /// A group's name of path, for readings that a test sets.
    fn label(&self, place: &Place) -> String {
        let group = &self.groups[place.group];
        let monitor =
            place.monitor.map(|monitor| format!("mon_groups/{}", group.monitors[monitor].name));
        let parts = [Some(group.name.clone()).filter(|name| !name.is_empty()), monitor];
        parts.into_iter().flatten().collect::<Vec<_>>().join("/")
    }

    /// Invented: bytes moved rise with every reading, and lines held are as many as the number
    /// says.
    fn counter(&mut self, place: &Place, folder: &str, event: &str) -> String {
        let domain: Domain =
            folder.rsplit('_').next().and_then(|text| text.parse().ok()).unwrap_or_default();
        let key = (self.label(place), domain, event.to_owned());
        if let Some(text) = self.readings.get(&key) {
            return format!("{text}\n");
        }
        self.traffic += 64;
        let group = &self.groups[place.group];
        let rmid = place.monitor.map_or(group.rmid, |monitor| group.monitors[monitor].rmid);
        let value = match event {
            "llc_occupancy" => u64::from(rmid + 1) << 16,
            "mbm_total_bytes" => self.traffic * 2,
            _ => self.traffic,
        };
        format!("{value}\n")
    }
}
