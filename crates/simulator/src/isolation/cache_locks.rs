//! Regions that are locked into a last-level cache, and the parts of it that they take from all
//! classes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfence_experiment::Reason;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::{Memory, Read, Task};
use ringfence_machine::units::Bytes;
use ringfence_resctrl::Mask;

use super::capabilities::mounted;
use crate::file::Description;

/// A region that is locked into a last-level cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lock {
    pub device: PathBuf,
    pub llc: u32,
    bytes: u64,
    /// The bits of a mask that it takes.
    pub bits: Mask,
}

/// Devices whose regions these cases read, how much of each, and the roles that read them.
pub fn locked<'a>(
    plan: &'a Plan,
    cases: &'a [usize],
) -> impl Iterator<Item = (&'a PathBuf, Bytes, &'a Active)> {
    let active = cases.iter().flat_map(|case| &plan.cases[*case].active);
    active.filter_map(|active| match &plan.variants[active.role][active.variant].task {
        Task::Read(Read { memory: Memory::Locked(device), size, .. }) => {
            Some((device, *size, active))
        }
        _ => None,
    })
}

/// The regions that readers of these cases have, and the bits that each takes of its cache's masks.
pub(super) fn locks(
    plan: &Plan,
    description: &Description,
    cases: &[usize],
) -> Result<Vec<Lock>, String> {
    let mut found: Vec<Lock> = Vec::new();
    for (device, size, active) in locked(plan, cases) {
        for cpu in plan.placed.cpus[active.role].iter().take(active.count as usize) {
            let llc = description.llc_and_socket(*cpu).0;
            match found.iter_mut().find(|lock| lock.device == *device && lock.llc == llc) {
                Some(lock) => lock.bytes = lock.bytes.max(size.0),
                None => {
                    found.push(Lock { device: device.clone(), llc, bytes: size.0, bits: Mask(0) })
                }
            }
        }
    }
    let most = description.mask_bits();
    let mut taken: BTreeMap<u32, u32> = BTreeMap::new();
    for lock in &mut found {
        let (first, bits) = (taken.entry(lock.llc).or_default(), description.bits_for(lock.bytes));
        if first.saturating_add(bits) >= most {
            return Err(format!(
                "locked regions would take all {most} parts of the cache, and others need one"
            ));
        }
        lock.bits = Mask::run(*first, bits);
        *first += bits;
    }
    Ok(found)
}

/// Why a region cannot be locked on a described machine, if so.
pub fn not_locked(plan: &Plan, case: usize, description: &Description) -> Option<Reason> {
    let lacks = description.processor.pseudo_lock.is_none();
    let options = mounted(&plan.experiment);
    match locks(plan, description, &[case]) {
        Err(why) => Some(why.into()),
        Ok(regions) if regions.is_empty() => None,
        Ok(_) if lacks => {
            Some("Linux does not lock regions into the caches of the described processor".into())
        }
        // Linux, `rdtgroup_locksetup_enter`: "CDP enabled".
        Ok(_) if options.cdp || options.cdpl2 => {
            Some("Linux locks no regions while code and data have masks of their own".into())
        }
        Ok(_) => None,
    }
}

/// The bits that regions take from all classes in a cache.
pub(super) fn locked_bits(locks: &[Lock], llc: u32) -> Mask {
    locks.iter().filter(|lock| lock.llc == llc).fold(Mask(0), |all, lock| all.or(lock.bits))
}
