//! Topology on fixtures.

use crate::cpulist::CpuSet;
use crate::fixtures::{self, FixtureTree};
use crate::units::Bytes;

use super::{CacheKind, CoreKind, Relation, Topology};

fn read(tree: &FixtureTree) -> Topology {
    Topology::read(&tree.root()).unwrap()
}

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

#[test]
fn two_sockets_with_interleaved_numbers() {
    let topology = read(&fixtures::xeon_2s64t());
    let evens: CpuSet = (0..64).step_by(2).collect();
    assert_eq!(topology.smt_siblings(2), set("34"));
    assert_eq!(topology.llc(0).unwrap().cpus, evens);
    assert_eq!(topology.llc_groups().len(), 2);
    assert_eq!(topology.node_of(33), Some(1));
    assert_eq!(topology.cores.len(), 32);
    assert_eq!(topology.primary_threads(), set("0-31"));
    assert_eq!(
        (topology.l2_size(5), topology.llc_size(5)),
        (Some(Bytes::mib(1)), Some(Bytes::mib(22)))
    );
    assert_eq!(topology.llc(1).unwrap().ways, Some(11));
    assert_eq!(topology.caches.iter().filter(|cache| cache.level == 1).count(), 64);
    assert_eq!(topology.node(0).unwrap().distance(1), Some(21));
    assert_eq!(topology.cpu(0).unwrap().max_khz, Some(3_900_000));
    assert!(topology.notes.is_empty(), "{:?}", topology.notes);
    assert_eq!(
        topology.summary(),
        "2 sockets x 16 cores x 2 threads, L1d 32KiB, L2 1MiB, L3 2 x 22MiB, 2 NUMA nodes"
    );
}

#[test]
fn placements_on_two_sockets() {
    let topology = read(&fixtures::xeon_2s64t());
    let all = topology.usable();
    assert_eq!(topology.pairs_smt(&all)[..2], [(0, 32), (1, 33)]);
    assert_eq!(topology.pairs_smt(&all).len(), 32);
    let llc = topology.pairs_llc(&all);
    assert_eq!(llc[0], (0, 2));
    assert_eq!(llc.len(), 2 * (16 * 15 / 2));
    assert!(llc.iter().all(|&(a, b)| topology.different_cores(a, b)));
    assert!(topology.pairs_node(&all).is_empty(), "a socket is one LLC here");
    assert_eq!(topology.pairs_remote(&all)[0], (0, 1));
    // Without primary threads the siblings stand for their cores.
    assert_eq!(topology.pairs_llc(&set("2,34,36"))[..], [(2, 36)]);
    assert!(topology.pairs_llc(&set("2,34")).is_empty());
}

#[test]
fn several_llcs_per_socket() {
    let topology = read(&fixtures::zen_multi_llc());
    let groups: Vec<String> = topology.llc_groups().iter().map(CpuSet::to_string).collect();
    assert_eq!(groups, ["0-7,32-39", "8-15,40-47", "16-23,48-55", "24-31,56-63"]);
    assert_eq!(topology.shares_llc(0, 39), Some(true));
    assert_eq!(topology.shares_llc(7, 8), Some(false));
    assert_eq!(topology.pairs_node(&topology.usable())[0], (0, 8));
    assert!(topology.pairs_remote(&topology.usable()).is_empty());
    assert!(topology.summary().ends_with("L3 4 x 32MiB"), "{}", topology.summary());
}

#[test]
fn memory_without_cpus() {
    let topology = read(&fixtures::cxl_node());
    let expander = topology.node(2).unwrap();
    assert!(expander.memory_only && expander.cpus.is_empty());
    assert_eq!(expander.memory, Some(Bytes::gib(128)));
    assert!(!topology.node(0).unwrap().memory_only);
    assert!(topology.summary().ends_with("3 NUMA nodes, 1 without CPUs"), "{}", topology.summary());
}

#[test]
fn two_kinds_of_cores() {
    let topology = read(&fixtures::hybrid_laptop());
    assert_eq!(topology.offline, set("18-19"));
    assert_eq!(topology.usable(), set("0-17"));
    assert_eq!(topology.core_of(1).unwrap().kind, Some(CoreKind::Performance));
    assert_eq!(topology.cpu(12).unwrap().kind, Some(CoreKind::Efficiency));
    let offline = topology.cpu(18).unwrap();
    assert!(!offline.online && offline.core.is_none() && offline.package.is_none());
    assert_eq!(topology.smt_siblings(0), set("1"));
    assert!(topology.smt_siblings(12).is_empty());
    let cluster = topology.data_caches(16).find(|cache| cache.level == 2).unwrap();
    assert_eq!(cluster.cpus, set("16-17"));
    assert_eq!(topology.l2_size(0), Some(Bytes::kib(1280)));
    let pairs = topology.pairs_llc(&topology.usable());
    assert_eq!(pairs[0], (0, 2));
    assert_eq!(pairs.last(), Some(&(10, 17)), "unequal cores come last");
    assert_eq!(
        topology.summary(),
        "6 P-cores + 6 E-cores, 18 CPUs online, 2 CPUs offline (18-19), L1d 32KiB, L1d 48KiB, \
         L2 1.25MiB, L2 2 x 2MiB, L3 24MiB"
    );
}

#[test]
fn a_small_virtual_machine() {
    let topology = read(&fixtures::vm_2cpu());
    assert!(topology.pairs_smt(&topology.usable()).is_empty());
    assert_eq!(topology.pairs_llc(&topology.usable()), [(0, 1)]);
    assert_eq!(topology.cpu(0).unwrap().max_khz, None);
    assert!(
        topology.summary().starts_with("1 socket x 2 cores x 1 thread, "),
        "{}",
        topology.summary()
    );
}

#[test]
fn missing_pieces_are_noted() {
    let topology = read(&fixtures::one_cpu());
    assert_eq!(topology.usable(), set("2"));
    assert!(topology.cores.is_empty() && topology.caches.is_empty() && topology.nodes.is_empty());
    assert_eq!(topology.primary_threads(), set("2"));
    assert_eq!(topology.shares_llc(0, 1), None);
    assert_eq!(topology.notes.len(), 3, "{:?}", topology.notes);
    assert_eq!(topology.summary(), "4 CPUs, this process may use 1 of 4");
}

#[test]
fn cores_without_thread_lists_are_grouped_by_their_ids() {
    let machine = fixtures::xeon_2s64t();
    for cpu in 0..64 {
        for name in ["core_cpus_list", "thread_siblings_list"] {
            machine.remove(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
        }
    }
    let topology = read(&machine);
    assert_eq!(topology.cores.len(), 32);
    assert_eq!(topology.smt_siblings(34), set("2"));
}

#[test]
fn no_sysfs_but_cpuinfo() {
    let machine = fixtures::vm_2cpu();
    machine.remove("/sys");
    let topology = read(&machine);
    assert_eq!(topology.usable(), set("0-1"));
    machine.remove("/proc/cpuinfo");
    let error = Topology::read(&machine.root()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ENOENT));
}

#[test]
fn instruction_caches_are_not_on_the_way_of_loads() {
    let topology = read(&fixtures::vm_2cpu());
    assert!(topology.data_caches(0).all(|cache| cache.kind != CacheKind::Instruction));
    assert_eq!(topology.l1d_size(1), Some(Bytes::kib(48)));
}

#[test]
fn json_round_trip() {
    for tree in [fixtures::hybrid_laptop(), fixtures::one_cpu(), fixtures::cxl_node()] {
        let topology = read(&tree);
        let json = serde_json::to_string(&topology).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), topology);
    }
}

// A guest whose memory is set up as it is touched: its node counts what was set up so far.
#[test]
fn the_memory_is_that_of_proc_meminfo() {
    let meminfo = |total: u64, free: u64| format!("MemTotal: {total} kB\nMemFree: {free} kB\n");
    let guest = fixtures::vm_2cpu();
    guest.write("/proc/meminfo", meminfo(24 << 20, 17 << 20));
    guest.write("/sys/devices/system/node/possible", "0\n");
    let topology = read(&guest);
    assert_eq!(
        (topology.nodes[0].memory, topology.nodes[0].free),
        (Some(Bytes::gib(24)), Some(Bytes::gib(17)))
    );
    assert!(
        !topology.notes.iter().any(|note| note.contains("MemTotal") || note.contains("adds up"))
    );
    // Which of several nodes has the rest is not told, and so it is said.
    let two = fixtures::xeon_2s64t();
    let before = read(&two);
    assert!(!before.notes.iter().any(|note| note.contains("adds up")), "{:?}", before.notes);
    two.write("/proc/meminfo", meminfo(256 << 20, 17 << 20));
    let topology = read(&two);
    assert_eq!(topology.nodes, before.nodes);
    let note = topology.notes.iter().find(|note| note.contains("adds up")).unwrap();
    assert!(
        note.contains("adds up to 192GiB") && note.contains("/proc/meminfo has 256GiB"),
        "{note}"
    );
}

// A copy of a machine's files that shows one of its nodes: it has what its own meminfo says.
#[test]
fn a_node_that_is_not_the_only_possible_one_keeps_its_memory() {
    let tree = fixtures::vm_2cpu();
    let own = read(&tree).nodes[0].memory;
    tree.write("/proc/meminfo", "MemTotal: 99999999 kB\n");
    for possible in [None, Some("0-1\n")] {
        if let Some(possible) = possible {
            tree.write("/sys/devices/system/node/possible", possible);
        }
        let topology = read(&tree);
        assert_eq!(topology.nodes[0].memory, own);
        assert!(
            topology.notes.iter().any(|note| note.contains("which node has the rest")),
            "{:?}",
            topology.notes
        );
    }
    tree.write("/proc/meminfo", "MemTotal: 1000 kB\n");
    let notes = read(&tree).notes;
    assert!(notes.iter().any(|note| note.contains("more than the")), "{notes:?}");
    assert!(!notes.iter().any(|note| note.contains("the rest")), "{notes:?}");
}

// Kernels before lists, and copies of a machine that took the masks alone.
#[test]
fn masks_say_what_lists_would() {
    let machine = fixtures::xeon_2s64t();
    let listed = read(&machine);
    let masked = |path: String, mask: &str| {
        let cpus: CpuSet = read_list(&machine, &path);
        let mut words = [0_u32; 2];
        cpus.iter().for_each(|cpu| words[cpu as usize / 32] |= 1 << (cpu % 32));
        machine.remove(&path);
        let folder = path.rsplit_once('/').unwrap().0;
        machine.write(format!("{folder}/{mask}"), format!("{:08x},{:08x}\n", words[1], words[0]));
    };
    for cpu in 0..64 {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}");
        masked(format!("{dir}/topology/core_cpus_list"), "core_cpus");
        masked(format!("{dir}/topology/thread_siblings_list"), "thread_siblings");
        for index in machine.root().numbered(format!("{dir}/cache"), "index") {
            masked(format!("{dir}/cache/index{index}/shared_cpu_list"), "shared_cpu_map");
        }
    }
    for node in 0..2 {
        masked(format!("/sys/devices/system/node/node{node}/cpulist"), "cpumap");
    }
    assert_eq!(read(&machine), listed);
}

fn read_list(machine: &FixtureTree, path: &str) -> CpuSet {
    machine.root().read_parsed(path, "a CPU list").unwrap()
}

#[test]
fn unknown_cpus_and_memory_of_a_node_are_not_none() {
    let machine = fixtures::xeon_2s64t();
    machine.remove("/sys/devices/system/node/node0/cpulist");
    machine.write("/sys/devices/system/node/node1/cpulist", "garbage\n");
    machine.remove("/sys/devices/system/node/node1/meminfo");
    let topology = read(&machine);
    for node in &topology.nodes {
        assert!(!node.cpus_known && !node.memory_only && node.cpus.is_empty(), "{node:?}");
    }
    assert!(topology.nodes[0].memory_known && !topology.nodes[1].memory_known);
    for part in ["neither cpulist nor cpumap", "holds 'garbage'", "memory of node 1 is not known"] {
        assert!(
            topology.notes.iter().any(|note| note.contains(part)),
            "{part}: {:?}",
            topology.notes
        );
    }
}

#[test]
fn offline_cpus_are_of_no_node() {
    let machine = fixtures::vm_2cpu();
    machine.write("/sys/devices/system/cpu/online", "1\n");
    let topology = read(&machine);
    assert_eq!((topology.nodes[0].cpus.clone(), topology.nodes[0].memory_only), (set("1"), false));
    machine.write("/sys/devices/system/node/node0/cpulist", "0\n");
    let topology = read(&machine);
    assert!(topology.nodes[0].cpus.is_empty() && !topology.nodes[0].memory_only);
}

#[test]
fn an_unreadable_list_of_online_cpus_is_not_missing() {
    let machine = fixtures::vm_2cpu();
    machine.write("/sys/devices/system/cpu/online", "abc\n");
    let topology = read(&machine);
    assert_eq!(topology.online, set("0-1"));
    assert!(
        topology.notes.iter().any(|note| note.contains("online holds 'abc'")),
        "{:?}",
        topology.notes
    );
}

#[test]
fn threads_are_not_invented_where_cores_are_unknown() {
    let machine = fixtures::vm_2cpu();
    machine.write("/sys/devices/system/cpu/online", "0-7\n");
    assert!(!read(&machine).summary().contains("thread"), "{}", read(&machine).summary());
}

#[test]
fn packages_without_numbers_are_told_apart_by_their_cpus() {
    let machine = fixtures::xeon_2s64t();
    for cpu in 0..64 {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        machine.write(format!("{dir}/physical_package_id"), "-1\n");
        let word = if cpu % 2 == 0 { "55555555" } else { "aaaaaaaa" };
        machine.write(format!("{dir}/core_siblings"), format!("{word},{word}\n"));
    }
    let packages: Vec<(u32, usize)> =
        read(&machine).packages.iter().map(|p| (p.id, p.cpus.len())).collect();
    assert_eq!(packages, [(0, 32), (1, 32)]);
}

#[test]
fn caches_of_levels_that_there_cannot_be_are_left_out() {
    let machine = fixtures::vm_2cpu();
    let before = read(&machine).caches;
    for (index, level) in [(20, 0), (21, 255)] {
        let dir = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
        machine
            .write(format!("{dir}/type"), "Unified\n")
            .write(format!("{dir}/level"), format!("{level}\n"));
    }
    assert_eq!(read(&machine).caches, before);
}

fn contradictions(machine: &FixtureTree) -> Vec<(Relation, String, String)> {
    let all = read(machine).contradictions;
    all.into_iter().map(|one| (one.relation, one.cpus.to_string(), one.text)).collect()
}

#[test]
fn machines_that_agree_with_themselves_have_no_contradictions() {
    for machine in [
        fixtures::xeon_2s64t(),
        fixtures::zen_multi_llc(),
        fixtures::cxl_node(),
        fixtures::hybrid_laptop(),
        fixtures::vm_2cpu(),
        fixtures::one_cpu(),
    ] {
        assert_eq!(contradictions(&machine), []);
    }
}

#[test]
fn a_cache_of_two_packages_is_a_contradiction() {
    let machine = fixtures::xeon_2s64t();
    for cpu in 0..64 {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index3");
        machine.write(format!("{dir}/shared_cpu_list"), "0-63\n");
    }
    let text = "the L3 of CPUs 0-63 spans packages 0-1, which share no cache";
    assert_eq!(contradictions(&machine), [(Relation::Cache, "0-63".into(), text.into())]);
    let topology = read(&machine);
    assert!(topology.doubtful(0, 1));
    let json = serde_json::to_string(&topology).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), topology);
}

#[test]
fn cpus_of_several_nodes_and_remote_nodes_as_near_as_the_own_are_contradictions() {
    let machine = fixtures::xeon_2s64t();
    for node in 0..2 {
        machine.write(format!("/sys/devices/system/node/node{node}/cpulist"), "0-63\n");
        machine.write(format!("/sys/devices/system/node/node{node}/distance"), "10 10\n");
    }
    let texts = [
        "each of nodes 0-1 names CPUs 0-63",
        "node 0 is as near to node 1 as to itself (distance 10)",
        "node 1 is as near to node 0 as to itself (distance 10)",
    ];
    assert_eq!(
        contradictions(&machine),
        texts.map(|text| (Relation::Node, "0-63".to_string(), text.to_string()))
    );
}

#[test]
fn lists_of_siblings_and_of_sharers_that_disagree_are_contradictions() {
    let machine = fixtures::xeon_2s64t();
    let dir = "/sys/devices/system/cpu/cpu34";
    machine.write(format!("{dir}/topology/core_cpus_list"), "34\n");
    machine.write(format!("{dir}/cache/index2/shared_cpu_list"), "34,36\n");
    let expected = [
        (Relation::Smt, "2,34", "the kernel's lists of SMT siblings of CPUs 2,34 disagree"),
        (
            Relation::Cache,
            "2,34,36",
            "the kernel's lists of the CPUs that share an L2 disagree for CPUs 2,34,36",
        ),
    ];
    assert_eq!(
        contradictions(&machine),
        expected.map(|(what, cpus, text)| (what, cpus.into(), text.into()))
    );
}

#[test]
fn cores_and_package_numbers_against_packages_are_contradictions() {
    let machine = fixtures::xeon_2s64t();
    machine.write("/sys/devices/system/cpu/cpu34/topology/physical_package_id", "1\n");
    let found = contradictions(&machine);
    let relations: Vec<Relation> = found.iter().map(|(relation, ..)| *relation).collect();
    use Relation::{Cache, Package, Smt};
    assert_eq!(relations, [Smt, Cache, Cache, Package, Package], "{found:?}");
    assert_eq!(found[0].2, "CPUs 2,34 are threads of one core that spans packages 0-1");
}

#[test]
fn siblings_are_not_inferred_from_core_numbers_of_unknown_packages() {
    let machine = fixtures::vm_2cpu();
    for cpu in 0..2 {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        machine.remove(&dir).write(format!("{dir}/core_id"), "0\n");
    }
    let topology = read(&machine);
    assert!(topology.cores.is_empty() && topology.pairs_smt(&topology.usable()).is_empty());
    assert_eq!((topology.same_core(0, 1), topology.cores_known()), (None, false));
    assert!(topology.notes.iter().any(|note| note.contains("are SMT siblings is not known")));
}

/// A value per core for `cpu0`, `cpu1` and so on of a machine of one package, without SMT.
type Speeds<'a> = (&'a str, &'a [u64]);

fn machine_of(speeds: &[Speeds], l1: &[(u64, u64)]) -> FixtureTree {
    let machine = FixtureTree::empty("kinds");
    let n = speeds.iter().map(|(_, values)| values.len()).chain([l1.len()]).max().unwrap();
    let dir = "/sys/devices/system/cpu";
    machine.write(format!("{dir}/online"), format!("0-{}\n", n - 1));
    for cpu in 0..n {
        let dir = format!("{dir}/cpu{cpu}");
        machine.write(format!("{dir}/topology/core_id"), format!("{cpu}\n"));
        machine.write(format!("{dir}/topology/physical_package_id"), "0\n");
        for (name, values) in speeds {
            machine.write(format!("{dir}/{name}"), format!("{}\n", values[cpu]));
        }
        let Some((data, code)) = l1.get(cpu) else { continue };
        for (index, kind, kib) in [(0, "Data", data), (1, "Instruction", code)] {
            let dir = format!("{dir}/cache/index{index}");
            machine
                .write(format!("{dir}/level"), "1\n")
                .write(format!("{dir}/type"), format!("{kind}\n"));
            machine.write(format!("{dir}/size"), format!("{kib}K\n"));
        }
    }
    machine
}

fn kinds(speeds: &[Speeds], l1: &[(u64, u64)]) -> String {
    kinds_of(&machine_of(speeds, l1))
}

/// `PPEL` for the kinds of its cores, `-` for none.
fn kinds_of(machine: &FixtureTree) -> String {
    let topology = read(machine);
    for core in &topology.cores {
        assert!(core.cpus.iter().all(|cpu| topology.cpu(cpu).unwrap().kind == core.kind));
    }
    let letter = |core: &super::Core| match core.kind {
        Some(CoreKind::Performance) => 'P',
        Some(CoreKind::Efficiency) => 'E',
        Some(CoreKind::LowPower) => 'L',
        None => '-',
    };
    topology.cores.iter().map(letter).collect()
}

const BASE: &str = "cpufreq/base_frequency";
const MAX: &str = "cpufreq/cpuinfo_max_freq";
const NOMINAL: &str = "acpi_cppc/nominal_perf";
const HIGHEST: &str = "acpi_cppc/highest_perf";
const BOOST: &str = "cpufreq/boost";

#[test]
fn kinds_of_cores_are_recognised_by_speeds() {
    let (p, e) = ((48, 32), (32, 64));
    for (speeds, l1, expected) in [
        // Alder Lake: base and maximum, each alone and together.
        (
            &[(BASE, &[1900, 1900, 1400, 1400][..]), (MAX, &[5000, 5000, 3900, 3900])][..],
            vec![],
            "PPEE",
        ),
        (&[(BASE, &[1900, 1400, 1400])], vec![], "PEE"),
        (&[(MAX, &[3900, 5000, 5000])], vec![], "EPP"),
        (&[(BASE, &[1900, 1900, 1400]), (MAX, &[5000, 5000, 3900])], vec![p, p, e], "PPE"),
        // The same by CPPC alone, with a favoured core.
        (&[(NOMINAL, &[24, 24, 19, 19]), (HIGHEST, &[67, 64, 39, 39])], vec![], "PPEE"),
        (&[(HIGHEST, &[67, 64, 39])], vec![], "PPE"),
        // Meteor Lake's three kinds. Lunar Lake's have one base.
        (&[(BASE, &[1400, 900, 700]), (MAX, &[4800, 3800, 2500])], vec![p, e, e], "PEL"),
        (&[(BASE, &[2200, 2200]), (MAX, &[4800, 3700])], vec![p, e], "PE"),
        // AMD's dense cores have the caches of others.
        (&[(MAX, &[4900, 4900, 3500])], vec![(32, 32); 3], "PPE"),
        // No speeds are known, or they are alike, as under some hypervisors.
        (&[], vec![p, e, e], "PEE"),
        (&[(MAX, &[3000, 3000])], vec![p, e], "PE"),
    ] {
        assert_eq!(kinds(speeds, &l1), expected, "{speeds:?} {l1:?}");
    }
}

#[test]
fn favoured_cores_are_of_the_kind_of_the_others() {
    for (speeds, l1) in [
        // Turbo Boost Max 3.0.
        (&[(BASE, &[3700, 3700, 3700][..]), (MAX, &[5300, 5200, 4900])][..], vec![(32, 32); 3]),
        (&[(MAX, &[4800, 4600, 4600])], vec![]),
        (&[(NOMINAL, &[30, 30, 30]), (HIGHEST, &[40, 35, 35])], vec![]),
        // AMD's preferred cores: ranks far apart from the first to the last.
        (&[(HIGHEST, &[236, 221, 206, 191, 176, 166])], vec![]),
        (&[(NOMINAL, &[124, 124]), (HIGHEST, &[231, 166])], vec![]),
        // Speed Select: a higher base for some, and one maximum.
        (&[(BASE, &[2800, 2800, 2100]), (MAX, &[3600, 3600, 3600])], vec![(32, 32); 3]),
        // Four kinds have no names, and a core without a speed is no slow one.
        (&[(BASE, &[4000, 3000, 2000, 1000])], vec![]),
        (&[(BASE, &[1900, 0])], vec![]),
        // One cache that differs is no other kind of core.
        (&[], vec![(48, 32), (32, 32)]),
    ] {
        assert!(kinds(speeds, &l1).chars().all(|kind| kind == '-'), "{speeds:?} {l1:?}");
    }
}

#[test]
fn equal_cores_of_which_some_have_no_boost_are_of_one_kind() {
    let alike = vec![(32, 32); 3];
    for (speeds, l1) in [
        // Speed Select without turbo: the maximum is the base.
        (
            &[(BASE, &[2800, 2800, 2100][..]), (MAX, &[2800, 2800, 2100]), (HIGHEST, &[35; 3])][..],
            &alike[..],
        ),
        (&[(BASE, &[2800, 2800, 2100]), (MAX, &[2800, 2800, 2100])], &alike),
        (&[(BASE, &[2800, 2800, 2100]), (MAX, &[2800, 2800, 2100]), (HIGHEST, &[35; 3])], &[]),
        // Boost is off for the third, among AMD's preferred cores.
        (&[(MAX, &[5700, 5700, 4200]), (HIGHEST, &[236, 221, 206]), (NOMINAL, &[110; 3])], &alike),
        (&[(MAX, &[5700, 5700, 4200]), (HIGHEST, &[236, 221, 206])], &[]),
        (&[(MAX, &[5700, 5700, 4200]), (NOMINAL, &[110; 3])], &[]),
        (&[(MAX, &[5700, 5700, 4200]), (BOOST, &[1, 1, 0])], &alike),
    ] {
        assert_eq!(kinds(speeds, l1), "---", "{speeds:?} {l1:?}");
        assert_eq!(contradictions(&machine_of(speeds, l1)), []);
    }
    // Caches that differ are no setting.
    assert_eq!(kinds(&[(MAX, &[3000, 2000]), (HIGHEST, &[35, 35])], &[(48, 32), (32, 64)]), "PE");
}

#[test]
fn kinds_of_cores_are_recognised_by_caches() {
    let l2 = |l1: &[(u64, u64)], caches: &[(&str, u64)]| {
        let machine = machine_of(&[], l1);
        for (cpus, kib) in caches {
            for cpu in set(cpus).iter() {
                let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index2");
                machine
                    .write(format!("{dir}/level"), "2\n")
                    .write(format!("{dir}/type"), "Unified\n");
                machine.write(format!("{dir}/size"), format!("{kib}K\n"));
                machine.write(format!("{dir}/shared_cpu_list"), format!("{cpus}\n"));
            }
        }
        kinds_of(&machine)
    };
    let smaller = [(48, 32), (48, 32), (32, 32), (32, 32)];
    // A larger L2, which two cores share; a smaller one of each core's own.
    assert_eq!(l2(&smaller, &[("0", 2048), ("1", 2048), ("2-3", 2560)]), "PPEE");
    assert_eq!(l2(&smaller, &[("0", 2048), ("1", 2048), ("2", 1024), ("3", 1024)]), "PPEE");
    // One of the two differences alone, or none is known.
    assert_eq!(l2(&smaller, &[("0", 2048), ("1", 2048), ("2", 2048), ("3", 2048)]), "----");
    assert_eq!(l2(&[(48, 32); 4], &[("0", 2048), ("1", 2048), ("2-3", 2048)]), "----");
    assert_eq!(l2(&smaller, &[]), "----");
}

#[test]
fn two_sizes_of_l3_are_no_kinds_of_cores() {
    let machine = fixtures::zen_multi_llc();
    for cpu in set("0-7,32-39").iter() {
        machine.write(format!("/sys/devices/system/cpu/cpu{cpu}/cache/index3/size"), "98304K\n");
    }
    assert!(kinds_of(&machine).chars().all(|kind| kind == '-'));
}

#[test]
fn speeds_that_contradict_each_other_tell_no_kinds() {
    let (p, e) = ((48, 32), (32, 64));
    for (speeds, l1, sources) in [
        (&[(MAX, &[5000, 3500][..]), (HIGHEST, &[60, 100])][..], vec![], (MAX, HIGHEST)),
        (&[(BASE, &[2000, 1500]), (MAX, &[3000, 4500])], vec![], (BASE, MAX)),
        (&[(MAX, &[5000, 3500])], vec![e, p], (MAX, "the sizes of L1 and L2")),
    ] {
        let machine = machine_of(speeds, &l1);
        assert_eq!(kinds_of(&machine), "--");
        let text = format!(
            "by {}, CPU 0 should be faster than CPU 1, and by {} slower: no kinds of cores are \
             shown",
            sources.0, sources.1
        );
        assert_eq!(contradictions(&machine), [(Relation::Kind, "0-1".into(), text)]);
        assert!(!read(&machine).doubtful(0, 1));
    }
}

#[test]
fn sockets_of_unequal_speeds_are_no_hybrid() {
    let machine = fixtures::xeon_2s64t();
    for cpu in 0..64 {
        let khz = if cpu % 2 == 0 { 2_300_000 } else { 1_800_000 };
        machine.write(
            format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/base_frequency"),
            format!("{khz}\n"),
        );
    }
    assert!(read(&machine).cores.iter().all(|core| core.kind.is_none()));
}

#[test]
fn a_hybrid_laptop_is_recognised_without_its_pmus() {
    let machine = fixtures::hybrid_laptop();
    let with = read(&machine);
    machine.remove("/sys/devices/cpu_core").remove("/sys/devices/cpu_atom");
    let without = read(&machine);
    assert_eq!(without.cores, with.cores);
    assert_eq!(without.summary(), with.summary());
}

#[test]
fn low_power_cores_are_a_third_kind() {
    let machine = fixtures::hybrid_laptop();
    machine
        .write("/sys/devices/cpu_atom/cpus", "12-15\n")
        .write("/sys/devices/cpu_lowpower/cpus", "16-17\n");
    let topology = read(&machine);
    assert_eq!(topology.core_of(16).unwrap().kind, Some(CoreKind::LowPower));
    assert!(topology.summary().starts_with("6 P-cores + 4 E-cores + 2 LP-E-cores, 18 CPUs online"));
    let json = serde_json::to_value(&topology).unwrap();
    assert_eq!(json["cpus"][16]["kind"], "lowpower");
    machine
        .write("/sys/devices/cpu_atom/cpus", "12\n")
        .write("/sys/devices/cpu_lowpower/cpus", "13-17\n");
    assert!(read(&machine).summary().starts_with("6 P-cores + 1 E-core + 5 LP-E-cores, "));
}

#[test]
fn the_summary_names_several_dies_and_one_offline_cpu() {
    let machine = fixtures::xeon_2s64t();
    for cpu in 0..64 {
        let die = cpu / 16 % 2;
        machine
            .write(format!("/sys/devices/system/cpu/cpu{cpu}/topology/die_id"), format!("{die}\n"));
    }
    let summary = read(&machine).summary();
    assert!(summary.starts_with("2 sockets x 2 dies x 8 cores x 2 threads, "), "{summary}");
    let vm = fixtures::vm_2cpu();
    vm.write("/sys/devices/system/cpu/online", "0\n");
    assert!(read(&vm).summary().contains(", 1 CPU offline (1), "), "{}", read(&vm).summary());
}

/// Two nodes in each package of the Xeon, as with sub-NUMA clusters: 0 and 2 in package 0, 1 and 3
/// in package 1.
fn sub_numa_clusters() -> FixtureTree {
    let machine = fixtures::xeon_2s64t();
    for node in 0..4_u32 {
        let cpus: CpuSet = (0..64).filter(|cpu| cpu % 4 == node).collect();
        let dir = format!("/sys/devices/system/node/node{node}");
        machine.write(format!("{dir}/cpulist"), format!("{cpus}\n"));
    }
    machine
}

#[test]
fn remote_pairs_are_of_two_packages_if_there_are_two() {
    let machine = sub_numa_clusters();
    let topology = read(&machine);
    let pairs = topology.pairs_remote(&topology.usable());
    assert!(pairs.iter().all(|&(a, b)| topology.different_packages(a, b)));
    assert_eq!(pairs[0], (0, 1));
    // Package 0 alone: its other node is all that there is.
    let evens: CpuSet = (0..64).step_by(2).collect();
    assert_eq!(topology.pairs_remote(&evens)[0], (0, 2));
}

#[test]
fn a_node_that_is_nearer_than_itself_is_called_nearer() {
    let machine = fixtures::xeon_2s64t();
    for (node, distances) in [(0, "10 5\n"), (1, "5 10\n")] {
        machine.write(format!("/sys/devices/system/node/node{node}/distance"), distances);
    }
    let texts = [
        "node 0 is nearer to node 1 (distance 5) than to itself (10)",
        "node 1 is nearer to node 0 (distance 5) than to itself (10)",
    ];
    assert_eq!(
        contradictions(&machine),
        texts.map(|text| (Relation::Node, "0-63".into(), text.to_string()))
    );
}

#[test]
fn cpus_that_no_node_names_are_noted() {
    let machine = fixtures::xeon_2s64t();
    let most: CpuSet = (1..60).step_by(2).collect();
    machine.write("/sys/devices/system/node/node1/cpulist", format!("{most}\n"));
    let topology = read(&machine);
    assert_eq!(topology.notes, ["the node of CPUs 61,63 is not known: no node names them"]);
    machine.remove("/sys/devices/system/node/node1/cpulist");
    let notes = read(&machine).notes;
    assert!(!notes.iter().any(|note| note.contains("no node names")), "{notes:?}");
}

#[test]
fn package_numbers_and_lists_that_disagree_are_both_named() {
    let machine = fixtures::xeon_2s64t();
    let (evens, odds): (CpuSet, CpuSet) =
        ((0..64).step_by(2).collect(), (1..64).step_by(2).collect());
    for cpu in 0..64 {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        machine.write(format!("{dir}/physical_package_id"), "0\n");
        let list = if cpu % 2 == 0 { &evens } else { &odds };
        machine.write(format!("{dir}/package_cpus_list"), format!("{list}\n"));
    }
    let texts: Vec<String> = contradictions(&machine).into_iter().map(|(.., text)| text).collect();
    let expected = format!(
        "physical_package_id 0 groups CPUs 0-63, and package_cpus_list groups {} and {}",
        evens.named(),
        odds.named()
    );
    assert!(texts.contains(&expected), "{texts:?}");
    for cpu in 0..64 {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        machine.write(format!("{dir}/package_cpus_list"), format!("{cpu}\n"));
    }
    let last = contradictions(&machine).pop().unwrap();
    assert!(last.2.ends_with("groups CPU 0, CPU 1, CPU 2, CPU 3 and 60 other groups"), "{last:?}");
}

#[test]
fn nodes_whose_cpus_are_offline_are_not_without_cpus() {
    let machine = fixtures::xeon_2s64t();
    let evens: CpuSet = (0..64).step_by(2).collect();
    machine.write("/sys/devices/system/cpu/online", format!("{evens}\n"));
    machine.write("/sys/devices/system/node/node1/cpulist", "\n");
    // Nothing says whose the offline CPUs are.
    let topology = read(&machine);
    assert!(!topology.nodes[1].cpus_known && !topology.nodes[1].memory_only);
    let note =
        "whether node 1 has CPUs is not known: none is online, and no link shows the node of CPUs";
    assert!(topology.notes[0].starts_with(note), "{:?}", topology.notes);
    // A link in either folder does.
    let odds: CpuSet = (1..64).step_by(2).collect();
    for cpu in odds.iter() {
        match cpu % 4 {
            1 => machine.folder(format!("/sys/devices/system/cpu/cpu{cpu}/node1")),
            _ => machine.folder(format!("/sys/devices/system/node/node1/cpu{cpu}")),
        };
    }
    let topology = read(&machine);
    assert_eq!((&topology.nodes[1].offline, topology.nodes[1].memory_only), (&odds, false));
    assert!(topology.notes.is_empty(), "{:?}", topology.notes);
    assert!(topology.summary().ends_with("2 NUMA nodes"), "{}", topology.summary());
    let json = serde_json::to_string(&topology).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), topology);
}

#[test]
fn nodes_without_memory_and_cpus_are_counted() {
    let machine = fixtures::cxl_node();
    let dir = "/sys/devices/system/node/node3";
    machine
        .write(format!("{dir}/cpulist"), "\n")
        .write(format!("{dir}/meminfo"), "Node 3 MemTotal: 0 kB\n");
    let topology = read(&machine);
    assert!(topology.nodes[3].without_cpus() && !topology.nodes[3].memory_only);
    assert!(topology.summary().ends_with("4 NUMA nodes, 2 without CPUs"), "{}", topology.summary());
}

#[test]
fn nodes_that_the_command_line_makes_up_are_no_contradiction() {
    let machine = fixtures::xeon_2s64t();
    for node in 0..2 {
        machine.write(format!("/sys/devices/system/node/node{node}/cpulist"), "0-63\n");
        machine.write(format!("/sys/devices/system/node/node{node}/distance"), "10 10\n");
    }
    assert_eq!(contradictions(&machine).len(), 3);
    machine.write("/proc/cmdline", "root=/dev/sda1 numa=fake=2 quiet\n");
    let topology = read(&machine);
    assert!(
        topology.fake_nodes && topology.contradictions.is_empty(),
        "{:?}",
        topology.contradictions
    );
    assert!(
        topology.notes[0].contains("numa=fake=2 on the kernel's command line"),
        "{:?}",
        topology.notes
    );
    machine.write("/sys/devices/system/node/node0/distance", "10 5\n");
    assert_eq!(contradictions(&machine).len(), 1);
}

/// Four cores of one package, each with an L1d and an L2 of its own and one L3, and one node.
fn four_cores() -> FixtureTree {
    let machine = machine_of(&[], &[(32, 32); 4]);
    machine.write("/sys/devices/system/cpu/present", "0-3\n");
    for cpu in 0..4 {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}");
        machine.write(format!("{dir}/topology/core_cpus_list"), format!("{cpu}\n"));
        for (index, sharers, kib) in [(2, cpu.to_string(), 512), (3, "0-3".into(), 8192)] {
            let dir = format!("{dir}/cache/index{index}");
            machine
                .write(format!("{dir}/level"), format!("{index}\n"))
                .write(format!("{dir}/type"), "Unified\n");
            machine.write(format!("{dir}/size"), format!("{kib}K\n"));
            machine.write(format!("{dir}/shared_cpu_list"), format!("{sharers}\n"));
        }
    }
    let dir = "/sys/devices/system/node/node0";
    machine.write(format!("{dir}/cpulist"), "0-3\n").write(format!("{dir}/distance"), "10\n");
    machine.write(format!("{dir}/meminfo"), "Node 0 MemTotal: 1048576 kB\n");
    assert_eq!(contradictions(&machine), []);
    machine
}

fn cpu_file(machine: &FixtureTree, cpus: &str, name: &str, text: &str) {
    for cpu in set(cpus).iter() {
        machine.write(format!("/sys/devices/system/cpu/cpu{cpu}/{name}"), format!("{text}\n"));
    }
}

#[test]
fn a_cache_narrower_than_one_within_is_a_contradiction() {
    let machine = four_cores();
    cpu_file(&machine, "0-3", "cache/index2/shared_cpu_list", "0-3");
    (0..4).for_each(|cpu| {
        cpu_file(&machine, &cpu.to_string(), "cache/index3/shared_cpu_list", &cpu.to_string())
    });
    let text = "CPUs 0-3 share an L2 but not the L3";
    assert_eq!(contradictions(&machine), [(Relation::Cache, "0-3".into(), text.into())]);
    // Sharers that are not known are no fewer.
    cpu_file(&machine, "0-3", "cache/index3/shared_cpu_list", "");
    assert_eq!(contradictions(&machine), []);
}

#[test]
fn properties_of_one_cache_that_differ_are_contradictions() {
    let machine = four_cores();
    cpu_file(&machine, "1", "cache/index3/size", "4096K");
    cpu_file(&machine, "0-1", "cache/index3/coherency_line_size", "64");
    cpu_file(&machine, "2-3", "cache/index3/coherency_line_size", "128");
    let texts = [
        "the size of the L3 of CPUs 0-3 is 4MiB by CPU 1 and 8MiB by CPUs 0,2-3",
        "the line size of the L3 of CPUs 0-3 is 128B by CPUs 2-3 and 64B by CPUs 0-1",
    ];
    assert_eq!(
        contradictions(&machine),
        texts.map(|text| (Relation::Cache, "0-3".into(), text.into()))
    );
}

#[test]
fn die_numbers_against_lists_of_dies_are_contradictions() {
    let machine = four_cores();
    cpu_file(&machine, "0-3", "topology/die_id", "0");
    cpu_file(&machine, "0-1", "topology/die_cpus_list", "0-1");
    cpu_file(&machine, "2-3", "topology/die_cpus_list", "2-3");
    let text =
        "die_id 0 of package 0 groups CPUs 0-3, and die_cpus_list groups CPUs 0-1 and CPUs 2-3";
    assert_eq!(contradictions(&machine), [(Relation::Die, "0-3".into(), text.into())]);
}

#[test]
fn lists_that_lack_their_own_cpu_are_contradictions() {
    let machine = four_cores();
    cpu_file(&machine, "2", "topology/core_cpus_list", "3");
    cpu_file(&machine, "2", "cache/index3/shared_cpu_list", "0-1,3");
    let expected = [
        (Relation::Smt, "2-3", "CPU 2 is not in its list of SMT siblings"),
        (Relation::Cache, "0-3", "CPU 2 is not in its list of the CPUs that share an L3"),
    ];
    assert_eq!(
        contradictions(&machine),
        expected.map(|(of, cpus, text)| (of, cpus.into(), text.into()))
    );
    let machine = four_cores();
    cpu_file(&machine, "0-3", "topology/package_cpus_list", "0-3");
    cpu_file(&machine, "2", "topology/package_cpus_list", "0-1,3");
    assert_eq!(contradictions(&machine)[0].0, Relation::Package);
}

#[test]
fn cpus_that_are_online_or_of_a_node_and_not_present_are_contradictions() {
    let machine = four_cores();
    let cpus = "/sys/devices/system/cpu";
    machine.write(format!("{cpus}/present"), "0-1\n");
    let text = "CPUs 2-3 are online, and not present";
    assert_eq!(contradictions(&machine), [(Relation::Cpu, "2-3".into(), text.into())]);
    machine.write(format!("{cpus}/present"), "0-3\n").write(format!("{cpus}/possible"), "0-2\n");
    assert_eq!(contradictions(&machine)[0].2, "CPU 3 is present, and not possible");
    machine.remove(format!("{cpus}/possible"));
    machine.write("/sys/devices/system/node/node0/cpulist", "0-3,9\n");
    let text = "node 0 names CPU 9, which is not possible";
    assert_eq!(contradictions(&machine), [(Relation::Node, "9".into(), text.into())]);
    assert!(read(&machine).nodes[0].offline.is_empty());
}

#[test]
fn cores_that_two_pmus_name_are_of_no_known_kind() {
    let machine = four_cores();
    machine
        .write("/sys/devices/cpu_core/cpus", "0-2\n")
        .write("/sys/devices/cpu_atom/cpus", "2-3\n");
    let text = "the kernel calls the cores of CPU 2 both P-cores and E-cores";
    assert_eq!(contradictions(&machine), [(Relation::Kind, "2".into(), text.into())]);
    assert_eq!(kinds_of(&machine), "PP-E");
    let summary = read(&machine).summary();
    assert!(summary.starts_with("2 P-cores + 1 E-core + 1 core of unknown kind, "), "{summary}");
    // Low-power cores are efficient ones, too.
    machine
        .write("/sys/devices/cpu_core/cpus", "0-1\n")
        .write("/sys/devices/cpu_lowpower/cpus", "3\n");
    assert_eq!((kinds_of(&machine), contradictions(&machine)), ("PPEL".into(), vec![]));
}

#[test]
fn distances_that_are_cut_off_or_damaged_are_not_known() {
    let machine = fixtures::xeon_2s64t();
    let file = "/sys/devices/system/node/node0/distance";
    for (text, known) in [("10", 1), ("10 21 21", 0), ("x 21", 0), ("", 0)] {
        let topology = read(machine.write(file, format!("{text}\n")));
        assert_eq!(topology.nodes[0].distances.len(), known, "{text}");
        let note =
            "the distances of node 0 are not all known: /sys/devices/system/node/nodeN/distance is";
        assert_eq!(topology.notes, [format!("{note} '{text}' (numbers expected: 2)")]);
    }
}

#[test]
fn memory_of_nodes_that_is_a_few_percent_more_is_not_noted() {
    let machine = fixtures::xeon_2s64t();
    for (gib, noted) in [(188, false), (184, false), (160, true)] {
        machine.write("/proc/meminfo", format!("MemTotal: {} kB\n", gib << 20));
        assert_eq!(!read(&machine).notes.is_empty(), noted, "{gib} {:?}", read(&machine).notes);
    }
}

#[test]
fn what_is_not_known_of_several_nodes_is_one_note() {
    let machine = fixtures::xeon_2s64t();
    for node in 0..2 {
        machine.remove(format!("/sys/devices/system/node/node{node}/meminfo"));
    }
    let note =
        "the memory of nodes 0-1 is not known: /sys/devices/system/node/nodeN has no meminfo";
    assert_eq!(read(&machine).notes, [note]);
}

#[test]
fn caches_of_several_packages_are_possible_on_other_processors() {
    let machine = four_cores();
    (0..4).for_each(|cpu| {
        cpu_file(&machine, &cpu.to_string(), "topology/physical_package_id", &cpu.to_string())
    });
    assert_eq!(contradictions(&machine).len(), 1);
    machine.write("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n");
    assert_eq!(contradictions(&machine), []);
}

#[test]
fn json_has_an_empty_list_of_contradictions() {
    let json = serde_json::to_value(read(&fixtures::vm_2cpu())).unwrap();
    assert_eq!(json["contradictions"], serde_json::json!([]));
}
