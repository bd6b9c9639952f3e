//! Command lines of this program, as they are advised.

use std::path::Path;

use ringfence_experiment::shell;
use ringfence_report::Style;

use super::results;

/// A command line of this program that ends in a path, to be pasted into a shell.
pub fn command(words: &[&str], path: &Path) -> String {
    // A name that begins with a hyphen would be taken for a flag.
    let path = if path.as_os_str().as_encoded_bytes().starts_with(b"-") {
        &Path::new(".").join(path)
    } else {
        path
    };
    format!("ringfence {} {}", words.join(" "), shell::quote(&path.to_string_lossy()))
}

/// A path as it can be pasted into a shell.
pub fn pasteable(path: &Path) -> String {
    shell::quote(&path.to_string_lossy())
}

/// After a short text whose page is named elsewhere: the command that prints the rest of it.
pub fn details(dir: &Path, style: &Style) -> String {
    match style.details {
        true => String::new(),
        false => format!("more: {}\n", command(&["show", "-v"], &results::name(dir))),
    }
}

/// After a short text: the commands that print the rest of it.
pub fn rest(dir: &Path, style: &Style) -> String {
    if style.details {
        return String::new();
    }
    let name = results::name(dir);
    let (more, page) = (command(&["show", "-v"], &name), command(&["show", "--html"], &name));
    let line = format!("more: {more}; as a page: {page}");
    // A command that is wrapped cannot be pasted.
    match line.len() <= style.width {
        true => format!("{line}\n"),
        false => format!("more: {more}\npage: {page}\n"),
    }
}
