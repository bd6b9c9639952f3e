use ringfence_experiment::task::Target;
use ringfence_machine::units::Bytes;

use super::*;

struct Ignore;
impl Latencies for Ignore {
    fn count(&self, _: u64) {}
}

const VARIANTS: [RingVariant; 4] =
    [RingVariant::Ringfence, RingVariant::Naive, RingVariant::Optimised, RingVariant::Repaired];
const KINDS: [Kind; 3] = [Kind::Naive, Kind::Optimised, Kind::Repaired];

fn ringer(task: &Ring) -> Ringer {
    Ringer::new(task, &mut Regions::default()).unwrap_or_else(|error| panic!("{task:?}: {error}"))
}

#[test]
fn every_ring_hands_every_entry_over_lap_after_lap() {
    for variant in VARIANTS {
        for target in [Target::Dram, Target::Tmpfs("/dev/shm".into())] {
            for (entry, size) in
                [(1, 1024), (7, 4096), (8, 1100), (64, 1 << 20), (100, 8192), (4096, 100_000)]
            {
                let (entry, size) = (Bytes(entry), Bytes(size));
                let task = Ring { variant, entry, size, target: target.clone(), ..Ring::default() };
                let mut ringer = ringer(&task);
                let laps = 3 * task.size.0 / 64;
                let mut done = 0;
                for amount in [1, 0, 2, 50, laps] {
                    let work = ringer.work(amount, &Ignore);
                    assert_eq!((work.units, ringer.failure()), (amount, None), "{task:?}");
                    done += amount;
                }
                assert_eq!(ringer.read, done, "{task:?}");
                assert_eq!(
                    ringer.pushed - ringer.read,
                    WAITING.min(size.0 / task.slot() / 4),
                    "{task:?}"
                );
                // What waits is there, in order, and then nothing.
                ringer.read(ringer.pushed - ringer.read).unwrap();
                assert!(
                    matches!(ringer.read(1), Err(Fault::Missing(number)) if number == ringer.pushed)
                );
            }
        }
    }
}

#[test]
fn entries_that_are_not_read_are_given_back_all_the_same() {
    for variant in VARIANTS {
        let size = Bytes(1 << 16);
        let task = Ring { variant, entry: Bytes(1000), size, read: false, ..Ring::default() };
        let mut ringer = ringer(&task);
        let laps = 3 * size.0 / task.slot();
        assert_eq!((ringer.work(laps, &Ignore).units, ringer.failure()), (laps, None), "{task:?}");
        let waiting = ringer.pushed - ringer.read;
        assert_eq!((ringer.read, waiting), (laps, size.0 / task.slot() / 4), "{task:?}");
        ringer.read(waiting).unwrap();
        assert!(matches!(ringer.read(1), Err(Fault::Missing(_))), "{task:?}");
    }
}

#[test]
fn batches_are_pushed_and_read_whole() {
    for (batch, size) in [(2, 1 << 20), (16, 1 << 20), (64, 64 * 8 * 128)] {
        let mut ringer = ringer(&Ring { batch, size: Bytes(size), ..Ring::default() });
        let work = ringer.work(3000, &Ignore);
        assert_eq!((work.units, ringer.failure()), (3000 * u64::from(batch), None));
    }
}

#[test]
fn a_ring_in_the_page_cache_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for variant in VARIANTS {
        let target = Target::File(folder.path().into());
        let mut ringer = ringer(&Ring { variant, size: Bytes::kib(16), target, ..Ring::default() });
        assert_eq!((ringer.work(40, &Ignore).units, ringer.failure()), (40, None));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_ring_that_loses_or_changes_an_entry_is_found_out() {
    // A stranger's byte in the payload of entry 1, in each of the slides' rings.
    for kind in KINDS {
        let mut ringer = ringer(&Ring { size: Bytes::kib(4), ..Ring::default() });
        let region = Region::map(&Request::dram(3 * 4096)).unwrap();
        let (producer, consumer) = baselines::create(Bare::new(region, kind), kind, 64, 4096);
        ringer.sides = Sides::Theirs { producer, consumer };
        (ringer.pushed, ringer.read) = (0, 0);
        ringer.push(3).unwrap();
        let Sides::Theirs { consumer, .. } = &mut ringer.sides else { unreachable!() };
        consumer.try_read().unwrap().pop();
        consumer.try_read().unwrap().spoil(63);
        ringer.read = 1;
        assert_eq!(ringer.work(1, &Ignore).units, 0);
        assert_eq!(ringer.failure(), Some("entry 1 is not what was pushed"), "{kind:?}");
    }
    // An entry that another consumer took, and a ring that is never read.
    let mut ours = ringer(&Ring { size: Bytes::kib(8), ..Ring::default() });
    let Sides::Ours { consumer, .. } = &mut ours.sides else { unreachable!() };
    consumer.try_read().unwrap().unwrap().pop().unwrap();
    assert_eq!(ours.work(1, &Ignore).units, 0);
    assert_eq!(ours.failure(), Some("entry 0 is not what was pushed"));
    for variant in VARIANTS {
        let mut ringer = ringer(&Ring { variant, size: Bytes::kib(8), ..Ring::default() });
        let pushed = (0..).take_while(|_| ringer.push(1).is_ok()).count() as u64
            + WAITING.min(8192 / 128 / 4);
        let room = if matches!(variant, RingVariant::Optimised | RingVariant::Repaired) {
            127
        } else {
            64
        };
        assert!((room - 1..=room).contains(&pushed), "{variant:?}: {pushed}");
        ringer.read(pushed).unwrap();
    }
}

#[test]
fn every_byte_counts_in_the_sum() {
    for len in [1, 2, 7, 8, 9, 16, 23, 64, 100] {
        let mut payload = Payload::new(len);
        for number in [0, 1, 255, 256, u64::MAX] {
            let mut entry = payload.of(number).to_vec();
            payload.check(number, &entry).unwrap();
            for at in 0..len {
                entry[at] = entry[at].wrapping_add(1);
                assert!(payload.check(number, &entry).is_err(), "{len} {number} {at}");
                entry[at] = entry[at].wrapping_sub(1);
            }
            assert!(payload.check(number, &entry[..len - 1]).is_err());
            assert!(payload.check(number ^ 1, &entry).is_err());
        }
    }
}

// Two threads, one on each side. What the optimised ring hands over early is not looked at: it may.
#[test]
fn the_slides_rings_hand_numbers_over_between_threads() {
    for kind in [Kind::Naive, Kind::Repaired] {
        let region = Region::map(&Request::dram(1 << 16)).unwrap();
        let (producer, mut consumer) = baselines::create(Bare::new(region, kind), kind, 200, 8192);
        let producer = producer.to_send().expect("it is in order between threads");
        let pushing = std::thread::spawn(move || {
            let mut producer = producer.here();
            let mut payload = Payload::new(200);
            for number in 0..5000 {
                while !producer.try_push(payload.of(number)) {
                    std::thread::yield_now();
                }
            }
        });
        let payload = Payload::new(200);
        for number in 0..5000 {
            let entry = loop {
                if consumer.has_entry() {
                    break consumer.try_read().unwrap();
                }
                std::thread::yield_now();
            };
            payload.check(number, &entry).unwrap_or_else(|fault| panic!("{kind:?}: {fault}"));
            entry.pop();
        }
        pushing.join().unwrap();
    }
    let region = Region::map(&Request::dram(1 << 16)).unwrap();
    let (producer, _consumer) =
        baselines::create(Bare::new(region, Kind::Optimised), Kind::Optimised, 200, 8192);
    assert!(producer.to_send().is_none(), "it hands entries over before they are written");
}

#[test]
fn a_device_holds_one_ring() {
    let mut regions = Regions::default();
    let device = Target::DevDax("/dev/dax0.0".into());
    regions.reserve(&device).unwrap();
    regions.reserve(&Target::DevDax("/dev/dax0.1".into())).unwrap();
    let error = regions.reserve(&device).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("one by one"), "{error}");
    assert!(regions.reserve(&Target::Dram).is_ok() && regions.reserve(&Target::Dram).is_ok());
    let error = regions.reserve(&Target::Tmpfs("/proc".into())).unwrap_err().to_string();
    assert!(error.contains("this is not a tmpfs"), "{error}");
}
