//! The writer's inner loops, one monomorphic function per way of writing.
//!
//! A way is a copy (width, temporal or not), a flush instruction, and where the fences stand. Each
//! combination becomes its own function, so that a block costs its own instructions and nothing
//! else: no call, no bounds check, no branch on the way of writing. `scripts/check-loops` looks at
//! the machine code of all of them, and the bench `against_c` holds them against the same in C. To
//! look at them oneself:
//!
//! ```text
//! objdump -d --no-show-raw-insn -C target/release/ringfence |
//!     awk '/^[0-9a-f]+ <.*write::loops::run/,/^$/' | less
//! ```
//!
//! For AVX-512 and `clwb` at 4 KiB the copy loop is `vmovdqa64`, `vmovdqa64`, `add`, `add`, `dec`,
//! `jne`, and the flush loop `clwb`, `add`, `dec`, `jne`.

use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use ringfence_experiment::task::{FenceAt, FenceKind, Instruction, Pattern, WidthChoice, Write};
use ringfence_persist::isa;
use ringfence_persist::{Flush, LINE, Width};

use crate::lines::Scratch;

/// How a block gets from the source to the target: line by line, or whole where `WHOLE`.
trait Copy {
    const WIDE: bool;
    const WHOLE: bool = false;
    unsafe fn line(to: *mut u8, from: *const u8);
    unsafe fn block(_to: *mut u8, _from: *const u8, _lines: usize) {}
}

macro_rules! copies {
    ($($name:ident, $wide:literal, $function:path;)+) => {$(
        struct $name;
        impl Copy for $name {
            const WIDE: bool = $wide;
            #[inline(always)]
            unsafe fn line(to: *mut u8, from: *const u8) {
                // SAFETY: the caller's contract is that of the instruction.
                unsafe { $function(to, from) }
            }
        }
    )+};
}

copies! {
    CopySse2, false, isa::copy_sse2;
    CopyAvx2, true, isa::copy_avx2;
    CopyAvx512, true, isa::copy_avx512;
    StreamSse2, false, isa::stream_sse2;
    StreamAvx2, true, isa::stream_avx2;
    StreamAvx512, true, isa::stream_avx512;
}

struct CopyMovsb;
impl Copy for CopyMovsb {
    const WIDE: bool = false;
    const WHOLE: bool = true;
    #[inline(always)]
    unsafe fn line(to: *mut u8, from: *const u8) {
        // SAFETY: the caller's contract is that of the instruction.
        unsafe { isa::copy_movsb(to, from, LINE) }
    }
    #[inline(always)]
    unsafe fn block(to: *mut u8, from: *const u8, lines: usize) {
        // SAFETY: as above.
        unsafe { isa::copy_movsb(to, from, lines * LINE) }
    }
}

/// What is done to each line after the block has been copied.
trait FlushLine {
    const ANY: bool = true;
    unsafe fn line(p: *const u8);
}

macro_rules! flushes {
    ($($name:ident, $function:path;)+) => {$(
        struct $name;
        impl FlushLine for $name {
            #[inline(always)]
            unsafe fn line(p: *const u8) {
                // SAFETY: the caller's contract is that of the instruction.
                unsafe { $function(p) }
            }
        }
    )+};
}

flushes! {
    Clflush, isa::clflush;
    Clflushopt, isa::clflushopt;
    Clwb, isa::clwb;
}

struct NoFlush;
impl FlushLine for NoFlush {
    const ANY: bool = false;
    #[inline(always)]
    unsafe fn line(_: *const u8) {}
}

/// A fence instruction.
trait Fence {
    const ANY: bool = true;
    fn fence();
}

macro_rules! fences {
    ($($name:ident, $function:path;)+) => {$(
        struct $name;
        impl Fence for $name {
            #[inline(always)]
            fn fence() {
                $function();
            }
        }
    )+};
}

fences! {
    Sfence, isa::sfence;
    Mfence, isa::mfence;
    Locked, isa::locked;
    Lfence, isa::lfence;
}

struct NoFence;
impl Fence for NoFence {
    const ANY: bool = false;
    #[inline(always)]
    fn fence() {}
}

/// What a loop writes, and where it stands. Blocks are visited in order, wrapping, or at random
/// with replacement.
#[derive(Debug, Clone)]
struct Walk {
    // First byte of the target, aligned to [`LINE`].
    base: *mut u8,
    // A source of one block, aligned to [`LINE`].
    source: *const u8,
    // Lines in a block; at least one.
    lines: usize,
    // Blocks in the target; at least one.
    blocks: u64,
    // Whether blocks are drawn at random.
    random: bool,
    // Blocks between two fences, for `FenceAt::Block`.
    batch: u32,
    // Blocks since the last fence.
    unfenced: u32,
    // The next block, when sequential.
    index: u64,
    // State of the generator, when random.
    state: u64,
}

impl Walk {
    /// The next block's first byte.
    #[inline(always)]
    fn advance(&mut self) -> *mut u8 {
        let index = if self.random {
            // Knuth's 64-bit linear congruential generator (MMIX); its high bits choose the block.
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((u128::from(self.state) * u128::from(self.blocks)) >> 64) as u64
        } else {
            let index = self.index;
            self.index = if index + 1 == self.blocks { 0 } else { index + 1 };
            index
        };
        // SAFETY: `index < blocks`, and the target holds `blocks * lines` lines.
        unsafe { self.base.add(index as usize * self.lines * LINE) }
    }
}

/// A target, a source of one block, and the loop that writes the one into the other, block after
/// block.
pub struct Blocks {
    walk: Walk,
    run: Loop,
    target: Rc<Scratch>,
    // Keeps the walk's source mapped.
    _source: Scratch,
}

impl Blocks {
    /// In the way, order and blocks of a task; the source is filled. `None` where there is no such
    /// way of writing on this processor.
    ///
    /// # Panics
    /// If a block has not one whole line or more, the target has less than one of them or than the
    /// task says, or the source less.
    pub fn new(task: &Write, seed: u64, target: Rc<Scratch>, source: Scratch) -> Option<Self> {
        let stream = task.instruction == Instruction::Nt;
        let run = select(task.width, stream, task.instruction.flush(), task.fence_at, task.fence)?;
        let (block, blocks) = (task.block.0 as usize, task.size.0 / task.block.0);
        let room = (target.region().len() / block) as u64;
        assert!(block >= LINE && block.is_multiple_of(LINE), "{block} bytes in a block");
        assert!((1..=room).contains(&blocks), "{blocks} blocks where {room} have room");
        assert!(block <= source.bytes().len(), "{block} bytes of a smaller source");
        for (offset, byte) in source.bytes()[..block].iter().enumerate() {
            byte.store((offset % 251) as u8 + 1, Ordering::Relaxed);
        }
        let walk = Walk {
            base: target.region().base(),
            source: source.region().base(),
            lines: block / LINE,
            blocks,
            random: task.pattern == Pattern::Random,
            batch: task.batch,
            unfenced: 0,
            index: 0,
            state: seed | 1,
        };
        Some(Self { walk, run, target, _source: source })
    }

    /// Writes so many blocks.
    #[inline]
    pub fn write(&mut self, count: u64) {
        // SAFETY: `new` has seen that pointers and lengths fit target and source, both of which
        // live, that blocks have lines, and that the instructions exist. Bytes of the target and
        // the source are lent as atomics.
        unsafe { (self.run)(&mut self.walk, count) }
    }

    /// What is written to.
    pub fn target(&self) -> &Rc<Scratch> {
        &self.target
    }

    /// Lines in a block.
    pub fn lines(&self) -> usize {
        self.walk.lines
    }

    /// The lines of the target that come next, one range for each block, without end.
    pub fn ahead(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let mut walk = self.walk.clone();
        std::iter::repeat_with(move || {
            let first = (walk.advance().addr() - walk.base.addr()) / LINE;
            first..first + walk.lines
        })
    }

    /// Blocks until the first one comes again, where they come in order.
    pub fn left(&self) -> u64 {
        self.walk.blocks - self.walk.index
    }

    /// Whether the first block comes next, where they come in order.
    pub fn at_start(&self) -> bool {
        self.walk.index == 0
    }

    /// Goes on with the first block, where they come in order.
    pub fn restart(&mut self) {
        self.walk.index = 0;
    }
}

/// Writes `count` blocks.
///
/// # Safety
/// The walk's pointers must be mapped, aligned and large enough, its blocks must have lines, and
/// every instruction of this combination must exist on the processor.
type Loop = unsafe fn(&mut Walk, count: u64);

unsafe fn run<C: Copy, F: FlushLine, B: Fence, L: Fence, const AROUND: bool>(
    shared: &mut Walk,
    count: u64,
) {
    // A copy whose address does not escape: assembly may touch all other memory, so that the walk
    // would be stored in every block.
    let mut walk = shared.clone();
    // SAFETY: by the contract of `Walk`. Spares a second set of loops for blocks without a line.
    unsafe { std::hint::assert_unchecked(walk.lines > 0) };
    for _ in 0..count {
        let block = walk.advance();
        let (mut to, mut from) = (block, walk.source);
        if C::WHOLE {
            // SAFETY: one block of the target and of the source.
            unsafe { C::block(to, from, walk.lines) };
        }
        for _ in 0..if C::WHOLE { 0 } else { walk.lines } {
            // SAFETY: line by line over one block of the target and of the source.
            unsafe {
                if L::ANY && AROUND && !F::ANY {
                    L::fence();
                }
                C::line(to, from);
                if L::ANY && !F::ANY {
                    L::fence();
                }
                to = to.add(LINE);
                from = from.add(LINE);
            }
        }
        if F::ANY {
            let mut to = block;
            for _ in 0..walk.lines {
                // SAFETY: the lines just written.
                unsafe {
                    if L::ANY && AROUND {
                        L::fence();
                    }
                    F::line(to);
                    L::fence();
                    to = to.add(LINE);
                }
            }
        }
        if B::ANY {
            walk.unfenced += 1;
            if walk.unfenced >= walk.batch {
                B::fence();
                walk.unfenced = 0;
            }
        }
    }
    *shared = walk;
    if C::WIDE {
        // SAFETY: a wide copy exists only where AVX does.
        unsafe { isa::vzeroupper() }
    }
}

/// The loop for a way of writing, if there is one on this processor: `stream` takes non-temporal
/// stores, which exclude a flush and a copy of whole blocks; and those exclude fences at lines that
/// nothing flushes.
fn select(
    width: WidthChoice,
    stream: bool,
    flush: Option<Flush>,
    at: FenceAt,
    fence: FenceKind,
) -> Option<Loop> {
    let width = match width {
        WidthChoice::Auto => Width::widest(),
        WidthChoice::Vector(width) => width,
        WidthChoice::Movsb if stream => return None,
        WidthChoice::Movsb => {
            return movsb(flush, at, fence).filter(|_| flush.is_none_or(isa::supports));
        }
    };
    if !isa::has_width(width) || !flush.is_none_or(isa::supports) {
        return None;
    }
    match (stream, width) {
        (true, _) if flush.is_some() => None,
        (true, Width::Sse2) => Some(with_fence::<StreamSse2, NoFlush>(at, fence)),
        (true, Width::Avx2) => Some(with_fence::<StreamAvx2, NoFlush>(at, fence)),
        (true, Width::Avx512) => Some(with_fence::<StreamAvx512, NoFlush>(at, fence)),
        (false, Width::Sse2) => Some(copied::<CopySse2>(flush, at, fence)),
        (false, Width::Avx2) => Some(copied::<CopyAvx2>(flush, at, fence)),
        (false, Width::Avx512) => Some(copied::<CopyAvx512>(flush, at, fence)),
    }
}

// Without a flush, lines are nothing that a copy of a whole block could have fences at.
fn movsb(flush: Option<Flush>, at: FenceAt, fence: FenceKind) -> Option<Loop> {
    match (flush, at) {
        (Some(flush), _) => Some(with_flush::<CopyMovsb>(flush, at, fence)),
        (None, FenceAt::None) => Some(run::<CopyMovsb, NoFlush, NoFence, NoFence, false>),
        (None, FenceAt::Block) => Some(match fence {
            FenceKind::Sfence => run::<CopyMovsb, NoFlush, Sfence, NoFence, false>,
            FenceKind::Mfence => run::<CopyMovsb, NoFlush, Mfence, NoFence, false>,
            FenceKind::Locked => run::<CopyMovsb, NoFlush, Locked, NoFence, false>,
            FenceKind::Lfence => run::<CopyMovsb, NoFlush, Lfence, NoFence, false>,
        }),
        (None, FenceAt::Line | FenceAt::Around) => None,
    }
}

fn copied<C: Copy>(flush: Option<Flush>, at: FenceAt, fence: FenceKind) -> Loop {
    match flush {
        None => with_fence::<C, NoFlush>(at, fence),
        Some(flush) => with_flush::<C>(flush, at, fence),
    }
}

fn with_flush<C: Copy>(flush: Flush, at: FenceAt, fence: FenceKind) -> Loop {
    match flush {
        Flush::Clflush => with_fence::<C, Clflush>(at, fence),
        Flush::Clflushopt => with_fence::<C, Clflushopt>(at, fence),
        Flush::Clwb => with_fence::<C, Clwb>(at, fence),
    }
}

fn with_fence<C: Copy, F: FlushLine>(at: FenceAt, fence: FenceKind) -> Loop {
    match fence {
        FenceKind::Sfence => placed::<C, F, Sfence>(at),
        FenceKind::Mfence => placed::<C, F, Mfence>(at),
        FenceKind::Locked => placed::<C, F, Locked>(at),
        FenceKind::Lfence => placed::<C, F, Lfence>(at),
    }
}

fn placed<C: Copy, F: FlushLine, K: Fence>(at: FenceAt) -> Loop {
    match at {
        FenceAt::None => run::<C, F, NoFence, NoFence, false>,
        FenceAt::Block => run::<C, F, K, NoFence, false>,
        FenceAt::Line => run::<C, F, NoFence, K, false>,
        FenceAt::Around => run::<C, F, NoFence, K, true>,
    }
}
