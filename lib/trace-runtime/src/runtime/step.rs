//! An instruction of the program that is executed here: its accesses to memory and to the stack.

use super::addresses::alias;
use super::events::{is_recorded, record_load, record_store};
use super::frame::Registers;
use super::lock::Held;
use crate::layout::{Block, Site, register};

/// An instruction of the program that is executed here. Its accesses are the program's own, and
/// have the right to whatever the program's have.
pub struct Step<'a> {
    // Private, so that `new` alone makes one.
    held: &'a Held,
    pub block: &'a Block,
    pub site: &'a Site,
    pub registers: &'a mut Registers,
}

impl<'a> Step<'a> {
    /// # Safety
    /// The thread is inside [`super::routines::guarded`], so that a failed access ends it. What is
    /// accessed is what the instruction of the site accesses, with these registers.
    pub const unsafe fn new(
        held: &'a Held,
        block: &'a Block,
        site: &'a Site,
        registers: &'a mut Registers,
    ) -> Self {
        Self { held, block, site, registers }
    }

    pub const fn held(&self) -> &'a Held {
        self.held
    }

    fn place(&self, at: u64, size: u64) -> *mut u64 {
        (if is_recorded(self.held, self.site, at, size) { alias(at) } else { at }) as *mut u64
    }

    /// Loads 1, 2, 4 or 8 bytes.
    pub fn load(&self, at: u64, size: u64) -> u64 {
        let place = self.place(at, size);
        record_load(self.held, self.block, self.site, at, size);
        // SAFETY: the program's own access, at the alias where it is a file's: see `new`. Where it
        // fails, `guarded` returns.
        unsafe {
            match size {
                1 => place.cast::<u8>().read_unaligned().into(),
                2 => place.cast::<u16>().read_unaligned().into(),
                4 => place.cast::<u32>().read_unaligned().into(),
                _ => place.read_unaligned(),
            }
        }
    }

    /// Stores 2 or 8 bytes.
    pub fn store(&self, at: u64, size: u64, value: u64) {
        let place = self.place(at, size);
        // SAFETY: as for `load`.
        unsafe {
            match size {
                2 => place.cast::<u16>().write_unaligned(value as u16),
                _ => place.write_unaligned(value),
            }
        }
        record_store(self.held, self.block, self.site, at, size);
    }

    /// Loads some bytes of a vector's element.
    pub fn load_element(&self, at: u64, size: usize) -> u64 {
        let place = self.place(at, size as u64);
        record_load(self.held, self.block, self.site, at, size as u64);
        let mut value = 0u64;
        // SAFETY: as for `load`; an element has 8 bytes at most.
        unsafe {
            core::ptr::copy_nonoverlapping(place.cast::<u8>(), (&raw mut value).cast(), size)
        };
        value
    }

    /// Stores some bytes of a vector's element. They are not recorded.
    pub fn store_element(&self, at: u64, size: usize, value: u64) {
        let place = self.place(at, size as u64);
        // SAFETY: as for `load`; an element has 8 bytes at most.
        unsafe {
            core::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place.cast(), size)
        };
    }

    pub fn push(&mut self, value: u64) {
        let size = u64::from(self.site.element);
        let at = self.registers.get(register::RSP).wrapping_sub(size);
        self.store(at, size, value);
        self.registers.set(register::RSP, at);
    }

    pub fn pop(&mut self) -> u64 {
        let (at, size) = (self.registers.get(register::RSP), u64::from(self.site.element));
        let value = self.load(at, size);
        self.registers.set(register::RSP, at.wrapping_add(size));
        value
    }
}
