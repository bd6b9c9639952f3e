//! What a fleet shows: which hosts differ, in what, and what to expect of the next one of a kind.
//!
//! An [`Overview`] is made of the figures of all hosts; [`text`] and [`page`] show it. Nothing here
//! reads a file or a clock.

mod cells;
mod comparison;
pub(crate) mod json;
mod names;
mod overview;
mod page;
mod small_fleets;
mod text;

pub use comparison::{By, Change, Compared, compare_facts, compare_fleets};
pub use overview::{
    Claim, Counts, Group, Host, HostFigure, Known, Lost, NotRun, Outlying, Overview, Question,
    Summary, overview,
};
pub use page::page;
pub use text::{left_out, states, status, text};
