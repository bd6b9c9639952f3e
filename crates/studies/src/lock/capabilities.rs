//! What a machine has to keep a region in its cache with.

use std::collections::BTreeMap;

use ringfence_experiment::Reason;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::topology::Topology;
use ringfence_machine::units::Bytes;
use ringfence_resctrl::{Domain, Info, Mask, Resource, Schemata, State, plan};
use ringfence_simulator::Description;

use ringfence_limits::lever::Shared;

/// What there is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capabilities {
    /// Ways that the reader can have for itself.
    pub apart: Option<Apart>,
    /// Whether regions can be locked.
    pub can_lock: bool,
    /// Whether a region is locked anew before each window, so that it may be flushed in one of
    /// them: on a described machine.
    pub locks_anew: bool,
}

/// Ways for the reader alone, and what that leaves to others: as an arm's table wants it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Apart {
    /// The reader's.
    pub reader: Schemata,
    /// By group, `/` in front.
    pub others: BTreeMap<String, Schemata>,
}

/// Ways of their own for `bytes` bytes of a cache that resctrl shares out, twice as many as they
/// fill, as in the kernel's pseudo-locking patches: lines do not spread evenly over a few ways.
///
/// # Errors
/// Why there are none.
pub fn shared_out(
    info: &Info,
    state: &State,
    (level, domain): (u32, Domain),
    way: u64,
    bytes: Bytes,
) -> Result<Apart, Reason> {
    let least = info.of_level(level).first().and_then(|resource| info.cache(resource));
    let least = least.map_or(1, |cache| cache.min_cbm_bits);
    let ways = ways_for(bytes, way).max(least);
    let isolation = plan::isolate(info, state, level, &[domain], ways)?;
    let others = isolation
        .shrunk
        .into_iter()
        .map(|(id, schemata)| (format!("/{}", id.path().display()), schemata));
    Ok(Apart { reader: isolation.alone, others: others.collect() })
}

/// The same on a described machine, beside a region of so many bytes that is locked there.
///
/// # Errors
/// Why there are none.
pub fn described(description: &Description, cpu: CpuId, bytes: Bytes) -> Result<Apart, Reason> {
    let mut machine = description.machine();
    if description.processor.pseudo_lock.is_some() {
        machine.resctrl = description.offered_beside_region(bytes.0, cpu);
    }
    let Shared { info, state, .. } = Shared::described(&machine)?;
    let level = description.last_level();
    let cache = machine.topology.data_caches(cpu).find(|cache| u32::from(cache.level) == level);
    let found = cache.and_then(|cache| Some((cache.id?, cache.size?)));
    let (domain, size) = found.ok_or("the CPU has no last-level cache")?;
    let bits = info.of_level(level).first().and_then(|resource| info.cache(resource));
    let bits = bits.map_or(1, |cache| cache.cbm_mask.count().max(1));
    shared_out(&info, &state, (level, domain), size.0 / u64::from(bits), bytes)
}

/// The same by what the topology says of the last-level cache of a CPU, where there is no resctrl
/// to ask: such an arm is not run here, and the experiment's file says what it would have been.
/// `None` where the cache is not known, or too small.
pub fn nominal(topology: &Topology, cpu: CpuId, bytes: Bytes) -> Option<Apart> {
    let cache = topology.data_caches(cpu).max_by_key(|cache| cache.level)?;
    let (ways, size) = (cache.ways?, cache.size?);
    let own = ways_for(bytes, size.0 / u64::from(ways.max(1)));
    if own == 0 || own >= ways || ways > 64 {
        return None;
    }
    let resource = Resource::of(&format!("L{}", cache.level));
    let domain = cache.id.unwrap_or(0);
    let (mut reader, mut others) = (Schemata::new(), Schemata::new());
    reader.set_mask(resource.clone(), domain, Mask::run(0, own));
    others.set_mask(resource, domain, Mask::run(own, ways - own));
    Some(Apart { reader, others: BTreeMap::from([("/".into(), others)]) })
}

fn ways_for(bytes: Bytes, way: u64) -> u32 {
    let ways = (2 * bytes.0).checked_div(way).map_or(0, |_| (2 * bytes.0).div_ceil(way));
    u32::try_from(ways).unwrap_or(u32::MAX)
}
