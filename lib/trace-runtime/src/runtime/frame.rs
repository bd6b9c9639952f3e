//! What the kernel keeps of a thread while a signal is handled: registers, mask, and why.

use super::sys;
use crate::layout::register;

/// The registers of a thread, in the order of [`register`], as a signal's frame or a stub has them.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Registers([u64; 18]);

impl Registers {
    /// By one of [`register`].
    pub fn get(&self, register: usize) -> u64 {
        self.0[register]
    }

    pub fn set(&mut self, register: usize, value: u64) {
        self.0[register] = value;
    }

    /// That of a site, which may be none.
    pub fn of(&self, register: u8) -> u64 {
        if register == register::NONE { 0 } else { self.get(register as usize) }
    }

    pub const fn all(&self) -> &[u64; 18] {
        &self.0
    }

    /// Has a thread stop behind its next instruction.
    pub fn trace(&mut self, is_on: bool) {
        const TRAP_FLAG: u64 = 0x100;
        let flags = self.get(register::FLAGS) & !TRAP_FLAG;
        self.set(register::FLAGS, flags | if is_on { TRAP_FLAG } else { 0 });
    }
}

/// A signal's frame (`ucontext_t`).
#[repr(C)]
pub struct Frame {
    flags: u64,
    link: u64,
    /// The signal stack that the kernel puts back at the end: address, flags, size.
    pub stack: [u64; 3],
    pub registers: Registers,
    // Segments, the processor's error, the old mask.
    other: [u64; 5],
    /// Where the extended state is saved.
    pub saved: *mut u8,
    reserved: [u64; 8],
    /// The mask of signals that the kernel puts back at the end.
    pub mask: u64,
}

const _: () = assert!(core::mem::offset_of!(Frame, registers) == 5 * 8, "as the kernel has it");
const _: () = assert!(core::mem::offset_of!(Frame, saved) == 28 * 8, "as the kernel has it");
const _: () = assert!(core::mem::offset_of!(Frame, mask) == 37 * 8, "as the kernel has it");

/// What the kernel tells of a signal (`siginfo_t`).
#[repr(C)]
pub struct Info {
    pub signal: i32,
    error: i32,
    pub code: i32,
    spare: i32,
    rest: [u64; 14],
}

impl Info {
    /// Of a fault.
    pub const fn address(&self) -> u64 {
        self.rest[0]
    }

    pub const fn set_address(&mut self, address: u64) {
        self.rest[0] = address;
    }

    /// The same as words.
    pub fn words(&self) -> [u64; 16] {
        let pair = |low: i32, high: i32| u64::from(low as u32) | u64::from(high as u32) << 32;
        let mut words = [0; 16];
        words[0] = pair(self.signal, self.error);
        words[1] = pair(self.code, self.spare);
        words[2..].copy_from_slice(&self.rest);
        words
    }
}

/// The signals that we need.
pub const OURS: u64 = bit(sys::SIGSEGV) | bit(sys::SIGTRAP) | bit(sys::SIGSYS) | bit(sys::SIGBUS);

/// A signal's place in a mask.
pub const fn bit(signal: u64) -> u64 {
    1 << (signal - 1)
}
