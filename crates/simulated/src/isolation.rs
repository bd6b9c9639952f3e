//! What resctrl shares out on a described machine, and what an arm's table sets of it in a run.
//!
//! Each group is a class of service, in each last-level cache another one of the simulator's, since masks and limits
//! differ by cache. A percentage of bandwidth control is taken of the requests that a core's fill buffers can make of DRAM
//! when nothing else asks it for anything: the SDM leaves it to the processor what a percentage is of.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_engine::isolation::Settings;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::{Arm, Experiment};
use ringfence_machine::resctrl::Offered;
use ringfence_persist::LINE;
use ringfence_resctrl::info::{BandwidthInfo, BitUsage, CacheInfo, IoAlloc, ThrottleMode, Unit};
use ringfence_resctrl::{GroupId, GroupState, Info, Mask, Mode, MountOptions, Resource, Schemata, State};
use ringfence_sim::{Run, SetupError};

use crate::file::{Description, Vendor};

// As many classes as a run tells apart.
const CLASSES: usize = 16;
// Amounts that limit nothing (Linux, `MAX_MBA_BW` and `MAX_MBA_BW_AMD`).
const ALL_PERCENT: u64 = 100;
const ALL_EIGHTHS: u64 = 1 << 11;

impl Description {
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
    let refused = arm.resctrl.values().find_map(|schemata| refused(schemata, &offered.info));
    refused.or_else(|| {
        let classes = classes(plan, description, &settings).len();
        (classes > CLASSES).then(|| {
            format!("it takes {classes} classes of service, one for each group and cache, and at most {CLASSES} are simulated")
        })
    })
}

// What the kernel would refuse of it (Linux, `cbm_validate` and `bw_validate`).
fn refused(schemata: &Schemata, info: &Info) -> Option<String> {
    let named = schemata.settings().map(|(resource, domain, _)| (resource.clone(), domain));
    named.into_iter().find_map(|(resource, domain)| {
        if let (Some(mask), Some(cache)) = (schemata.mask(&resource, domain), info.cache(&resource)) {
            let gaps = !cache.sparse_masks && !mask.is_contiguous();
            return if !mask.is_within(cache.cbm_mask) {
                Some(format!("{resource}:{domain}={mask} has bits beyond {}", cache.cbm_mask))
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
fn classes(plan: &Plan, description: &Description, settings: &Settings) -> Vec<(GroupId, u32)> {
    let cpus = |role: usize| plan.placed.cpus[role].iter();
    let of_role = |role: usize| {
        let group = group_of(settings, role);
        cpus(role).map(move |cpu| (group.clone(), description.llc_and_socket(*cpu).0)).collect::<Vec<_>>()
    };
    let all: BTreeSet<(GroupId, u32)> = (0..plan.placed.cpus.len()).flat_map(of_role).collect();
    all.into_iter().collect()
}

fn group_of(settings: &Settings, role: usize) -> GroupId {
    settings.roles.get(&role).cloned().unwrap_or_default()
}

/// What the arms of a plan set, for as long as it is measured.
pub struct Partitions {
    settings: Settings,
    classes: Vec<(GroupId, u32)>,
    default: Schemata,
    info: Info,
}

impl Partitions {
    /// Those of a plan whose arms were looked at by [`missing`]; `None` where no arm that is measured sets anything.
    pub fn of(plan: &Plan, description: &Description) -> Option<Self> {
        let offered = description.offered()?;
        let measured: BTreeSet<&str> =
            plan.measured().into_iter().map(|case| plan.cases[case].arm.as_str()).collect();
        let own = with_arms(&plan.experiment, |arm| measured.contains(arm.name.as_str()));
        let settings = Settings::of(&own, &before(&offered)).ok()??;
        let classes = classes(plan, description, &settings);
        (classes.len() <= CLASSES).then_some(Self {
            settings,
            classes,
            default: offered.default,
            info: offered.info,
        })
    }

    /// The class of a role on a CPU.
    pub fn class(&self, role: usize, llc: u32) -> usize {
        let group = group_of(&self.settings, role);
        self.classes.iter().position(|class| *class == (group.clone(), llc)).unwrap_or_default()
    }

    /// Sets what an arm asks for, and for all others what they had before.
    ///
    /// # Errors
    /// What the simulator refuses.
    pub fn set(&self, arm: usize, description: &Description, run: &mut Run) -> Result<(), SetupError> {
        let level = description.last_level_resource();
        for (class, (group, llc)) in self.classes.iter().enumerate() {
            let set = self.settings.arms[arm].get(group);
            let schemata = set.map_or_else(|| self.default.clone(), |set| self.default.overlaid(set));
            let mask = schemata.mask(&level, *llc).unwrap_or(Mask(u64::MAX));
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
}
