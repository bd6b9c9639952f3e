//! Settings of the whole system that an arm may change, as people write them: `vda/scheduler`,
//! `vda/nr_requests`, `vm.dirty_background_bytes`.

use std::fmt;
use std::str::FromStr;

use ringfence_machine::units::Bytes;

use crate::units::serde_as_text;

/// A system-wide setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub enum SystemSetting {
    /// The scheduler of a disk, by the kernel's name of the disk.
    Scheduler(String),
    /// How many requests may wait in it.
    Requests(String),
    /// Dirty pages, in bytes, from which on the kernel writes back in the background.
    DirtyBackground,
}

impl SystemSetting {
    /// What is wrong with a value for it, if anything.
    pub fn problem(&self, value: &str) -> Option<String> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match self {
            SystemSetting::Scheduler(_) if value.is_empty() || !value.chars().all(word) => Some(
                format!("'{value}' is not the name of a scheduler, such as none or mq-deadline"),
            ),
            // The kernel's least (BLKDEV_MIN_RQ).
            SystemSetting::Requests(_)
                if !value.parse().is_ok_and(|count| (4..=65535).contains(&count)) =>
            {
                Some(format!("'{value}' is not a number from 4 to 65535"))
            }
            SystemSetting::DirtyBackground => match value.parse::<Bytes>() {
                Ok(bytes) if bytes >= Bytes::mib(1) => None,
                Ok(bytes) => Some(format!("{bytes} is too little: give at least 1MiB")),
                Err(error) => Some(error.to_string()),
            },
            SystemSetting::Scheduler(_) | SystemSetting::Requests(_) => None,
        }
    }
}

impl fmt::Display for SystemSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SystemSetting::Scheduler(disk) => f.pad(&format!("{disk}/scheduler")),
            SystemSetting::Requests(disk) => f.pad(&format!("{disk}/nr_requests")),
            SystemSetting::DirtyBackground => f.pad("vm.dirty_background_bytes"),
        }
    }
}

/// Why a text is not such a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a setting that an arm may change: write DISK/scheduler, DISK/nr_requests or \
     vm.dirty_background_bytes"
)]
pub struct ParseSystemSettingError(String);

impl FromStr for SystemSetting {
    type Err = ParseSystemSettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A folder of /sys/block, where '!' stands for '/'.
        let is_disk = |name: &str| {
            name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_!:".contains(c))
        };
        match text.split_once('/') {
            Some((disk, "scheduler")) if is_disk(disk) => Ok(SystemSetting::Scheduler(disk.into())),
            Some((disk, "nr_requests")) if is_disk(disk) => {
                Ok(SystemSetting::Requests(disk.into()))
            }
            None if text == "vm.dirty_background_bytes" => Ok(SystemSetting::DirtyBackground),
            _ => Err(ParseSystemSettingError(text.into())),
        }
    }
}

serde_as_text!(SystemSetting);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_they_are_written_and_nothing_else_is() {
        for text in ["vda/scheduler", "nvme0n1/nr_requests", "vm.dirty_background_bytes"] {
            assert_eq!(text.parse::<SystemSetting>().unwrap().to_string(), text);
        }
        for text in [
            "vm.swappiness",
            "../vda/scheduler",
            "/scheduler",
            "./scheduler",
            "vda/rotational",
            "vda",
        ] {
            let error = text.parse::<SystemSetting>().unwrap_err().to_string();
            assert!(error.contains("DISK/scheduler"), "{error}");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        let problem =
            |setting: &str, value: &str| setting.parse::<SystemSetting>().unwrap().problem(value);
        for (setting, value) in [
            ("a/scheduler", "mq-deadline"),
            ("a/nr_requests", "4"),
            ("vm.dirty_background_bytes", "16MiB"),
        ] {
            assert_eq!(problem(setting, value), None, "{setting}");
        }
        for (setting, value, part) in [
            ("a/scheduler", "", "name of a scheduler"),
            ("a/scheduler", "none\nbfq", "name of a scheduler"),
            ("a/nr_requests", "3", "from 4 to 65535"),
            ("a/nr_requests", "many", "from 4 to 65535"),
            ("vm.dirty_background_bytes", "0", "at least 1MiB"),
            ("vm.dirty_background_bytes", "much", "much"),
        ] {
            assert!(
                problem(setting, value).is_some_and(|why| why.contains(part)),
                "{setting} {value}"
            );
        }
    }
}
