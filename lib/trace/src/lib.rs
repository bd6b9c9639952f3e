//! Programs as they are: what their code does to make stores durable.
//!
//! [`census`] reads program files and libraries and finds every flush, fence, non-temporal store
//! and locked instruction in them, by function, without running anything:
//!
//! ```
//! use ringfence_trace::census;
//! use ringfence_trace::code::Operation;
//!
//! let this = std::env::current_exe()?;
//! let census = census::of(&[this])?;
//! let locked = census.files[0].counts.of(Operation::Locked);
//! println!("{locked} locked instructions");
//! # assert!(locked > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`code`] is what it rests on: which instruction is what, and the functions of an ELF file.
//!
//! [`recording`] holds what a program did while it ran, event by event ([`events`]), on disk;
//! [`replay()`] makes the files of its end from that.

#![deny(unsafe_code)]

pub mod census;
pub mod code;
pub mod events;
pub mod playback;
pub mod record;
pub mod recording;
mod replay;
pub mod symbols;

pub use ringfence_crashcheck::Profile;

pub use replay::{ReplayError, replay};

// The README's examples run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
