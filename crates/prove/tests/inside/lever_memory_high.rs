use super::*;
use ringfence_experiment::task::axes;

fn task(table: &str) -> Task {
    axes::expand(&table.parse().unwrap()).unwrap().remove(0).task
}

#[test]
fn only_who_takes_new_pages_is_held_up() {
    for table in ["workload = 'command'\nrun = 'true'", "workload = 'dirty'\nio = 'dontcache'"] {
        assert_eq!(not_held_up(&task(table)), None, "{table}");
    }
    for (table, part) in [
        ("workload = 'dirty'", "were first cached"),
        ("workload = 'commit'", "were first cached"),
        ("workload = 'dirty'\nio = 'direct'", "past the page cache"),
        ("workload = 'scan'", "reads"),
        ("workload = 'churn'", "few pages"),
        ("workload = 'alu'", "writes no files"),
    ] {
        assert!(not_held_up(&task(table)).is_some_and(|why| why.contains(part)), "{table}");
    }
}

#[test]
fn how_to_keep_it_is_a_command() {
    let offered = candidate(Bytes::mib(64), &task("workload = 'command'\nrun = \"dd of='a b'\""));
    assert_eq!(offered.commands, ["systemd-run --scope -p MemoryHigh=67108864 dd 'of=a b'"]);
    assert_eq!(
        (offered.arm.name.as_str(), offered.arm.memory_high["aggressor"]),
        ("memory high 64MiB", Bytes::mib(64))
    );
    assert!(offered.caveat.unwrap().contains("not how fast the disk is written to"));
}
