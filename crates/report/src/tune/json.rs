//! Policies as JSON.

use std::path::Path;

use ringfence_studies::prove;
use ringfence_studies::tune;
use ringfence_studies::tune::choice::Choice;
use ringfence_studies::tune::files;
use serde::Serialize;

use crate::experiment::cases::json::{Case, cases};

/// `tune` of memory.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/tuned/3")]
pub(crate) struct TunedDocument<'a> {
    /// The folder of the samples, or of several such folders.
    dataset: String,
    /// The file that holds the policy; null where none was written.
    policy_file: Option<String>,
    /// What was found.
    tuned: Tuned<'a>,
}

/// `tune file:DIR`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/tuned-files/1")]
pub(crate) struct TunedFilesDocument<'a> {
    /// The folder of the samples, or of several such folders.
    dataset: String,
    /// The file that holds the policy; null where none was written.
    policy_file: Option<String>,
    /// What was found.
    tuned: TunedFiles<'a>,
}

/// What was found.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Tuned<'a> {
    /// The costs that it was chosen from.
    costs: Vec<Case<'a>>,
    /// What was chosen by cost.
    choice: &'a Choice,
    /// PMDK's rule on this processor.
    pmdk: &'a Choice,
    /// The choice against PMDK's rule where they differ, on fresh trials.
    confirmed: Vec<Case<'a>>,
    /// Whether the fresh trials spoke against the choice, so that the policy is PMDK's rule.
    fell_back: bool,
    /// The victim, where one was given.
    proof: Option<&'a prove::Proof>,
    /// The policy as text; absent where the victim's budget is not shown to be met, or something
    /// failed.
    policy: Option<&'a str>,
    /// Why the policy does not say what single instructions cost, where it does not.
    unpriced: Option<&'a str>,
    /// Whether it was simulated: then no figure here is a measurement, and there is no policy.
    simulated: bool,
    /// Why it ended early, if it did.
    ended_early: Option<&'a str>,
}

/// What was found.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TunedFiles<'a> {
    /// What one record a sync costs, by call and layout, that it was chosen from.
    costs: &'a files::choice::Costs,
    /// What more records a sync cost, by the chosen call and layout; empty where that was not
    /// measured.
    batches: &'a files::choice::Costs,
    /// Ways that this machine or file system refused.
    not_run: Vec<NotRun<'a>>,
    /// What was chosen by cost.
    choice: &'a files::choice::Choice,
    /// What most programs do, which it was compared with.
    plain: files::choice::Choice,
    /// The choice against that where they differ, on fresh trials.
    confirmed: &'a [files::Compared],
    /// Whether the fresh trials spoke against the choice: a part of it is slower than the plain
    /// way.
    fell_back: bool,
    /// What the policy has; null where something failed.
    settled: Option<files::choice::Choice>,
    /// The policy as text; null where something failed.
    policy: Option<&'a str>,
    /// Why it ended early, if it did.
    ended_early: Option<&'a str>,
}

/// One of them.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "CommitNotRun"))]
struct NotRun<'a> {
    /// What sets it apart, in words.
    label: &'a str,
    /// Why it was not run, worded to follow "because".
    reason: &'a str,
}

/// A policy and how it was found, the datasets in `dir`; and the file that holds it, where it was
/// written.
pub fn tuned(found: &tune::Tuned, dir: &Path, policy_file: Option<&Path>) -> impl Serialize {
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
    TunedDocument { dataset: dir.display().to_string(), policy_file, tuned }
}

/// A policy for files and how it was found, the datasets in `dir`; and the file that holds it,
/// where it was written.
pub fn tuned_files(found: &files::Tuned, dir: &Path, policy_file: Option<&Path>) -> impl Serialize {
    let tuned = TunedFiles {
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
    TunedFilesDocument { dataset: dir.display().to_string(), policy_file, tuned }
}
