//! The values of a TOML text by their paths, and the lines they stand in.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

/// A value that is no table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Such as `core.store_buffer` and `nodes[1].socket`.
    pub path: String,
    /// As the text has it.
    pub value: String,
    /// Counted from 1.
    pub line: usize,
    /// Where the value stands in the text, in bytes.
    pub span: Range<usize>,
}

impl Leaf {
    /// Whether it describes the machine: names and sources do not.
    pub fn wants_source(&self) -> bool {
        !["name", "title", "noise"].contains(&self.path.as_str())
            && !self.path.starts_with("sources.")
    }
}

/// All of them, in the text's order.
pub fn leaves(text: &str) -> Result<Vec<Leaf>, Error> {
    let mut found = Vec::new();
    below(DeTable::parse(text)?.get_ref(), "", text, &mut found);
    found.sort_by_key(|(start, _)| *start);
    Ok(found.into_iter().map(|(_, leaf)| leaf).collect())
}

fn below(table: &DeTable, prefix: &str, text: &str, found: &mut Vec<(usize, Leaf)>) {
    for (key, value) in table {
        let path = if prefix.is_empty() {
            key.get_ref().to_string()
        } else {
            format!("{prefix}.{}", key.get_ref())
        };
        match value.get_ref() {
            DeValue::Table(inner) => below(inner, &path, text, found),
            DeValue::Array(array)
                if array.iter().all(|one| matches!(one.get_ref(), DeValue::Table(_))) =>
            {
                for (place, inner) in array.iter().enumerate() {
                    if let DeValue::Table(inner) = inner.get_ref() {
                        below(inner, &format!("{path}[{place}]"), text, found);
                    }
                }
            }
            _ => {
                let span = value.span();
                let (value, line) = (text[span.clone()].to_owned(), line(text, span.start));
                found.push((span.start, Leaf { path, value, line, span }));
            }
        }
    }
}

/// The names of all tables, `nodes` for each that is one of several, and where the text has them,
/// in bytes.
pub fn tables(text: &str) -> Result<Vec<(String, Range<usize>)>, Error> {
    fn within(table: &DeTable, prefix: &str, found: &mut Vec<(String, Range<usize>)>) {
        for (key, value) in table {
            let name = key.get_ref();
            let path =
                if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
            let one = |value: &Spanned<DeValue>, found: &mut Vec<_>| {
                if let DeValue::Table(inner) = value.get_ref() {
                    found.push((path.clone(), value.span()));
                    within(inner, &path, found);
                }
            };
            match value.get_ref() {
                DeValue::Array(all) => all.iter().for_each(|value| one(value, found)),
                _ => one(value, found),
            }
        }
    }
    let mut found = Vec::new();
    within(DeTable::parse(text)?.get_ref(), "", &mut found);
    Ok(found)
}

/// The line of a byte, counted from 1.
pub fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// Whether a path is another one, or of something within it.
pub fn is_at_or_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_paths_and_lines() {
        let text = "a = 1\n[b]\nc = [1, 2]\n[[d]]\ne = 'x'\n[d.f]\ng = 2.5\n[[d]]\ne = 'y'\n";
        let found: Vec<(String, String, usize)> = leaves(text)
            .unwrap()
            .into_iter()
            .map(|leaf| (leaf.path, leaf.value, leaf.line))
            .collect();
        let expected = [
            ("a", "1", 1),
            ("b.c", "[1, 2]", 3),
            ("d[0].e", "'x'", 5),
            ("d[0].f.g", "2.5", 7),
            ("d[1].e", "'y'", 9),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(path, value, line)| (path.into(), value.into(), line))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_path_is_below_whole_parts_of_it() {
        assert!(
            is_at_or_below("core.issue.load_ns", "core") && is_at_or_below("nodes[0].gib", "nodes")
        );
        assert!(is_at_or_below("core", "core") && !is_at_or_below("core_x", "core"));
        assert!(!is_at_or_below("nodes[10].gib", "nodes[1]"));
    }
}
