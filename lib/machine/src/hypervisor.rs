//! Whether a machine is virtual, by the kernel's files.
//!
//! Hypervisors can hide CPUID's flag (VirtualBox without a paravirtualization interface does), and
//! still name themselves in the firmware's tables or by their devices.

use crate::features::has_cpuinfo_flag;
use crate::root::FsRoot;

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// The hypervisor's name, if it is known.
    pub hypervisor: Option<String>,
    /// The files that say so, with what they hold.
    pub evidence: Vec<String>,
}

/// What the firmware of virtual machines calls the product or its vendor (beginnings), as
/// systemd-detect-virt knows them. Left out are names that machines without a hypervisor have, too:
/// Google Compute Engine (its metal instances, with the same SMBIOS tables), Alibaba Cloud as a
/// vendor, and Oracle Corporation (its servers).
const FIRMWARE: [(&str, &str); 18] = [
    ("VirtualBox", "VirtualBox"),
    ("innotek GmbH", "VirtualBox"),
    ("VMware", "VMware"),
    ("VMW", "VMware"),
    ("KVM", "KVM"),
    ("KubeVirt", "KVM"),
    ("CloudStack KVM", "KVM"),
    ("QEMU", "QEMU"),
    ("Bochs", "Bochs"),
    ("Xen", "Xen"),
    ("HVM domU", "Xen"),
    ("Parallels", "Parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "Hyper-V"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("OpenStack Nova", "OpenStack"),
    ("OpenStack Compute", "OpenStack"),
    ("Alibaba Cloud ECS", "Alibaba Cloud ECS"),
];

/// Devices (vendor and number, as in `/proc/bus/pci/devices`) that virtual machines alone have, as
/// lscpu knows them.
const DEVICES: [(&str, &str); 5] = [
    ("80eebeef", "VirtualBox"),
    ("80eecafe", "VirtualBox"),
    ("15ad0405", "VMware"),
    ("15ad0710", "VMware"),
    ("58530001", "Xen"),
];

/// What is known of the hypervisor, or `None` if nothing speaks for one.
pub fn guest(root: &FsRoot) -> Option<Guest> {
    let flag = has_cpuinfo_flag(root, "hypervisor")
        .then(|| (None, "/proc/cpuinfo lists the flag 'hypervisor'".to_string()));
    let found: Vec<(Option<&str>, String)> =
        [flag, firmware(root), smbios(root), interface(root), device(root)]
            .into_iter()
            .flatten()
            .collect();
    (!found.is_empty()).then(|| Guest {
        hypervisor: found.iter().find_map(|(name, _)| *name).map(str::to_string),
        evidence: found.into_iter().map(|(_, evidence)| evidence).collect(),
    })
}

fn firmware(root: &FsRoot) -> Option<(Option<&'static str>, String)> {
    let read = |name: &str| {
        let folders = ["/sys/class/dmi/id", "/sys/devices/virtual/dmi/id"];
        folders.into_iter().map(|folder| format!("{folder}/{name}")).find_map(|path| {
            let text = root.read_opt(&path)?;
            Some((path, text))
        })
    };
    let product = read("product_name");
    let product_is = |name: &str| product.as_ref().is_some_and(|(_, text)| text.starts_with(name));
    // Amazon names the instance type here, as m5.metal for machines without a hypervisor.
    let metal = product.as_ref().is_some_and(|(_, text)| text.contains(".metal"));
    let name = |text: &str| {
        let known =
            FIRMWARE.into_iter().find(|(start, _)| text.starts_with(start)).map(|(_, name)| name);
        match text {
            "Microsoft Corporation" if product_is("Virtual Machine") => Some("Hyper-V"),
            "Amazon EC2" if !metal => Some("Amazon EC2"),
            "DigitalOcean" if product_is("Droplet") => Some("DigitalOcean"),
            "Hetzner" if product_is("vServer") => Some("Hetzner Cloud"),
            _ => known,
        }
    };
    ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"]
        .into_iter()
        .find_map(|field| {
            let (path, text) = read(field)?;
            Some((Some(name(&text)?), format!("{path} is '{text}'")))
        })
}

// A bit by which firmware says that the machine is virtual: readable by root only, and not set by
// all that could.
fn smbios(root: &FsRoot) -> Option<(Option<&'static str>, String)> {
    let path = "/sys/firmware/dmi/entries/0-0/raw";
    let table = root.bytes(path).ok()?;
    // The length of the table, and the second of the BIOS characteristics extension bytes.
    let (&length, &extension) = (table.get(1)?, table.get(19)?);
    let set = length >= 20 && extension & 1 << 4 != 0;
    set.then(|| (None, format!("{path} has the bit for virtual machines")))
}

fn interface(root: &FsRoot) -> Option<(Option<&'static str>, String)> {
    let path = "/sys/hypervisor/type";
    let text = root.read_opt(path)?;
    Some(((text == "xen").then_some("Xen"), format!("{path} is '{text}'")))
}

fn device(root: &FsRoot) -> Option<(Option<&'static str>, String)> {
    let path = "/proc/bus/pci/devices";
    let text = root.read_opt(path)?;
    let mut numbers = text.lines().filter_map(|line| line.split_whitespace().nth(1));
    let (number, name) =
        numbers.find_map(|number| DEVICES.into_iter().find(|(known, _)| *known == number))?;
    Some((Some(name), format!("{path} names device {}:{}", &number[..4], &number[4..])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, FixtureTree};

    #[test]
    fn hypervisors_are_recognised_without_the_flag() {
        for (vendor, product, expected) in [
            ("innotek GmbH", "VirtualBox", Some("VirtualBox")),
            ("innotek GmbH", "", Some("VirtualBox")),
            ("VMware, Inc.", "VMware Virtual Platform", Some("VMware")),
            ("VMware, Inc.", "VMware7,1", Some("VMware")),
            ("Microsoft Corporation", "Virtual Machine", Some("Hyper-V")),
            ("Microsoft Corporation", "Surface Laptop 5", None),
            ("QEMU", "Standard PC (i440FX + PIIX, 1996)", Some("QEMU")),
            ("Red Hat", "KVM", Some("KVM")),
            ("Apache Software Foundation", "CloudStack KVM Hypervisor", Some("KVM")),
            ("Xen", "HVM domU", Some("Xen")),
            (
                "Parallels Software International Inc.",
                "Parallels Virtual Platform",
                Some("Parallels"),
            ),
            ("", "BHYVE", Some("bhyve")),
            ("Amazon EC2", "m5.large", Some("Amazon EC2")),
            ("Amazon EC2", "m7i.metal-24xl", None),
            ("OpenStack Foundation", "OpenStack Nova", Some("OpenStack")),
            ("OpenStack Foundation", "OpenStack Compute", Some("OpenStack")),
            ("Alibaba Cloud", "Alibaba Cloud ECS", Some("Alibaba Cloud ECS")),
            ("Alibaba Cloud", "Other", None),
            ("DigitalOcean", "Droplet", Some("DigitalOcean")),
            ("DigitalOcean", "Other", None),
            ("Hetzner", "vServer", Some("Hetzner Cloud")),
            ("Google", "Google Compute Engine", None),
            ("Oracle Corporation", "ORACLE SERVER X9-2c", None),
            ("Dell Inc.", "PowerEdge R740", None),
        ] {
            let tree = FixtureTree::empty("dmi");
            let dir = "/sys/class/dmi/id";
            tree.write(format!("{dir}/sys_vendor"), vendor)
                .write(format!("{dir}/product_name"), product);
            let found = guest(&tree.root());
            let name = found.as_ref().and_then(|guest| guest.hypervisor.as_deref());
            assert_eq!(name, expected, "{vendor} {product}");
            assert_eq!(found.is_some(), expected.is_some());
        }
    }

    #[test]
    fn devices_and_interfaces_name_hypervisors() {
        let tree = FixtureTree::empty("pci");
        tree.write("/proc/bus/pci/devices", "0000\t80861237\t0\n0010\t80eebeef\t12\n");
        let evidence = vec!["/proc/bus/pci/devices names device 80ee:beef".to_string()];
        let expected = Guest { hypervisor: Some("VirtualBox".into()), evidence };
        assert_eq!(guest(&tree.root()), Some(expected));
        tree.remove("/proc/bus").write("/sys/hypervisor/type", "xen\n");
        assert_eq!(guest(&tree.root()).unwrap().hypervisor.as_deref(), Some("Xen"));
    }

    #[test]
    fn firmware_says_in_a_bit_that_the_machine_is_virtual() {
        let tree = FixtureTree::empty("smbios");
        for (length, extension, expected) in
            [(24, 0x1c, true), (24, 0x0c, false), (18, 0x1c, false)]
        {
            let mut table = [0_u8; 26];
            (table[1], table[19]) = (length, extension);
            tree.write("/sys/firmware/dmi/entries/0-0/raw", std::str::from_utf8(&table).unwrap());
            assert_eq!(guest(&tree.root()).is_some(), expected, "{length} {extension}");
        }
    }

    #[test]
    fn the_flag_alone_names_none() {
        let found = guest(&fixtures::vm_2cpu().root()).unwrap();
        assert_eq!(found.hypervisor, None);
        assert_eq!(found.evidence, ["/proc/cpuinfo lists the flag 'hypervisor'"]);
        assert_eq!(guest(&fixtures::xeon_2s64t().root()), None);
    }
}
