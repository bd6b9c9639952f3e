//! This machine, or the files of another, and what ends a measurement early.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_dataset::text_file;
use ringfence_experiment::nearest::nearest;
use ringfence_machine::Machine;
use ringfence_machine::doctor::latency::CpuDmaLatency;
use ringfence_machine::root::FsRoot;
use ringfence_simulator::{Description, catalogue};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::On;
use crate::failure::Failure;

// Far more than a machine takes to describe.
const LONGEST_FILE: u64 = 1 << 20;

/// This machine.
pub fn examine() -> Result<Machine, Failure> {
    Machine::examine(&FsRoot::host()).map_err(Failure::failed_by)
}

/// The machine that is asked for: a described one, or this one.
pub fn machine(on: &On) -> Result<Machine, Failure> {
    match &on.machine {
        Some(name) => Ok(description(name)?.machine()),
        None => examine(),
    }
}

/// A machine file, or one that comes with the program.
pub fn description(name: &str) -> Result<Description, Failure> {
    let path = Path::new(name);
    let refuse = |why: String| Failure::usage(format!("{name}: {why}"));
    if !path.exists() && !name.contains(['/', '.']) {
        let all = catalogue::all();
        let known: Vec<&str> = all.iter().map(|description| description.name.as_str()).collect();
        let near =
            nearest(name, &known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        let unknown = format!(
            "there is no such file, and no machine of this name: {}{near}",
            known.join(", ")
        );
        return all
            .iter()
            .find(|description| description.name == name)
            .cloned()
            .ok_or_else(|| refuse(unknown));
    }
    let text = text_file::read(path, LONGEST_FILE)
        .map_err(|error| refuse(format!("{error}; name a machine file")))?;
    Description::parse(&text).map_err(|error| {
        refuse(format!(
            "{error}; correct the file, or name a machine that 'ringfence machine' lists"
        ))
    })
}

// timeout(1) signals this program, and then its group with it.
const ONE_REQUEST: Duration = Duration::from_millis(200);

/// Set by the first Ctrl-C or Ctrl-\\, which ends the measurement in good order; the second ends
/// the program.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])
        .map_err(|error| Failure::failed(format!("watching for signals: {error}")))?;
    let asked = Arc::clone(&stop);
    std::thread::spawn(move || {
        let mut first: Option<Instant> = None;
        for _ in signals.forever() {
            asked.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > ONE_REQUEST {
                eprintln!("ringfence: ended at once, by a second Ctrl-C or signal");
                signal_hook::low_level::exit(1);
            }
        }
    });
    Ok(stop)
}

/// The kernel's files below a folder that is there.
pub fn root(folder: &Path) -> Result<FsRoot, Failure> {
    let refused = |why: String| {
        let folder = folder.display();
        Failure::usage(format!(
            "--root: {folder}: {why}; name a folder that contains the kernel's files"
        ))
    };
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(FsRoot::at(folder)),
        Ok(_) => Err(refused("this is not a folder".into())),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Keeps CPUs out of deep idle states until it is dropped, where `--no-deep-idle` asks for it: the
/// file is held open, and the effect ends when it is closed.
pub fn keep_awake(asked: bool) -> Result<Option<CpuDmaLatency>, Failure> {
    let held = asked.then(CpuDmaLatency::hold).transpose();
    held.map_err(|error| Failure::usage(format!("--no-deep-idle: {error}")))
}
