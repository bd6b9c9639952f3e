//! Words that several parts of an answer have in common.

use crate::numbers::count;

/// A number of things.
pub fn counted(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{} {what}s", count(number)),
    }
}

/// Where a program was.
pub fn place_of(is_behind: bool, line: Option<&str>, before: &Option<String>) -> String {
    let line = line.map(|line| format!("'{line}'"));
    match (is_behind, line, before) {
        (true, Some(line), _) => format!("right after {line} was printed"),
        (_, Some(line), Some(before)) => format!("before {before}, after {line} was printed"),
        (_, Some(line), None) => format!("at the end, after {line} was printed"),
        (_, None, Some(before)) => format!("before {before}, before anything was printed"),
        (_, None, None) => "at the end, before anything was printed".into(),
    }
}
