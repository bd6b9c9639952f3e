//! What can be detected in the time or the trials of a question.

use ringfence_analysis::estimate::fewest_latencies;
use ringfence_experiment::budget::Budget;
use ringfence_studies::prove::time::Precision;

use crate::numbers::duration;

/// `In 20.0 s, about 20 trials, a slowdown of 2 % is detected if trials vary by less than 2.72 %`.
pub fn precision(found: &Precision) -> String {
    let percent = |value: f64| match value * 100.0 {
        large if large >= 10.0 => format!("{large:.0}"),
        small => format!("{small:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    };
    let mut text = match found.time {
        Some(time) => format!("In {}, about {} trials", duration(time), found.trials),
        None => format!("In {} trials", found.trials),
    };
    if let (Budget::Slowdown(share), Some(spread)) = (found.budget, found.spread) {
        text += &format!(
            ", a {} of {} % is detected if trials vary by less than {} %",
            found.quantity.slowdown(),
            percent(share.0),
            percent(spread.exp_m1())
        );
    }
    if let Some(quantile) = found.quantity.quantile() {
        text +=
            &format!("; {quantile} takes {} latencies on each side", fewest_latencies(quantile));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringfence_experiment::units::{Share, Span};

    use super::*;

    #[test]
    fn slowdowns_name_a_spread_and_quantiles_a_count() {
        let mut found = Precision {
            time: Some(Duration::from_secs(20)),
            trials: 20,
            budget: Budget::Slowdown(Share(0.02)),
            quantity: "mean".parse().unwrap(),
            spread: Some(0.0269),
        };
        assert_eq!(
            precision(&found),
            "In 20.0 s, about 20 trials, a slowdown of 2 % is detected if trials vary by less than \
             2.73 %"
        );
        found.time = None;
        found.quantity = "p99".parse().unwrap();
        found.budget = Budget::AtMost(found.quantity, Span::ms(5));
        assert_eq!(precision(&found), "In 20 trials; p99 takes 1000 latencies on each side");
    }
}
