//! Which memory there is to write to: DRAM, tmpfs, DAX file systems, device DAX, far nodes.
//!
//! Listing is not promising: whether stores to a target survive a power cut is for the
//! persistence library to decide when it maps it. [`Target::why`] says what is known here.

mod mounts;
mod pmem;
mod target;

use crate::root::{FsRoot, field_kib};
use crate::topology::Topology;
use crate::units::Bytes;

pub(crate) use mounts::without_dax as mounted_without_dax;
pub use target::{Target, TargetKind};

/// Every target below `root`, `dram` first.
pub fn find(root: &FsRoot, topology: &Topology) -> Vec<Target> {
    let mut targets = vec![dram(root)];
    targets.extend(mounts::find(root));
    targets.extend(pmem::namespaces(root));
    targets.extend(pmem::devdax(root));
    targets.extend(nodes(topology));
    targets.extend(hugepages(root));
    targets
}

fn dram(root: &FsRoot) -> Target {
    let meminfo = root.read_opt("/proc/meminfo").unwrap_or_default();
    Target {
        size: field_kib(&meminfo, "MemTotal").map(Bytes),
        free: field_kib(&meminfo, "MemAvailable").map(Bytes),
        ..Target::new(TargetKind::Dram, "dram", "ordinary memory: what is flushed there is not durable")
    }
}

fn nodes(topology: &Topology) -> Vec<Target> {
    let without_cpus = topology.nodes.iter().filter(|node| node.memory_only);
    without_cpus
        .map(|node| Target {
            size: node.memory,
            free: node.free,
            node: Some(node.id),
            ..Target::new(
                TargetKind::Node,
                format!("node:{}", node.id),
                "memory without CPUs, as a CXL expander or persistent memory in system-ram mode shows itself",
            )
        })
        .collect()
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
            let why = "no pages are reserved; raise nr_hugepages, or rely on transparent huge pages";
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
        targets.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("{name}: {targets:?}"))
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

    #[test]
    fn memory_carved_out_of_dram_is_called_so() {
        let tree = fixtures::xeon_2s64t();
        let bus = "/sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0";
        tree.write(format!("{bus}/provider"), "e820\n").remove(format!("{bus}/region0/persistence_domain"));
        let targets = targets(&tree);
        let dax = named(&targets, "dax:/mnt/pmem0");
        assert_eq!(dax.persistence_domain, None);
        assert!(dax.why.contains("memmap="), "{}", dax.why);
    }

    #[test]
    fn a_pool_with_free_pages() {
        let tree = fixtures::vm_2cpu();
        let dir = "/sys/kernel/mm/hugepages/hugepages-2048kB";
        tree.write(format!("{dir}/nr_hugepages"), "8\n").write(format!("{dir}/free_hugepages"), "3\n");
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
