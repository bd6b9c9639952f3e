//! `topology` and `doctor`.

use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_machine::Machine;
use ringfence_machine::doctor::{Busiest, Processes};
use ringfence_machine::medium::Medium;
use ringfence_machine::root::FsRoot;
use ringfence_report::json;

use crate::args::Inspect;
use crate::failure::Failure;
use crate::output;
use crate::shared::{host, medium};

pub fn topology(inspect: &Inspect) -> Result<(), Failure> {
    let machine = examine(inspect)?;
    if inspect.json {
        return output::print_json(&json::topology(&machine.topology));
    }
    output::print(&ringfence_report::topology(&machine.topology, &output::style()))
}

pub fn doctor(inspect: &Inspect) -> Result<(), Failure> {
    let mut machine = examine(inspect)?;
    // Another machine's files say nothing of the folder that this program is in.
    if inspect.root == Path::new("/") {
        machine.findings.extend(medium::of(Path::new(".")).iter().flat_map(Medium::findings));
        machine.findings.sort_by_key(|finding| finding.severity);
    }
    if inspect.json {
        return output::print_json(&json::doctor(&machine));
    }
    let busiest = (inspect.root == Path::new("/")).then(busiest);
    let (findings, targets) = (&machine.findings, &machine.targets);
    let style = output::style();
    output::print(&ringfence_report::doctor(findings, targets, busiest.as_ref(), &style))
}

/// How long processes are watched, and how many are named.
const WATCHED: Duration = Duration::from_millis(500);
const NAMED: usize = 3;

fn busiest() -> Busiest {
    let root = FsRoot::host();
    let (before, started) = (Processes::read(&root), Instant::now());
    std::thread::sleep(WATCHED);
    before.until(&Processes::read(&root), started.elapsed(), NAMED)
}

fn examine(inspect: &Inspect) -> Result<Machine, Failure> {
    Machine::examine(&host::root(&inspect.root)?).map_err(Failure::usage_by)
}
