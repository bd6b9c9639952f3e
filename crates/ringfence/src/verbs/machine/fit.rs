//! `machine fit`: values of a machine file, fitted to what was measured.

use std::time::Instant;

use ringfence_report::describe;
use ringfence_report::json;
use ringfence_studies::describe::fit;
use ringfence_studies::describe::host::FITTED;

use super::described::{costs, put};
use crate::args::Calibrate;
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::host;

pub fn run(args: &Calibrate) -> Result<(), Failure> {
    let description = host::description(&args.machine)?;
    let measured = costs(&args.from)?;
    let (used, which) = match args.cells.is_empty() {
        true => {
            (fit::half(measured.cells.len(), args.seed), format!("drawn by seed {}", args.seed))
        }
        false => (measured.named(&args.cells)?, args.cells.join("; ")),
    };
    let known: Vec<String> = description.values().into_iter().map(|value| value.path).collect();
    let keys: Vec<String> = match args.fit.is_empty() {
        true => FITTED.into_iter().map(str::to_owned).filter(|key| known.contains(key)).collect(),
        false => args.fit.clone(),
    };
    let of = measured.cells.len();
    let origin = format!("{} of {of} cells of {} ({which})", used.len(), measured.experiment.name);
    let mut show = Show::new(args.quiet || args.json);
    show.begin("fitting");
    let started = Instant::now();
    let fit = fit::fit(&description, &measured, &used, &keys, &origin, &mut |share| {
        show.share(started, share)
    });
    show.end();
    let fit = fit?;
    if let Some(path) = &args.out {
        put(path, &fit.description.text)?;
    }
    match args.json {
        true => output::print_json(&json::calibrated(&fit)),
        false => output::print(&describe::fitted(&fit, &output::style())),
    }
}
