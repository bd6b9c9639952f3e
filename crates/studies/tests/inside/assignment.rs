use std::collections::BTreeSet;

use super::*;

#[test]
fn every_assignment_is_there_once() {
    // (n - 1)!! for even numbers, n!! for odd ones.
    for (tasks, count) in [(2, 1), (3, 3), (4, 3), (5, 15), (6, 15), (7, 105), (8, 105), (9, 945), (10, 945)]
    {
        let all = Assignment::all(tasks);
        assert_eq!(all.len(), count, "{tasks}");
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), count, "{tasks}");
        assert!(all.contains(&Assignment::in_order(tasks)));
        for assignment in &all {
            assert_eq!(Assignment::parse(&assignment.written(), tasks).as_ref(), Ok(assignment));
        }
    }
    let four: Vec<String> = Assignment::all(4).iter().map(Assignment::to_string).collect();
    assert_eq!(four, ["1 beside 2, 3 beside 4", "1 beside 3, 2 beside 4", "1 beside 4, 2 beside 3"]);
    assert_eq!(Assignment::all(3)[0].to_string(), "2 beside 3, 1 alone");
}

#[test]
fn texts_are_read_or_refused() {
    let four = Assignment::parse("4+2, 3+1", 4).unwrap();
    assert_eq!((four.pairs, four.alone), (vec![(0, 2), (1, 3)], None));
    assert_eq!(Assignment::parse("3,2+1", 3).unwrap(), Assignment::in_order(3));
    for (text, part) in [
        ("", "'' is not a task's number"),
        ("1+2", "each task must be there once"),
        ("1+2,2+3", "each task must be there once"),
        ("1+2,3+5", "'5' is not a task's number"),
        ("0+1,2+3", "'0' is not a task's number"),
        ("1+2+3,4", "two by two"),
        ("1+2,3,4", "two by two"),
        ("1+1,2+3", "each task must be there once"),
    ] {
        let error = Assignment::parse(text, 4).unwrap_err();
        assert!(error.contains(part) && error.contains("1+2,3+4"), "{text}: {error}");
    }
}

#[test]
fn equal_tasks_make_equal_assignments() {
    let kinds = [0, 0, 1, 1];
    let distinct: BTreeSet<_> = Assignment::all(4).iter().map(|one| one.by_kind(&kinds)).collect();
    assert_eq!(distinct.len(), 2);
    assert_eq!(Assignment::in_order(4).by_kind(&kinds).pairs, [(0, 0), (1, 1)]);
}
