//! Command lines of this program, as they are advised.

use std::path::Path;

use ringfence_experiment::shell;

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
