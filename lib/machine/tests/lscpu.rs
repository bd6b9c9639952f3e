//! The topology of this machine against what `lscpu` says of it.

use std::collections::BTreeMap;
use std::process::Command;

use ringfence_machine::root::FsRoot;
use ringfence_machine::topology::Topology;
use serde_json::Value;

/// What `lscpu` prints as JSON, or `None` with a printed reason where it cannot be asked.
fn lscpu(arguments: &[&str]) -> Option<Value> {
    let output = match Command::new("lscpu").args(arguments).output() {
        Ok(output) if output.status.success() => output,
        outcome => {
            ringfence_testbed::skip(
                &format!("lscpu {arguments:?}"),
                &format!("it gives no answer: {outcome:?}"),
            );
            return None;
        }
    };
    serde_json::from_slice(&output.stdout).ok()
}

/// Old versions print numbers as strings.
fn number(value: &Value) -> Option<u32> {
    value.as_u64().map(|n| n as u32).or_else(|| value.as_str()?.parse().ok())
}

#[test]
fn cpus_agree() {
    let Some(answer) = lscpu(&["-J", "-e=CPU,CORE,SOCKET,NODE,ONLINE"]) else { return };
    let topology = Topology::read(&FsRoot::host()).unwrap();
    let mut cores: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in answer["cpus"].as_array().unwrap() {
        let id = number(&row["cpu"]).unwrap();
        let cpu = topology.cpu(id).unwrap_or_else(|| panic!("CPU {id} is missing"));
        let online = row["online"].as_bool().unwrap_or(row["online"] == "yes");
        assert_eq!(cpu.online, online, "CPU {id}");
        if let (Some(node), true) = (number(&row["node"]), online) {
            // lscpu says node 0 where there is none.
            assert_eq!(cpu.node.unwrap_or(0), node, "CPU {id}");
        }
        if let (Some(core), true) = (number(&row["core"]), online) {
            cores.entry(core).or_default().push(id);
        }
    }
    if topology.cores.is_empty() {
        return;
    }
    let ours: Vec<Vec<u32>> =
        topology.cores.iter().map(|core| core.cpus.iter().collect()).collect();
    let mut theirs: Vec<Vec<u32>> = cores.into_values().collect();
    theirs.sort();
    assert_eq!(ours, theirs);
}

#[test]
fn caches_agree() {
    let Some(answer) = lscpu(&["-J", "-B", "-C=NAME,ONE-SIZE,ALL-SIZE,WAYS,SETS,LEVEL"]) else {
        return;
    };
    let topology = Topology::read(&FsRoot::host()).unwrap();
    for row in answer["caches"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let ours: Vec<_> = topology.caches.iter().filter(|cache| cache.name() == name).collect();
        let size = |key: &str| row[key].as_u64().or_else(|| row[key].as_str()?.parse().ok());
        assert!(!ours.is_empty(), "{name} is missing");
        // On hybrid processors lscpu shows the size of one of them.
        let one = size("one-size");
        assert!(
            ours.iter().any(|cache| cache.size.map(|bytes| bytes.0) == one),
            "{name}: {row} {ours:?}"
        );
        let same = ours.iter().all(|cache| cache.size == ours[0].size);
        if same {
            let all: u64 = ours.iter().filter_map(|cache| cache.size).map(|bytes| bytes.0).sum();
            assert_eq!(Some(all), size("all-size"), "{name}");
            assert_eq!(ours[0].ways, number(&row["ways"]), "{name}");
            assert_eq!(ours[0].sets, number(&row["sets"]), "{name}");
        }
    }
}
