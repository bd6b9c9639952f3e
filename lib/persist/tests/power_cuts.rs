//! Power cuts: in a virtual machine a program pushes entries into rings and reports each that was
//! acknowledged; the machine is killed at an arbitrary moment; the next one recovers the rings. On
//! persistent memory no acknowledged entry may be missing, none torn. A ring in a file of the page
//! cache that is never synced, and is otherwise the same, has to lose some, else the cuts would
//! have proved nothing.
//!
//! What it tests is the kernel's path: DAX, `MAP_SYNC`, device DAX, ext4's journal. The emulated
//! NVDIMM is a file of the host that every store of the guest reaches at once, flushed or not, so
//! the order of flushes is not tested here: that is the crash checker's business.
//!
//! `RINGFENCE_CUTS=20` makes more of them; `RINGFENCE_SEED` moves them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_persist::ring::layout::HEAD;
use ringfence_persist::ring::{Consumer, Producer, RingError};
use ringfence_persist::{Domain, Durability, Mapped, Memory, Region, Ring, isa};
use ringfence_testbed::{Program, Testbed, in_guest, or_skip};

const TEST: &str = "no_acknowledged_entry_is_lost_when_the_power_is_cut";
const FILE: &str = "/mnt/dax/ring";
const DEVICE: &str = "/dev/dax2.0";
const CONTROL: &str = "/mnt/plain/ring";

#[test]
fn no_acknowledged_entry_is_lost_when_the_power_is_cut() {
    if in_guest() {
        return guest();
    }
    let Some(testbed) = or_skip(TEST) else { return };
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (cuts, mut seed) = (number("RINGFENCE_CUTS", 2), number("RINGFENCE_SEED", 1));
    let media = Media::new();
    let program = Program::this("power_cuts").unwrap();
    let testbed =
        media.0.iter().fold(testbed.copy(program.path()), |testbed, file| testbed.pmem_file(file));
    let mut rings: BTreeMap<String, Ledger> =
        ["file", "device", "control"].map(|name| (name.to_owned(), Ledger::default())).into();
    let mut losses = 0;
    for cut in 0..=cuts {
        let role = if cut == 0 { "begin" } else { "go on" };
        let acknowledged = 1 + random(&mut seed) % 3000;
        let then = Duration::from_micros(random(&mut seed) % 3000);
        let found =
            one_life(&testbed, role, &mut rings, (cut < cuts).then_some((acknowledged, then)));
        println!(
            "cut {cut}: {found:?}, cut after {acknowledged} acknowledged entries and {then:?}"
        );
        losses += usize::from(found.iter().any(|(name, lost)| name == "control" && *lost > 0));
    }
    println!("{cuts} cuts; the control lost acknowledged entries {losses} times");
    assert!(
        cuts > 0 && losses > 0,
        "this proved nothing: a file in the page cache lost nothing either, in {cuts} cuts"
    );
}

/// One boot: what was lost is checked and returned; then entries are pushed until the power is cut,
/// or none are.
fn one_life(
    testbed: &Testbed,
    role: &str,
    rings: &mut BTreeMap<String, Ledger>,
    cut: Option<(u64, Duration)>,
) -> Vec<(String, u64)> {
    let mounts = match role {
        "begin" => format!(
            "fsdax 0 /mnt/dax && /usr/bin/mke2fs -q -t ext4 -b 4096 /dev/pmem1 && {PLAIN} && \
             devdax 2"
        ),
        _ => format!("fsdax 0 /mnt/dax keep && {PLAIN}"),
    };
    let role = if cut.is_none() { "look" } else { role };
    let mut machine = testbed
        .start(&format!(
            "{mounts} && RINGFENCE_IN_GUEST=1 ROLE='{role}' ./power_cuts {TEST} --exact \
             --nocapture --test-threads=1"
        ))
        .unwrap();
    let (mut said, mut lost, mut acknowledged) = (Vec::new(), Vec::new(), 0);
    while let Some(line) = machine.line() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["@", what, ring, numbers @ ..] = &words[..] {
            let ledger = rings.get_mut(*ring).unwrap();
            let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
            match (*what, &numbers[..]) {
                ("has", [first, last, popping]) => {
                    lost.push(((*ring).to_owned(), ledger.check(ring, *first, *last, *popping)));
                }
                ("pushed", [number]) => {
                    ledger.pushed = *number;
                    acknowledged += 1;
                }
                ("popped", [number]) => ledger.popped = *number,
                _ => panic!("{line}"),
            }
        } else {
            said.push(line);
        }
        if let Some((count, then)) = cut
            && acknowledged == count
        {
            std::thread::sleep(then);
            machine.cut();
            // What was acknowledged and on its way counts as well.
            acknowledged += 1;
        }
    }
    let (code, errors) = machine.wait();
    assert_eq!(code, if cut.is_some() { 143 } else { 0 }, "{}\n{errors}", said.join("\n"));
    assert_eq!(
        lost.len(),
        if role == "begin" { 0 } else { rings.len() },
        "{}\n{errors}",
        said.join("\n")
    );
    lost
}

const PLAIN: &str = "mkdir -p /mnt/plain && mount -t ext4 /dev/pmem1 /mnt/plain";

/// What the guest said of a ring before the power was cut; 0 is nothing.
#[derive(Debug, Default)]
struct Ledger {
    pushed: u64,
    popped: u64,
}

impl Ledger {
    /// Holds it against what was recovered, entries `first..=last` with `popping` the last that was
    /// going to be popped, and gives how many of those that were acknowledged are not there.
    fn check(&mut self, ring: &str, first: u64, last: u64, popping: u64) -> u64 {
        let lost = self.pushed.saturating_sub(last);
        if ring != "control" {
            let found = format!(
                "{ring}: {self:?}, and what is there is {first} to {last}, popping {popping}"
            );
            assert_eq!(lost, 0, "{found}");
            assert!(self.popped < first && first <= popping + 1, "{found}");
        }
        // The next life goes on from here.
        *self = Self { pushed: last, popped: first - 1 };
        lost
    }
}

/// The NVDIMMs: with a file system, with another one, and bare.
struct Media(Vec<PathBuf>);

impl Media {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let file = |number| folder.join(format!("power-cuts-{}-{number}", std::process::id()));
        let files: Vec<PathBuf> = (0..3).map(file).collect();
        for file in &files {
            File::create(file).unwrap().set_len(64 << 20).unwrap();
        }
        Self(files)
    }
}

impl Drop for Media {
    fn drop(&mut self) {
        for file in &self.0 {
            _ = fs::remove_file(file);
        }
    }
}

/// SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn guest() {
    let role = std::env::var("ROLE").unwrap();
    let persistent = Durability::Persistent(Domain::Adr);
    if role == "begin" {
        Ring::create(FILE, 64 * 4000, persistent).unwrap();
        Ring::create(DEVICE, (2 << 20) - HEAD, persistent).unwrap();
        // That there is a ring is synced; what is pushed is not.
        Ring::create(CONTROL, 64 * 4000, Durability::PageCache).unwrap();
    }
    // Each is recovered, as by any program that opens it.
    let opened = [(FILE, persistent), (DEVICE, persistent), (CONTROL, Durability::PageCache)]
        .map(|(path, least)| Ring::open(path, least).unwrap());
    let [file, device, control] = &opened;
    assert_eq!(
        control.region().durability(),
        Durability::PageCache,
        "{}",
        control.region().explain()
    );
    let unsynced =
        || Unsynced(Mapped::new(Region::open(CONTROL, Durability::PageCache).unwrap()).unwrap());
    let mut file = Side::new("file", file.producer().unwrap(), file.consumer().unwrap());
    let mut device = Side::new("device", device.producer().unwrap(), device.consumer().unwrap());
    let mut control = Side::new(
        "control",
        Producer::attach(unsynced()).unwrap(),
        Consumer::attach(unsynced()).unwrap(),
    );
    if role != "begin" {
        file.tell();
        device.tell();
        control.tell();
    }
    if role == "look" {
        return;
    }
    loop {
        file.push();
        device.push();
        control.push();
    }
}

struct Side<M: Memory> {
    name: &'static str,
    // Up to where entries are going to be popped, synced before: a line on its way to the host may
    // be lost.
    popping: File,
    producer: Producer<M>,
    consumer: Consumer<M>,
    next: u64,
    oldest: u64,
}

impl<M: Memory> Side<M> {
    /// Looks at every entry: numbers without a gap, each with the bytes that belong to its number.
    fn new(name: &'static str, producer: Producer<M>, mut consumer: Consumer<M>) -> Self {
        let mut numbers: Option<Range<u64>> = None;
        let look = |entry: &[u8]| {
            let number = u64::from_le_bytes(entry[..8].try_into().unwrap());
            assert_eq!(entry, payload(number), "{name}: entry {number} is not what was pushed");
            let before = numbers.get_or_insert(number..number);
            assert_eq!(before.end, number, "{name}: {before:?} and then {number}");
            before.end += 1;
            ControlFlow::Continue(())
        };
        consumer.scan(look).unwrap();
        let numbers = numbers.unwrap_or(1..1);
        let popping = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(format!("/mnt/dax/{name}-popping"));
        Self {
            name,
            popping: popping.unwrap(),
            producer,
            consumer,
            next: numbers.end,
            oldest: numbers.start,
        }
    }

    fn tell(&self) {
        let mut popping = [0; 8];
        if self.popping.metadata().unwrap().len() > 0 {
            self.popping.read_exact_at(&mut popping, 0).unwrap();
        }
        say(&format!(
            "@ has {} {} {} {}",
            self.name,
            self.oldest,
            self.next - 1,
            u64::from_le_bytes(popping)
        ));
    }

    fn push(&mut self) {
        match self.producer.try_push(&payload(self.next)) {
            Ok(()) => {}
            Err(RingError::Full) => return self.pop(),
            Err(error) => panic!("{}: {error}", self.name),
        }
        say(&format!("@ pushed {} {}", self.name, self.next));
        self.next += 1;
    }

    /// Half of it.
    fn pop(&mut self) {
        let until = self.oldest + (self.next - self.oldest) / 2;
        self.popping.write_all_at(&(until - 1).to_le_bytes(), 0).unwrap();
        self.popping.sync_all().unwrap();
        while self.oldest < until {
            self.consumer.try_read().unwrap().unwrap().pop().unwrap();
            self.oldest += 1;
        }
        self.consumer.commit().unwrap();
        say(&format!("@ popped {} {}", self.name, until - 1));
    }
}

/// Of 8 to 800 bytes, which its number alone decides.
fn payload(number: u64) -> Vec<u8> {
    let mut state = number;
    let len = random(&mut state) % 100;
    number
        .to_le_bytes()
        .into_iter()
        .chain((0..len).flat_map(|_| random(&mut state).to_le_bytes()))
        .collect()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

/// Memory in the page cache that takes a fence for enough, as a program does that was made for
/// persistent memory and put on a plain file.
struct Unsynced(Mapped);

impl Memory for Unsynced {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn load(&self, at: usize, into: &mut [u8]) {
        self.0.load(at, into);
    }
    fn load_u64(&self, at: usize) -> u64 {
        self.0.load_u64(at)
    }
    fn store(&self, at: usize, bytes: &[u8]) {
        self.0.store(at, bytes);
    }
    fn store_u64(&self, at: usize, value: u64) {
        self.0.store_u64(at, value);
    }
    fn store_nt(&self, at: usize, bytes: &[u8]) {
        self.0.store(at, bytes);
    }
    fn flush(&self, _range: Range<usize>) {}
    fn sfence(&self) {
        isa::sfence();
    }
    fn mfence(&self) {
        isa::mfence();
    }
    fn compare_exchange_u64(&self, at: usize, current: u64, new: u64) -> Result<u64, u64> {
        // Nothing was flushed, so that nothing is written back here.
        self.0.compare_exchange_u64(at, current, new)
    }
    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool {
        self.0.verify(pieces, seed, sum)
    }
}
