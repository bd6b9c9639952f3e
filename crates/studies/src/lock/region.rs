//! Pseudo-locked regions that outlive the program that created them: each has its own journal, from
//! which removing it restores what was taken from other groups.

use std::path::PathBuf;

use ringfence_machine::cpulist::CpuId;
use ringfence_machine::root::FsRoot;
use ringfence_machine::topology::Topology;
use ringfence_machine::units::Bytes;
use ringfence_resctrl::pseudo::{self, Cache, Measured, RegionPlan, Support, What};
use ringfence_resctrl::transaction::{self, Restored};
use ringfence_resctrl::{Domain, Error, GroupId, Mode, Options, Resctrl, State, Transaction};
use serde::Serialize;

/// The region that a measurement makes for itself.
pub const NAME: &str = "ringfence-lock";

/// The level and number of the cache in which a region for a CPU lies: the L3 if resctrl shares it
/// out, else the L2.
///
/// # Errors
/// Where neither is shared out, or the kernel does not tell which cache the CPU uses.
pub fn default_cache(
    fs: &Resctrl,
    topology: &Topology,
    level: Option<u32>,
    cpu: CpuId,
) -> Result<(u32, Domain), Error> {
    let info = fs.info()?;
    let shared = |level: &u32| !info.of_level(*level).is_empty();
    let level = match level {
        Some(level) => level,
        None => [3, 2].into_iter().find(shared).ok_or_else(|| {
            Error::Usage(
                "resctrl cannot allocate cache here, it offers only bandwidth or monitoring".into(),
            )
        })?,
    };
    let cache = topology.data_caches(cpu).find(|cache| u32::from(cache.level) == level);
    let domain = cache.and_then(|cache| cache.id);
    let why = || {
        Error::Usage(format!(
            "the kernel does not report which L{level} CPU {cpu} uses: name it with --cache"
        ))
    };
    domain.map(|domain| (level, domain)).ok_or_else(why)
}

/// Plans a region, and makes it unless `dry`: it stays until [`remove`].
///
/// # Errors
/// As [`RegionPlan::new`]; the processor cannot; or the kernel's refusal, after which everything is
/// as before.
pub fn create(
    root: &FsRoot,
    fs: &Resctrl,
    name: &str,
    (level, domain): (u32, Domain),
    bytes: Bytes,
    dry: bool,
    options: &Options,
) -> Result<RegionPlan, Error> {
    if let Support::Cannot(why) = pseudo::support(root) {
        return Err(Error::Usage(why));
    }
    let group: GroupId = name.parse()?;
    let plan = |state: &State| {
        let cache = Cache::read(root, fs, level, domain)?;
        RegionPlan::new(&group, (&fs.info()?, state), (level, domain), &cache, bytes.0)
    };
    if dry {
        return plan(&State::read(fs)?);
    }
    let mut change = Transaction::begin(fs, &format!("lock create {name}"), options)?;
    let planned = plan(change.before())?;
    removable(fs)?;
    for step in &planned.steps {
        change.apply(step.clone())?;
    }
    change.keep_named(name)?;
    Ok(planned)
}

// Refuses to make a region that could then not be removed.
fn removable(fs: &Resctrl) -> Result<(), Error> {
    let Some(why) = fs.kernel().unseen() else { return Ok(()) };
    Err(Error::Usage(format!(
        "no region was created, because it could not be removed from here: {why}, and the kernel \
         can crash when a region in use is removed; run this as root outside any container, where \
         /proc shows every process"
    )))
}

/// Removes a region that [`create`] created, and restores what was taken from other groups for it.
///
/// # Errors
/// [`Error::Busy`] while a process uses it; where Ringfence did not make it; or the kernel's
/// refusal.
pub fn remove(fs: &Resctrl, name: &str, options: &Options) -> Result<Restored, Error> {
    let group = fs.group(&name.parse()?);
    if group.exists() {
        group.refuse_while_mapped(&format!("removing region '{name}'"))?;
    }
    match transaction::undo_named(fs, name, options)? {
        Some(restored) => Ok(restored),
        None if group.exists() && elsewhere(name).is_some() => Err(Error::Usage(format!(
            "the journal of '{name}' is in another folder: run 'ringfence lock remove {name} \
             --folder {}'",
            elsewhere(name).unwrap_or_default().display()
        ))),
        None if group.exists() => Err(Error::Usage(format!(
            "'{name}' was not created by 'ringfence lock create': if nothing needs it, remove it \
             with rmdir {}",
            group.place("")
        ))),
        None => Err(Error::Usage(format!(
            "there is no region '{name}'; 'ringfence lock list' shows the existing ones"
        ))),
    }
}

// The folder of the journal of a region, whichever run made it.
fn elsewhere(name: &str) -> Option<PathBuf> {
    let mut left = transaction::left(&FsRoot::host(), None).into_iter();
    left.find(|left| left.past.is_none() && left.name.as_deref() == Some(name))
        .map(|left| left.folder)
}

fn group_users(fs: &Resctrl, name: &str) -> Result<Vec<u32>, Error> {
    let group = fs.group(&name.parse()?);
    let locked = group.mode()? == Some(Mode::PseudoLocked);
    Ok(if locked { fs.kernel().users_of(&group.device()) } else { Vec::new() })
}

/// A region that there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LockedRegion"))]
pub struct Region {
    /// Its name.
    pub name: String,
    /// The cache, such as `L3:0`.
    pub cache: String,
    /// Its mask.
    pub mask: String,
    /// Its bytes.
    pub bytes: u64,
    /// The CPUs from which it can be mapped.
    pub cpus: String,
    /// The device that is mapped.
    pub device: String,
    /// Processes that use it, as far as they can be seen.
    pub users: Vec<u32>,
    /// Why there may be others that use it; absent where there are none.
    pub unseen: Option<String>,
    /// Whether [`remove`] can remove it.
    pub ours: bool,
}

/// All regions, including those that other programs have made.
///
/// # Errors
/// Where the groups cannot be read.
pub fn locked(root: &FsRoot, fs: &Resctrl, options: &Options) -> Result<Vec<Region>, Error> {
    let left = transaction::left(root, options.folder.as_deref());
    let unseen = fs.kernel().unseen();
    let mut regions = Vec::new();
    for group in fs.groups()? {
        if group.id().is_monitor() || group.mode()? != Some(Mode::PseudoLocked) {
            continue;
        }
        let name = group.id().name().to_owned();
        let schemata = group.schemata()?;
        let first = schemata.settings().next();
        let first = first
            .map(|(resource, domain, mask)| (format!("{resource}:{domain}"), mask.to_string()));
        let (cache, mask) = first.unwrap_or_default();
        regions.push(Region {
            ours: left
                .iter()
                .any(|left| left.past.is_none() && left.name.as_deref() == Some(&name)),
            users: group_users(fs, &name)?,
            unseen: unseen.clone(),
            bytes: group.size()?.first().map_or(0, |size| size.amount),
            cpus: group.cpus()?.to_string(),
            device: group.device().display().to_string(),
            name,
            cache,
            mask,
        });
    }
    Ok(regions)
}

/// What the kernel counted in passes over a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LockMisses"))]
pub struct Misses {
    /// Its bytes: whole ways.
    pub bytes: u64,
    /// The sizes asked for that come to it.
    pub asked: Vec<u64>,
    /// Misses of each pass.
    pub misses: Vec<u64>,
    /// Lines of a pass.
    pub lines: u64,
}

/// Creates a region of each size in turn, and has the kernel count the misses of a number of passes
/// over it (debugfs, `pseudo_lock_measure`). Sizes that come to the same ways are measured once.
/// Everything is restored in between.
///
/// # Errors
/// As [`create`]; what the kernel's measurement lacks; or a stop that was wanted.
#[allow(clippy::too_many_arguments)]
pub fn misses(
    root: &FsRoot,
    fs: &Resctrl,
    (level, domain): (u32, Domain),
    sizes: &[Bytes],
    repeats: u32,
    options: &Options,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Misses>, Error> {
    if let Support::Cannot(why) = pseudo::support(root) {
        return Err(Error::Usage(why));
    }
    removable(fs)?;
    let what = if level == 2 { What::L2 } else { What::L3 };
    let mut all: Vec<Misses> = Vec::new();
    for size in sizes {
        let mut change = Transaction::begin(fs, "lock misses", options)?;
        let cache = Cache::read(root, fs, level, domain)?;
        let group = GroupId::control(NAME);
        let planned = RegionPlan::new(
            &group,
            (&fs.info()?, change.before()),
            (level, domain),
            &cache,
            size.0,
        )?;
        if let Some(same) = all.iter_mut().find(|known| known.bytes == planned.bytes) {
            same.asked.push(size.0);
            continue;
        }
        for step in planned.steps {
            change.apply(step)?;
        }
        let mut found =
            Misses { bytes: planned.bytes, asked: vec![size.0], misses: Vec::new(), lines: 0 };
        for _ in 0..repeats {
            if stop() {
                change.restore()?;
                return Err(Error::Busy("interrupted: all changes were undone".into()));
            }
            if let Measured::Residency { hits, misses } =
                pseudo::measure(root, &fs.group(&group), what)?
            {
                found.misses.push(misses);
                found.lines = hits + misses;
            }
        }
        change.restore()?;
        all.push(found);
    }
    Ok(all)
}
