//! The `resctrl` table of an arm: what it may name.

use ringfence_resctrl::GroupId;

use super::Arm;

/// What is wrong with an arm's table, if anything.
pub fn problem(arm: &Arm) -> Option<String> {
    arm.resctrl.iter().find_map(|(name, schemata)| {
        if schemata.settings().next().is_none() {
            return Some(format!("resctrl sets nothing for '{name}': write it as \"L3:0=f\" or \"MB:0=50\""));
        }
        match name.strip_prefix('/') {
            Some(group) => match group.parse::<GroupId>() {
                Ok(id) if id.is_monitor() => {
                    Some(format!("resctrl: '{name}' is a monitor group, which shares out nothing"))
                }
                Ok(_) => None,
                Err(error) => Some(format!("resctrl: {error}")),
            },
            None if !arm.active.contains(name) => Some(format!(
                "resctrl names '{name}', which it does not run: name a role that it runs, or a group with a '/' in \
                 front ('/' is the default group)"
            )),
            None => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_and_groups_can_be_fenced() {
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
