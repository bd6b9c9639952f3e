//! Claims of published documents, compared with results; and datasets made fit for publishing.
//!
//! A [`Ledger`] says what was claimed, where, and which cases of which experiment test it.
//! [`Evidence`] is a dataset of one such experiment, from a machine or a simulation of one.
//! [`judge`] makes a [`Table`] of both: for each claim what was published, what was simulated and
//! what was measured, and a verdict. Each follows from figures, or from what a test of the crash
//! checker shows, which the ledger names; where there is neither, it says why.
//!
//! [`note_tables`] are a document's own tables, each published figure beside what was simulated and
//! measured of it.
//!
//! [`clean`] takes out of a dataset whatever names a host, a person or a folder, so that it can be
//! kept where all can see it.
//!
//! Everything here is a function of values: nothing reads a file or a clock.

#![forbid(unsafe_code)]

pub mod clean;
mod evidence;
mod expect;
mod judge;
mod ledger;
mod note;

pub use evidence::{Evidence, Machine};
pub use expect::{Expect, Verdict};
pub use judge::{Basis, Figure, Judged, Outcome, Table, Tested, judge};
pub use ledger::{Claim, Document, Explored, Kind, Ledger, Test};
pub use note::{NoteLine, NoteTable, note_tables};
