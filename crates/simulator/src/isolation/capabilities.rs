//! What resctrl would show of a described machine: which caches' ways it shares out, and to how
//! many groups.

use std::collections::BTreeMap;

use ringfence_experiment::Experiment;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::resctrl::Offered;
use ringfence_resctrl::info::{BandwidthInfo, BitUsage, CacheInfo, IoAlloc, ThrottleMode, Unit};
use ringfence_resctrl::{Info, Mask, MountOptions, Resource, Schemata};

use crate::file::{Description, Level, Vendor};

// Amounts that limit nothing (Linux, `MAX_MBA_BW` and `MAX_MBA_BW_AMD`).
pub(super) const ALL_PERCENT: u64 = 100;
pub(super) const ALL_EIGHTHS: u64 = 1 << 11;

/// A level of caches whose ways are shared out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ways {
    pub level: Level,
    /// Bits of a mask, each for as many ways as any other.
    pub bits: u32,
    ways: u32,
    classes: u32,
    domains: u32,
    /// Whether code and data have masks of their own.
    pub apart: bool,
}

impl Ways {
    /// The resource whose masks hold for loads and stores: there are no other accesses.
    pub fn data(&self) -> Resource {
        match (self.level, self.apart) {
            (Level::L2, false) => Resource::L2,
            (Level::L2, true) => Resource::L2Data,
            (Level::L3, false) => Resource::L3,
            (Level::L3, true) => Resource::L3Data,
        }
    }

    /// The one of a level where code and data share what there is.
    pub fn whole(&self) -> Resource {
        Self { apart: false, ..*self }.data()
    }

    /// The one whose masks would hold for instructions.
    pub fn code(&self) -> Option<Resource> {
        self.apart.then_some(if self.level == Level::L2 {
            Resource::L2Code
        } else {
            Resource::L3Code
        })
    }

    /// All bits of a mask.
    pub fn all(&self) -> Mask {
        Mask::run(0, self.bits)
    }

    /// The ways that a mask's bits stand for.
    pub fn of(&self, mask: Mask) -> u32 {
        let (bits, ways) = (self.bits, self.ways);
        let of_bit = |bit: u32| {
            (bit * ways / bits..(bit + 1) * ways / bits).fold(0, |all, way| all | 1 << way)
        };
        (0..bits).filter(|bit| mask.0 >> bit & 1 == 1).fold(0, |all, bit| all | of_bit(bit))
    }
}

/// How resctrl is mounted for an experiment: with code and data apart where an arm says what either
/// has.
pub(super) fn mounted(experiment: &Experiment) -> MountOptions {
    let named = |wanted: [Resource; 2]| {
        let tables = experiment.arms.iter().flat_map(|arm| arm.resctrl());
        let mut settings = tables.flat_map(|(_, schemata)| schemata.settings());
        settings.any(|(resource, _, _)| wanted.contains(resource))
    };
    MountOptions {
        cdp: named([Resource::L3Code, Resource::L3Data]),
        cdpl2: named([Resource::L2Code, Resource::L2Data]),
        ..MountOptions::default()
    }
}

impl Description {
    /// As what [`Description::machine`] says of resctrl, while a region of so many bytes is locked
    /// into the last-level cache that a CPU uses.
    pub fn offered_beside_region(&self, bytes: u64, cpu: CpuId) -> Option<Offered> {
        let mut offered = self.offered()?;
        let last = self.last_ways(MountOptions::default())?;
        let (llc, level) = (self.llc_and_socket(cpu).0, last.data());
        let locked = Mask::run(0, self.bits_for(bytes));
        let cache = offered.info.caches.get_mut(level.name())?;
        let letter = |bit: u32| if locked.0 >> bit & 1 == 1 { 'P' } else { 'S' };
        cache.bit_usage.insert(llc, BitUsage((0..last.bits).rev().map(letter).collect()));
        offered.default.set_mask(level, llc, cache.cbm_mask.without(locked));
        Some(offered)
    }

    /// How many bits of a mask of the last level hold so many bytes.
    pub(super) fn bits_for(&self, bytes: u64) -> u32 {
        let of_bit = u64::from(self.parts.llc.size_kib) * 1024 / u64::from(self.mask_bits());
        u32::try_from(bytes.div_ceil(of_bit.max(1))).unwrap_or(u32::MAX)
    }

    /// The last level, where its ways are shared out.
    pub(super) fn last_ways(&self, options: MountOptions) -> Option<Ways> {
        let level = if self.last_level() == 2 { Level::L2 } else { Level::L3 };
        Some(Ways {
            level,
            bits: self.mask_bits(),
            ways: self.parts.llc.ways,
            classes: self.processor.classes?,
            domains: self.llcs(),
            apart: self.apart(level, options),
        })
    }

    /// The second level, where that is a core's own and its ways are shared out.
    pub(super) fn second_ways(&self, options: MountOptions) -> Option<Ways> {
        let ways = self.parts.l2.ways;
        Some(Ways {
            level: Level::L2,
            bits: self.processor.l2_mask_bits.unwrap_or(ways),
            ways,
            classes: self.processor.l2_classes?,
            domains: self.cores(),
            apart: self.apart(Level::L2, options),
        })
    }

    fn apart(&self, level: Level, options: MountOptions) -> bool {
        let asked = if level == Level::L2 { options.cdpl2 } else { options.cdp };
        asked && self.processor.cdp.contains(&level)
    }

    /// What resctrl shares out, with the default group having all of it; `None` where the processor
    /// has none of it. No way is shared with I/O, which is not simulated.
    pub(crate) fn offered(&self) -> Option<Offered> {
        self.offered_as(MountOptions::default())
    }

    /// The same, mounted like this as far as the processor lets it be.
    pub(super) fn offered_as(&self, options: MountOptions) -> Option<Offered> {
        let amd = self.processor.vendor == Vendor::Amd;
        let levels: Vec<Ways> =
            [self.last_ways(options), self.second_ways(options)].into_iter().flatten().collect();
        if levels.is_empty() {
            return None;
        }
        let (mut default, mut caches) = (Schemata::new(), BTreeMap::new());
        for level in &levels {
            let cache = CacheInfo {
                // A class has a mask for code and one for data in place of two masks.
                num_closids: if level.apart { level.classes / 2 } else { level.classes },
                cbm_mask: level.all(),
                // Linux takes an empty mask on AMD, which fills nothing; the simulator has none
                // such.
                min_cbm_bits: 1,
                shareable_bits: Mask(0),
                sparse_masks: amd,
                bit_usage: (0..level.domains)
                    .map(|domain| (domain, BitUsage("S".repeat(level.bits as usize))))
                    .collect(),
                io_alloc: IoAlloc::Unsupported,
            };
            for resource in level.code().into_iter().chain([level.data()]) {
                (0..level.domains)
                    .for_each(|domain| default.set_mask(resource.clone(), domain, level.all()));
                caches.insert(resource.name().to_owned(), cache.clone());
            }
        }
        let mut bandwidths = BTreeMap::new();
        if let Some(num_closids) =
            self.processor.classes.filter(|_| self.processor.bandwidth_control)
        {
            let most = if amd { ALL_EIGHTHS } else { ALL_PERCENT };
            (0..self.llcs()).for_each(|domain| default.set_amount(Resource::Mb, domain, most));
            let info = BandwidthInfo {
                num_closids,
                min_bandwidth: if amd { 1 } else { 10 },
                bandwidth_gran: if amd { 1 } else { 10 },
                delay_linear: true,
                throttle: ThrottleMode::Unknown,
                unit: if amd { Unit::EighthsOfGigabyte } else { Unit::Percent },
            };
            bandwidths.insert(Resource::Mb.name().to_owned(), info);
        }
        let info = Info { caches, bandwidths, ..Info::default() };
        Some(Offered {
            options: MountOptions {
                cdp: info.cdp(3),
                cdpl2: info.cdp(2),
                ..MountOptions::default()
            },
            default,
            groups: 0,
            closids_free: info.num_closids().map(|all| all.saturating_sub(1)),
            rmids_free: None,
            info,
        })
    }
}
