//! Less memory bandwidth for the aggressor (Memory Bandwidth Allocation, MBA).

use ringfence_experiment::task::Task;
use ringfence_experiment::{Arm, Limit, PlacementKind, Reason};
use ringfence_resctrl::info::{BandwidthInfo, ThrottleMode, Unit};
use ringfence_resctrl::{GroupId, Resource, Schemata};

use super::ways;
use crate::lever::{AGGRESSOR, ALONE, Candidate, Lever, LeverContext, Shared, VICTIM};

/// The lever `mba`.
pub struct Bandwidth;

const SHARES: [f64; 3] = [0.5, 0.2, 0.1];

impl Lever for Bandwidth {
    fn name(&self) -> &'static str {
        "mba"
    }

    fn about(&self) -> &'static str {
        "less memory bandwidth"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let shared = context.resctrl.as_ref().map_err(Clone::clone)?;
        let candidates = limits(context, shared)?.into_iter().map(|limit| {
            let mut arm =
                Arm::new(&format!("mba {}", limit.words), &[VICTIM, AGGRESSOR], Some(ALONE));
            arm.limit(AGGRESSOR, Limit::Resctrl(limit.schemata.clone()));
            let commands =
                ways::keep(context, shared, &[(AGGRESSOR, &limit.schemata)], &Default::default());
            ways::candidate(self, arm, commands, Some(limit.caveat))
        });
        Ok(candidates.collect())
    }
}

/// An amount of bandwidth for the aggressor.
pub struct Amount {
    /// In words.
    pub words: String,
    /// As schemata.
    pub schemata: Schemata,
    /// What it cannot do.
    pub caveat: String,
}

/// The limits to try, the gentlest first.
///
/// # Errors
/// Why there are none.
pub fn limits(context: &LeverContext, shared: &Shared) -> Result<Vec<Amount>, Reason> {
    if let Task::Idle(_) = context.aggressor {
        return Err("the aggressor does nothing".into());
    }
    let Some(info) = shared.info.bandwidth() else {
        return Err("this machine cannot allocate memory bandwidth".into());
    };
    if shared.free_groups() == 0 {
        return Err("all of resctrl's groups are in use; 'ringfence resctrl' lists them".into());
    }
    let smt = context.placement == PlacementKind::Smt;
    if smt && info.throttle == ThrottleMode::Max {
        return Err(
            "this processor throttles both SMT siblings of a core, the victim with the aggressor"
                .into(),
        );
    }
    let caveat = match (smt, info.throttle) {
        (true, ThrottleMode::Unknown) => {
            "the kernel does not report whether the victim on the same core is throttled too; the \
             limit applies to traffic between L2 and L3"
        }
        _ => "the limit applies to all traffic between L2 and L3, not only to memory traffic",
    };
    let default = shared.state.groups.get(&GroupId::default());
    let domains = default.map(|group| group.schemata.domains(&Resource::Mb)).unwrap_or_default();
    let limits = amounts(info, context.bytes_per_s)?.into_iter().map(|amount| {
        let mut schemata = Schemata::new();
        for domain in &domains {
            schemata.set_amount(Resource::Mb, *domain, amount);
        }
        Amount { words: info.unit.say(amount), schemata, caveat: caveat.into() }
    });
    Ok(limits.collect())
}

// In percent of what there is; in other units, of what the aggressor moves by itself.
fn amounts(info: &BandwidthInfo, bytes_per_s: Option<f64>) -> Result<Vec<u64>, Reason> {
    // What is asked for is what takes effect.
    let round = |amount: f64| info.round_up(amount.round() as u64);
    let full = match (info.unit, bytes_per_s) {
        (Unit::Percent, _) => 100.0,
        (Unit::MegabytesPerSecond, Some(rate)) => rate / f64::from(1 << 20),
        (Unit::EighthsOfGigabyte, Some(rate)) => rate * 8.0 / f64::from(1 << 30),
        (_, None) => {
            return Err(
                "bandwidth is allocated in bytes per second here, and the aggressor's is unknown"
                    .into(),
            );
        }
    };
    let mut amounts: Vec<u64> = SHARES.iter().map(|share| round(full * share)).collect();
    amounts.dedup();
    amounts.retain(|amount| (*amount as f64) < full);
    if amounts.is_empty() {
        Err("the smallest bandwidth that can be set is more than the aggressor uses".into())
    } else {
        Ok(amounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(min: u64, step: u64, unit: Unit) -> BandwidthInfo {
        BandwidthInfo {
            num_closids: 8,
            min_bandwidth: min,
            bandwidth_gran: step,
            delay_linear: true,
            throttle: ThrottleMode::Unknown,
            unit,
        }
    }

    #[test]
    fn amounts_are_steps_of_the_hardware() {
        assert_eq!(amounts(&info(10, 10, Unit::Percent), None).unwrap(), [50, 20, 10]);
        assert_eq!(amounts(&info(10, 30, Unit::Percent), None).unwrap(), [70, 40, 10]);
        assert_eq!(amounts(&info(20, 20, Unit::Percent), None).unwrap(), [60, 20]);
        let gib = f64::from(1 << 30);
        assert_eq!(
            amounts(&info(1, 1, Unit::EighthsOfGigabyte), Some(4.0 * gib)).unwrap(),
            [16, 6, 3]
        );
        assert_eq!(
            amounts(&info(1, 1, Unit::MegabytesPerSecond), Some(gib)).unwrap(),
            [512, 205, 102]
        );
        // The files of info/ go on about percentages where amounts are MB/s.
        assert_eq!(
            amounts(&info(10, 10, Unit::MegabytesPerSecond), Some(gib)).unwrap(),
            [512, 205, 102]
        );
        assert!(
            amounts(&info(1, 1, Unit::EighthsOfGigabyte), None).unwrap_err().contains("is unknown")
        );
        assert!(
            amounts(&info(1, 1, Unit::EighthsOfGigabyte), Some(1.0))
                .unwrap_err()
                .contains("smallest bandwidth")
        );
    }
}
