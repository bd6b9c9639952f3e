//! What a reader of TOML says of a file, with the name of what is missing.

use toml::de::Error;

use super::leaves::{line, tables};

// Keys that are tables, wherever they stand; all others are values.
const TABLES: [&str; 12] = [
    "processor",
    "topology",
    "core",
    "issue",
    "l1",
    "l2",
    "llc",
    "uncore",
    "nodes",
    "write_queue",
    "device",
    "sources",
];

/// The line where something is wrong, if it has one, and what it is; a missing table or value by
/// its name, with the line of the table that it belongs to.
pub fn told(error: &Error, text: &str) -> (Option<usize>, String) {
    let said = error.message().trim().replace('\n', ", ");
    let at = error.span().map(|span| line(text, span.start));
    let name = said.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let Some(name) = name else { return (at, said) };
    let all = tables(text).unwrap_or_default();
    let parent =
        all.into_iter().find(|(_, span)| error.span().as_ref() == Some(span)).map(|(path, _)| path);
    let Some(parent) = parent else {
        let why = match (TABLES.contains(&name), name) {
            (true, "nodes") => "no [[nodes]] in it".to_owned(),
            (true, _) => format!("no [{name}] in it"),
            (false, _) => format!("no {name} in it, above the first table"),
        };
        return (None, why);
    };
    let own = if parent == "nodes" { "[[nodes]]".to_owned() } else { format!("[{parent}]") };
    let why = match (TABLES.contains(&name), name) {
        (true, "device") => {
            format!("no [{parent}.device.dram] or [{parent}.device.optane] below this {own}")
        }
        (true, _) => format!("no [{parent}.{name}] below this {own}"),
        (false, _) => format!("no {name} in this {own}"),
    };
    (at, why)
}
