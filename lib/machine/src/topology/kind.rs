//! Kinds of cores on hybrid processors.
//!
//! The kernel names them by a PMU for each kind. Where it has none (no driver, a copy without these
//! folders), speeds and caches tell kinds apart: `base_frequency`, which is the same for all cores
//! of a kind, or `nominal_perf` of ACPI's CPPC; `cpuinfo_max_freq`, or `highest_perf`; the sizes of
//! both L1 caches, and of the L2 per core. Cores of one kind differ, too: favoured cores (Turbo
//! Boost Max 3.0, AMD's preferred cores) reach a slightly higher maximum, Speed Select gives some a
//! higher base, and boost can be off for some. So a base counts only if the L1 caches are not known
//! to be alike, a maximum only if it is far below that of other cores, and neither if CPPC's values
//! are about equal. Sizes of L3 do not count: AMD stacks cache on some of equal cores.

use crate::cpulist::{CpuId, CpuSet};
use crate::root::FsRoot;
use crate::units::Bytes;

use super::contradiction::{Contradiction, Relation};
use super::{Cache, CacheKind, Core, CoreKind, Cpu};

/// The PMU of each kind, which lists its CPUs.
const PMUS: [(&str, CoreKind); 3] = [
    ("cpu_core", CoreKind::Performance),
    ("cpu_atom", CoreKind::Efficiency),
    ("cpu_lowpower", CoreKind::LowPower),
];

const BASE_FREQUENCY: &str = "cpufreq/base_frequency";
const MAX_FREQUENCY: &str = "cpufreq/cpuinfo_max_freq";
const BOOST: &str = "cpufreq/boost";
const NOMINAL: &str = "acpi_cppc/nominal_perf";
const HIGHEST: &str = "acpi_cppc/highest_perf";

/// The share of the next higher base below which a core is of another kind. Chosen: bases of one
/// kind are equal, and those of that processor are 3.0 and 2.2 GHz.
const BASE: f64 = 0.95;

/// The share of the next higher maximum below which a core is of another kind. Chosen between what
/// Intel publishes for the Core i9-13900K: 5.8, 5.7 and 5.4 GHz for its P-cores, favoured ones
/// included, and 4.3 GHz for its E-cores.
const MAXIMUM: f64 = 0.85;

/// Sets the kind of all cores and CPUs, where there are several.
pub(super) fn assign(
    root: &FsRoot,
    cores: &mut [Core],
    cpus: &mut [Cpu],
    caches: &[Cache],
    contradictions: &mut Vec<Contradiction>,
) {
    let pmu =
        |(name, kind)| Some((kind, root.parse_opt::<CpuSet>(format!("/sys/devices/{name}/cpus"))?));
    let pmus: Vec<(CoreKind, CpuSet)> = PMUS.into_iter().filter_map(pmu).collect();
    if pmus.len() > 1 {
        let doubtful = of_several(&pmus, contradictions);
        // Low-power cores can be named as efficient ones, too: they are both.
        let kind = |id| {
            let named =
                pmus.iter().rev().find(|(_, cpus)| cpus.contains(id) && !doubtful.contains(id));
            named.map(|(kind, _)| *kind)
        };
        cores.iter_mut().for_each(|core| core.kind = core.cpus.first().and_then(kind));
        cpus.iter_mut().for_each(|cpu| cpu.kind = kind(cpu.id));
        return;
    }
    // Hybrid processors have one package. Those of several may simply be unequal.
    let package = cores.first().and_then(|core| core.package);
    if cores.iter().any(|core| core.package != package) {
        return;
    }
    let kinds = by_speed(root, cores, caches, contradictions);
    for (core, kind) in cores.iter_mut().zip(kinds) {
        core.kind = kind;
    }
    for cpu in cpus {
        cpu.kind = cpu.core.and_then(|core| cores[core].kind);
    }
}

/// CPUs that PMUs of several kinds name.
fn of_several(pmus: &[(CoreKind, CpuSet)], contradictions: &mut Vec<Contradiction>) -> CpuSet {
    let mut all = CpuSet::new();
    let Some((_, fast)) = pmus.iter().find(|(kind, _)| *kind == CoreKind::Performance) else {
        return all;
    };
    for (kind, others) in pmus.iter().filter(|(kind, _)| *kind != CoreKind::Performance) {
        let cpus = fast.intersection(others);
        if cpus.is_empty() {
            continue;
        }
        all = all.union(&cpus);
        let text = format!(
            "the kernel calls the cores of {} both P-cores and {}s",
            cpus.named(),
            kind.name()
        );
        contradictions.push(Contradiction { relation: Relation::Kind, cpus, text });
    }
    all
}

fn by_speed(
    root: &FsRoot,
    cores: &[Core],
    caches: &[Cache],
    contradictions: &mut Vec<Contradiction>,
) -> Vec<Option<CoreKind>> {
    let values = |name: &str| -> Option<Vec<u64>> {
        cores.iter().map(|core| core.cpus.iter().find_map(|cpu| value(root, cpu, name))).collect()
    };
    let speeds = |name: &str| values(name).filter(|speeds| speeds.iter().all(|&speed| speed > 0));
    let ranked = |speeds: Option<Vec<u64>>, share| speeds.map(|speeds| ranks(&speeds, share));
    let (base, maximum) = (speeds(BASE_FREQUENCY), speeds(MAX_FREQUENCY));
    let sizes: Option<Vec<_>> = cores.iter().map(|core| Sizes::of(core, cores, caches)).collect();
    let alike =
        sizes.as_ref().is_some_and(|all| all.windows(2).all(|pair| pair[0].l1() == pair[1].l1()));
    // Without turbo the maximum is the base once more.
    let repeated = alike && base == maximum;
    let boosted_alike = values(BOOST).is_none_or(|boost| one_value(&boost));
    let maximum = ranked(maximum.filter(|_| !repeated && boosted_alike), MAXIMUM);
    let base = ranked(base.filter(|_| !alike), BASE);
    let highest = ranked(speeds(HIGHEST), MAXIMUM);
    let nominal = ranked(speeds(NOMINAL), BASE);
    let by_caches = sizes.map(|sizes| ranks_of_caches(&sizes));

    // Where the nominal performance is the same, the highest one only ranks cores of one kind.
    let preferred = nominal.as_deref().is_some_and(one_value);
    let equal = highest.as_ref().or(nominal.as_ref()).is_some_and(|ranks| one_value(ranks));
    let nominal = nominal.filter(|_| !alike);
    let sources = [
        (BASE_FREQUENCY, &base),
        (NOMINAL, &nominal),
        (MAX_FREQUENCY, &maximum),
        (HIGHEST, &highest),
        ("the sizes of L1 and L2", &by_caches),
    ];
    let known: Vec<(&str, &[usize])> =
        sources.into_iter().filter_map(|(name, ranks)| Some((name, ranks.as_deref()?))).collect();
    if let Some(contradiction) = opposite(&known, cores) {
        contradictions.push(contradiction);
        return vec![None; cores.len()];
    }

    let one = vec![0; cores.len()];
    let base = base.or(nominal).unwrap_or_else(|| one.clone());
    let maximum = maximum.or(highest.filter(|_| !preferred)).unwrap_or(one);
    let mut keys: Vec<(usize, usize)> = base.into_iter().zip(maximum).collect();
    if (equal || one_value(&keys))
        && let Some(by_caches) = by_caches
    {
        keys = by_caches.into_iter().map(|rank| (rank, 0)).collect();
    } else if equal {
        return vec![None; cores.len()];
    }
    let mut distinct = keys.clone();
    distinct.sort_unstable();
    distinct.dedup();
    // One kind is no hybrid, and a fourth kind has no name.
    if !(2..=CoreKind::ALL.len()).contains(&distinct.len()) {
        return vec![None; cores.len()];
    }
    let kind = |key| distinct.iter().position(|known| known == key).map(|at| CoreKind::ALL[at]);
    keys.iter().map(kind).collect()
}

fn value(root: &FsRoot, cpu: CpuId, name: &str) -> Option<u64> {
    root.parse_opt(format!("/sys/devices/system/cpu/cpu{cpu}/{name}"))
}

fn one_value<T: PartialEq>(values: &[T]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// The sizes of a core's caches.
struct Sizes {
    data: Bytes,
    code: Bytes,
    /// The core's share of the L2, if that is known.
    l2: Option<u64>,
}

impl Sizes {
    fn of(core: &Core, cores: &[Core], caches: &[Cache]) -> Option<Self> {
        let own = |level, kind| {
            let mut own = caches.iter().filter(|cache| (cache.level, cache.kind) == (level, kind));
            own.find(|cache| !cache.cpus.is_disjoint(&core.cpus))
        };
        let share = |cache: &Cache| {
            let sharers = cores.iter().filter(|core| !core.cpus.is_disjoint(&cache.cpus)).count();
            Some(cache.size?.0 / sharers as u64)
        };
        Some(Self {
            data: own(1, CacheKind::Data)?.size?,
            code: own(1, CacheKind::Instruction)?.size?,
            l2: own(2, CacheKind::Unified).and_then(share),
        })
    }

    fn l1(&self) -> (Bytes, Bytes) {
        (self.data, self.code)
    }
}

/// 1 for efficient cores: a smaller L1 for data, and either a larger one for instructions or less
/// L2.
fn ranks_of_caches(sizes: &[Sizes]) -> Vec<usize> {
    let Some(largest) = sizes.iter().max_by_key(|sizes| sizes.l1()) else { return Vec::new() };
    let less_l2 = |own: &Sizes| own.l2.zip(largest.l2).is_some_and(|(own, largest)| own < largest);
    let efficient =
        |own: &Sizes| own.data < largest.data && (own.code > largest.code || less_l2(own));
    sizes.iter().map(|own| usize::from(efficient(own))).collect()
}

/// Two sources by which opposite cores are the faster ones.
fn opposite(sources: &[(&str, &[usize])], cores: &[Core]) -> Option<Contradiction> {
    for (at, (name, ranks)) in sources.iter().enumerate() {
        for (other_name, others) in &sources[at + 1..] {
            for a in 0..cores.len() {
                let Some(b) =
                    (0..cores.len()).find(|&b| ranks[a] < ranks[b] && others[a] > others[b])
                else {
                    continue;
                };
                let like = |core: usize| -> CpuSet {
                    let same =
                        |at: &usize| (ranks[*at], others[*at]) == (ranks[core], others[core]);
                    (0..cores.len()).filter(same).flat_map(|at| cores[at].cpus.iter()).collect()
                };
                let (faster, slower) = (like(a), like(b));
                return Some(Contradiction {
                    relation: Relation::Kind,
                    text: format!(
                        "by {name}, {} should be faster than {}, and by {other_name} slower: no \
                         kinds of cores are \
                         shown",
                        faster.named(),
                        slower.named()
                    ),
                    cpus: faster.union(&slower),
                });
            }
        }
    }
    None
}

/// The rank of each speed, 0 for the highest: a new rank begins below `share` of the next higher
/// speed.
fn ranks(speeds: &[u64], share: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..speeds.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(speeds[at]));
    let mut ranks = vec![0; speeds.len()];
    for pair in order.windows(2) {
        let falls = (speeds[pair[1]] as f64) < speeds[pair[0]] as f64 * share;
        ranks[pair[1]] = ranks[pair[0]] + usize::from(falls);
    }
    ranks
}
