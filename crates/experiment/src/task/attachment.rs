//! Running processes that this program did not start: a process, a control group, a systemd unit, a
//! container.

use super::ProgramUnit;
use super::axes::axes;
use super::parameters::Parameters;
use crate::Reason;
use serde::{Deserialize, Serialize};

/// Running processes. They are paused for windows only, within
/// [`Freezing`](crate::experiment::Freezing)'s limits, never started, never ended, and never moved.
/// Exactly one of these fields names them. A unit is a nanosecond of CPU time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Attached {
    /// A process with its descendants, those that come later among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// A control group with those below it, by its path as in `/proc/PID/cgroup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// A systemd unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// A container, by its id or the beginning of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

impl Attached {
    /// The kinds of names, as keys of a task and prefixes of a target.
    pub const KINDS: [&str; 4] = ["pid", "cgroup", "unit", "container"];

    /// Reads `pid:12`, `cgroup:/web`, `unit:nginx.service` or `container:4f2a`.
    ///
    /// # Errors
    /// One sentence with what can be given.
    pub fn of_target(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once(':').unwrap_or_default();
        let mut one = Self::default();
        let named = || Some(name.to_owned()).filter(|name| !name.is_empty());
        match kind {
            "pid" => one.pid = name.parse().ok(),
            "cgroup" => one.cgroup = named(),
            "unit" => one.unit = named(),
            "container" => one.container = named(),
            _ => {}
        }
        match one.check() {
            Ok(()) => Ok(one),
            Err(why) if one.pid == Some(0) => Err(why),
            Err(_) => Err(format!(
                "'{text}' does not name a running process: write pid:N, cgroup:PATH, unit:NAME or \
                 container:ID"
            )),
        }
    }

    /// It as one word, such as `pid:12`; empty where nothing is named.
    pub fn target(&self) -> String {
        let pid = self.pid.map(|pid| pid.to_string());
        let names = [pid, self.cgroup.clone(), self.unit.clone(), self.container.clone()];
        let named = Self::KINDS
            .iter()
            .zip(names)
            .find_map(|(kind, name)| Some(format!("{kind}:{}", name?)));
        named.unwrap_or_default()
    }
}

axes!(Attached: Attachments, "attached" {
    pid: Option<u32>,
    cgroup: Option<String>,
    unit: Option<String>,
    container: Option<String>,
});

impl From<Attached> for Attachments {
    fn from(attached: Attached) -> Self {
        let running = Self::default();
        match attached {
            Attached { pid: Some(pid), .. } => running.pid(Some(pid)),
            Attached { cgroup: Some(path), .. } => running.cgroup(Some(path)),
            Attached { unit: Some(name), .. } => running.unit(Some(name)),
            Attached { container, .. } => running.container(container),
        }
    }
}

impl Parameters for Attached {
    fn unit(&self) -> &'static str {
        ProgramUnit::CpuTime.name()
    }

    fn not_simulated(&self) -> Option<Reason> {
        Some("services that run are not simulated".into())
    }

    fn pinned(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), String> {
        let others = [&self.cgroup, &self.unit, &self.container];
        let named =
            others.iter().filter(|name| name.is_some()).count() + usize::from(self.pid.is_some());
        if named != 1 {
            return Err("give exactly one of pid, cgroup, unit and container".into());
        }
        if self.pid == Some(0) || others.into_iter().flatten().any(String::is_empty) {
            return Err(format!(
                "'{}' names nothing: give a number above 0 for a pid, else a name",
                self.target()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_names_what_runs_and_is_read_again() {
        for text in ["pid:12", "cgroup:/a:b", "unit:nginx.service", "container:4f2a"] {
            assert_eq!(Attached::of_target(text).unwrap().target(), text);
        }
        for text in ["", "12", "pid:", "pid:-1", "unit:", "group:/x"] {
            assert!(
                Attached::of_target(text).unwrap_err().contains("does not name a running process"),
                "{text}"
            );
        }
        assert!(Attached::of_target("pid:0").unwrap_err().contains("a number above 0"));
        let two = Attached { pid: Some(1), unit: Some("a".into()), ..Attached::default() };
        assert!(two.check().unwrap_err().contains("exactly one"));
    }
}
