//! Memory that holds its bytes, and turns what durable code does to it into operations on lines.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::hardware::{Line, Op, Region};
use ringfence_persist::{Flush, LINE, Memory, checksum};

const PAGE: usize = 4096;
// Stores up to so many bytes ask for their lines first, as those of mapped memory do
// (`ringfence_persist::Mapped`).
const ASKED: usize = 1024;

/// What a program writes its bytes with.
#[derive(Debug, Clone, Copy)]
pub struct How {
    pub flush: Flush,
    /// Whether `mfence` stands for `sfence`, where that does not wait for the flush.
    pub strong_fences: bool,
    /// Whether stores ask for their lines first.
    pub asks: bool,
}

/// The memory. Clones share it.
#[derive(Clone)]
pub struct Followed {
    len: usize,
    how: How,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    region: Region,
    // A page that was never written holds only zeros.
    pages: Vec<Option<Box<[u8; PAGE]>>>,
    // `None` while nothing is to be simulated.
    ops: Option<Vec<Op>>,
    // Whether a load stands before the next store.
    loaded: bool,
}

impl Followed {
    /// Zeros in a region, of as many bytes. Nothing that is done to them becomes an operation
    /// before [`Followed::follow`].
    pub fn new(region: Region, how: How) -> Self {
        let len = region.lines() as usize * LINE;
        let pages = vec![None; len.div_ceil(PAGE)];
        Self {
            len,
            how,
            inner: Arc::new(Mutex::new(Inner { region, pages, ops: None, loaded: false })),
        }
    }

    /// From here on.
    pub fn follow(&self) {
        self.inner().ops.get_or_insert_default();
    }

    /// What was done since the last time.
    pub fn take(&self, into: &mut Vec<Op>) {
        if let Some(ops) = &mut self.inner().ops {
            into.append(ops);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn check(&self, at: usize, len: usize) {
        assert!(at <= self.len && len <= self.len - at, "{len} bytes at {at} of {}", self.len);
    }

    #[track_caller]
    fn check_word(&self, at: usize) {
        assert!(at.is_multiple_of(8), "{at} is not a multiple of 8");
        self.check(at, 8);
    }

    // Does to each line of a range what `op` says, with how many of the bytes are in it.
    fn each(&self, range: Range<usize>, op: impl Fn(Line, usize) -> Op) {
        let mut inner = self.inner();
        let region = inner.region;
        let Some(ops) = &mut inner.ops else { return };
        let mut at = range.start;
        while at < range.end {
            let end = (at + 1).next_multiple_of(LINE).min(range.end);
            ops.push(op(region.line((at / LINE) as u32), end - at));
            at = end;
        }
    }

    // Stores leave a processor once they are retired, which is after every load before them: what
    // comes after loads waits for their data.
    fn after_loads(&self) {
        let mut inner = self.inner();
        if std::mem::take(&mut inner.loaded)
            && let Some(ops) = &mut inner.ops
        {
            ops.push(Op::Lfence);
        }
    }

    fn loads(&self, range: Range<usize>) {
        self.inner().loaded |= !range.is_empty();
        self.each(range, |line, _| Op::Load { line, dependent: false });
    }

    fn op(&self, op: Op) {
        self.after_loads();
        if let Some(ops) = &mut self.inner().ops {
            ops.push(op);
        }
    }

    fn get(&self, at: usize, into: &mut [u8]) {
        self.inner().get(at, into);
    }

    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        self.get(at, &mut word);
        u64::from_le_bytes(word)
    }
}

impl Inner {
    fn get(&self, mut at: usize, mut into: &mut [u8]) {
        while !into.is_empty() {
            let (page, offset) = (at / PAGE, at % PAGE);
            let (now, later) = into.split_at_mut((PAGE - offset).min(into.len()));
            match &self.pages[page] {
                Some(page) => now.copy_from_slice(&page[offset..offset + now.len()]),
                None => now.fill(0),
            }
            (at, into) = (at + now.len(), later);
        }
    }

    fn put(&mut self, mut at: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (page, offset) = (at / PAGE, at % PAGE);
            let (now, later) = bytes.split_at((PAGE - offset).min(bytes.len()));
            let page = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]));
            page[offset..offset + now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len(), later);
        }
    }
}

impl Memory for Followed {
    fn len(&self) -> usize {
        self.len
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.check(at, into.len());
        self.get(at, into);
        self.loads(at..at + into.len());
    }

    fn load_u64(&self, at: usize) -> u64 {
        self.check_word(at);
        self.loads(at..at + 8);
        self.word(at)
    }

    fn store(&self, at: usize, bytes: &[u8]) {
        self.check(at, bytes.len());
        self.inner().put(at, bytes);
        let range = at..at + bytes.len();
        self.after_loads();
        if self.how.asks && bytes.len() <= ASKED {
            self.each(range.clone(), |line, _| Op::Load { line, dependent: false });
        }
        self.each(range, |line, _| Op::Store(line));
    }

    fn store_u64(&self, at: usize, value: u64) {
        self.check_word(at);
        self.inner().put(at, &value.to_le_bytes());
        self.after_loads();
        self.each(at..at + 8, |line, _| Op::Store(line));
    }

    fn store_nt(&self, at: usize, bytes: &[u8]) {
        assert!(
            at.is_multiple_of(8) && bytes.len().is_multiple_of(8),
            "{} bytes at {at}",
            bytes.len()
        );
        self.check(at, bytes.len());
        self.inner().put(at, bytes);
        self.after_loads();
        self.each(at..at + bytes.len(), |line, bytes| Op::NtStore { line, bytes: bytes as u8 });
    }

    fn flush(&self, range: Range<usize>) {
        ringfence_persist::memory::assert_in_order(&range);
        self.check(range.start, range.len());
        self.after_loads();
        let kind = self.how.flush;
        self.each(range, |line, _| Op::Flush { kind, line });
    }

    // A load that nothing waits for.
    fn prefetch(&self, at: usize) {
        self.check(at, 1);
        self.after_loads();
        self.each(at..at + 1, |line, _| Op::Load { line, dependent: false });
    }

    fn sfence(&self) {
        self.op(if self.how.strong_fences { Op::Mfence } else { Op::Sfence });
    }

    fn mfence(&self) {
        self.op(Op::Mfence);
    }

    fn compare_exchange_u64(&self, at: usize, current: u64, new: u64) -> Result<u64, u64> {
        self.check_word(at);
        self.after_loads();
        self.each(at..at + 8, |line, _| Op::Locked(line));
        let found = self.word(at);
        if found != current {
            return Err(found);
        }
        self.inner().put(at, &new.to_le_bytes());
        Ok(found)
    }

    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool {
        self.verify_with("XXH3", pieces, &|bytes| checksum::of(bytes, seed) == sum)
    }

    fn health(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::hardware::Setup;

    use super::*;

    fn memory(bytes: u64) -> (Followed, Region) {
        let machine = &crate::catalogue::all()[0];
        let region = Setup::new(&machine.parts, 1).unwrap().region(0, bytes).unwrap();
        let how = How { flush: Flush::Clwb, strong_fences: false, asks: false };
        (Followed::new(region, how), region)
    }

    fn taken(memory: &Followed) -> Vec<Op> {
        let mut ops = Vec::new();
        memory.take(&mut ops);
        ops
    }

    #[test]
    fn it_holds_what_was_stored_and_zeros_elsewhere() {
        let (memory, _) = memory(5 * 4096);
        let mut expected = vec![0u8; 5 * 4096];
        let mut state = 7u64;
        for round in 0..200u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (at, len) = ((state >> 33) as usize % 12_000, (state >> 20) as usize % 5000);
            let bytes = vec![round as u8 + 1; len];
            memory.store(at, &bytes);
            expected[at..at + len].copy_from_slice(&bytes);
        }
        memory.store_u64(8192, 0x0102);
        expected[8192..8200].copy_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0]);
        let mut found = vec![9; 5 * 4096];
        memory.load(0, &mut found);
        assert_eq!(found, expected);
        assert_eq!(memory.compare_exchange_u64(8192, 3, 4), Err(0x0102));
        assert_eq!(memory.compare_exchange_u64(8192, 0x0102, 4), Ok(0x0102));
        assert_eq!(memory.load_u64(8192), 4);
        let sum = checksum::of(&expected[100..5000], 3);
        assert!(
            memory.verify([100..4000, 4000..5000], 3, sum)
                && !memory.verify([100..4000, 0..0], 3, sum)
        );
    }

    #[test]
    fn pages_take_room_once_they_are_written() {
        let (memory, _) = memory(1 << 30);
        memory.load(0, &mut [1; 100_000]);
        memory.store((1 << 29) - 1, &[1; 2]);
        assert_eq!(memory.inner().pages.iter().flatten().count(), 2);
    }

    #[test]
    fn each_line_is_an_operation_and_stores_wait_for_loads() {
        let (memory, region) = memory(4096);
        memory.store(0, &[1; 64]);
        assert!(taken(&memory).is_empty(), "nothing is followed yet");
        memory.follow();
        let mut bytes = [0; 8];
        memory.load(60, &mut bytes);
        memory.store(130, &[1; 64]);
        memory.flush(130..194);
        memory.sfence();
        memory.store_nt(248, &[2; 80]);
        let load = |line| Op::Load { line: region.line(line), dependent: false };
        let flush = |line| Op::Flush { kind: Flush::Clwb, line: region.line(line) };
        let nt = |line, bytes| Op::NtStore { line: region.line(line), bytes };
        let (two, three) = (region.line(2), region.line(3));
        let expected = [
            load(0),
            load(1),
            Op::Lfence,
            Op::Store(two),
            Op::Store(three),
            flush(2),
            flush(3),
            Op::Sfence,
            nt(3, 8),
            nt(4, 64),
            nt(5, 8),
        ];
        assert_eq!(taken(&memory), expected);
    }

    #[test]
    #[should_panic(expected = "8 bytes at 4096 of 4096")]
    fn nothing_lies_beyond_its_end() {
        memory(4096).0.load_u64(4096);
    }
}
