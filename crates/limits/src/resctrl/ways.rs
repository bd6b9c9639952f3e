//! Ways of the cache for the victim alone (Cache Allocation Technology, CAT).

use std::collections::BTreeMap;
use std::path::Path;

use ringfence_experiment::plan::Plan;
use ringfence_experiment::shell;
use ringfence_experiment::task::Task;
use ringfence_experiment::{Arm, Limit, PlacementKind, Reason};
use ringfence_machine::cpulist::CpuId;
use ringfence_resctrl::plan::{self, Isolation};
use ringfence_resctrl::{Domain, GroupId, Schemata};

use crate::attachment;
use crate::lever::{
    AGGRESSOR, ALONE, Candidate, Lever, LeverContext, Shared, VICTIM, started_in_group,
};

/// The lever `cat`.
pub struct Ways;

// The victim's part of the ways that are free, in quarters.
const QUARTERS: [u32; 3] = [1, 2, 3];

impl Lever for Ways {
    fn name(&self) -> &'static str {
        "cat"
    }

    fn about(&self) -> &'static str {
        "cache ways for the victim alone"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let shared = context.resctrl.as_ref().map_err(Clone::clone)?;
        let partitions = partitions(context, shared)?;
        let candidates = partitions.into_iter().map(|partition| {
            let mut arm = Arm::new(&partition.words, &[VICTIM, AGGRESSOR], Some(ALONE));
            partition.limit(&mut arm);
            let commands = keep(
                context,
                shared,
                &[(VICTIM, &partition.isolation.alone)],
                &partition.isolation.shrunk,
            );
            candidate(self, arm, commands, partition.caveat(context))
        });
        Ok(candidates.collect())
    }
}

/// A setting of resctrl that can be kept in place.
pub fn candidate(
    lever: &dyn Lever,
    arm: Arm,
    commands: Vec<String>,
    caveat: Option<String>,
) -> Candidate {
    Candidate { caveat, ..Candidate::of(lever, arm, KEEP.into()).by(commands) }
}

/// A cache split between the victim and everything else.
pub struct Partition {
    /// Which level.
    pub level: u32,
    /// In words.
    pub words: String,
    /// Which role gets which ways.
    pub isolation: Isolation,
}

impl Partition {
    /// Gives the victim its ways, and every group that exists what it keeps.
    pub fn limit(&self, arm: &mut Arm) {
        for (id, schemata) in &self.isolation.shrunk {
            let group = format!("/{}", id.path().display());
            arm.limit(&group, Limit::Resctrl(schemata.clone()));
        }
        arm.limit(VICTIM, Limit::Resctrl(self.isolation.alone.clone()));
    }

    /// What it cannot do.
    pub fn caveat(&self, context: &LeverContext) -> Option<String> {
        let mut all = Vec::new();
        if context.placement == PlacementKind::Smt && self.level == 3 {
            all.push("it divides only the L3: SMT siblings still share L1, L2 and the core");
        }
        if self.isolation.splits.values().any(|split| split.with_io) {
            all.push("I/O may use some of the victim's ways");
        }
        all.push("all other tasks that use this cache are excluded from the victim's ways too");
        Some(all.join("; "))
    }
}

/// The partitions to try, the victim's smallest part first.
///
/// # Errors
/// Why there are none.
pub fn partitions(context: &LeverContext, shared: &Shared) -> Result<Vec<Partition>, Reason> {
    if let Task::Idle(_) = context.aggressor {
        return Err("the aggressor does nothing".into());
    }
    if shared.free_groups() == 0 {
        return Err("all of resctrl's groups are in use; 'ringfence resctrl' lists them".into());
    }
    let mut found = Vec::new();
    let mut refused = None;
    for level in [3, 2] {
        match at_level(context, shared, level) {
            Ok(partitions) => found.extend(partitions),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    match refused {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok(found),
    }
}

fn at_level(context: &LeverContext, shared: &Shared, level: u32) -> Result<Vec<Partition>, Reason> {
    let resources = shared.info.of_level(level);
    let Some(cache) = resources.first().and_then(|resource| shared.info.cache(resource)) else {
        return Err(format!(
            "resctrl cannot allocate ways of an L{level} here ('ringfence doctor' may explain why)"
        )
        .into());
    };
    let victims = cpus(context.baseline, context.baseline.metric)?;
    let aggressors = cpus(context.baseline, 1 - context.baseline.metric)?;
    let domains = domains(context, level, &victims)?;
    let theirs = self::domains(context, level, &aggressors)?;
    if domains.iter().all(|domain| !theirs.contains(domain)) {
        return Err(format!("victim and aggressor share no L{level}").into());
    }
    let taken =
        domains.iter().map(|domain| plan::taken(&shared.info, &shared.state, &resources, *domain));
    let free = taken.map(|taken| cache.cbm_mask.without(taken).count()).min().unwrap_or(0);
    let mut sizes: Vec<u32> = QUARTERS.iter().map(|part| (free * part + 2) / 4).collect();
    let least = cache.min_cbm_bits.max(1);
    sizes.retain(|ways| *ways >= least && *ways + least <= free);
    sizes.dedup();
    if sizes.is_empty() {
        return Err(format!("{free} free ways of the L{level} are too few to split").into());
    }
    let partition = |ways: u32| -> Result<Partition, Reason> {
        let isolation = plan::isolate(&shared.info, &shared.state, level, &domains, ways)?;
        Ok(Partition { level, words: format!("cat L{level} {ways} of {free} ways"), isolation })
    };
    let mut why = None;
    let mut fit = Vec::new();
    for ways in sizes {
        match partition(ways) {
            Ok(partition) => fit.push(partition),
            Err(refused) => why = Some(refused),
        }
    }
    match why.filter(|_| fit.is_empty()) {
        Some(why) => Err(why),
        None => Ok(fit),
    }
}

// The CPUs of a role: where it was placed, or where the running process may run.
fn cpus(plan: &Plan, role: usize) -> Result<Vec<CpuId>, Reason> {
    let service = match plan.variants[role].first().map(|variant| &variant.task) {
        Some(Task::Attached(attached)) => attached.clone(),
        Some(Task::Probe(probe)) => probe.service().ok_or(
            "the process that answers is unknown: name the service with of=pid:N, \
             of=cgroup:PATH or of=unit:NAME in the probe",
        )?,
        _ => return Ok(plan.placed.cpus[role].clone()),
    };
    Ok(attachment::found(&service)?.cpus.iter().collect())
}

/// The numbers of the caches that these CPUs use.
pub fn domains(context: &LeverContext, level: u32, cpus: &[CpuId]) -> Result<Vec<Domain>, Reason> {
    let mut domains = Vec::new();
    for &cpu in cpus {
        let cache = context.topology.data_caches(cpu).find(|cache| u32::from(cache.level) == level);
        let Some(id) = cache.and_then(|cache| cache.id) else {
            return Err(format!("the kernel does not report which L{level} CPU {cpu} uses").into());
        };
        domains.push(id);
    }
    domains.sort_unstable();
    domains.dedup();
    Ok(domains)
}

// What keeps a setting of resctrl, in words.
const KEEP: &str = "run 'ringfence prove' with --keep, or set it by hand as root";

/// How a setting is kept by hand: the groups' settings, and each role started in its own.
pub fn keep(
    context: &LeverContext,
    shared: &Shared,
    roles: &[(&str, &Schemata)],
    groups: &BTreeMap<GroupId, Schemata>,
) -> Vec<String> {
    let place = &shared.place;
    let set = |schemata: &Schemata, group: &Path| {
        let text = schemata.to_string().trim_end().replace('\n', "\\n") + "\\n";
        let file = Path::new(place).join(group).join("schemata");
        format!("printf {} > {}", shell::quote(&text), shell::quote(&file.to_string_lossy()))
    };
    let mut commands: Vec<String> =
        groups.iter().map(|(id, schemata)| set(schemata, &id.path())).collect();
    for (role, schemata) in roles {
        let group = Path::new(place).join(role);
        let number =
            if *role == VICTIM { context.baseline.metric } else { 1 - context.baseline.metric };
        let task = context.baseline.variants[number]
            .first()
            .map_or(context.aggressor, |variant| &variant.task);
        commands.push(shell::line(["mkdir", &group.to_string_lossy()]));
        commands.push(set(schemata, Path::new(role)));
        commands.push(started_in_group(&group.join("tasks").to_string_lossy(), task));
    }
    commands
}

#[cfg(test)]
mod tests {
    use ringfence_machine::cpulist::CpuSet;
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;
    use ringfence_resctrl::info::CacheInfo;
    use ringfence_resctrl::{GroupState, Info, Mask, Mode, State};

    use super::*;
    use crate::resctrl::{Bandwidth, Both};
    use ringfence_experiment::plan::Plan;
    use ringfence_experiment::{Experiment, Role};

    fn cascade_lake(closids: u32) -> Shared {
        let mut info = Info::default();
        let l3 = CacheInfo {
            num_closids: closids,
            cbm_mask: Mask(0x7ff),
            min_cbm_bits: 1,
            shareable_bits: Mask(0x600),
            io_alloc: Default::default(),
            sparse_masks: false,
            bit_usage: Default::default(),
        };
        info.caches.insert("L3".into(), l3);
        let group = |schemata: &str| GroupState {
            mode: Some(Mode::Shareable),
            schemata: schemata.parse().unwrap(),
            cpus: CpuSet::new(),
            threads: Vec::new(),
        };
        let mut state = State::default();
        state.groups.insert(GroupId::default(), group("L3:0=7ff;1=7ff\nMB:0=100;1=100"));
        state.groups.insert(GroupId::control("web"), group("L3:0=7f;1=7ff\nMB:0=100;1=100"));
        Shared { place: "/sys/fs/resctrl".into(), info, state }
    }

    // What a lever offers for a victim and an aggressor on these CPUs of a machine with two
    // sockets.
    fn candidates(
        lever: &dyn Lever,
        shared: Result<Shared, Reason>,
        cpus: (u32, u32),
        placement: PlacementKind,
    ) -> Result<Vec<Candidate>, Reason> {
        let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n[[role]]\nname = 'victim'\ncpus = '{}'\n\
             task = {{ workload = 'chase' }}\n[[role]]\nname = 'aggressor'\ncpus = '{}'\n\
             task = {{ workload = 'stream' }}\n[[arm]]\nname = 'alone'\nactive = ['victim']\n\
             [[arm]]\nname = 'beside'\nactive = ['victim', 'aggressor']\nbaseline = 'alone'\n",
            cpus.0, cpus.1
        );
        let baseline = Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap();
        let aggressor = baseline.variants[1][0].task.clone();
        let role: Role = baseline.experiment.roles[1].clone();
        lever.candidates(&LeverContext {
            features: None,
            topology: &topology,
            baseline: &baseline,
            aggressor: &aggressor,
            tasks: &role.task.as_slice()[0],
            role: &role,
            placement,
            bytes_per_s: None,
            disk_bytes_per_s: None,
            try_env: &[],
            other_dir: None,
            system: false,
            resctrl: &shared,
        })
    }

    #[test]
    fn the_victim_gets_ways_that_nobody_else_has() {
        let candidates =
            candidates(&Ways, Ok(cascade_lake(16)), (1, 3), PlacementKind::Llc).unwrap();
        let names: Vec<&str> =
            candidates.iter().map(|candidate| candidate.arm.name.as_str()).collect();
        assert_eq!(names, ["cat L3 3 of 11 ways", "cat L3 6 of 11 ways", "cat L3 8 of 11 ways"]);
        let domain =
            Topology::read(&fixtures::xeon_2s64t().root()).unwrap().llc(1).unwrap().id.unwrap();
        let says = |arm: &Arm| {
            let line = |(name, schemata): (&str, &Schemata)| {
                format!("{name} {}", schemata.to_string().trim())
            };
            arm.resctrl().map(line).collect::<Vec<_>>().join(" | ")
        };
        // The two ways of I/O are the highest; the group `web` keeps what is left of its own.
        let expected = format!("/ L3:{domain}=7f8 | /web L3:{domain}=78 | victim L3:{domain}=7");
        let expected = if domain == 0 { expected } else { expected.replace("=78 ", "=7f8 ") };
        assert_eq!(says(&candidates[0].arm), expected);
        for candidate in &candidates {
            let mask = |name: &str| {
                let mut all = candidate.arm.resctrl();
                let (_, schemata) = all.find(|(known, _)| *known == name).unwrap();
                schemata.settings().next().unwrap().2.to_string()
            };
            let bits = |text: String| text.parse::<Mask>().unwrap();
            assert!(!bits(mask("victim")).overlaps(bits(mask("/"))));
            assert!(!bits(mask("victim")).overlaps(bits(mask("/web"))));
            let script = candidate.commands.join("\n");
            let checked =
                std::process::Command::new("sh").args(["-n", "-c", &script]).status().unwrap();
            assert!(checked.success(), "{script}");
            let last = candidate.commands.last().unwrap();
            assert_eq!(
                *last,
                "sh -c 'echo $$ > /sys/fs/resctrl/victim/tasks && exec \"$@\"' sh COMMAND"
            );
        }
    }

    #[test]
    fn what_it_cannot_do_is_said() {
        let why = |lever: &dyn Lever, shared, cpus, placement| {
            candidates(lever, shared, cpus, placement).unwrap_err()
        };
        assert_eq!(
            why(&Ways, Err("not mounted".into()), (1, 3), PlacementKind::Llc),
            "not mounted"
        );
        let apart = why(&Ways, Ok(cascade_lake(16)), (0, 1), PlacementKind::Remote);
        assert!(apart.contains("share no L3"), "{apart}");
        assert!(
            why(&Ways, Ok(cascade_lake(2)), (1, 3), PlacementKind::Llc)
                .contains("groups are in use")
        );
        assert!(
            why(&Bandwidth, Ok(cascade_lake(16)), (1, 3), PlacementKind::Llc)
                .contains("cannot allocate memory bandwidth")
        );
        assert!(
            why(&Both, Ok(cascade_lake(16)), (1, 3), PlacementKind::Llc)
                .contains("cannot allocate memory bandwidth")
        );
        let sibling = candidates(&Ways, Ok(cascade_lake(16)), (1, 33), PlacementKind::Smt).unwrap();
        assert!(sibling[0].caveat.as_ref().unwrap().contains("siblings still share L1, L2"));
        let wide = candidates(&Ways, Ok(cascade_lake(16)), (1, 3), PlacementKind::Llc).unwrap();
        assert!(!wide[0].caveat.as_ref().unwrap().contains("siblings"));
    }
}
