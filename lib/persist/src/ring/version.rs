//! The version of the format, which errors name too.

/// The version of the format.
pub const VERSION: u32 = 1;
