use super::*;
use crate::PlacementKind;
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::fixtures;
use ringfence_machine::fixtures::FixtureTree;

fn want(role: &str, count: u32, kind: PlacementKind) -> Want {
    Want { count, kind, ..Want::one(role) }
}

fn victim(count: u32) -> Want {
    want("victim", count, PlacementKind::Auto)
}

fn on(role: &str, cpus: &str) -> Want {
    let cpus: CpuSet = cpus.parse().unwrap();
    Want { count: cpus.len() as u32, cpus: Some(cpus), ..Want::one(role) }
}

fn topology(tree: &FixtureTree) -> Topology {
    Topology::read(&tree.root()).unwrap()
}

/// All roles at once; the first is the metric's.
fn placed(tree: &FixtureTree, wants: &[Want]) -> Placed {
    place(&topology(tree), wants, 0, &[(0..wants.len()).collect()]).unwrap()
}

/// The metric's role and one other.
fn two(tree: &FixtureTree, kind: PlacementKind, victims: u32, others: u32) -> Placed {
    placed(tree, &[victim(victims), want("aggressor", others, kind)])
}

#[test]
fn the_notes_machine_has_the_victim_on_2_and_aggressors_on_the_next_even_cpus() {
    let xeon = fixtures::xeon_2s64t();
    // Siblings stay idle: nothing runs on 34 or above.
    for (count, aggressors) in
        [(1, vec![4]), (4, vec![4, 6, 8, 10]), (8, vec![4, 6, 8, 10, 12, 14, 16, 18])]
    {
        let llc = two(&xeon, PlacementKind::Llc, 1, count);
        assert_eq!(llc.cpus, [vec![2], aggressors]);
        assert_eq!(llc.places, [Place::Home, Place::Llc]);
        assert!(llc.notes.is_empty(), "{:?}", llc.notes);
    }
    assert_eq!(two(&xeon, PlacementKind::Smt, 1, 1).cpus, [vec![2], vec![34]]);
    assert_eq!(two(&xeon, PlacementKind::Smt, 4, 4).cpus, [vec![2, 4, 6, 8], vec![34, 36, 38, 40]]);
    assert_eq!(two(&xeon, PlacementKind::Remote, 1, 2).cpus, [vec![2], vec![1, 3]]);
    assert_eq!(two(&xeon, PlacementKind::Llc, 4, 8).cpus[1], [10, 12, 14, 16, 18, 20, 22, 24]);
}

#[test]
fn nobody_is_placed_on_the_cpus_of_a_server() {
    let xeon = fixtures::xeon_2s64t();
    let victim = |cpus: &str| Want { besides: cpus.parse().unwrap(), ..victim(1) };
    let others = || want("aggressor", 2, PlacementKind::Llc);
    assert_eq!(placed(&xeon, &[victim("4"), others()]).cpus, [vec![2], vec![6, 8]]);
    // The client neither, nor on the sibling of one.
    assert_eq!(placed(&xeon, &[victim("2,38"), others()]).cpus, [vec![4], vec![8, 10]]);
    let missing = place(&topology(&xeon), &[victim("99"), others()], 0, &[vec![0, 1]]).unwrap_err();
    assert!(missing.contains("CPU 99 is not among the CPUs"), "{missing}");
}

#[test]
fn eight_and_eight_take_core_0_and_say_so() {
    let full = two(&fixtures::xeon_2s64t(), PlacementKind::Llc, 8, 8);
    assert_eq!(full.cpus[0], [2, 4, 6, 8, 10, 12, 14, 16]);
    // The sixteenth core is that of CPU 0, not its sibling 32.
    assert_eq!(full.cpus[1], [18, 20, 22, 24, 26, 28, 30, 0]);
    assert_eq!(full.notes, ["aggressor's CPU 0 also serves the kernel"]);
    // What the notes did, named outright.
    let notes = placed(
        &fixtures::xeon_2s64t(),
        &[on("mcf", "2,4,6,8,10,12,14,16"), on("writer", "18,20,22,24,26,28,30,32")],
    );
    assert_eq!(
        notes.notes,
        ["writer's CPU 32 is the SMT sibling of CPU 0, which also serves the kernel"]
    );
}

#[test]
fn sixteen_cores_do_not_hold_eight_and_nine() {
    let wants = [victim(8), want("aggressor", 9, PlacementKind::Llc)];
    let over = placed(&fixtures::xeon_2s64t(), &wants);
    assert_eq!(over.cpus[1].len(), 8, "the ninth is not put on a sibling");
    assert_eq!(over.shortage(&wants, 0, 1, 8), None);
    assert_eq!(
        over.shortage(&wants, 0, 1, 9).unwrap(),
        "aggressor needs 9 other cores under the last-level cache of victim, with idle siblings, \
         and there are 8"
    );
}

#[test]
fn three_roles_lie_at_three_places_at_once() {
    let wants = [
        victim(1),
        want("sibling", 1, PlacementKind::Smt),
        want("writers", 4, PlacementKind::Llc),
        want("far", 8, PlacementKind::Remote),
    ];
    let xeon = placed(&fixtures::xeon_2s64t(), &wants);
    assert_eq!(xeon.cpus, [vec![2], vec![34], vec![4, 6, 8, 10], vec![1, 3, 5, 7, 9, 11, 13, 15]]);
    let zen = placed(&fixtures::zen_multi_llc(), &wants);
    assert_eq!(zen.cpus, [vec![1], vec![33], vec![2, 3, 4, 5], vec![]]);
    assert_eq!([0, 1, 2].map(|role| zen.shortage(&wants, 0, role, 1)), [None, None, None]);
    assert_eq!(
        zen.shortage(&wants, 0, 3, 1).unwrap(),
        "far needs a core on another NUMA node than victim, and there is none"
    );
    let vm = placed(&fixtures::vm_2cpu(), &wants[..3]);
    assert_eq!(vm.cpus, [vec![1], vec![], vec![0]]);
    assert_eq!(
        vm.shortage(&wants, 0, 1, 1).unwrap(),
        "sibling needs an SMT sibling of victim's cores, and there is none"
    );
    assert!(vm.shortage(&wants, 0, 2, 4).unwrap().ends_with("and there is 1"));
}

#[test]
fn roles_that_never_run_at_once_share_cpus() {
    let wants = [
        victim(1),
        want("near", 2, PlacementKind::Llc),
        want("paced", 2, PlacementKind::Llc),
        want("third", 1, PlacementKind::Llc),
    ];
    let arms = [vec![0], vec![0, 1], vec![0, 2, 3]];
    let placed = place(&topology(&fixtures::xeon_2s64t()), &wants, 0, &arms).unwrap();
    assert_eq!(placed.cpus, [vec![2], vec![4, 6], vec![4, 6], vec![8]]);
    let named = [on("a", "2"), on("b", "4"), on("c", "4")];
    let xeon = topology(&fixtures::xeon_2s64t());
    let apart = place(&xeon, &named, 0, &[vec![0, 1], vec![0, 2]]).unwrap();
    assert!(!apart.notes.iter().any(|note| note.contains("share")), "{:?}", apart.notes);
    // Named for two that do run at once, they are shared, and that is said.
    let shared = place(&xeon, &named, 0, &[vec![0, 1, 2]]).unwrap();
    assert_eq!(shared.cpus, [vec![2], vec![4], vec![4]]);
    let note = "c and b share CPU 4, whose time the kernel divides between them";
    assert!(shared.notes.iter().any(|said| said == note), "{:?}", shared.notes);
}

#[test]
fn auto_takes_the_first_kind_with_room_and_says_so() {
    let zen = two(&fixtures::zen_multi_llc(), PlacementKind::Auto, 1, 1);
    assert_eq!((&zen.cpus[..], zen.places[1]), (&[vec![1], vec![2]][..], Place::Llc));
    assert_eq!(zen.notes, ["co-runners are on other cores under the same last-level cache"]);
    // Eight cores to a cache: the first cache would do with CPU 0, the second does without.
    assert_eq!(two(&fixtures::zen_multi_llc(), PlacementKind::Auto, 1, 7).cpus[0], [8]);
    let node = two(&fixtures::zen_multi_llc(), PlacementKind::Node, 1, 1);
    assert_eq!(node.cpus, [vec![1], vec![8]]);
    // Sixteen fit under no cache, but on the node.
    assert_eq!(two(&fixtures::zen_multi_llc(), PlacementKind::Auto, 1, 16).places[1], Place::Node);
    let vm = two(&fixtures::vm_2cpu(), PlacementKind::Auto, 1, 1);
    assert_eq!(vm.cpus, [vec![1], vec![0]]);
    assert_eq!(vm.notes[1], "aggressor's CPU 0 also serves the kernel");
}

#[test]
fn a_crowd_of_the_metrics_role_spreads_over_caches_and_says_so() {
    let wants = [victim(32)];
    let zen = placed(&fixtures::zen_multi_llc(), &wants);
    assert_eq!(zen.cpus[0].len(), 32);
    assert!(
        zen.notes.contains(&"victim is spread over 4 last-level caches".to_string()),
        "{:?}",
        zen.notes
    );
    let more = [victim(33)];
    let short = placed(&fixtures::zen_multi_llc(), &more).shortage(&more, 0, 0, 33);
    assert_eq!(short.unwrap(), "victim needs 33 cores of its own, and there are 32");
}

#[test]
fn what_waits_for_a_device_shares_the_cpus_there_are() {
    let committers = [Want { waits: true, ..victim(5) }];
    let vm = placed(&fixtures::vm_2cpu(), &committers);
    assert_eq!(vm.cpus[0], [1, 0, 1, 0, 1]);
    assert_eq!(vm.shortage(&committers, 0, 0, 5), None);
    let note = "victim's 5 instances share CPUs 0-1: they wait for a device most of the time";
    assert!(vm.notes.iter().any(|said| said == note), "{:?}", vm.notes);
    // With a CPU each, they share none.
    let few = placed(&fixtures::vm_2cpu(), &[Want { waits: true, ..victim(2) }]);
    assert!(
        few.cpus[0] == [1, 0] && !few.notes.iter().any(|said| said.contains("share")),
        "{few:?}"
    );
}

#[test]
fn one_cpu_is_enough_for_one_task_alone() {
    let wants = [victim(1), want("aggressor", 1, PlacementKind::Auto)];
    let one = placed(&fixtures::one_cpu(), &wants);
    assert_eq!((one.cpus[0].len(), one.cpus[1].len()), (1, 0));
    assert_eq!(one.shortage(&wants, 0, 0, 1), None);
    assert_eq!(
        one.shortage(&wants, 0, 1, 1).unwrap(),
        "aggressor needs another core beside victim, and there is none"
    );
}

#[test]
fn siblings_are_sought_where_cores_have_some() {
    // Efficiency cores have none, and the core of CPU 0 is spared.
    let laptop = two(&fixtures::hybrid_laptop(), PlacementKind::Smt, 5, 5);
    assert_eq!(laptop.cpus, [vec![2, 4, 6, 8, 10], vec![3, 5, 7, 9, 11]]);
}

#[test]
fn named_cpus_are_taken_and_others_stay_off_them() {
    let mixed = placed(
        &fixtures::xeon_2s64t(),
        &[on("victim", "8"), want("writer", 2, PlacementKind::Llc)],
    );
    assert_eq!(mixed.cpus, [vec![8], vec![2, 4]]);
    let below = placed(&fixtures::xeon_2s64t(), &[victim(1), on("writer", "34")]);
    assert_eq!(below.cpus[0], [4], "not the named CPU's sibling");
    let laptop = topology(&fixtures::hybrid_laptop());
    let offline = laptop.present.difference(&laptop.online).first().unwrap();
    let error = place(&laptop, &[on("victim", &offline.to_string())], 0, &[vec![0]]).unwrap_err();
    assert!(error.contains("online and allowed"), "{error}");
}

#[test]
fn what_named_cpus_mean_is_said() {
    let xeon = fixtures::xeon_2s64t();
    let cases = [
        (
            vec![on("victim", "2"), on("writer", "34")],
            "writer's CPU 34 is the SMT sibling of victim's CPU 2",
        ),
        (
            vec![on("victim", "2,4"), on("writer", "34,36")],
            "writer's CPUs 34,36 are SMT siblings of victim's CPUs 2,4",
        ),
        (
            vec![on("victim", "2"), on("writer", "4,36")],
            "writer's CPUs 4,36 are SMT siblings of each other",
        ),
        (
            vec![on("victim", "2"), on("writer", "4,5,7")],
            "writer's CPUs 5,7 lie on another NUMA node than victim's CPU 2",
        ),
    ];
    for (wants, note) in cases {
        assert_eq!(placed(&xeon, &wants).notes, [note]);
    }
    let zen = placed(&fixtures::zen_multi_llc(), &[on("victim", "1"), on("writer", "2,9")]);
    assert_eq!(
        zen.notes,
        ["writer's CPU 9 lies under another last-level cache than victim's CPU 1"]
    );
    let apart =
        placed(&fixtures::zen_multi_llc(), &[on("victim", "1"), want("w", 1, PlacementKind::Node)]);
    assert!(apart.notes.is_empty(), "it was asked for: {:?}", apart.notes);
}

#[test]
fn placements_that_rely_on_a_contradictory_map_say_so() {
    let xeon = fixtures::xeon_2s64t();
    for cpu in 0..64 {
        xeon.write(
            format!("/sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list"),
            "0-63\n",
        );
    }
    let text = "aggressor's placement relies on a map of CPUs that contradicts itself: \
                the L3 of CPUs 0-63 spans packages 0-1, which share no cache";
    assert_eq!(two(&xeon, PlacementKind::Llc, 1, 1).notes, [text]);
    // Siblings are not in doubt, nor is a role for which there is no room.
    assert!(two(&xeon, PlacementKind::Smt, 1, 1).notes.is_empty());
    assert!(two(&xeon, PlacementKind::Node, 1, 1).notes.is_empty());
    let named = placed(&xeon, &[on("victim", "2"), on("aggressor", "5")]);
    assert!(named.notes.iter().any(|note| note == text), "{:?}", named.notes);
}

#[test]
fn placements_on_nodes_that_the_command_line_makes_up_say_so() {
    let xeon = fixtures::xeon_2s64t();
    xeon.write("/proc/cmdline", "numa=fake=2U\n");
    let text = "aggressor's placement relies on emulated NUMA nodes (numa=fake= on the kernel's \
                command line)";
    assert_eq!(two(&xeon, PlacementKind::Remote, 1, 1).notes, [text]);
    assert!(two(&xeon, PlacementKind::Llc, 1, 1).notes.is_empty());
}

#[test]
fn remote_is_another_package_if_there_is_one() {
    let xeon = fixtures::xeon_2s64t();
    for node in 0..4_u32 {
        let cpus: CpuSet = (0..64).filter(|cpu| cpu % 4 == node).collect();
        xeon.write(format!("/sys/devices/system/node/node{node}/cpulist"), format!("{cpus}\n"));
    }
    let far = two(&xeon, PlacementKind::Remote, 1, 16);
    assert!(
        far.cpus[1].len() == 16 && far.cpus[1].iter().all(|cpu| cpu % 2 == 1),
        "{:?}",
        far.cpus
    );
    assert_eq!(far.notes, ["aggressor runs in another package"]);
    let named = placed(&xeon, &[on("victim", "4"), on("aggressor", "6")]);
    assert_eq!(
        named.notes,
        ["aggressor's CPU 6 lies on another NUMA node of the same package than victim's CPU 4"]
    );
    // Where this process may use one package only, its other node is remote.
    let evens: CpuSet = (0..64).step_by(2).collect();
    xeon.write("/proc/self/status", format!("Cpus_allowed_list:\t{evens}\n"));
    let near = two(&xeon, PlacementKind::Remote, 1, 1);
    assert_eq!(near.cpus[1].len(), 1);
    assert_eq!(near.notes, ["aggressor runs on another NUMA node of the same package"]);
}
