//! The medium below memory: facts from the kernel's files ([`facts`]), and the verdict they lead to
//! ([`judge`], a function of values).

pub(super) mod facts;
pub(super) mod judge;
mod sysfs;
#[cfg(test)]
mod tests;

pub(super) use facts::{Facts, Kind};
pub(super) use judge::{MapSync, judge};
