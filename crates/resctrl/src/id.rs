//! Which group is meant: its path below the mount, as a value.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ringfence_sysfs::text::printable;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;

/// Which group: the default one, one of control, or a monitor group below either. Printed as its path
/// below the mount: ``, `a`, `a/mon_groups/m`.
#[doc(alias("class_id", "CLOSID", "COS"))]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId {
    control: Option<String>,
    monitor: Option<String>,
}

impl GroupId {
    /// A group of control by name.
    pub fn control(name: &str) -> Self {
        Self { control: Some(name.to_owned()), monitor: None }
    }

    /// A monitor group below this group.
    pub fn with_monitor(&self, name: &str) -> Self {
        Self { monitor: Some(name.to_owned()), ..self.clone() }
    }

    /// The group of control that a monitor group is below; otherwise the group itself.
    pub fn parent(&self) -> Self {
        Self { monitor: None, ..self.clone() }
    }

    /// Whether it is the default group.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it is a monitor group.
    pub fn is_monitor(&self) -> bool {
        self.monitor.is_some()
    }

    /// Its name: the last part of its path.
    pub fn name(&self) -> &str {
        self.monitor.as_deref().or(self.control.as_deref()).unwrap_or_default()
    }

    /// Its path below the mount.
    pub fn path(&self) -> PathBuf {
        let mut path = PathBuf::from(self.control.as_deref().unwrap_or_default());
        if let Some(monitor) = &self.monitor {
            path.push("mon_groups");
            path.push(monitor);
        }
        path
    }

    /// Why a name cannot be that of a group, if so.
    fn unfit(name: &str) -> Option<&'static str> {
        match name {
            "" => Some("it is empty"),
            "." | ".." => Some("it names a folder that is there"),
            "info" | "mon_groups" | "mon_data" => Some("the kernel has a folder of that name"),
            _ if name.len() > 255 => Some("it is longer than 255 bytes"),
            _ if name.contains(['/', '\n', '\0']) => Some("it holds '/', a newline or NUL"),
            _ => None,
        }
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_default() {
            return f.write_str("default group");
        }
        // Whoever makes a group chooses its name.
        f.write_str(&printable(&self.path().to_string_lossy()))
    }
}

impl FromStr for GroupId {
    type Err = Error;

    /// From a path below the mount; `.` and the empty text are the default group.
    fn from_str(text: &str) -> Result<Self, Error> {
        let parts: Vec<&str> = text.trim_end_matches('/').split('/').collect();
        let id = match *parts {
            ["" | "."] => Self::default(),
            ["mon_groups", monitor] => Self::default().with_monitor(monitor),
            [control] => Self::control(control),
            [control, "mon_groups", monitor] => Self::control(control).with_monitor(monitor),
            _ => {
                return Err(Error::Usage(format!(
                    "'{}' is not a group: write NAME or NAME/mon_groups/NAME",
                    printable(text)
                )));
            }
        };
        id.check()?;
        Ok(id)
    }
}

impl GroupId {
    pub(crate) fn check(&self) -> Result<(), Error> {
        for name in self.control.iter().chain(&self.monitor) {
            if let Some(why) = Self::unfit(name) {
                return Err(Error::Usage(format!(
                    "'{}' cannot be the name of a group: {why}",
                    printable(name)
                )));
            }
        }
        Ok(())
    }
}

impl Serialize for GroupId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.path().display())
    }
}

impl<'de> Deserialize<'de> for GroupId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
