use super::*;
use ringfence_experiment::task::axes;

fn task(table: &str) -> Task {
    axes::expand(&table.parse().unwrap()).unwrap().remove(0).task
}

#[test]
fn other_schedulers_are_those_that_all_disks_may_have() {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (one, two) = (list(&["none", "mq-deadline", "bfq"]), list(&["none", "bfq"]));
    let own = |names: &[&str]| list(names).into_iter().map(Some).collect::<Vec<_>>();
    assert_eq!(others(&own(&["mq-deadline"]), std::slice::from_ref(&one)), ["none", "bfq"]);
    assert_eq!(others(&own(&["none", "none"]), &[one.clone(), two.clone()]), ["bfq"]);
    // One of them has it already.
    assert_eq!(others(&own(&["none", "bfq"]), &[one, two]), ["none", "bfq"]);
    assert_eq!(others(&own(&["none"]), &[list(&["none"])]), [""; 0]);
}

#[test]
fn fewer_requests_are_at_least_four() {
    assert_eq!(fewer(256), [64, 16]);
    assert_eq!(fewer(16), [4]);
    assert_eq!(fewer(4), [0; 0]);
}

#[test]
fn only_who_leaves_pages_dirty_is_offered_an_earlier_write_back() {
    for table in ["workload = 'dirty'", "workload = 'churn'", "workload = 'command'\nrun = 'true'"] {
        assert_eq!(leaves_dirty(&task(table)), None, "{table}");
    }
    for (table, part) in [
        ("workload = 'dirty'\nio = 'direct'", "past the page cache"),
        ("workload = 'scan'", "reads"),
        ("workload = 'alu'", "writes no files"),
    ] {
        assert!(leaves_dirty(&task(table)).is_some_and(|why| why.contains(part)), "{table}");
    }
}

#[test]
fn how_to_keep_it_is_a_command() {
    let of = |setting: &str, value: &str| BTreeMap::from([(setting.parse().unwrap(), value.to_owned())]);
    let said = |system| candidate(&DirtyBackground, "x".into(), system, "c".into()).commands;
    assert_eq!(said(of("vda/scheduler", "none")), ["echo none > /sys/block/vda/queue/scheduler"]);
    assert_eq!(
        said(of("vm.dirty_background_bytes", "16MiB")),
        ["echo 16777216 > /proc/sys/vm/dirty_background_bytes"]
    );
}
