//! Command lines of this program, as they are advised.

use std::path::Path;

use ringfence_experiment::shell;
use ringfence_report::Style;

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

/// After a short text: the commands that print the rest of it.
pub fn rest(dir: &Path, style: &Style) -> String {
    if style.details {
        return String::new();
    }
    let line = |dir: &Path| {
        format!(
            "more: {}; as a page: {}",
            command(&["show", "-v"], dir),
            command(&["show", "--html"], dir)
        )
    };
    let named = line(dir);
    let line = if named.len() <= style.width { named } else { line(Path::new("DIR")) };
    format!("{line}\n")
}
