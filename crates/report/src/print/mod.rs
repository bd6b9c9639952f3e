//! What all that people read is made of: figures with their units and intervals ([`numbers`]),
//! words as wide as a terminal ([`text`]), what a finding says ([`sentence`]), tables that fit into
//! it ([`table`]), and how it wants them ([`Style`]).
//!
//! Every function is a pure function of values; nothing prints, asks the terminal or reads the
//! environment.
//!
//! ```
//! use std::time::Duration;
//! use ringfence_report::print::numbers;
//!
//! assert_eq!(numbers::ns(1_250.0), "1.25 us");
//! assert_eq!(numbers::duration(Duration::from_secs(80)), "1 min 20 s");
//! ```

pub mod histogram;
pub mod numbers;
pub mod sentence;
pub mod style;
pub mod table;
pub mod text;
pub(crate) mod unknown;

pub use style::{NARROWEST, Style};
