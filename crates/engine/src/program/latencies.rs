//! Latencies that a program prints: one a line, or those of an interval in a line of an HDR histogram log.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_experiment::histogram::{BUCKETS, bucket_of};
use ringfence_experiment::task::{LogUnit, latency_in};

use super::hdr_log::{self, Interval};

// So many lines say what a program prints.
const TELLING: u64 = 10;
// No line with a latency is as long, and hardly one of a log.
const LONGEST_LINE: usize = 1 << 20;

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
    // Where it prints a log.
    log: Option<Log>,
    log_unit: LogUnit,
}

// Intervals of a log so far.
#[derive(Clone, Default)]
struct Log {
    used: u64,
    // Those that hold a pause, and those that came later than they ended.
    cut: u64,
    late: u64,
    // When the last line of each tag came.
    came: BTreeMap<String, Instant>,
    damaged: Option<String>,
}

impl Seen {
    fn new(resumed: Instant, log_unit: LogUnit) -> Self {
        let (units, counts, sum_ns, others, cut) = (0, vec![0; BUCKETS].into(), 0, 0, 0);
        Self { units, counts, sum_ns, others, other: String::new(), cut, resumed, log: None, log_unit }
    }

    // A line that was read at a time.
    fn take(&mut self, line: &[u8], now: Instant) {
        let line = String::from_utf8_lossy(line);
        if self.log.is_some() || hdr_log::is_of_a_log(&line) {
            return self.take_of_a_log(&line, now);
        }
        let Some(ns) = latency_in(&line) else {
            self.others += 1;
            self.other = line.trim().chars().take(80).collect();
            return;
        };
        if now.saturating_duration_since(self.resumed) < Duration::from_nanos(ns) {
            self.cut += 1;
            return;
        }
        self.count(ns, 1);
    }

    fn count(&mut self, ns: u64, times: u64) {
        self.units += times;
        self.counts[bucket_of(ns)] += times;
        self.sum_ns = self.sum_ns.saturating_add(ns.saturating_mul(times));
    }

    fn take_of_a_log(&mut self, line: &str, now: Instant) {
        let log = self.log.get_or_insert_default();
        let Interval { tag, length, latencies } = match hdr_log::read(line) {
            Ok(None) => return,
            Ok(Some(interval)) => interval,
            Err(why) => {
                let begin: String = line.trim().chars().take(60).collect();
                log.damaged.get_or_insert(format!("{why}: '{begin}'"));
                return;
            }
        };
        let before = log.came.insert(tag, now);
        let ran = now.saturating_duration_since(self.resumed);
        let unit = self.log_unit.ns();
        let ns_of = |value: u64| value.saturating_mul(unit);
        // What was under way in a pause took as long as that.
        if ran < length.max(Duration::from_nanos(ns_of(latencies.max()))) {
            log.cut += 1;
            return;
        }
        // It is not known which of several lines that come at once is of the time since the last.
        if before.is_some_and(|before| now.saturating_duration_since(before) < length / 2) {
            log.late += 1;
            return;
        }
        log.used += 1;
        for step in latencies.iter_recorded() {
            let ns = ns_of(latencies.median_equivalent(step.value_iterated_to()));
            self.count(ns, step.count_since_last_iteration());
        }
    }

    // Why it is not what was promised.
    fn trouble(&self) -> Option<String> {
        if let Some(log) = &self.log {
            return log.trouble();
        }
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

impl Log {
    fn trouble(&self) -> Option<String> {
        let Self { used, cut, late, damaged, .. } = self;
        let all = used + cut + late;
        if let Some(why) = damaged {
            return Some(format!(
                "a line of the HDR histogram log that it prints cannot be read, because {why}"
            ));
        }
        if *late >= TELLING && late > used {
            return Some(format!(
                "of {all} intervals of the HDR histogram log that it prints, {late} came together with the one before: let it flush each \
                 line when the interval ends"
            ));
        }
        (*cut >= TELLING && cut > used).then(|| {
            format!(
                "of {all} intervals of the HDR histogram log that it prints, {cut} are longer than it had been running when they ended, \
                 so that they hold a pause: let it log shorter intervals, or take windows of at least 20 intervals (--window)"
            )
        })
    }
}

impl Printed {
    /// Nothing yet; what a log's values are in.
    pub fn new(log_unit: LogUnit) -> Self {
        Self { seen: Arc::new(Mutex::new(Seen::new(Instant::now(), log_unit))), pipe: None }
    }

    /// Listens to a program that was started with a pipe as its output.
    pub fn listen(&mut self, child: &mut Child) {
        let Some(mut output) = child.stdout.take() else { return };
        self.pipe = output.as_fd().try_clone_to_owned().ok();
        let seen = self.seen.clone();
        lock(&seen).log.iter_mut().for_each(|log| log.came.clear());
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

    /// Whether it has printed a line that nobody can read, where that is so.
    pub fn is_damaged(&self) -> bool {
        lock(&self.seen).log.as_ref().is_some_and(|log| log.damaged.is_some())
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
#[path = "../../tests/inside/latencies.rs"]
mod tests;
