//! What several tests need.

/// Says why a test does less here; an error where everything is required.
pub fn skip(why: &str) {
    assert!(std::env::var_os("RINGFENCE_REQUIRE_ALL").is_none(), "required here, but {why}");
    eprintln!("skipped: {why}");
}
