//! A quota of CPU time.

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Settings, Task};
use ringfence_experiment::units::Share;

use super::settings;
use crate::lever::{Candidate, Lever, LeverContext, started};
use crate::own_group;

/// The lever `quota`.
pub struct Quota;

const SHARES: [f64; 3] = [0.5, 0.25, 0.1];

impl Lever for Quota {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn about(&self) -> &'static str {
        "less CPU time"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        if let Task::Idle(_) = context.aggressor {
            return Err("the aggressor does nothing".into());
        }
        let attached = match context.aggressor {
            Task::Attached(attached) => Some(attached),
            _ => None,
        };
        let candidate = |share: f64| {
            let quota = Share(share);
            let set = Settings::of_quota(quota);
            let keep = format!(
                "start the aggressor with that quota; without systemd, '{} 10000' in cpu.max of \
                 its cgroup is the same",
                (share * 10_000.0) as u64
            );
            let property = format!("CPUQuota={quota}");
            let systemd =
                ["systemd-run", "--scope", "-p", &property, "-p", "CPUQuotaPeriodSec=10ms"];
            let command = started(&systemd, context.aggressor);
            let (keep, commands) = match attached {
                Some(attached) => {
                    own_group::kept(attached, &settings(quota), std::slice::from_ref(&property))?
                }
                None => (keep, vec![command]),
            };
            let candidate = Candidate::set(self, format!("quota {quota}"), set, keep)
                .by(commands)
                .caveat("the victim is as slow as before while the aggressor runs");
            Ok(Candidate { price_in_cpu_time: true, ..candidate })
        };
        SHARES.into_iter().map(candidate).collect()
    }
}
