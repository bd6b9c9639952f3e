//! What a modelled machine has.

use ringfence_system::cpulist::CpuSet;

use crate::fs::MountOptions;
use crate::schemata::{Domain, Mask};

/// A cache whose ways can be allocated. The CPUs are dealt out evenly among its domains.
#[derive(Debug, Clone)]
pub struct CacheSpec {
    /// Bits of a mask.
    pub ways: u32,
    /// Bytes that a bit stands for.
    pub way_bytes: u64,
    /// Groups that there can be; half as many with CDP.
    pub closids: u32,
    /// Bits that a mask must have.
    pub min_bits: u32,
    /// Ways that other devices use too.
    pub shareable: Mask,
    /// Its domains.
    pub domains: Vec<Domain>,
    /// Whether it can, and does, keep code and data apart.
    pub cdp: bool,
}

/// Memory bandwidth that is shared out.
#[derive(Debug, Clone)]
pub struct BandwidthSpec {
    /// Groups that there can be.
    pub closids: u32,
    /// The least amount.
    pub min: u64,
    /// The step.
    pub step: u64,
    /// The most, and what a new group has.
    pub max: u64,
    /// Its domains.
    pub domains: Vec<Domain>,
    /// Whether it is mounted with `mba_MBps`: any amount is taken, and `max` is `u32::MAX`.
    pub software: bool,
    /// Whether such amounts are rounded up to the step of the percentages, as kernels do that lack
    /// Linux commit 2b5648416e47 (6.13).
    pub rounds_megabytes: bool,
    /// Whether amounts are percentages of what Intel's delays give (then there is a throttle mode).
    pub percent: bool,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Hardware {
    /// The L3.
    pub l3: Option<CacheSpec>,
    /// The L2.
    pub l2: Option<CacheSpec>,
    /// The bandwidth.
    pub mb: Option<BandwidthSpec>,
    /// Numbers for monitoring; none without it.
    pub rmids: u32,
    /// CPUs, from 0.
    pub cpus: u32,
    /// Those that are offline.
    pub offline: CpuSet,
    /// Whether the processor is one of those that can lock a region.
    pub pseudo_locking: bool,
    /// Whether masks with gaps, and empty ones, are taken (AMD).
    pub sparse: bool,
}

impl CacheSpec {
    /// One cache without CDP and without ways that devices use.
    pub fn plain(ways: u32, way_bytes: u64, closids: u32) -> Self {
        Self {
            ways,
            way_bytes,
            closids,
            min_bits: 1,
            shareable: Mask(0),
            domains: vec![0],
            cdp: false,
        }
    }

    /// All its ways.
    pub fn all(&self) -> Mask {
        Mask::run(0, self.ways)
    }
}

impl BandwidthSpec {
    /// Percentages in steps of ten.
    pub fn percent(closids: u32, domains: Vec<Domain>) -> Self {
        Self {
            closids,
            min: 10,
            step: 10,
            max: 100,
            domains,
            software: false,
            rounds_megabytes: false,
            percent: true,
        }
    }
}

impl Hardware {
    /// One socket that can lock regions: 20 ways of 1 MiB, 16 groups, 32 numbers for monitoring.
    pub fn broadwell() -> Self {
        Self {
            l3: Some(CacheSpec::plain(20, 1 << 20, 16)),
            l2: None,
            mb: Some(BandwidthSpec::percent(8, vec![0])),
            rmids: 32,
            cpus: 4,
            offline: CpuSet::new(),
            pseudo_locking: true,
            sparse: false,
        }
    }

    /// Two sockets of 11 ways, two of which devices use too.
    pub fn cascade_lake() -> Self {
        let l3 = CacheSpec {
            shareable: Mask(0x600),
            domains: vec![0, 1],
            ..CacheSpec::plain(11, 1 << 20, 16)
        };
        Self {
            l3: Some(l3),
            mb: Some(BandwidthSpec::percent(8, vec![0, 1])),
            cpus: 8,
            pseudo_locking: false,
            ..Self::broadwell()
        }
    }

    /// L2 alone, of two domains, that can be locked.
    pub fn goldmont() -> Self {
        let l2 = CacheSpec { domains: vec![0, 1], ..CacheSpec::plain(8, 128 << 10, 4) };
        Self { l3: None, l2: Some(l2), mb: None, rmids: 0, ..Self::broadwell() }
    }

    /// AMD: masks with gaps, bandwidth in eighths of a GB/s.
    pub fn epyc() -> Self {
        let l3 =
            CacheSpec { min_bits: 0, domains: vec![0, 1], ..CacheSpec::plain(16, 2 << 20, 16) };
        let mb = BandwidthSpec {
            closids: 16,
            min: 0,
            step: 1,
            max: 2048,
            domains: vec![0, 1],
            software: false,
            rounds_megabytes: false,
            percent: false,
        };
        Self {
            l3: Some(l3),
            mb: Some(mb),
            rmids: 256,
            cpus: 8,
            pseudo_locking: false,
            sparse: true,
            ..Self::broadwell()
        }
    }

    /// The same machine mounted with `cdp`.
    pub fn with_cdp(mut self) -> Self {
        if let Some(l3) = &mut self.l3 {
            l3.cdp = true;
        }
        self
    }

    /// The same machine mounted with `mba_MBps`.
    pub fn with_mbps(mut self) -> Self {
        if let Some(mb) = &mut self.mb {
            mb.software = true;
            mb.max = u32::MAX.into();
        }
        self
    }

    /// Broadwell mounted with `mba_MBps` on a kernel that rounds MB/s as if they were percentages.
    pub fn rounding_megabytes() -> Self {
        let mut hardware = Self::broadwell().with_mbps();
        if let Some(mb) = &mut hardware.mb {
            mb.rounds_megabytes = true;
        }
        hardware
    }

    /// How it is mounted.
    pub fn options(&self) -> MountOptions {
        MountOptions {
            cdp: self.l3.as_ref().is_some_and(|cache| cache.cdp),
            cdpl2: self.l2.as_ref().is_some_and(|cache| cache.cdp),
            mba_mbps: self.mb.as_ref().is_some_and(|mb| mb.software),
        }
    }

    pub(super) fn cache(&self, level: u32) -> Option<&CacheSpec> {
        match level {
            3 => self.l3.as_ref(),
            2 => self.l2.as_ref(),
            _ => None,
        }
    }

    /// The CPUs below a cache.
    pub fn cpus_of(&self, level: u32, domain: Domain) -> CpuSet {
        let Some(cache) = self.cache(level) else { return CpuSet::new() };
        let (count, all) = (cache.domains.len() as u32, self.cpus);
        let place = cache.domains.iter().position(|one| *one == domain);
        let Some(place) = place.map(|place| place as u32) else { return CpuSet::new() };
        (place * all / count..(place + 1) * all / count)
            .collect::<CpuSet>()
            .difference(&self.offline)
    }

    pub(super) fn online(&self) -> CpuSet {
        (0..self.cpus).collect::<CpuSet>().difference(&self.offline)
    }

    /// Whether anything is shared out, rather than only monitored.
    pub(super) fn allocates(&self) -> bool {
        self.l3.is_some() || self.l2.is_some() || self.mb.is_some()
    }
}
