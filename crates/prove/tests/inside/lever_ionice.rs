use super::*;
use ringfence_experiment::task::axes;

fn task(table: &str) -> Task {
    axes::expand(&table.parse().unwrap()).unwrap().remove(0).task
}

#[test]
fn how_to_keep_it_is_a_command() {
    let program = task("workload = 'command'\nrun = \"dd of='a b'\"");
    let offered = PRIORITIES.map(|priority| candidate(priority, true, &program));
    let commands: Vec<&str> = offered.iter().flat_map(|one| &one.commands).map(String::as_str).collect();
    assert_eq!(commands, ["ionice -c 2 -n 7 dd 'of=a b'", "ionice -c 3 dd 'of=a b'"]);
    let names = offered.each_ref().map(|one| one.arm.name.as_str());
    assert_eq!(names, ["ionice best-effort 7", "ionice idle"]);
    assert_eq!(
        candidate(IoPriority::Idle, false, &task("workload = 'scan'")).commands,
        ["ionice -c 3 COMMAND"]
    );
}

#[test]
fn it_says_whose_requests_it_does_not_order() {
    let caveat = |aged| candidate(IoPriority::Idle, aged, &task("workload = 'commit'")).caveat.unwrap();
    assert!(caveat(false).contains("have the priority of these threads"), "{}", caveat(false));
    assert!(caveat(true).contains("prio_aging_expire") && !caveat(false).contains("prio_aging_expire"));
}

#[test]
fn readers_and_programs_have_requests_of_their_own() {
    for (table, offered) in [
        ("workload = 'scan'", true),
        ("workload = 'command'\nrun = 'true'", true),
        ("workload = 'dirty'\nio = 'direct'", true),
        ("workload = 'dirty'", false),
        ("workload = 'churn'", false),
        ("workload = 'alu'", false),
    ] {
        assert_eq!(disk_io::of_others(&task(table)).is_none(), offered, "{table}");
    }
}
