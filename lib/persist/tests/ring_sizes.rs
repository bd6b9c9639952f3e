//! Sizes at the edges, wrap at every offset, both grains, full and empty.

use std::time::Duration;

use ringfence_persist::ring::layout::ENTRY_HEAD;
use ringfence_persist::ring::{Consumer, Options, Producer, RingError, Role, Tail, inspect};
use ringfence_persist::{Mapped, Methods, Region, Request, Ring};

fn ring(capacity: usize, grain: usize) -> Ring {
    let region = Region::map(&Request::dram(4096 + capacity)).unwrap();
    let options = Options { capacity: Some(capacity), grain };
    Ring::create_with(region, options, Methods::here().unwrap()).unwrap()
}

fn sides(ring: &Ring) -> (Producer<Mapped>, Consumer<Mapped>) {
    (ring.producer().unwrap(), ring.consumer().unwrap())
}

fn payload(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + len) as u8).collect()
}

fn take(consumer: &mut Consumer<Mapped>) -> Option<Vec<u8>> {
    let entry = consumer.try_read().unwrap()?;
    let bytes = entry.to_vec();
    entry.pop_durably().unwrap();
    Some(bytes)
}

#[test]
fn nothing_one_byte_all_and_one_too_many() {
    for (capacity, grain) in
        [(64, 64), (128, 64), (4096, 64), (256, 256), (1024, 256), (64 * 1000, 64)]
    {
        let ring = ring(capacity, grain);
        let (mut producer, mut consumer) = sides(&ring);
        let max = producer.max_payload();
        assert_eq!(max, capacity - ENTRY_HEAD);
        for round in 0..3 {
            for len in [0, 1, max.min(32), max.min(33), max - 1, max] {
                producer.try_push(&payload(round, len)).unwrap();
                assert_eq!(take(&mut consumer), Some(payload(round, len)), "{len} in {capacity}");
            }
        }
        assert!(matches!(
            producer.try_push(&payload(0, max + 1)),
            Err(RingError::TooLong { len, max: most }) if len == max + 1 && most == max
        ));
        assert_eq!(take(&mut consumer), None);
    }
}

#[test]
fn every_length_meets_the_end_at_every_offset() {
    for (lines, grain) in [(1, 64), (2, 64), (7, 64), (3, 256)] {
        let ring = ring(lines * grain, grain);
        let (mut producer, mut consumer) = sides(&ring);
        for len in 0..=producer.max_payload() {
            // One line at a time moves the next entry to the next offset.
            for offset in 0..lines {
                producer.try_push(&payload(offset, len)).unwrap();
                assert_eq!(
                    take(&mut consumer),
                    Some(payload(offset, len)),
                    "{len} of {lines} grains"
                );
                producer.try_push(&[]).unwrap();
                assert_eq!(take(&mut consumer), Some(Vec::new()));
            }
        }
    }
}

#[test]
fn a_full_ring_says_so_and_a_lazy_consumer_makes_room_when_asked() {
    let ring = ring(64 * 8, 64);
    let (mut producer, mut consumer) = sides(&ring);
    for number in 0..8 {
        producer.try_push(&[number]).unwrap();
    }
    assert!(matches!(producer.try_push(&[8]), Err(RingError::Full)));
    assert!(matches!(producer.push_within(&[8], Duration::from_millis(2)), Err(RingError::Full)));
    // One popped lazily is no room yet: less than a quarter was popped.
    consumer.try_read().unwrap().unwrap().pop().unwrap();
    assert!(matches!(producer.try_push(&[8]), Err(RingError::Full)));
    for _ in 1..8 {
        consumer.try_read().unwrap().unwrap().pop().unwrap();
    }
    assert!(consumer.try_read().unwrap().is_none());
    for _ in 0..8 {
        producer.try_push(&[9; 32]).unwrap();
    }
    // Each quarter is given back as soon as it was popped.
    for _ in 0..8 {
        consumer.try_read().unwrap().unwrap().pop().unwrap();
    }
    producer.push_within(&[1], Duration::from_millis(1)).unwrap();
    assert_eq!(take(&mut consumer), Some(vec![1]));
    assert_eq!(take(&mut consumer), None);
    // Popped lazily up to less than a quarter, empty, and an entry that needs everything: not
    // stuck.
    producer.try_push(&[5]).unwrap();
    consumer.try_read().unwrap().unwrap().pop().unwrap();
    let all = payload(0, producer.max_payload());
    assert!(matches!(producer.try_push(&all), Err(RingError::Full)), "one line was popped lazily");
    assert!(consumer.try_read().unwrap().is_none(), "looks, and lends its room");
    producer.try_push(&all).unwrap();
    assert_eq!(take(&mut consumer), Some(all));
}

#[test]
fn an_entry_stays_until_it_is_popped_and_scanning_takes_none() {
    let ring = ring(4096, 64);
    let (mut producer, mut consumer) = sides(&ring);
    for number in 0..5u8 {
        producer.push(&vec![number; usize::from(number) * 30]).unwrap();
    }
    assert_eq!(consumer.read().unwrap().len(), 0);
    assert_eq!(consumer.try_read().unwrap().unwrap().len(), 0, "it was not popped");
    for _ in 0..2 {
        let mut seen = Vec::new();
        consumer
            .scan(|entry| {
                seen.push(entry.len());
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(seen, [0, 30, 60, 90, 120]);
    }
    let mut seen = 0;
    consumer
        .scan(|_| {
            seen += 1;
            if seen == 2 {
                std::ops::ControlFlow::Break(())
            } else {
                std::ops::ControlFlow::Continue(())
            }
        })
        .unwrap();
    assert_eq!(seen, 2);
    consumer.try_read().unwrap().unwrap().pop().unwrap();
    assert_eq!(&consumer.try_read().unwrap().unwrap()[..], [1; 30]);
}

#[test]
fn a_batch_is_visible_at_once_or_never() {
    let ring = ring(64 * 8, 64);
    let (mut producer, mut consumer) = sides(&ring);
    let mut batch = producer.batch().unwrap();
    for number in 0..8 {
        batch.push(&[number]).unwrap();
    }
    assert!(matches!(batch.push(&[8]), Err(RingError::Full)));
    assert!(consumer.try_read().unwrap().is_none());
    batch.commit().unwrap();
    for number in 0..8 {
        assert_eq!(take(&mut consumer), Some(vec![number]));
    }
    let mut abandoned = producer.batch().unwrap();
    abandoned.push(b"one").unwrap();
    abandoned.push(b"two").unwrap();
    drop(abandoned);
    assert!(consumer.try_read().unwrap().is_none());
    producer.batch().unwrap().commit().unwrap();
    // What lies behind the next entry, abandoned or forgotten, stays dead: not even a crash revives
    // it.
    let mut forgotten = producer.batch().unwrap();
    forgotten.push(b"one").unwrap();
    forgotten.push(b"two").unwrap();
    std::mem::forget(forgotten);
    producer.push(b"six").unwrap();
    drop((producer, consumer));
    let (_, found) = inspect(&copy_of(&ring)).unwrap();
    assert_eq!((found.entries, found.tail), (1, Tail::Abandoned));
}

// What a crash now would leave, were everything in memory.
fn copy_of(ring: &Ring) -> Mapped {
    let region = Region::map(&Request::dram(ring.region().len())).unwrap();
    // SAFETY: two regions of the same length, and nothing else uses them now.
    unsafe { std::ptr::copy_nonoverlapping(ring.region().base(), region.base(), region.len()) };
    Mapped::new(region).unwrap()
}

// A lazy consumer makes its cursor durable at once where a producer waits for room, but not later.
#[test]
fn a_producer_that_has_room_again_asks_for_none() {
    wanted_no_more(|_, producer| producer);
}

#[test]
fn a_producer_does_not_go_on_asking_for_the_one_before() {
    wanted_no_more(|ring, producer| {
        drop(producer);
        ring.producer().unwrap()
    });
}

fn wanted_no_more(next: fn(&Ring, Producer<Mapped>) -> Producer<Mapped>) {
    let ring = ring(64 * 8, 64);
    let (mut producer, mut consumer) = sides(&ring);
    (0..8).for_each(|number| producer.try_push(&[number]).unwrap());
    assert!(matches!(producer.try_push(&[8]), Err(RingError::Full)));
    let mut producer = next(&ring, producer);
    while take(&mut consumer).is_some() {}
    producer.try_push(b"popped lazily").unwrap();
    let cursor = || inspect(&copy_of(&ring)).unwrap().1.cursor;
    let before = cursor();
    consumer.try_read().unwrap().unwrap().pop().unwrap();
    assert!(consumer.try_read().unwrap().is_none());
    assert_eq!(cursor(), before, "made durable although nobody waits");
    consumer.commit().unwrap();
    assert_eq!(cursor(), before + 64);
}

#[test]
fn there_is_one_of_each() {
    let ring = ring(4096, 64);
    let producer = ring.producer().unwrap();
    assert!(matches!(ring.producer(), Err(RingError::Taken(Role::Producer))));
    let consumer = ring.consumer().unwrap();
    assert!(matches!(ring.consumer(), Err(RingError::Taken(Role::Consumer))));
    drop(producer);
    drop(consumer);
    sides(&ring);
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    for (capacity, grain) in
        [(0, 64), (63, 64), (100, 64), (64, 256), (4096, 128), (4096, 0), (1 << 40, 64)]
    {
        let region = Region::map(&Request::dram(8192)).unwrap();
        let options = Options { capacity: Some(capacity), grain };
        let error = Ring::create_with(region, options, Methods::here().unwrap()).unwrap_err();
        assert!(matches!(error, RingError::Shape(_)), "{capacity} by {grain}: {error}");
    }
}

#[test]
fn two_threads_pass_everything_on_in_order() {
    let ring = ring(64 * 50, 64);
    let (mut producer, mut consumer) = sides(&ring);
    const COUNT: usize = 20_000;
    let other = std::thread::spawn(move || {
        for number in 0..COUNT {
            producer.push(&payload(number, number * 13 % 300)).unwrap();
        }
        producer
    });
    for number in 0..COUNT {
        let entry = consumer.read().unwrap();
        assert_eq!(&entry[..], payload(number, number * 13 % 300), "entry {number}");
        if number % 3 == 0 { entry.pop_durably().unwrap() } else { entry.pop().unwrap() }
    }
    drop(other.join().unwrap());
    assert!(consumer.try_read().unwrap().is_none());
}
