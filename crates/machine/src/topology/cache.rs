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
    let mut sharers: BTreeMap<(u8, CacheKind), Sets> = BTreeMap::new();
    for cpu in online.iter() {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
        let indices = root.numbered(&dir, "index");
        if indices.is_empty() {
            without.insert(cpu);
        }
        for index in indices {
            let Some((cache, shared)) = read_one(root, &format!("{dir}/index{index}"), cpu, online) else {
                continue;
            };
            if shared {
                sharers.entry((cache.level, cache.kind)).or_default().insert(cpu, cache.cpus.clone());
            } else {
                unshared.insert(cpu);
            }
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
        notes.push(format!("the kernel does not tell which CPUs share the caches of {}", unshared.named()));
    }
    for ((level, kind), sets) in &sharers {
        for cpus in contradiction::disagreements(sets) {
            let text = format!(
                "the kernel's lists of the CPUs that share an {} disagree for {}",
                name(*level, *kind),
                cpus.named()
            );
            contradictions.push(Contradiction { relation: Relation::Cache, cpus, text });
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
    caches
}

/// The cache in `dir` and whether the kernel tells its sharers.
fn read_one(root: &FsRoot, dir: &str, cpu: CpuId, online: &CpuSet) -> Option<(Cache, bool)> {
    let number = |name: &str| root.parse_opt::<u32>(format!("{dir}/{name}")).filter(|&n| n > 0);
    let kind = match root.read_opt(format!("{dir}/type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    // The kernel prints what firmware says: others than these are no caches that it could know.
    let level = root.parse_opt(format!("{dir}/level")).filter(|level| (1..=4).contains(level))?;
    let sharers = root
        .cpus(dir, "shared_cpu_list", "shared_cpu_map")
        .named()
        .map(|set| set.intersection(online))
        .filter(|set| set.contains(cpu));
    let shared = sharers.is_some();
    let cache = Cache {
        level,
        kind,
        id: root.parse_opt(format!("{dir}/id")),
        size: root.read_opt(format!("{dir}/size")).and_then(|text| size(&text)),
        line: number("coherency_line_size").map(|bytes| Bytes(bytes.into())),
        ways: number("ways_of_associativity"),
        sets: number("number_of_sets"),
        cpus: sharers.unwrap_or_else(|| CpuSet::single(cpu)),
    };
    Some((cache, shared))
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
