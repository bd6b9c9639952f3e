//! Latencies that a program prints, one a line.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_experiment::histogram::{BUCKETS, bucket_of};
use ringfence_experiment::task::latency_in;

// So many lines say what a program prints.
const TELLING: u64 = 10;
// No line with a latency is as long.
const LONGEST_LINE: usize = 1 << 16;

/// What a program has printed over all its starts.
pub struct Printed {
    seen: Arc<Mutex<Seen>>,
    pipe: Option<OwnedFd>,
}

/// Latencies so far.
#[derive(Clone)]
pub struct Seen {
    /// How many there were.
    pub units: u64,
    /// By bucket.
    pub counts: Box<[u64]>,
    /// Their sum, ns.
    pub sum_ns: u64,
    // Lines without a latency, and the last of them.
    others: u64,
    other: String,
    // Operations that were under way while the program was paused: they took as long as that.
    cut: u64,
    resumed: Instant,
}

impl Seen {
    fn new(resumed: Instant) -> Self {
        Self {
            units: 0,
            counts: vec![0; BUCKETS].into(),
            sum_ns: 0,
            others: 0,
            other: String::new(),
            cut: 0,
            resumed,
        }
    }

    // A line that was read at a time.
    fn take(&mut self, line: &[u8], now: Instant) {
        let line = String::from_utf8_lossy(line);
        let Some(ns) = latency_in(&line) else {
            self.others += 1;
            self.other = line.trim().chars().take(80).collect();
            return;
        };
        if now.saturating_duration_since(self.resumed) < Duration::from_nanos(ns) {
            self.cut += 1;
            return;
        }
        self.units += 1;
        self.counts[bucket_of(ns)] += 1;
        self.sum_ns += ns;
    }

    // Why it is not what was promised.
    fn trouble(&self) -> Option<String> {
        let (latencies, others, cut) = (self.units + self.cut, self.others, self.cut);
        if others >= TELLING && others > latencies {
            return Some(format!(
                "of {} lines that it printed, {others} hold no number with a unit of time, the last of them '{}': each line is to be one \
                 latency, such as '310 us' or '0.31 ms'",
                latencies + others,
                self.other
            ));
        }
        (cut >= TELLING && cut > self.units).then(|| {
            format!(
                "of {latencies} latencies that it printed, {cut} are longer than it had been running when it printed them, so that \
                 these operations were under way while it was paused: take windows of at least 20 operations (--window), and print \
                 each latency when its operation ends"
            )
        })
    }
}

impl Printed {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { seen: Arc::new(Mutex::new(Seen::new(Instant::now()))), pipe: None }
    }

    /// Listens to a program that was started with a pipe as its output.
    pub fn listen(&mut self, child: &mut Child) {
        let Some(mut output) = child.stdout.take() else { return };
        self.pipe = output.as_fd().try_clone_to_owned().ok();
        let seen = self.seen.clone();
        std::thread::spawn(move || {
            let mut lines = Lines::default();
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                let now = Instant::now();
                let mut seen = lock(&seen);
                lines.feed(&buffer[..length], |line| seen.take(line, now));
            }
            if !lines.begun.is_empty() {
                lock(&seen).take(&lines.begun, Instant::now());
            }
        });
    }

    /// The program is let go on.
    pub fn resumed(&mut self) {
        lock(&self.seen).resumed = Instant::now();
    }

    /// What was printed until now.
    pub fn seen(&self) -> Seen {
        self.pipe.as_ref().into_iter().for_each(drain);
        lock(&self.seen).clone()
    }

    /// Nothing more comes from what has ended.
    pub fn ended(&mut self) {
        self.pipe = None;
    }

    /// Why what it prints cannot be used, where that can be told.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.seen).trouble()
    }
}

/// Waits until the reader has taken what is in the pipe: a line counts when it was written.
pub fn drain(pipe: &OwnedFd) {
    let until = Instant::now() + Duration::from_millis(2);
    while rustix::io::ioctl_fionread(pipe).is_ok_and(|waiting| waiting > 0) && Instant::now() <= until {
        std::thread::yield_now();
    }
}

// Whoever panicked left whole counts.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

// Bytes into lines.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.begun.extend_from_slice(part);
            line(&self.begun);
            self.begun.clear();
        }
        self.begun.extend_from_slice(last);
        self.begun.truncate(LONGEST_LINE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begun: Instant, ms: u64) -> Instant {
        begun + Duration::from_millis(ms)
    }

    #[test]
    fn lines_come_whole_however_they_are_read() {
        let text = b"310 us\n\n0.5 ms\nlast";
        for size in 1..=text.len() {
            let (mut lines, mut all) = (Lines::default(), Vec::new());
            text.chunks(size).for_each(|part| lines.feed(part, |line| all.push(line.to_vec())));
            assert_eq!(all, [&b"310 us"[..], b"", b"0.5 ms"], "{size}");
            assert_eq!(lines.begun, b"last");
        }
    }

    #[test]
    fn sums_and_counts_are_of_the_same_latencies() {
        let begun = Instant::now();
        let mut seen = Seen::new(begun);
        for line in ["310 us", "took 2 ms", "ready", "310us"] {
            seen.take(line.as_bytes(), after(begun, 50));
        }
        assert_eq!((seen.units, seen.sum_ns, seen.others), (3, 2_620_000, 1));
        assert_eq!((seen.counts[bucket_of(310_000)], seen.counts[bucket_of(2_000_000)]), (2, 1));
        assert_eq!(seen.counts.iter().sum::<u64>(), 3);
        assert_eq!(seen.trouble(), None);
    }

    #[test]
    fn what_was_under_way_in_a_pause_is_not_counted() {
        let begun = Instant::now();
        let mut seen = Seen::new(begun);
        seen.take(b"30 ms", after(begun, 20));
        seen.take(b"15 ms", after(begun, 20));
        assert_eq!((seen.units, seen.cut), (1, 1));
        // Windows that are shorter than an operation.
        (0..9).for_each(|_| seen.take(b"30 ms", after(begun, 20)));
        let trouble = seen.trouble().unwrap();
        assert!(trouble.starts_with("of 11 latencies that it printed, 10 are longer"), "{trouble}");
    }

    #[test]
    fn other_lines_are_refused_where_they_are_most() {
        let begun = Instant::now();
        let mut seen = Seen::new(begun);
        (0..9).for_each(|_| seen.take(b"ready", begun));
        assert_eq!(seen.trouble(), None, "a heading");
        seen.take(b" 12 ops/s ", begun);
        let trouble = seen.trouble().unwrap();
        assert!(trouble.starts_with("of 10 lines that it printed, 10 hold no number"), "{trouble}");
        assert!(trouble.contains("the last of them '12 ops/s'"), "{trouble}");
        (0..10).for_each(|_| seen.take(b"1us", after(begun, 1)));
        assert_eq!(seen.trouble(), None);
    }
}
