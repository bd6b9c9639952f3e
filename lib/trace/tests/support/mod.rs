//! What several tests need.

use std::process::Command;

/// Says that a test cannot run here; where everything is required, fails instead.
pub fn skip(why: &str) {
    let is_required = std::env::var_os("RINGFENCE_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!is_required, "cannot run: {why}");
    println!("skipped: {why}");
}

/// Whether a program is installed.
#[allow(dead_code, reason = "not every test asks")]
pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success())
}
