//! Waiting for what is mostly a matter of microseconds.

use std::time::Duration;

/// So often it is looked without a pause.
const AT_ONCE: u32 = 20;
/// Then this lies in between.
const PAUSE: Duration = Duration::from_micros(100);

/// Until it is looked again.
pub fn pause(looked: &mut u32) {
    *looked += 1;
    if *looked < AT_ONCE { std::thread::yield_now() } else { std::thread::sleep(PAUSE) }
}
