//! `topology` and `doctor`.

use std::path::Path;

use ringfence_machine::Machine;
use ringfence_machine::root::FsRoot;

use crate::args::Look;
use crate::failure::Failure;
use crate::output;

pub fn topology(look: &Look) -> Result<(), Failure> {
    let machine = examine(look)?;
    if look.json {
        return output::print_json(&machine.topology);
    }
    output::print(&ringfence_report::topology(&machine.topology, &output::style()))
}

pub fn doctor(look: &Look) -> Result<(), Failure> {
    let machine = examine(look)?;
    if look.json {
        return output::print_json(&serde_json::json!({
            "findings": machine.findings,
            "targets": machine.targets,
        }));
    }
    let style = output::style();
    let findings = ringfence_report::doctor(&machine.findings, &style);
    let targets = ringfence_report::targets(&machine.targets, &style);
    output::print(&format!("{findings}\n{targets}"))
}

fn examine(look: &Look) -> Result<Machine, Failure> {
    Machine::examine(&root(&look.root)?).map_err(|error| Failure::Usage(error.to_string()))
}

/// The kernel's files below a folder that is there.
pub(super) fn root(folder: &Path) -> Result<FsRoot, Failure> {
    let refused = |why: String| {
        let folder = folder.display();
        Failure::Usage(format!("--root: {folder}: {why}; name a folder below which the kernel's files lie"))
    };
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(FsRoot::at(folder)),
        Ok(_) => Err(refused("this is no folder".into())),
        Err(error) => Err(refused(error.to_string())),
    }
}
