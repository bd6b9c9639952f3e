//! In which order candidates are tried where there is not time for all: a pure function.

use ringfence_limits::lever::Candidate;

/// The candidates by their numbers, those that are likeliest to help first: the strongest setting
/// of each lever, then the next stronger of each. Levers come in the order in which they were
/// offered, or asked for by `wanted`.
pub fn likeliest_first(candidates: &[Candidate], wanted: &[String]) -> Vec<usize> {
    let stronger = |index: usize| {
        let lever = &candidates[index].lever;
        candidates[index + 1..].iter().filter(|other| other.lever == *lever).count()
    };
    let place = |index: usize| {
        let lever = &candidates[index].lever;
        wanted.iter().position(|name| name == lever).unwrap_or(wanted.len())
    };
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&index| (stronger(index), place(index), index));
    order
}

/// As many candidates as fit, in the order in which they were offered, and the others. `holds` says
/// whether some of them fit together.
pub fn fitting(
    candidates: Vec<Candidate>,
    wanted: &[String],
    holds: &dyn Fn(&[Candidate]) -> bool,
) -> (Vec<Candidate>, Vec<Candidate>) {
    let order = likeliest_first(&candidates, wanted);
    let split = |count: usize| {
        let numbered = candidates.iter().cloned().enumerate();
        let (kept, left): (Vec<_>, Vec<_>) =
            numbered.partition(|(index, _)| order[..count].contains(index));
        let only =
            |all: Vec<(usize, Candidate)>| all.into_iter().map(|(_, one)| one).collect::<Vec<_>>();
        (only(kept), only(left))
    };
    (0..=candidates.len())
        .rev()
        .map(split)
        .find(|(kept, _)| kept.is_empty() || holds(kept))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
        let settings = [
            ("pace", "p1"),
            ("pace", "p2"),
            ("pace", "p3"),
            ("quota", "q1"),
            ("quota", "q2"),
            ("io", "i1"),
        ];
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
        assert_eq!(
            (names(&kept), names(&left_out)),
            (vec!["p3", "q2", "i1"], vec!["p1", "p2", "q1"])
        );
        let (kept, left_out) = fitting(0);
        assert!(kept.is_empty());
        assert_eq!(names(&left_out), ["p1", "p2", "p3", "q1", "q2", "i1"]);
        assert_eq!(names(&fitting(6).0).len(), 6);
    }
}
