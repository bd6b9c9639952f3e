//! Asks a running service at a fixed rate in an open loop, and times every answer from when its
//! question was due.
//!
//! A [`Question`] says which [`Target`] to ask, what, how often, and where an answer [`Ends`].
//! [`Probe::open`] connects and learns; [`Probe::step`] sends what is due and gives out one
//! [`Answer`] for every question. The README says what is measured, how, and what is not.

#![forbid(unsafe_code)]

mod answer;
mod clock;
mod connection;
mod error;
mod escape;
mod first_questions;
mod frame;
mod learn;
mod ledger;
mod link;
mod pool;
mod probe;
mod question;
mod schedule;
mod target;
mod usage;

pub use answer::{Answer, Failure, Outcome};
pub use clock::now;
pub use error::ProbeError;
pub use escape::{escape, unescape};
pub use probe::Probe;
pub use question::{Ends, Loop, Question};
pub use rustix::io::Errno;
pub use target::Target;
pub use usage::Spent;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
