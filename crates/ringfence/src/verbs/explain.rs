//! `explain`: how durable a store to a path can become.

use ringfence_json as json;
use ringfence_persist::{Durability, Explanation, RegionError};

use crate::args::Explain;
use crate::failure::Failure;
use crate::output;

pub fn run(explain: &Explain) -> Result<(), Failure> {
    let said = Explanation::of(&explain.path).map_err(|error| failure(&error))?;
    if explain.json {
        return output::print_json(&json::explanation(&json::Explanation {
            path: said.subject(),
            durability: &name(said.durability()),
            elides_flushes: said.durability().elides_flushes(),
            verdict: &said.verdict(),
            reasons: said.reasons(),
            remedies: said.remedies(),
        }));
    }
    let text = ringfence_report::explain(&said.verdict(), said.reasons(), said.remedies(), &output::style());
    output::print(&text)
}

fn name(durability: Durability) -> String {
    durability.to_string().replace(['(', ')'], "").replace(' ', "-").to_lowercase()
}

fn failure(error: &RegionError) -> Failure {
    if error.is_usage() { Failure::Usage(error.to_string()) } else { Failure::Failed(error.to_string()) }
}
