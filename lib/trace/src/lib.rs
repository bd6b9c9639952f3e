//! Unmodified programs: what their code does to make stores durable.
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
//! It is based on [`code`]: the kinds of instructions, and the functions of an ELF file.
//!
//! [`recording`] stores on disk what a program did while it ran, event by event ([`events`]);
//! [`replay()`] restores the final files from it.

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
