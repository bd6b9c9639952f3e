//! Other CPUs for running processes, by their own control group's `cpuset.cpus`.

use ringfence_experiment::task::{Attached, Task};
use ringfence_experiment::{Limit, Reason};
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::topology::Topology;

use super::settings;
use crate::lever::{Candidate, Lever, LeverContext};
use crate::setting::Version;
use crate::{attachment, own_group};

/// The lever `cpuset`.
pub struct Cpuset;

impl Lever for Cpuset {
    fn name(&self) -> &'static str {
        "cpuset"
    }

    fn about(&self) -> &'static str {
        "other CPUs (running processes)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let Task::Attached(aggressor) = context.aggressor else {
            return Err("Ringfence itself starts the aggressor: see the lever placement".into());
        };
        let has = attachment::found(aggressor)?.cpus;
        let victims = cpus_of_victim(context)?;
        let narrowed = narrowed(context.topology, &has, &victims)?;
        narrowed.into_iter().map(|(cpus, caveat)| candidate(aggressor, &cpus, caveat)).collect()
    }
}

fn cpus_of_victim(context: &LeverContext) -> Result<CpuSet, Reason> {
    let metric = context.baseline.metric;
    match context.baseline.variants[metric].first().map(|variant| &variant.task) {
        Some(Task::Probe(probe)) => {
            let service = probe.service().ok_or(
                "the CPUs of the service are unknown: name it in the probe, with of=pid:N, \
                 of=cgroup:PATH, of=unit:NAME or of=container:ID",
            )?;
            Ok(attachment::found(&service)?.cpus)
        }
        _ => Ok(context.baseline.placed.cpus[metric].iter().copied().collect()),
    }
}

// What is left of an aggressor's CPUs without the victim's, then without their SMT siblings, then
// without those below the victim's last-level caches, each once; and half of them where the victim
// may run on all.
fn narrowed(
    topology: &Topology,
    has: &CpuSet,
    victims: &CpuSet,
) -> Result<Vec<(CpuSet, Option<String>)>, Reason> {
    if has.is_disjoint(victims) {
        return Err(format!(
            "the aggressor runs on the CPUs {has} and the victim on {victims}: they share none"
        )
        .into());
    }
    let siblings = victims.iter().map(|cpu| topology.smt_siblings(cpu));
    let cores = siblings.fold(victims.clone(), |all, some| all.union(&some));
    let groups = topology.llc_groups().into_iter().filter(|group| !group.is_disjoint(victims));
    let caches = groups.fold(cores.clone(), |all, some| all.union(&some));
    let mut left: Vec<CpuSet> = Vec::new();
    for cpus in [victims, &cores, &caches].map(|taken| has.difference(taken)) {
        if !cpus.is_empty() && !left.contains(&cpus) {
            left.push(cpus);
        }
    }
    if !left.is_empty() {
        return Ok(left.into_iter().map(|cpus| (cpus, None)).collect());
    }
    let half: CpuSet = has.iter().rev().take(has.len() / 2).collect();
    if half.is_empty() {
        return Err(format!(
            "no CPU remains for it: it may only run on {has}, which the victim uses too"
        )
        .into());
    }
    let free = has.difference(&half);
    let caveat = format!(
        "the victim may run on all of the aggressor's CPUs, so they still share some; only {free} \
         are free of the aggressor"
    );
    Ok(vec![(half, Some(caveat))])
}

fn candidate(
    aggressor: &Attached,
    cpus: &CpuSet,
    caveat: Option<String>,
) -> Result<Candidate, Reason> {
    // systemd sets those of version 2 alone (systemd.resource-control(5)).
    let (settings, version) = settings(aggressor, cpus)?;
    let properties = match version {
        Version::Two => vec![format!("AllowedCPUs={cpus}")],
        Version::One => Vec::new(),
    };
    let (keep, commands) = own_group::kept(aggressor, &settings, &properties)?;
    let shared = "what is shared between CPUs stays shared: caches, memory, disks";
    let caveat = caveat.map_or(shared.into(), |caveat| format!("{caveat}; {shared}"));
    let limit = Limit::Cpuset(cpus.clone());
    Ok(Candidate::limit(&Cpuset, &format!("cpuset {cpus}"), limit, keep)
        .by(commands)
        .caveat(caveat))
}

#[cfg(test)]
mod tests {
    use ringfence_machine::fixtures;

    use super::*;

    fn of(has: &str, victims: &str) -> Result<Vec<(String, bool)>, Reason> {
        // Two sockets of 16 cores, whose CPUs 32 to 63 are the siblings of 0 to 31.
        let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
        let cpus = |text: &str| text.parse::<CpuSet>().unwrap();
        let narrowed = narrowed(&topology, &cpus(has), &cpus(victims))?;
        Ok(narrowed
            .into_iter()
            .map(|(cpus, caveat)| (cpus.to_string(), caveat.is_some()))
            .collect())
    }

    #[test]
    fn an_aggressor_goes_to_cpus_that_share_ever_less_with_the_victim() {
        let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
        let sibling = topology.smt_siblings(0).iter().find(|cpu| *cpu != 0).unwrap();
        let all = of("0-63", "0").unwrap();
        assert_eq!(all.len(), 3, "{all:?}");
        let sets: Vec<CpuSet> = all.iter().map(|(cpus, _)| cpus.parse().unwrap()).collect();
        assert_eq!([sets[0].len(), sets[1].len()], [63, 62]);
        assert!(sets[0].contains(sibling) && !sets[1].contains(sibling));
        assert!(sets[2].iter().all(|cpu| topology.shares_llc(cpu, 0) == Some(false)), "{all:?}");
        assert!(all.iter().all(|(_, caveat)| !caveat));
    }

    #[test]
    fn where_nothing_is_away_from_the_victim_it_is_said() {
        assert_eq!(of("0-3", "0-63").unwrap(), [("2-3".into(), true)]);
        assert!(of("5", "0-63").unwrap_err().contains("no CPU remains for it"));
        assert!(of("4-7", "0-3").unwrap_err().contains("they share none"));
    }
}
