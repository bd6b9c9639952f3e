//! Leaving a proven setting in place.

use ringfence_experiment::Error;
use ringfence_experiment::task::{Attached, Task};
use ringfence_experiment::units::Share;
use ringfence_limits::{OWN_GROUP, attachment, own_group, resctrl};
use serde::Serialize;

use super::time::Given;
use super::{AGGRESSOR, Candidate, Proof, Question, VICTIM, Verdict, experiments};

/// The settings that were kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kept {
    /// What of resctrl.
    #[serde(flatten)]
    pub resctrl: Option<resctrl::Kept>,
    /// The settings of the aggressor's own control group, in the order in which they were made.
    pub limits: Vec<own_group::Left>,
}

/// Leaves the confirmed setting in place, if it is one of resctrl's, or of the control group of an
/// aggressor that is a running process; `None` where the proof needs nothing of the kind.
///
/// # Errors
/// What the kernel refuses; and where something of resctrl is kept already.
pub fn keep(proof: &Proof) -> Result<Option<Kept>, Error> {
    if proof.verdict != Verdict::Met {
        return Ok(None);
    }
    let Some(confirmed) = proof.confirmations.last() else { return Ok(None) };
    let (question, candidate) = (&proof.record.question, &confirmed.tried.candidate);
    if candidate.arm.resctrl().next().is_some() {
        let experiment = experiments::confirmation(question, false, candidate, 0, Given::default());
        let kept = resctrl::keep(&experiment, &candidate.arm.name, |role| running(question, role));
        let resctrl = Some(kept?);
        return Ok(Some(Kept { resctrl, limits: Vec::new() }));
    }
    let Task::Attached(attached) = question.aggressor.task() else { return Ok(None) };
    let limits = candidate.arm.limits_of(AGGRESSOR);
    let limits = OWN_GROUP.keep(attached, limits, quota(candidate))?;
    Ok((!limits.is_empty()).then_some(Kept { resctrl: None, limits }))
}

fn quota(candidate: &Candidate) -> Option<Share> {
    candidate.arm.set.get(AGGRESSOR)?.quota()
}

// The processes of a role that run already.
fn running(question: &Question, role: &str) -> Vec<u32> {
    let of = |one: &Attached| attachment::processes(one);
    match (role, question.victim.task(), question.aggressor.task()) {
        (VICTIM, Task::Probe(probe), _) => probe.service().as_ref().map(of).unwrap_or_default(),
        (AGGRESSOR, _, Task::Attached(attached)) => of(attached),
        _ => Vec::new(),
    }
}
