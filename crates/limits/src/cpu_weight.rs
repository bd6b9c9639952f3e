//! The CPU's time, shared out by weight among tasks that want the same CPU at once: `cpu.weight` of
//! version 2 of control groups, `cpu.shares` of version 1 (kernel documentation,
//! admin-guide/cgroup-v2 and scheduler/sched-design-CFS).

use ringfence_experiment::task::{Attached, Task};
use ringfence_experiment::{Limit, Reason};

use crate::groups::GroupKind;
use crate::lever::{Candidate, Lever, LeverContext, started};
use crate::own_group;
use crate::setting::{CPU, GroupSettings, Version};

/// Isolation by weight.
pub const KIND: GroupKind = GroupKind {
    is: |limit| matches!(limit, Limit::CpuWeight(_)),
    word: "weight",
    what: "a cpu.weight",
    settings: |_, _, limit| {
        Ok(settings(match limit {
            Some(Limit::CpuWeight(weight)) => *weight,
            // What a group has that was given none.
            _ => 100,
        }))
    },
};

/// The same for running processes.
pub fn in_place(_: &Attached, limit: &Limit) -> Option<Result<GroupSettings, Reason>> {
    match limit {
        Limit::CpuWeight(weight) => Some(Ok(settings(*weight))),
        _ => None,
    }
}

fn settings(weight: u32) -> GroupSettings {
    GroupSettings::of(&CPU).with(Version::Two, "cpu.weight", weight).with(
        Version::One,
        "cpu.shares",
        shares(weight),
    )
}

// 1024 is the default there.
fn shares(weight: u32) -> u64 {
    (u64::from(weight) * 1024 / 100).max(2)
}

/// The lever `weight`.
pub struct Weight;

const WEIGHTS: [u32; 2] = [10, 1];

impl Lever for Weight {
    fn name(&self) -> &'static str {
        "weight"
    }

    fn about(&self) -> &'static str {
        "a smaller share of a CPU that both use"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        if let Task::Idle(_) = context.aggressor {
            return Err("the aggressor does nothing".into());
        }
        let metric = context.baseline.metric;
        let instances = |role: usize| 0..context.baseline.placed.cpus[role].len() as u32;
        let of_role = |role: usize| {
            instances(role)
                .flat_map(move |one| context.baseline.home(role, one).iter().collect::<Vec<_>>())
        };
        let victims: Vec<_> = of_role(metric).collect();
        let attached = match context.aggressor {
            Task::Attached(attached) => Some(attached),
            _ => None,
        };
        // A running process may run wherever the service does.
        if attached.is_none() && !of_role(1 - metric).any(|cpu| victims.contains(&cpu)) {
            return Err(
                "victim and aggressor share no CPU, and a weight divides a CPU's time".into()
            );
        }
        let candidate = |weight: u32| {
            let property = format!("CPUWeight={weight}");
            let (keep, commands) = match attached {
                Some(attached) => {
                    own_group::kept(attached, &settings(weight), std::slice::from_ref(&property))?
                }
                None => (
                    format!(
                        "start the aggressor with that weight; without systemd, {weight} in \
                         cpu.weight of its cgroup is the same, or {} in cpu.shares of version 1",
                        shares(weight)
                    ),
                    vec![started(&["systemd-run", "--scope", "-p", &property], context.aggressor)],
                ),
            };
            let words = format!("cpu weight {weight}");
            Ok(Candidate::limit(self, &words, Limit::CpuWeight(weight), keep).by(commands).caveat(
                "it takes effect while both need the same CPU; caches and memory are shared as \
                     before",
            ))
        };
        WEIGHTS.into_iter().map(candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_written_as_each_version_wants_them() {
        let written =
            |version| [1, 10, 100, 10_000].map(|weight| settings(weight).written(version));
        let files =
            |file: &str, values: [&str; 4]| values.map(|value| vec![format!("{file} = {value}")]);
        assert_eq!(written(Version::Two), files("cpu.weight", ["1", "10", "100", "10000"]));
        assert_eq!(written(Version::One), files("cpu.shares", ["10", "102", "1024", "102400"]));
    }
}
