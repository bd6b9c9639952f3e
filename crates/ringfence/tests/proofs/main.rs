//! `prove`: verdicts on this machine, of programs whose conflict is known and of programs that
//! people have.

mod budgets;
mod conflicts;
mod others_programs;
mod quantities;
#[path = "../support/mod.rs"]
mod support;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

// All measure on the same CPUs, and would be each other's aggressors. Every test here takes this
// lock.
static MACHINE: RwLock<()> = RwLock::new(());

// For a test that asserts a verdict or a figure.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

// For a test that asserts what holds whatever else runs.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}
