//! Which memory there is to write to: DRAM, tmpfs, DAX file systems, device DAX, far nodes.
//!
//! Listing is not promising: whether stores to a target survive a power cut is for the
//! persistence library to decide when it maps it. [`Target::why`] says what is known here.

mod mounts;
mod pmem;
mod target;

use std::collections::BTreeSet;

use crate::root::{FsRoot, field_kib};
use crate::topology::{Node, Topology};
use crate::units::Bytes;

use pmem::{DaxDevice, Origin};

pub(crate) use mounts::without_dax as mounted_without_dax;
pub use target::{Target, TargetKind};

/// Every target below `root`, `dram` first.
pub fn find(root: &FsRoot, topology: &Topology) -> Vec<Target> {
    let mut targets = vec![dram(root)];
    targets.extend(mounts::find(root));
    targets.extend(pmem::namespaces(root));
    let devices = pmem::dax_devices(root);
    targets.extend(pmem::devdax(root, &devices, topology));
    targets.extend(nodes(root, topology, &devices));
    targets.extend(hugepages(root));
    targets
}

fn dram(root: &FsRoot) -> Target {
    let meminfo = root.read_opt("/proc/meminfo").unwrap_or_default();
    Target {
        size: field_kib(&meminfo, "MemTotal").map(Bytes),
        free: field_kib(&meminfo, "MemAvailable").map(Bytes),
        ..Target::new(
            TargetKind::Dram,
            "dram",
            "ordinary memory: what is flushed there is not durable",
        )
    }
}

fn nodes(root: &FsRoot, topology: &Topology, devices: &[DaxDevice]) -> Vec<Target> {
    let (without_cpus, others): (Vec<&Node>, Vec<&Node>) =
        topology.nodes.iter().partition(|node| node.memory_only);
    let local = others.iter().filter_map(|node| rated(root, node.id, "read_bandwidth")).max();
    without_cpus
        .into_iter()
        .map(|node| Target {
            size: node.memory,
            free: node.free,
            node: Some(node.id),
            ..Target::new(
                TargetKind::Node,
                format!("node:{}", node.id),
                without_cpus_why(root, node.id, local, devices),
            )
        })
        .collect()
}

// What firmware rates a node at, for the CPUs that are nearest to it: MB/s and ns (kernel
// documentation, numaperf).
fn rated(root: &FsRoot, node: u32, what: &str) -> Option<u64> {
    let path = format!("/sys/devices/system/node/node{node}/access0/initiators/{what}");
    root.parse_opt(path).filter(|&value| value > 0)
}

// What memory without CPUs is: by the devices that it was given by, or else by its bandwidth,
// `local` being the most that a node with CPUs has.
fn without_cpus_why(root: &FsRoot, node: u32, local: Option<u64>, devices: &[DaxDevice]) -> String {
    let given: Vec<&DaxDevice> =
        devices.iter().filter(|device| device.given_to() == Some(node)).collect();
    let origins: BTreeSet<Origin> =
        given.iter().filter_map(|device| device.region.origin).collect();
    let names = given.iter().map(|device| &*device.name).collect::<Vec<_>>().join(", ");
    let bandwidth = rated(root, node, "read_bandwidth");
    let what = match (given.is_empty(), origins.first().filter(|_| origins.len() == 1)) {
        (false, Some(origin)) => format!(": {}, in system-ram mode ({names})", origin.words()),
        (false, None) => format!(": devices in system-ram mode ({names})"),
        (true, _) => match bandwidth.zip(local) {
            Some((bandwidth, local)) if bandwidth > local => {
                ", faster than that of nodes with CPUs, as HBM is".into()
            }
            Some((bandwidth, local)) if bandwidth < local => {
                ", slower than that of nodes with CPUs, as a CXL expander is".into()
            }
            _ => ", as a CXL expander or persistent memory in system-ram mode shows itself".into(),
        },
    };
    let latency = rated(root, node, "read_latency").map(|ns| format!("{ns} ns"));
    let bandwidth = bandwidth.map(|mb| format!("{:.1} GB/s", mb as f64 / 1000.0));
    let rated: Vec<String> = bandwidth.into_iter().chain(latency).collect();
    let rated = if rated.is_empty() {
        String::new()
    } else {
        format!("; firmware rates reads at {}", rated.join(" and "))
    };
    format!("memory without CPUs{what}{rated}")
}

fn hugepages(root: &FsRoot) -> Vec<Target> {
    let dir = "/sys/kernel/mm/hugepages";
    let mut pools = Vec::new();
    for name in root.list_opt(dir) {
        let digits = name.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB"));
        let Some(page) = digits.and_then(|kib| kib.parse::<u64>().ok()).map(Bytes::kib) else {
            continue;
        };
        let pages = |file: &str| root.parse_opt::<u64>(format!("{dir}/{name}/{file}")).unwrap_or(0);
        let (all, free) = (pages("nr_hugepages"), pages("free_hugepages"));
        let name = format!("hugepages:{page}");
        let target = if free > 0 {
            Target::new(TargetKind::Hugepages, name, format!("{free} of {all} pages are free"))
        } else if all > 0 {
            let why = format!("all {all} pages are taken; raise nr_hugepages");
            Target::unusable(TargetKind::Hugepages, name, why)
        } else {
            let why =
                "no pages are reserved; raise nr_hugepages, or rely on transparent huge pages";
            Target::unusable(TargetKind::Hugepages, name, why)
        };
        pools.push(Target {
            size: Some(Bytes(all.saturating_mul(page.0))),
            free: Some(Bytes(free.saturating_mul(page.0))),
            align: Some(page),
            ..target
        });
    }
    pools
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, FixtureTree};

    fn targets(tree: &FixtureTree) -> Vec<Target> {
        find(&tree.root(), &Topology::read(&tree.root()).unwrap())
    }

    fn named<'a>(targets: &'a [Target], name: &str) -> &'a Target {
        targets
            .iter()
            .find(|target| target.name == name)
            .unwrap_or_else(|| panic!("{name}: {targets:?}"))
    }

    #[test]
    fn optane_in_both_modes() {
        let targets = targets(&fixtures::xeon_2s64t());
        assert_eq!(targets[0].name, "dram");
        let dax = named(&targets, "dax:/mnt/pmem0");
        assert!(dax.usable);
        assert_eq!(dax.persistence_domain.as_deref(), Some("memory_controller"));
        assert_eq!(dax.node, Some(0));
        let devdax = named(&targets, "devdax:/dev/dax1.0");
        assert!(devdax.usable);
        assert_eq!(devdax.align, Some(Bytes::mib(2)));
        assert_eq!(devdax.persistence_domain.as_deref(), Some("memory_controller"));
        assert!(named(&targets, "tmpfs:/dev/shm").usable);
        assert!(!named(&targets, "namespace0.0").usable);
        assert!(!named(&targets, "hugepages:2MiB").usable);
    }

    #[test]
    fn cxl_memory_as_a_node_and_not_as_a_device() {
        let targets = targets(&fixtures::cxl_node());
        let node = named(&targets, "node:2");
        assert_eq!((node.usable, node.size, node.node), (true, Some(Bytes::gib(128)), Some(2)));
        let device = named(&targets, "devdax:/dev/dax0.0");
        assert!(!device.usable && device.why.contains("node:2"), "{device:?}");
    }

    fn device(tree: &FixtureTree, path: &str, driver: &str, node: u32) {
        let name = path.rsplit('/').next().unwrap();
        tree.write(format!("{path}/size"), "68719476736\n")
            .write(format!("{path}/target_node"), format!("{node}\n"))
            .folder(format!("/sys/bus/dax/drivers/{driver}"))
            .link(format!("{path}/driver"), format!("/sys/bus/dax/drivers/{driver}"))
            .link(format!("/sys/bus/dax/devices/{name}"), path);
    }

    #[test]
    fn memory_that_is_set_aside_keeps_nothing() {
        let tree = fixtures::vm_2cpu();
        device(&tree, "/sys/devices/platform/hmem.0/dax0.0", "device_dax", 1);
        device(&tree, "/sys/devices/pci0000:00/region1/dax_region1/dax1.0", "device_dax", 0);
        let found = targets(&tree);
        for (name, what, node) in
            [("dax0.0", "set aside", None), ("dax1.0", "volatile CXL memory", Some(0))]
        {
            let target = named(&found, &format!("devdax:/dev/{name}"));
            assert!(target.usable && target.volatile && !target.is_persistent(), "{target:?}");
            assert!(target.why.contains(what) && target.node == node, "{target:?}");
        }
        let ids = |tree: &FixtureTree| -> Vec<String> {
            let topology = Topology::read(&tree.root()).unwrap();
            let found = crate::doctor::examine(&tree.root(), &topology, &targets(tree));
            found.into_iter().map(|finding| finding.id).collect()
        };
        assert!(ids(&tree).contains(&"no-persistent-memory".to_string()));
        let optane = fixtures::xeon_2s64t();
        assert!(named(&targets(&optane), "devdax:/dev/dax1.0").is_persistent());
        assert!(!ids(&optane).contains(&"no-persistent-memory".to_string()));
    }

    #[test]
    fn a_node_that_is_not_there_is_not_named() {
        let tree = fixtures::vm_2cpu();
        device(&tree, "/sys/devices/platform/hmem.0/dax0.0", "kmem", 5);
        let found = targets(&tree);
        let target = named(&found, "devdax:/dev/dax0.0");
        assert_eq!(target.node, None);
        assert!(
            target.why.contains("node 5, which is not there") && !target.why.contains("node:5"),
            "{}",
            target.why
        );
    }

    #[test]
    fn nodes_without_cpus_are_told_apart() {
        let why = |tree: &FixtureTree| named(&targets(tree), "node:2").why.clone();
        let tree = fixtures::cxl_node();
        assert!(
            why(&tree).contains("volatile CXL memory, in system-ram mode (dax0.0)"),
            "{}",
            why(&tree)
        );
        let rate = |tree: &FixtureTree, node: u32, mb: u64, ns: u64| {
            let dir = format!("/sys/devices/system/node/node{node}/access0/initiators");
            tree.write(format!("{dir}/read_bandwidth"), format!("{mb}\n"));
            tree.write(format!("{dir}/read_latency"), format!("{ns}\n"));
        };
        rate(&tree, 2, 24_500, 250);
        assert!(
            why(&tree).ends_with("; firmware rates reads at 24.5 GB/s and 250 ns"),
            "{}",
            why(&tree)
        );
        // Without a device, by what firmware says of them.
        tree.remove("/sys/bus/dax");
        assert!(why(&tree).contains("as a CXL expander or persistent memory"), "{}", why(&tree));
        rate(&tree, 0, 204_800, 90);
        assert!(why(&tree).contains("slower than that of nodes with CPUs"), "{}", why(&tree));
        rate(&tree, 2, 400_000, 110);
        assert!(why(&tree).contains("as HBM is"), "{}", why(&tree));
        let tree = fixtures::cxl_node();
        tree.remove("/sys/bus/dax/devices");
        device(&tree, "/sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region0/dax0.0", "kmem", 2);
        assert!(why(&tree).contains("persistent memory, in system-ram mode"), "{}", why(&tree));
    }

    #[test]
    fn memory_carved_out_of_dram_is_called_so() {
        let tree = fixtures::xeon_2s64t();
        let bus = "/sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0";
        tree.write(format!("{bus}/provider"), "e820\n")
            .remove(format!("{bus}/region0/persistence_domain"));
        let targets = targets(&tree);
        let dax = named(&targets, "dax:/mnt/pmem0");
        assert_eq!(dax.persistence_domain, None);
        assert!(dax.why.contains("memmap="), "{}", dax.why);
    }

    #[test]
    fn a_pool_with_free_pages() {
        let tree = fixtures::vm_2cpu();
        let dir = "/sys/kernel/mm/hugepages/hugepages-2048kB";
        tree.write(format!("{dir}/nr_hugepages"), "8\n")
            .write(format!("{dir}/free_hugepages"), "3\n");
        let targets = targets(&tree);
        let pool = named(&targets, "hugepages:2MiB");
        assert_eq!((pool.usable, pool.free), (true, Some(Bytes::mib(6))));
        assert!(!targets.iter().any(|target| target.kind == TargetKind::Dax));
    }

    #[test]
    fn the_host_has_dram() {
        let root = FsRoot::host();
        let targets = find(&root, &Topology::read(&root).unwrap());
        assert!(named(&targets, "dram").size.unwrap().0 > 0);
    }
}
