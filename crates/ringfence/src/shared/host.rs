//! This machine, or the files of another, and what ends a measurement early.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ringfence_machine::Machine;
use ringfence_machine::doctor::latency::CpuDmaLatency;
use ringfence_machine::root::FsRoot;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::failure::Failure;

/// This machine.
pub fn examine() -> Result<Machine, Failure> {
    Machine::examine(&FsRoot::host()).map_err(|error| Failure::Failed(error.to_string()))
}

/// Set by the first Ctrl-C or Ctrl-\\, which ends the measurement in good order; the second ends the program.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|error| Failure::Failed(format!("watching for signal {signal}: {error}")))?;
    }
    Ok(stop)
}

/// The kernel's files below a folder that is there.
pub fn root(folder: &Path) -> Result<FsRoot, Failure> {
    let refused = |why: String| {
        let folder = folder.display();
        Failure::Usage(format!("--root: {folder}: {why}; name a folder that contains the kernel's files"))
    };
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(FsRoot::at(folder)),
        Ok(_) => Err(refused("this is not a folder".into())),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Keeps CPUs out of deep idle states until it is dropped, where `--no-deep-idle` asks for it: the file is held
/// open, and the effect ends when it is closed.
pub fn keep_awake(asked: bool) -> Result<Option<CpuDmaLatency>, Failure> {
    let held = asked.then(CpuDmaLatency::hold).transpose();
    held.map_err(|error| Failure::Usage(format!("--no-deep-idle: {error}")))
}
