//! What a durable copy costs: the bare primitives, the library by a policy measured here, and
//! libpmem.
//!
//! ```text
//! cargo bench -p ringfence-persist --bench copy [-- --quick] [--rounds N] [--size 1GiB] \
//!     [--target dram|node:N|PATH]
//! ```
//!
//! One pinned thread copies from one source to a prefaulted mapping, each copy durable on return.
//! Sequential copies continue where the last window ended, whichever method that belonged to, so
//! that no method finds what was just written; random ones go to multiples of their size drawn at
//! random. A round has five passes; in each, every method of copying has one window, in a random
//! order, and the round counts the median of the five. Time is that of the thread on its CPU,
//! so that what else runs on the machine is not counted as a copy.
//!
//! Each flush instruction comes in two forms: bare, and with its lines asked for (`prefetchw`)
//! before they are stored to, as the library does for short stores. The best primitive is the best
//! of all; that of the bare ones is judged beside it.
//!
//! A first phase measures the primitives alone, and its rounds make the policy that the library is
//! given, in the fields that a policy file has: one instruction, one threshold. The second phase
//! measures everything beside each other, and only its rounds are reported. The best primitive is
//! the one with the least median *in the reported rounds*, which is to the library's disadvantage:
//! a minimum of several is on the low side.
//!
//! Without `--bench`, which `cargo bench` passes, it is checked that all methods leave the same
//! bytes behind, and nothing is timed.

#[path = "support/copy_report.rs"]
mod copy_report;
#[path = "baselines/primitives.rs"]
mod primitives;
mod support;

use std::ffi::c_void;
use std::process::ExitCode;

use ringfence_machine::probe::pin;
use ringfence_persist::policy::{Fingerprint, Policy, Prices};
use ringfence_persist::{Flush, Mapped, Methods, Region, Stores, Width, isa};
use support::foreign::Library;
use support::options::Options;
use support::rand::Xorshift;
use support::stats::median;

const SIZES: [usize; 10] = [8, 64, 128, 256, 512, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 2 << 20];
const WINDOW_NS: f64 = 1e6;
const PASSES: usize = 5;
const ROUNDS: usize = 40;
const POLICY_ROUNDS: usize = 10;
const PMEM: &str = "libpmem.so.1";
const ABSENT: &str = "not run, because libpmem.so.1 is not there: apt install libpmem-dev";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("copy: {message}");
            ExitCode::from(2)
        }
    }
}

/// A method of making a copy durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Flush(Flush),
    /// The same, but each line is asked for (`prefetchw`) before it is stored to.
    Asked(Flush),
    NonTemporal,
    Library,
    Pmem,
    PmemNonTemporal,
}

impl Method {
    fn name(self) -> String {
        match self {
            Method::Flush(flush) => flush.to_string(),
            Method::Asked(flush) => format!("asked {flush}"),
            Method::NonTemporal => "nt".into(),
            Method::Library => "Stores::copy".into(),
            Method::Pmem => "libpmem".into(),
            Method::PmemNonTemporal => "libpmem nt".into(),
        }
    }

    fn is_bare(self) -> bool {
        matches!(self, Method::Flush(_) | Method::NonTemporal)
    }

    fn is_primitive(self) -> bool {
        matches!(self, Method::Flush(_) | Method::Asked(_) | Method::NonTemporal)
    }
}

// libpmem.h of PMDK 1.12.
type PersistCopy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
type FlagCopy = unsafe extern "C" fn(*mut c_void, *const c_void, usize, u32) -> *mut c_void;
const PMEM_F_MEM_NONTEMPORAL: u32 = 1 << 1;

#[derive(Clone, Copy)]
struct Pmem {
    persist_copy: PersistCopy,
    flag_copy: FlagCopy,
}

impl Pmem {
    fn load() -> Option<Self> {
        let library = Library::open(PMEM)?;
        // SAFETY: the types are those of libpmem.h.
        unsafe {
            Some(Self {
                persist_copy: library.function("pmem_memcpy_persist")?,
                flag_copy: library.function("pmem_memcpy")?,
            })
        }
    }
}

/// Where copies go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Sequential,
    Random,
}

/// One size and pattern.
struct Cell {
    size: usize,
    pattern: Pattern,
    /// In a window by each method.
    copies: Vec<usize>,
    /// What each method took in each round, in ns per copy.
    ns: Vec<Vec<f64>>,
}

/// What is copied to, and from.
struct Bench {
    base: *mut u8,
    len: usize,
    source: Region,
    width: Width,
    pmem: Option<Pmem>,
    // Where the next sequential window begins.
    next: usize,
    rng: Xorshift,
}

fn run() -> Result<(), String> {
    let mut options = Options::parse(std::env::args().skip(1))?;
    if !options.measure {
        options.size = 8 << 20;
    }
    if !options.size.is_multiple_of(SIZES[9]) || options.size < 2 * SIZES[9] {
        return Err("--size must be a multiple of 2 MiB, from 4 MiB on".into());
    }
    let cpu = match options.cpus.first() {
        Some(cpu) => *cpu,
        None => {
            pin::affinity().ok().and_then(|cpus| cpus.last()).ok_or("there is no CPU to run on")?
        }
    };
    let _pinned = pin::Pinned::to(cpu).map_err(|error| error.to_string())?;
    let map = |len| Region::map(&options.request(len)?).map_err(|error| error.to_string());
    let region = map(options.size)?;
    let source =
        Region::map(&ringfence_persist::Request::dram(SIZES[9])).map_err(|e| e.to_string())?;
    for at in 0..SIZES[9] {
        // SAFETY: inside the source.
        unsafe { source.base().add(at).write((at % 251) as u8 + 1) };
    }
    let mut bench = Bench {
        base: region.base(),
        len: options.size,
        source,
        width: Width::widest(),
        pmem: Pmem::load(),
        next: 0,
        rng: Xorshift(options.seed),
    };
    let flushes = [Flush::Clflush, Flush::Clflushopt, Flush::Clwb];
    let flushes = flushes.into_iter().filter(|flush| isa::supports(*flush));
    let mut methods: Vec<Method> =
        flushes.flat_map(|flush| [Method::Flush(flush), Method::Asked(flush)]).collect();
    methods.push(Method::NonTemporal);

    let mut cells = cells(methods.len());
    let policy = if options.measure {
        bench.calibrate(&mut cells, &methods, None);
        eprintln!("measuring the primitives for a policy");
        let rounds = if options.quick { 4 } else { POLICY_ROUNDS };
        bench.measure(&mut cells, &methods, rounds, None);
        choose(&cells, &methods, &options.target)
    } else {
        policy(Flush::Clflush, Some(4096), &options.target)
    };
    // The policy goes the way of a user's: through its text.
    let policy = Policy::parse(&policy.to_string()).map_err(|error| error.to_string())?;
    let library = Methods::of_policy(&policy).map_err(|error| error.to_string())?;
    let mut stores = Stores::new(Mapped::with_methods(region, library));

    methods.push(Method::Library);
    if bench.pmem.is_some() {
        methods.extend([Method::Pmem, Method::PmemNonTemporal]);
    }
    for method in &methods {
        bench.check(*method, &mut stores)?;
    }
    if !options.measure {
        println!("{} methods of copying leave the same bytes behind", methods.len());
        return Ok(());
    }
    for cell in &mut cells {
        cell.ns = vec![Vec::new(); methods.len()];
    }
    bench.calibrate(&mut cells, &methods, Some(&mut stores));
    let rounds = options.rounds.unwrap_or(if options.quick { 10 } else { ROUNDS });
    eprintln!("measuring {} methods side by side, {rounds} rounds", methods.len());
    bench.measure(&mut cells, &methods, rounds, Some(&mut stores));
    support::publish("copy", &copy_report::report(&cells, &methods, &policy, &options, cpu))
}

fn cells(methods: usize) -> Vec<Cell> {
    let patterns = [Pattern::Sequential, Pattern::Random];
    let pairs = patterns.into_iter().flat_map(|pattern| SIZES.map(|size| (pattern, size)));
    pairs
        .map(|(pattern, size)| Cell {
            size,
            pattern,
            copies: Vec::new(),
            ns: vec![Vec::new(); methods],
        })
        .collect()
}

impl Bench {
    /// Finds out how many copies by each method take about a window, where that is not known.
    fn calibrate(
        &mut self,
        cells: &mut [Cell],
        methods: &[Method],
        mut stores: Option<&mut Stores<Mapped>>,
    ) {
        for cell in cells {
            for method in &methods[cell.copies.len()..] {
                let mut copies = 1;
                let known = loop {
                    let ns =
                        self.window(*method, cell, copies, stores.as_deref_mut()) * copies as f64;
                    if ns >= WINDOW_NS / 2.0 {
                        break ((copies as f64 * WINDOW_NS / ns) as usize).max(1);
                    }
                    copies *= 2;
                };
                cell.copies.push(known);
            }
        }
    }

    fn measure(
        &mut self,
        cells: &mut [Cell],
        methods: &[Method],
        rounds: usize,
        mut stores: Option<&mut Stores<Mapped>>,
    ) {
        for _ in 0..rounds {
            for cell in support::order(cells.len(), &mut self.rng) {
                let mut windows = vec![Vec::with_capacity(PASSES); methods.len()];
                for _ in 0..PASSES {
                    for method in support::order(methods.len(), &mut self.rng) {
                        windows[method].push(self.window(
                            methods[method],
                            &cells[cell],
                            cells[cell].copies[method],
                            stores.as_deref_mut(),
                        ));
                    }
                }
                for (ns, windows) in cells[cell].ns.iter_mut().zip(&windows) {
                    ns.push(median(windows));
                }
            }
        }
    }

    /// Copies for one window; ns per copy.
    fn window(
        &mut self,
        method: Method,
        cell: &Cell,
        copies: usize,
        stores: Option<&mut Stores<Mapped>>,
    ) -> f64 {
        let (base, from, width, size) =
            (self.base, self.source.base().cast_const(), self.width, cell.size);
        let start = cpu_ns();
        // SAFETY (of all below): every offset leaves `size` bytes in the mapping, and is aligned to
        // the lesser of `size` and 64; the instructions and the width exist; libpmem's copies need
        // nothing else.
        match method {
            Method::Flush(flush) => self.each(cell, copies, |at| {
                // SAFETY: see above.
                unsafe {
                    primitives::copy(base.add(at), from, size, width);
                    primitives::flush(base.add(at), size, flush);
                }
                isa::sfence();
            }),
            Method::Asked(flush) => self.each(cell, copies, |at| {
                // SAFETY: see above.
                unsafe {
                    for line in (0..size).step_by(ringfence_persist::LINE) {
                        isa::prefetchw(base.add(at + line));
                    }
                    primitives::copy(base.add(at), from, size, width);
                    primitives::flush(base.add(at), size, flush);
                }
                isa::sfence();
            }),
            Method::NonTemporal => self.each(cell, copies, |at| {
                // SAFETY: see above.
                unsafe { primitives::stream(base.add(at), from, size, width) };
                isa::sfence();
            }),
            Method::Library => {
                let stores = stores.expect("the library is measured after its policy");
                // SAFETY: nothing writes to the source any more.
                let bytes = unsafe { std::slice::from_raw_parts(from, size) };
                self.each(cell, copies, |at| {
                    _ = stores.copy(at, bytes).expect("memory does not fail")
                });
            }
            Method::Pmem => {
                let copy = self.pmem.expect("it was loaded").persist_copy;
                // SAFETY: see above.
                self.each(cell, copies, |at| unsafe {
                    _ = copy(base.add(at).cast(), from.cast(), size)
                });
            }
            Method::PmemNonTemporal => {
                let copy = self.pmem.expect("it was loaded").flag_copy;
                let flags = PMEM_F_MEM_NONTEMPORAL;
                // SAFETY: see above.
                self.each(cell, copies, |at| unsafe {
                    _ = copy(base.add(at).cast(), from.cast(), size, flags)
                });
            }
        }
        if method.is_primitive() {
            primitives::end_of(width);
        }
        (cpu_ns() - start) / copies as f64
    }

    #[inline(always)]
    fn each(&mut self, cell: &Cell, copies: usize, mut copy: impl FnMut(usize)) {
        let (len, size) = (self.len, cell.size);
        match cell.pattern {
            Pattern::Sequential => {
                let mut at = self.next.next_multiple_of(size);
                for _ in 0..copies {
                    if at + size > len {
                        at = 0;
                    }
                    copy(at);
                    at += size;
                }
                self.next = at;
            }
            Pattern::Random => {
                let places = len / size;
                let mut rng = self.rng.clone();
                for _ in 0..copies {
                    copy(rng.below(places) * size);
                }
                self.rng = rng;
            }
        }
    }

    /// Whether a method writes all of the source, and nothing beside it.
    fn check(&mut self, method: Method, stores: &mut Stores<Mapped>) -> Result<(), String> {
        for size in SIZES {
            let area = 2 * SIZES[9];
            // SAFETY: inside the mapping, which is written by this thread alone.
            unsafe { self.base.write_bytes(0, area) };
            let cell = Cell { size, pattern: Pattern::Sequential, copies: vec![1], ns: Vec::new() };
            self.next = size;
            self.window(method, &cell, 1, Some(stores));
            isa::mfence();
            // SAFETY: as above; the fence is passed.
            let (found, wanted) = unsafe {
                let found = std::slice::from_raw_parts(self.base.cast_const(), area);
                (found, std::slice::from_raw_parts(self.source.base().cast_const(), size))
            };
            let beside = found[..size].iter().chain(&found[2 * size..]).any(|byte| *byte != 0);
            if found[size..2 * size] != *wanted || beside {
                return Err(format!("{} does not copy {size} bytes as it should", method.name()));
            }
        }
        Ok(())
    }
}

/// Nanoseconds that this thread has run.
fn cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in the struct; the clock exists since Linux 2.6.12.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn policy(instruction: Flush, nt_threshold: Option<u64>, target: &str) -> Policy {
    Policy {
        processor: Fingerprint::here(),
        target: target.into(),
        instruction,
        nt_threshold,
        batch: 1,
        pace: None,
        prices: Prices::default(),
        file: None,
    }
}

/// The instruction and threshold with which the worst cell is least above its best primitive; of
/// equals, the one with the least product of costs.
fn choose(cells: &[Cell], methods: &[Method], target: &str) -> Policy {
    let cost = |cell: &Cell, method: Method| {
        let at =
            methods.iter().position(|other| *other == method).expect("all primitives are measured");
        median(&cell.ns[at])
    };
    let thresholds = SIZES.iter().copied().chain([usize::MAX]);
    let mut best: Option<(f64, Policy)> = None;
    for threshold in thresholds {
        for method in methods.iter().copied() {
            // The form that the library has.
            let Method::Asked(instruction) = method else { continue };
            let over = cells.iter().map(|cell| {
                let taken =
                    cost(cell, if cell.size < threshold { method } else { Method::NonTemporal });
                let least =
                    methods.iter().map(|method| cost(cell, *method)).fold(f64::INFINITY, f64::min);
                (taken / least).ln()
            });
            let over: Vec<f64> = over.collect();
            // The mean settles what the maximum leaves open.
            let loss = over.iter().copied().fold(0.0, f64::max) + 1e-3 * over.iter().sum::<f64>();
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                let threshold = (threshold != usize::MAX).then_some(threshold as u64);
                best = Some((loss, policy(instruction, threshold, target)));
            }
        }
    }
    best.expect("clflush is on every x86-64 processor").1
}
