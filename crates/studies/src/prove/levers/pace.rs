//! Pacing: built-in writers at a share of the rate that they reach by themselves.

use ringfence_experiment::Reason;
use ringfence_experiment::units::Rate;
use ringfence_limits::lever::{Candidate, Lever, LeverContext};

pub struct Pacing;

const SHARES: [f64; 3] = [0.5, 0.25, 0.1];

impl Lever for Pacing {
    fn name(&self) -> &'static str {
        "pace"
    }

    fn about(&self) -> &'static str {
        "a slower rate (built-in writers)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let candidate = |share: f64| {
            let rate = Rate::rounded(context.bytes_per_s.unwrap_or_default() * share);
            let set = context.aggressor.with_pace(rate)?;
            let keep = format!(
                "in the writer: at most {rate}, waiting between blocks; here: {}",
                context.aggressor_with(&set)
            );
            Some(Candidate::set(self, format!("pace {rate}"), set, keep))
        };
        let Some(candidates) = SHARES.into_iter().map(candidate).collect() else {
            return Err("the aggressor is not a built-in writer; a quota slows any program".into());
        };
        match context.bytes_per_s {
            Some(_) => Ok(candidates),
            None => Err("the aggressor's rate is unknown".into()),
        }
    }
}
