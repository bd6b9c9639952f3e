//! Holds the writer against plain C: does a line cost the same in `plain.c`, which is what one
//! writes by hand with intrinsics?
//!
//! ```text
//! cargo bench -p ringfence-workloads --bench against_c [-- --quick] [--cpu N]
//! ```
//!
//! The C file is compiled with `$CC`, or `cc`, at -O2 and loaded as a shared object. Both sides
//! write to one prefaulted mapping of 1 GiB, on one pinned thread, in order and wrapping, each from
//! a place of its own: the C side starts half a mapping ahead, so that neither finds what the other
//! just left in the caches. Windows of 10 ms come in pairs, the order in a pair drawn at random; a
//! trial is one mapping with new physical pages. A ratio is ours over C's, by
//! [`ringfence_analysis::estimate::slowdown`]: above 1 we are slower.
//!
//! Exit code 1 if the interval of some ratio to the C loop with the same registers lies wholly
//! outside 0.95..1.05; 2 if there is no C compiler or no memory. The rows where C copies with
//! `memcpy` are there to be read: `memcpy` may copy in another manner (`rep movsb`, say), so they
//! decide nothing. Without `--bench`, which `cargo bench` passes, only what both sides write is
//! compared, and nothing timed.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringfence_analysis::estimate::{self, Estimate, Pair, Window};
use ringfence_experiment::class::Class;
use ringfence_experiment::task::{Instruction, Parameters, Write};
use ringfence_machine::clock::Clock;
use ringfence_machine::features::Features;
use ringfence_machine::probe::pin;
use ringfence_machine::units::Bytes;
use ringfence_persist::{Flush, Region, Request, Width};
use ringfence_workloads::lines::Scratch;
use ringfence_workloads::write::{Regions, Writer};
use ringfence_workloads::{Latencies, Workload};

const MARGIN: f64 = 0.05;
const LEVEL: f64 = 0.95;
const WINDOW_NS: f64 = 10e6;
/// Both sides are asked for so much work at a time, as a worker of the engine asks for it.
const PORTION_NS: f64 = 20e3;
const BLOCKS: [u64; 3] = [64, 4 << 10, 1 << 20];
const INSTRUCTIONS: [(Instruction, &str); 4] = [
    (Instruction::Flush(Flush::Clflush), "clflush"),
    (Instruction::Flush(Flush::Clflushopt), "clflushopt"),
    (Instruction::Flush(Flush::Clwb), "clwb"),
    (Instruction::Nt, "nt"),
];

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("against_c: {message}");
            ExitCode::from(2)
        }
    }
}

struct Options {
    measure: bool,
    trials: u32,
    pairs: u32,
    cpu: Option<u32>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options { measure: false, trials: 10, pairs: 12, cpu: None };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--bench" => options.measure = true,
                "--quick" => (options.trials, options.pairs) = (4, 5),
                "--cpu" => {
                    let cpu = args.next().and_then(|text| text.parse().ok());
                    options.cpu = Some(cpu.ok_or("--cpu wants a number")?);
                }
                other => return Err(format!("{other} is not known: --quick, --cpu N")),
            }
        }
        Ok(options)
    }
}

/// One line of the table: a way of writing and the C function it is held against.
struct Row {
    instruction: &'static str,
    task: Write,
    copy: String,
    function: PlainLoop,
    decides: bool,
    // Blocks that take about PORTION_NS; found out in the first trial.
    portion: u64,
    pairs: Vec<Pair>,
}

fn run() -> Result<bool, String> {
    let options = Options::parse(std::env::args().skip(1))?;
    let library = Library::open(&compile()?)?;
    let mut rows = rows(&library)?;
    for row in &rows {
        compare_contents(row)?;
    }
    if !options.measure {
        println!("{} ways of writing leave the same bytes behind as plain C", rows.len());
        return Ok(true);
    }
    let allowed = pin::affinity().map_err(|error| format!("affinity: {error}"))?;
    let cpu = options.cpu.or(allowed.last()).ok_or("there is no CPU to run on")?;
    let _pinned = pin::Pinned::to(cpu).map_err(|error| error.to_string())?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for trial in 0..options.trials {
        eprintln!("trial {} of {}", trial + 1, options.trials);
        measure_trial(&mut rows, trial, options.pairs, &mut rng)?;
    }
    println!(
        "CPU {cpu}, {} trials of {} pairs of {} ms, target 1 GiB of DRAM",
        options.trials,
        options.pairs,
        WINDOW_NS / 1e6
    );
    Ok(report(&rows))
}

fn rows(library: &Library) -> Result<Vec<Row>, String> {
    let width = Width::widest().to_string();
    let mut rows = Vec::new();
    for (instruction, name) in INSTRUCTIONS {
        for block in BLOCKS {
            let task = Write {
                instruction,
                block: Bytes(block),
                size: Bytes(1 << 30),
                ..Write::default()
            };
            if let Some(missing) = task.missing(Some(&Features::detect())) {
                eprintln!("{name} not run: {missing}");
                continue;
            }
            let with_memcpy = instruction != Instruction::Nt;
            for copy in
                [Some(width.as_str()), with_memcpy.then_some("memcpy")].into_iter().flatten()
            {
                rows.push(Row {
                    instruction: name,
                    task: task.clone(),
                    copy: copy.into(),
                    function: library.function(&format!("{name}_{copy}"))?,
                    decides: copy != "memcpy",
                    portion: 1,
                    pairs: Vec::new(),
                });
            }
        }
    }
    Ok(rows)
}

/// One mapping, shared by both sides and all rows.
fn measure_trial(
    rows: &mut [Row],
    trial: u32,
    pairs: u32,
    rng: &mut impl Rng,
) -> Result<(), String> {
    let mut regions = Regions::default();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
    }
    for index in order {
        let row = &mut rows[index];
        let mut ours =
            Writer::new(&row.task, 1, &mut regions).map_err(|error| error.to_string())?;
        let mut plain = Plain::new(&row.task, ours.memory().clone(), row.function)?;
        if trial == 0 {
            row.portion = portion(&mut ours);
        }
        let portion = row.portion;
        let mut window_of_ours = || window(|| ours.work(portion, &Ignore).units);
        let mut window_of_plain = || window(|| plain.work(portion));
        // What the row before left in the caches is overwritten first.
        window_of_ours();
        window_of_plain();
        for _ in 0..pairs {
            let (arm, baseline) = if rng.next_u64() >> 63 == 0 {
                let arm = window_of_ours();
                (arm, window_of_plain())
            } else {
                let baseline = window_of_plain();
                (window_of_ours(), baseline)
            };
            row.pairs.push(Pair { trial, class: Class::Unprobed, baseline, arm });
        }
    }
    Ok(())
}

fn window(mut work: impl FnMut() -> u64) -> Window {
    let clock = Clock::host();
    let start = clock.now();
    let mut units = 0;
    loop {
        units += work();
        let ns = clock.ns(clock.now() - start);
        if ns >= WINDOW_NS {
            return Window { units: units as f64, ns };
        }
    }
}

fn portion(writer: &mut Writer) -> u64 {
    let clock = Clock::host();
    let mut blocks = 1;
    loop {
        let start = clock.now();
        writer.work(blocks, &Ignore);
        if clock.ns(clock.now() - start) >= PORTION_NS {
            return blocks;
        }
        blocks *= 2;
    }
}

/// Prints the table; whether no ratio is clearly off.
fn report(rows: &[Row]) -> bool {
    println!(
        "\n{:<11} {:>5}  {:<7} {:>9} {:>9}   {:<26} within 5 %?",
        "", "block", "C copy", "ours", "C", "ours / C"
    );
    println!("{:<11} {:>5}  {:<7} {:>9} {:>9}", "", "", "", "ns/line", "ns/line");
    let mut fine = true;
    for row in rows {
        let windows = |side: fn(&Pair) -> Window| {
            let windows: Vec<_> = row.pairs.iter().map(|pair| (pair.trial, side(pair))).collect();
            figure(&estimate::rate(&windows, LEVEL))
        };
        let ratio = estimate::slowdown(&row.pairs, LEVEL);
        let (text, verdict) = match &ratio {
            Ok(ratio) => {
                let outside = ratio.high < 1.0 - MARGIN || ratio.low > 1.0 + MARGIN;
                fine &= !(outside && row.decides);
                let verdict = match (ratio.within_margin(MARGIN), outside) {
                    (true, _) => "yes",
                    (_, true) if row.decides => "NO",
                    (_, true) => "no (decides nothing)",
                    _ => "undecided",
                };
                (format!("{:.3} [{:.3}, {:.3}]", ratio.value, ratio.low, ratio.high), verdict)
            }
            Err(reason) => (reason.to_string(), "undecided"),
        };
        println!(
            "{:<11} {:>5}  {:<7} {:>9} {:>9}   {text:<26} {verdict}",
            row.instruction,
            row.task.block.to_string(),
            row.copy,
            windows(|pair| pair.arm),
            windows(|pair| pair.baseline),
        );
    }
    fine
}

fn figure(estimate: &Estimate) -> String {
    estimate.map_or_else(|_| "?".into(), |interval| format!("{:.2}", interval.value))
}

/// Both sides write three quarters of a small target; every byte must be the same.
fn compare_contents(row: &Row) -> Result<(), String> {
    let size = 4 * row.task.block.0;
    let task = Write { size: Bytes(size), ..row.task.clone() };
    let written = |memory: &Scratch| -> Vec<u8> {
        ringfence_persist::isa::mfence();
        memory.bytes()[..size as usize].iter().map(|byte| byte.load(Ordering::Relaxed)).collect()
    };
    let mut ours =
        Writer::new(&task, 1, &mut Regions::default()).map_err(|error| error.to_string())?;
    let region = Region::map(&Request::dram(size as usize)).map_err(|error| error.to_string())?;
    let memory = Rc::new(Scratch::new(region));
    let mut plain = Plain::new(&task, memory.clone(), row.function)?;
    plain.walk.next = 0;
    let (a, b) = (ours.work(3, &Ignore).units, plain.work(3));
    if a != b || written(ours.memory()) != written(&memory) {
        return Err(format!(
            "{} at {} does not write what plain C writes",
            row.instruction, task.block
        ));
    }
    Ok(())
}

struct Ignore;
impl Latencies for Ignore {
    fn count(&self, _: u64) {}
}

/// `struct plain` of plain.c.
#[repr(C)]
struct Walk {
    base: *mut u8,
    source: *const u8,
    block: usize,
    size: usize,
    next: usize,
}

type PlainLoop = unsafe extern "C" fn(*mut Walk, usize);

/// The C side of a row.
struct Plain {
    walk: Walk,
    function: PlainLoop,
    // Keeps the source mapped.
    _source: Region,
    // Keeps the target mapped.
    _target: Rc<Scratch>,
}

impl Plain {
    fn new(task: &Write, target: Rc<Scratch>, function: PlainLoop) -> Result<Self, String> {
        let (block, size) = (task.block.0 as usize, task.size.0 as usize);
        assert!(size <= target.region().len() && size.is_multiple_of(2 * block));
        let source = Region::map(&Request::dram(block)).map_err(|error| error.to_string())?;
        for offset in 0..block {
            // SAFETY: inside the source, which has at least a block.
            unsafe { source.base().add(offset).write((offset % 251) as u8 + 1) };
        }
        let walk = Walk {
            base: target.region().base(),
            source: source.base(),
            block,
            size,
            next: size / 2,
        };
        Ok(Self { walk, function, _source: source, _target: target })
    }

    /// Writes blocks; returns the lines written.
    fn work(&mut self, blocks: u64) -> u64 {
        // SAFETY: target and source are mapped, aligned and large enough (see `new`), and rows
        // exist only for instructions that this processor has.
        unsafe { (self.function)(&mut self.walk, blocks as usize) };
        blocks * (self.walk.block / 64) as u64
    }
}

fn compile() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/plain.c");
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plain.so");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(&compiler)
        .args(["-O2", "-fPIC", "-shared", "-o"])
        .args([&object, &source])
        .status()
        .map_err(|error| {
            format!("{compiler} cannot be run: {error}; install a C compiler or set CC")
        })?;
    if status.success() {
        Ok(object)
    } else {
        Err(format!("{compiler} refused {}", source.display()))
    }
}

/// A loaded shared object; it stays loaded.
struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Result<Self, String> {
        let text =
            CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())?;
        let flags: c_int = libc::RTLD_NOW;
        // SAFETY: a terminated path; the object has no initialisers.
        let handle = unsafe { libc::dlopen(text.as_ptr(), flags) };
        if handle.is_null() {
            Err(format!("{} cannot be loaded", path.display()))
        } else {
            Ok(Self(handle))
        }
    }

    fn function(&self, name: &str) -> Result<PlainLoop, String> {
        let text = CString::new(name).map_err(|error| error.to_string())?;
        let name_pointer: *const c_char = text.as_ptr();
        // SAFETY: an open library and a terminated name.
        let address = unsafe { libc::dlsym(self.0, name_pointer) };
        if address.is_null() {
            return Err(format!("plain.c has no {name}"));
        }
        // SAFETY: every exported function of plain.c has this type.
        Ok(unsafe { std::mem::transmute::<*mut c_void, PlainLoop>(address) })
    }
}
