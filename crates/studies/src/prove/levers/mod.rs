//! The levers: those of this crate, which change what the aggressor does, and those of limits.

mod environment;
mod form;
mod instruction;
mod other_dir;
mod pace;
mod placement;

use ringfence_limits::lever::Lever;
use ringfence_limits::{CPU_LEVERS, MEMORY_LEVERS};

/// All of them, in the order in which they are shown.
pub fn all() -> Vec<&'static dyn Lever> {
    let own: [&dyn Lever; 5] = [
        &placement::OtherPlacement,
        &instruction::GentlerInstruction,
        &form::GentlerForm,
        &environment::Environment,
        &pace::Pacing,
    ];
    let other_dir: [&dyn Lever; 1] = [&other_dir::OtherDir];
    own.into_iter().chain(CPU_LEVERS).chain(other_dir).chain(MEMORY_LEVERS).collect()
}

/// Their names, as on the command line.
pub fn names() -> Vec<&'static str> {
    all().iter().map(|lever| lever.name()).collect()
}

/// A line about each, as the help lists them.
pub fn list() -> String {
    let line = |lever: &&dyn Lever| format!("  {:<16}  {}", lever.name(), lever.about());
    all().iter().map(line).collect::<Vec<_>>().join("\n")
}
