use std::cell::Cell;

use ringfence_experiment::task::FlushBetween;
use ringfence_experiment::units::Span;
use ringfence_machine::features::Features;
use ringfence_machine::units::Bytes;

use super::*;

#[derive(Default)]
struct Count(Cell<u64>, Cell<u64>);

impl Latencies for Count {
    fn count(&self, ticks: u64) {
        self.0.set(self.0.get() + 1);
        self.1.set(self.1.get() + ticks);
    }
}

fn reader(task: Read) -> Reader {
    Reader::new(&Read { mlock: false, ..task }, 3, &mut Regions::default()).unwrap()
}

#[test]
fn every_read_is_timed_and_a_round_is_all_of_them() {
    for access in [16, 32, 64] {
        let task = Read {
            size: Bytes::kib(8),
            access: Bytes(access),
            interval: Span::ms(0),
            ..Read::default()
        };
        let mut reader = reader(task);
        reader.resumed();
        let counted = Count::default();
        let mut units = 0;
        while units < 8192 / access {
            let before = Clock::host().now();
            let ticks_before = counted.1.get();
            let work = reader.work(3, &counted);
            let took = Clock::host().now() - before;
            units += work.units;
            assert!(work.units > 0 && work.units <= 48);
            assert!(
                work.untimed + (counted.1.get() - ticks_before) <= took,
                "no more than there was"
            );
        }
        assert_eq!(units, 8192 / access, "a call ends with its round");
        assert_eq!(counted.0.get(), units, "one latency for each unit");
    }
}

#[test]
fn a_reader_rests_after_a_round_and_after_a_pause() {
    let task = Read { size: Bytes::kib(4), interval: Span::ms(60_000), ..Read::default() };
    let mut reader = reader(task);
    let interval = (60e9 / Clock::host().ns_per_tick()) as u64;
    let counted = Count::default();
    let mut due = 0;
    for _ in 0..2 {
        let before = Clock::host().now();
        reader.resumed();
        let next = reader.rest_until().unwrap();
        assert!(next >= before + interval && next > due);
        due = next;
    }
    // A part of a round, and the rest of it.
    assert_eq!(reader.work(1, &counted).units, 16);
    assert_eq!(reader.rest_until(), Some(due), "not before the round has ended");
    assert_eq!(reader.work(1000, &counted).units, 112);
    assert!(reader.rest_until().unwrap() > due);
    assert_eq!(self::reader(Read { interval: Span::ms(0), ..Read::default() }).rest_until(), None);
}

#[test]
fn what_happens_between_rounds_leaves_the_reads_alone() {
    let mut lacks = Vec::new();
    for flush in FlushBetween::ALL {
        let task = Read {
            size: Bytes::kib(4),
            interval: Span::ms(0),
            preload: true,
            dirty: true,
            flush,
            ..Read::default()
        };
        if let Some(missing) = task.missing(Some(&Features::detect())) {
            lacks.push(String::from(missing));
            continue;
        }
        let mut reader = reader(task);
        reader.resumed();
        let counted = Count::default();
        for _ in 0..3 {
            assert_eq!(reader.work(100, &counted).units, 128);
        }
        assert_eq!(reader.mapping.bytes()[64].get(), 64, "dirty: stored to");
        assert_eq!(counted.0.get(), 3 * 128);
    }
    if !lacks.is_empty() {
        ringfence_testbed::skip_here("a part of what happens between rounds", &lacks.join(", "));
    }
}
