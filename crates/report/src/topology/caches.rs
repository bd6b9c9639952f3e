//! The table of caches, equal ones in one row.

use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::topology::{Cache, CoreKind, Topology};

use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::plural;

/// Appends the table, after an empty line; nothing where no caches are known.
pub(crate) fn caches(out: &mut String, topology: &Topology, style: &Style) {
    if topology.caches.is_empty() {
        return;
    }
    let mut kinds: Vec<(&Cache, usize)> = Vec::new();
    for cache in &topology.caches {
        match kinds.iter_mut().find(|(known, _)| equal(topology, known, cache)) {
            Some((_, instances)) => *instances += 1,
            None => kinds.push((cache, 1)),
        }
    }
    let hybrid = topology.cores.iter().any(|core| core.kind.is_some());
    let mut columns = vec![Column::left("cache")];
    columns.extend(hybrid.then(|| Column::left("of")));
    columns.extend(["size", "line", "ways", "instances"].map(Column::right));
    columns.push(Column::left("each shared by"));
    let mut table = Table::new(columns);
    for (cache, instances) in kinds {
        let mut row = vec![Cell::new(cache.name())];
        row.extend(hybrid.then(|| Cell::new(owners(topology, cache))));
        let ways = cache.ways.map(|ways| ways.to_string());
        for text in [
            cache.size.map(|size| size.to_string()),
            cache.line.map(|line| line.to_string()),
            ways,
            Some(instances.to_string()),
        ] {
            row.push(Cell::new(text.unwrap_or_else(|| "?".into())));
        }
        row.push(Cell::new(sharers(topology, cache)));
        table.row(row);
    }
    crate::text::section(out);
    out.push_str(&table.render(style));
}

fn equal(topology: &Topology, a: &Cache, b: &Cache) -> bool {
    let looks = |cache: &Cache| {
        (cache.level, cache.kind, cache.size, cache.line, cache.ways, cache.cpus.len())
    };
    looks(a) == looks(b) && owners(topology, a) == owners(topology, b)
}

/// The kinds of cores that a cache serves: `P-cores`, `E-cores, LP-E-cores`, or `all` of those that
/// there are.
fn owners(topology: &Topology, cache: &Cache) -> String {
    let kinds = |cpus: &CpuSet| -> Vec<CoreKind> {
        let has = |kind: &CoreKind| {
            cpus.iter().any(|cpu| topology.cpu(cpu).is_some_and(|cpu| cpu.kind == Some(*kind)))
        };
        CoreKind::ALL.into_iter().filter(has).collect()
    };
    let own = kinds(&cache.cpus);
    if own.len() > 1 && own == kinds(&topology.online) {
        return "all".into();
    }
    own.iter().map(|kind| format!("{}s", kind.name())).collect::<Vec<_>>().join(", ")
}

/// `16 CPUs (8 cores)`.
fn sharers(topology: &Topology, cache: &Cache) -> String {
    let cpus = plural(cache.cpus.len(), "CPU");
    // A CPU whose core is unknown may be a core of its own.
    if cache.cpus.iter().any(|cpu| topology.core_of(cpu).is_none()) {
        return cpus;
    }
    match topology.cores.iter().filter(|core| !core.cpus.is_disjoint(&cache.cpus)).count() {
        cores if cores == 0 || cores == cache.cpus.len() => cpus,
        cores => format!("{cpus} ({})", plural(cores, "core")),
    }
}
