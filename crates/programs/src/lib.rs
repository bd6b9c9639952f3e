//! What programs flush and fence: what stands in their files, what they did, and what of it they could save. For `census`
//! and `trace`.
//!
//! As in `ringfence-report`, which hands this on and makes pages of it, every function is a pure function from a value and a
//! `Style` to text. The parts that the pages say too are in [`executed`](mod@executed).

mod census;
pub mod executed;

use ringfence_text::{numbers, style, table, text};

pub use census::{census, census_diff};
pub use executed::{Told, executed, executed_diff};
