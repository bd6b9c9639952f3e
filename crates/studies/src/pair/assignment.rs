//! Which tasks share a pair of cores: perfect matchings.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most tasks that can be assigned: ten have 945 assignments, all of which are looked at.
pub const MOST_TASKS: usize = 10;

/// Tasks two by two; with an odd number one runs alone. Tasks are numbered from 0 here and from 1
/// in texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assignment {
    /// The pairs, each with the lower number first, by their lower numbers.
    pub pairs: Vec<(usize, usize)>,
    /// The task that runs alone.
    pub alone: Option<usize>,
}

impl Assignment {
    /// The tasks as they come: the first beside the second, the third beside the fourth.
    pub fn in_order(tasks: usize) -> Self {
        let pairs = (0..tasks / 2).map(|pair| (2 * pair, 2 * pair + 1)).collect();
        Self { pairs, alone: (!tasks.is_multiple_of(2)).then(|| tasks - 1) }
    }

    /// Every assignment of this number of tasks, each once.
    pub fn all(tasks: usize) -> Vec<Self> {
        let everybody: Vec<usize> = (0..tasks).collect();
        let mut all = Vec::new();
        if tasks.is_multiple_of(2) {
            matchings(&everybody, &mut Vec::new(), &mut |pairs| {
                all.push(Self { pairs, alone: None })
            });
        } else {
            for alone in 0..tasks {
                let others: Vec<usize> =
                    everybody.iter().copied().filter(|task| *task != alone).collect();
                let mut keep = |pairs| all.push(Self { pairs, alone: Some(alone) });
                matchings(&others, &mut Vec::new(), &mut keep);
            }
        }
        all
    }

    /// Reads `1+3,2+4`, or `1+3,2` where task 2 runs alone.
    ///
    /// # Errors
    /// One sentence where it is not an assignment of so many tasks.
    pub fn parse(text: &str, tasks: usize) -> Result<Self, String> {
        let bad = |why: String| {
            format!(
                "'{text}' is not an assignment of {tasks} tasks ({why}): write it as in {}",
                Self::in_order(tasks).written()
            )
        };
        let (mut pairs, mut alone) = (Vec::new(), None);
        for part in text.split(',') {
            let numbers = part.split('+').map(|number| match number.trim().parse::<usize>() {
                Ok(number) if (1..=tasks).contains(&number) => Ok(number - 1),
                _ => Err(bad(format!("'{}' is not the number of a task", number.trim()))),
            });
            match numbers.collect::<Result<Vec<_>, _>>()?[..] {
                [one] if alone.is_none() => alone = Some(one),
                [a, b] => pairs.push((a.min(b), a.max(b))),
                _ => return Err(bad("tasks run in pairs, with at most one alone".into())),
            }
        }
        pairs.sort_unstable();
        let mut named: Vec<usize> =
            pairs.iter().flat_map(|pair| [pair.0, pair.1]).chain(alone).collect();
        named.sort_unstable();
        if named != (0..tasks).collect::<Vec<_>>() {
            return Err(bad("each task must appear once".into()));
        }
        if alone.is_some() && tasks.is_multiple_of(2) {
            return Err(bad("with an even number of tasks, none runs alone".into()));
        }
        Ok(Self { pairs, alone })
    }

    /// As [`parse`](Self::parse) reads it.
    pub fn written(&self) -> String {
        let pairs = self.pairs.iter().map(|(a, b)| format!("{}+{}", a + 1, b + 1));
        pairs.chain(self.alone.map(|task| (task + 1).to_string())).collect::<Vec<_>>().join(",")
    }

    /// The same with every task replaced by its kind: assignments that differ in nothing are equal
    /// then.
    pub fn by_kind(&self, kinds: &[usize]) -> Self {
        let kind = |pair: &(usize, usize)| {
            let (a, b) = (kinds[pair.0], kinds[pair.1]);
            (a.min(b), a.max(b))
        };
        let mut pairs: Vec<(usize, usize)> = self.pairs.iter().map(kind).collect();
        pairs.sort_unstable();
        Self { pairs, alone: self.alone.map(|task| kinds[task]) }
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> =
            self.pairs.iter().map(|(a, b)| format!("{} beside {}", a + 1, b + 1)).collect();
        parts.extend(self.alone.map(|task| format!("{} alone", task + 1)));
        f.write_str(&parts.join(", "))
    }
}

// The first of those left beside each of the others, and so on.
fn matchings(
    left: &[usize],
    sofar: &mut Vec<(usize, usize)>,
    keep: &mut dyn FnMut(Vec<(usize, usize)>),
) {
    let Some((first, others)) = left.split_first() else { return keep(sofar.clone()) };
    for other in others {
        let rest: Vec<usize> = others.iter().copied().filter(|task| task != other).collect();
        sofar.push((*first, *other));
        matchings(&rest, sofar, keep);
        sofar.pop();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_assignment_is_there_once() {
        // (n - 1)!! for even numbers, n!! for odd ones.
        for (tasks, count) in
            [(2, 1), (3, 3), (4, 3), (5, 15), (6, 15), (7, 105), (8, 105), (9, 945), (10, 945)]
        {
            let all = Assignment::all(tasks);
            assert_eq!(all.len(), count, "{tasks}");
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), count, "{tasks}");
            assert!(all.contains(&Assignment::in_order(tasks)));
            for assignment in &all {
                assert_eq!(
                    Assignment::parse(&assignment.written(), tasks).as_ref(),
                    Ok(assignment)
                );
            }
        }
        let four: Vec<String> = Assignment::all(4).iter().map(Assignment::to_string).collect();
        assert_eq!(
            four,
            ["1 beside 2, 3 beside 4", "1 beside 3, 2 beside 4", "1 beside 4, 2 beside 3"]
        );
        assert_eq!(Assignment::all(3)[0].to_string(), "2 beside 3, 1 alone");
    }

    #[test]
    fn texts_are_read_or_refused() {
        let four = Assignment::parse("4+2, 3+1", 4).unwrap();
        assert_eq!((four.pairs, four.alone), (vec![(0, 2), (1, 3)], None));
        assert_eq!(Assignment::parse("3,2+1", 3).unwrap(), Assignment::in_order(3));
        for (text, part) in [
            ("", "'' is not the number of a task"),
            ("1+2", "each task must appear once"),
            ("1+2,2+3", "each task must appear once"),
            ("1+2,3+5", "'5' is not the number of a task"),
            ("0+1,2+3", "'0' is not the number of a task"),
            ("1+2+3,4", "tasks run in pairs"),
            ("1+2,3,4", "tasks run in pairs"),
            ("1+1,2+3", "each task must appear once"),
        ] {
            let error = Assignment::parse(text, 4).unwrap_err();
            assert!(error.contains(part) && error.contains("1+2,3+4"), "{text}: {error}");
        }
    }

    #[test]
    fn equal_tasks_make_equal_assignments() {
        let kinds = [0, 0, 1, 1];
        let distinct: BTreeSet<_> =
            Assignment::all(4).iter().map(|one| one.by_kind(&kinds)).collect();
        assert_eq!(distinct.len(), 2);
        assert_eq!(Assignment::in_order(4).by_kind(&kinds).pairs, [(0, 0), (1, 1)]);
    }
}
