//! The instructions, one function each. This is the only module with inline assembly.
//!
//! Every function is a single `asm!` statement that is always inlined, so a loop over it contains
//! exactly the instructions named here and no call. `asm!` without `nomem` is also a compiler
//! barrier: stores before it are not moved past it.
//!
//! Ordering, after Intel SDM volume 2A ("CLFLUSH", "CLFLUSHOPT", "CLWB", "SFENCE") and volume 3A
//! section 8.2 ("Memory Ordering"): `clflush` is ordered with respect to other `clflush` and to
//! writes; `clflushopt` and `clwb` are ordered only with older writes to the same line, with fences
//! and with locked instructions; non-temporal stores are ordered by fences and locked instructions.

use std::arch::asm;
use std::arch::x86_64::CpuidResult;
use std::fmt;
use std::str::FromStr;

/// Bytes in a cache line on every x86-64 processor with these instructions.
pub const LINE: usize = 64;

/// An instruction that writes a cache line back to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flush {
    /// `clflush`: writes back and invalidates, in order. Every x86-64 processor has it.
    Clflush,
    /// `clflushopt`: writes back and invalidates, ordered only by fences.
    Clflushopt,
    /// `clwb`: writes back and may keep the line, ordered only by fences.
    Clwb,
}

impl Flush {
    /// All of them, the oldest first.
    pub const ALL: [Flush; 3] = [Flush::Clflush, Flush::Clflushopt, Flush::Clwb];

    /// All of them, starting with the one that disturbs its own cache least: `clwb` may keep the
    /// line.
    pub const GENTLEST_FIRST: [Flush; 3] = [Flush::Clwb, Flush::Clflushopt, Flush::Clflush];

    /// The mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Flush::Clflush => "clflush",
            Flush::Clflushopt => "clflushopt",
            Flush::Clwb => "clwb",
        }
    }

    /// Flushes line after line, by a loop of this instruction's own.
    ///
    /// # Safety
    /// The lines must be mapped, and [`supports`] must be true for the instruction.
    #[inline(always)]
    pub unsafe fn each(self, lines: impl Iterator<Item = *const u8>) {
        // SAFETY: by the contract above.
        unsafe {
            match self {
                Flush::Clflush => lines.for_each(|line| clflush(line)),
                Flush::Clflushopt => lines.for_each(|line| clflushopt(line)),
                Flush::Clwb => lines.for_each(|line| clwb(line)),
            }
        }
    }

    /// The instruction as a function of a line. The processor must have it ([`supports`]), and the
    /// line must be mapped.
    pub const fn function(self) -> unsafe fn(*const u8) {
        match self {
            Flush::Clflush => clflush,
            Flush::Clflushopt => clflushopt,
            Flush::Clwb => clwb,
        }
    }
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no flush instruction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is none of {all}", all = Flush::ALL.map(Flush::name).join(", "))]
pub struct ParseFlushError(String);

impl FromStr for Flush {
    type Err = ParseFlushError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Flush::ALL
            .into_iter()
            .find(|flush| flush.name() == text)
            .ok_or_else(|| ParseFlushError(text.into()))
    }
}

/// The vector registers a line is copied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// Four 16-byte stores a line. Every x86-64 processor has it.
    Sse2,
    /// Two 32-byte stores a line.
    Avx2,
    /// One 64-byte store a line.
    Avx512,
}

impl Width {
    /// All of them, ascending.
    pub const ALL: [Width; 3] = [Width::Sse2, Width::Avx2, Width::Avx512];

    /// The widest that this processor and its operating system offer.
    pub fn widest() -> Width {
        Width::ALL.into_iter().rev().find(|width| has_width(*width)).unwrap_or(Width::Sse2)
    }

    /// The name of the instruction set, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Width::Sse2 => "sse2",
            Width::Avx2 => "avx2",
            Width::Avx512 => "avx512",
        }
    }
}

impl Width {
    /// Copies whole lines with ordinary stores, by a loop of this width's own.
    ///
    /// # Safety
    /// `to` must be aligned to 64 bytes, and both ranges mapped for so many lines, that at `to` for
    /// writing; the processor must have the registers ([`has_width`]).
    #[inline(always)]
    pub unsafe fn copy(self, to: *mut u8, from: *const u8, lines: usize) {
        // SAFETY: by the contract above.
        unsafe {
            match self {
                Width::Sse2 => each_line(to, from, lines, |to, from| copy_sse2(to, from)),
                Width::Avx2 => each_line(to, from, lines, |to, from| copy_avx2(to, from)),
                Width::Avx512 => each_line(to, from, lines, |to, from| copy_avx512(to, from)),
            }
            self.done(lines);
        }
    }

    /// As [`Width::copy`], with stores that go past the cache: they are ordered by the next fence.
    ///
    /// # Safety
    /// As [`Width::copy`].
    #[inline(always)]
    pub unsafe fn stream(self, to: *mut u8, from: *const u8, lines: usize) {
        // SAFETY: by the contract above.
        unsafe {
            match self {
                Width::Sse2 => each_line(to, from, lines, |to, from| stream_sse2(to, from)),
                Width::Avx2 => each_line(to, from, lines, |to, from| stream_avx2(to, from)),
                Width::Avx512 => each_line(to, from, lines, |to, from| stream_avx512(to, from)),
            }
            self.done(lines);
        }
    }

    // Where nothing was copied there is no transition to pay for.
    #[inline(always)]
    unsafe fn done(self, lines: usize) {
        if self != Width::Sse2 && lines > 0 {
            // SAFETY: the registers exist, by the caller.
            unsafe { vzeroupper() }
        }
    }
}

#[inline(always)]
fn each_line(to: *mut u8, from: *const u8, lines: usize, copy: impl Fn(*mut u8, *const u8)) {
    for line in 0..lines {
        copy(to.wrapping_add(line * LINE), from.wrapping_add(line * LINE));
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the processor says of itself in a leaf.
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    // Older toolchains have it as an unsafe function.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has CPUID, in user mode, too.
    unsafe {
        std::arch::x86_64::__cpuid_count(leaf, subleaf)
    }
}

/// Whether the processor has the flush instruction: CPUID.01H:EDX.CLFSH\[19\],
/// CPUID.(07H,0):EBX.CLFLUSHOPT\[23\] and .CLWB\[24\] (Intel SDM volume 2A, "CPUID").
pub fn supports(flush: Flush) -> bool {
    let bit = |word: u32, bit: u32| word >> bit & 1 == 1;
    // CPUID exists on every x86-64 processor; leaf 0 tells whether leaf 7 may be asked.
    let highest = cpuid(0, 0).eax;
    match flush {
        Flush::Clflush => bit(cpuid(1, 0).edx, 19),
        Flush::Clflushopt => highest >= 7 && bit(cpuid(7, 0).ebx, 23),
        Flush::Clwb => highest >= 7 && bit(cpuid(7, 0).ebx, 24),
    }
}

/// Whether the processor has registers of this width and the operating system saves them.
pub fn has_width(width: Width) -> bool {
    match width {
        Width::Sse2 => true,
        Width::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
        Width::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
    }
}

/// Writes the line holding `p` back and invalidates it.
///
/// # Safety
/// `p` must be mapped.
#[inline(always)]
pub unsafe fn clflush(p: *const u8) {
    // SAFETY: the instruction changes no architectural state but the caches.
    unsafe { asm!("clflush [{}]", in(reg) p, options(nostack, preserves_flags)) }
}

/// Writes the line holding `p` back and invalidates it, weakly ordered.
///
/// # Safety
/// `p` must be mapped, and [`supports`] must be true for [`Flush::Clflushopt`].
#[inline(always)]
pub unsafe fn clflushopt(p: *const u8) {
    // SAFETY: as for `clflush`; the caller has checked that the instruction exists.
    unsafe { asm!("clflushopt [{}]", in(reg) p, options(nostack, preserves_flags)) }
}

/// Writes the line holding `p` back, weakly ordered, and may keep it in the cache.
///
/// # Safety
/// `p` must be mapped, and [`supports`] must be true for [`Flush::Clwb`].
#[inline(always)]
pub unsafe fn clwb(p: *const u8) {
    // SAFETY: as for `clflush`; the caller has checked that the instruction exists.
    unsafe { asm!("clwb [{}]", in(reg) p, options(nostack, preserves_flags)) }
}

/// Store fence: orders stores, non-temporal ones and flushes included.
#[doc(alias = "pmem_drain")]
#[inline(always)]
pub fn sfence() {
    // SAFETY: a fence changes no data.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) }
}

/// Full fence: as [`sfence`], and orders loads too.
#[inline(always)]
pub fn mfence() {
    // SAFETY: a fence changes no data.
    unsafe { asm!("mfence", options(nostack, preserves_flags)) }
}

/// Orders loads, and waits until the instructions before it have completed locally. It orders no
/// stores and no flushes (Intel SDM volume 2A, "LFENCE"), so that nothing is durable behind it: it
/// is here to be measured.
#[inline(always)]
pub fn lfence() {
    // SAFETY: a fence changes no data.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) }
}

/// A locked read-modify-write of the stack that changes nothing: the full fence that compilers
/// prefer to `mfence`, and one that drains non-temporal stores (Intel SDM volume 3A, section
/// 8.2.2).
#[inline(always)]
pub fn locked() {
    // SAFETY: or-ing zero into the word at the stack pointer leaves it as it was.
    unsafe { asm!("lock or dword ptr [rsp], 0") }
}

/// Stores eight bytes past the caches (`movnti`); in x86-64 since SSE2.
///
/// # Safety
/// `to` must be aligned to 8 bytes and mapped for writing.
#[inline(always)]
pub unsafe fn stream_u64(to: *mut u8, value: u64) {
    // SAFETY: by the contract above.
    unsafe { asm!("movnti [{}], {}", in(reg) to, in(reg) value, options(nostack, preserves_flags)) }
}

/// Asks for the line holding `p` in a state in which it can be written.
///
/// # Safety
/// `p` should be mapped; a prefetch of an unmapped address is ignored.
#[inline(always)]
pub unsafe fn prefetchw(p: *const u8) {
    // SAFETY: a hint; it faults on no address.
    unsafe { asm!("prefetchw [{}]", in(reg) p, options(nostack, preserves_flags)) }
}

/// Whether `sfence` waits for `clflush`: everywhere but on AMD's processors before `clflushopt`,
/// where only `mfence` does (AMD APM volume 3, "CLFLUSH").
pub fn sfence_orders_clflush() -> bool {
    let vendor = cpuid(0, 0);
    // "AuthenticAMD" and "HygonGenuine", in EBX, EDX, ECX.
    let amd = [[vendor.ebx, vendor.edx, vendor.ecx]].iter().any(|words| {
        *words == [0x6874_7541, 0x6974_6e65, 0x444d_4163]
            || *words == [0x6f67_7948, 0x6e65_476e, 0x656e_6975]
    });
    !amd || supports(Flush::Clflushopt)
}

/// Ends a stretch of 32- or 64-byte register use, so that later SSE code pays no transition.
///
/// # Safety
/// [`has_width`] must be true for [`Width::Avx2`] or [`Width::Avx512`].
#[inline(always)]
pub unsafe fn vzeroupper() {
    // SAFETY: it changes upper halves of registers, all of which are declared.
    unsafe {
        asm!("vzeroupper",
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack, preserves_flags))
    }
}

macro_rules! line_copy {
    ($(#[$doc:meta])* $name:ident, $($text:literal),+) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `to` must be aligned to 64 bytes, and `to` and `from` mapped for 64 bytes, `to` for
        /// writing; the width must exist ([`has_width`]). Copies with registers wider than 16 bytes
        /// must be followed by [`vzeroupper`] before code that uses floating point.
        #[inline(always)]
        pub unsafe fn $name(to: *mut u8, from: *const u8) {
            // SAFETY: by the contract above; the registers written are declared.
            unsafe {
                asm!($($text),+, to = in(reg) to, from = in(reg) from,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    options(nostack, preserves_flags))
            }
        }
    };
}

line_copy!(
    /// Copies one line with ordinary 16-byte stores.
    copy_sse2,
    "movdqu xmm0, [{from}]",
    "movdqu xmm1, [{from} + 16]",
    "movdqu xmm2, [{from} + 32]",
    "movdqu xmm3, [{from} + 48]",
    "movdqa [{to}], xmm0",
    "movdqa [{to} + 16], xmm1",
    "movdqa [{to} + 32], xmm2",
    "movdqa [{to} + 48], xmm3"
);
line_copy!(
    /// Copies one line with ordinary 32-byte stores.
    copy_avx2,
    "vmovdqu ymm0, [{from}]",
    "vmovdqu ymm1, [{from} + 32]",
    "vmovdqa [{to}], ymm0",
    "vmovdqa [{to} + 32], ymm1"
);
line_copy!(
    /// Copies one line with one ordinary 64-byte store.
    copy_avx512,
    "vmovdqu64 zmm0, [{from}]",
    "vmovdqa64 [{to}], zmm0"
);
line_copy!(
    /// Copies one line with non-temporal 16-byte stores.
    stream_sse2,
    "movdqu xmm0, [{from}]",
    "movdqu xmm1, [{from} + 16]",
    "movdqu xmm2, [{from} + 32]",
    "movdqu xmm3, [{from} + 48]",
    "movntdq [{to}], xmm0",
    "movntdq [{to} + 16], xmm1",
    "movntdq [{to} + 32], xmm2",
    "movntdq [{to} + 48], xmm3"
);
line_copy!(
    /// Copies one line with non-temporal 32-byte stores.
    stream_avx2,
    "vmovdqu ymm0, [{from}]",
    "vmovdqu ymm1, [{from} + 32]",
    "vmovntdq [{to}], ymm0",
    "vmovntdq [{to} + 32], ymm1"
);
line_copy!(
    /// Copies one line with one non-temporal 64-byte store.
    stream_avx512,
    "vmovdqu64 zmm0, [{from}]",
    "vmovntdq [{to}], zmm0"
);

/// Copies `len` bytes upwards with `rep movsb`: ordinary stores, as wide as the processor chooses.
/// Processors with "enhanced" and "fast short" `rep movsb` (CPUID.(07H,0):EBX\[9\], EDX\[4\]) copy
/// whole lines at a time (Intel Optimization Reference Manual, "REP MOVSB"). How the stores to one
/// line are ordered among each other is not promised (Intel SDM volume 1, "Fast-String Operation").
///
/// # Safety
/// Both ranges must be mapped, that at `to` for writing, and they must not overlap.
#[inline(always)]
pub unsafe fn copy_movsb(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by the contract above; the direction flag is clear in Rust code, and the registers
    // are declared.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Line([u8; LINE]);

    type Copy = unsafe fn(*mut u8, *const u8);

    #[test]
    fn eight_bytes_are_streamed_and_nothing_else() {
        let mut line = Line([9; LINE]);
        // SAFETY: inside the line, aligned to 8; the fence precedes any read.
        unsafe { stream_u64(line.0.as_mut_ptr().add(8), 0x0102_0304_0506_0708) };
        sfence();
        assert_eq!(line.0[8..16], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert!(line.0[..8].iter().chain(&line.0[16..]).all(|byte| *byte == 9));
    }

    #[test]
    fn every_copy_moves_the_whole_line_and_nothing_else() {
        let streams: [Copy; 3] = [stream_sse2, stream_avx2, stream_avx512];
        let copies: [Copy; 3] = [copy_sse2, copy_avx2, copy_avx512];
        let methods =
            [copies, streams].into_iter().flat_map(|methods| Width::ALL.into_iter().zip(methods));
        let memory: [Line; 2] = [0, 64].map(|start| Line(std::array::from_fn(|i| i as u8 + start)));
        let widths = methods.filter(|(width, _)| has_width(*width));
        for ((width, copy), from) in widths.flat_map(|way| [0, 1, 63].map(|from| (way, from))) {
            let mut to = [const { Line([0; LINE]) }; 3];
            // SAFETY: the target is aligned, both lines of the source are one array, the width
            // exists, and the fence precedes any read.
            unsafe {
                copy(to[1].0.as_mut_ptr(), memory.as_ptr().cast::<u8>().add(from));
                if width != Width::Sse2 {
                    vzeroupper();
                }
            }
            sfence();
            assert!(
                to[1].0.iter().enumerate().all(|(i, byte)| *byte == (from + i) as u8),
                "{width}"
            );
            assert_eq!((to[0].0, to[2].0), ([0; LINE], [0; LINE]), "{width} wrote beside the line");
        }
    }

    #[test]
    fn movsb_copies_its_bytes_and_no_others() {
        let from: [u8; 200] = std::array::from_fn(|i| i as u8 + 1);
        for (at, len) in [(0, 0), (1, 1), (7, 64), (64, 129)] {
            let mut to = [0u8; 200];
            // SAFETY: both arrays have 200 bytes.
            unsafe { copy_movsb(to.as_mut_ptr().add(at), from.as_ptr(), len) };
            assert_eq!(to[at..at + len], from[..len]);
            assert!(
                to[..at].iter().chain(&to[at + len..]).all(|byte| *byte == 0),
                "beside {at}, {len}"
            );
        }
    }

    #[test]
    fn instructions_are_found_by_the_names_they_print() {
        for flush in Flush::ALL {
            assert_eq!(flush.to_string().parse(), Ok(flush));
            assert!(Flush::GENTLEST_FIRST.contains(&flush));
        }
        let error = "clwbx".parse::<Flush>().unwrap_err().to_string();
        assert_eq!(error, "'clwbx' is none of clflush, clflushopt, clwb");
    }

    #[test]
    fn flushing_and_fencing_keep_the_contents() {
        let line = Line([7; LINE]);
        // SAFETY: the line is mapped, and only instructions that exist are run.
        unsafe {
            clflush(line.0.as_ptr());
            if supports(Flush::Clflushopt) {
                clflushopt(line.0.as_ptr());
            }
            if supports(Flush::Clwb) {
                clwb(line.0.as_ptr());
            }
            prefetchw(line.0.as_ptr());
        }
        sfence();
        mfence();
        locked();
        assert_eq!(line.0, [7; LINE]);
    }

    #[test]
    fn detection_agrees_with_the_kernel() {
        let Ok(text) = std::fs::read_to_string("/proc/cpuinfo") else {
            return ringfence_testbed::skip(
                "detection_agrees_with_the_kernel",
                "/proc/cpuinfo cannot be read",
            );
        };
        let flags: Vec<&str> = text
            .lines()
            .find(|l| l.starts_with("flags"))
            .unwrap_or("")
            .split_whitespace()
            .collect();
        for flush in Flush::ALL {
            assert_eq!(supports(flush), flags.contains(&flush.to_string().as_str()), "{flush}");
        }
    }
}
