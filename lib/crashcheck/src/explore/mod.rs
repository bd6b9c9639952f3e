//! Every state that a crash can leave behind, one after the other, and recovery on each.

mod explorer;
mod repeat;
mod search;

pub(crate) use explorer::{Explorer, NEARBY_WORDS, Program, Recovery};
