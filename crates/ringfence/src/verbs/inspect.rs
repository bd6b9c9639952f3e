//! `topology` and `doctor`.

use std::path::Path;

use ringfence_machine::Machine;
use ringfence_machine::medium::Medium;
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
    let style = output::style();
    let findings = ringfence_report::doctor(&machine.findings, &style);
    let targets = ringfence_report::targets(&machine.targets, &style);
    output::print(&format!("{findings}\n{targets}"))
}

fn examine(inspect: &Inspect) -> Result<Machine, Failure> {
    Machine::examine(&host::root(&inspect.root)?).map_err(|error| Failure::Usage(error.to_string()))
}
