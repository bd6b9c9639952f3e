//! Pseudo-locked regions: memory that is loaded into cache ways that no other data may fill.
//!
//! Three kinds of processor can ([`support`]). [`RegionPlan`] works out the ways and the steps for
//! a [`crate::Transaction`], in the kernel's order; [`Mapped`] maps the region; [`measure`] has the
//! kernel time or count reads of it.
//!
//! Nothing locks a line for good: a flush instruction, another core's wish for the line where
//! caches are not shared, and deep sleep of the caches (which the kernel holds off) take it out
//! (kernel documentation, x86/resctrl, "Cache Pseudo-Locking").

mod map;
mod measure;
#[cfg(test)]
mod tests;

use ringfence_system::cpulist::CpuSet;
use ringfence_system::root::FsRoot;

use crate::error::Error;
use crate::fs::Resctrl;
use crate::id::GroupId;
use crate::info::Info;
use crate::mode::Mode;
use crate::plan;
use crate::schemata::{Domain, Mask, Resource, Schemata};
use crate::state::State;
use crate::transaction::Step;

pub use map::Mapped;
pub use measure::{Measured, What, measure};

/// The most that the kernel locks: its largest piece of contiguous memory (Linux 6.1,
/// `KMALLOC_MAX_SIZE`).
pub const LARGEST: u64 = 4 << 20;

// Linux 6.1, `get_prefetch_disable_bits` in `pseudo_lock.c`.
const MODELS: [(u32, &str); 3] =
    [(0x4f, "Broadwell-X"), (0x5c, "Goldmont"), (0x7a, "Goldmont Plus")];

/// The alternative on machines that cannot lock regions.
pub const ALTERNATIVE: &str = "exclusive ways with preloaded data come closest";

/// Whether regions can be locked into caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// Yes, by this kind of processor.
    Can(&'static str),
    /// No: a sentence that says why, and what to do instead.
    Cannot(String),
}

/// The kind of processor, where it is one into whose caches the kernel locks regions.
pub fn processor(root: &FsRoot) -> Option<&'static str> {
    let cpuinfo = root.cpuinfo();
    let number = |key: &str| field(cpuinfo, key).and_then(|text| text.parse::<u32>().ok());
    let intel = field(cpuinfo, "vendor_id") == Some("GenuineIntel");
    let (family, model) = (number("cpu family"), number("model"));
    let known =
        MODELS.iter().find(|(known, _)| intel && family == Some(6) && model == Some(*known));
    known.map(|(_, name)| *name)
}

// The first processor's; names of several words.
fn field<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    lines.find_map(|(name, value)| (name.trim() == key).then(|| value.trim()))
}

/// Whether the kernel locks regions on this machine, as its processor and the options of the
/// mounted resctrl say. The kernel's word is last.
pub fn support(root: &FsRoot) -> Support {
    let Some(name) = processor(root) else {
        let cpuinfo = root.cpuinfo();
        let here = field(cpuinfo, "model name").unwrap_or("this processor");
        let names = MODELS.map(|(_, name)| name).join(", ");
        return Support::Cannot(format!(
            "the kernel does not lock regions into the caches of {here}, only on {names}; \
             {ALTERNATIVE}"
        ));
    };
    match Resctrl::find(root) {
        Err(why) => Support::Cannot(format!("no region can be locked: {why}")),
        Ok(fs) if fs.options().cdp || fs.options().cdpl2 => Support::Cannot(
            "no region can be locked while code and data have separate ways (CDP): unmount \
             resctrl, and mount it without cdp and cdpl2"
                .into(),
        ),
        Ok(_) => Support::Can(name),
    }
}

/// Facts about a cache that are not in resctrl's own files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cache {
    /// The bytes of a way.
    pub way: u64,
    /// The CPUs below it; none where that is not known.
    pub cpus: CpuSet,
    /// The group with a region in this cache, or in one above or below it.
    pub locked_by: Option<GroupId>,
}

impl Cache {
    /// As the default group's `size` and the machine's topology say.
    ///
    /// # Errors
    /// Where the file cannot be read; or the cache is not one that resctrl shares out.
    pub fn read(root: &FsRoot, fs: &Resctrl, level: u32, domain: Domain) -> Result<Self, Error> {
        let (group, info) = (fs.default_group(), fs.info()?);
        let schemata = group.schemata()?;
        let resource = info.of_level(level).into_iter().next();
        let sizes = group.size()?;
        let way = resource.and_then(|resource| {
            let mut sizes = sizes.iter();
            let size = sizes.find(|size| size.resource == resource && size.domain == domain)?;
            let ways = schemata.mask(&resource, domain)?.count();
            size.amount.checked_div(ways.into())
        });
        let way = way.ok_or_else(|| {
            Error::Usage(format!("resctrl cannot allocate L{level} cache {domain} here"))
        })?;
        let cpus = cpus_below(root, level, domain);
        let locked_by = locked_near(fs, level, domain, &cpus)?;
        Ok(Self { way, cpus, locked_by })
    }
}

// A region of this cache, or of one of another level that shares CPUs with it.
fn locked_near(
    fs: &Resctrl,
    level: u32,
    domain: Domain,
    cpus: &CpuSet,
) -> Result<Option<GroupId>, Error> {
    for group in fs.groups()? {
        if group.mode()? != Some(Mode::PseudoLocked) {
            continue;
        }
        let of = |resource: &Resource| resource.cache_level() == Some(level);
        let schemata = group.schemata()?;
        let same = schemata.settings().any(|(resource, there, _)| of(resource) && there == domain);
        if same || !group.cpus()?.is_disjoint(cpus) {
            return Ok(Some(group.id().clone()));
        }
    }
    Ok(None)
}

fn cpus_below(root: &FsRoot, level: u32, domain: Domain) -> CpuSet {
    let base = "/sys/devices/system/cpu";
    let is_it = |cpu: &u32| {
        let cache = format!("{base}/cpu{cpu}/cache");
        root.numbered(&cache, "index").into_iter().any(|index| {
            root.parse_opt(format!("{cache}/index{index}/level")) == Some(level)
                && root.parse_opt(format!("{cache}/index{index}/id")) == Some(domain)
        })
    };
    root.numbered(base, "cpu").into_iter().filter(is_it).collect()
}

/// A planned region: its ways, and the steps that lock it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionPlan {
    /// The group for the region.
    pub group: GroupId,
    /// The ways, which are adjacent and used by no device and no exclusive group.
    pub mask: Mask,
    /// Its size in bytes: whole ways, at least the requested size.
    pub bytes: u64,
    /// The CPUs from which it can be mapped; none where that is not known.
    pub cpus: CpuSet,
    /// The steps: take the ways from all other groups, create the group, set it up, lock.
    pub steps: Vec<Step>,
}

impl RegionPlan {
    /// Plans a region of at least `bytes` bytes in the cache `domain` at a level.
    ///
    /// # Errors
    /// A sentence that says why it cannot be: more than [`LARGEST`], code and data with ways of
    /// their own, another region in the same hierarchy of caches, or no ways to be had.
    pub fn new(
        group: &GroupId,
        (info, state): (&Info, &State),
        (level, domain): (u32, Domain),
        cache: &Cache,
        bytes: u64,
    ) -> Result<Self, Error> {
        let refuse = |why: String| {
            Err(Error::Usage(format!("no region of {} can be locked: {why}", kib(bytes))))
        };
        if group.is_default() || group.is_monitor() || state.groups.contains_key(group) {
            return refuse(format!("it needs a new control group, not {group}"));
        }
        if info.cdp(2) || info.cdp(3) {
            return refuse(
                "code and data have separate ways (CDP): mount resctrl without cdp and cdpl2"
                    .into(),
            );
        }
        let resource = if level == 2 { Resource::L2 } else { Resource::L3 };
        if info.cache(&resource).is_none() {
            return refuse(format!("resctrl cannot allocate ways of an L{level} here"));
        }
        if bytes == 0 || cache.way == 0 {
            return refuse("it needs at least one byte, and a cache of known size".into());
        }
        let ways = bytes.div_ceil(cache.way);
        let whole = ways.saturating_mul(cache.way);
        if whole > LARGEST {
            let fit = match LARGEST / cache.way {
                0 => "and not even one fits".into(),
                most => format!("so request at most {}", kib(most * cache.way)),
            };
            return refuse(format!(
                "a way of this cache has {}, which makes {}; the kernel locks at most {}, {fit}",
                kib(cache.way),
                kib(whole),
                kib(LARGEST),
            ));
        }
        if let Some(other) = &cache.locked_by {
            return refuse(format!(
                "{other} has a region in this cache or one above or below it: remove that group \
                 first"
            ));
        }
        let isolation = match plan::isolate(info, state, level, &[domain], ways as u32) {
            Ok(isolation) => isolation,
            Err(why) => return refuse(why),
        };
        let split = isolation.splits[&domain];
        if split.with_io {
            return refuse(format!("{ways} ways that no device uses are not available"));
        }
        let shrink = |(id, schemata): (&GroupId, &Schemata)| Step::Schemata {
            group: id.clone(),
            schemata: schemata.clone(),
        };
        let mut steps: Vec<Step> = isolation.shrunk.iter().map(shrink).collect();
        let mut schemata = Schemata::new();
        schemata.set_mask(resource, domain, split.alone);
        steps.extend([
            Step::Create { group: group.clone() },
            Step::Mode { group: group.clone(), mode: Mode::PseudoLocksetup },
            Step::Schemata { group: group.clone(), schemata },
        ]);
        Ok(Self {
            group: group.clone(),
            mask: split.alone,
            bytes: whole,
            cpus: cache.cpus.clone(),
            steps,
        })
    }
}

fn kib(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else if bytes.is_multiple_of(1 << 10) {
        format!("{} KiB", bytes >> 10)
    } else {
        format!("{bytes} bytes")
    }
}
