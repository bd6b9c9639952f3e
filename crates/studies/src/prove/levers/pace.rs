//! Pacing: built-in writers at a share of the rate that they reach by themselves.

use ringfence_experiment::Reason;
use ringfence_experiment::units::Rate;
use ringfence_machine::units::Bytes;

use crate::prove::lever::{Candidate, Lever, LeverContext};

pub struct Pacing;

const SHARES: [f64; 3] = [0.5, 0.25, 0.1];

impl Lever for Pacing {
    fn name(&self) -> &'static str {
        "pace"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        if context.aggressor.with_pace(Rate(Bytes(1))).is_none() {
            return Err("the aggressor is not a built-in writer; a quota slows any program".into());
        }
        let Some(full) = context.bytes_per_s else {
            return Err("the aggressor's rate is unknown".into());
        };
        let candidate = |share: f64| {
            let rate = round(full * share);
            let set = context.aggressor.with_pace(rate)?;
            let keep = format!(
                "in the writer: at most {rate}, waiting between blocks; here: {}",
                context.aggressor_with(&set)
            );
            Some(Candidate::set(self, format!("pace {rate}"), set, keep))
        };
        Ok(SHARES.into_iter().filter_map(candidate).collect())
    }
}

/// A whole number of MiB, to two digits: no user would set 1234567 B/s.
pub(super) fn round(bytes_per_s: f64) -> Rate {
    let mib = bytes_per_s / f64::from(1 << 20);
    let step = 10f64.powf((mib.log10().floor() - 1.0).max(0.0));
    Rate(Bytes::mib(((mib / step).round() * step).max(1.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_round() {
        for (mib, text) in
            [(1234.0, "1200MiB/s"), (47.3, "47MiB/s"), (0.2, "1MiB/s"), (2048.0, "2000MiB/s")]
        {
            assert_eq!(round(mib * f64::from(1 << 20)).to_string(), text);
        }
    }
}
