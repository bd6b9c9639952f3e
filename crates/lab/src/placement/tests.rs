use super::*;
use ringfence_machine::fixtures;

fn want(count: u32) -> Want {
    Want { count, cpus: None }
}

fn on(cpus: &str) -> Want {
    let cpus: CpuSet = cpus.parse().unwrap();
    Want { count: cpus.len() as u32, cpus: Some(cpus) }
}

fn placed(tree: &fixtures::FixtureTree, kind: PlacementKind, wants: &[Want]) -> Placed {
    place(&Topology::read(&tree.root()).unwrap(), kind, wants, 0).unwrap()
}

#[test]
fn the_notes_machine_has_the_victim_on_2_and_aggressors_on_the_next_even_cpus() {
    let xeon = fixtures::xeon_2s64t();
    let llc = placed(&xeon, PlacementKind::Llc, &[want(1), want(8)]);
    assert_eq!(llc.cpus, [vec![2], vec![4, 6, 8, 10, 12, 14, 16, 18]]);
    assert_eq!(llc.shortage, None);
    // Siblings stay idle: nobody is on 34 or above.
    let smt = placed(&xeon, PlacementKind::Smt, &[want(1), want(1)]);
    assert_eq!(smt.cpus, [vec![2], vec![34]]);
    let remote = placed(&xeon, PlacementKind::Remote, &[want(1), want(2)]);
    assert_eq!(remote.cpus, [vec![2], vec![1, 3]]);
}

#[test]
fn sixteen_cores_do_not_hold_eight_and_nine() {
    let full = placed(&fixtures::xeon_2s64t(), PlacementKind::Llc, &[want(8), want(8)]);
    assert_eq!(full.cpus[0], [0, 2, 4, 6, 8, 10, 12, 14]);
    assert_eq!(full.cpus[1], [16, 18, 20, 22, 24, 26, 28, 30]);
    let over = placed(&fixtures::xeon_2s64t(), PlacementKind::Llc, &[want(8), want(9)]);
    assert_eq!(over.cpus[1].len(), 8, "the ninth is not put on a sibling");
    assert!(over.shortage.unwrap().contains("needs 17 CPUs"));
}

#[test]
fn auto_takes_the_first_kind_with_room_and_says_so() {
    let zen = placed(&fixtures::zen_multi_llc(), PlacementKind::Auto, &[want(1), want(1)]);
    let topology = Topology::read(&fixtures::zen_multi_llc().root()).unwrap();
    assert_eq!(topology.shares_llc(zen.cpus[0][0], zen.cpus[1][0]), Some(true));
    assert!(zen.notes[0].contains("under the same last-level cache"), "{:?}", zen.notes);
    let node = placed(&fixtures::zen_multi_llc(), PlacementKind::Node, &[want(1), want(1)]);
    assert_eq!(topology.shares_llc(node.cpus[0][0], node.cpus[1][0]), Some(false));
    let vm = placed(&fixtures::vm_2cpu(), PlacementKind::Auto, &[want(1), want(1)]);
    assert_eq!(vm.cpus, [vec![0], vec![1]]);
}

#[test]
fn one_cpu_is_enough_for_one_task_alone() {
    let one = placed(&fixtures::one_cpu(), PlacementKind::Auto, &[want(1), want(1)]);
    assert_eq!((one.cpus[0].len(), one.cpus[1].len()), (1, 0));
    assert!(one.shortage.is_some());
    let smt = placed(&fixtures::vm_2cpu(), PlacementKind::Smt, &[want(1), want(1)]);
    assert!(smt.shortage.unwrap().contains("SMT siblings"));
}

#[test]
fn named_cpus_are_taken_and_others_stay_off_them() {
    let mixed = placed(&fixtures::xeon_2s64t(), PlacementKind::Llc, &[on("8"), want(2)]);
    assert_eq!(mixed.cpus[0], [8]);
    assert!(mixed.cpus[1].iter().all(|cpu| cpu % 2 == 0 && *cpu != 8 && *cpu != 40), "{:?}", mixed.cpus);
    let topology = Topology::read(&fixtures::hybrid_laptop().root()).unwrap();
    let offline = topology.present.difference(&topology.online).first().unwrap();
    let error = place(&topology, PlacementKind::Auto, &[on(&offline.to_string())], 0).unwrap_err();
    assert!(error.contains("online and allowed"), "{error}");
}
