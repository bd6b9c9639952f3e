//! Two real processes on one ring, one of them killed at a random moment, again and again: nothing
//! that was acknowledged is lost, nothing comes twice after a durable pop, nothing is torn or from
//! an earlier life.
//!
//! A kill loses no stores, so this tests the protocol, not the flushes. The children are this test
//! program, started again with a role in its environment; what they did they report by a page of
//! shared memory, which outlives them as the ring does.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringfence_persist::ring::{RingError, Role};
use ringfence_persist::{Durability, Region, Ring};

#[path = "support/mod.rs"]
mod support;
use support::Random;

const ROLE: &str = "RINGFENCE_TEST_ROLE";
const FOLDER: &str = "RINGFENCE_TEST_FOLDER";

// A child that is being started holds every file that is open here, with its locks, until it is a
// program of its own: a ring closed by another test meanwhile would still count as open.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() { shm.into() } else { std::env::temp_dir() };
        let folder = base.join(format!("ringfence-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

// Numbers that outlive a child: the last one acknowledged, the last one popped durably.
struct Board(Region);

impl Board {
    fn create(folder: &Path) -> Self {
        Self(Region::create(folder.join("board"), 4096, Durability::Volatile).unwrap())
    }
    fn open(folder: &Path) -> Self {
        Self(Region::open(folder.join("board"), Durability::Volatile).unwrap())
    }
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < 8);
        // SAFETY: inside the region, aligned, and only ever used as atomic numbers.
        unsafe { AtomicU64::from_ptr(self.0.base().cast::<u64>().add(index * 8)) }
    }
    // Begun, and acknowledged.
    fn begun(&self) -> &AtomicU64 {
        self.word(0)
    }
    fn pushed(&self) -> &AtomicU64 {
        self.word(1)
    }
    // Handed to the consumer, and durably popped.
    fn read(&self) -> &AtomicU64 {
        self.word(2)
    }
    fn popped(&self) -> &AtomicU64 {
        self.word(3)
    }
    // Up to here the cursor may have become durable, which a consumer that is killed does not tell.
    fn risked(&self) -> &AtomicU64 {
        self.word(5)
    }
    fn faults(&self) -> &AtomicU64 {
        self.word(4)
    }
}

// Entry `number`: its number, and bytes that follow from it, of many lengths.
fn payload(number: u64) -> Vec<u8> {
    let mut random = Random(number);
    let len = if number.is_multiple_of(17) { random.below(700) } else { random.below(90) };
    number.to_le_bytes().into_iter().chain((0..len).map(|_| random.next() as u8)).collect()
}

fn number_of(entry: &[u8]) -> u64 {
    let number = entry.get(..8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    assert_eq!(entry, payload(number), "torn, or of somewhere else: it says it is {number}");
    number
}

// Not a test of its own: what the children run.
#[test]
fn child() {
    let (Ok(role), Ok(folder)) = (std::env::var(ROLE), std::env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    let board = Board::open(&folder);
    let ring = Ring::open(folder.join("ring"), Durability::Volatile).unwrap();
    let produce = || {
        let mut producer = ring.producer().unwrap();
        // Those begun and not acknowledged may be there or not: numbers are never used twice.
        let mut number = board.begun().load(Ordering::SeqCst);
        loop {
            if number.is_multiple_of(5) {
                let first = number + 1;
                let mut batch = producer.batch().unwrap();
                while number < first + 6 {
                    board.begun().store(number + 1, Ordering::SeqCst);
                    match batch.push(&payload(number + 1)) {
                        Ok(()) => number += 1,
                        Err(RingError::Full) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                if number < first {
                    drop(batch);
                    std::thread::yield_now();
                    continue;
                }
                batch.commit().unwrap();
            } else {
                number += 1;
                board.begun().store(number, Ordering::SeqCst);
                producer.push(&payload(number)).unwrap();
            }
            board.pushed().store(number, Ordering::SeqCst);
        }
    };
    let consume = || {
        let mut consumer = ring.consumer().unwrap();
        let (mut last, mut lazily) = (0, 0);
        loop {
            // Where it would have to wait it may make its cursor durable for the producer's sake.
            if board.pushed().load(Ordering::SeqCst) <= last {
                board.risked().fetch_max(last, Ordering::SeqCst);
            }
            let entry = consumer.read().unwrap();
            let number = number_of(&entry);
            // In order, and none of those that were popped durably before.
            if number <= last || number <= board.popped().load(Ordering::SeqCst) {
                board.faults().store(number, Ordering::SeqCst);
            }
            last = number;
            board.read().store(number, Ordering::SeqCst);
            lazily += ring.shape().size_of(entry.len());
            if number.is_multiple_of(3) {
                board.risked().fetch_max(number, Ordering::SeqCst);
                entry.pop_durably().unwrap();
                lazily = 0;
                board.popped().store(number, Ordering::SeqCst);
            } else {
                if lazily >= ring.shape().capacity / 4 {
                    board.risked().fetch_max(number, Ordering::SeqCst);
                }
                entry.pop().unwrap();
            }
        }
    };
    if role == "producer" { produce() } else { consume() }
}

// A child that does not outlive a test that fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn start(role: &str, folder: &Path) -> Running {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn();
    Running(child.unwrap())
}

fn wait_for(what: &str, child: &mut Running, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(600);
    while !there() {
        if let Some(status) = child.0.try_wait().unwrap() {
            panic!("a child ended by itself ({status}) before {what}");
        }
        assert!(Instant::now() < end, "{what} did not come in ten minutes");
        std::thread::yield_now();
    }
}

fn kill(mut child: Running) {
    child.0.kill().unwrap();
    let status = child.0.wait().unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.signal(), Some(9), "a child ended by itself: {status}");
}

// Numbers that were begun and not acknowledged when their producer was killed: (from, to].
type Gaps = Vec<(u64, u64)>;

// What is in the ring once no process uses it, against what was acknowledged.
fn check(folder: &Path, board: &Board, gaps: &Gaps) {
    let ring = Ring::open(folder.join("ring"), Durability::Volatile).unwrap();
    assert!(ring.recovery().is_some(), "nobody has it open");
    let mut there = Vec::new();
    let mut consumer = ring.consumer().unwrap();
    let scanned = consumer.scan(|entry| {
        there.push(number_of(entry));
        std::ops::ControlFlow::Continue(())
    });
    scanned.unwrap();
    let load = |word: &AtomicU64| word.load(Ordering::SeqCst);
    let (pushed, popped, begun) = (load(board.pushed()), load(board.popped()), load(board.begun()));
    let (read, risked) = (load(board.read()), load(board.risked()));
    assert_eq!(load(board.faults()), 0, "an entry came again, or out of order");
    assert!(there.is_sorted_by(|one, other| one < other), "out of order: {there:?}");
    assert!(
        there.iter().all(|number| *number > popped && *number <= begun),
        "{popped} {begun} {there:?}"
    );
    // Every acknowledged one is there that no cursor may have passed, and each behind the first
    // that is there.
    let acknowledged = |number: &u64| !gaps.iter().any(|(from, to)| from < number && number <= to);
    let mut wanted = (there.first().map_or(risked, |first| risked.min(first - 1)) + 1..=pushed)
        .filter(acknowledged);
    let missing = wanted.find(|number| there.binary_search(number).is_err());
    assert_eq!(
        missing, None,
        "lost, of {there:?} with {read} read, {risked} risked, {pushed} pushed and {gaps:?} not"
    );
}

fn kills(count: u32, seed: u64) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = Folder::new(&format!("kills-{seed}"));
    let folder = &folder.0;
    let board = Board::create(folder);
    drop(Ring::create(folder.join("ring"), 64 * 64, Durability::Volatile).unwrap());
    let mut random = Random(seed);
    let mut gaps = Gaps::new();
    let (mut alone, mut checks) = (0, 0);
    let mut children: [Option<Running>; 2] = [None, None];
    for number in 0..count {
        for (child, role) in children.iter_mut().zip(["producer", "consumer"]) {
            child.get_or_insert_with(|| start(role, folder));
        }
        let victim = random.below(2);
        // At once, so that opening is hit too, or after it has done something.
        if random.below(4) > 0 {
            let word = if victim == 0 { board.begun() } else { board.read() };
            let before = word.load(Ordering::SeqCst);
            let child = children[victim].as_mut().unwrap();
            wait_for("progress", child, || word.load(Ordering::SeqCst) != before);
        }
        std::thread::sleep(Duration::from_micros(random.below(2000) as u64));
        let both = random.below(4) == 0 || number + 1 == count;
        for (index, child) in children.iter_mut().enumerate() {
            if (both || index == victim)
                && let Some(child) = child.take()
            {
                kill(child);
                if index == 0 {
                    gaps.push((
                        board.pushed().load(Ordering::SeqCst),
                        board.begun().load(Ordering::SeqCst),
                    ));
                }
            }
        }
        if both {
            check(folder, &board, &gaps);
            checks += 1;
        } else {
            alone += 1;
        }
    }
    let pushed = board.pushed().load(Ordering::SeqCst);
    println!(
        "{count} kills ({alone} of one side alone), {checks} recoveries, {pushed} entries pushed"
    );
    assert!(
        pushed > u64::from(count) && board.popped().load(Ordering::SeqCst) > 0,
        "too little happened"
    );
}

#[test]
fn five_hundred_kills_lose_nothing_and_repeat_nothing() {
    kills(500, 1);
}

#[test]
fn a_second_producer_consumer_or_ring_is_refused_across_opens() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = Folder::new("second");
    let path = folder.0.join("ring");
    let ring = Ring::create(&path, 4096, Durability::Volatile).unwrap();
    let (mut producer, mut consumer) = (ring.producer().unwrap(), ring.consumer().unwrap());
    producer.push(b"first").unwrap();
    let other = Ring::open(&path, Durability::Volatile).unwrap();
    assert_eq!(other.recovery(), None, "it is open already");
    assert!(matches!(other.producer(), Err(RingError::Taken(Role::Producer))));
    assert!(matches!(other.consumer(), Err(RingError::Taken(Role::Consumer))));
    let region = Region::open(&path, Durability::Volatile).unwrap();
    assert!(matches!(Ring::create_in(region), Err(RingError::InUse)));
    assert!(matches!(Ring::create(&path, 4096, Durability::Volatile), Err(RingError::Region(_))));
    // The other open may take over a role that is given up, and goes on where it was.
    drop(producer);
    let mut producer = other.producer().unwrap();
    producer.push(b"second").unwrap();
    for wanted in [&b"first"[..], b"second"] {
        let entry = consumer.read().unwrap();
        assert_eq!(&entry[..], wanted);
        entry.pop_durably().unwrap();
    }
    drop((producer, consumer, ring, other));
    // A child of the other test may still hold the file for a moment, before it becomes another
    // program: then there is nothing to recover.
    let ring = Ring::open(&path, Durability::Volatile).unwrap();
    assert!(ring.recovery().is_none_or(|found| found.entries == 0));
    assert!(ring.consumer().unwrap().try_read().unwrap().is_none());
}
