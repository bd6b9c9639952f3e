//! How many states the checker looks at in a second, and how their number grows with the program:
//! as far as recovery looks, beside every content that memory can have.
//!
//! `cargo bench -p ringfence-crashcheck`

#[path = "../tests/support/queue.rs"]
mod queue;
#[path = "../tests/support/ring.rs"]
#[expect(dead_code, reason = "tests do more with it")]
mod ring;

use std::time::{Duration, Instant};

use ringfence_crashcheck::{Check, Machine, Profile, Report, check};
use ringfence_persist::{Memory, checksum};

fn main() {
    // `cargo test --benches` runs this too: there it shall only work.
    let quick = !std::env::args().any(|arg| arg == "--bench");
    println!("A batch of records under one fence, each of 24 bytes with a checksum, and a crash\n");
    println!("         contents   all told apart          as far as recovery looks");
    println!("records  of memory  states       time       states       time");
    for records in if quick { vec![2] } else { vec![1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128] } {
        batch(records);
    }
    println!(
        "\nThe ring of ringfence-persist, 6 lines, with recovery and another life behind each \
         crash\n"
    );
    println!("pushes  crashes  profile                  states   merged       time   states/s");
    for pushes in if quick { vec![2] } else { vec![2, 4, 8, 16, 32] } {
        for crashes in 1..=2 {
            ring(pushes, crashes, Profile::IntelAdr);
        }
    }
    println!();
    for profile in Profile::ALL {
        ring(if quick { 2 } else { 8 }, 2, profile);
    }
    println!("\nA durable queue, with recovery and another operation behind each crash\n");
    println!("operations  crashes  profile                  states       time   states/s");
    for operations in if quick { vec![2] } else { vec![8, 16, 32, 64, 128, 256, 4096] } {
        for crashes in 1..=2 {
            queue(operations, crashes, Profile::IntelAdr);
        }
    }
    for profile in Profile::ALL {
        queue(if quick { 2 } else { 256 }, 2, profile);
    }
    println!(
        "\nWhat a program does a number of times, a crash at each, and a recovery that reads two \
         words: ms\n"
    );
    println!(
        "{:>9}  fenced stores  marks  acknowledged  never flushed  a word at a time  clflush, old \
         AMD",
        "number"
    );
    for count in if quick { vec![10] } else { vec![1_000, 2_000, 4_000, 8_000, 16_000, 100_000] } {
        crashes(count);
    }
}

fn queue(operations: usize, crashes: usize, profile: Profile) {
    let check = Check::new(profile, queue::len(operations)).crashes(crashes);
    let (time, report) =
        fastest(|| check.run(|memory| queue::run(memory, operations), queue::recovery));
    let rate = report.states as f64 / time.as_secs_f64();
    println!(
        "{operations:10}  {crashes:7}  {:<22}  {:8}  {:>10}  {rate:9.0}",
        profile.to_string(),
        report.states,
        milliseconds(time)
    );
}

fn crashes(count: usize) {
    let durable = |memory: &Machine, word: usize| {
        memory.store_u64(8 * word, 1);
        memory.flush(8 * word..8 * word + 8);
        memory.sfence();
    };
    let once = |profile: Profile, strong: bool, program: &dyn Fn(&Machine)| {
        let check = Check::new(profile, 8 * count + 16);
        let check = if strong { check.clflush() } else { check };
        let start = Instant::now();
        let report = check.run(program, |memory| {
            memory.load_u64(0);
            memory.load_u64(8);
            Ok(())
        });
        report.expect_sound();
        start.elapsed()
    };
    let intel = |program: &dyn Fn(&Machine)| once(Profile::IntelAdr, false, program);
    let fenced = |memory: &Machine| (0..count).for_each(|word| durable(memory, word));
    let times = [
        intel(&fenced),
        intel(&|memory| (0..count as u64).for_each(|mark| memory.mark(mark))),
        intel(&|memory| {
            (0..count).for_each(|word| {
                durable(memory, word);
                memory.acknowledge(word as u64);
            });
        }),
        intel(&|memory| {
            (2..count + 2).for_each(|word| {
                memory.store_u64(8 * word, 1);
                memory.mark(1);
            });
        }),
        intel(&|memory| {
            (0..count as u64).for_each(|value| {
                memory.store_u64(16, value);
                memory.flush(16..24);
                memory.sfence();
            });
        }),
        once(Profile::OldAmd, true, &fenced),
    ];
    print!("{count:9}");
    for (time, wide) in times.iter().zip([13, 5, 12, 13, 16, 16]) {
        print!("  {:>wide$.0}", time.as_secs_f64() * 1e3);
    }
    println!();
}

// The fastest of five: nothing makes it faster than it is.
fn fastest(run: impl Fn() -> Report) -> (Duration, Report) {
    let once = || {
        let start = Instant::now();
        let report = run();
        (start.elapsed(), report)
    };
    let (time, report) = (0..5).map(|_| once()).min_by_key(|(time, _)| *time).expect("five");
    report.expect_sound();
    (time, report)
}

fn batch(records: usize) {
    let append = |memory: &Machine| {
        for record in 0..records {
            let mut bytes = [record as u8 + 1; 24];
            let sum = checksum::of(&bytes[8..], 1);
            bytes[..8].copy_from_slice(&sum.to_le_bytes());
            memory.store_nt(record * 24, &bytes);
        }
        memory.sfence();
        memory.acknowledge(1);
    };
    // Whole records up to the first that is not.
    let recover = |memory: &Machine| {
        let whole = |record: &usize| {
            let at = record * 24;
            memory.verify([at + 8..at + 24, 0..0], 1, memory.load_u64(at))
        };
        let found = (0..records).take_while(whole).count();
        if found == records || memory.marks().is_empty() {
            Ok(())
        } else {
            Err(format!("{found} are left"))
        }
    };
    let all = |memory: &Machine| {
        memory.load(0, &mut vec![0; records * 24]);
        recover(memory)
    };
    let (time, lazy) = fastest(|| check(Profile::IntelAdr, 4096, append, recover));
    let eager = (records <= 5).then(|| fastest(|| check(Profile::IntelAdr, 4096, append, all)));
    let (eager_states, eager_time) = match &eager {
        Some((time, report)) => (report.states.to_string(), milliseconds(*time)),
        None => ("not run".into(), String::new()),
    };
    println!(
        "{records:7}  {:>9}  {eager_states:>7}  {eager_time:>12}  {:9}  {:>12}",
        if lazy.images < 1e6 { format!("{}", lazy.images) } else { format!("{:.2e}", lazy.images) },
        lazy.states,
        milliseconds(time)
    );
}

fn ring(pushes: usize, crashes: usize, profile: Profile) {
    let life = ring::Life::of_pushes(pushes);
    let check = life.check(profile).crashes(crashes);
    let (time, report) =
        fastest(|| check.run(|memory| life.run(memory), |memory| life.recovery(memory)));
    let rate = report.states as f64 / time.as_secs_f64();
    println!(
        "{pushes:6}  {crashes:7}  {:<22}  {:7}  {:7}  {:>10}  {rate:9.0}",
        profile.to_string(),
        report.states,
        report.merged,
        milliseconds(time)
    );
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
