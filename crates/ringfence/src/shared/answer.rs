//! What a folder holds, read once: as text, as a JSON document and as a page.

use std::path::{Path, PathBuf};

use ringfence_crash::Answer as Crash;
use ringfence_dataset::{Dataset, text_file};
use ringfence_experiment::start::unlike_the_others;
use ringfence_report::html::{self, Digest, Page};
use ringfence_report::{Style, Told, json};
use ringfence_studies::pair;
use ringfence_studies::prove::Proof;
use ringfence_studies::survey::Survey;
use ringfence_studies::tune;
use ringfence_studies::whatif::{self, WhatIf};
use ringfence_trace::Profile;
use ringfence_trace::census::dynamic::Run;
use ringfence_trace::recording::Reader;
use ringfence_versus as versus;

use super::results::rest;
use super::{folder, traces};
use crate::failure::Failure;
use crate::output;

/// An answer of a verb, or datasets.
pub struct Answer {
    dir: PathBuf,
    found: Found,
}

enum Found {
    Survey(Box<Survey>, Vec<Digest>),
    Versus(Box<versus::Findings>),
    WhatIf(Box<WhatIf>),
    // With the reason why it is incomplete, if it is.
    Proof(Box<Proof>, Option<String>),
    Pairs(Box<(pair::Question, pair::Outcome)>),
    Trace(Box<Run>),
    Crash(Box<Crash>),
    Datasets(Vec<(PathBuf, Digest)>),
}

impl Answer {
    /// Reads a folder.
    pub fn open(dir: &Path) -> Result<Self, Failure> {
        folder::refuse_file(dir)?;
        Ok(Self { dir: dir.into(), found: Found::read(dir)? })
    }

    /// What `show` prints.
    pub fn text(&self, style: &Style) -> String {
        let unfinished = |why: &Option<String>| why.as_ref().map(|why| format!("\n{why}\n"));
        match &self.found {
            Found::Survey(survey, _) => {
                ringfence_report::survey(survey, style) + &rest(&self.dir, style)
            }
            Found::Versus(found) => ringfence_report::versus::versus(found, style),
            Found::WhatIf(found) => ringfence_report::whatif(found, style),
            Found::Proof(proof, why) => {
                ringfence_report::prove(proof, style) + &unfinished(why).unwrap_or_default()
            }
            Found::Pairs(found) => {
                let outcome = &found.1;
                let why = unfinished(&outcome.ended_early).unwrap_or_default();
                ringfence_report::pair(outcome, style) + &why + &rest(&self.dir, style)
            }
            Found::Crash(found) => ringfence_report::crash(found, style),
            Found::Trace(run) => ringfence_report::executed(&told(run), style.details, style),
            Found::Datasets(all) => self.datasets(all, style),
        }
    }

    // A policy is the answer, where there is one.
    fn datasets(&self, all: &[(PathBuf, Digest)], style: &Style) -> String {
        let policy = text_file::read(&self.dir.join(tune::POLICY), text_file::LONGEST).ok();
        let policy = policy.map(|policy| ringfence_report::policy(&policy, style));
        if style.details {
            let text: String = all.iter().map(|one| dataset(one, style)).collect();
            return text + &policy.unwrap_or_default();
        }
        let several = all.len() > 1 || policy.is_some();
        let texts = all.iter().map(|(dir, digest)| match several {
            true => format!("{}\n{}", dir.display(), short(digest, style)),
            false => short(digest, style),
        });
        let text = policy.into_iter().chain(texts).collect::<Vec<_>>().join("\n");
        format!("{text}dataset: {}\n{}", self.dir.display(), rest(&self.dir, style))
    }

    /// Prints what `show --json` prints.
    pub fn print_json(&self) -> Result<(), Failure> {
        let dir = &self.dir;
        match &self.found {
            Found::Survey(survey, _) => output::print_json(&json::survey(survey, dir)),
            Found::Versus(found) => output::print_json(&json::versus(found, dir)),
            Found::WhatIf(found) => output::print_json(&json::whatif(found, dir)),
            Found::Proof(proof, why) => {
                output::print_json(&json::proof(proof, dir, why.as_deref(), None, &[]))
            }
            Found::Pairs(found) => output::print_json(&json::pairs(&found.0, &found.1, dir)),
            Found::Crash(found) => output::print_json(&json::crash(found, dir)),
            Found::Trace(run) => output::print_json(&json::census_run(&told(run))),
            Found::Datasets(all) => output::print_json(&json::datasets(all)),
        }
    }

    /// What `report` writes.
    pub fn page(self) -> Result<Page, Failure> {
        let dir = &self.dir;
        Ok(match self.found {
            Found::Survey(survey, digests) => html::survey(&survey, &digests),
            Found::Versus(found) => {
                let runs = versus::Files::runs(dir, &found)?;
                html::versus(&found, &runs)
            }
            Found::WhatIf(found) => html::whatif(&found),
            Found::Proof(proof, why) => {
                // A proof that its control has refused has no dataset.
                let folders = ringfence_dataset::list(dir).unwrap_or_default();
                html::proof(&proof, why.as_deref(), &digests(folders)?)
            }
            Found::Pairs(found) => html::pairs(&found.1, &digests(ringfence_dataset::list(dir)?)?),
            Found::Trace(run) => html::executed(&told(&run)),
            Found::Crash(found) => html::crash(&found),
            Found::Datasets(all) => {
                html::datasets(&all.into_iter().map(|(_, digest)| digest).collect::<Vec<_>>())
            }
        })
    }
}

impl Found {
    fn read(dir: &Path) -> Result<Self, Failure> {
        match folder::kind(dir).as_deref() {
            Some("prove") => {
                let (proof, why) = folder::proof(dir)?;
                return Ok(Self::Proof(Box::new(proof), why));
            }
            Some("whatif") => {
                let found = whatif::Files::of(dir).read()?;
                return Ok(Self::WhatIf(Box::new(found)));
            }
            _ => {}
        }
        if Crash::is_in(dir) {
            return Ok(Self::Crash(Box::new(Crash::open(dir).map_err(Failure::usage)?)));
        }
        if Reader::is_one(dir) {
            return Ok(Self::Trace(Box::new(traces::executed(dir, Profile::IntelAdr)?.1)));
        }
        if versus::Files::are_in(dir) {
            let found = versus::Files::read(dir)?;
            return Ok(Self::Versus(Box::new(found)));
        }
        if Survey::is_at(dir) {
            let mut digests = Vec::new();
            let survey = Survey::open(dir, |dataset| digests.push(Digest::new(dataset)))?;
            return Ok(Self::Survey(Box::new(survey), digests));
        }
        if let Some(found) = pair::read(dir)? {
            return Ok(Self::Pairs(Box::new(found)));
        }
        let folders = ringfence_dataset::list(dir)?;
        let digests = digests(folders.clone())?;
        Ok(Self::Datasets(folders.into_iter().zip(digests).collect()))
    }
}

fn told(run: &Run) -> Told<'_> {
    Told { run, saving: None, checked: None }
}

// One at a time: a dataset may hold a million samples, its figures are a few hundred.
fn digests(folders: Vec<PathBuf>) -> Result<Vec<Digest>, Failure> {
    folders.iter().map(|folder| Ok(Digest::new(&Dataset::open(folder)?))).collect()
}

const UNFINISHED: &str = "The run that measured this was killed; these are the samples that it had \
                          recorded.\n";

fn short(digest: &Digest, style: &Style) -> String {
    let found = &digest.findings;
    let mut text = if digest.unfinished { UNFINISHED.to_owned() } else { String::new() };
    text += &ringfence_report::experiment(found, style);
    for one in unlike_the_others(&found.plan, &found.starts) {
        ringfence_report::paragraph(&mut text, 0, &ringfence_report::unlike(&one), style);
    }
    text
}

fn dataset((dir, digest): &(PathBuf, Digest), style: &Style) -> String {
    let found = &digest.findings;
    let mut text = format!("{}\n", dir.display());
    if let Some(question) = &found.plan.experiment.question {
        text += &format!("{question}\n");
    }
    if digest.unfinished {
        text += UNFINISHED;
    }
    for note in &found.plan.placed.notes {
        text += &format!("{note}\n");
    }
    for one in unlike_the_others(&found.plan, &found.starts) {
        text += &format!("{}\n", ringfence_report::unlike(&one));
    }
    text + &format!("\n{}\n", ringfence_report::experiment(found, style))
}
