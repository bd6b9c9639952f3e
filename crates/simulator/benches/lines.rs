//! How many lines are simulated in a second of a processor, and whether a line takes longer with
//! more threads.
//!
//! `cargo bench -p ringfence-simulator [-- PART]`, with PART of a row's name to measure only such
//! rows. Behind it may stand a number of threads and a number of lines, which are then simulated
//! once: to count instructions, take the difference between two numbers of lines under `valgrind
//! --tool=callgrind`.

use ringfence_persist::Flush;
use ringfence_simulator::hardware::machine::{
    AfterClwb, BlockVictim, Cache, Core, Device, Dram, Inclusion, Issue, Llc, Machine, Node,
    Optane, Replacement, Topology, Uncore, Wear, WriteQueue,
};
use ringfence_simulator::hardware::{HardwareThread, Op, Program, Ps, Setup};

/// Bytes of each thread's memory: far more than any cache has.
const BYTES: u64 = 64 << 20;
/// Lines of a block that is made durable at once.
const BLOCK: u32 = 4;

fn main() {
    // `cargo test --benches` runs this too: there it shall only work.
    let quick = !std::env::args().any(|arg| arg == "--bench");
    let (lines, repeats) = if quick { (10_000, 1) } else { (1_000_000, 5) };
    let mut words = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let part = words.next().unwrap_or_default();
    let mut number = || words.next().map(|word| word.parse::<u64>().expect("a number"));
    let threads = number().map_or(vec![1, 8, 32], |threads| vec![threads as u32]);
    let (lines, repeats) = number().map_or((lines, repeats), |lines| (lines, 1));
    println!(
        "Lines simulated: millions in a second of one core of this machine, and ns a line; medians \
         of {repeats}, and the fastest\n"
    );
    println!(
        "{:41}  {:>7}  {:>9}  {:>7}  {:>7}  {:>14}",
        "each thread", "threads", "million/s", "ns/line", "fastest", "simulated GB/s"
    );
    for (node, kind) in [(1, "Optane"), (0, "DRAM")] {
        for work in Work::ALL {
            if !format!("{} ({kind})", work.name()).contains(&part) {
                continue;
            }
            for threads in &threads {
                measure(work, node, kind, *threads, lines, repeats);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Work {
    Clwb,
    Nt,
    Store,
    Chase,
}

impl Work {
    const ALL: [Work; 4] = [Work::Clwb, Work::Nt, Work::Store, Work::Chase];

    fn name(self) -> &'static str {
        match self {
            Work::Clwb => "stores, clwb, a fence each 256 B",
            Work::Nt => "nt stores, a fence each 256 B",
            Work::Store => "stores",
            Work::Chase => "dependent loads at random",
        }
    }
}

/// Seconds that this thread has had of a processor, by the kernel's books: others may use the
/// machine meanwhile.
fn seconds() -> f64 {
    let books =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel that keeps books");
    let spent = books.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    spent.expect("the first number is the time on a processor, in ns") / 1e9
}

fn measure(work: Work, node: usize, kind: &str, threads: u32, lines: u64, repeats: usize) {
    let once = || {
        let mut setup = Setup::new(&machine(), 1).expect("the description makes sense");
        let all: Vec<_> = (0..threads)
            .map(|core| {
                let region = setup.region(node, BYTES).expect("there is room");
                let writer = Writer { work, region, at: 0, step: 0 };
                let thread = HardwareThread { core, sibling: 0 };
                setup.program(thread, 0, writer).expect("there is such a thread")
            })
            .collect();
        let mut run = setup.start();
        let done = |run: &ringfence_simulator::hardware::Run| {
            all.iter().map(|thread| run.units(*thread)).sum::<u64>()
        };
        // Caches fill first.
        let mut moment = 0;
        while done(&run) < lines / 4 {
            moment += 10_000;
            run.until(Ps::from_ns(moment));
        }
        let (before, from, start) = (done(&run), moment, seconds());
        while done(&run) < before + lines {
            moment += 10_000;
            run.until(Ps::from_ns(moment));
        }
        let time = seconds() - start;
        let simulated = (done(&run) - before) as f64;
        (simulated / time, simulated * 64.0 / (moment - from) as f64)
    };
    let mut rates: Vec<_> = (0..repeats).map(|_| once()).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (rate, bandwidth) = rates[repeats / 2];
    println!(
        "{:41}  {threads:7}  {:9.2}  {:7.1}  {:7.2}  {bandwidth:14.2}",
        format!("{} ({kind})", work.name()),
        rate / 1e6,
        1e9 / rate,
        rates[repeats - 1].0 / 1e6
    );
}

/// Writes or reads its memory, again and again.
struct Writer {
    work: Work,
    region: ringfence_simulator::hardware::Region,
    at: u32,
    step: u32,
}

impl Program for Writer {
    fn next(&mut self, _: Ps) -> Op {
        let step = self.step;
        self.step += 1;
        let line = |offset: u32| self.region.line((self.at + offset) % self.region.lines());
        match self.work {
            Work::Clwb => match step {
                0..BLOCK => Op::Store(line(step)),
                _ if step < 2 * BLOCK => Op::Flush { kind: Flush::Clwb, line: line(step - BLOCK) },
                _ if step == 2 * BLOCK => Op::Sfence,
                _ => self.next_block(),
            },
            Work::Nt => match step {
                0..BLOCK => Op::NtStore { line: line(step), bytes: 64 },
                BLOCK => Op::Sfence,
                _ => self.next_block(),
            },
            Work::Store => match step {
                0..BLOCK => Op::Store(line(step)),
                _ => self.next_block(),
            },
            Work::Chase => {
                if step == 0 {
                    // A full period over any power of two, without neighbours.
                    self.at = (self.at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
                        % self.region.lines();
                    return Op::Load { line: self.region.line(self.at), dependent: true };
                }
                self.step = 0;
                Op::Units(1)
            }
        }
    }
}

impl Writer {
    fn next_block(&mut self) -> Op {
        (self.at, self.step) = ((self.at + BLOCK) % self.region.lines(), 0);
        Op::Units(BLOCK)
    }
}

/// The shape of a socket with 32 cores, one channel of DRAM a controller, and six Optane DIMMs. The
/// times are of the order of published ones; for speed only the shape matters.
fn machine() -> Machine {
    let dram = channels(256, Device::Dram(Dram { latency_ns: 35.0, banks: 1, bank_ns: 0.0 }));
    let optane = Optane {
        write_buffer_blocks: 64,
        write_buffer_ways: 4,
        victim: BlockVictim::Oldest,
        whole_block_ns: 1500.0,
        read_buffer_blocks: 64,
        read_buffer_ways: 4,
        buffer_latency_ns: 95.0,
        media_latency_ns: 220.0,
        media_read_gb_per_s: 6.6,
        media_write_gb_per_s: 2.3,
        partial_block_ns: 40.0,
        translations: 4096,
        translation_miss_ns: 100.0,
        wear: Some(Wear { region_bytes: 65536, writes: 14_000, stall_ns: 50_000.0 }),
    };
    Machine {
        topology: Topology {
            sockets: 1,
            llcs_per_socket: 1,
            cores_per_llc: 32,
            threads_per_core: 2,
        },
        core: Core {
            store_buffer: 56,
            fill_buffers: 12,
            rfo_window: 10,
            load_window: 224,
            issue: Issue {
                load_ns: 0.3,
                store_ns: 0.4,
                nt_store_ns: 0.4,
                flush_ns: 0.4,
                fence_ns: 0.4,
                compute_share: 1.0,
            },
            commit_ns: 0.4,
            fence_ns: 2.0,
            locked_ns: 6.0,
            rfo_past_fences: 1000,
            flush_buffers: None,
            flush_gap_ns: 0.0,
            nt_gap_ns: None,
            store_after_flush_ns: 0.0,
            clflush_ordered: true,
            clwb: AfterClwb::Invalidated,
        },
        l1: Cache { size_kib: 32, ways: 8, latency_ns: 1.6, replacement: Replacement::Lru },
        l2: Cache { size_kib: 1024, ways: 16, latency_ns: 5.6, replacement: Replacement::Lru },
        prefetcher: None,
        llc: Llc {
            size_kib: 25_344,
            ways: 11,
            latency_ns: 20.0,
            replacement: Replacement::Lru,
            inclusion: Inclusion::Victim,
        },
        uncore: Uncore {
            to_memory_ns: 30.0,
            from_memory_ns: 25.0,
            flush_ns: 0.0,
            clwb_ns: None,
            absent_flush_ns: None,
            nt_ns: 0.0,
            remote_ns: 60.0,
            core_to_core_ns: 45.0,
        },
        nodes: vec![dram, channels(4096, Device::Optane(optane))],
    }
}

fn channels(interleave_bytes: u32, device: Device) -> Node {
    Node {
        target: "dram".into(),
        gib: 64,
        socket: 0,
        channels: 6,
        shares_channels_with: None,
        interleave_bytes,
        bus_gb_per_s: 19.2,
        turnaround_ns: 0.0,
        write_queue: WriteQueue { lines: 32, high: 24, writes_per_read: 2 },
        ingress: None,
        device,
    }
}
