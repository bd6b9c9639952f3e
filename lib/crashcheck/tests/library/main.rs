//! The persistence library under check: its records, its stores and its ring, each in every state
//! that a crash can leave, under all profiles.

mod publish;
mod records;
mod ring;

use ringfence_crashcheck::{Check, Machine, Profile};

/// Whether nothing is wrong, and everything was looked at.
fn sound(
    check: &Check,
    name: &str,
    program: impl Fn(&Machine),
    recovery: impl Fn(&Machine) -> Result<(), String>,
) {
    let report = check.run(program, recovery);
    println!(
        "{}, {name}: {} crashes, {} states",
        report.profile, report.crash_points, report.states
    );
    report.expect_sound();
    assert!(!report.bounded, "{name}: {report}");
}

/// One crash, two, and deaths of the process alone, under all profiles.
fn in_all_ways(
    name: &str,
    check: impl Fn(Profile) -> Check,
    program: impl Fn(&Machine),
    recovery: impl Fn(&Machine) -> Result<(), String>,
) {
    for profile in Profile::ALL {
        sound(&check(profile).crashes(2), name, &program, &recovery);
        sound(&check(profile).crashes(2).kills(), name, &program, &recovery);
    }
}
