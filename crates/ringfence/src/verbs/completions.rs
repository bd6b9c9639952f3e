//! `completions`: what a shell needs to complete verbs and flags.

use clap_complete::Shell;
use clap_complete::aot::generate;

use crate::args::{self, Completions};
use crate::failure::Failure;
use crate::output;

pub fn run(asked: &Completions) -> Result<(), Failure> {
    let shell = match asked.shell {
        args::Shell::Bash => Shell::Bash,
        args::Shell::Zsh => Shell::Zsh,
        args::Shell::Fish => Shell::Fish,
    };
    // Not to standard output at once: the library panics where nobody reads it.
    let mut script = Vec::new();
    generate(shell, &mut args::command(), "ringfence", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
