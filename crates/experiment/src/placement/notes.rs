//! What a placement means, in sentences.

use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::topology::{Contradiction, Relation, Topology};

use super::want::{Place, Placed, Want};
use crate::{PlacementKind, Reason};

pub(super) fn notes(
    topology: &Topology,
    wants: &[Want],
    metric: usize,
    placed: &Placed,
    meets: &dyn Fn(usize, usize) -> bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let chosen = |role: &usize| is_auto(wants, metric, *role) && !placed.cpus[*role].is_empty();
    if let Some(role) = (0..wants.len()).find(chosen) {
        notes.push(format!("co-runners are {}", describe(placed.places[role])));
    }
    let victim = &wants[metric].role;
    let home: CpuSet = placed.cpus[metric].iter().copied().collect();
    let llcs = topology.llc_groups().iter().filter(|group| !group.is_disjoint(&home)).count();
    if llcs > 1 {
        notes.push(format!("{victim} is spread over {llcs} last-level caches"));
    }
    for (role, want) in wants.iter().enumerate() {
        let own: CpuSet = placed.cpus[role].iter().copied().collect();
        notes.extend(crowding(want, &placed.cpus[role], &own));
        notes.extend(beside_the_kernel(topology, want, &own));
        // Siblings are not news where they were asked for.
        let others =
            (0..role).filter(|other| meets(role, *other) && placed.places[role] != Place::Smt);
        for other in others.filter(|other| placed.places[*other] != Place::Smt) {
            let theirs: CpuSet = placed.cpus[other].iter().copied().collect();
            notes.extend(sharing(want, &own, &wants[other], &theirs));
            let (ours, theirs) = touching(topology, &placed.cpus[role], &placed.cpus[other]);
            notes.extend(siblings(want, &ours, &wants[other], &theirs));
        }
        let (ours, theirs) = touching(topology, &placed.cpus[role], &placed.cpus[role]);
        if !ours.is_empty() {
            let all = ours.union(&theirs);
            notes.push(format!("{}'s {} are SMT siblings of each other", want.role, all.named()));
        }
        if role != metric {
            notes.extend(doubt(topology, want, &own, &home, placed.places[role]));
            if placed.places[role] == Place::Remote {
                notes.extend(remoteness(topology, want, &own, &home));
            }
        }
        // A user may name CPUs without knowing how far apart they are.
        let names = placed.places[role] == Place::Named || placed.places[metric] == Place::Named;
        if let (true, Some(first)) = (role != metric && names, placed.cpus[metric].first()) {
            notes.extend(distance(
                topology,
                want,
                &placed.cpus[role],
                placed.places[role],
                victim,
                *first,
            ));
        }
    }
    notes
}

// That a role has fewer CPUs than instances.
fn crowding(want: &Want, instances: &[CpuId], own: &CpuSet) -> Option<String> {
    (!own.is_empty() && own.len() < instances.len()).then(|| {
        format!(
            "{}'s {} instances share {}: they wait for a device most of the time",
            want.role,
            instances.len(),
            own.named()
        )
    })
}

fn beside_the_kernel(topology: &Topology, want: &Want, own: &CpuSet) -> Option<String> {
    let kernels = topology.smt_siblings(0);
    if own.contains(0) && topology.usable().len() > 1 {
        return Some(format!("{}'s CPU 0 also serves the kernel", want.role));
    }
    own.intersection(&kernels).first().map(|cpu| {
        format!(
            "{}'s CPU {cpu} is the SMT sibling of CPU 0, which also serves the kernel",
            want.role
        )
    })
}

// That two roles have CPUs in common.
fn sharing(want: &Want, own: &CpuSet, other: &Want, theirs: &CpuSet) -> Option<String> {
    let shared = own.intersection(theirs);
    (!shared.is_empty()).then(|| {
        format!(
            "{} and {} share {}, whose time the kernel divides between them",
            want.role,
            other.role,
            shared.named()
        )
    })
}

// That CPUs of two roles, those that touch, are on the same cores.
fn siblings(want: &Want, ours: &CpuSet, other: &Want, theirs: &CpuSet) -> Option<String> {
    let (is, siblings) =
        if ours.len() == 1 { ("is", "the SMT sibling") } else { ("are", "SMT siblings") };
    (!ours.is_empty()).then(|| {
        format!(
            "{}'s {} {is} {siblings} of {}'s {}",
            want.role,
            ours.named(),
            other.role,
            theirs.named()
        )
    })
}

// Which kind of remote node it is, where the metric's package has several nodes (sub-NUMA
// clusters).
fn remoteness(topology: &Topology, want: &Want, own: &CpuSet, home: &CpuSet) -> Option<String> {
    let (there, here) = (own.first()?, home.first()?);
    let package = topology.packages.iter().find(|package| package.cpus.contains(here))?;
    let nodes: CpuSet = package.cpus.iter().filter_map(|cpu| topology.node_of(cpu)).collect();
    let which = match topology.different_packages(there, here) {
        true => "in another package",
        false => "on another NUMA node of the same package",
    };
    (nodes.len() > 1).then(|| format!("{} runs {which}", want.role))
}

// That a placement relies on statements about these CPUs that contradict each other.
fn doubt(
    topology: &Topology,
    want: &Want,
    own: &CpuSet,
    home: &CpuSet,
    place: Place,
) -> Option<String> {
    let relies_on: &[Relation] = match place {
        Place::Smt => &[Relation::Smt],
        Place::Llc => &[Relation::Smt, Relation::Cache],
        Place::Node => &[Relation::Smt, Relation::Cache, Relation::Node],
        Place::Remote => &[Relation::Smt, Relation::Node, Relation::Package],
        // The sentences about named CPUs take everything into account.
        Place::Named => &[Relation::Smt, Relation::Cache, Relation::Node, Relation::Package],
        Place::Home => &[],
    };
    let all = own.union(home);
    let touches = |one: &&Contradiction| {
        !own.is_empty() && relies_on.contains(&one.relation) && !one.cpus.is_disjoint(&all)
    };
    let mark = |one: &Contradiction| {
        format!(
            "{}'s placement relies on a map of CPUs that contradicts itself: {}",
            want.role, one.text
        )
    };
    let fake = topology.fake_nodes && !own.is_empty() && relies_on.contains(&Relation::Node);
    let made_up = || {
        format!(
            "{}'s placement relies on emulated NUMA nodes (numa=fake= on the kernel's command \
             line)",
            want.role
        )
    };
    topology.contradictions.iter().find(touches).map(mark).or_else(|| fake.then(made_up))
}

// Which of a role's CPUs lie farther from the metric's than under one last-level cache, unless that
// is where it was asked to be.
fn distance(
    topology: &Topology,
    want: &Want,
    own: &[CpuId],
    place: Place,
    victim: &str,
    home: CpuId,
) -> Vec<String> {
    let mut notes = Vec::new();
    let another_node = |cpu: &CpuId| {
        let nodes = (topology.node_of(*cpu), topology.node_of(home));
        matches!(nodes, (Some(own), Some(home)) if own != home)
    };
    let far: CpuSet = own.iter().copied().filter(another_node).collect();
    let another_llc =
        |cpu: &CpuId| topology.shares_llc(*cpu, home) == Some(false) && !far.contains(*cpu);
    let apart: CpuSet = own.iter().copied().filter(another_llc).collect();
    let lie = |set: &CpuSet| if set.len() == 1 { "lies" } else { "lie" };
    if !far.is_empty() && place != Place::Remote {
        let package = |cpu| topology.cpu(cpu).and_then(|cpu| cpu.package);
        let same = |cpu| package(cpu).is_some() && package(cpu) == package(home);
        let of = if far.iter().all(same) { " of the same package" } else { "" };
        notes.push(format!(
            "{}'s {} {} on another NUMA node{of} than {victim}'s CPU {home}",
            want.role,
            far.named(),
            lie(&far)
        ));
    }
    if !apart.is_empty() && place != Place::Node {
        notes.push(format!(
            "{}'s {} {} under another last-level cache than {victim}'s CPU {home}",
            want.role,
            apart.named(),
            lie(&apart)
        ));
    }
    notes
}

// The CPUs of `ours` that share a core with some of `theirs`, and these; each pair once.
fn touching(topology: &Topology, ours: &[CpuId], theirs: &[CpuId]) -> (CpuSet, CpuSet) {
    let mut found = (CpuSet::new(), CpuSet::new());
    for &a in ours {
        let siblings = topology.smt_siblings(a);
        for &b in theirs.iter().filter(|b| **b != a && siblings.contains(**b)) {
            found.0.insert(a);
            found.1.insert(b);
        }
    }
    found
}

// Whether the kind of its placement was chosen for it.
fn is_auto(wants: &[Want], metric: usize, role: usize) -> bool {
    role != metric && wants[role].cpus.is_none() && wants[role].kind == PlacementKind::Auto
}

fn describe(place: Place) -> &'static str {
    match place {
        Place::Smt => "on the SMT siblings of the metric's cores",
        Place::Llc | Place::Home | Place::Named => "on other cores under the same last-level cache",
        Place::Node => "on the same NUMA node under another last-level cache",
        Place::Remote => "on another NUMA node",
    }
}

impl Placed {
    /// Why `count` instances of a role cannot run, if so.
    pub fn shortage(
        &self,
        wants: &[Want],
        metric: usize,
        role: usize,
        count: u32,
    ) -> Option<Reason> {
        let have = self.cpus[role].len();
        let place = self.places.get(role).copied()?;
        (have < count as usize).then(|| shortage(wants, metric, role, place, count, have))
    }
}

fn shortage(
    wants: &[Want],
    metric: usize,
    role: usize,
    place: Place,
    count: u32,
    have: usize,
) -> Reason {
    let victim = &wants[metric].role;
    let what = |one: &str, many: &str| match count {
        1 => format!("{one} "),
        _ => format!("{count} {many} "),
    };
    let need = match place {
        _ if is_auto(wants, metric, role) => {
            what("another core", "other cores") + &format!("beside {victim}")
        }
        Place::Home => what("a core", "cores") + "of its own",
        Place::Named => what("a CPU", "CPUs") + "among those that cpus names",
        Place::Smt => what("an SMT sibling", "SMT siblings") + &format!("of {victim}'s cores"),
        Place::Llc => {
            what("another core", "other cores")
                + &format!("under the last-level cache of {victim}, with idle siblings")
        }
        Place::Node => {
            what("a core", "cores")
                + &format!("on the NUMA node of {victim} under another last-level cache")
        }
        Place::Remote => what("a core", "cores") + &format!("on another NUMA node than {victim}"),
    };
    let have = match have {
        0 => "there is none".into(),
        1 => "there is 1".into(),
        more => format!("there are {more}"),
    };
    format!("{} needs {need}, and {have}", wants[role].role).into()
}
