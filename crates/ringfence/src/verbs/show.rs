//! `show`: a dataset again, from its samples.

use ringfence_dataset::{Dataset, text_file};
use ringfence_report::html::Digest;
use ringfence_report::json;
use ringfence_studies::pair;
use ringfence_studies::survey::Survey;
use ringfence_studies::tune;

use crate::args::Show;
use crate::failure::Failure;
use crate::output;
use crate::shared::folder;

pub fn run(args: &Show) -> Result<(), Failure> {
    let (style, dir) = (output::style(), &args.dataset);
    folder::refuse_file(dir)?;
    if folder::kind(dir).as_deref() == Some("prove") {
        let (proof, cut_short) = folder::proof(dir)?;
        if args.json {
            return output::print_json(&json::proof(&proof, dir, cut_short.as_deref(), None, &[]));
        }
        let cut = cut_short.map_or(String::new(), |why| format!("\n{why}\n"));
        return output::print(&(ringfence_report::prove(&proof, &style) + &cut));
    }
    if folder::kind(dir).as_deref() == Some("whatif") {
        let found = ringfence_studies::whatif::Files::of(dir).read().map_err(Failure::Usage)?;
        return match args.json {
            true => output::print_json(&json::whatif(&found, dir)),
            false => output::print(&ringfence_report::whatif(&found, &style)),
        };
    }
    if ringfence_versus::Files::are_in(dir) {
        let found = ringfence_versus::Files::read(dir).map_err(Failure::Usage)?;
        return match args.json {
            true => output::print_json(&json::versus(&found, dir)),
            false => output::print(&ringfence_report::versus::versus(&found, &style)),
        };
    }
    if Survey::is_at(dir) {
        let survey = Survey::open(dir, |_| {})?;
        return match args.json {
            true => output::print_json(&json::survey(&survey, dir)),
            false => output::print(&ringfence_report::survey(&survey, &style)),
        };
    }
    if let Some((question, outcome)) = pair::read(dir)? {
        if args.json {
            return output::print_json(&json::pairs(&question, &outcome, dir));
        }
        let cut = outcome.ended_early.as_ref().map_or(String::new(), |why| format!("\n{why}\n"));
        return output::print(&(ringfence_report::pair(&outcome, &style) + &cut));
    }
    let mut all = Vec::new();
    for dir in ringfence_dataset::list(dir)? {
        // One at a time: a dataset may hold a million samples, its figures are a few hundred.
        let digest = Digest::new(&Dataset::open(&dir)?);
        all.push((dir, digest));
    }
    if args.json {
        return output::print_json(&json::datasets(&all));
    }
    let mut text = String::new();
    for (dir, digest) in &all {
        text += &format!("{}\n", dir.display());
        if let Some(question) = &digest.findings.plan.experiment.question {
            text += &format!("{question}\n");
        }
        if digest.unfinished {
            text += "The run that measured this was killed; these are the samples that it had \
                     recorded.\n";
        }
        text += &format!("\n{}\n", ringfence_report::experiment(&digest.findings, &style));
    }
    if let Ok(policy) = text_file::read(&dir.join(tune::POLICY), text_file::LONGEST) {
        text += &ringfence_report::policy(&policy, &style);
    }
    output::print(&text)
}
