//! What this processor can do, from CPUID; its name also from `/proc/cpuinfo`.

use raw_cpuid::CpuId;
use serde::{Deserialize, Serialize};

use crate::root::FsRoot;

/// The processor that the program runs on.
///
/// Features that an earlier version did not check are reported as absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Features {
    /// Vendor, family, model, stepping and name.
    pub identity: Identity,
    /// The hypervisor's signature such as `KVM`, if CPUID shows one.
    pub hypervisor: Option<String>,
    /// `clflush`: evicts a line from all caches (CPUID 01H:EDX bit 19).
    pub clflush: bool,
    /// `clflushopt`: as clflush, without its ordering (07H:EBX bit 23).
    pub clflushopt: bool,
    /// `clwb`: writes a line back and may keep it (07H:EBX bit 24).
    pub clwb: bool,
    /// `movdiri`: 4- and 8-byte direct stores (07H:ECX bit 27).
    pub movdiri: bool,
    /// `movdir64b`: 64-byte direct stores, not torn (07H:ECX bit 28).
    pub movdir64b: bool,
    /// Bytes that one flush instruction covers (01H:EBX bits 15-8, times 8).
    pub flush_line: Option<u32>,
    /// SSE2: 16-byte non-temporal stores. Part of x86-64.
    pub sse2: bool,
    /// AVX2, and the operating system saves its registers.
    pub avx2: bool,
    /// AVX-512F, and the operating system saves its registers.
    pub avx512f: bool,
    /// The TSC counts evenly in all power states (8000_0007H:EDX bit 8).
    pub invariant_tsc: bool,
    /// TSC frequency in Hz from CPUID (15H); often absent.
    pub tsc_hz: Option<u64>,
    /// Resource Director Technology, or AMD's PQoS.
    pub rdt: Rdt,
}

/// Which processor it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Identity {
    /// `GenuineIntel`, `AuthenticAMD`, ...
    pub vendor: Option<String>,
    /// Display family.
    pub family: Option<u32>,
    /// Display model.
    pub model: Option<u32>,
    /// Stepping.
    pub stepping: Option<u32>,
    /// The name on the box.
    pub brand: Option<String>,
    /// Version of its microcode as the kernel reports it, such as `0x5003604`; CPUID does not.
    pub microcode: Option<String>,
}

/// Cache and bandwidth control that the processor offers. The kernel may still lack or disable
/// it: only a mounted resctrl file system is the proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Rdt {
    /// Cache allocation in the L3 (10H.0:EBX bit 1).
    pub l3_cat: bool,
    /// Cache allocation in the L2 (10H.0:EBX bit 2).
    pub l2_cat: bool,
    /// Memory bandwidth allocation (10H.0:EBX bit 3; AMD 8000_0008H:EBX bit 6 and leaf 8000_0020H).
    pub mba: bool,
    /// Occupancy monitoring of the L3 (0FH.1:EDX bit 0).
    pub cmt: bool,
    /// Bandwidth monitoring, total (0FH.1:EDX bit 1).
    pub mbm_total: bool,
    /// Bandwidth monitoring, local (0FH.1:EDX bit 2).
    pub mbm_local: bool,
}

impl Features {
    /// Whether it has an instruction, or an instruction set whose registers the operating system
    /// saves, by its name in lower case: those of the fields above. What is named otherwise it does
    /// not have.
    pub fn has(&self, name: &str) -> bool {
        match name {
            "clflush" => self.clflush,
            "clflushopt" => self.clflushopt,
            "clwb" => self.clwb,
            "movdiri" => self.movdiri,
            "movdir64b" => self.movdir64b,
            "sse2" => self.sse2,
            "avx2" => self.avx2,
            "avx512" => self.avx512f,
            _ => false,
        }
    }

    /// Asks the processor that runs this code.
    ///
    /// ```
    /// let features = ringfence_machine::features::Features::detect();
    /// assert!(features.sse2, "part of x86-64");
    /// ```
    pub fn detect() -> Self {
        let cpuid = CpuId::new();
        let basic = cpuid.get_feature_info();
        let extended = cpuid.get_extended_feature_info();
        // Not in the crate's table of flags.
        let leaf_7_ecx = if extended.is_some() { raw_cpuid::cpuid!(7, 0).ecx } else { 0 };
        let has =
            |bit: fn(&raw_cpuid::ExtendedFeatures) -> bool| extended.as_ref().is_some_and(bit);
        Self {
            identity: Identity::detect(&cpuid),
            hypervisor: cpuid.get_hypervisor_info().map(|info| hypervisor_name(&info.identify())),
            clflush: basic.as_ref().is_some_and(raw_cpuid::FeatureInfo::has_clflush),
            clflushopt: has(raw_cpuid::ExtendedFeatures::has_clflushopt),
            clwb: has(raw_cpuid::ExtendedFeatures::has_clwb),
            movdiri: leaf_7_ecx & (1 << 27) != 0,
            movdir64b: leaf_7_ecx & (1 << 28) != 0,
            flush_line: basic
                .map(|info| u32::from(info.cflush_cache_line_size()) * 8)
                .filter(|&n| n > 0),
            sse2: std::is_x86_feature_detected!("sse2"),
            avx2: std::is_x86_feature_detected!("avx2"),
            avx512f: std::is_x86_feature_detected!("avx512f"),
            invariant_tsc: cpuid
                .get_advanced_power_mgmt_info()
                .is_some_and(|info| info.has_invariant_tsc()),
            tsc_hz: cpuid.get_tsc_info().and_then(|info| info.tsc_frequency()),
            rdt: Rdt::detect(&cpuid),
        }
    }
}

impl Identity {
    fn detect<R: raw_cpuid::CpuIdReader>(cpuid: &CpuId<R>) -> Self {
        let info = cpuid.get_feature_info();
        Self {
            vendor: cpuid.get_vendor_info().map(|vendor| vendor.as_str().to_string()),
            family: info.as_ref().map(|info| info.family_id().into()),
            model: info.as_ref().map(|info| info.model_id().into()),
            stepping: info.as_ref().map(|info| info.stepping_id().into()),
            brand: cpuid
                .get_processor_brand_string()
                .map(|brand| brand.as_str().trim().to_string()),
            microcode: None,
        }
    }

    /// The first processor in `/proc/cpuinfo` below `root`; fields that it does not name stay
    /// empty.
    pub fn from_cpuinfo(root: &FsRoot) -> Self {
        let text = root.cpuinfo();
        let value = |key: &str| cpuinfo_field(text, key).map(str::to_string);
        let number = |key: &str| cpuinfo_field(text, key)?.parse().ok();
        Self {
            vendor: value("vendor_id"),
            family: number("cpu family"),
            model: number("model"),
            stepping: number("stepping"),
            brand: value("model name"),
            microcode: value("microcode"),
        }
    }
}

/// Whether `/proc/cpuinfo` below `root` lists `flag` for the first processor.
pub fn has_cpuinfo_flag(root: &FsRoot, flag: &str) -> bool {
    let text = root.cpuinfo();
    cpuinfo_field(text, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|known| known == flag))
}

/// Whether `/proc/cpuinfo` below `root` has flags at all.
pub(crate) fn has_cpuinfo_flags(root: &FsRoot) -> bool {
    cpuinfo_field(root.cpuinfo(), "flags").is_some()
}

fn cpuinfo_field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

impl Rdt {
    fn detect<R: raw_cpuid::CpuIdReader + Clone>(cpuid: &CpuId<R>) -> Self {
        let allocation = cpuid.get_rdt_allocation_info();
        let monitoring = cpuid.get_rdt_monitoring_info().and_then(|info| info.l3_monitoring());
        let amd = cpuid.get_pqos_extended_feature_info();
        Self {
            l3_cat: allocation.as_ref().is_some_and(|info| info.has_l3_cat()),
            l2_cat: allocation.as_ref().is_some_and(|info| info.has_l2_cat()),
            mba: allocation.as_ref().is_some_and(|info| info.has_memory_bandwidth_allocation())
                || amd.is_some_and(|info| info.has_l3mbe()),
            cmt: monitoring.as_ref().is_some_and(|info| info.has_occupancy_monitoring()),
            mbm_total: monitoring
                .as_ref()
                .is_some_and(|info| info.has_total_bandwidth_monitoring()),
            mbm_local: monitoring
                .as_ref()
                .is_some_and(|info| info.has_local_bandwidth_monitoring()),
        }
    }
}

fn hypervisor_name(hypervisor: &raw_cpuid::Hypervisor) -> String {
    use raw_cpuid::Hypervisor;
    match hypervisor {
        Hypervisor::Unknown(..) => "unknown".to_string(),
        known => format!("{known:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn cpuid_agrees_with_the_kernel_on_what_nobody_hides() {
        let (features, root) = (Features::detect(), FsRoot::host());
        let theirs = Identity::from_cpuinfo(&root);
        if theirs.vendor.is_some() {
            assert_eq!(features.identity.vendor, theirs.vendor);
            assert_eq!(features.identity.family, theirs.family);
            assert_eq!(features.identity.model, theirs.model);
            for (flag, ours) in [
                ("clflush", features.clflush),
                ("clwb", features.clwb),
                ("movdir64b", features.movdir64b),
            ] {
                assert_eq!(has_cpuinfo_flag(&root, flag), ours, "{flag}");
            }
        }
        assert!(features.flush_line.is_none_or(|line| line == 64), "{features:?}");
    }

    #[test]
    fn what_an_earlier_version_did_not_ask_for_is_lacking() {
        let ours = Features { clwb: true, tsc_hz: Some(1), ..Features::default() };
        let stored = serde_json::to_value(&ours).unwrap();
        assert_eq!(serde_json::from_value::<Features>(stored.clone()).unwrap(), ours);
        for field in stored
            .as_object()
            .unwrap()
            .keys()
            .filter(|field| !["clwb", "tsc_hz"].contains(&field.as_str()))
        {
            let mut older = stored.clone();
            older.as_object_mut().unwrap().remove(field);
            assert_eq!(serde_json::from_value::<Features>(older).unwrap(), ours, "{field}");
        }
    }

    #[test]
    fn names_of_fixtures() {
        let tree = fixtures::zen_multi_llc();
        let identity = Identity::from_cpuinfo(&tree.root());
        assert_eq!(identity.vendor.as_deref(), Some("AuthenticAMD"));
        assert_eq!(
            (identity.family, identity.model, identity.stepping),
            (Some(25), Some(1), Some(1))
        );
        assert!(identity.brand.unwrap().contains("EPYC 7513"));
        assert!(!has_cpuinfo_flag(&tree.root(), "hypervisor"));
        assert!(has_cpuinfo_flag(&fixtures::vm_2cpu().root(), "hypervisor"));
        tree.remove("/proc/cpuinfo");
        assert_eq!(Identity::from_cpuinfo(&tree.root()), Identity::default());
    }
}
