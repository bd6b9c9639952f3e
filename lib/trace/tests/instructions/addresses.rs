//! Where things lie in the executor: beyond the first 1.25 GiB, in which the kernel begins its heap
//! anywhere (`arch_randomize_brk`), and below 2 GiB, so that an address fits into a displacement.

/// A part of the file, below 4 GiB.
pub const LOW: u64 = 0x5000_0000;
pub const LOW_SIZE: u64 = 0x2000;
/// Memory that is no file's, right behind it.
pub const ORDINARY: u64 = LOW + LOW_SIZE;
pub const ORDINARY_SIZE: u64 = 0x2000;
/// Another part of the file.
pub const HIGH: u64 = 0x7a00_0000_0000;
// Room behind the slot for all that XSAVE may store, by which the recorder goes: 11 KiB on a
// processor with AMX.
pub const HIGH_SIZE: u64 = 0x6000;
/// A page of the file that says which sequence runs.
pub const MARKER: u64 = 0x5100_0000;
pub const MARKER_SIZE: u64 = 0x1000;
/// What sequences load without a look at the file.
pub const CONSTANTS: u64 = 0x5900_0000;
pub const CONSTANTS_SIZE: u64 = 0x1000;
/// The sequences, one behind the other.
pub const CODE: u64 = 0x6000_0000;
/// What `fs` begins with.
pub const FS_BASE: u64 = 0x4000_0000;

/// What the compiler is told.
pub const ALL: [(&str, u64); 11] = [
    ("LOW", LOW),
    ("LOW_SIZE", LOW_SIZE),
    ("ORDINARY", ORDINARY),
    ("ORDINARY_SIZE", ORDINARY_SIZE),
    ("HIGH", HIGH),
    ("HIGH_SIZE", HIGH_SIZE),
    ("MARKER", MARKER),
    ("CONSTANTS", CONSTANTS),
    ("CONSTANTS_SIZE", CONSTANTS_SIZE),
    ("CODE", CODE),
    ("FS_BASE", FS_BASE),
];
