//! The `ring` workload through the whole program: every variant, on memory that every machine has.

use std::fs;

use crate::support::{Folder, cpus, figure, ringfence_in, skip};

const TINY: [&str; 8] = ["--trials", "4", "--rounds", "1", "--window", "2ms", "--probe", "0ms"];

const FILE: &str = "schema = 2
name = 'ring'
metric = 'ring'

[[role]]
name = 'ring'

[[role.task]]
workload = 'ring'
variant = ['ringfence', 'naive', 'optimised', 'repaired']
entry = ['64B', '4KiB']
size = '1MiB'
target = ['dram', 'tmpfs:/dev/shm']

[[role.task]]
workload = 'ring'
batch = 16
size = '1MiB'
pinned = false

[[arm]]
name = 'push and read'
active = ['ring']
";

#[test]
fn every_ring_is_measured_in_entries_and_bytes() {
    let folder = Folder::new();
    fs::write(folder.path().join("ring.toml"), FILE).unwrap();
    let run = |more: &[&str]| {
        ringfence_in(folder.path(), &[&["run", "ring.toml", "--quiet"], &TINY[..], more].concat())
    };
    let printed = run(&["--out", "d", "--json"]).json();
    let results = printed["results"].as_array().unwrap();
    assert_eq!(results.len(), 17, "{printed}");
    for result in results {
        assert_eq!(result["unit"], "entries", "{result}");
        assert!(figure(&result["ns_per_unit"]).is_none_or(|ns| ns > 0.0), "{result}");
    }
    let shown = ringfence_in(folder.path(), &["show", "d"]);
    assert!(shown.ok().contains("per entry"), "{}", shown.stdout);
    let shown = ringfence_in(folder.path(), &["show", "-v", "d"]);
    assert!(
        shown.ok().contains("throughput") && shown.ok().contains("per entry"),
        "{}",
        shown.stdout
    );
    assert_eq!(folder.entries(), ["d", "ring.toml"]);
}

#[test]
fn a_ring_is_a_victim_and_an_aggressor_like_any_other_task() {
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    let folder = Folder::new();
    let args = ["neighbours", "--victim", "ring entry=256B size=1MiB", "--aggressor"];
    let args =
        [&args[..], &["ring variant=naive,repaired size=1MiB", "--quiet", "--json"], &TINY[..]]
            .concat();
    let printed = ringfence_in(folder.path(), &args).json();
    let results = printed["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{printed}");
    for result in results {
        let beside = &result["co_runners"][0];
        if beside.is_null() {
            // Windows of 2 ms that a busy machine has made too long are left out.
            assert!(result["too_long"]["steps"].as_u64() > Some(0), "{result}");
            continue;
        }
        assert_eq!(beside["unit"], "entries", "{result}");
        let (entries, bytes) = (beside["units_per_s"].as_f64(), beside["bytes_per_s"].as_f64());
        assert_eq!(entries.map(|entries| 64.0 * entries), bytes, "{result}");
    }
}
