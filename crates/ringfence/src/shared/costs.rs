//! A survey's costs as those of a trace's instructions.

use std::path::Path;

use ringfence_analysis::estimate::Difference;
use ringfence_persist::policy::Prices;
use ringfence_studies::survey::Survey;
use ringfence_studies::survey::parts::{Part, Parts};
use ringfence_trace::census::dynamic::Run;
use ringfence_trace::census::dynamic::saving::{self, Cost, MANY, MethodCosts, Saving};

use crate::failure::Failure;

/// What a run would cost by a survey's costs; inside, why that is not known.
pub fn saving(run: &Run, survey: &Path) -> Result<Result<Saving, String>, Failure> {
    if !Survey::is_at(survey) {
        let what = format!(
            "{} is not the folder of a survey: 'ringfence survey' makes one",
            survey.display()
        );
        return Err(Failure::usage(what));
    }
    let folder = survey.display();
    let survey = Survey::open(survey, |_| {})?;
    if survey.is_simulated() {
        return Err(Failure::usage(format!(
            "{folder}: this survey was simulated: name one that was measured, by 'ringfence survey'"
        )));
    }
    let prices = Prices::here().map_err(Failure::usage_by)?;
    let methods: Vec<MethodCosts> = survey.parts.iter().filter_map(method).collect();
    let saving = saving::predict(run, survey.target.clone(), &methods, &prices);
    Ok(saving.map_err(|why| {
        format!("{why}: 'ringfence survey' measures every method that the machine has")
    }))
}

// Parts that were measured too few times have no figure.
fn method(parts: &Parts) -> Option<MethodCosts> {
    let cost =
        |part: &Part| part.as_ref().ok().map(|Difference { ns, low, high, .. }| (*ns, *low, *high));
    let times = |(ns, low, high): (f64, f64, f64), count: f64| Cost {
        ns: ns * count,
        low: low * count,
        high: high * count,
    };
    Some(MethodCosts {
        name: parts.instruction.into(),
        line: times(cost(&parts.flush)?, 1.0),
        fence: times(cost(&parts.fence_per_line)?, 1.0),
        // Told in ns per line, of blocks of 4 KiB.
        fence_of_many: times(cost(&parts.fence_per_block)?, MANY as f64),
    })
}
