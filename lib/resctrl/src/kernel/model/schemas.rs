//! The lines that `schemata` has, and which of their caches are there (`core.c`, `rdtgroup.c`).

use super::hardware::Hardware;
use crate::schemata::{Domain, Resource};

/// A resource that is a line of `schemata`.
#[derive(Debug, Clone)]
pub(super) struct Schema {
    pub resource: Resource,
    pub domains: Vec<Domain>,
    pub closids: u32,
}

/// In the order of the file: the last found comes first, and data before code.
pub(super) fn schemas(hardware: &Hardware) -> Vec<Schema> {
    let mut all = Vec::new();
    if let Some(mb) = &hardware.mb {
        all.push(Schema {
            resource: Resource::Mb,
            domains: mb.domains.clone(),
            closids: mb.closids,
        });
    }
    let levels = [
        (&hardware.l2, [Resource::L2, Resource::L2Data, Resource::L2Code]),
        (&hardware.l3, [Resource::L3, Resource::L3Data, Resource::L3Code]),
    ];
    for (cache, [plain, data, code]) in levels {
        let Some(cache) = cache else { continue };
        let closids = if cache.cdp { cache.closids / 2 } else { cache.closids };
        let resources = if cache.cdp { vec![data, code] } else { vec![plain] };
        for resource in resources {
            all.push(Schema { resource, domains: cache.domains.clone(), closids });
        }
    }
    all
}

/// Whether a cache, or the memory behind it, has a CPU that is online.
pub(super) fn is_there(hardware: &Hardware, resource: &Resource, domain: Domain) -> bool {
    // Bandwidth is shared out by the caches that lie before the memory.
    let level = resource.cache_level().unwrap_or(3);
    hardware.cache(level).is_none_or(|cache| !cache.domains.contains(&domain))
        || !hardware.cpus_of(level, domain).is_empty()
}

/// `domain_remove_cpu`: caches whose last CPU is gone are, too.
pub(super) fn go_offline(schemas: &mut [Schema], hardware: &Hardware) {
    for schema in schemas {
        schema.domains.retain(|domain| is_there(hardware, &schema.resource, *domain));
    }
}
