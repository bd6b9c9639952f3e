//! The command line: flags in, experiments out. Nothing is measured here.

mod args;
mod failure;
mod output;
mod progress;
mod verbs;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // Workers and their guardian are this program too.
    ringfence_lab::engine::guardian::enter_hidden_role();
    let args = args::Args::parse();
    match verbs::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Where nobody reads it, the exit code still says so; `eprintln!` would panic.
            let _ = writeln!(std::io::stderr(), "ringfence: {failure}");
            failure.code()
        }
    }
}
