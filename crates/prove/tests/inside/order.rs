use ringfence_experiment::Arm;

use super::*;

fn candidate(lever: &str, arm: &str) -> Candidate {
    Candidate {
        lever: lever.into(),
        arm: Arm::new(arm, &[], None),
        role: None,
        keep: String::new(),
        caveat: None,
        commands: Vec::new(),
        price_in_cpu_time: false,
    }
}

fn all() -> Vec<Candidate> {
    let settings =
        [("pace", "p1"), ("pace", "p2"), ("pace", "p3"), ("quota", "q1"), ("quota", "q2"), ("io", "i1")];
    settings.map(|(lever, arm)| candidate(lever, arm)).into()
}

fn names(some: &[Candidate]) -> Vec<&str> {
    some.iter().map(|one| one.arm.name.as_str()).collect()
}

#[test]
fn the_strongest_setting_of_each_lever_comes_first() {
    let order = |wanted: &[&str]| {
        let wanted: Vec<String> = wanted.iter().map(|name| (*name).into()).collect();
        likeliest_first(&all(), &wanted)
            .into_iter()
            .map(|index| all()[index].arm.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(order(&[]), ["p3", "q2", "i1", "p2", "q1", "p1"]);
    assert_eq!(order(&["io", "quota", "pace"]), ["i1", "q2", "p3", "q1", "p2", "p1"]);
}

#[test]
fn as_many_are_tried_as_the_time_holds() {
    let fitting = |most: usize| fitting(all(), &[], &|some| some.len() <= most);
    let (kept, left_out) = fitting(3);
    assert_eq!((names(&kept), names(&left_out)), (vec!["p3", "q2", "i1"], vec!["p1", "p2", "q1"]));
    let (kept, left_out) = fitting(0);
    assert!(kept.is_empty());
    assert_eq!(names(&left_out), ["p1", "p2", "p3", "q1", "q2", "i1"]);
    assert_eq!(names(&fitting(6).0).len(), 6);
}
