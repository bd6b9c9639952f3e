//! Modes, and regions that are locked into a cache (`rdtgroup_mode_write`, `pseudo_lock.c`).

use libc::{E2BIG, EINVAL, ENOMEM};

use super::machine::{Machine, Region};
use crate::mode::Mode;

/// The largest piece of memory that `kzalloc` gives (`KMALLOC_MAX_SIZE`).
const LARGEST: u64 = 4 << 20;

impl Machine {
    /// `rdtgroup_mode_write`.
    pub fn write_mode(&mut self, place: usize, text: &str) -> Result<(), i32> {
        let Some(word) = text.strip_suffix('\n') else { return Err(EINVAL) };
        self.status.clear();
        let mode = self.groups[place].mode;
        if word == mode.word() {
            return Ok(());
        }
        if mode == Mode::PseudoLocked {
            return self.refuse(EINVAL, "Cannot change pseudo-locked group");
        }
        let new = match word {
            "shareable" => Mode::Shareable,
            "exclusive" => {
                self.test_exclusive(self.groups[place].closid)?;
                Mode::Exclusive
            }
            "pseudo-locksetup" => {
                self.enter_locksetup(place)?;
                Mode::PseudoLocksetup
            }
            _ => return self.refuse(EINVAL, "Unknown or unsupported mode"),
        };
        if mode == Mode::PseudoLocksetup {
            // `rdtgroup_locksetup_exit`.
            if self.monitors() {
                self.groups[place].rmid = self.take_rmid()?;
            }
            self.groups[place].region = None;
        }
        self.groups[place].mode = new;
        Ok(())
    }

    /// `rdtgroup_locksetup_enter`.
    fn enter_locksetup(&mut self, place: usize) -> Result<(), i32> {
        if place == self.default_place() {
            return self.refuse(EINVAL, "Cannot pseudo-lock default group");
        }
        let options = self.hardware.options();
        if options.cdp || options.cdpl2 {
            return self.refuse(EINVAL, "CDP enabled");
        }
        if !self.hardware.pseudo_locking {
            return self.refuse(EINVAL, "Pseudo-locking not supported");
        }
        if !self.groups[place].monitors.is_empty() {
            return self.refuse(EINVAL, "Monitoring in progress");
        }
        if self.has_tasks(place) {
            return self.refuse(EINVAL, "Tasks assigned to resource group");
        }
        if !self.groups[place].cpus.is_empty() {
            return self.refuse(EINVAL, "CPUs assigned to resource group");
        }
        self.groups[place].region = Some(Region::default());
        let rmid = std::mem::take(&mut self.groups[place].rmid);
        self.give_rmid(rmid);
        Ok(())
    }

    /// `rdtgroup_pseudo_lock_create`, once the schemata was read.
    pub fn lock_region(&mut self, place: usize) -> Result<(), i32> {
        let at = self.groups[place].region.as_ref().and_then(|region| region.at);
        let Some((level, _, mask)) = at else { return Err(EINVAL) };
        let bytes = self.bytes(level, mask);
        let refusal = if bytes > LARGEST {
            Some((E2BIG, "Requested region exceeds maximum size"))
        } else if self.no_contiguous_memory {
            Some((ENOMEM, "Unable to allocate memory"))
        } else {
            None
        };
        if let Some((errno, text)) = refusal {
            self.groups[place].region = Some(Region::default());
            return self.refuse(errno, text);
        }
        self.groups[place].mode = Mode::PseudoLocked;
        self.free_closids.insert(self.groups[place].closid);
        Ok(())
    }
}
