//! A model of x86's persistency, and an explorer of every state of memory that a crash can leave,
//! for code written on [`ringfence_persist::Memory`].
//!
//! ```
//! use ringfence_crashcheck::{Profile, check};
//! use ringfence_persist::Memory;
//!
//! let report = check(
//!     Profile::IntelAdr,
//!     128,
//!     |memory| {
//!         memory.store_u64(0, 42);
//!         memory.flush(0..8);
//!         memory.sfence(); // without it the flag could be in memory before the value
//!         memory.store_u64(64, 1);
//!         memory.flush(64..72);
//!         memory.sfence();
//!         memory.acknowledge(42);
//!     },
//!     |memory| match (memory.marks().last(), memory.load_u64(64)) {
//!         (None, 0) => Ok(()),
//!         (_, 1) if memory.load_u64(0) == 42 => Ok(()),
//!         (acknowledged, flag) => {
//!             Err(format!("acknowledged {acknowledged:?}, the flag is {flag}"))
//!         }
//!     },
//! );
//! report.expect_sound();
//! ```
//!
//! [`Check`] has more options: several crashes, names for fields, limits, random searches. The
//! README starts with an empty project.

mod bytes;
mod check;
mod checksum_gaps;
mod choices;
mod content;
mod crash_image;
mod event;
mod explore;
mod fate;
mod fix;
mod lint;
mod list;
mod log;
mod machine;
mod mismatches;
mod names;
mod non_temporal;
mod panics;
mod past;
mod profile;
mod question;
mod raw;
mod recorded;
mod report;
mod run;
mod shrink;
mod stack;
mod stop;
mod story;
mod trie;
mod values;
mod watch;

pub use check::check;
pub use event::{At, Event, Kind, WORD, Write};
pub use fate::Fate;
pub use fix::Fix;
pub use lint::{BLOCK, Drops, DurableBy, Lint, Lints, Rule, Scope};
pub use machine::Machine;
pub use profile::Profile;
pub use question::Check;
pub use recorded::{Content, Leaves, Recorded, Unit, WrittenBack};
pub use report::{Report, Violation};
pub use ringfence_persist::policy::Prices;
pub use stop::Fault;
pub use story::Story;

// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
