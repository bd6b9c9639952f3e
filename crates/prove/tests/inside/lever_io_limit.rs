use super::*;
use ringfence_experiment::task::axes;

fn task(table: &str) -> Task {
    axes::expand(&table.parse().unwrap()).unwrap().remove(0).task
}

fn here(version: Version) -> Here {
    let disk =
        |name: &str, number: &str| disk::Disk { name: name.into(), number: number.into(), scheduler: None };
    Here { disks: vec![disk("sda", "8:0"), disk("sdb", "8:16")], version, parent: "/cg/blkio".into() }
}

#[test]
fn rates_are_shares_of_what_is_written_and_each_is_tried_once() {
    let told = |full: f64| {
        let rates = rates(Some(full * f64::from(1 << 20))).unwrap();
        rates.iter().map(Rate::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told(400.0), ["200MiB/s", "100MiB/s", "40MiB/s"]);
    assert_eq!(told(3.0), ["2MiB/s", "1MiB/s"]);
    assert!(rates(Some(1e6)).unwrap_err().contains("976.6KiB a second at most"));
    assert!(rates(None).unwrap_err().contains("not known"));
}

#[test]
fn only_what_a_limit_holds_is_offered() {
    let refused = |table: &str| cannot_be_limited(&task(table));
    for table in [
        "workload = 'dirty'\nio = 'direct'",
        "workload = 'dirty'\nio = 'wait'",
        "workload = 'dirty'\nio = 'dontcache'",
        "workload = 'commit'",
        "workload = 'command'\nrun = 'true'",
    ] {
        assert_eq!(refused(table), None, "{table}");
    }
    for (table, part) in [
        ("workload = 'dirty'", "the kernel's own threads"),
        ("workload = 'commit'\nsync = 'none'", "the kernel's own threads"),
        ("workload = 'churn'", "the file system's own threads"),
        ("workload = 'scan'", "reads"),
        ("workload = 'alu'", "uses no disk"),
    ] {
        assert!(refused(table).is_some_and(|why| why.contains(part)), "{table}");
    }
    let held_by_version_2 = |table: &str| disk_io::charged_elsewhere(&task(table)).is_none();
    for table in ["workload = 'dirty'\nio = 'direct'", "workload = 'command'\nrun = 'true'"] {
        assert!(held_by_version_2(table), "{table}");
    }
    for table in ["workload = 'dirty'\nio = 'wait'", "workload = 'commit'"] {
        assert!(!held_by_version_2(table), "{table}");
    }
}

#[test]
fn how_to_keep_it_is_a_command() {
    let rate: Rate = "5MiB/s".parse().unwrap();
    let program = task("workload = 'command'\nrun = \"dd of='a b'\"");
    let two = candidate(rate, &here(Version::Two), &program);
    assert_eq!(
        two.commands,
        [
            "systemd-run --scope -p 'IOWriteBandwidthMax=/dev/sda 5242880' -p 'IOWriteBandwidthMax=/dev/sdb 5242880' \
          dd 'of=a b'"
        ]
    );
    let one = candidate(rate, &here(Version::One), &program);
    assert_eq!(
        one.commands[..3],
        [
            "mkdir -p /cg/blkio/slow-writer",
            "echo '8:0 5242880' > /cg/blkio/slow-writer/blkio.throttle.write_bps_device",
            "echo '8:16 5242880' > /cg/blkio/slow-writer/blkio.throttle.write_bps_device",
        ]
    );
    assert!(one.commands[3].contains("cgroup.procs") && one.commands[3].ends_with("sh dd 'of=a b'"));
    assert_eq!(one.arm.name, "write limit 5MiB/s");
    let caveat = one.caveat.unwrap();
    assert!(caveat.contains("plain buffered writes, is not limited"), "{caveat}");
    assert!(!caveat.contains("does not show"), "{caveat}");
}

#[test]
fn who_does_not_wait_does_not_show_the_price() {
    let caveat = |table: &str| {
        let rate: Rate = "5MiB/s".parse().unwrap();
        candidate(rate, &here(Version::One), &task(table)).caveat.unwrap()
    };
    for table in ["workload = 'dirty'\nio = 'dontcache'", "workload = 'commit'\nsync = 'range-write'"] {
        assert!(caveat(table).contains("its price does not show"), "{table}");
    }
    for table in ["workload = 'dirty'\nio = 'wait'", "workload = 'commit'"] {
        assert!(!caveat(table).contains("its price does not show"), "{table}");
    }
}
