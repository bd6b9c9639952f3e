//! `topology` and `doctor`, of this machine and of others that stand in as folders.

use ringfence_machine::doctor::Finding;
use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;

use crate::support::ringfence;

#[test]
fn json_of_this_machine_parses() {
    let topology = ringfence(&["topology", "--json"]).json();
    serde_json::from_value::<Topology>(topology).unwrap();
    let doctor = ringfence(&["doctor", "--json"]).json();
    serde_json::from_value::<Vec<Finding>>(doctor["findings"].clone()).unwrap();
    assert!(doctor["targets"].as_array().is_some_and(|targets| !targets.is_empty()));
}

#[test]
fn another_machine_is_read_from_its_folder() {
    for (tree, cpus) in [
        (fixtures::xeon_2s64t(), 64),
        (fixtures::zen_multi_llc(), 0),
        (fixtures::cxl_node(), 0),
        (fixtures::hybrid_laptop(), 0),
        (fixtures::vm_2cpu(), 2),
        (fixtures::one_cpu(), 1),
    ] {
        let root = tree.root().path("/");
        let root = root.to_str().unwrap();
        let read: Topology =
            serde_json::from_value(ringfence(&["topology", "--json", "--root", root]).json())
                .unwrap();
        assert_eq!(read, Topology::read(&tree.root()).unwrap());
        assert!(cpus == 0 || read.usable().len() == cpus, "{}", read.usable());
        for verb in ["topology", "doctor"] {
            let text = ringfence(&[verb, "--root", root]);
            assert!(!text.ok().trim().is_empty());
            assert_eq!(text.stderr, "");
        }
        let doctor = ringfence(&["doctor", "--json", "--root", root]).json();
        serde_json::from_value::<Vec<Finding>>(doctor["findings"].clone()).unwrap();
    }
}
