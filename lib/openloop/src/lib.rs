//! Queries a running service at a fixed rate in an open loop, and times every answer from the
//! moment at which its question was due.
//!
//! A [`Question`] contains the [`Target`], the request, its rate, and where an answer [`Ends`].
//! [`Probe::open`] connects and learns the answer's form; [`Probe::step`] sends due questions and
//! returns one [`Answer`] for each. The README explains what is measured, how, and what is not.

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
