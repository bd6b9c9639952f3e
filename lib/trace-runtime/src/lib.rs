//! What runs inside a recorded process, as the bytes of an executable, and how the recorder and it
//! share memory.
//!
//! The crate is compiled twice from the same sources. As a library it has [`ELF`] and [`layout`]
//! for the recorder. As an executable, which `build.rs` makes, it is mapped into each recorded
//! process before the program's first instruction.

#![no_std]
#![cfg_attr(executable, no_main)]

#[cfg_attr(executable, allow(dead_code, reason = "the recorder alone uses some of it"))]
pub mod layout;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[cfg_attr(not(executable), allow(dead_code, reason = "only the executable runs it"))]
mod runtime;

/// The executable: an ELF file whose segments lie at the addresses where they are to be mapped.
/// Empty where programs cannot be recorded, which is everywhere but on x86-64 Linux.
#[cfg(not(executable))]
pub static ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.elf"));
