//! The command line: flags in, experiments out. Nothing is measured here.

#![forbid(unsafe_code)]

mod args;
mod failure;
mod output;
mod progress;
mod shared;
mod verbs;

use std::io::Write;
use std::process::ExitCode;

// As much as Linux gives the first thread unless told otherwise; what is not touched costs nothing.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    // Workers and their guardian are this program too.
    ringfence_versus::launcher::enter_hidden_role();
    ringfence_crash::worker::enter_hidden_role();
    ringfence_engine::guardian::enter_hidden_role();
    if let Some(code) = verbs::resctrl::hidden_role() {
        return code;
    }
    // Reading a command line takes more stack than a small 'ulimit -s' leaves the first thread.
    let verb = std::thread::Builder::new().name("ringfence".into()).stack_size(STACK);
    match verb.spawn(verb_of_the_command_line).map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // It has said why it panicked.
        Ok(Err(_)) => ExitCode::from(101),
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "ringfence: no thread can be started: {error}; raise 'ulimit -u' or 'ulimit -v'"
            );
            ExitCode::FAILURE
        }
    }
}

fn verb_of_the_command_line() -> ExitCode {
    let done = match args::parse() {
        Ok(args) => {
            let done = verbs::run(args);
            shared::results::give_to_owner();
            done
        }
        Err(slip) => Err(failure::Failure::usage(slip)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure @ failure::Failure::Command(_)) => failure.code(),
        Err(failure) => {
            // stderr may be closed; the exit code still reports the failure. `eprintln!` would
            // panic.
            let text = failure.to_string();
            let text = ringfence_machine::text::printable_lines(&text);
            let _ = writeln!(std::io::stderr(), "ringfence: {text}");
            failure.code()
        }
    }
}
