//! One file per verb.

mod aa;
mod compare;
mod experiment;
mod explain;
mod lock;
mod look;
mod neighbours;
mod pair;
mod prove;
mod report;
mod reproduce;
mod resctrl;
mod resume;
mod sensitivity;
mod show;
mod survey;
mod tune;
mod write;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ringfence_machine::Machine;
use ringfence_machine::root::FsRoot;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::args::{Args, Verb};
use crate::failure::Failure;

/// Does what was asked.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.verb {
        Verb::Survey(survey) => survey::run(&survey),
        Verb::Prove(prove) => prove::run(&prove),
        Verb::Tune(tune) => tune::run(&tune),
        Verb::Topology(look) => look::topology(&look),
        Verb::Doctor(look) => look::doctor(&look),
        Verb::Resctrl(resctrl) => resctrl::run(&resctrl),
        Verb::Lock(lock) => lock::run(&lock),
        Verb::Explain(explain) => explain::run(&explain),
        Verb::Write(write) => write::run(&write),
        Verb::Neighbours(neighbours) => neighbours::run(&neighbours),
        Verb::Pair(pair) => pair::run(&pair),
        Verb::Sensitivity(sensitivity) => sensitivity::run(&sensitivity),
        Verb::Run(run) => experiment::run_file(&run),
        Verb::Aa(aa) => aa::run(&aa),
        Verb::Show(show) => show::run(&show),
        Verb::Report(report) => report::run(&report),
        Verb::Reproduce(reproduce) => reproduce::run(&reproduce),
        Verb::Compare(compare) => compare::run(&compare),
    }
}

fn examine() -> Result<Machine, Failure> {
    Machine::examine(&FsRoot::host()).map_err(|error| Failure::Failed(error.to_string()))
}

// Set by the first Ctrl-C or Ctrl-\\, which ends the measurement in good order; the second ends the program.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|error| Failure::Failed(format!("watching for signal {signal}: {error}")))?;
    }
    Ok(stop)
}
