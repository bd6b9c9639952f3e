//! Kinds of cores on hybrid processors.
//!
//! The kernel names them by a PMU for each kind. Where it has none (no driver, a copy without these folders), speeds and L1
//! caches tell kinds apart: `base_frequency`, which is the same for all cores of a kind, or `nominal_perf` of ACPI's CPPC;
//! `cpuinfo_max_freq`, or `highest_perf`; and the sizes of both L1 caches. Cores of one kind differ, too: favoured cores (Turbo
//! Boost Max 3.0, AMD's preferred cores) reach a slightly higher maximum, and Speed Select gives some a higher base. So
//! a base counts only if the L1 caches are not known to be alike, and a maximum only if it is far below that of other cores.

use crate::cpulist::{CpuId, CpuSet};
use crate::root::FsRoot;
use crate::units::Bytes;

use super::{Cache, CacheKind, Core, CoreKind, Cpu};

/// The PMU of each kind, which lists its CPUs.
const PMUS: [(&str, CoreKind); 3] = [
    ("cpu_core", CoreKind::Performance),
    ("cpu_atom", CoreKind::Efficiency),
    ("cpu_lowpower", CoreKind::LowPower),
];

/// The share of the next higher base below which a core is of another kind.
const BASE: f64 = 0.95;

/// The share of the next higher maximum below which a core is of another kind: favoured cores differ by up to an eighth,
/// dense and efficient cores by at least a sixth, or by their base.
const MAXIMUM: f64 = 0.85;

/// Sets the kind of all cores and CPUs, where there are several.
pub(super) fn assign(root: &FsRoot, cores: &mut [Core], cpus: &mut [Cpu], caches: &[Cache]) {
    let pmu = |(name, kind)| Some((kind, root.parse_opt::<CpuSet>(format!("/sys/devices/{name}/cpus"))?));
    let pmus: Vec<(CoreKind, CpuSet)> = PMUS.into_iter().filter_map(pmu).collect();
    if pmus.len() > 1 {
        let kind = |id| pmus.iter().find(|(_, cpus)| cpus.contains(id)).map(|(kind, _)| *kind);
        cores.iter_mut().for_each(|core| core.kind = core.cpus.first().and_then(kind));
        cpus.iter_mut().for_each(|cpu| cpu.kind = kind(cpu.id));
        return;
    }
    // Hybrid processors have one package. Those of several may simply be unequal.
    let package = cores.first().and_then(|core| core.package);
    if cores.iter().any(|core| core.package != package) {
        return;
    }
    let kinds = by_speed(root, cores, caches);
    for (core, kind) in cores.iter_mut().zip(kinds) {
        core.kind = kind;
    }
    for cpu in cpus {
        cpu.kind = cpu.core.and_then(|core| cores[core].kind);
    }
}

fn by_speed(root: &FsRoot, cores: &[Core], caches: &[Cache]) -> Vec<Option<CoreKind>> {
    let speeds = |name: &str| -> Option<Vec<u64>> {
        cores.iter().map(|core| core.cpus.iter().find_map(|cpu| speed(root, cpu, name))).collect()
    };
    let one = vec![0; cores.len()];
    let l1: Option<Vec<_>> = cores.iter().map(|core| l1(core, caches)).collect();
    let alike = l1.as_ref().is_some_and(|l1| l1.windows(2).all(|pair| pair[0] == pair[1]));
    let base = speeds("cpufreq/base_frequency").or_else(|| speeds("acpi_cppc/nominal_perf"));
    let base = base.map(|base| ranks(&base, BASE));
    // Where the nominal performance is the same, the highest one only ranks cores of one kind.
    let ranked = base.as_ref().is_some_and(|base| *base == one);
    let maximum = speeds("cpufreq/cpuinfo_max_freq")
        .or_else(|| speeds("acpi_cppc/highest_perf").filter(|_| !ranked))
        .map_or_else(|| one.clone(), |maximum| ranks(&maximum, MAXIMUM));
    let base = base.filter(|_| !alike).unwrap_or(one);
    let mut keys: Vec<(usize, usize)> = base.into_iter().zip(maximum).collect();
    if keys.windows(2).all(|pair| pair[0] == pair[1])
        && let Some(l1) = l1
    {
        // An efficient core has a smaller L1 for data and a larger one for instructions.
        let largest = l1.iter().max().copied().unwrap_or_default();
        let efficient = |&(data, code): &(Bytes, Bytes)| data < largest.0 && code > largest.1;
        keys = l1.iter().map(|sizes| (usize::from(efficient(sizes)), 0)).collect();
    }
    let mut distinct = keys.clone();
    distinct.sort_unstable();
    distinct.dedup();
    // One is no hybrid, and four are none that has names.
    if !(2..=CoreKind::ALL.len()).contains(&distinct.len()) {
        return vec![None; cores.len()];
    }
    let kind = |key| distinct.iter().position(|known| known == key).map(|at| CoreKind::ALL[at]);
    keys.iter().map(kind).collect()
}

fn speed(root: &FsRoot, cpu: CpuId, name: &str) -> Option<u64> {
    root.parse_opt(format!("/sys/devices/system/cpu/cpu{cpu}/{name}")).filter(|&value| value > 0)
}

/// The sizes of a core's L1 caches for data and for instructions.
fn l1(core: &Core, caches: &[Cache]) -> Option<(Bytes, Bytes)> {
    let of = |kind| {
        let mut own = caches.iter().filter(|cache| cache.level == 1 && cache.kind == kind);
        own.find(|cache| !cache.cpus.is_disjoint(&core.cpus))?.size
    };
    Some((of(CacheKind::Data)?, of(CacheKind::Instruction)?))
}

/// The rank of each speed, 0 for the highest: a new rank begins below `share` of the next higher speed.
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
