//! Leaving a proven setting in place.

use ringfence_engine::EngineError;
use ringfence_isolation::resctrl::{self, Kept};

use super::time::Given;
use super::{Proof, Verdict, experiments};
use ringfence_study::StudyError;

/// Leaves the setting in place that was confirmed, where it is one of resctrl's; `None` where the proof
/// needs nothing of the kind.
///
/// # Errors
/// What resctrl refuses; and where something is kept already.
pub fn keep(proof: &Proof) -> Result<Option<Kept>, StudyError> {
    if proof.verdict != Verdict::Met {
        return Ok(None);
    }
    let Some(confirmed) = proof.confirmations.last() else { return Ok(None) };
    let candidate = &confirmed.tried.candidate;
    if candidate.arm.resctrl.is_empty() {
        return Ok(None);
    }
    let experiment = experiments::confirmation(&proof.record.question, false, candidate, 0, Given::default());
    Ok(Some(resctrl::keep(&experiment, &candidate.arm.name).map_err(EngineError::from)?))
}
