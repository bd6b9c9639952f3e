//! `info/`: what can be shared out, in which steps, and to how many groups.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::bandwidth::{BandwidthInfo, ThrottleMode, Unit};
use crate::error::{Error, Refused};
use crate::id::GroupId;
use crate::kernel::Kernel;
use crate::mode::Mode;
use crate::schemata::{Domain, Mask, Resource};

/// Everything below `info/`.
#[doc(alias("pqos_cap", "pqos_capability"))]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ResctrlInfo"))]
pub struct Info {
    /// Caches whose ways can be allocated, by the resource's name.
    pub caches: BTreeMap<String, CacheInfo>,
    /// Bandwidths that are shared out, by the resource's name.
    pub bandwidths: BTreeMap<String, BandwidthInfo>,
    /// Monitoring, where there is any.
    pub monitoring: Option<MonitoringInfo>,
    /// Folders that this library does not know.
    pub others: Vec<String>,
}

/// A cache whose ways can be allocated.
#[doc(alias("pqos_cap_l3ca", "pqos_cap_l2ca"))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The users of each way, for each domain.
    pub bit_usage: BTreeMap<Domain, BitUsage>,
    /// The part of it that devices write to, where that can be chosen.
    #[serde(default, skip_serializing_if = "IoAlloc::is_unsupported")]
    pub io_alloc: IoAlloc,
}

impl CacheInfo {
    /// Ways of a domain that devices write to: those that the hardware always shares with them, and
    /// those that they were given.
    pub fn io_ways(&self, domain: Domain) -> Mask {
        self.shareable_bits.or(self.io_alloc.ways(domain))
    }
}

/// Whether the ways that devices write to can be chosen, and the chosen ones (kernel documentation,
/// resctrl, "io_alloc" and "io_alloc_cbm", Linux 6.19; AMD's SDCIAE).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IoAlloc {
    /// Not of this cache, or by this kernel.
    #[default]
    Unsupported,
    /// They can, and are not.
    Disabled,
    /// Enabled, with a mask for each domain. The highest CLOSID is reserved for I/O then.
    Enabled(BTreeMap<Domain, Mask>),
}

impl IoAlloc {
    /// Whether they cannot be chosen.
    pub fn is_unsupported(&self) -> bool {
        *self == IoAlloc::Unsupported
    }

    fn ways(&self, domain: Domain) -> Mask {
        match self {
            IoAlloc::Enabled(masks) => masks.get(&domain).copied().unwrap_or_default(),
            IoAlloc::Unsupported | IoAlloc::Disabled => Mask(0),
        }
    }
}

impl fmt::Display for IoAlloc {
    /// As the files show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoAlloc::Unsupported => f.write_str("not supported"),
            IoAlloc::Disabled => f.write_str("disabled"),
            IoAlloc::Enabled(masks) => {
                let masks: Vec<String> =
                    masks.iter().map(|(domain, mask)| format!("{domain}={mask}")).collect();
                write!(f, "enabled for {}", masks.join(";"))
            }
        }
    }
}

/// The users of the ways of one cache: a letter for each way, the highest first (kernel
/// documentation, x86/resctrl, "bit_usage").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Monitoring of the L3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitoringInfo {
    /// Groups and monitor groups that there can be together, the default group included.
    pub num_rmids: u32,
    /// The events: `llc_occupancy`, `mbm_total_bytes`, `mbm_local_bytes`.
    pub mon_features: Vec<String>,
    /// A removed group's number is reused once its occupancy is below this, in bytes.
    pub max_threshold_occupancy: Option<u64>,
    /// How bandwidth counters come to groups, where that can be chosen (kernel documentation,
    /// resctrl, "mbm_assign_mode", Linux 6.18; AMD's ABMC): `mbm_event`, each assigned and kept, or
    /// `default`, as the hardware deals them out. Changing it sets all counters back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mbm_assign_mode: Option<String>,
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

    /// Whether code and data have separate ways at a level.
    pub fn cdp(&self, level: u32) -> bool {
        self.caches.contains_key(&format!("L{level}CODE"))
    }

    /// The resources that allocate the ways of a cache level: one, or two with CDP.
    pub fn of_level(&self, level: u32) -> Vec<Resource> {
        let all = self.caches.keys().map(|name| Resource::of(name));
        all.filter(|resource| resource.cache_level() == Some(level)).collect()
    }

    /// Groups that there can be, the default one included: the smallest number of all resources
    /// (kernel documentation, "num_closids"). `None` if nothing can be allocated.
    #[doc(alias("pqos_l3ca_get_cos_num", "pqos_mba_get_cos_num"))]
    pub fn num_closids(&self) -> Option<u32> {
        let caches = self.caches.values().map(|cache| cache.num_closids);
        caches.chain(self.bandwidths.values().map(|bandwidth| bandwidth.num_closids)).min()
    }

    /// Number of CLOSIDs reserved for I/O: one, the highest, if I/O has its own ways. With CDP it
    /// covers code and data.
    pub fn closids_of_io(&self) -> u32 {
        u32::from(self.caches.values().any(|cache| matches!(cache.io_alloc, IoAlloc::Enabled(_))))
    }

    /// Number of control groups that can still be created; `None` if nothing can be allocated. A
    /// group with a pseudo-locked region has released its CLOSID (Linux 6.1,
    /// `rdtgroup_pseudo_lock_create`).
    pub fn closids_free<'a>(
        &self,
        groups: impl Iterator<Item = (&'a GroupId, Option<Mode>)>,
    ) -> Option<u32> {
        let has = groups.filter(|(id, mode)| !id.is_monitor() && *mode != Some(Mode::PseudoLocked));
        let has =
            u32::try_from(has.count()).unwrap_or(u32::MAX).saturating_add(self.closids_of_io());
        Some(self.num_closids()?.saturating_sub(has))
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
    let (info, errors) = read_known(kernel, spelling);
    errors.into_iter().next().map_or(Ok(info), Err)
}

/// What can be read and understood of it, and why not the rest.
pub(crate) fn read_known(kernel: &dyn Kernel, spelling: Spelling) -> (Info, Vec<Error>) {
    let base = Path::new("info");
    let (mut info, mut errors) = (Info::default(), Vec::new());
    let names = kernel.dirs(base).unwrap_or_else(|source| {
        errors.push(Refused::new(format!("reading {}/info", kernel.place()), source, None).into());
        Vec::new()
    });
    for name in names {
        let folder = Folder { kernel, path: base.join(&name) };
        let resource = Resource::of(&name);
        let read = if resource.cache_level().is_some() {
            folder.cache().map(|cache| _ = info.caches.insert(name, cache))
        } else if resource.is_bandwidth() {
            folder
                .bandwidth(spelling.unit())
                .map(|bandwidth| _ = info.bandwidths.insert(name, bandwidth))
        } else if name == "L3_MON" {
            folder.monitoring().map(|monitoring| info.monitoring = Some(monitoring))
        } else {
            info.others.push(name);
            Ok(())
        };
        errors.extend(read.err());
    }
    (info, errors)
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

    fn parse<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
        what: &str,
    ) -> Result<T, Error> {
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
            shareable_bits: if has("shareable_bits") {
                self.mask("shareable_bits")?
            } else {
                Mask(0)
            },
            sparse_masks: has("sparse_masks") && self.number("sparse_masks")? != 0,
            bit_usage: if has("bit_usage") {
                self.parse("bit_usage", usage, "letters for each cache")?
            } else {
                BTreeMap::new()
            },
            io_alloc: if has("io_alloc") { self.io_alloc()? } else { IoAlloc::Unsupported },
        })
    }

    fn io_alloc(&self) -> Result<IoAlloc, Error> {
        let masks = |text: &str| -> Option<BTreeMap<Domain, Mask>> {
            let parts = text.split(';').filter(|part| !part.is_empty());
            let mask = |part: &str| {
                let (domain, mask) = part.split_once('=')?;
                Some((domain.trim().parse().ok()?, mask.trim().parse().ok()?))
            };
            parts.map(mask).collect()
        };
        let known = |text: &str| match text {
            "not supported" => Some(IoAlloc::Unsupported),
            "disabled" => Some(IoAlloc::Disabled),
            "enabled" => Some(IoAlloc::Enabled(BTreeMap::new())),
            _ => None,
        };
        Ok(match self.parse("io_alloc", known, "enabled, disabled or not supported")? {
            IoAlloc::Enabled(_) => {
                IoAlloc::Enabled(self.parse("io_alloc_cbm", masks, "a mask for each cache")?)
            }
            other => other,
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
            mon_features: self
                .text("mon_features")?
                .lines()
                .map(|line| line.trim().to_owned())
                .collect(),
            max_threshold_occupancy: self.number("max_threshold_occupancy").ok(),
            mbm_assign_mode: self.text("mbm_assign_mode").ok().and_then(|text| {
                let chosen =
                    |word: &str| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned());
                text.split_whitespace().find_map(chosen)
            }),
        })
    }
}
