//! What else the table of a fleet has beside figures and samples: latencies, what the disk did, and
//! runs of whole commands.

use crate::support::disk::on_disk;
use crate::support::readers::{latencies_with_windows, other_tools_read};
use crate::support::{Folder, ringfence_in};

fn submit(folder: &Folder, words: &[&str]) {
    let head = ["fleet", "submit", "fleet", "--local", "2", "--"];
    ringfence_in(folder.path(), &[&head[..], words].concat()).ok();
    let gathered = ringfence_in(folder.path(), &["fleet", "gather", "fleet"]);
    assert!(gathered.said().contains("2 of 2 tasks"), "{}", gathered.stdout);
}

#[test]
fn latencies_are_joined_with_their_windows() {
    let Some(data) = on_disk("fleet") else { return };
    let folder = Folder::new();
    let words = [
        "--sync",
        "fdatasync",
        "--layout",
        "written",
        "--size",
        "1MiB",
        "--trials",
        "4",
        "--settle",
        "1ms",
    ];
    submit(&folder, &[&["commit", data.to_str().unwrap()][..], &words].concat());
    let table = folder.path().join("fleet/table");
    for name in ["figures", "samples", "latencies", "disk"] {
        let found = other_tools_read(&table.join(name));
        assert!(found.is_empty() || found.len() == 2, "{name}: {found:?}");
        assert!(found.iter().all(|(_, rows)| *rows > 0), "{name}: {found:?}");
        assert!(table.join(name).is_dir(), "{name}");
    }
    let joined = latencies_with_windows(&table);
    assert!(joined.is_none_or(|(all, joined)| all > 0 && all == joined), "{joined:?}");
    assert!(!table.join("runs").exists());
}

#[test]
fn whole_commands_are_a_task_and_their_runs_a_table() {
    let folder = Folder::new();
    let commands =
        ["--a", "sleep 0.001", "--b", "sleep 0.02", "--runs", "6", "--warmup", "0", "--seed", "3"];
    submit(&folder, &[&["versus"][..], &commands].concat());
    let table = folder.path().join("fleet/table");
    let runs = other_tools_read(&table.join("runs"));
    assert!(
        runs.is_empty() || (runs.len() == 2 && runs.iter().all(|(_, rows)| *rows >= 12)),
        "{runs:?}"
    );
    assert!(!table.join("samples").exists());
    let report = ringfence_in(folder.path(), &["fleet", "report", "fleet", "--json"]).json();
    let figures = report["figures"].as_array().unwrap();
    let names: Vec<&str> = figures.iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["versus: a (sleep 0.001), cost", "versus: b (sleep 0.02), cost", "versus: b against a"]
    );
    // What each task found by itself, whatever that was.
    for (task, host) in (1..).zip(figures[2]["hosts"].as_array().unwrap()) {
        let path = format!("fleet/tasks/{task:04}/attempt-1/data/versus.json");
        let text = std::fs::read_to_string(folder.path().join(path)).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let own = &found["comparisons"][0];
        assert_eq!(
            (&host["figure"]["value"], &host["verdict"]),
            (&own["ratio"]["value"], &own["verdict"])
        );
        assert!(own["ratio"]["value"].is_f64(), "{own}");
    }
}
