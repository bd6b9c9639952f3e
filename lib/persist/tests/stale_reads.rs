//! Two threads at full speed: the ring hands out no entry that is stale or torn. The webinar's
//! optimised ring does, on processors that show it: a release store does not order the non-temporal
//! stores before it.

#[path = "../benches/baselines/mod.rs"]
mod baselines;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baselines::ours::Lazy;
use baselines::payload::{Payload, Seen};
use baselines::{Form, Reader, Writer, reader, writer};
use ringfence_persist::{Flush, Region, Request, Ring};

const ENTRIES: u64 = 300_000;
// Of a lap or so of the smallest ring: what is stale is there to be seen.
const EVERY: u64 = 64;

fn two_cpus() -> bool {
    let found = std::thread::available_parallelism().map_or(1, |count| count.get());
    if found < 2 {
        assert!(
            std::env::var_os("RINGFENCE_REQUIRE_ALL").is_none(),
            "two CPUs are needed, there is {found}"
        );
        // Past the test harness, which keeps what passing tests print.
        _ = writeln!(
            std::io::stderr(),
            "skipped: this needs two CPUs and this process has {found}"
        );
    }
    found >= 2
}

fn map(len: usize) -> Region {
    Region::map(&Request::dram(len)).unwrap()
}

// Every entry goes through; what the reader saw.
fn race(
    mut writer: impl Writer,
    mut reader: impl Reader,
    entries: u64,
    len: usize,
    batch: u64,
) -> Seen {
    let begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let mut seen = Seen::before(0);
            begun.store(true, Ordering::Release);
            while seen.entries < entries {
                if !reader.take(|bytes| seen.look(bytes)) {
                    std::hint::spin_loop();
                }
            }
            seen
        });
        while !begun.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let mut payload = Payload::new(len);
        if batch == 1 {
            (0..entries).for_each(|number| writer.push(payload.numbered(number)));
        } else {
            (0..entries).step_by(batch as usize).for_each(|first| {
                writer.push_all(first..(first + batch).min(entries), &mut payload);
            });
        }
        consumer.join().unwrap()
    })
}

#[test]
fn ours_hands_out_whole_entries_in_order() {
    if !two_cpus() {
        return;
    }
    for (len, batch, capacity) in
        [(64, 1, 64 << 10), (64, 16, 64 << 10), (320, 1, 100 * 1024), (4096, 1, 1 << 20)]
    {
        let ring = Ring::create_in(map(4096 + capacity)).unwrap();
        let lazy = Lazy { consumer: ring.consumer().unwrap(), every: EVERY, popped: 0 };
        let seen = race(ring.producer().unwrap(), lazy, ENTRIES, len, batch);
        assert_eq!(
            (seen.entries, seen.stale, seen.torn),
            (ENTRIES, 0, 0),
            "{len} bytes by {batch}"
        );
    }
}

#[test]
fn the_repaired_sketch_does_too() {
    if !two_cpus() {
        return;
    }
    let seen = sketch(Form::Repaired, 64);
    assert_eq!((seen.entries, seen.stale, seen.torn), (ENTRIES, 0, 0));
}

// Asserts nothing of what it counts: whether it shows depends on the processor and on luck.
#[test]
fn the_published_sketch_is_told_of() {
    if !two_cpus() {
        return;
    }
    for len in [64, 2048] {
        let Seen { entries, stale, torn, .. } = sketch(Form::Published, len);
        assert_eq!(entries, ENTRIES);
        let word = if stale + torn == 0 {
            "does not show here, which proves nothing"
        } else {
            "shows here"
        };
        println!(
            "the sketch as published, {len} bytes: {stale} stale and {torn} torn of {entries}: its \
             fault {word}"
        );
    }
}

fn sketch(form: Form, len: usize) -> Seen {
    let region = Arc::new(map(1 << 20));
    let writer = writer(&region, form, Flush::Clflush, len);
    let reader = reader(&region, form, Flush::Clflush, len, EVERY);
    race(writer, reader, ENTRIES, len, 1)
}

// The checker of the others must see what it is there for.
#[test]
fn stale_and_torn_payloads_are_told_apart_from_whole_ones() {
    for len in [64, 320, 4096] {
        let mut payload = Payload::new(len);
        let old = payload.numbered(6).to_vec();
        let new = payload.numbered(7).to_vec();
        let count = |bytes: &[u8]| {
            let mut seen = Seen::before(7);
            seen.look(bytes);
            (seen.stale, seen.torn)
        };
        assert_eq!(count(&new), (0, 0));
        assert_eq!(count(&old), (1, 0));
        assert_eq!(count(&vec![0; len]), (1, 0), "never written");
        assert_eq!(count(payload.numbered(8)), (0, 1), "from the future");
        for word in (0..len).step_by(8) {
            let mut mixed = new.clone();
            mixed[word..word + 8].copy_from_slice(&old[word..word + 8]);
            if mixed != new {
                assert_eq!(count(&mixed), (0, 1), "word {word} of {len}");
            }
        }
    }
}
