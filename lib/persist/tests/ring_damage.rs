//! Opening what is not a ring, or a ring that was damaged: a reason, never a panic, a hang, or an
//! access outside.
//!
//! `RINGFENCE_FUZZ_SECONDS` makes it go on for so long, from a seed of its own.

mod support;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ringfence_persist::ring::layout::HEAD;
use ringfence_persist::ring::{
    Consumer, Options, Producer, RingError, Shape, format, inspect, recover,
};
use ringfence_persist::{Mapped, Memory, Methods, Region, Request, Ring, checksum};
use support::Random;

const CASES: u64 = 1_000_000;
const LEN: usize = HEAD + 64 * 12;

fn memory() -> Mapped {
    Mapped::with_methods(Region::map(&Request::dram(LEN)).unwrap(), Methods::of_processor())
}

// A ring as use leaves it: some laps, some entries, some popped.
fn used(memory: &Mapped, random: &mut Random) -> Shape {
    let grain = [64, 64, 256][random.below(3)];
    let capacity = (1 + random.below(12 * 64 / grain)) * grain;
    let shape = Shape::new(capacity, grain, random.next()).unwrap();
    format(memory, &shape).unwrap();
    for _ in 0..random.below(3) {
        recover(memory).unwrap();
        let (mut producer, mut consumer) =
            (Producer::attach(memory).unwrap(), Consumer::attach(memory).unwrap());
        for _ in 0..random.below(20) {
            let len = random.below(capacity.min(150));
            if random.below(3) > 0 {
                _ = producer
                    .try_push(&[random.next() as u8; 768][..len.min(producer.max_payload())]);
            } else if let Some(entry) = consumer.try_read().unwrap() {
                if random.below(2) == 0 {
                    entry.pop().unwrap()
                } else {
                    entry.pop_durably().unwrap()
                }
            }
        }
    }
    shape
}

fn sealed(memory: &Mapped, range: std::ops::Range<usize>, seed: u64, sum_at: usize) {
    let mut bytes = vec![0; range.len()];
    memory.load(range.start, &mut bytes);
    memory.store_u64(sum_at, checksum::of(&bytes, seed));
}

// A number that is likely to hurt.
fn nasty(random: &mut Random) -> u64 {
    let base =
        [0, 1, 64, 4096, u64::from(u32::MAX), 1 << 63, u64::MAX, random.next()][random.below(8)];
    base.wrapping_add(random.below(3) as u64).wrapping_sub(1)
        & if random.below(2) == 0 { !63 } else { u64::MAX }
}

// What disks, strangers and faulty programs do; half of it with checksums that fit, so that it gets
// further.
fn damage(memory: &Mapped, shape: &Shape, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        match random.below(9) {
            0 => {
                let at = random.below(LEN);
                let mut byte = [0];
                memory.load(at, &mut byte);
                memory.store(at, &[byte[0] ^ 1 << random.below(8)]);
            }
            1 => {
                let at = random.below(LEN / 8) * 8;
                memory.store_u64(at, nasty(random));
            }
            2 => {
                let at = random.below(LEN);
                let len = random.below(300).min(LEN - at);
                memory.store(at, &vec![random.next() as u8; len]);
            }
            3 => {
                // A line that belongs elsewhere.
                let mut line = [0; 64];
                memory.load(random.below(LEN / 64) * 64, &mut line);
                memory.store(random.below(LEN / 64) * 64, &line);
            }
            4 => {
                memory.store_u64([8, 16, 24, 32][random.below(4)], nasty(random));
                sealed(memory, 0..56, 0, 56);
            }
            5 => {
                let slot = [256, 512][random.below(2)];
                memory.store_u64(slot + [8, 16, 24][random.below(3)], nasty(random));
                sealed(memory, slot + 8..slot + 32, shape.salt, slot);
            }
            6 => {
                let slot = [768, 1024][random.below(2)];
                memory.store_u64(slot + [8, 16][random.below(2)], nasty(random));
                sealed(memory, slot + 8..slot + 24, !shape.salt, slot);
            }
            7 => memory.store_u64([1280, 1288, 1536][random.below(3)], nasty(random)),
            _ => {
                // An entry that fits, where none was written.
                let offset = HEAD + random.below(shape.capacity / shape.grain) * shape.grain;
                let len = random.below((HEAD + shape.capacity - offset - 31).min(100));
                if random.below(2) == 0 {
                    memory.store_u64(offset + 8, nasty(random));
                }
                memory.store(offset + 24, &(len as u32).to_le_bytes());
                let mut fields =
                    [memory.load_u64(offset + 8), memory.load_u64(offset + 16), len as u64]
                        .into_iter();
                let factors =
                    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11ebu64];
                let seed = factors.iter().fold(shape.salt, |seed, factor| {
                    seed ^ fields.next().unwrap().wrapping_mul(*factor)
                });
                sealed(memory, offset + 32..offset + 32 + len, seed, offset);
            }
        }
    }
}

// Opens a copy as a ring that owns its memory, and lends its bytes: it must find the same.
fn opens_alike(memory: &Mapped) {
    // All of it: a damaged head may tell of more than the cases write to.
    let mut bytes = vec![0; memory.len()];
    memory.load(0, &mut bytes);
    let region = Region::map(&Request::dram(bytes.len())).unwrap();
    // SAFETY: a fresh region of so many bytes, which nothing else knows.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), region.base(), bytes.len()) };
    let borrowed = recover(memory).and_then(|(shape, found)| {
        let mut consumer = Consumer::attach(memory)?;
        Ok((shape, found, contents(&mut consumer)?))
    });
    let owned = Ring::open_in(region).and_then(|ring| {
        let mut consumer = ring.consumer()?;
        let there = contents(&mut consumer)?;
        for wanted in &there {
            let entry = consumer.try_read()?.expect("it was seen");
            assert_eq!(&entry[..], wanted);
            entry.pop_durably()?;
        }
        assert!(consumer.try_read()?.is_none());
        Ok((ring.shape(), ring.recovery().expect("nobody else has it open"), there))
    });
    match (borrowed, owned) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
        (one, other) => panic!("{one:?}, but owned {other:?}"),
    }
}

fn contents<M: Memory>(consumer: &mut Consumer<M>) -> Result<Vec<Vec<u8>>, RingError> {
    let mut there = Vec::new();
    consumer.scan(|entry| {
        there.push(entry.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(there)
}

// Opens, and uses what was opened. Whether it could be.
fn open(memory: &Mapped, random: &mut Random) -> Result<(), RingError> {
    let seen = inspect(memory);
    let (shape, found) = match recover(memory) {
        Ok(found) => found,
        Err(error) => {
            assert!(seen.is_err(), "inspecting found a ring where recovery said: {error}");
            return Err(error);
        }
    };
    assert!(seen.is_ok_and(|seen| seen == (shape, found)));
    assert!(
        found.end - found.cursor <= shape.capacity as u64 && shape.capacity <= memory.len() - HEAD
    );
    let mut consumer = Consumer::attach(memory)?;
    let mut producer = Producer::attach(memory)?;
    for _ in 0..found.entries {
        let entry = consumer.try_read()?.expect("recovery counted it");
        assert!(entry.len() <= shape.max_payload());
        entry.pop_durably()?;
    }
    assert!(consumer.try_read()?.is_none());
    let payload = vec![random.next() as u8; random.below(producer.max_payload() + 1)];
    producer.try_push(&payload)?;
    assert_eq!(&consumer.try_read()?.expect("it was pushed")[..], payload);
    // The other side may be a stranger: indices that cannot be are refused while the ring is open,
    // too.
    memory.store_u64([1280, 1536][random.below(2)], nasty(random));
    _ = producer.try_push(&payload);
    _ = producer.try_push(&payload);
    for _ in 0..5 {
        match consumer.try_read() {
            Ok(Some(entry)) => _ = entry.pop_durably(),
            _ => break,
        }
    }
    Ok(())
}

fn case(memory: &Mapped, random: &mut Random) -> Result<(), RingError> {
    if random.below(10) == 0 {
        // Bytes of any kind, with a head that is right now and then.
        for word in 0..LEN / 8 {
            memory.store_u64(word * 8, if random.below(4) == 0 { nasty(random) } else { 0 });
        }
        if random.below(2) == 0 {
            memory.store(0, b"RINGFNCE\x01\0\0\0");
            sealed(memory, 0..56, 0, 56);
        }
    } else {
        let shape = used(memory, random);
        damage(memory, &shape, random);
    }
    // A mapping of its own for each would take most of the time.
    if random.below(16) == 0 {
        opens_alike(memory);
    }
    open(memory, random)
}

#[test]
fn damage_is_told_and_never_followed() {
    let seconds = std::env::var("RINGFENCE_FUZZ_SECONDS").ok().map(|text| text.parse().unwrap());
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let start = end.map_or(0, |_| u64::from(std::process::id()) << 32);
    let memory = memory();
    let (mut cases, mut opened) = (0u64, 0u64);
    let mut reasons = std::collections::BTreeMap::<String, u64>::new();
    while end.map_or(cases < CASES, |end| Instant::now() < end) {
        let seed = start + cases;
        let run = || case(&memory, &mut Random(seed));
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(())) => opened += 1,
            Ok(Err(error)) => {
                let text = error.to_string();
                // Numbers aside.
                let kind: Vec<&str> = text
                    .split(|c: char| c.is_ascii_digit())
                    .filter(|part| !part.is_empty())
                    .collect();
                *reasons.entry(kind.join("N")).or_default() += 1;
            }
            Err(_) => panic!("case {seed} panicked, see above"),
        }
        cases += 1;
    }
    println!("{cases} cases: {opened} opened, the others were told why not: {reasons:#?}");
    // The damage must be of every kind: some harmless, some found at each step of opening.
    assert!(opened > cases / 20 && opened < cases, "{opened}");
    for part in [
        "RINGFNCE",
        "format",
        "head's checksum",
        "neither slot",
        "goes on beyond",
        "when the ring was last",
        "grain",
    ] {
        assert!(reasons.keys().any(|reason| reason.contains(part)), "no case met '{part}'");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let fresh = || {
        let memory = memory();
        format(&memory, &Shape::new(64 * 12, 64, 5).unwrap()).unwrap();
        recover(&memory).unwrap();
        memory
    };
    let refusal = |change: &dyn Fn(&Mapped)| {
        let memory = fresh();
        change(&memory);
        recover(&memory).unwrap_err().to_string()
    };
    assert!(refusal(&|m| m.store(0, &[0; 64])).contains("interrupted"));
    assert!(refusal(&|m| m.store(0, b"PMEMPOOL")).contains("RINGFNCE"));
    assert!(refusal(&|m| m.store(8, &[2])).contains("format 2"));
    assert!(refusal(&|m| m.store(16, &[1])).contains("checksum"));
    assert!(refusal(&|m| m.store(256, &[0; 512])).contains("neither slot"));
    let cut = refusal(&|m| {
        m.store_u64(16, 64 * 1000);
        sealed(m, 0..56, 0, 56);
    });
    assert!(cut.contains("cut off"), "{cut}");
    let lost = fresh();
    Producer::attach(&lost).unwrap().try_push(b"acknowledged").unwrap();
    recover(&lost).unwrap();
    // Accepted by a recovery that a producer followed: if it is gone then, it was not a crash.
    drop(Producer::attach(&lost).unwrap());
    lost.store(HEAD, &[0; 64]);
    assert!(recover(&lost).unwrap_err().to_string().contains("when the ring was last opened"));
    let region = Region::map(&Request::dram(4096)).unwrap();
    let error = Ring::create_with(region, Options::default(), Methods::of_processor()).unwrap_err();
    assert!(error.to_string().contains("capacity of 0"), "{error}");
    let region = Region::map(&Request::dram(4096)).unwrap();
    assert!(Ring::open_in(region).unwrap_err().to_string().contains("hold no ring"));
}
