//! The search for CPUs.

use std::collections::BTreeSet;

use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::topology::Topology;

use super::want::{Place, Want};
use crate::PlacementKind;

/// The usable cores, that of CPU 0 last.
pub(super) struct Floor {
    cores: Vec<Core>,
}

struct Core {
    /// Its usable CPUs, ascending; at least one.
    cpus: Vec<CpuId>,
    /// All its CPUs, whether usable or not.
    all: CpuSet,
    /// The number of its last-level cache; cores of which none is known share one.
    llc: usize,
    node: Option<u32>,
    package: Option<u32>,
}

/// A placement of all roles.
pub(super) struct Seating {
    pub cpus: Vec<Vec<CpuId>>,
    pub places: Vec<Place>,
}

impl Floor {
    pub(super) fn of(topology: &Topology) -> Self {
        let usable = topology.usable();
        let groups = topology.llc_groups();
        let mut cores: Vec<Core> = Vec::new();
        for cpu in usable.iter() {
            // CPUs of unknown cores may be siblings of one another: all of them count as one core.
            let Some(core) = topology.core_of(cpu) else { continue };
            match cores.iter_mut().find(|known| known.all == core.cpus) {
                Some(known) => known.cpus.push(cpu),
                None => cores.push(Core {
                    cpus: vec![cpu],
                    all: core.cpus.clone(),
                    llc: groups.iter().position(|group| group.contains(cpu)).unwrap_or(usize::MAX),
                    node: topology.node_of(cpu),
                    package: core.package,
                }),
            }
        }
        if let (true, Some(first)) = (cores.is_empty(), usable.first()) {
            let all = usable.clone();
            let node = topology.node_of(first);
            cores.push(Core { cpus: vec![first], all, llc: usize::MAX, node, package: None });
        }
        // Stable: the others stay in the order of their lowest CPU.
        cores.sort_by_key(Core::serves_the_kernel);
        Self { cores }
    }

    /// The best placement: room for the metric's role first, then for most of the others, then
    /// without the core of CPU 0 where that takes no other node (memory may lie on this one); among
    /// equals the first kind of placement and the first last-level cache.
    pub(super) fn seat(
        &self,
        wants: &[Want],
        metric: usize,
        meets: &dyn Fn(usize, usize) -> bool,
    ) -> Seating {
        const ANY: [Place; 4] = [Place::Llc, Place::Node, Place::Remote, Place::Smt];
        let any = |(role, want): (usize, &Want)| {
            role != metric && want.cpus.is_none() && want.kind == PlacementKind::Auto
        };
        let kinds = if wants.iter().enumerate().any(any) { &ANY[..] } else { &ANY[..1] };
        let homes: BTreeSet<usize> = self.cores.iter().map(|core| core.llc).collect();
        let homes: Vec<usize> = match wants[metric].cpus {
            Some(_) => vec![0],
            None => homes.into_iter().collect(),
        };
        let mut best: Option<((usize, usize, bool), Seating)> = None;
        for auto in kinds {
            for home in &homes {
                let seating = self.attempt(*auto, *home, wants, metric, meets);
                let others = seating.cpus.iter().enumerate().filter(|(role, _)| *role != metric);
                let score = (
                    seating.cpus[metric].len(),
                    others.map(|(_, cpus)| cpus.len()).sum(),
                    self.spares_the_kernel(&seating, metric),
                );
                if best.as_ref().is_none_or(|(known, _)| score > *known) {
                    best = Some((score, seating));
                }
            }
        }
        // Without any usable core there is nothing to choose from.
        best.map(|(_, seating)| seating)
            .unwrap_or_else(|| self.attempt(kinds[0], 0, wants, metric, meets))
    }

    fn spares_the_kernel(&self, seating: &Seating, metric: usize) -> bool {
        let Some(kernels) = self.cores.iter().find(|core| core.serves_the_kernel()) else {
            return true;
        };
        let home = seating.cpus[metric]
            .first()
            .and_then(|cpu| self.cores.iter().find(|core| core.has(*cpu)));
        home.is_none_or(|home| home.node == kernels.node)
            && !seating.cpus.iter().flatten().any(|cpu| kernels.has(*cpu))
    }

    fn attempt(
        &self,
        auto: Place,
        home: usize,
        wants: &[Want],
        metric: usize,
        meets: &dyn Fn(usize, usize) -> bool,
    ) -> Seating {
        let places: Vec<Place> = wants
            .iter()
            .enumerate()
            .map(|(role, want)| match (&want.cpus, want.kind) {
                (Some(_), _) => Place::Named,
                _ if role == metric => Place::Home,
                (None, PlacementKind::Auto) => auto,
                (None, PlacementKind::Llc) => Place::Llc,
                (None, PlacementKind::Node) => Place::Node,
                (None, PlacementKind::Remote) => Place::Remote,
                (None, PlacementKind::Smt) => Place::Smt,
            })
            .collect();
        let count = |role: usize| wants[role].count as usize;
        let named = |want: &Want| match &want.cpus {
            Some(cpus) => cpus.iter().take(want.count as usize).collect(),
            None => Vec::new(),
        };
        let mut cpus: Vec<Vec<CpuId>> = wants.iter().map(named).collect();
        if places[metric] == Place::Home {
            let taken = taken(&cpus, wants, metric, meets);
            let mut room: Vec<&Core> =
                self.cores.iter().filter(|core| core.is_idle(&taken)).collect();
            let node = room.iter().find(|core| core.llc == home).and_then(|core| core.node);
            // Siblings are needed where a role is to run on them.
            let lacks = |core: &Core| places.contains(&Place::Smt) && core.cpus.len() < 2;
            room.sort_by_key(|core| (lacks(core), core.llc != home, core.node != node));
            cpus[metric] = room.iter().take(count(metric)).map(|core| core.cpus[0]).collect();
        }
        let own: Vec<&Core> = self
            .cores
            .iter()
            .filter(|core| cpus[metric].iter().any(|cpu| core.has(*cpu)))
            .collect();
        for role in (0..wants.len()).filter(|role| *role != metric && places[*role] != Place::Named)
        {
            let taken = taken(&cpus, wants, role, meets);
            cpus[role] = match places[role] {
                Place::Smt => {
                    let siblings = own.iter().flat_map(|core| core.cpus.iter().copied());
                    let free = |cpu: &CpuId| !taken.contains(cpu) && !cpus[metric].contains(cpu);
                    siblings.filter(free).take(count(role)).collect()
                }
                place => {
                    let lies = |core: &&Core| core.lies(place, &own);
                    // With sub-NUMA clusters, a node of the same package is remote only where there
                    // is no other package.
                    let elsewhere =
                        |core: &Core| own.iter().all(|home| core.of_another_package(home));
                    let far =
                        place == Place::Remote && self.cores.iter().filter(lies).any(elsewhere);
                    let room = self.cores.iter().filter(lies).filter(|core| {
                        core.is_idle(&taken)
                            && core.is_idle(&cpus[metric])
                            && (!far || elsewhere(core))
                    });
                    room.take(count(role)).map(|core| core.cpus[0]).collect()
                }
            };
        }
        Seating { cpus, places }
    }
}

// The CPUs of the roles that a role runs with, as far as they are placed.
fn taken(
    cpus: &[Vec<CpuId>],
    wants: &[Want],
    role: usize,
    meets: &dyn Fn(usize, usize) -> bool,
) -> Vec<CpuId> {
    let others = (0..cpus.len()).filter(|other| meets(role, *other));
    let theirs =
        others.flat_map(|other| cpus[other].iter().copied().chain(wants[other].besides.iter()));
    theirs.chain(wants[role].besides.iter()).collect()
}

impl Core {
    fn has(&self, cpu: CpuId) -> bool {
        self.all.contains(cpu)
    }

    fn serves_the_kernel(&self) -> bool {
        self.has(0)
    }

    fn is_idle(&self, taken: &[CpuId]) -> bool {
        !taken.iter().any(|cpu| self.has(*cpu))
    }

    fn of_another_package(&self, other: &Core) -> bool {
        matches!((self.package, other.package), (Some(a), Some(b)) if a != b)
    }

    /// Whether it lies so to the metric's cores.
    fn lies(&self, place: Place, own: &[&Core]) -> bool {
        let Some(first) = own.first() else { return false };
        let known_apart =
            |other: &Core| matches!((self.node, other.node), (Some(a), Some(b)) if a != b);
        match place {
            Place::Llc => self.llc == first.llc,
            Place::Node => self.node == first.node && own.iter().all(|core| core.llc != self.llc),
            Place::Remote => own.iter().all(|core| known_apart(core)),
            Place::Home | Place::Named | Place::Smt => false,
        }
    }
}
