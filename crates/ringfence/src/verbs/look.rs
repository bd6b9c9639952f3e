//! `topology` and `doctor`.

use ringfence_machine::Machine;
use ringfence_report::json;

use crate::args::Look;
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

pub fn topology(look: &Look) -> Result<(), Failure> {
    let machine = examine(look)?;
    if look.json {
        return output::print_json(&json::topology(&machine.topology));
    }
    output::print(&ringfence_report::topology(&machine.topology, &output::style()))
}

pub fn doctor(look: &Look) -> Result<(), Failure> {
    let machine = examine(look)?;
    if look.json {
        return output::print_json(&json::doctor(&machine));
    }
    let style = output::style();
    let findings = ringfence_report::doctor(&machine.findings, &style);
    let targets = ringfence_report::targets(&machine.targets, &style);
    output::print(&format!("{findings}\n{targets}"))
}

fn examine(look: &Look) -> Result<Machine, Failure> {
    Machine::examine(&host::root(&look.root)?).map_err(|error| Failure::Usage(error.to_string()))
}
