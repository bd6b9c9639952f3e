//! From a description's units to whole picoseconds.

/// Bytes of a line.
pub const LINE: u64 = 64;
/// Bytes of a block of Optane media.
pub const BLOCK: u64 = 256;
/// Later than everything: what waits for an event whose time is not known yet.
pub const NEVER: u64 = u64::MAX;

/// A span in nanoseconds.
pub fn ps(ns: f64) -> u64 {
    (ns * 1e3).round() as u64
}

/// What so many bytes take at a rate, rounded up so that the rate is never exceeded.
pub fn transfer(bytes: u64, gb_per_s: f64) -> u64 {
    (bytes as f64 * 1e3 / gb_per_s).ceil() as u64
}
