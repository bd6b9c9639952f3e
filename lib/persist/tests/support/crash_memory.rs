//! Memory whose program dies: after so many operations nothing is done any more, and the call
//! unwinds.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ringfence_persist::Memory;

use super::{Crashing, Random};

/// See the module. Non-temporal stores count one operation for each word, so that they are cut
/// anywhere.
pub struct Dying {
    memory: RefCell<Crashing>,
    left: Cell<usize>,
    dead: Cell<bool>,
}

struct Death;

impl Dying {
    /// Zeros, and a program that lives.
    pub fn new(len: usize) -> Self {
        let (left, dead) = (Cell::new(usize::MAX), Cell::new(false));
        Self { memory: RefCell::new(Crashing::new(len)), left, dead }
    }

    /// The program may do so many operations more.
    pub fn dies_after(&self, operations: usize) {
        self.left.set(operations);
    }

    /// Runs a part of the program; `None` if it died in it. Another program can go on then, after
    /// [`Self::crash`] or [`Self::kill`], and lives until it is told otherwise.
    pub fn run<T>(&self, part: impl FnOnce() -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(part)) {
            Ok(done) => {
                assert!(!self.dead.get(), "it went on after its death");
                Some(done)
            }
            Err(death) if death.is::<Death>() => None,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// The machine loses its power.
    pub fn crash(&self, random: &mut Random) {
        self.lives();
        let left = self.memory.borrow().crash(random);
        *self.memory.borrow_mut() = left;
    }

    /// The program alone is gone.
    pub fn kill(&self) {
        self.lives();
        self.memory.borrow().kill();
    }

    fn lives(&self) {
        self.left.set(usize::MAX);
        self.dead.set(false);
    }

    // Runs an operation, unless the program is dead: what it still does while it unwinds has no
    // effect.
    fn operation<T>(&self, run: impl FnOnce(&Crashing) -> T, dead: T) -> T {
        if self.dead.get() {
            return dead;
        }
        if self.left.get() == 0 {
            self.dead.set(true);
            resume_unwind(Box::new(Death));
        }
        self.left.set(self.left.get() - 1);
        run(&self.memory.borrow())
    }
}

impl Memory for Dying {
    fn len(&self) -> usize {
        self.memory.borrow().len()
    }
    fn load(&self, at: usize, into: &mut [u8]) {
        self.operation(|memory| memory.load(at, into), ());
    }
    fn load_u64(&self, at: usize) -> u64 {
        self.operation(|memory| memory.load_u64(at), 0)
    }
    fn store(&self, at: usize, bytes: &[u8]) {
        self.operation(|memory| memory.store(at, bytes), ());
    }
    fn store_u64(&self, at: usize, value: u64) {
        self.operation(|memory| memory.store_u64(at, value), ());
    }
    fn store_nt(&self, at: usize, bytes: &[u8]) {
        for (word, bytes) in bytes.chunks(8).enumerate() {
            self.operation(|memory| memory.store_nt(at + word * 8, bytes), ());
        }
    }
    fn flush(&self, range: Range<usize>) {
        self.operation(|memory| memory.flush(range), ());
    }
    fn sfence(&self) {
        self.operation(Memory::sfence, ());
    }
    fn mfence(&self) {
        self.operation(Memory::mfence, ());
    }
    fn compare_exchange_u64(&self, at: usize, current: u64, new: u64) -> Result<u64, u64> {
        self.operation(|memory| memory.compare_exchange_u64(at, current, new), Err(0))
    }
    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool {
        self.operation(|memory| memory.verify(pieces, seed, sum), false)
    }
}
