//! (empty)
use crate::case::Case;
pub const CASES: &[Case] = &[];
