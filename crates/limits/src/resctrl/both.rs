//! Ways for the victim alone and less bandwidth for the aggressor, together.

use ringfence_experiment::{Arm, Limit, Reason};

use super::{bandwidth, ways};
use crate::lever::{AGGRESSOR, ALONE, Candidate, Lever, LeverContext, VICTIM};

/// The lever `cat+mba`.
pub struct Both;

impl Lever for Both {
    fn name(&self) -> &'static str {
        "cat+mba"
    }

    fn about(&self) -> &'static str {
        "both of these"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let shared = context.resctrl.as_ref().map_err(Clone::clone)?;
        let (partitions, limits) =
            (ways::partitions(context, shared)?, bandwidth::limits(context, shared)?);
        if shared.free_groups() < 2 {
            return Err("two of resctrl's groups are needed and one is free".into());
        }
        // The middle one of the partitions with each limit: every combination would take too long.
        let partition = &partitions[partitions.len() / 2];
        let candidates = limits.iter().map(|limit| {
            let words = format!("{} + mba {}", partition.words, limit.words);
            let mut arm = Arm::new(&words, &[VICTIM, AGGRESSOR], Some(ALONE));
            partition.limit(&mut arm);
            let mut aggressor = partition.isolation.others.clone();
            aggressor = aggressor.overlaid(&limit.schemata);
            let roles = [(VICTIM, &partition.isolation.alone), (AGGRESSOR, &aggressor)];
            let commands = ways::keep(context, shared, &roles, &partition.isolation.shrunk);
            arm.limit(AGGRESSOR, Limit::Resctrl(aggressor.clone()));
            let caveat = [partition.caveat(context), Some(limit.caveat.clone())];
            let caveat = caveat.into_iter().flatten().collect::<Vec<_>>().join("; ");
            ways::candidate(self, arm, commands, Some(caveat))
        });
        Ok(candidates.collect())
    }
}
