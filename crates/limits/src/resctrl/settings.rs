//! What each arm sets in resctrl, from its table and what was there before: pure functions of
//! values.

use std::collections::BTreeMap;

use ringfence_experiment::{Arm, Experiment};
use ringfence_resctrl::{GroupId, Schemata, State};

/// What every group that any arm touches is set to, arm by arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The groups of roles, by the role's index.
    pub roles: BTreeMap<usize, GroupId>,
    /// In the order of the experiment's arms.
    pub arms: Vec<BTreeMap<GroupId, Schemata>>,
    /// What the groups of roles are set to at first: what the default group has.
    pub first: Schemata,
}

impl Settings {
    /// `None` where no arm sets anything.
    ///
    /// # Errors
    /// One sentence for a group, a resource or a cache that is not there.
    pub fn of(experiment: &Experiment, before: &State) -> Result<Option<Self>, String> {
        if experiment.arms.iter().all(|arm| arm.resctrl().next().is_none()) {
            return Ok(None);
        }
        let default = before.groups.get(&GroupId::default()).map(|group| group.schemata.clone());
        let default = default.unwrap_or_default();
        let mut roles = BTreeMap::new();
        for (index, role) in experiment.roles.iter().enumerate() {
            let sets = |arm: &Arm| arm.resctrl().any(|(name, _)| name == role.name);
            if experiment.arms.iter().any(sets) {
                roles.insert(index, free_name(&role.name, before));
            }
        }
        // What a group has where no arm says otherwise.
        let had = |id: &GroupId| match before.groups.get(id) {
            Some(group) => Ok(&group.schemata),
            None if roles.values().any(|own| own == id) => Ok(&default),
            None => Err(format!(
                "there is no group '{id}' in resctrl; 'ringfence resctrl' lists the groups"
            )),
        };
        let mut base: BTreeMap<GroupId, Schemata> = BTreeMap::new();
        let mut wanted = Vec::new();
        for arm in &experiment.arms {
            let mut of_arm: BTreeMap<GroupId, Schemata> = BTreeMap::new();
            for (name, schemata) in arm.resctrl() {
                let id = group_of(name, experiment, &roles)?;
                for (resource, domain, _) in schemata.settings() {
                    let Some(old) = had(&id)?.get(resource, domain) else {
                        let there = had(&id)?.to_string().trim_end().replace('\n', ", ");
                        return Err(format!(
                            "arm '{}': this machine cannot allocate {resource}:{domain}, only \
                             {there}",
                            arm.name
                        ));
                    };
                    base.entry(id.clone()).or_default().set(resource.clone(), domain, old.clone());
                }
                of_arm.insert(id, schemata.clone());
            }
            wanted.push(of_arm);
        }
        // A role that has a group only for the sake of another arm gets the default group's
        // settings in an arm that does not name it.
        if let Some(of_all) = base.get(&GroupId::default()).cloned() {
            for own in roles.values() {
                let old = base.entry(own.clone()).or_default();
                *old = of_all.overlaid(old);
            }
        }
        let arms = wanted.iter().map(|of_arm| every_group(of_arm, &base, &roles)).collect();
        Ok(Some(Self { roles, arms, first: default }))
    }
}

// The group that an arm's table names: a role's own, or with '/' before it one that is there.
fn group_of(
    name: &str,
    experiment: &Experiment,
    roles: &BTreeMap<usize, GroupId>,
) -> Result<GroupId, String> {
    match name.strip_prefix('/') {
        Some(group) => group.parse().map_err(|error: ringfence_resctrl::Error| error.to_string()),
        None => {
            let index = experiment.roles.iter().position(|role| role.name == name);
            Ok(roles[&index.expect("checked: arms name roles that they run")].clone())
        }
    }
}

// What every group is set to in an arm that wants this of some of them.
fn every_group(
    of_arm: &BTreeMap<GroupId, Schemata>,
    base: &BTreeMap<GroupId, Schemata>,
    roles: &BTreeMap<usize, GroupId>,
) -> BTreeMap<GroupId, Schemata> {
    let with = |(id, old): (&GroupId, &Schemata)| {
        let of_all =
            of_arm.get(&GroupId::default()).filter(|_| roles.values().any(|own| own == id));
        let set = of_arm.get(id).or(of_all).map_or_else(|| old.clone(), |new| old.overlaid(new));
        (id.clone(), set)
    };
    base.iter().map(with).collect()
}

// A name that no group has: `ringfence-victim`, or with a number behind.
fn free_name(role: &str, before: &State) -> GroupId {
    let plain: String =
        role.chars().take(60).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let names = (1..).map(|number| match number {
        1 => format!("ringfence-{plain}"),
        number => format!("ringfence-{plain}-{number}"),
    });
    let mut ids = names.map(|name| GroupId::control(&name));
    ids.find(|id| !before.groups.contains_key(id)).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_resctrl::{GroupState, Mode};

    fn experiment(tables: &[&str]) -> Experiment {
        let mut text = "schema = 2\nname = 'x'\nmetric = 'victim'\n[[role]]\nname = 'victim'\n\
            task = { workload = 'alu' }\n[[role]]\nname = 'a b'\ntask = { workload = 'alu' }\n"
            .to_owned();
        for (number, table) in tables.iter().enumerate() {
            text += &format!(
                "[[arm]]\nname = '{number}'\nactive = ['victim', 'a b']\nresctrl = {{ {table} }}\n"
            );
        }
        Experiment::parse(&text).unwrap()
    }

    fn before(groups: &[(&str, &str)]) -> State {
        let group = |(name, schemata): &(&str, &str)| {
            let state = GroupState {
                mode: Some(Mode::Shareable),
                schemata: schemata.parse().unwrap(),
                cpus: Default::default(),
                threads: Vec::new(),
            };
            (name.parse().unwrap(), state)
        };
        State { groups: groups.iter().map(group).collect(), ..State::default() }
    }

    #[test]
    fn every_arm_says_what_every_touched_group_has() {
        let there =
            before(&[(".", "L3:0=fffff;1=fffff\nMB:0=100"), ("ringfence-victim", "L3:0=1")]);
        let asked = experiment(&["", "victim = 'L3:0=f', '/' = 'L3:0=ffff0'", "'a b' = 'MB:0=20'"]);
        let settings = Settings::of(&asked, &there).unwrap().unwrap();
        let names: Vec<String> = settings.roles.values().map(GroupId::to_string).collect();
        assert_eq!(names, ["ringfence-victim-2", "ringfence-a-b"]);
        let say = |arm: usize| {
            let of = |(id, schemata): (&GroupId, &Schemata)| {
                format!("{id} {}", schemata.to_string().trim())
            };
            settings.arms[arm].iter().map(of).collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(
            say(0),
            "default group L3:0=fffff | ringfence-a-b L3:0=fffff\nMB:0=100 | ringfence-victim-2 \
             L3:0=fffff"
        );
        // 'a b' has a group for the last arm's sake; here it is one of all others.
        assert_eq!(
            say(1),
            "default group L3:0=ffff0 | ringfence-a-b L3:0=ffff0\nMB:0=100 | ringfence-victim-2 \
             L3:0=f"
        );
        assert_eq!(
            say(2),
            "default group L3:0=fffff | ringfence-a-b L3:0=fffff\nMB:0=20 | ringfence-victim-2 \
             L3:0=fffff"
        );
        assert_eq!(Settings::of(&experiment(&["", ""]), &there).unwrap(), None);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let there = before(&[(".", "L3:0=fffff")]);
        for (table, part) in [
            ("victim = 'L3:1=f'", "cannot allocate L3:1, only L3:0=fffff"),
            ("victim = 'MB:0=50'", "cannot allocate MB:0"),
            ("'/web' = 'L3:0=f'", "no group 'web'"),
        ] {
            let error = Settings::of(&experiment(&[table]), &there).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
