//! Flags into an experiment.

use ringfence_experiment::units::{Share, Span};
use ringfence_experiment::{Experiment, OneOrMany, PlacementKind};

use crate::args::{Measuring, Placement};
use crate::failure::Failure;

/// Sets what the flags say of an experiment.
pub fn apply(experiment: &mut Experiment, flags: &Measuring) -> Result<(), Failure> {
    let measure = &mut experiment.measure;
    if let Some(lives) = &flags.lives {
        measure.looks = lives.clone();
    }
    if let Some(blocks) = flags.blocks {
        measure.blocks = blocks;
    }
    set(&mut measure.window, "window", flags.window.as_deref())?;
    set(&mut measure.settle, "settle", flags.settle.as_deref())?;
    set(&mut measure.probe, "probe", flags.probe.as_deref())?;
    set(&mut measure.margin, "margin", flags.margin.as_deref())?;
    set(&mut measure.confidence, "confidence", flags.confidence.as_deref())?;
    set_some(&mut measure.precision, "precision", flags.precision.as_deref())?;
    set_time(&mut measure.time, flags.time.as_deref())?;
    if let Some(seed) = flags.seed {
        experiment.seed = seed;
    }
    Ok(())
}

/// Sets a field from a flag's text.
pub fn set<T>(field: &mut T, flag: &str, text: Option<&str>) -> Result<(), Failure>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    if let Some(text) = text {
        *field = text.parse().map_err(|error| Failure::Usage(format!("--{flag}: {error}")))?;
    }
    Ok(())
}

/// The same for a field that may be absent.
pub fn set_some<T>(field: &mut Option<T>, flag: &str, text: Option<&str>) -> Result<(), Failure>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    if let Some(text) = text {
        *field = Some(text.parse().map_err(|error| Failure::Usage(format!("--{flag}: {error}")))?);
    }
    Ok(())
}

/// The time that `--time` gives, or `--budget`, as it was once called in verbs without a verdict.
pub fn set_time(field: &mut Option<Span>, text: Option<&str>) -> Result<(), Failure> {
    match text.filter(|text| text.parse::<Share>().is_ok()) {
        Some(share) => Err(Failure::Usage(format!(
            "--time: '{share}' is a share, and this is how long to measure, such as 60s; a slowdown is held against \
             a --budget by 'ringfence prove'"
        ))),
        None => set_some(field, "time", text),
    }
}

/// The slowdown that `--budget` allows.
pub fn set_budget(field: &mut Share, text: Option<&str>) -> Result<(), Failure> {
    match text {
        Some(text) if text.parse::<Span>().is_ok() => Err(Failure::Usage(format!(
            "--budget: '{text}' is a duration, and this is the slowdown that is allowed, such as 2%; how long to \
             measure is --time"
        ))),
        Some(text) if text.trim_start().starts_with('-') => Err(Failure::Usage(format!(
            "--budget: '{text}' is negative, and the slowdown that is allowed is 0% at least: write it as 2%, say"
        ))),
        text => set(field, "budget", text),
    }
}

/// One value or several.
pub fn one_or_many<T: Clone>(values: &[T]) -> OneOrMany<T> {
    match values {
        [one] => OneOrMany::One(one.clone()),
        many => OneOrMany::Many(many.to_vec()),
    }
}

impl From<Placement> for PlacementKind {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Auto => PlacementKind::Auto,
            Placement::Smt => PlacementKind::Smt,
            Placement::Llc => PlacementKind::Llc,
            Placement::Node => PlacementKind::Node,
            Placement::Remote => PlacementKind::Remote,
        }
    }
}
