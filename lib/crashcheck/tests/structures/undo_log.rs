//! Transactions by an undo log, after the description of libpmemobj (Scargall, "Programming
//! Persistent Memory", 2020, chapter 16; manual pages libpmemobj(7) and pmemobj_tx_add_range(3)).
//!
//! A range is *added* to the transaction before it is modified: what is there goes to the log, and
//! is durable before `add` returns. Commit makes all that was modified durable, and then clears the
//! log; abort, and recovery after a crash, store what the log has, the newest first, make that
//! durable, and clear the log then. So recovery can be repeated. Transactions nest by being one: if
//! an inner one fails, the outermost is aborted. What is allocated in a transaction is free again
//! if it fails.
//!
//! The log is cleared by counting its generation up: entries carry the generation that they were
//! made in, and a checksum over all of them, so that neither a torn nor an old entry counts.
//!
//! In memory, in bytes: a line of magic and generation, a line with the heap's end and its root,
//! the log, the heap. An entry is a checksum, a word of the generation and (low 16 bits) the
//! length, the offset, and the bytes, padded to lines.

use std::ops::Range;

use ringfence_persist::{Memory, checksum};

const MAGIC: u64 = 0x554e_444f_5f4c_4f47;
const AT_MAGIC: usize = 0;
const AT_GENERATION: usize = 8;
const AT_COUNT: usize = 16;
const AT_HEAP_END: usize = 64;
const AT_ROOT: usize = 72;
const LOG: Range<usize> = 128..128 + 512;
const HEAP: usize = LOG.end;
const LINE: usize = 64;
const HEAD: usize = 24;
const SEED: u64 = 0x1065;

/// What can be done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A range is modified before its entry in the log is durable.
    ModifyEarly,
    /// Entries are counted in a word, before they are written, and have no checksum to tell.
    CountFirst,
    /// Commit clears the log before what was modified is durable.
    CommitClearsEarly,
    /// Commit does not wait until the log is cleared.
    CommitNotFenced,
    /// Commit flushes the first line of a range and no more (a wrong range, one of the classes of
    /// PMTest, Liu et al., ASPLOS 2019).
    FirstLineOnly,
    /// Abort clears the log before what it restored is durable.
    AbortClearsEarly,
    /// So does recovery, which takes a second crash to be seen.
    RecoveryClearsEarly,
    /// Of the entries only the first must be of the log's generation: those of earlier transactions
    /// count behind it.
    OldEntries,
    /// Recovery restores the oldest first, which is wrong for ranges that overlap.
    OldestFirst,
    /// What is allocated is not made durable by commit.
    NewNotFlushed,
    /// The application modifies a range that it did not add (XFDetector, Liu et al., ASPLOS 2020;
    /// PMTest).
    NotAdded,
}

/// The transaction was aborted, and all is as before.
#[derive(Debug, PartialEq, Eq)]
pub enum Abort {
    /// The log cannot take the range.
    LogFull,
    /// The heap is used up.
    HeapFull,
    /// The application wants it so.
    Refused,
}

/// Memory with a log and a heap.
pub struct Pool<M> {
    memory: M,
    bug: Option<Bug>,
    depth: usize,
    // An inner transaction failed.
    doomed: bool,
    // Where the next entry goes, those that there are, and what commit flushes.
    cursor: usize,
    entries: Vec<usize>,
    ranges: Vec<Range<usize>>,
}

impl<M: Memory> Pool<M> {
    /// Makes an empty pool, durable on return. The memory must be zero.
    pub fn create(memory: M, bug: Option<Bug>) -> Self {
        let pool = Self::over(memory, bug);
        pool.memory.store_u64(AT_HEAP_END, HEAP as u64);
        pool.persist(AT_HEAP_END..AT_HEAP_END + 8);
        pool.memory.store_u64(AT_GENERATION, 1);
        pool.memory.store_u64(AT_MAGIC, MAGIC);
        pool.persist(0..LINE);
        pool
    }

    /// Finds a pool, and takes back what a transaction had done when the machine stopped: `None` if
    /// there is none.
    pub fn open(memory: M, bug: Option<Bug>) -> Option<Self> {
        if memory.load_u64(AT_MAGIC) != MAGIC {
            return None;
        }
        let pool = Self::over(memory, bug);
        let mut entries = pool.log();
        if bug == Some(Bug::OldestFirst) {
            entries.reverse();
        }
        if !entries.is_empty() {
            pool.take_back(&entries, bug != Some(Bug::RecoveryClearsEarly));
        }
        Some(pool)
    }

    fn over(memory: M, bug: Option<Bug>) -> Self {
        Self {
            memory,
            bug,
            depth: 0,
            doomed: false,
            cursor: LOG.start,
            entries: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// What can be done wrong here.
    pub fn bug(&self) -> Option<Bug> {
        self.bug
    }

    /// The memory, for reading.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Where the application's first object is, or 0.
    pub fn root(&self) -> usize {
        self.memory.load_u64(AT_ROOT) as usize
    }

    /// Runs `body` as a transaction, or as part of the one that runs: all of it is durable on
    /// return, or, with an error, nothing of it happened.
    pub fn transaction<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, Abort>,
    ) -> Result<T, Abort> {
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        self.doomed |= result.is_err();
        if self.depth > 0 {
            return result;
        }
        let doomed = std::mem::take(&mut self.doomed);
        let entries = std::mem::take(&mut self.entries);
        let ranges = std::mem::take(&mut self.ranges);
        self.cursor = LOG.start;
        if doomed {
            self.take_back(&entries, self.bug != Some(Bug::AbortClearsEarly));
            // Also if the outer one ignores that an inner one failed.
            return result.and(Err(Abort::Refused));
        }
        self.commit(&ranges);
        result
    }

    /// Adds a range to the transaction: it may be modified when this returns.
    pub fn add(&mut self, range: Range<usize>) -> Result<(), Abort> {
        assert!(self.depth > 0, "outside of a transaction");
        if self.ranges.iter().any(|added| added.start <= range.start && range.end <= added.end) {
            return Ok(());
        }
        let size = (HEAD + range.len()).next_multiple_of(LINE);
        if size > LOG.end - self.cursor {
            return Err(Abort::LogFull);
        }
        self.write_entry(self.cursor, &range, size);
        self.entries.push(self.cursor);
        self.cursor += size;
        self.ranges.push(range);
        Ok(())
    }

    /// Modifies what was added.
    #[track_caller]
    pub fn store(&mut self, at: usize, value: u64) {
        assert!(self.depth > 0, "outside of a transaction");
        self.memory.store_u64(at, value);
    }

    /// Adds a word and modifies it.
    pub fn set(&mut self, at: usize, value: u64) -> Result<(), Abort> {
        self.add(at..at + 8)?;
        self.store(at, value);
        Ok(())
    }

    /// Makes an object the first.
    pub fn set_root(&mut self, at: usize) -> Result<(), Abort> {
        self.set(AT_ROOT, at as u64)
    }

    /// Takes bytes (rounded up to a multiple of 8) from the heap, which may be modified without
    /// being added.
    pub fn allocate(&mut self, len: usize) -> Result<usize, Abort> {
        let at = self.memory.load_u64(AT_HEAP_END) as usize;
        let end = at + len.next_multiple_of(8);
        if end > self.memory.len() {
            return Err(Abort::HeapFull);
        }
        self.set(AT_HEAP_END, end as u64)?;
        // Nothing is there to be restored.
        if self.bug != Some(Bug::NewNotFlushed) {
            self.ranges.push(at..end);
        }
        Ok(at)
    }

    fn persist(&self, range: Range<usize>) {
        self.memory.flush(range);
        self.memory.sfence();
    }

    fn write_entry(&self, at: usize, range: &Range<usize>, size: usize) {
        if self.bug == Some(Bug::CountFirst) {
            self.memory.store_u64(AT_COUNT, self.entries.len() as u64 + 1);
            self.persist(AT_COUNT..AT_COUNT + 8);
        }
        let mut entry = vec![0; size];
        let word = self.memory.load_u64(AT_GENERATION) << 16 | range.len() as u64;
        entry[8..16].copy_from_slice(&word.to_le_bytes());
        entry[16..24].copy_from_slice(&(range.start as u64).to_le_bytes());
        self.memory.load(range.start, &mut entry[HEAD..HEAD + range.len()]);
        let sum = checksum::of(&entry[8..HEAD + range.len()], SEED);
        entry[..8].copy_from_slice(&sum.to_le_bytes());
        self.memory.store_nt(at, &entry);
        if self.bug != Some(Bug::ModifyEarly) {
            self.memory.sfence();
        }
    }

    // The entries that count, from the first on.
    fn log(&self) -> Vec<usize> {
        let generation = self.memory.load_u64(AT_GENERATION);
        let count = match self.bug {
            Some(Bug::CountFirst) => self.memory.load_u64(AT_COUNT) as usize,
            _ => usize::MAX,
        };
        let mut entries = Vec::new();
        let mut at = LOG.start;
        while entries.len() < count
            && let Some(len) = self.entry(at, generation)
        {
            entries.push(at);
            at += (HEAD + len).next_multiple_of(LINE);
        }
        entries
    }

    // The length of what the entry restores, if it is whole and of this generation.
    fn entry(&self, at: usize, generation: u64) -> Option<usize> {
        if at + HEAD > LOG.end {
            return None;
        }
        let word = self.memory.load_u64(at + 8);
        let len = (word & 0xffff) as usize;
        if len > LOG.end - at - HEAD {
            return None;
        }
        let counted = self.bug == Some(Bug::CountFirst);
        let unasked = self.bug == Some(Bug::OldEntries) && at > LOG.start;
        let whole = || {
            let sum = self.memory.load_u64(at);
            self.memory.verify([at + 8..at + HEAD + len, 0..0], SEED, sum)
        };
        (counted || (unasked || word >> 16 == generation) && whole()).then_some(len)
    }

    // Restores what the entries have: durable before the log is cleared.
    fn take_back(&self, entries: &[usize], durable: bool) {
        let mut ranges = Vec::new();
        for entry in entries.iter().rev() {
            let at = self.memory.load_u64(entry + 16) as usize;
            let mut bytes = vec![0; (self.memory.load_u64(entry + 8) & 0xffff) as usize];
            self.memory.load(entry + HEAD, &mut bytes);
            self.memory.store(at, &bytes);
            ranges.push(at..at + bytes.len());
        }
        if !durable {
            self.clear();
            self.memory.sfence();
        }
        ranges.into_iter().for_each(|range| self.memory.flush(range));
        self.memory.sfence();
        if durable {
            self.clear();
            self.memory.sfence();
        }
    }

    fn commit(&self, ranges: &[Range<usize>]) {
        for range in ranges {
            match self.bug {
                Some(Bug::CommitClearsEarly) => {}
                Some(Bug::FirstLineOnly) => self.memory.flush(range.start..range.start + 1),
                _ => self.memory.flush(range.clone()),
            }
        }
        if self.bug != Some(Bug::CommitClearsEarly) {
            self.memory.sfence();
        }
        self.clear();
        if self.bug == Some(Bug::CommitClearsEarly) {
            ranges.iter().for_each(|range| self.memory.flush(range.clone()));
        }
        if self.bug != Some(Bug::CommitNotFenced) {
            self.memory.sfence();
        }
    }

    // By the next fence the log is empty.
    fn clear(&self) {
        if self.bug == Some(Bug::CountFirst) {
            self.memory.store_u64(AT_COUNT, 0);
        }
        self.memory.store_u64(AT_GENERATION, self.memory.load_u64(AT_GENERATION) + 1);
        self.memory.flush(0..LINE);
    }
}
