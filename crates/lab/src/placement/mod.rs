//! Which task runs on which CPU: a pure function of the topology.
//!
//! The metric's role is placed first, on a core whose siblings stay idle; co-runners follow, each on
//! a core of its own, as the kind of placement says. CPU 0's core is left to the kernel's own work
//! where there are cores enough. What does not fit is left out and said, never put elsewhere.

use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::topology::Topology;
use serde::{Deserialize, Serialize};

use crate::experiment::PlacementKind;

/// What a role asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The most instances that any case runs at once.
    pub count: u32,
    /// CPUs named in the file, taken in order.
    pub cpus: Option<CpuSet>,
}

/// Where everybody runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Per role, the CPUs of its instances; fewer than wanted where there is no room.
    pub cpus: Vec<Vec<CpuId>>,
    /// What was decided, in sentences.
    pub notes: Vec<String>,
    /// Why some instances have no CPU, if so.
    pub shortage: Option<String>,
}

/// Places roles; `metric` is the index of the role whose rate is the figure.
///
/// # Errors
/// One sentence where CPUs named in the file cannot be used.
pub fn place(
    topology: &Topology,
    kind: PlacementKind,
    wants: &[Want],
    metric: usize,
) -> Result<Placed, String> {
    let usable = topology.usable();
    let named = wants.iter().filter_map(|want| want.cpus.as_ref());
    let mut free = usable.clone();
    for cpus in named {
        if let Some(bad) = cpus.iter().find(|cpu| !usable.contains(*cpu)) {
            return Err(format!(
                "cpus = \"{cpus}\": CPU {bad} is not among the CPUs that are online and allowed ({usable}): choose from these"
            ));
        }
        if let Some(twice) = cpus.iter().find(|cpu| !free.contains(*cpu)) {
            return Err(format!("CPU {twice} is named for two roles: give each its own"));
        }
        free = free.difference(cpus);
    }
    let others: u32 =
        (0..wants.len()).filter(|i| *i != metric && wants[*i].cpus.is_none()).map(|i| wants[i].count).sum();
    let mut notes = Vec::new();

    let kinds: &[PlacementKind] = match kind {
        PlacementKind::Auto => {
            &[PlacementKind::Llc, PlacementKind::Node, PlacementKind::Remote, PlacementKind::Smt]
        }
        ref one => std::slice::from_ref(one),
    };
    // The first kind with room for all; without one, the kind with room for most.
    let mut best: Option<(PlacementKind, Vec<CpuId>, Vec<CpuId>)> = None;
    for candidate in kinds {
        let (victims, rest) = seats(topology, *candidate, &free, &wants[metric], others as usize);
        let better = best.as_ref().is_none_or(|(_, v, r)| (victims.len(), rest.len()) > (v.len(), r.len()));
        if better {
            best = Some((*candidate, victims, rest));
        }
    }
    let (used, victims, rest) = best.expect("there is at least one kind");
    if kind == PlacementKind::Auto && others > 0 && !rest.is_empty() {
        notes.push(format!("co-runners are {}", describe(used)));
    }

    let mut rest = rest.into_iter();
    let cpus: Vec<Vec<CpuId>> = wants
        .iter()
        .enumerate()
        .map(|(i, want)| match &want.cpus {
            Some(cpus) => cpus.iter().take(want.count as usize).collect(),
            None if i == metric => victims.clone(),
            None => rest.by_ref().take(want.count as usize).collect(),
        })
        .collect();
    let short = wants.iter().zip(&cpus).any(|(want, got)| got.len() < want.count as usize);
    let shortage = short.then(|| {
        let wanted: u32 = wants.iter().map(|want| want.count).sum();
        let got: usize = cpus.iter().map(Vec::len).sum();
        match (others, used) {
            (0, _) => format!("it needs {wanted} cores, this machine has {got} to use"),
            _ => format!("it needs {wanted} CPUs with co-runners {}, this machine has {got}", describe(used)),
        }
    });
    Ok(Placed { cpus, notes, shortage })
}

fn describe(kind: PlacementKind) -> &'static str {
    match kind {
        PlacementKind::Smt => "on the SMT siblings of the metric's cores",
        PlacementKind::Llc | PlacementKind::Auto => "on other cores under the same last-level cache",
        PlacementKind::Node => "on the same NUMA node under another last-level cache",
        PlacementKind::Remote => "on another NUMA node",
    }
}

// CPUs for the metric's role and for its co-runners, as many as there are.
fn seats(
    topology: &Topology,
    kind: PlacementKind,
    free: &CpuSet,
    metric: &Want,
    others: usize,
) -> (Vec<CpuId>, Vec<CpuId>) {
    let count = metric.count as usize;
    let cores = one_per_core(topology, free);
    let home = |groups: &[Vec<CpuId>], need: usize| -> Vec<CpuId> {
        // The group that the named CPUs lie in, else the first with room, else the largest.
        let named = metric.cpus.as_ref().and_then(CpuSet::first);
        let holds = |group: &&Vec<CpuId>| match named {
            Some(cpu) => group.iter().any(|c| topology.shares_llc(*c, cpu).unwrap_or(true)),
            None => group.len() >= need,
        };
        let found = groups.iter().find(holds).or_else(|| groups.iter().max_by_key(|group| group.len()));
        found.cloned().unwrap_or_default()
    };
    let victims_among = |group: &[CpuId], reserve: usize| -> Vec<CpuId> {
        match &metric.cpus {
            Some(cpus) => cpus.iter().take(count).collect(),
            None => without_first_core(group, count + reserve).into_iter().take(count).collect(),
        }
    };
    let groups = llc_groups(topology, &cores);
    match kind {
        PlacementKind::Llc | PlacementKind::Auto => {
            let group = home(&groups, count + others);
            let victims = victims_among(&group, others);
            let room =
                without_first_core(&group, if metric.cpus.is_some() { others } else { count + others });
            let rest = room.into_iter().filter(|cpu| !same_core_as_any(topology, *cpu, &victims));
            (victims.clone(), rest.take(others).collect())
        }
        PlacementKind::Smt => {
            let with_sibling: Vec<CpuId> =
                cores.iter().copied().filter(|cpu| siblings(topology, *cpu, free).next().is_some()).collect();
            let group = home(&llc_groups(topology, &with_sibling), count);
            let victims = victims_among(&group, 0);
            let rest = victims.iter().flat_map(|cpu| siblings(topology, *cpu, free)).take(others).collect();
            (victims, rest)
        }
        PlacementKind::Node | PlacementKind::Remote => {
            let group = home(&groups, count);
            let victims = victims_among(&group, 0);
            let apart = |cpu: &CpuId| {
                victims.iter().all(|victim| {
                    let same_node = topology.node_of(*cpu) == topology.node_of(*victim);
                    let shared = topology.shares_llc(*cpu, *victim).unwrap_or(true);
                    if kind == PlacementKind::Node { same_node && !shared } else { !same_node }
                })
            };
            let rest = cores.iter().copied().filter(apart).take(others).collect();
            (victims, rest)
        }
    }
}

fn one_per_core(topology: &Topology, free: &CpuSet) -> Vec<CpuId> {
    let mut chosen: Vec<CpuId> = Vec::new();
    for cpu in free.iter() {
        if !same_core_as_any(topology, cpu, &chosen) {
            chosen.push(cpu);
        }
    }
    chosen
}

fn same_core_as_any(topology: &Topology, cpu: CpuId, others: &[CpuId]) -> bool {
    others.iter().any(|other| !topology.different_cores(cpu, *other))
}

fn siblings<'a>(topology: &Topology, cpu: CpuId, free: &'a CpuSet) -> impl Iterator<Item = CpuId> + 'a {
    let all = topology.smt_siblings(cpu);
    free.iter().filter(move |other| *other != cpu && all.contains(*other))
}

// Where no cache is described, all cores count as one group.
fn llc_groups(topology: &Topology, cores: &[CpuId]) -> Vec<Vec<CpuId>> {
    let groups: Vec<Vec<CpuId>> = topology
        .llc_groups()
        .iter()
        .map(|group| cores.iter().copied().filter(|cpu| group.contains(*cpu)).collect::<Vec<_>>())
        .filter(|group| !group.is_empty())
        .collect();
    if groups.is_empty() { vec![cores.to_vec()] } else { groups }
}

fn without_first_core(group: &[CpuId], need: usize) -> Vec<CpuId> {
    let skip = usize::from(group.first() == Some(&0) && group.len() > need);
    group[skip..].to_vec()
}

#[cfg(test)]
mod tests;
