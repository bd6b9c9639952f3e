//! How many states the checker looks at in a second, and how their number grows with the program, beside the
//! number of contents that memory can have.
//!
//! `cargo bench -p ringfence-crashcheck`

#[path = "../tests/support/ring.rs"]
#[expect(dead_code, reason = "tests do more with it")]
mod ring;

use std::time::Instant;

use ringfence_crashcheck::Profile;

fn main() {
    // `cargo test --benches` runs this too: there it shall only work.
    let quick = !std::env::args().any(|arg| arg == "--bench");
    println!("ring of 6 lines, Intel ADR, recovery and another life behind each crash\n");
    println!("pushes  crashes    states    merged      contents      time    states/s");
    for pushes in if quick { vec![2] } else { vec![2, 4, 8, 16, 32] } {
        for crashes in 1..=2 {
            row(pushes, crashes, Profile::IntelAdr);
        }
    }
    println!();
    for profile in Profile::ALL {
        println!("{profile}:");
        row(if quick { 2 } else { 8 }, 2, profile);
    }
}

// The fastest of five: nothing makes it faster than it is.
fn row(pushes: usize, crashes: usize, profile: Profile) {
    let once = || {
        let start = Instant::now();
        let life = ring::Life::of_pushes(pushes);
        let check = life.check(profile).crashes(crashes);
        let report = check.run(|memory| life.run(memory), |memory| life.recovery(memory));
        (start.elapsed(), report)
    };
    let (time, report) = (0..5).map(|_| once()).min_by_key(|(time, _)| *time).expect("five");
    report.expect_sound();
    let rate = report.states as f64 / time.as_secs_f64();
    println!(
        "{pushes:6}  {crashes:7}  {:8}  {:8}  {:12.3e}  {:5.0} ms  {rate:10.0}",
        report.states,
        report.merged,
        report.images,
        time.as_secs_f64() * 1e3
    );
}
