//! What resctrl shares out on a described machine, and what an arm's table sets of it in a run.
//!
//! Each group is a class of service, in each last-level cache another one of the simulator's, since masks and limits
//! differ by cache. A percentage of bandwidth control is taken of the requests that a core's fill buffers can make of DRAM
//! when nothing else asks it for anything: the SDM leaves it to the processor what a percentage is of.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ringfence_engine::isolation::Settings;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::{Memory, Read, Task};
use ringfence_experiment::{Arm, Experiment};
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::resctrl::Offered;
use ringfence_machine::units::Bytes;
use ringfence_persist::LINE;
use ringfence_resctrl::info::{BandwidthInfo, BitUsage, CacheInfo, IoAlloc, ThrottleMode, Unit};
use ringfence_resctrl::{GroupId, GroupState, Info, Mask, Mode, MountOptions, Resource, Schemata, State};
use ringfence_sim::{Region, Run, SetupError, Thread};

use crate::file::{Description, Vendor};

// As many classes as a run tells apart.
const CLASSES: usize = 16;
// Amounts that limit nothing (Linux, `MAX_MBA_BW` and `MAX_MBA_BW_AMD`).
const ALL_PERCENT: u64 = 100;
const ALL_EIGHTHS: u64 = 1 << 11;

impl Description {
    /// As what [`Description::machine`] says of resctrl, while a region of so many bytes is locked into the last-level cache
    /// that a CPU uses.
    pub fn offered_beside_region(&self, bytes: u64, cpu: CpuId) -> Option<Offered> {
        let mut offered = self.offered()?;
        let (llc, level) = (self.llc_and_socket(cpu).0, self.last_level_resource());
        let locked = Mask::run(0, self.bits_for(bytes));
        let cache = offered.info.caches.get_mut(level.name())?;
        let letter = |bit: u32| if locked.0 >> bit & 1 == 1 { 'P' } else { 'S' };
        cache.bit_usage.insert(llc, BitUsage((0..self.mask_bits()).rev().map(letter).collect()));
        offered.default.set_mask(level, llc, cache.cbm_mask.without(locked));
        Some(offered)
    }

    // How many bits of a mask hold so many bytes.
    fn bits_for(&self, bytes: u64) -> u32 {
        let of_bit = u64::from(self.parts.llc.size_kib) * 1024 / u64::from(self.mask_bits());
        u32::try_from(bytes.div_ceil(of_bit.max(1))).unwrap_or(u32::MAX)
    }

    /// What resctrl shares out, with the default group having all of it; `None` where the processor has none of it. No
    /// way is shared with I/O, which is not simulated.
    pub(crate) fn offered(&self) -> Option<Offered> {
        let num_closids = self.processor.classes?;
        let amd = self.processor.vendor == Vendor::Amd;
        let bits = self.mask_bits();
        let domains = || 0..self.llcs();
        let cache = CacheInfo {
            num_closids,
            cbm_mask: Mask::run(0, bits),
            // Linux takes an empty mask on AMD, which fills nothing; the simulator has none such.
            min_cbm_bits: 1,
            shareable_bits: Mask(0),
            sparse_masks: amd,
            bit_usage: domains().map(|domain| (domain, BitUsage("S".repeat(bits as usize)))).collect(),
            io_alloc: IoAlloc::Unsupported,
        };
        let bandwidth = BandwidthInfo {
            num_closids,
            min_bandwidth: if amd { 1 } else { 10 },
            bandwidth_gran: if amd { 1 } else { 10 },
            delay_linear: true,
            throttle: ThrottleMode::Unknown,
            unit: if amd { Unit::EighthsOfGigabyte } else { Unit::Percent },
        };
        let level = self.last_level_resource();
        let mut default = Schemata::new();
        for domain in domains() {
            default.set_mask(level.clone(), domain, cache.cbm_mask);
            if self.processor.bandwidth_control {
                default.set_amount(Resource::Mb, domain, if amd { ALL_EIGHTHS } else { ALL_PERCENT });
            }
        }
        let limits = self.processor.bandwidth_control.then(|| (Resource::Mb.name().to_owned(), bandwidth));
        Some(Offered {
            options: MountOptions::default(),
            info: Info {
                caches: BTreeMap::from([(level.name().to_owned(), cache)]),
                bandwidths: limits.into_iter().collect(),
                ..Info::default()
            },
            default,
            groups: 0,
            closids_free: Some(num_closids - 1),
            rmids_free: None,
        })
    }

    // The ways that a mask's bits stand for.
    fn ways(&self, mask: Mask) -> u32 {
        let (bits, ways) = (self.mask_bits(), self.parts.llc.ways);
        let of_bit =
            |bit: u32| (bit * ways / bits..(bit + 1) * ways / bits).fold(0, |all, way| all | 1 << way);
        (0..bits).filter(|bit| mask.0 >> bit & 1 == 1).fold(0, |all, bit| all | of_bit(bit))
    }

    // The least time between two requests of a core, for a percentage.
    fn gap_ns(&self, percent: u64) -> f64 {
        if percent >= ALL_PERCENT {
            return 0.0;
        }
        self.scale().miss_ns / f64::from(self.parts.core.fill_buffers) * ALL_PERCENT as f64 / percent as f64
    }
}

// The least time between two reads of a last-level cache, for eighths of a GB/s.
fn read_gap_ns(eighths: u64) -> f64 {
    if eighths >= ALL_EIGHTHS { 0.0 } else { LINE as f64 * 8.0 / eighths as f64 * 1e9 / f64::from(1 << 30) }
}

// The machine's groups before anything is set: the default one.
fn before(offered: &Offered) -> State {
    let default = GroupState {
        mode: Some(Mode::Shareable),
        schemata: offered.default.clone(),
        cpus: Default::default(),
        threads: Vec::new(),
    };
    State { groups: BTreeMap::from([(GroupId::default(), default)]), ..State::default() }
}

fn with_arms(experiment: &Experiment, keep: impl Fn(&Arm) -> bool) -> Experiment {
    let mut experiment = experiment.clone();
    experiment.arms.iter_mut().filter(|arm| !keep(arm)).for_each(|arm| arm.resctrl.clear());
    experiment
}

/// A region that is locked into a last-level cache.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lock {
    device: PathBuf,
    llc: u32,
    bytes: u64,
    // The bits of a mask that it takes.
    bits: Mask,
}

/// Devices whose regions these cases read, how much of each, and by whom.
pub fn locked<'a>(
    plan: &'a Plan,
    cases: &'a [usize],
) -> impl Iterator<Item = (&'a PathBuf, Bytes, &'a Active)> {
    let active = cases.iter().flat_map(|case| &plan.cases[*case].active);
    active.filter_map(|active| match &plan.variants[active.role][active.variant].task {
        Task::Read(Read { memory: Memory::Locked(device), size, .. }) => Some((device, *size, active)),
        _ => None,
    })
}

// The regions that readers of these cases have, and the bits that each takes of its cache's masks.
fn locks(plan: &Plan, description: &Description, cases: &[usize]) -> Result<Vec<Lock>, String> {
    let mut found: Vec<Lock> = Vec::new();
    for (device, size, active) in locked(plan, cases) {
        for cpu in plan.placed.cpus[active.role].iter().take(active.count as usize) {
            let llc = description.llc_and_socket(*cpu).0;
            match found.iter_mut().find(|lock| lock.device == *device && lock.llc == llc) {
                Some(lock) => lock.bytes = lock.bytes.max(size.0),
                None => found.push(Lock { device: device.clone(), llc, bytes: size.0, bits: Mask(0) }),
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

/// Why a region cannot be locked on a described machine, if so, to follow "because".
pub fn not_locked(plan: &Plan, case: usize, description: &Description) -> Option<String> {
    let lacks = description.processor.pseudo_lock.is_none();
    let regions = locks(plan, description, &[case]);
    match regions {
        Err(why) => Some(why),
        Ok(regions) if regions.is_empty() || !lacks => None,
        Ok(_) => Some("Linux does not lock regions into the caches of the described processor".into()),
    }
}

/// The measured cases, and their baselines.
pub fn run_cases(plan: &Plan) -> Vec<usize> {
    let both = |case: usize| [Some(case), plan.cases[case].baseline];
    plan.measured().into_iter().flat_map(both).flatten().collect()
}

// The ways that regions take from everybody in a cache.
fn locked_bits(locks: &[Lock], llc: u32) -> Mask {
    locks.iter().filter(|lock| lock.llc == llc).fold(Mask(0), |all, lock| all.or(lock.bits))
}

/// Why a described machine cannot hold what an arm asks of resctrl, if so, to follow "because".
pub fn missing(plan: &Plan, arm: &Arm, description: &Description) -> Option<String> {
    if arm.resctrl.is_empty() {
        return None;
    }
    let Some(offered) = description.offered() else {
        return Some("the described processor shows no RDT (Intel) or PQoS (AMD)".into());
    };
    let own = with_arms(&plan.experiment, |one| one.name == arm.name);
    let settings = match Settings::of(&own, &before(&offered)) {
        Ok(settings) => settings?,
        Err(why) => return Some(why),
    };
    let groups = settings.roles.len() + 1;
    let most = offered.info.num_closids().unwrap_or(0) as usize;
    if groups > most {
        return Some(format!("it takes {groups} groups, and the described processor has {most}"));
    }
    let all: Vec<usize> = (0..plan.cases.len()).collect();
    let locks = description.processor.pseudo_lock.and_then(|_| locks(plan, description, &all).ok());
    let locks = locks.unwrap_or_default();
    let refused = arm.resctrl.values().find_map(|schemata| refused(schemata, &offered.info, &locks));
    refused.or_else(|| {
        let classes = classes(plan, description, Some(&settings)).len() + locks.len();
        (classes > CLASSES).then(|| {
            format!("it takes {classes} classes of service, one for each group and cache, and at most {CLASSES} are simulated")
        })
    })
}

// What the kernel would refuse of it (Linux, `cbm_validate` and `bw_validate`).
fn refused(schemata: &Schemata, info: &Info, locks: &[Lock]) -> Option<String> {
    let named = schemata.settings().map(|(resource, domain, _)| (resource.clone(), domain));
    named.into_iter().find_map(|(resource, domain)| {
        if let (Some(mask), Some(cache)) = (schemata.mask(&resource, domain), info.cache(&resource)) {
            let gaps = !cache.sparse_masks && !mask.is_contiguous();
            return if !mask.is_within(cache.cbm_mask) {
                Some(format!("{resource}:{domain}={mask} has bits beyond {}", cache.cbm_mask))
            } else if mask.overlaps(locked_bits(locks, domain)) {
                Some(format!("{resource}:{domain}={mask} has parts of the cache that a locked region takes"))
            } else if mask.count() < cache.min_cbm_bits {
                Some(format!("{resource}:{domain}={mask} has too few bits"))
            } else {
                gaps.then(|| {
                    format!("{resource}:{domain}={mask} has gaps, which this processor does not take")
                })
            };
        }
        let (amount, limit) = (schemata.amount(&resource, domain)?, info.bandwidth()?);
        let most = if limit.unit == Unit::Percent { ALL_PERCENT } else { ALL_EIGHTHS };
        (!(limit.least()..=most).contains(&amount))
            .then(|| format!("{resource}:{domain}={amount} is not from {} to {most}", limit.least()))
    })
}

// The group of a role, and a cache that one of its CPUs uses: the simulator's classes, in order.
fn classes(plan: &Plan, description: &Description, settings: Option<&Settings>) -> Vec<(GroupId, u32)> {
    let cpus = |role: usize| plan.placed.cpus[role].iter();
    let of_role = |role: usize| {
        let group = group_of(settings, role);
        cpus(role).map(move |cpu| (group.clone(), description.llc_and_socket(*cpu).0)).collect::<Vec<_>>()
    };
    let all: BTreeSet<(GroupId, u32)> = (0..plan.placed.cpus.len()).flat_map(of_role).collect();
    all.into_iter().collect()
}

fn group_of(settings: Option<&Settings>, role: usize) -> GroupId {
    settings.and_then(|settings| settings.roles.get(&role)).cloned().unwrap_or_default()
}

/// What the arms of a plan set, for as long as it is measured.
pub struct Partitions {
    settings: Option<Settings>,
    classes: Vec<(GroupId, u32)>,
    // Their classes follow those of the groups.
    locks: Vec<Lock>,
    default: Schemata,
    info: Info,
}

impl Partitions {
    /// Those of a plan whose cases were looked at by [`missing`] and [`not_locked`]; `None` where none that is measured sets
    /// anything or reads a locked region.
    pub fn of(plan: &Plan, description: &Description) -> Option<Self> {
        let offered = description.offered()?;
        let measured: BTreeSet<&str> =
            plan.measured().into_iter().map(|case| plan.cases[case].arm.as_str()).collect();
        let own = with_arms(&plan.experiment, |arm| measured.contains(arm.name.as_str()));
        let settings = Settings::of(&own, &before(&offered)).ok()?;
        let locks = locks(plan, description, &run_cases(plan)).ok()?;
        let classes = classes(plan, description, settings.as_ref());
        let wanted = settings.is_some() || !locks.is_empty();
        (wanted && classes.len() + locks.len() <= CLASSES).then_some(Self {
            settings,
            classes,
            locks,
            default: offered.default,
            info: offered.info,
        })
    }

    /// The class of a role on a CPU.
    pub fn class(&self, role: usize, llc: u32) -> usize {
        let group = group_of(self.settings.as_ref(), role);
        self.classes.iter().position(|class| *class == (group.clone(), llc)).unwrap_or_default()
    }

    /// Sets what an arm asks for, and for all others what they had before.
    ///
    /// # Errors
    /// What the simulator refuses.
    pub fn set(&self, arm: usize, description: &Description, run: &mut Run) -> Result<(), SetupError> {
        let level = description.last_level_resource();
        for (class, (group, llc)) in self.classes.iter().enumerate() {
            let set = self.settings.as_ref().and_then(|settings| settings.arms[arm].get(group));
            let schemata = set.map_or_else(|| self.default.clone(), |set| self.default.overlaid(set));
            let mask = schemata.mask(&level, *llc).unwrap_or(Mask(u64::MAX));
            let mask = mask.without(locked_bits(&self.locks, *llc));
            let limit = self.info.bandwidth().zip(schemata.amount(&Resource::Mb, *llc));
            let (gap, read_gap) = match limit {
                Some((info, amount)) if info.unit == Unit::Percent => {
                    (description.gap_ns(info.round_up(amount)), 0.0)
                }
                Some((info, amount)) => (0.0, read_gap_ns(info.round_up(amount))),
                None => (0.0, 0.0),
            };
            run.set_class(class, description.ways(mask), gap)?;
            run.limit_reads(class, read_gap)?;
        }
        Ok(())
    }

    /// Locks a region into the cache below a thread, as the kernel does: it is read into ways that nobody may fill
    /// afterwards. Where it was locked before, it is locked anew.
    ///
    /// # Errors
    /// What the simulator refuses.
    pub fn lock(
        &self,
        (device, llc): (&Path, u32),
        description: &Description,
        run: &mut Run,
        (thread, region): (Thread, Region),
    ) -> Result<(), SetupError> {
        let found = self.locks.iter().position(|lock| lock.device == device && lock.llc == llc);
        let Some(number) = found else { return Ok(()) };
        let class = self.classes.len() + number;
        run.set_class(class, description.ways(self.locks[number].bits), 0.0)?;
        run.fill(thread, class, region)
    }
}
