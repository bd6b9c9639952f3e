//! Other architectures, by what Linux prints of them.

use crate::root::FsRoot;

impl FsRoot {
    /// The architecture, if `/proc/cpuinfo` says that it is not x86-64.
    pub fn other_processor(&self) -> Option<&'static str> {
        if self.is_host() && cfg!(target_arch = "x86_64") {
            return None;
        }
        self.cpuinfo().lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            match (key.trim(), value.trim()) {
                ("CPU implementer" | "CPU architecture", _) => Some("Arm"),
                ("hart", _) => Some("RISC-V"),
                ("vendor_id", "IBM/S390") => Some("IBM Z"),
                ("cpu", value) if ["POWER", "PPC"].iter().any(|name| value.starts_with(name)) => {
                    Some("POWER")
                }
                ("CPU Family", value) if value.starts_with("Loongson") => Some("LoongArch"),
                ("arch", "IA-64") => Some("Itanium"),
                ("cpu", value) if value.contains("parc") => Some("SPARC"),
                ("cpu model", value) if value.contains("MIPS") || value.contains("Loongson") => {
                    Some("MIPS")
                }
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_by_what_linux_prints_of_each() {
        let of = |text: &str| {
            let tree = crate::fixture::FixtureTree::empty("processor");
            tree.write("/proc/cpuinfo", text);
            tree.root().other_processor()
        };
        for (text, name) in [
            (
                "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU implementer\t: \
                 0x41\n",
                Some("Arm"),
            ),
            ("processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\n", Some("RISC-V")),
            ("vendor_id       : IBM/S390\n# processors    : 4\nfeatures\t: esan3\n", Some("IBM Z")),
            ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", Some("POWER")),
            ("system type\t\t: generic\nCPU Family\t\t: Loongson-64bit\n", Some("LoongArch")),
            ("processor  : 0\nvendor     : GenuineIntel\narch       : IA-64\n", Some("Itanium")),
            (
                "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel name\t: \
                 x\nflags\t\t: fpu\n",
                None,
            ),
            ("processor : 0\n", None),
        ] {
            assert_eq!(of(text), name, "{text}");
        }
        assert_eq!(FsRoot::at("/nonexistent-root").other_processor(), None);
    }
}
