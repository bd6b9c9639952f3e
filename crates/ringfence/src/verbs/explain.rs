//! `explain`: how durable a store to a path can become, and what stands between a file and its
//! medium.

use ringfence_persist::{Durability, Explanation, RegionError};
use ringfence_report::{Explained, json};

use crate::args::Explain;
use crate::failure::Failure;
use crate::output;
use crate::shared::medium;

pub fn run(explain: &Explain) -> Result<(), Failure> {
    let said = Explanation::of(&explain.path).map_err(|error| failure(&error))?;
    let medium = medium::of(&explain.path);
    if explain.json {
        return output::print_json(&json::explanation(&json::Explanation {
            path: said.subject(),
            durability: &name(said.durability()),
            elides_flushes: said.durability().elides_flushes(),
            verdict: &said.verdict(),
            reasons: said.reasons(),
            remedies: said.remedies(),
            medium: medium.as_ref(),
        }));
    }
    let verdict = said.verdict();
    if !explain.verbose {
        let brief = Explained {
            subject: said.subject(),
            verdict: &verdict,
            reasons: said.reasons(),
            is_ordinary: said.durability() == Durability::PageCache,
            medium: medium.as_ref(),
        };
        return output::print(&ringfence_report::explain_brief(&brief, &output::style()));
    }
    let mut parts = vec![(verdict.as_str(), led("because", said.reasons()))];
    parts[0].1.extend(led("for more", said.remedies()));
    let below = medium.map(|medium| medium.shown()).unwrap_or_default();
    parts.extend(below.into_iter().map(|part| (part.heading, part.lines)));
    output::print(&ringfence_report::explain(&parts, &output::style()))
}

fn led(lead: &str, texts: &[String]) -> Vec<(String, String)> {
    let lead = |n| if n == 0 { lead.to_string() } else { String::new() };
    texts.iter().enumerate().map(|(n, text)| (lead(n), text.clone())).collect()
}

fn name(durability: Durability) -> String {
    durability.to_string().replace(['(', ')'], "").replace(' ', "-").to_lowercase()
}

fn failure(error: &RegionError) -> Failure {
    if error.is_usage() {
        Failure::usage(error.to_string())
    } else {
        Failure::failed(error.to_string())
    }
}
