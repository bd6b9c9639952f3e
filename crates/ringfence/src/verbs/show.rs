//! `show`: a dataset again, from its samples.

use ringfence_dataset::Dataset;
use ringfence_studies::findings::Findings;
use ringfence_studies::pair;
use ringfence_studies::survey::Survey;
use serde_json::json;

use crate::args::Show;
use crate::failure::Failure;
use crate::output;
use crate::shared::folder;

pub fn run(args: &Show) -> Result<(), Failure> {
    let style = output::style();
    if folder::kind(&args.dataset).as_deref() == Some("prove") {
        let proof = folder::proof(&args.dataset)?;
        return match args.json {
            true => output::print_json(&json!({ "schema": 1, "dataset": args.dataset, "proof": proof })),
            false => output::print(&ringfence_report::prove(&proof, &style)),
        };
    }
    if !args.json && Survey::is_at(&args.dataset) {
        let survey = Survey::open(&args.dataset, |_| {})?;
        return output::print(&ringfence_report::survey(&survey, &style));
    }
    if let Some((question, outcome)) = pair::read(&args.dataset)? {
        if args.json {
            return output::print_json(&folder::pairs_as_json(&question, &outcome, &args.dataset));
        }
        let cut = outcome.ended_early.as_ref().map_or(String::new(), |why| format!("\n{why}\n"));
        return output::print(&(ringfence_report::pair(&outcome, &style) + &cut));
    }
    let (mut text, mut all) = (String::new(), Vec::new());
    for dir in ringfence_dataset::list(&args.dataset)? {
        let dataset = Dataset::open(&dir)?;
        let found = Findings::from(&dataset);
        if args.json {
            all.push(json!({
                "dataset": dir,
                "unfinished": dataset.unfinished(),
                "manifest": dataset.manifest,
                "results": found.results,
                "latencies": found.latencies,
                "aa": found.aa,
            }));
            continue;
        }
        text += &format!("{}\n", dir.display());
        if let Some(question) = &found.plan.experiment.question {
            text += &format!("{question}\n");
        }
        if dataset.unfinished() {
            text +=
                "The program that measured this was killed; these are the samples that it had recorded.\n";
        }
        text += &format!("\n{}\n", ringfence_report::experiment(&found, &style));
    }
    if args.json {
        return output::print_json(&json!({ "schema": 1, "datasets": all }));
    }
    output::print(&text)
}
