//! Answers that rest on several experiments: a proof, pairs, a policy, a comparison.

use std::path::Path;

use ringfence_studies::compare::{Comparison, Side};
use ringfence_studies::pair::{Outcome, Question};
use ringfence_studies::prove::{self as prove, Kept};
use ringfence_studies::tune;
use ringfence_studies::tune::choice::Choice;
use ringfence_studies::tune::files;
use ringfence_studies::whatif::WhatIf;
use serde::Serialize;

use crate::experiment::cases::json::{Case, cases};
use crate::html::Compared;
use crate::json::Document;

/// A proof, its datasets in `dir`; and, where it was made just now, why that ended early, the
/// setting that was left in place, and what another process has set in resctrl meanwhile.
pub fn proof<'a>(
    proof: &'a prove::Proof,
    dir: &Path,
    ended_early: Option<&'a str>,
    kept: Option<&'a Kept>,
    left: &'a [String],
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Proof<'a> {
        dataset: String,
        ended_early: Option<&'a str>,
        proof: &'a prove::Proof,
        kept: Option<&'a Kept>,
        left: &'a [String],
    }
    let dataset = dir.display().to_string();
    Document {
        schema: "ringfence/proof/3",
        body: Proof { dataset, ended_early, proof, kept, left },
    }
}

/// The pairwise interference, the datasets in `dir`.
pub fn pairs<'a>(
    question: &'a Question,
    outcome: &'a Outcome,
    dir: &Path,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Pairs<'a> {
        dataset: String,
        question: &'a Question,
        outcome: &'a Outcome,
    }
    let dataset = dir.display().to_string();
    Document { schema: "ringfence/pairs/3", body: Pairs { dataset, question, outcome } }
}

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

/// One plan on a machine and on the changed one, the datasets in `dir`.
pub fn whatif<'a>(found: &'a WhatIf, dir: &Path) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Found<'a> {
        dataset: String,
        whatif: &'a WhatIf,
    }
    let dataset = dir.display().to_string();
    Document { schema: "ringfence/whatif/1", body: Found { dataset, whatif: found } }
}

/// Datasets cell by cell; those that could not be compared, with the reason; and those that only
/// one folder has.
pub fn comparisons<'a>(
    compared: &'a [Compared],
    refused: &'a [(String, String)],
    alone: &'a [(Side, String)],
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Comparisons<'a> {
        compared: Vec<One<'a>>,
        refused: Vec<Refused<'a>>,
        alone: Vec<Alone<'a>>,
    }
    #[derive(Serialize)]
    struct One<'a> {
        name: &'a str,
        before: &'a str,
        after: &'a str,
        comparison: &'a Comparison,
    }
    #[derive(Serialize)]
    struct Refused<'a> {
        name: &'a str,
        why: &'a str,
    }
    #[derive(Serialize)]
    struct Alone<'a> {
        name: &'a str,
        missing_from: Side,
    }
    fn one(Compared { name, before, after, comparison }: &Compared) -> One<'_> {
        One { name, before, after, comparison }
    }
    let body = Comparisons {
        compared: compared.iter().map(one).collect(),
        refused: refused.iter().map(|(name, why)| Refused { name, why }).collect(),
        alone: alone
            .iter()
            .map(|(missing_from, name)| Alone { name, missing_from: *missing_from })
            .collect(),
    };
    Document { schema: "ringfence/comparison/3", body }
}
