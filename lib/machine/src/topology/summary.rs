//! A topology in one line.

use std::collections::BTreeMap;

use super::{CacheKind, CoreKind, Topology};

impl Topology {
    /// One line such as `2 sockets x 16 cores x 2 threads, L1d 32KiB, L2 1MiB, L3 2 x 22MiB, 2 NUMA
    /// nodes`.
    pub fn summary(&self) -> String {
        let mut parts = vec![self.processors()];
        if !self.offline.is_empty() {
            parts.push(format!("{} ({})", count(self.offline.len(), "CPU offline"), self.offline));
        }
        let denied = self.online.difference(&self.allowed);
        if !denied.is_empty() {
            parts.push(format!(
                "this process may use {} of {}",
                self.usable().len(),
                self.online.len()
            ));
        }
        parts.extend(self.cache_parts());
        let without = self.nodes.iter().filter(|node| node.without_cpus()).count();
        if self.nodes.len() > 1 {
            let without =
                if without > 0 { format!(", {without} without CPUs") } else { String::new() };
            parts.push(format!("{} NUMA nodes{without}", self.nodes.len()));
        }
        parts.join(", ")
    }

    fn processors(&self) -> String {
        let of_kind = |kind| self.cores.iter().filter(|core| core.kind == Some(kind)).count();
        let kinds = CoreKind::ALL.map(|kind| (of_kind(kind), kind.name()));
        let kinds: Vec<String> =
            kinds.into_iter().filter(|(n, _)| *n > 0).map(|(n, name)| count(n, name)).collect();
        if !kinds.is_empty() {
            let mut kinds = kinds;
            let unknown = self.cores.iter().filter(|core| core.kind.is_none()).count();
            kinds.extend((unknown > 0).then(|| count(unknown, "core of unknown kind")));
            return format!("{}, {}", kinds.join(" + "), count(self.online.len(), "CPU online"));
        }
        let packages = self.packages.len();
        let per_package = self.cores.len().checked_div(packages).unwrap_or(0);
        let per_core = self.online.len().checked_div(self.cores.len()).unwrap_or(0);
        let regular = self.cores.iter().all(|core| core.cpus.len() == per_core);
        if !regular || packages * per_package * per_core != self.online.len() {
            return count(self.online.len(), "CPU");
        }
        let mut parts = vec![count(packages, "socket")];
        let dies = self.dies.len() / packages;
        if dies > 1 && self.dies.iter().all(|die| die.cpus.len() * dies == per_package * per_core) {
            parts.extend([count(dies, "die"), count(per_package / dies, "core")]);
        } else {
            parts.push(count(per_package, "core"));
        }
        parts.push(count(per_core, "thread"));
        parts.join(" x ")
    }

    /// `L1d 32KiB` for private caches, `L3 2 x 22MiB` for those that cores share.
    fn cache_parts(&self) -> Vec<String> {
        let mut by_size: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for cache in self.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction) {
            by_size.entry((cache.level, cache.kind, cache.size)).or_default().push(cache);
        }
        let one_core = |cpus: &crate::cpulist::CpuSet| {
            cpus.first()
                .and_then(|cpu| self.core_of(cpu))
                .is_some_and(|core| cpus.is_subset(&core.cpus))
        };
        by_size
            .into_iter()
            .filter_map(|((_, _, size), caches)| {
                let (name, size) = (caches[0].name(), size?);
                let shared = !caches.iter().all(|cache| one_core(&cache.cpus));
                Some(if shared && caches.len() > 1 {
                    format!("{name} {} x {size}", caches.len())
                } else {
                    format!("{name} {size}")
                })
            })
            .collect()
    }
}

fn count(n: usize, what: &str) -> String {
    match (n, what.split_once(' ')) {
        (1, _) => format!("1 {what}"),
        (_, None) => format!("{n} {what}s"),
        (_, Some((noun, rest))) => format!("{n} {noun}s {rest}"),
    }
}
