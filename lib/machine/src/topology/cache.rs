//! Caches from `/sys/devices/system/cpu/cpuN/cache`, each instance once.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::cpulist::{CpuId, CpuSet};
use crate::root::FsRoot;
use crate::units::Bytes;

use super::contradiction::{self, Contradiction, Relation, Sets};

/// One cache and the CPUs that share it.
#[doc(alias("HWLOC_OBJ_L1CACHE", "HWLOC_OBJ_L2CACHE", "HWLOC_OBJ_L3CACHE"))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// 1 to 4.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// The kernel's `id`, unique within level and kind; the domain number of resctrl at L2 and L3.
    pub id: Option<u32>,
    /// Nominal capacity. A virtual machine may get less: see [`crate::probe`].
    pub size: Option<Bytes>,
    /// Line size, `coherency_line_size`.
    pub line: Option<Bytes>,
    /// Associativity.
    pub ways: Option<u32>,
    /// Sets.
    pub sets: Option<u32>,
    /// The online CPUs that share it.
    pub cpus: CpuSet,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

impl Cache {
    /// Whether loads and stores go through it.
    pub fn holds_data(&self) -> bool {
        self.kind != CacheKind::Instruction
    }

    /// `L1d`, `L1i`, `L2`, `L3`.
    pub fn name(&self) -> String {
        name(self.level, self.kind)
    }
}

fn name(level: u8, kind: CacheKind) -> String {
    let suffix = match kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    format!("L{level}{suffix}")
}

pub(super) fn read(
    root: &FsRoot,
    online: &CpuSet,
    notes: &mut Vec<String>,
    contradictions: &mut Vec<Contradiction>,
) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    let mut known = BTreeSet::new();
    let mut without = CpuSet::new();
    let mut unshared = CpuSet::new();
    let mut found: BTreeMap<(u8, CacheKind), Vec<Found>> = BTreeMap::new();
    for cpu in online.iter() {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
        let indices = root.numbered(&dir, "index");
        if indices.is_empty() {
            without.insert(cpu);
        }
        for index in indices {
            let Some((cache, sharers)) =
                read_one(root, &format!("{dir}/index{index}"), cpu, online)
            else {
                continue;
            };
            if matches!(sharers, Sharers::Unknown) {
                unshared.insert(cpu);
            }
            found.entry((cache.level, cache.kind)).or_default().push((cpu, cache.clone(), sharers));
            if known.insert((cache.level, cache.kind, cpu)) {
                known.extend(cache.cpus.iter().map(|cpu| (cache.level, cache.kind, cpu)));
                caches.push(cache);
            }
        }
    }
    if !without.is_empty() {
        notes.push(format!("the kernel shows no caches of {}", without.named()));
    }
    if !unshared.is_empty() {
        notes.push(format!(
            "the kernel does not report which CPUs share the caches of {}",
            unshared.named()
        ));
    }
    contradictions.extend(contradictory(&found));
    caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
    caches
}

/// The CPUs that the kernel says share a CPU's cache.
enum Sharers {
    Known(CpuSet),
    /// A list that lacks the CPU itself.
    Without(CpuSet),
    Unknown,
}

/// A cache as the folder of one CPU describes it.
type Found = (CpuId, Cache, Sharers);

fn contradictory(found: &BTreeMap<(u8, CacheKind), Vec<Found>>) -> Vec<Contradiction> {
    let mut contradictions = Vec::new();
    let mut add = |cpus: CpuSet, text: String| {
        contradictions.push(Contradiction { relation: Relation::Cache, cpus, text });
    };
    let sets = |all: &[Found]| -> Sets {
        let known = all.iter().filter_map(|(cpu, _, sharers)| match sharers {
            Sharers::Known(cpus) => Some((*cpu, cpus.clone())),
            _ => None,
        });
        known.collect()
    };
    let mut disputed = CpuSet::new();
    for ((level, kind), all) in found {
        let (cache, sets) = (name(*level, *kind), sets(all));
        for cpus in contradiction::disagreements(&sets) {
            let text = format!(
                "the kernel's lists of the CPUs that share an {cache} disagree for {}",
                cpus.named()
            );
            disputed = disputed.union(&cpus);
            add(cpus, text);
        }
        let lacking = all.iter().filter_map(|(cpu, _, sharers)| match sharers {
            Sharers::Without(cpus) => {
                Some((CpuSet::single(*cpu), cpus.union(&CpuSet::single(*cpu))))
            }
            _ => None,
        });
        let lacking = lacking.reduce(|all, one| (all.0.union(&one.0), all.1.union(&one.1)));
        if let Some((own, cpus)) = lacking {
            add(
                cpus,
                contradiction::not_in_own_list(&own, &format!("the CPUs that share an {cache}")),
            );
        }
        for (cpus, text) in properties_that_differ(&cache, all) {
            add(cpus, text);
        }
    }
    // A cache holds what the caches before it hold, of each CPU that shares them.
    for ((level, kind), inner) in found {
        let mut split: BTreeMap<CpuSet, u8> = BTreeMap::new();
        for ((outer_level, _), outer) in found
            .iter()
            .filter(|((outer, of), _)| outer > level && (of == kind || *of == CacheKind::Unified))
        {
            let (inner, outer) = (sets(inner), sets(outer));
            for (cpu, cpus) in inner.into_iter().filter(|(cpu, _)| !disputed.contains(*cpu)) {
                if outer.get(&cpu).is_some_and(|outer| !cpus.is_subset(outer)) {
                    split.entry(cpus).or_insert(*outer_level);
                }
            }
        }
        for (cpus, outer) in split {
            let text =
                format!("{} share an {} but not the L{outer}", cpus.named(), name(*level, *kind));
            add(cpus, text);
        }
    }
    contradictions
}

/// Sizes, line sizes and numbers of ways in which CPUs that share a cache describe it.
fn properties_that_differ(name: &str, all: &[Found]) -> Vec<(CpuSet, String)> {
    type Property = fn(&Cache) -> Option<String>;
    let properties: [(&str, Property); 3] = [
        ("size", |cache| Some(cache.size?.to_string())),
        ("line size", |cache| Some(cache.line?.to_string())),
        ("number of ways", |cache| Some(cache.ways?.to_string())),
    ];
    let mut differing = Vec::new();
    for (property, value) in properties {
        let mut by_cache: BTreeMap<&CpuSet, BTreeMap<String, CpuSet>> = BTreeMap::new();
        for (cpu, cache, _) in all {
            if let Some(value) = value(cache) {
                by_cache.entry(&cache.cpus).or_default().entry(value).or_default().insert(*cpu);
            }
        }
        for (cpus, values) in by_cache.into_iter().filter(|(_, values)| values.len() > 1) {
            let values: Vec<String> = values
                .into_iter()
                .map(|(value, by)| format!("{value} by {}", by.named()))
                .collect();
            let text = format!(
                "the {property} of the {name} of {} is {}",
                cpus.named(),
                values.join(" and ")
            );
            differing.push((cpus.clone(), text));
        }
    }
    differing
}

/// The cache in `dir`, and which CPUs share it by the kernel's list.
fn read_one(root: &FsRoot, dir: &str, cpu: CpuId, online: &CpuSet) -> Option<(Cache, Sharers)> {
    let number = |name: &str| root.parse_opt::<u32>(format!("{dir}/{name}")).filter(|&n| n > 0);
    let kind = match root.read_opt(format!("{dir}/type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    // The kernel prints what firmware says: others than these are no caches that it could know.
    let level = root.parse_opt(format!("{dir}/level")).filter(|level| (1..=4).contains(level))?;
    let listed = root.cpus(dir, "shared_cpu_list", "shared_cpu_map").named().unwrap_or_default();
    let listed = listed.intersection(online);
    let sharers = match (listed.is_empty(), listed.contains(cpu)) {
        (true, _) => Sharers::Unknown,
        (_, true) => Sharers::Known(listed),
        (_, false) => Sharers::Without(listed),
    };
    let cache = Cache {
        level,
        kind,
        id: root.parse_opt(format!("{dir}/id")),
        size: root.read_opt(format!("{dir}/size")).and_then(|text| size(&text)),
        line: number("coherency_line_size").map(|bytes| Bytes(bytes.into())),
        ways: number("ways_of_associativity"),
        sets: number("number_of_sets"),
        cpus: match &sharers {
            Sharers::Known(cpus) => cpus.clone(),
            _ => CpuSet::single(cpu),
        },
    };
    Some((cache, sharers))
}

/// `32K`, as sysfs prints sizes; 0 stands for unknown.
fn size(text: &str) -> Option<Bytes> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (bytes > 0).then_some(Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_sysfs() {
        assert_eq!(size("32K"), Some(Bytes::kib(32)));
        assert_eq!(size("105M"), Some(Bytes::mib(105)));
        assert_eq!(size("64"), Some(Bytes(64)));
        for text in ["", "0K", "K", "3.5M", "99999999999999999999K"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
