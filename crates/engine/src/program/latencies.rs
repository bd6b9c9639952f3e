//! Latencies that a program prints: one a line, or those of an interval in a line of an HDR
//! histogram log.

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
        Self {
            units,
            counts,
            sum_ns,
            others,
            other: String::new(),
            cut,
            resumed,
            log: None,
            log_unit,
        }
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
                "of {} lines that it printed, {others} contain no number with a unit of time, the \
                 last of them '{}': print one latency per line, such as '310 us' or '0.31 ms'",
                latencies + others,
                self.other
            ));
        }
        (cut >= TELLING && cut > self.units).then(|| {
            format!(
                "of {latencies} latencies that it printed, {cut} are longer than the time since \
                 its last pause, so these operations were in progress while it was paused: use \
                 windows of at least 20 operations (--window), and print each latency when its \
                 operation ends"
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
                "of {all} intervals of the HDR histogram log that it prints, {late} arrived \
                 together with the previous one: let it flush each line when the interval ends"
            ));
        }
        (*cut >= TELLING && cut > used).then(|| {
            format!(
                "of {all} intervals of the HDR histogram log that it prints, {cut} are longer than \
                 the time since its last pause, so they contain a pause: let it log shorter \
                 intervals, or use windows of at least 20 intervals (--window)"
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

    /// Called when the program is resumed.
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

    /// Whether it has printed a line that cannot be parsed.
    pub fn is_damaged(&self) -> bool {
        lock(&self.seen).log.as_ref().is_some_and(|log| log.damaged.is_some())
    }

    /// Why its output cannot be used, where that is known.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.seen).trouble()
    }
}

/// Waits until the reader has taken what is in the pipe: a line counts when it was written.
pub fn drain(pipe: &OwnedFd) {
    let until = Instant::now() + Duration::from_millis(2);
    while rustix::io::ioctl_fionread(pipe).is_ok_and(|waiting| waiting > 0)
        && Instant::now() <= until
    {
        std::thread::yield_now();
    }
}

// A thread that panicked left complete counts.
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
        let mut seen = Seen::new(begun, LogUnit::Ns);
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
        let mut seen = Seen::new(begun, LogUnit::Ns);
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
        let mut seen = Seen::new(begun, LogUnit::Ns);
        (0..9).for_each(|_| seen.take(b"ready", begun));
        assert_eq!(seen.trouble(), None, "a heading");
        seen.take(b" 12 ops/s ", begun);
        let trouble = seen.trouble().unwrap();
        assert!(
            trouble.starts_with("of 10 lines that it printed, 10 contain no number"),
            "{trouble}"
        );
        assert!(trouble.contains("the last of them '12 ops/s'"), "{trouble}");
        (0..10).for_each(|_| seen.take(b"1us", after(begun, 1)));
        assert_eq!(seen.trouble(), None);
    }

    // A line of a log, whose interval is as long as this, and holds so many operations of 1 ms.
    fn logged(length: Duration, operations: u64) -> Vec<u8> {
        use hdrhistogram::serialization::V2DeflateSerializer;
        use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
        let mut latencies = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        latencies.record_n(1_000_000, operations).unwrap();
        let (mut line, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
        let mut writer =
            IntervalLogWriterBuilder::new().begin_log_with(&mut line, &mut serializer).unwrap();
        writer.write_histogram(&latencies, Duration::ZERO, length, None).ok().unwrap();
        line.pop();
        line
    }

    #[test]
    fn a_log_counts_what_happened_since_it_was_resumed() {
        let begun = Instant::now();
        let mut seen = Seen::new(begun, LogUnit::Ns);
        seen.take(b"#[Histogram log format version 1.3]", begun);
        let line = logged(Duration::from_millis(10), 40);
        // The first holds a pause; two that come at once were not written when their intervals
        // ended.
        for ms in [5, 16, 26, 27, 40] {
            seen.take(&line, after(begun, ms));
        }
        let log = seen.log.clone().unwrap();
        assert_eq!((log.used, log.cut, log.late), (3, 1, 1));
        assert_eq!((seen.units, seen.counts[bucket_of(1_000_000)]), (120, 120));
        assert!(seen.sum_ns.abs_diff(120_000_000) < 200_000, "{}", seen.sum_ns);
        assert_eq!(seen.trouble(), None);
        // The same numbers in another unit.
        let mut seen = Seen::new(begun, LogUnit::Us);
        seen.take(&line, after(begun, 100));
        assert_eq!(seen.log.as_ref().unwrap().cut, 1, "operations of a second that began before");
        seen.take(&line, after(begun, 2000));
        assert_eq!(seen.counts[bucket_of(1_000_000_000)], 40);
    }

    #[test]
    fn a_log_that_does_not_fit_into_windows_is_refused() {
        let begun = Instant::now();
        let mut seen = Seen::new(begun, LogUnit::Ns);
        let line = logged(Duration::from_secs(1), 5);
        for trial in 0..10 {
            seen.resumed = after(begun, 2000 * trial);
            seen.take(&line, after(begun, 2000 * trial + 100));
        }
        let trouble = seen.trouble().unwrap();
        assert!(
            trouble.contains("of 10 intervals")
                && trouble.contains("use windows of at least 20 intervals"),
            "{trouble}"
        );
        // A program that keeps its lines until the end.
        let mut seen = Seen::new(begun, LogUnit::Ns);
        (0..11).for_each(|_| seen.take(&line, after(begun, 20_000)));
        let trouble = seen.trouble().unwrap();
        assert!(trouble.contains("10 arrived together with the previous one"), "{trouble}");
    }

    #[test]
    fn a_damaged_line_of_a_log_is_told() {
        let mut seen = Seen::new(Instant::now(), LogUnit::Ns);
        seen.take(&logged(Duration::ZERO, 5), Instant::now());
        assert_eq!(seen.trouble(), None);
        seen.take(b"1.0,1.0,2.0,HISTFAAA", Instant::now());
        let trouble = seen.trouble().unwrap();
        assert!(
            trouble.starts_with(
                "a line of the HDR histogram log that it prints cannot be read, because"
            ),
            "{trouble}"
        );
        assert!(trouble.ends_with("'1.0,1.0,2.0,HISTFAAA'"), "{trouble}");
    }
}
