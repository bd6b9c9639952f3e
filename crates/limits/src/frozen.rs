//! Running processes, paused for a share of their time in short slices, which the engine does.

use ringfence_experiment::task::Task;
use ringfence_experiment::units::Share;
use ringfence_experiment::{Freezing, Limit, Reason};

use crate::attachment;
use crate::lever::{Candidate, Lever, LeverContext};

/// The lever `duty`.
pub struct Duty;

// Of what may be paused: half of it, and all.
const PARTS: [f64; 2] = [0.5, 1.0];

impl Lever for Duty {
    fn name(&self) -> &'static str {
        "duty"
    }

    fn about(&self) -> &'static str {
        "short pauses (running processes)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let Task::Attached(aggressor) = context.aggressor else {
            return Err(
                "the aggressor is not a running process: use a quota, which takes time from it as \
                 well"
                    .into(),
            );
        };
        let freezing = context.baseline.experiment.measure.freezing.unwrap_or_default();
        let shares = shares(&freezing)?;
        attachment::method(&attachment::found(aggressor)?, freezing.by)?;
        Ok(shares.into_iter().map(candidate).collect())
    }
}

fn shares(freezing: &Freezing) -> Result<Vec<Share>, Reason> {
    let shares: Vec<Share> = PARTS
        .iter()
        .map(|part| Share((freezing.share.0 * part * 1000.0).round() / 1000.0))
        .filter(|share| share.0 >= Freezing::LEAST_SLICED)
        .collect();
    match shares.is_empty() {
        false => Ok(shares),
        true => Err(format!(
            "it may be paused for {} of its time (--frozen-share), and pauses in slices need at \
             least {}",
            freezing.share,
            Share(Freezing::LEAST_SLICED)
        )
        .into()),
    }
}

fn candidate(share: Share) -> Candidate {
    let keep = "the kernel has no such setting: Ringfence itself pauses the program while it \
                measures; a CPU quota comes closest";
    Candidate::limit(&Duty, &format!("paused {share}"), Limit::Frozen(share), keep.into())
        .caveat("between pauses the victim is as slow as before; --frozen-share allows longer ones")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_tried_than_may_be_paused() {
        let of = |share: f64| shares(&Freezing { share: Share(share), ..Freezing::default() });
        assert_eq!(of(0.2).unwrap(), [Share(0.1), Share(0.2)]);
        assert_eq!(of(0.9).unwrap(), [Share(0.45), Share(0.9)]);
        assert_eq!(of(0.05).unwrap(), [Share(0.05)]);
        assert!(of(0.01).unwrap_err().contains("--frozen-share"));
    }
}
