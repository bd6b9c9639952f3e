//! What an entry costs in a ring: ours, the webinar's three, libpmemlog, a bare writer, and a
//! volatile ring as the floor.
//!
//! ```text
//! cargo bench -p ringfence-persist --bench ring [-- --quick] [--rounds N] [--size 1GiB] \
//!     [--target dram|node:N|PATH] [--cpus A,B]
//! ```
//!
//! Producer and consumer are pinned to two CPUs, the consumer reads every byte and checks which
//! entry it is; time runs until it has read the last one. In all persistent rings the consumer's
//! position becomes durable, and its space is given back, once in 256 entries; the mapping
//! (`--size`) is divided among them evenly and prefaulted. The bare writers and libpmemlog have no
//! consumer: they only write.
//!
//! A round maps everything again (where a ring's lines lie changes what it costs by 10 %, the same
//! lines for as long as it lives) and has fifteen passes; in each, every contestant has one window,
//! in a new random order, and the round counts the median of the fifteen. Before and after each
//! window a ping-pong tells how far apart the cores are; windows are classed by it, and a round
//! counts the median of those of a class, if there are three. None is dropped.
//!
//! Exit code 1 if any ring but the published one, which is known to be wrong, hands out an entry
//! that is stale or torn; 2 if it cannot run. Without `--bench`, which `cargo bench` passes, there
//! is one short pass, and nothing is reported but that.

mod baselines;
#[path = "support/contestants.rs"]
mod contestants;
#[path = "support/cores.rs"]
mod cores;
#[path = "support/ring_report.rs"]
mod ring_report;
mod support;

use std::process::ExitCode;

use contestants::Kind;
use cores::Class;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::pin;
use support::options::Options;
use support::rand::Xorshift;

/// Entries between two times that a consumer's position becomes durable.
const CURSOR_EVERY: u64 = 256;
const PASSES: usize = 15;
const ROUNDS: usize = 12;

/// What is pushed.
struct Load {
    name: &'static str,
    /// Bytes, a multiple of 64.
    payload: usize,
    /// Entries that share fences.
    batch: u64,
    /// Entries in a window of about 0.4 ms: short enough to be rarely interrupted on a busy
    /// machine.
    entries: u64,
}

const LOADS: [Load; 4] = [
    Load { name: "64 B, durable each", payload: 64, batch: 1, entries: 1536 },
    Load { name: "64 B, in batches of 16", payload: 64, batch: 16, entries: 12288 },
    Load { name: "4 KiB, durable each", payload: 4096, batch: 1, entries: 512 },
    Load { name: "2 KiB, durable each", payload: 2048, batch: 1, entries: 768 },
];

/// One contestant's figures.
struct Figures {
    kind: Kind,
    /// The windows of each round: ns per entry, and how far apart the cores were.
    rounds: Vec<Vec<(Class, f64)>>,
    entries: u64,
    stale: u64,
    torn: u64,
}

/// One load's.
struct Measured {
    load: &'static Load,
    figures: Vec<Figures>,
    /// Round trips in ns, all of them.
    trips: Vec<f64>,
    absent: Vec<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("ring: {message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, String> {
    let mut options = Options::parse(std::env::args().skip(1))?;
    // Asked of libpmem before it is loaded: to take the mapping for persistent memory, as it is
    // taken for all others here; else every append would be an msync. SAFETY: there is only this
    // thread yet.
    unsafe { std::env::set_var("PMEM_IS_PMEM_FORCE", "1") };
    if !options.measure {
        options.size = options.size.min(256 << 20);
    }
    let cpus = match cores::choose(&options.cpus) {
        Ok(cpus) => cpus,
        Err(reason) if !options.measure => {
            println!("{reason}");
            return Ok(true);
        }
        Err(reason) => return Err(reason),
    };
    let _pinned = pin::Pinned::to(cpus[0]).map_err(|error| error.to_string())?;
    let rounds = match options.measure {
        false => 1,
        true => options.rounds.unwrap_or(if options.quick { 4 } else { ROUNDS }),
    };
    let mut rng = Xorshift(options.seed);
    let mut all = Vec::new();
    for load in &LOADS {
        if options.measure {
            eprintln!("{}: {rounds} rounds", load.name);
        }
        all.push(measure(load, &options, rounds, cpus, &mut rng)?);
    }
    let wrong = ring_report::wrong(&all);
    if options.measure {
        support::publish("ring", &ring_report::report(&all, &options, cpus))?;
    } else {
        println!("every load went through every ring");
    }
    wrong.iter().for_each(|sentence| eprintln!("WRONG: {sentence}"));
    Ok(wrong.is_empty())
}

fn measure(
    load: &'static Load,
    options: &Options,
    rounds: usize,
    cpus: [CpuId; 2],
    rng: &mut Xorshift,
) -> Result<Measured, String> {
    let (mut figures, mut absent): (Vec<Figures>, Vec<String>) = (Vec::new(), Vec::new());
    let mut trips = Vec::new();
    let passes = if options.measure { PASSES } else { 1 };
    for _ in 0..rounds {
        let mut contestants;
        (contestants, absent) = contestants::all(load, options)?;
        if figures.is_empty() {
            figures = contestants.iter().map(|c| Figures::of(c.kind())).collect();
        }
        let mut windows = vec![Vec::with_capacity(passes); contestants.len()];
        let mut before = cores::round_trip(cpus);
        for _ in 0..passes {
            for at in support::order(contestants.len(), rng) {
                let window = contestants[at].window(load, cpus)?;
                let after = cores::round_trip(cpus);
                let class = cores::class(before, after);
                trips.extend(after);
                before = after;
                windows[at].push((class, window.ns / load.entries as f64));
                let figures = &mut figures[at];
                figures.entries += window.seen.entries;
                figures.stale += window.seen.stale;
                figures.torn += window.seen.torn;
            }
        }
        for (figures, windows) in figures.iter_mut().zip(windows) {
            figures.rounds.push(windows);
        }
    }
    Ok(Measured { load, figures, trips, absent })
}

impl Figures {
    fn of(kind: Kind) -> Self {
        Self { kind, rounds: Vec::new(), entries: 0, stale: 0, torn: 0 }
    }
}
