//! How often the resource use of running processes is read. If their control group does not report
//! it, it is read from each process, which takes as long as a window for thousands of them.

use std::time::{Duration, Instant};

use ringfence_system::attach::{Source, Usage};

use crate::usage::Used;

// No more of our own time goes into it than this.
const SHARE: f64 = 0.005;

/// Readings of one attached target.
#[derive(Default)]
pub struct Readings {
    since: Option<Instant>,
    spent: Duration,
    longest: Duration,
    // The last one, and how long it had been paused by then; and whether a window was left out
    // since.
    last: Option<(Instant, Usage, Duration)>,
    left_out: bool,
}

impl Readings {
    /// Whether a window is read at both of its ends. The first always is.
    pub fn may_begin(&mut self) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let allowed = since.elapsed().mul_f64(SHARE);
        let may = self.last.is_none() || self.spent + self.longest * 2 <= allowed;
        self.left_out |= !may;
        may
    }

    /// A reading, which counts as time spent.
    pub fn timed(&mut self, read: impl FnOnce() -> Usage) -> Usage {
        let begun = Instant::now();
        let usage = read();
        let took = begun.elapsed();
        self.spent += took;
        self.longest = self.longest.max(took);
        usage
    }

    /// What was used since the last window that was read, while it was not paused, if windows in
    /// between were left out; and what this one ended with, after it had been paused for so long in
    /// all.
    pub fn since_last(&mut self, now: Usage, paused: Duration) -> Option<Used> {
        let last = self.last.replace((Instant::now(), now, paused));
        let left_out = std::mem::take(&mut self.left_out);
        let (then, earlier, before) = last.filter(|_| left_out)?;
        let ran = then.elapsed().saturating_sub(paused.saturating_sub(before));
        Some(used_between(&earlier, &now, ran))
    }
}

/// What was used from one reading to another, between which it ran for so long.
pub fn used_between(before: &Usage, after: &Usage, ran: Duration) -> Used {
    let bytes = |usage: &Usage| {
        usage.io.map_or((0, 0), |(read, written, _): (u64, u64, Source)| (read, written))
    };
    let (read, written) = (
        bytes(after).0.saturating_sub(bytes(before).0),
        bytes(after).1.saturating_sub(bytes(before).1),
    );
    Used {
        windows_ns: ran.as_nanos() as u64,
        cpu_ns: after.cpu.saturating_sub(before.cpu).as_nanos() as u64,
        io_bytes: read + written,
        disk_bytes: written,
        restarts: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cpu_ms: u64) -> Usage {
        Usage { cpu: Duration::from_millis(cpu_ms), cpu_from: Source::Processes, io: None }
    }

    #[test]
    fn readings_that_take_long_are_few_and_what_is_left_out_counts_with_the_next() {
        let mut readings = Readings::default();
        assert!(readings.may_begin(), "the first window is read");
        assert_eq!(readings.since_last(usage(100), Duration::ZERO), None);
        (readings.spent, readings.longest) =
            (Duration::from_millis(100), Duration::from_millis(50));
        assert!(!readings.may_begin());
        // 200 ms of 40 s.
        readings.since = Instant::now().checked_sub(Duration::from_secs(41));
        assert!(readings.may_begin());
        let used = readings.since_last(usage(250), Duration::ZERO).expect("a window was left out");
        assert_eq!(used.cpu_ns, 150_000_000);
        assert_eq!(readings.since_last(usage(300), Duration::ZERO), None, "none was");
        readings.spent += Duration::from_millis(100);
        assert!(!readings.may_begin());
    }

    #[test]
    fn what_is_used_is_what_was_added() {
        let used = used_between(&usage(300), &usage(420), Duration::from_millis(400));
        assert_eq!((used.windows_ns, used.cpu_ns, used.io_bytes), (400_000_000, 120_000_000, 0));
        // One that ended has taken what it had used with it.
        assert_eq!(used_between(&usage(300), &usage(200), Duration::from_millis(1)).cpu_ns, 0);
    }
}
