//! `machine`: described machines, which can be simulated.

use ringfence_json as json;
use ringfence_simulated::shipped;

use crate::args::Describe;
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

pub fn run(args: &Describe) -> Result<(), Failure> {
    let style = output::style();
    let Some(machine) = &args.machine else {
        let all = shipped::all();
        return match args.json {
            true => output::print_json(&json::machines(&all)),
            false => output::print(&ringfence_report::machines(&all, &style)),
        };
    };
    let description = host::description(machine)?;
    if args.file {
        return output::print(description.text.trim_end());
    }
    match args.json {
        true => output::print_json(&json::machine(&description)),
        false => output::print(&ringfence_report::machine(&description, &style)),
    }
}
