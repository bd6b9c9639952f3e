//! What the recorder and its runtime share: where things lie in a recorded process, and how.
//!
//! Compiled into both. All of it is `repr(C)`; one build makes both sides, so there are no
//! versions.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Where the runtime lies in every recorded process. The kernel gives out addresses from both ends
/// of its range, and this is in the middle. All of ours begins with these eight bits, for the
/// filter of system calls.
pub const RUNTIME: u64 = 0x2f00_0000_0000;
/// The first byte behind what may be ours.
pub const OURS_END: u64 = 0x3000_0000_0000;
/// The sixth argument of `open` where the recorder has a process call it. The call has two; a
/// program that leaves this in the register has a descriptor that is not watched.
pub const OPENED_BY_RECORDER: u64 = 0x5269_6e67;
/// Where [`Shared`] lies, with the ring behind it.
pub const SHARED: u64 = 0x2f10_0000_0000;
/// Where the threads' blocks lie.
pub const THREADS: u64 = 0x2f20_0000_0000;
/// Where each process has a table of what addresses may be a file's, one byte each.
pub const TABLE: u64 = 0x2f30_0000_0000;
/// Its bytes.
pub const TABLE_SIZE: u64 = 1 << 21;
/// The place of an address in the table: shifted to the left, then to the right.
pub const TABLE_SHIFTS: [u32; 2] = [17, 43];
/// Sites that are passed on at once, at most: they lie in the shared memory.
pub const MOST_PASSED: usize = 4096;
/// Where, from the beginning of the shared memory on.
pub const PASSED: u64 = 1 << 16;
/// Frames of a stack that are recorded at most.
pub const MOST_FRAMES: usize = 12;
/// How often a site fails until it is worth to replace its instruction.
pub const HOT: u32 = 16;
/// Where the stubs lie that no jump leads to.
pub const STUBS: u64 = 0x2f40_0000_0000;
/// Their bytes: one for each site that a process may have.
pub const STUBS_SIZE: u64 = MOST_SITES as u64 * MOST_STUB;
/// Bytes of a stub at most.
pub const MOST_STUB: u64 = 448;
/// The bytes of [`Shared`], without the ring.
pub const SHARED_SIZE: u64 = 1 << 20;
/// Bytes of the ring of events.
pub const RING: u64 = 1 << 26;
/// From one thread's block to the next.
pub const BLOCK: u64 = 1 << 21;
/// Threads of one recording at most, ended ones included.
pub const MOST_THREADS: u64 = 1 << 15;
/// Sites of one process at most.
pub const MOST_SITES: usize = 1 << 17;
/// Where the files are mapped in a process that does not say where: little else is there, nor at
/// the alias of it.
pub const WINDOW: u64 = 0x0800_0000_0000;
/// The first byte behind it.
pub const WINDOW_END: u64 = 0x1000_0000_0000;
/// Files of one recording at most.
pub const MOST_FILES: usize = 255;
/// Mappings of the files in one process at most.
pub const MOST_REGIONS: usize = 1024;
/// The alias of an address differs from it in this bit.
pub const ALIAS: u64 = 1 << 46;
/// Bytes of one event's data at most; longer stores are several events.
pub const MOST_DATA: u64 = 1 << 20;

/// Registers, in the order in which the kernel's signal frame has them (`struct sigcontext`).
#[allow(missing_docs, reason = "named as the registers are")]
pub mod register {
    pub const R8: usize = 0;
    pub const R15: usize = 7;
    pub const RDI: usize = 8;
    pub const RSI: usize = 9;
    pub const RBP: usize = 10;
    pub const RBX: usize = 11;
    pub const RDX: usize = 12;
    pub const RAX: usize = 13;
    pub const RCX: usize = 14;
    pub const RSP: usize = 15;
    pub const RIP: usize = 16;
    pub const FLAGS: usize = 17;
    /// None at all.
    pub const NONE: u8 = 255;
}

/// What a thread asks of the recorder, in its block.
#[repr(C)]
pub struct Mailbox {
    /// [`IDLE`], [`ASKED`] or [`ANSWERED`]; threads sleep on it.
    pub state: AtomicU32,
    /// One of [`ask`].
    pub kind: Cell<u32>,
    /// What is asked about.
    pub arguments: Cell<[u64; 6]>,
    /// The answer.
    pub answer: Cell<[u64; 4]>,
    /// The answer, where it is a site.
    pub site: Cell<Site>,
}

/// Nothing is asked.
pub const IDLE: u32 = 0;
/// A thread waits.
pub const ASKED: u32 = 1;
/// The answer is there.
pub const ANSWERED: u32 = 2;

/// Kinds of questions.
pub mod ask {
    /// `arguments`: address of an instruction. The site is the answer.
    pub const SITE: u32 = 1;
    /// Code was mapped: address, length. Answer: where memory for stubs shall be mapped, and how
    /// much (0: none).
    pub const CODE: u32 = 2;
    /// That memory is there: address and length of the code, as before. Answer: sites that were
    /// patched.
    pub const PATCH: u32 = 3;
    /// Those sites, from a number on. Answer: how many lie in the shared memory now.
    pub const PATCHED: u32 = 4;
    /// A mapping of a file: descriptor, address, length. Answer: the file's number plus one, or 0.
    pub const FILE: u32 = 5;
    /// A process is about to replace its program.
    pub const EXEC: u32 = 6;
    /// It could not.
    pub const NOT_EXEC: u32 = 7;
    /// A child process: the number of the thread that asked for it.
    pub const CHILD: u32 = 8;
    /// What cannot be recorded: the reason, and two figures to tell.
    pub const STOP: u32 = 9;
    /// A frame of the stack: an address of code. Answer: one of [`super::frame`], the distance of
    /// the frame's address from the register, and the distance from there to the caller's `rbp`, or
    /// 0.
    pub const FRAME: u32 = 10;
    /// A process starts: `arguments`: a number from 0 on. Answer: address and length of code that
    /// is there already.
    pub const START: u32 = 12;
    /// A site that fails often: its address, and whether the process has had more than one thread
    /// or a handler of a signal. Answer: 0 for not to be replaced, 1 for done, 2 for begun: the
    /// first byte is a breakpoint.
    pub const HOT: u32 = 13;
    /// The bytes behind the first.
    pub const HOT_TAIL: u32 = 14;
    /// The first byte.
    pub const HOT_HEAD: u32 = 15;
    /// An instruction in a stub: its address. Answer: where the program has it, if it is a copy of
    /// the program's.
    pub const ORIGIN: u32 = 16;
    /// The first frames of the thread's block, as many as are given: their number in the recording
    /// is the answer.
    pub const CALLERS: u32 = 17;
    /// A system call: the address of its instruction. Answer: the site's number in the recording.
    pub const CALL: u32 = 18;
    /// A system call has renamed, linked or removed something, or would have if no copy were
    /// mounted there: its number, and its first four arguments.
    pub const NAMES: u32 = 19;
    /// A system call was refused: its number, and whether it would have written to the standard
    /// output that is recorded.
    pub const REFUSED: u32 = 11;
}

/// How a frame is found.
pub mod frame {
    /// Not at all: the stack ends, or no table says how it goes on.
    pub const LAST: u64 = 0;
    /// From the stack pointer.
    pub const BY_STACK: u64 = 1;
    /// From `rbp`.
    pub const BY_BASE: u64 = 2;
}

/// Why a recording stops.
pub mod stop {
    /// An access that is one to a file in part.
    pub const PARTLY: u64 = 1;
    /// An instruction that cannot be executed by us.
    pub const INSTRUCTION: u64 = 2;
    /// Something else is where an alias is to be mapped.
    pub const ALIAS_TAKEN: u64 = 3;
    /// A system call that cannot be recorded.
    pub const CALL: u64 = 4;
    /// More mappings than [`MOST_REGIONS`](super::MOST_REGIONS).
    pub const REGIONS: u64 = 5;
    /// More sites than [`MOST_SITES`](super::MOST_SITES).
    pub const SITES: u64 = 6;
    /// More threads than [`MOST_THREADS`](super::MOST_THREADS).
    pub const THREADS: u64 = 7;
    /// The kernel refused what the runtime needs: which step, and the result.
    pub const SETUP: u64 = 9;
    /// A panic: the line, and the address of the name of the file.
    pub const PANIC: u64 = 11;
}

/// What is at the beginning of the shared memory.
#[repr(C)]
pub struct Shared {
    /// The recorder's process.
    pub recorder: u32,
    /// Rung when a thread asks.
    pub bell: AtomicU32,
    /// Which thread records an event: its number plus one, or 0.
    pub lock: AtomicU32,
    /// Whether loads are recorded, too (files have no access rights), or only stores.
    pub loads: u32,
    /// The device and inode of the standard output, where what is written there is recorded; zeros
    /// where it is not.
    pub output: [u64; 2],
    /// Numbers given to threads so far.
    pub threads: AtomicU32,
    /// Bytes put into the ring so far.
    pub head: AtomicU64,
    /// Bytes taken out of it so far.
    pub tail: AtomicU64,
    /// How often a process has changed its mappings.
    pub remapped: AtomicU64,
    /// Files that are recorded so far.
    pub files: AtomicU32,
    /// The device and inode of each.
    pub identities: [[AtomicU64; 2]; MOST_FILES],
    /// Bytes of a signal frame's extended state: where the parts lie (CPUID leaf 0xd), by number.
    pub state_offsets: [u32; 16],
}

/// What a thread has of its own: `gs` points to it. The recorder reads it while the thread waits.
#[repr(C)]
pub struct Block {
    /// Where it lies.
    pub own: Cell<u64>,
    /// The top of the stack that stubs use.
    pub stack: Cell<u64>,
    /// The program's stack pointer while a stub runs.
    pub rsp: Cell<u64>,
    /// A register of the program's while a stub uses it.
    pub spill: Cell<u64>,
    /// Another one.
    pub spill2: Cell<u64>,
    /// And another one.
    pub spill3: Cell<u64>,
    /// [`TABLE`].
    pub table: Cell<u64>,
    /// The address that the instruction in a stub shall use.
    pub target: Cell<u64>,
    /// Whether something that the thread did waits for a fence: flushes, non-temporal stores.
    pub pending: Cell<u64>,
    /// The runtime's routine before the instruction.
    pub enter: Cell<u64>,
    /// The one behind it.
    pub leave: Cell<u64>,
    /// Whether an instruction is under way in a stub, and of which site.
    pub open: Cell<u64>,
    /// The address it accesses, as the program has it.
    pub open_address: Cell<u64>,
    /// Bytes it stores; 0 where none is recorded behind it.
    pub open_size: Cell<u64>,
    /// Which elements it accesses, where a mask says so.
    pub open_mask: Cell<u64>,
    /// Of a string instruction: repetitions that the program wants, and those of this turn.
    pub total: Cell<u64>,
    /// See above.
    pub turn: Cell<u64>,
    /// Its pointers, as the program has them: `rdi` and `rsi`.
    pub string: Cell<[u64; 2]>,
    /// Whether they were replaced by their aliases.
    pub replaced: Cell<[u64; 2]>,
    /// The system's numbers of the process and the thread.
    pub process: Cell<u32>,
    /// See above.
    pub thread: Cell<u32>,
    /// Our number of the thread.
    pub number: Cell<u32>,
    /// Our number of the thread that started it.
    pub parent: Cell<u32>,
    /// Whether it is a child process with the parent's memory.
    pub borrows: Cell<u32>,
    /// Whether signals wait until the thread is out of a stub: 1 where it goes there step by step,
    /// 2 where it will behind our own routine.
    pub stepping: Cell<u32>,
    /// Whether it is in that routine.
    pub inside: Cell<u32>,
    /// The signals that wait.
    pub waiting: [Cell<Waiting>; 4],
    /// The program's mask of signals while they wait.
    pub mask: Cell<u64>,
    /// How many wait.
    pub waiting_count: Cell<u32>,
    /// Whether the program has a signal stack of its own.
    pub has_signal_stack: Cell<u32>,
    /// The program's: address, flags, size.
    pub signal_stack: Cell<[u64; 3]>,
    /// Ours.
    pub own_signal_stack: Cell<[u64; 3]>,
    /// The stack pointer of the routine `guarded` while it executes something that may fail, or 0.
    pub guard: Cell<u64>,
    /// How it failed: the signal's number, its code, its address.
    pub failed: Cell<[u64; 3]>,
    /// Registers for a thread that starts.
    pub start: [Cell<u64>; 18],
    /// The callers of the instruction that is being recorded, by number; 0 where not known.
    pub callers: Cell<u32>,
    /// Where they are to go on, innermost first.
    pub frames: [Cell<u64>; MOST_FRAMES],
    /// Questions.
    pub mailbox: Mailbox,
}

/// A signal that waits.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Waiting {
    /// Its number.
    pub signal: u64,
    /// What the kernel says of it.
    pub info: [u64; 16],
}

/// Where a block's counts begin, of 8 bytes each, by site: how often a locked instruction was
/// executed while nothing waited for it.
pub const COUNTS: u64 = 1 << 15;

/// What an instruction does to memory.
#[allow(missing_docs, reason = "named as the instructions are")]
pub mod what {
    /// Reads, or reads and writes, or writes, as `reads` and `writes` say.
    pub const ACCESS: u8 = 1;
    pub const NON_TEMPORAL: u8 = 2;
    /// A locked instruction, or `xchg` with memory.
    pub const LOCKED: u8 = 3;
    pub const CLFLUSH: u8 = 4;
    pub const CLFLUSHOPT: u8 = 5;
    pub const CLWB: u8 = 6;
    pub const SFENCE: u8 = 7;
    pub const MFENCE: u8 = 8;
    /// Nothing that matters: a prefetch.
    pub const NOTHING: u8 = 9;
}

/// How an instruction is executed in place of the program's.
#[allow(missing_docs, reason = "named as the instructions are")]
pub mod how {
    /// A copy with another address, in a stub.
    pub const STUB: u8 = 0;
    /// Not at all: it is skipped, once recorded.
    pub const SKIP: u8 = 1;
    pub const MOVS: u8 = 2;
    pub const STOS: u8 = 3;
    pub const LODS: u8 = 4;
    pub const CMPS: u8 = 5;
    pub const SCAS: u8 = 6;
    /// `push` of a value: of the register `operand`, or of `immediate`.
    pub const PUSH: u8 = 7;
    /// `push` of what is in memory.
    pub const PUSH_MEMORY: u8 = 8;
    pub const POP: u8 = 9;
    pub const CALL: u8 = 10;
    pub const CALL_REGISTER: u8 = 11;
    pub const CALL_MEMORY: u8 = 12;
    pub const JUMP_MEMORY: u8 = 13;
    pub const RETURN: u8 = 14;
    pub const LEAVE: u8 = 15;
    pub const PUSH_FLAGS: u8 = 16;
    pub const POP_FLAGS: u8 = 17;
    pub const POP_MEMORY: u8 = 18;
    pub const GATHER: u8 = 19;
    pub const SCATTER: u8 = 20;
    /// A copy in a stub, of which a mask says what is accessed.
    pub const MASKED: u8 = 21;
    pub const XLAT: u8 = 22;
    /// `bt` and the like with a register: the address depends on it.
    pub const BIT: u8 = 23;
    /// Cannot be executed by us.
    pub const NOT: u8 = 24;
    /// `maskmovdqu` and the like, whose address is always in `rdi`.
    pub const MASKED_MOVE: u8 = 25;
    /// `push` of `fs` or `gs`, as `operand` says (1 or 2).
    pub const PUSH_SEGMENT: u8 = 26;
    /// `enter`: `operand` is the level, `immediate` the room below the frame.
    pub const ENTER: u8 = 27;
}

/// What a compare-exchange or another condition has to do with the store.
pub mod condition {
    /// Nothing: it stores.
    pub const NONE: u8 = 0;
    /// It stores where the zero flag is set afterwards.
    pub const EXCHANGED: u8 = 1;
}

/// An instruction of the program that is executed under our eyes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Site {
    /// Where it stands.
    pub pc: u64,
    /// Where its stub goes on once the address is known.
    pub run: u64,
    /// Where the stub of a string instruction goes on behind it.
    pub after: u64,
    /// Where its stub has the program's instruction as it is, for sites that are mostly not about
    /// the files; 0 for none.
    pub inner: u64,
    /// Added to the registers for the address.
    pub displacement: u64,
    /// For [`how::PUSH`], a call's target, the bytes that a return drops.
    pub immediate: u64,
    /// Its number in the recording.
    pub id: u32,
    /// How often it has failed.
    pub hits: u32,
    /// Bytes it accesses.
    pub size: u32,
    /// Its own length in bytes.
    pub length: u8,
    /// One of [`what`].
    pub what: u8,
    /// One of [`how`].
    pub how: u8,
    /// One of [`condition`].
    pub condition: u8,
    /// Whether it reads memory.
    pub reads: u8,
    /// Whether it writes memory.
    pub writes: u8,
    /// Registers, by [`register`], for the address.
    pub base: u8,
    /// See above.
    pub index: u8,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// 0, or 1 for `fs`, 2 for `gs`.
    pub segment: u8,
    /// Whether addresses have 32 bits.
    pub narrow: u8,
    /// An operand in a register: a general one, a vector, by number.
    pub operand: u8,
    /// The mask: `k` register, or the vector register of an AVX instruction.
    pub mask: u8,
    /// Whether `mask` is a vector register.
    pub mask_is_vector: u8,
    /// Bytes of an element: of a string, of what a mask governs.
    pub element: u8,
    /// Elements of what a mask governs, or a gather moves.
    pub elements: u8,
    /// Bytes of an index of a gather.
    pub index_size: u8,
    /// 0 for no repetition, 1 for `rep` and `repe`, 2 for `repne`.
    pub repeat: u8,
    /// Whether what is stored is stored side by side (`vpcompressd`).
    pub packed: u8,
    /// The register that the stub uses for the address; [`register::NONE`] for none.
    pub borrowed: u8,
    /// Whether the program's own instruction is replaced, by a jump (1) or by a breakpoint (2).
    pub patched: u8,
    /// Whether its code is of memory that may hold another one by now.
    pub may_change: u8,
    /// Its bytes.
    pub bytes: [u8; 15],
}

const _: () = assert!(size_of::<Shared>() <= PASSED as usize, "they fit");
const _: () = assert!(THREADS + MOST_THREADS * BLOCK <= TABLE, "they fit");
const _: () =
    assert!(PASSED as usize + MOST_PASSED * size_of::<Site>() <= SHARED_SIZE as usize, "they fit");

/// What begins an event in the ring. Its data follow, padded to 8 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Head {
    /// One of [`kind`].
    pub kind: u8,
    /// Its file, by number.
    pub file: u8,
    /// Nothing: the next field is aligned.
    pub spare: u16,
    /// The thread, by our number.
    pub thread: u32,
    /// The site, by its number in the recording; 0 for none.
    pub site: u32,
    /// The callers, by their number; 0 where not known.
    pub callers: u32,
    /// Bytes accessed.
    pub size: u64,
    /// Where in the file.
    pub offset: u64,
}

/// Kinds of events in the ring.
#[allow(missing_docs, reason = "named as the instructions and system calls are")]
pub mod kind {
    /// Nothing: the ring's end.
    pub const SKIP: u8 = 0;
    pub const STORE: u8 = 1;
    pub const NON_TEMPORAL: u8 = 2;
    pub const LOAD: u8 = 3;
    pub const CLFLUSH: u8 = 4;
    pub const CLFLUSHOPT: u8 = 5;
    pub const CLWB: u8 = 6;
    pub const SFENCE: u8 = 7;
    pub const MFENCE: u8 = 8;
    /// A locked instruction that stores data to a file.
    pub const LOCKED: u8 = 9;
    /// One that does not.
    pub const LOCKED_ONLY: u8 = 10;
    pub const MSYNC: u8 = 11;
    /// Data: the address in the process.
    pub const MAP: u8 = 12;
    /// See [`MAP`].
    pub const UNMAP: u8 = 13;
    /// The kernel stored.
    pub const WRITE: u8 = 14;
    pub const TRUNCATE: u8 = 15;
    /// A call begins whose events, up to [`SYNC_ENDS`], cover what came before this.
    pub const SYNC_BEGINS: u8 = 16;
    /// It has ended.
    pub const SYNC_ENDS: u8 = 17;
    /// `sync_file_range`.
    pub const SYNC_RANGE: u8 = 18;
    /// The program wrote to its standard output.
    pub const OUTPUT: u8 = 19;
}

impl Head {
    /// Of an event without bytes.
    pub const fn of(kind: u8, site: u32) -> Self {
        Self { kind, file: 0, spare: 0, thread: 0, site, callers: 0, size: 0, offset: 0 }
    }

    /// Whether data follow, and how much of the ring it takes with them.
    pub const fn length(&self) -> u64 {
        let data = match self.kind {
            kind::STORE | kind::NON_TEMPORAL | kind::LOCKED | kind::WRITE | kind::OUTPUT => {
                self.size
            }
            kind::MAP | kind::UNMAP => 8,
            kind::SKIP => return self.size,
            _ => 0,
        };
        size_of::<Self>() as u64 + data.next_multiple_of(8)
    }
}
