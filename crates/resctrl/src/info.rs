//! `info/`: what can be shared out, in which steps, and to how many groups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Refused};
use crate::group::{GroupId, Mode};
use crate::kernel::Kernel;
use crate::schemata::{Domain, Mask, Resource};

/// Everything below `info/`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Info {
    /// Caches whose ways are shared out, by the resource's name.
    pub caches: BTreeMap<String, CacheInfo>,
    /// Bandwidths that are shared out, by the resource's name.
    pub bandwidths: BTreeMap<String, BandwidthInfo>,
    /// Monitoring, where there is any.
    pub monitoring: Option<MonitoringInfo>,
    /// Folders that this library does not know.
    pub others: Vec<String>,
}

/// A cache whose ways are shared out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheInfo {
    /// Groups that there can be, the default one included; with CDP, half as many as without.
    pub num_closids: u32,
    /// All ways.
    pub cbm_mask: Mask,
    /// Bits that a mask must have at least.
    pub min_cbm_bits: u32,
    /// Ways that other devices (I/O) may use too.
    pub shareable_bits: Mask,
    /// Whether masks with gaps are taken; `false` too where the kernel does not say.
    pub sparse_masks: bool,
    /// Who uses which way, for each domain.
    pub bit_usage: BTreeMap<Domain, BitUsage>,
}

/// Who uses the ways of one cache: a letter for each way, the highest first (kernel documentation,
/// x86/resctrl, "bit_usage").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitUsage(pub String);

impl BitUsage {
    /// The ways that carry one of these letters: `0` unused, `H` hardware only, `X` hardware and
    /// software, `S` shared by software, `E` exclusive, `P` pseudo-locked.
    pub fn ways(&self, letters: &str) -> Mask {
        let bits = self.0.chars().rev().enumerate().filter(|(_, letter)| letters.contains(*letter));
        Mask(bits.filter(|(bit, _)| *bit < 64).fold(0, |mask, (bit, _)| mask | 1 << bit))
    }
}

/// What a bandwidth is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Percent of what there is (Intel, MPAM).
    Percent,
    /// MB/s, kept by the kernel's software controller (mount option `mba_MBps`).
    MegabytesPerSecond,
    /// Eighths of a GB/s (AMD).
    EighthsOfGigabyte,
}

impl Unit {
    /// An amount in words.
    pub fn say(self, amount: u64) -> String {
        match self {
            Unit::Percent => format!("{amount} %"),
            Unit::MegabytesPerSecond => format!("{amount} MB/s"),
            Unit::EighthsOfGigabyte => format!("{:.3} GB/s", amount as f64 / 8.0),
        }
    }
}

/// How two hardware threads of a core are throttled that ask for different bandwidths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleMode {
    /// Both as the one with the smaller bandwidth.
    Max,
    /// Each by itself.
    PerThread,
    /// The kernel does not say.
    Unknown,
}

/// A bandwidth that is shared out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthInfo {
    /// Groups that there can be, the default one included.
    pub num_closids: u32,
    /// The least amount.
    pub min_bandwidth: u64,
    /// Amounts are rounded up to steps of this size.
    pub bandwidth_gran: u64,
    /// Whether delays are linear.
    pub delay_linear: bool,
    /// What is throttled with a hardware thread.
    pub throttle: ThrottleMode,
    /// What amounts are counted in.
    pub unit: Unit,
}

/// Monitoring of the L3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitoringInfo {
    /// Groups and monitor groups that there can be together, the default group included.
    pub num_rmids: u32,
    /// The events: `llc_occupancy`, `mbm_total_bytes`, `mbm_local_bytes`.
    pub mon_features: Vec<String>,
    /// A removed group's number is reused once its occupancy is below this, in bytes.
    pub max_threshold_occupancy: Option<u64>,
}

impl Info {
    /// The cache of a resource.
    pub fn cache(&self, resource: &Resource) -> Option<&CacheInfo> {
        self.caches.get(resource.name())
    }

    /// The resource that memory bandwidth is limited by.
    pub fn bandwidth(&self) -> Option<&BandwidthInfo> {
        self.bandwidths.get(Resource::Mb.name())
    }

    /// Whether code and data have ways of their own at a level.
    pub fn cdp(&self, level: u32) -> bool {
        self.caches.contains_key(&format!("L{level}CODE"))
    }

    /// The resources that share out the ways of a cache level: one, or two with CDP.
    pub fn of_level(&self, level: u32) -> Vec<Resource> {
        let all = self.caches.keys().map(|name| Resource::of(name));
        all.filter(|resource| resource.cache_level() == Some(level)).collect()
    }

    /// Groups that there can be, the default one included: the smallest number of all resources
    /// (kernel documentation, "num_closids"). `None` where nothing is shared out.
    pub fn num_closids(&self) -> Option<u32> {
        let caches = self.caches.values().map(|cache| cache.num_closids);
        caches.chain(self.bandwidths.values().map(|bandwidth| bandwidth.num_closids)).min()
    }

    /// Groups of control that can still be made beside these; `None` where nothing is shared out. A group
    /// that stands for a pseudo-locked region has given its CLOSID back (Linux 6.1,
    /// `rdtgroup_pseudo_lock_create`).
    pub fn closids_free<'a>(&self, groups: impl Iterator<Item = (&'a GroupId, Option<Mode>)>) -> Option<u32> {
        let has = groups.filter(|(id, mode)| !id.is_monitor() && *mode != Some(Mode::PseudoLocked));
        Some(self.num_closids()?.saturating_sub(u32::try_from(has.count()).unwrap_or(u32::MAX)))
    }
}

/// What decides the unit of bandwidth.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spelling {
    /// Mounted with `mba_MBps`.
    pub software_controller: bool,
    /// The processor is AMD's.
    pub amd: bool,
}

impl Spelling {
    fn unit(self) -> Unit {
        match self {
            Spelling { software_controller: true, .. } => Unit::MegabytesPerSecond,
            Spelling { amd: true, .. } => Unit::EighthsOfGigabyte,
            _ => Unit::Percent,
        }
    }
}

pub(crate) fn read(kernel: &dyn Kernel, spelling: Spelling) -> Result<Info, Error> {
    let base = Path::new("info");
    let fail = |source| Refused::new(format!("reading {}/info", kernel.place()), source, None);
    let mut info = Info::default();
    for name in kernel.dirs(base).map_err(fail)? {
        let folder = Folder { kernel, path: base.join(&name) };
        let resource = Resource::of(&name);
        if resource.cache_level().is_some() {
            info.caches.insert(name, folder.cache()?);
        } else if resource.is_bandwidth() {
            info.bandwidths.insert(name, folder.bandwidth(spelling.unit())?);
        } else if name == "L3_MON" {
            info.monitoring = Some(folder.monitoring()?);
        } else {
            info.others.push(name);
        }
    }
    Ok(info)
}

struct Folder<'a> {
    kernel: &'a dyn Kernel,
    path: PathBuf,
}

impl Folder<'_> {
    fn text(&self, name: &str) -> Result<String, Error> {
        let path = self.path.join(name);
        let read = self.kernel.read(&path).map(|text| text.trim().to_owned());
        read.map_err(|source| {
            let tried = format!("reading {}/{}", self.kernel.place(), path.display());
            Refused::new(tried, source, None).into()
        })
    }

    fn parse<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>, what: &str) -> Result<T, Error> {
        let text = self.text(name)?;
        parse(&text).ok_or_else(|| Error::Content {
            path: PathBuf::from(self.kernel.place()).join(&self.path).join(name),
            text: text.chars().take(60).collect(),
            why: format!("expected {what}"),
        })
    }

    fn number(&self, name: &str) -> Result<u64, Error> {
        self.parse(name, |text| text.parse().ok(), "a number")
    }

    fn small(&self, name: &str) -> Result<u32, Error> {
        self.parse(name, |text| text.parse().ok(), "a number")
    }

    fn mask(&self, name: &str) -> Result<Mask, Error> {
        self.parse(name, |text| text.parse().ok(), "a mask")
    }

    fn cache(&self) -> Result<CacheInfo, Error> {
        // "0=XXSS;1=..."; kernels before 4.19 have none.
        let usage = |text: &str| -> Option<BTreeMap<Domain, BitUsage>> {
            let parts = text.split(';').filter(|part| !part.is_empty());
            parts
                .map(|part| {
                    let (domain, letters) = part.split_once('=')?;
                    Some((domain.trim().parse().ok()?, BitUsage(letters.trim().to_owned())))
                })
                .collect()
        };
        let has = |name: &str| self.kernel.exists(&self.path.join(name));
        Ok(CacheInfo {
            num_closids: self.small("num_closids")?,
            cbm_mask: self.mask("cbm_mask")?,
            min_cbm_bits: self.small("min_cbm_bits")?,
            shareable_bits: if has("shareable_bits") { self.mask("shareable_bits")? } else { Mask(0) },
            sparse_masks: has("sparse_masks") && self.number("sparse_masks")? != 0,
            bit_usage: if has("bit_usage") {
                self.parse("bit_usage", usage, "letters for each cache")?
            } else {
                BTreeMap::new()
            },
        })
    }

    fn bandwidth(&self, unit: Unit) -> Result<BandwidthInfo, Error> {
        let throttle = match self.text("thread_throttle_mode") {
            Ok(text) if text == "max" => ThrottleMode::Max,
            Ok(text) if text == "per-thread" => ThrottleMode::PerThread,
            _ => ThrottleMode::Unknown,
        };
        Ok(BandwidthInfo {
            num_closids: self.small("num_closids")?,
            min_bandwidth: self.number("min_bandwidth")?,
            bandwidth_gran: self.number("bandwidth_gran")?,
            delay_linear: self.number("delay_linear").is_ok_and(|linear| linear != 0),
            throttle,
            unit,
        })
    }

    fn monitoring(&self) -> Result<MonitoringInfo, Error> {
        Ok(MonitoringInfo {
            num_rmids: self.small("num_rmids")?,
            mon_features: self.text("mon_features")?.lines().map(|line| line.trim().to_owned()).collect(),
            max_threshold_occupancy: self.number("max_threshold_occupancy").ok(),
        })
    }
}
