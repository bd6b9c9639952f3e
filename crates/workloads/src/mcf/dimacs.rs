//! Instances as text: the DIMACS format for minimum-cost flow.
//!
//! `p min NODES ARCS`, then `n NODE SUPPLY` and `a TAIL HEAD LOW CAPACITY COST` with nodes
//! numbered from 1, and `c` for comments. As in LEMON, a capacity of -1 stands for none.

use std::fmt::Write;
use std::str::{FromStr, SplitAsciiWhitespace};

use super::instance::{Arc, Instance};

/// What is wrong with a DIMACS text, and in which line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DimacsError {
    /// A line starts with none of `c`, `p`, `n` and `a`.
    #[error("line {line}: '{found}' starts no line of this format (c, p, n and a do)")]
    Unknown {
        /// The line, from 1.
        line: usize,
        /// Its first word.
        found: String,
    },
    /// The problem is of another kind, such as `max`.
    #[error("line {line}: the problem is '{found}', not 'min'")]
    Kind {
        /// The line, from 1.
        line: usize,
        /// What stands where `min` should.
        found: String,
    },
    /// A field is not there.
    #[error("line {line}: the {field} is missing")]
    Missing {
        /// The line, from 1.
        line: usize,
        /// What it should say.
        field: &'static str,
    },
    /// A field is not a number or out of its range.
    #[error("line {line}: '{found}' is not a valid {field}")]
    Bad {
        /// The line, from 1.
        line: usize,
        /// What it should say.
        field: &'static str,
        /// What it says.
        found: String,
    },
    /// There is more in a line than its kind has fields.
    #[error("line {line}: there is more than fits from '{found}' on")]
    Trailing {
        /// The line, from 1.
        line: usize,
        /// The first word too many.
        found: String,
    },
    /// An arc must carry a least flow, which an [`Instance`] cannot say.
    #[error("line {line}: lower bounds other than 0 are not supported")]
    LowerBound {
        /// The line, from 1.
        line: usize,
    },
    /// A node or arc comes before the problem line, or a second problem line after it.
    #[error("line {line}: there must be one 'p' line, before all nodes and arcs")]
    Order {
        /// The line, from 1.
        line: usize,
    },
    /// The text has no problem line.
    #[error("there is no 'p' line")]
    Empty,
    /// The problem line promises another number of arcs.
    #[error("the 'p' line says {promised} arcs, {found} are there")]
    ArcCount {
        /// What the problem line says.
        promised: usize,
        /// How many lines of arcs there are.
        found: usize,
    },
}

impl Instance {
    /// The instance in the DIMACS format, which [`Instance::from_str`] reads back.
    pub fn to_dimacs(&self) -> String {
        let mut text = format!("p min {} {}\n", self.nodes(), self.arc_count());
        for (node, supply) in self.supply().iter().enumerate().filter(|(_, supply)| **supply != 0) {
            writeln!(text, "n {} {supply}", node + 1).expect("writing to a string");
        }
        for Arc { tail, head, capacity, cost } in self.arcs() {
            let capacity = if capacity == Self::UNCAPPED { -1 } else { capacity };
            writeln!(text, "a {} {} 0 {capacity} {cost}", tail + 1, head + 1)
                .expect("writing to a string");
        }
        text
    }
}

/// The words of one line.
struct Line<'a> {
    number: usize,
    words: SplitAsciiWhitespace<'a>,
}

impl Line<'_> {
    fn field<T: FromStr>(&mut self, field: &'static str) -> Result<T, DimacsError> {
        let line = self.number;
        let word = self.words.next().ok_or(DimacsError::Missing { line, field })?;
        word.parse().map_err(|_| DimacsError::Bad { line, field, found: word.to_string() })
    }

    /// A node's number, read from 1 and returned from 0.
    fn node(&mut self, nodes: u32, field: &'static str) -> Result<u32, DimacsError> {
        let number: u32 = self.field(field)?;
        if number == 0 || number > nodes {
            return Err(DimacsError::Bad { line: self.number, field, found: number.to_string() });
        }
        Ok(number - 1)
    }

    fn end(&mut self) -> Result<(), DimacsError> {
        match self.words.next() {
            None => Ok(()),
            Some(found) => {
                Err(DimacsError::Trailing { line: self.number, found: found.to_string() })
            }
        }
    }
}

impl FromStr for Instance {
    type Err = DimacsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut read: Option<(Instance, usize)> = None;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let mut line = Line { number, words: line.split_ascii_whitespace() };
            match (line.words.next(), &mut read) {
                (None | Some("c"), _) => continue,
                (Some("p"), read @ None) => *read = Some(problem(&mut line)?),
                (Some("n"), Some((instance, _))) => {
                    let node = line.node(instance.nodes(), "node number")?;
                    instance.set_supply(node, line.field("supply")?);
                }
                (Some("a"), Some((instance, _))) => {
                    let arc = arc(&mut line, instance.nodes())?;
                    instance.add_arc(arc);
                }
                (Some("p" | "n" | "a"), _) => return Err(DimacsError::Order { line: number }),
                (Some(found), _) => {
                    return Err(DimacsError::Unknown { line: number, found: found.to_string() });
                }
            }
            line.end()?;
        }
        let (instance, promised) = read.ok_or(DimacsError::Empty)?;
        let found = instance.arc_count();
        if found != promised {
            return Err(DimacsError::ArcCount { promised, found });
        }
        Ok(instance)
    }
}

fn problem(line: &mut Line<'_>) -> Result<(Instance, usize), DimacsError> {
    let kind: String = line.field("kind of problem")?;
    if kind != "min" {
        return Err(DimacsError::Kind { line: line.number, found: kind });
    }
    let nodes = line.field("number of nodes")?;
    // Not trusted as a size to reserve: the arcs themselves are counted as they come.
    let arcs = line.field("number of arcs")?;
    Ok((Instance::new(nodes), arcs))
}

fn arc(line: &mut Line<'_>, nodes: u32) -> Result<Arc, DimacsError> {
    let tail = line.node(nodes, "tail")?;
    let head = line.node(nodes, "head")?;
    let low: i64 = line.field("lower bound")?;
    if low != 0 {
        return Err(DimacsError::LowerBound { line: line.number });
    }
    let capacity = match line.field("capacity")? {
        -1 => Instance::UNCAPPED,
        capacity if capacity < 0 => {
            let (line, found) = (line.number, capacity.to_string());
            return Err(DimacsError::Bad { line, field: "capacity", found });
        }
        capacity => capacity,
    };
    Ok(Arc { tail, head, capacity, cost: line.field("cost")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_writes() {
        let mut instance = Instance::new(3);
        instance.set_supply(0, 5);
        instance.set_supply(2, -5);
        instance.add_arc(Arc { tail: 0, head: 2, capacity: Instance::UNCAPPED, cost: -4 });
        instance.add_arc(Arc { tail: 1, head: 1, capacity: 0, cost: 9 });
        let text = instance.to_dimacs();
        assert_eq!(text, "p min 3 2\nn 1 5\nn 3 -5\na 1 3 0 -1 -4\na 2 2 0 0 9\n");
        assert_eq!(text.parse(), Ok(instance.clone()));
        assert_eq!(
            format!("c made by hand\n\n{}", text.replace('\n', "  \r\n")).parse(),
            Ok(instance)
        );
        assert_eq!("p min 0 0".parse(), Ok(Instance::new(0)));
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let wrong = [
            ("", "there is no 'p' line"),
            ("c only\n", "there is no 'p' line"),
            ("x\n", "line 1: 'x' starts no line of this format (c, p, n and a do)"),
            ("p max 1 0", "line 1: the problem is 'max', not 'min'"),
            ("p min", "line 1: the number of nodes is missing"),
            ("p min 1", "line 1: the number of arcs is missing"),
            ("p min -1 0", "line 1: '-1' is not a valid number of nodes"),
            ("p min 5000000000 0", "line 1: '5000000000' is not a valid number of nodes"),
            ("p min 1 0 0", "line 1: there is more than fits from '0' on"),
            (
                "p min 1 0\np min 1 0",
                "line 2: there must be one 'p' line, before all nodes and arcs",
            ),
            ("n 1 1\np min 1 0", "line 1: there must be one 'p' line, before all nodes and arcs"),
            ("p min 1 0\nn 2 1", "line 2: '2' is not a valid node number"),
            ("p min 1 0\nn 1", "line 2: the supply is missing"),
            ("p min 1 0\nn 1 1.5", "line 2: '1.5' is not a valid supply"),
            ("p min 1 1\na 0 1 0 1 1", "line 2: '0' is not a valid tail"),
            ("p min 1 1\na 1 2 0 1 1", "line 2: '2' is not a valid head"),
            ("p min 1 1\na 1 1 1 1 1", "line 2: lower bounds other than 0 are not supported"),
            ("p min 1 1\na 1 1 0 -2 1", "line 2: '-2' is not a valid capacity"),
            ("p min 1 1\na 1 1 0 1", "line 2: the cost is missing"),
            (
                "p min 1 1\na 1 1 0 1 9223372036854775808",
                "line 2: '9223372036854775808' is not a valid cost",
            ),
            ("p min 1 2\na 1 1 0 1 1", "the 'p' line says 2 arcs, 1 are there"),
        ];
        for (text, message) in wrong {
            assert_eq!(
                text.parse::<Instance>().map_err(|e| e.to_string()),
                Err(message.to_string()),
                "{text:?}"
            );
        }
    }
}
