//! A weight against other programs that want the same CPUs.

use std::collections::BTreeMap;

use ringfence_experiment::task::Task;
use ringfence_experiment::{Arm, Reason};
use ringfence_limits::limit::Limit;

use super::own_group;
use crate::prove::lever::{Candidate, Lever, LeverContext, started};
use crate::prove::{AGGRESSOR, ALONE, VICTIM};

pub struct Weight;

const WEIGHTS: [u32; 2] = [10, 1];

impl Lever for Weight {
    fn name(&self) -> &'static str {
        "weight"
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
            let arm = Arm {
                cpu_weight: BTreeMap::from([(AGGRESSOR.into(), weight)]),
                ..Arm::new(&format!("cpu weight {weight}"), &[VICTIM, AGGRESSOR], Some(ALONE))
            };
            let (keep, commands) = match attached {
                Some(attached) => own_group::kept(
                    attached,
                    &Limit::Weight(weight),
                    std::slice::from_ref(&property),
                )?,
                None => (
                    format!(
                        "start the aggressor with that weight; without systemd, {weight} in \
                         cpu.weight of its cgroup is the \
                         same, or {} in cpu.shares of version 1",
                        (weight * 1024 / 100).max(2)
                    ),
                    vec![started(&["systemd-run", "--scope", "-p", &property], context.aggressor)],
                ),
            };
            Ok(Candidate {
                lever: self.name().into(),
                arm,
                role: None,
                keep,
                commands,
                caveat: Some(
                    "it takes effect while both need the same CPU; caches and memory are shared as \
                     before"
                        .into(),
                ),
                price_in_cpu_time: true,
            })
        };
        WEIGHTS.into_iter().map(candidate).collect()
    }
}
