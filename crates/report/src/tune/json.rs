//! Policies as JSON.

use std::path::Path;

use ringfence_studies::prove;
use ringfence_studies::tune;
use ringfence_studies::tune::choice::Choice;
use ringfence_studies::tune::files;
use serde::Serialize;

use crate::experiment::cases::json::{Case, cases};
use crate::json::Document;

/// A policy and how it was found, the datasets in `dir`; and the file that holds it, where it was
/// written.
pub fn tuned(found: &tune::Tuned, dir: &Path, policy_file: Option<&Path>) -> impl Serialize {
    #[derive(Serialize)]
    struct Policy<'a> {
        dataset: String,
        policy_file: Option<String>,
        tuned: Tuned<'a>,
    }
    #[derive(Serialize)]
    struct Tuned<'a> {
        costs: Vec<Case<'a>>,
        choice: &'a Choice,
        pmdk: &'a Choice,
        confirmed: Vec<Case<'a>>,
        fell_back: bool,
        proof: Option<&'a prove::Proof>,
        policy: Option<&'a str>,
        unpriced: Option<&'a str>,
        simulated: bool,
        ended_early: Option<&'a str>,
    }
    let tuned = Tuned {
        costs: cases(&found.costs),
        choice: &found.choice,
        pmdk: &found.pmdk,
        confirmed: cases(&found.confirmed),
        fell_back: found.fell_back,
        proof: found.proof.as_ref(),
        policy: found.policy.as_deref(),
        unpriced: found.unpriced.as_deref(),
        simulated: found.simulated,
        ended_early: found.ended_early.as_deref(),
    };
    let policy_file = policy_file.map(|path| path.display().to_string());
    let body = Policy { dataset: dir.display().to_string(), policy_file, tuned };
    Document { schema: "ringfence/tuned/3", body }
}

/// A policy for files and how it was found, the datasets in `dir`; and the file that holds it,
/// where it was written.
pub fn tuned_files(found: &files::Tuned, dir: &Path, policy_file: Option<&Path>) -> impl Serialize {
    #[derive(Serialize)]
    struct Policy<'a> {
        dataset: String,
        policy_file: Option<String>,
        tuned: Tuned<'a>,
    }
    #[derive(Serialize)]
    struct Tuned<'a> {
        costs: &'a files::choice::Costs,
        batches: &'a files::choice::Costs,
        not_run: Vec<NotRun<'a>>,
        choice: &'a files::choice::Choice,
        plain: files::choice::Choice,
        confirmed: &'a [files::Compared],
        fell_back: bool,
        settled: Option<files::choice::Choice>,
        policy: Option<&'a str>,
        ended_early: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct NotRun<'a> {
        label: &'a str,
        reason: &'a str,
    }
    let tuned = Tuned {
        costs: &found.costs,
        batches: &found.batches,
        not_run: found.not_run.iter().map(|(label, reason)| NotRun { label, reason }).collect(),
        choice: &found.choice,
        plain: files::choice::PLAIN,
        confirmed: &found.confirmed,
        fell_back: found.fell_back,
        settled: found.settled,
        policy: found.policy.as_deref(),
        ended_early: found.ended_early.as_deref(),
    };
    let policy_file = policy_file.map(|path| path.display().to_string());
    let body = Policy { dataset: dir.display().to_string(), policy_file, tuned };
    Document { schema: "ringfence/tuned-files/1", body }
}
