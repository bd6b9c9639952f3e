//! What resctrl shares out on a described machine, and what an arm's table sets of it in a run.
//!
//! Each group is a class of service, in each last-level cache another one of the simulator's, and
//! in cores with other masks of the second level too, since masks and limits differ by cache. A
//! percentage of bandwidth control is taken of the requests that a core's fill buffers can make of
//! DRAM when nothing else asks it for anything: the SDM leaves it to the processor what a
//! percentage is of.

mod cache_locks;
mod capabilities;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::hardware::{Region, Run, SetupError, Thread};
use ringfence_experiment::plan::Plan;
use ringfence_experiment::{Arm, Experiment, Reason};
use ringfence_limits::Settings;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::resctrl::Offered;
use ringfence_persist::LINE;
use ringfence_resctrl::info::Unit;
use ringfence_resctrl::{
    GroupId, GroupState, Info, Mask, Mode, MountOptions, Resource, Schemata, State,
};

use self::cache_locks::{Lock, locked_bits, locks};
pub use self::cache_locks::{locked, not_locked};
use self::capabilities::{ALL_EIGHTHS, ALL_PERCENT, Ways, mounted};
use crate::file::Description;

// As many classes as a run tells apart.
const CLASSES: usize = 16;

impl Description {
    // The least time between two requests of a core, for a percentage.
    fn gap_ns(&self, percent: u64) -> f64 {
        if percent >= ALL_PERCENT {
            return 0.0;
        }
        self.scale().miss_ns / f64::from(self.parts.core.fill_buffers) * ALL_PERCENT as f64
            / percent as f64
    }
}

// The least time between two reads of a last-level cache, for eighths of a GB/s.
fn read_gap_ns(eighths: u64) -> f64 {
    if eighths >= ALL_EIGHTHS {
        0.0
    } else {
        LINE as f64 * 8.0 / eighths as f64 * 1e9 / f64::from(1 << 30)
    }
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
    experiment.arms.iter_mut().filter(|arm| !keep(arm)).for_each(|arm| arm.limits.clear());
    experiment
}

/// Why a described machine cannot hold what an arm asks of resctrl, if so.
pub fn missing(plan: &Plan, arm: &Arm, description: &Description) -> Option<Reason> {
    arm.resctrl().next()?;
    let options = mounted(&plan.experiment);
    let Some(offered) = description.offered_as(options) else {
        return Some("the described processor shows no RDT (Intel) or PQoS (AMD)".into());
    };
    if let Some(why) = undivided(arm, description, options) {
        return Some(why);
    }
    let own = with_arms(&plan.experiment, |one| one.name == arm.name);
    let settings = match Settings::of(&own, &before(&offered)) {
        Ok(settings) => settings?,
        Err(why) => return Some(why.into()),
    };
    let groups = settings.roles.len() + 1;
    let most = offered.info.num_closids().unwrap_or(0) as usize;
    if groups > most {
        return Some(
            format!("it takes {groups} groups, and the described processor has {most}").into(),
        );
    }
    let all: Vec<usize> = (0..plan.cases.len()).collect();
    let locks = description.processor.pseudo_lock.and_then(|_| locks(plan, description, &all).ok());
    let locks = locks.unwrap_or_default();
    let last = description.last_ways(options).map(|last| last.data());
    let taken = |resource: &Resource, domain: u32| match last.as_ref() == Some(resource) {
        true => locked_bits(&locks, domain),
        false => Mask(0),
    };
    let refused = arm.resctrl().find_map(|(_, schemata)| refused(schemata, &offered.info, &taken));
    refused.or_else(|| {
        let classes =
            Classes::of(plan, description, Some(&settings), &offered).all.len() + locks.len();
        (classes > CLASSES).then(|| {
            format!(
                "it takes {classes} classes of service, one for each group, last-level cache and \
                 mask of the second \
                 level, and at most {CLASSES} are simulated"
            )
            .into()
        })
    })
}

// An arm that gives code and data one mask, where others give them two.
fn undivided(arm: &Arm, description: &Description, options: MountOptions) -> Option<Reason> {
    let levels =
        [description.last_ways(options), description.second_ways(options)].into_iter().flatten();
    let named = |resource: &Resource| {
        let mut settings = arm.resctrl().flat_map(|(_, schemata)| schemata.settings());
        settings.any(|(known, _, _)| known == resource)
    };
    levels.filter(|level| level.apart).find_map(|level| {
        let whole = level.whole();
        named(&whole).then(|| {
            format!(
                "other arms give code and data masks of their own, and then there is no {whole}: \
                 set {whole}CODE and {whole}DATA"
            )
            .into()
        })
    })
}

/// What is to be known of masks for code and data, where a case that is run has such: a sentence
/// for each level.
pub fn notes(plan: &Plan, description: &Description) -> Vec<String> {
    let options = mounted(&plan.experiment);
    let run: Vec<usize> = plan.run_cases().collect();
    let arms = || run.iter().map(|case| plan.cases[*case].arm.as_str()).collect::<BTreeSet<_>>();
    let set = plan.experiment.arms.iter().filter(|arm| arms().contains(arm.name.as_str()));
    let set: Vec<&Resource> = set
        .flat_map(|arm| arm.resctrl())
        .flat_map(|(_, schemata)| schemata.settings())
        .map(|(known, _, _)| known)
        .collect();
    let levels =
        [description.last_ways(options), description.second_ways(options)].into_iter().flatten();
    let sentence = |level: Ways| {
        let (code, data) = (level.code()?, level.data());
        (set.contains(&&code) || set.contains(&&data)).then(|| {
            format!(
                "no instruction fetches are simulated: masks of {data} hold for all accesses, and \
                 those of {code} change \
                 nothing"
            )
        })
    };
    levels.filter_map(sentence).collect()
}

// What the kernel would refuse of it (Linux, `cbm_validate` and `bw_validate`), where regions have
// taken bits.
fn refused(
    schemata: &Schemata,
    info: &Info,
    taken: &dyn Fn(&Resource, u32) -> Mask,
) -> Option<Reason> {
    let named = schemata.settings().map(|(resource, domain, _)| (resource.clone(), domain));
    named.into_iter().find_map(|(resource, domain)| {
        if let (Some(mask), Some(cache)) = (schemata.mask(&resource, domain), info.cache(&resource))
        {
            let gaps = !cache.sparse_masks && !mask.is_contiguous();
            let why = if !mask.is_within(cache.cbm_mask) {
                format!("has bits beyond {}", cache.cbm_mask)
            } else if mask.overlaps(taken(&resource, domain)) {
                "has parts of the cache that a locked region takes".into()
            } else if mask.count() < cache.min_cbm_bits {
                "has too few bits".into()
            } else if gaps {
                "has gaps, which this processor does not take".into()
            } else {
                return None;
            };
            return Some(format!("{resource}:{domain}={mask} {why}").into());
        }
        let (amount, limit) = (schemata.amount(&resource, domain)?, info.bandwidth()?);
        let most = if limit.unit == Unit::Percent { ALL_PERCENT } else { ALL_EIGHTHS };
        (!(limit.least()..=most).contains(&amount)).then(|| {
            format!("{resource}:{domain}={amount} is not from {} to {most}", limit.least()).into()
        })
    })
}

/// A group in a last-level cache, with the masks of the second level that it has arm by arm: one of
/// the simulator's classes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    group: GroupId,
    llc: u32,
    second: Vec<Mask>,
}

/// The simulator's classes, in order, and which of them a role has on each of its CPUs.
struct Classes {
    all: Vec<Class>,
    assigned: BTreeMap<(usize, CpuId), usize>,
}

impl Classes {
    fn of(
        plan: &Plan,
        description: &Description,
        settings: Option<&Settings>,
        offered: &Offered,
    ) -> Self {
        let second = description.second_ways(offered.options).map(|second| second.data());
        let class = |role: usize, cpu: CpuId| {
            let group = settings
                .and_then(|settings| settings.roles.get(&role))
                .cloned()
                .unwrap_or_default();
            let core = description.thread(cpu).core;
            let mask = |arm: &BTreeMap<GroupId, Schemata>, resource: &Resource| {
                let set = arm.get(&group).and_then(|set| set.mask(resource, core));
                set.or_else(|| offered.default.mask(resource, core)).unwrap_or(Mask(u64::MAX))
            };
            let arms = settings.map(|settings| settings.arms.as_slice()).unwrap_or_default();
            let masks = second.iter().flat_map(|second| arms.iter().map(|arm| mask(arm, second)));
            Class { second: masks.collect(), llc: description.llc_and_socket(cpu).0, group }
        };
        let of_role = |role: usize| {
            let instances = 0..plan.placed.cpus[role].len() as u32;
            let cpus = instances
                .flat_map(move |instance| plan.home(role, instance).iter().collect::<Vec<_>>());
            cpus.map(move |cpu| (role, cpu))
        };
        let places: Vec<(usize, CpuId)> = (0..plan.placed.cpus.len()).flat_map(of_role).collect();
        let all: BTreeSet<Class> = places.iter().map(|(role, cpu)| class(*role, *cpu)).collect();
        let all: Vec<Class> = all.into_iter().collect();
        let number = |(role, cpu): (usize, CpuId)| {
            let own = class(role, cpu);
            ((role, cpu), all.iter().position(|one| *one == own).unwrap_or_default())
        };
        let assigned = places.into_iter().map(number).collect();
        Self { all, assigned }
    }
}

/// What the arms of a plan set, for as long as it is measured.
pub struct Partitions {
    settings: Option<Settings>,
    classes: Classes,
    // Their classes follow those of the groups.
    locks: Vec<Lock>,
    last: Option<Ways>,
    second: Option<Ways>,
    default: Schemata,
    info: Info,
}

impl Partitions {
    /// Those of a plan whose cases were looked at by [`missing`] and [`not_locked`]; `None` where
    /// none that is measured sets anything or reads a locked region.
    pub fn of(plan: &Plan, description: &Description) -> Option<Self> {
        let offered = description.offered_as(mounted(&plan.experiment))?;
        let measured: BTreeSet<&str> =
            plan.measured().into_iter().map(|case| plan.cases[case].arm.as_str()).collect();
        let own = with_arms(&plan.experiment, |arm| measured.contains(arm.name.as_str()));
        let settings = Settings::of(&own, &before(&offered)).ok()?;
        let locks = locks(plan, description, &plan.run_cases().collect::<Vec<_>>()).ok()?;
        let classes = Classes::of(plan, description, settings.as_ref(), &offered);
        let wanted = settings.is_some() || !locks.is_empty();
        (wanted && classes.all.len() + locks.len() <= CLASSES).then_some(Self {
            settings,
            classes,
            locks,
            last: description.last_ways(offered.options),
            second: description.second_ways(offered.options),
            default: offered.default,
            info: offered.info,
        })
    }

    /// The class of a role on a CPU.
    pub fn class(&self, role: usize, cpu: CpuId) -> usize {
        self.classes.assigned.get(&(role, cpu)).copied().unwrap_or_default()
    }

    /// Sets what an arm asks for, and for all others what they had before.
    ///
    /// # Errors
    /// What the simulator refuses.
    pub fn set(
        &self,
        arm: usize,
        description: &Description,
        run: &mut Run,
    ) -> Result<(), SetupError> {
        for (number, class) in self.classes.all.iter().enumerate() {
            let set =
                self.settings.as_ref().and_then(|settings| settings.arms[arm].get(&class.group));
            let schemata =
                set.map_or_else(|| self.default.clone(), |set| self.default.overlaid(set));
            let limit = self.info.bandwidth().zip(schemata.amount(&Resource::Mb, class.llc));
            let (gap, read_gap) = match limit {
                Some((info, amount)) if info.unit == Unit::Percent => {
                    (description.gap_ns(info.round_up(amount)), 0.0)
                }
                Some((info, amount)) => (0.0, read_gap_ns(info.round_up(amount))),
                None => (0.0, 0.0),
            };
            let ways = self.last.map_or(u32::MAX, |last| {
                let mask = schemata.mask(&last.data(), class.llc).unwrap_or(last.all());
                last.of(mask.without(locked_bits(&self.locks, class.llc)))
            });
            run.set_class(number, ways, gap)?;
            run.limit_reads(number, read_gap)?;
            if let Some((second, mask)) = self.second.zip(class.second.get(arm)) {
                run.set_second(number, second.of(*mask))?;
            }
        }
        Ok(())
    }

    /// Locks a region into the cache below a thread, as the kernel does: the region is read into
    /// ways that nothing may fill afterwards. If it was locked before, it is locked again.
    ///
    /// # Errors
    /// What the simulator refuses.
    pub fn lock(
        &self,
        (device, llc): (&Path, u32),
        run: &mut Run,
        (thread, region): (Thread, Region),
    ) -> Result<(), SetupError> {
        let found = self.locks.iter().position(|lock| lock.device == device && lock.llc == llc);
        let Some((number, last)) = found.zip(self.last) else { return Ok(()) };
        let class = self.classes.all.len() + number;
        run.set_class(class, last.of(self.locks[number].bits), 0.0)?;
        run.fill(thread, class, region)
    }
}
