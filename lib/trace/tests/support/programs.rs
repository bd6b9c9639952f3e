//! The programs that are recorded.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::skip;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record/programs");

/// Builds a source, a path from the folder of the programs, or none where there is no such
/// compiler.
pub fn build(
    folder: &Path,
    source: &str,
    compiler: &str,
    flags: &[&str],
    libraries: &[&str],
) -> Option<PathBuf> {
    let last = source.rsplit('/').next().unwrap_or(source);
    let name = format!("{last}{}", flags.concat()).replace(['.', '=', '-', ',', '+'], "_");
    let program = folder.join(name);
    let mut command = Command::new(compiler);
    command
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(Path::new(PROGRAMS).join(source))
        .args(libraries);
    if compiler == "rustc" {
        command.arg("--edition=2024");
    } else {
        command.arg("-w");
    }
    let built = command.status().is_ok_and(|status| status.success());
    if !built {
        skip(&format!("{source} cannot be built by {compiler} {}", flags.join(" ")));
    }
    built.then_some(program)
}
