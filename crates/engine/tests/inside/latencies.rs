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
    assert!(trouble.starts_with("of 10 lines that it printed, 10 hold no number"), "{trouble}");
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
    let mut writer = IntervalLogWriterBuilder::new().begin_log_with(&mut line, &mut serializer).unwrap();
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
    // The first holds a pause; two that come at once were not written when their intervals ended.
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
        trouble.contains("of 10 intervals") && trouble.contains("take windows of at least 20 intervals"),
        "{trouble}"
    );
    // A program that keeps its lines until the end.
    let mut seen = Seen::new(begun, LogUnit::Ns);
    (0..11).for_each(|_| seen.take(&line, after(begun, 20_000)));
    let trouble = seen.trouble().unwrap();
    assert!(trouble.contains("10 came together with the one before"), "{trouble}");
}

#[test]
fn a_damaged_line_of_a_log_is_told() {
    let mut seen = Seen::new(Instant::now(), LogUnit::Ns);
    seen.take(&logged(Duration::ZERO, 5), Instant::now());
    assert_eq!(seen.trouble(), None);
    seen.take(b"1.0,1.0,2.0,HISTFAAA", Instant::now());
    let trouble = seen.trouble().unwrap();
    assert!(
        trouble.starts_with("a line of the HDR histogram log that it prints cannot be read, because"),
        "{trouble}"
    );
    assert!(trouble.ends_with("'1.0,1.0,2.0,HISTFAAA'"), "{trouble}");
}
