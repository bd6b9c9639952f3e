//! What an arm may set apart: its tables `resctrl`, `cpu_weight`, `disk_write`, `disk_weight`,
//! `memory_high`, `io_priority`, `cpuset`, `frozen` and `system`.

use ringfence_machine::units::Bytes;
use ringfence_resctrl::GroupId;

use super::{Arm, Freezing};
use crate::system::SystemSetting;
use crate::units::Rate;

/// What is wrong with an arm's table, if anything.
pub fn problem(arm: &Arm) -> Option<String> {
    let all = [
        resctrl,
        cpu_weight,
        disk_write,
        disk_weight,
        memory_high,
        io_priority,
        cpuset,
        frozen,
        system,
    ];
    all.iter().find_map(|problem| problem(arm))
}

fn disk_weight(arm: &Arm) -> Option<String> {
    arm.disk_weight.iter().find_map(|(name, weight)| match weight {
        _ if !arm.active.contains(name) => {
            Some(format!("disk_weight names '{name}', which it does not run"))
        }
        1..=1000 => None,
        _ => Some(format!("disk_weight: {weight} for '{name}' is not between 1 and 1000")),
    })
}

// Less than a program needs to make progress at all.
const LEAST_MEMORY: Bytes = Bytes::mib(1);

fn memory_high(arm: &Arm) -> Option<String> {
    arm.memory_high.iter().find_map(|(name, bytes)| match bytes {
        _ if !arm.active.contains(name) => {
            Some(format!("memory_high names '{name}', which it does not run"))
        }
        bytes if *bytes < LEAST_MEMORY => Some(format!(
            "memory_high: {bytes} for '{name}' is too little: give at least {LEAST_MEMORY}"
        )),
        _ => None,
    })
}

fn system(arm: &Arm) -> Option<String> {
    let problem = |(setting, value): (&SystemSetting, &String)| {
        setting.problem(value).map(|why| format!("system: {setting}: {why}"))
    };
    arm.system.iter().find_map(problem)
}

fn cpuset(arm: &Arm) -> Option<String> {
    arm.cpuset.iter().find_map(|(name, cpus)| match cpus {
        _ if !arm.active.contains(name) => {
            Some(format!("cpuset names '{name}', which it does not run"))
        }
        cpus if cpus.is_empty() => {
            Some(format!("cpuset gives '{name}' no CPU: name some, such as \"0-3\""))
        }
        _ => None,
    })
}

fn frozen(arm: &Arm) -> Option<String> {
    arm.frozen.iter().find_map(|(name, share)| match share.0 {
        _ if !arm.active.contains(name) => {
            Some(format!("frozen names '{name}', which it does not run"))
        }
        Freezing::LEAST_SLICED..=0.9 => None,
        _ => Some(format!("frozen: {share} for '{name}' is not between 4% and 90%")),
    })
}

fn io_priority(arm: &Arm) -> Option<String> {
    let stranger = arm.io_priority.keys().find(|name| !arm.active.contains(name))?;
    Some(format!("io_priority names '{stranger}', which it does not run"))
}

// The largest block of a built-in writer, 16 MiB, takes a minute then; a pause waits that long for
// it.
const LEAST: Rate = Rate(Bytes::kib(256));

fn disk_write(arm: &Arm) -> Option<String> {
    arm.disk_write.iter().find_map(|(name, rate)| match rate {
        _ if !arm.active.contains(name) => {
            Some(format!("disk_write names '{name}', which it does not run"))
        }
        rate if *rate < LEAST => Some(format!(
            "disk_write: {rate} for '{name}' is too little to measure: give at least {LEAST}"
        )),
        _ => None,
    })
}

fn cpu_weight(arm: &Arm) -> Option<String> {
    arm.cpu_weight.iter().find_map(|(name, weight)| match weight {
        _ if !arm.active.contains(name) => {
            Some(format!("cpu_weight names '{name}', which it does not run"))
        }
        1..=10_000 => None,
        _ => Some(format!("cpu_weight: {weight} for '{name}' is not between 1 and 10000")),
    })
}

fn resctrl(arm: &Arm) -> Option<String> {
    arm.resctrl.iter().find_map(|(name, schemata)| {
        if schemata.settings().next().is_none() {
            return Some(format!(
                "resctrl sets nothing for '{name}': write it as \"L3:0=f\" or \
                                 \"MB:0=50\""
            ));
        }
        match name.strip_prefix('/') {
            Some(group) => match group.parse::<GroupId>() {
                Ok(id) if id.is_monitor() => {
                    Some(format!("resctrl: '{name}' is a monitor group, which allocates nothing"))
                }
                Ok(_) => None,
                Err(error) => Some(format!("resctrl: {error}")),
            },
            None if !arm.active.contains(name) => Some(format!(
                "resctrl names '{name}', which it does not run: name a role that it runs, or a \
                 group with a '/' in \
                 front ('/' is the default group)"
            )),
            None => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Share;

    #[test]
    fn weights_are_of_roles_that_run() {
        let with = |name: &str, weight: u32| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.cpu_weight.insert(name.into(), weight);
            problem(&arm)
        };
        assert_eq!((with("victim", 1), with("victim", 10_000)), (None, None));
        assert!(with("aggressor", 10).unwrap().contains("does not run"));
        assert!(with("victim", 0).unwrap().contains("between 1 and 10000"));
        assert!(with("victim", 10_001).unwrap().contains("between 1 and 10000"));
    }

    #[test]
    fn rates_of_writing_are_of_roles_that_run_and_can_be_measured() {
        let with = |name: &str, rate: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.disk_write.insert(name.into(), rate.parse().unwrap());
            problem(&arm)
        };
        assert_eq!((with("victim", "256KiB/s"), with("victim", "5GiB/s")), (None, None));
        assert!(with("aggressor", "5MiB/s").unwrap().contains("does not run"));
        assert!(with("victim", "255KiB/s").unwrap().contains("give at least 256KiB/s"));
    }

    #[test]
    fn weights_of_disks_and_memory_are_of_roles_that_run() {
        let with = |name: &str, weight: u32, memory: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.disk_weight.insert(name.into(), weight);
            arm.memory_high.insert("victim".into(), memory.parse().unwrap());
            problem(&arm)
        };
        assert_eq!((with("victim", 1, "1MiB"), with("victim", 1000, "1GiB")), (None, None));
        assert!(with("aggressor", 10, "1MiB").unwrap().contains("does not run"));
        assert!(with("victim", 0, "1MiB").unwrap().contains("between 1 and 1000"));
        assert!(with("victim", 1001, "1MiB").unwrap().contains("between 1 and 1000"));
        assert!(with("victim", 10, "1000KiB").unwrap().contains("give at least 1MiB"));
        let mut stranger = Arm::new("a", &["victim"], None);
        stranger.memory_high.insert("aggressor".into(), Bytes::mib(8));
        assert!(problem(&stranger).unwrap().contains("memory_high names 'aggressor'"));
    }

    #[test]
    fn cpusets_are_of_roles_that_run_and_not_empty() {
        let with = |name: &str, cpus: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.cpuset.insert(name.into(), cpus.parse().unwrap());
            problem(&arm)
        };
        assert_eq!(with("victim", "0-3"), None);
        assert!(
            with("aggressor", "0")
                .unwrap()
                .contains("cpuset names 'aggressor', which it does not run")
        );
        assert!(with("victim", "").unwrap().contains("gives 'victim' no CPU"));
    }

    #[test]
    fn shares_of_time_are_of_roles_that_run_and_make_slices() {
        let with = |name: &str, share: f64| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.frozen.insert(name.into(), Share(share));
            problem(&arm)
        };
        assert_eq!((with("victim", 0.04), with("victim", 0.9)), (None, None));
        assert!(
            with("aggressor", 0.1)
                .unwrap()
                .contains("frozen names 'aggressor', which it does not run")
        );
        for share in [0.0, 0.03, 0.91] {
            assert!(
                with("victim", share).unwrap().contains("is not between 4% and 90%"),
                "{share}"
            );
        }
    }

    #[test]
    fn io_priorities_are_of_roles_that_run() {
        let with = |name: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.io_priority.insert(name.into(), "idle".parse().unwrap());
            problem(&arm)
        };
        assert_eq!(with("victim"), None);
        assert!(with("aggressor").unwrap().contains("does not run"));
    }

    #[test]
    fn only_what_runs_and_groups_can_be_isolated() {
        let with = |name: &str, schemata: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.resctrl.insert(name.into(), schemata.parse().unwrap());
            problem(&arm)
        };
        assert_eq!(with("victim", "L3:0=f"), None);
        assert_eq!(with("/", "L3:0=f\nMB:0=50"), None);
        assert_eq!(with("/web", "L2:1=3"), None);
        assert!(with("aggressor", "L3:0=f").unwrap().contains("does not run"));
        assert!(with("/a/mon_groups/b", "L3:0=f").unwrap().contains("monitor group"));
        assert!(with("/info", "L3:0=f").unwrap().contains("cannot be the name"));
        assert!(with("victim", "L3:uninitialized").unwrap().contains("sets nothing"));
    }
}
