//! `sensitivity`: a victim's rate against a polluter of growing footprint.

use std::time::Duration;

use ringfence_experiment::units::Span;
use ringfence_experiment::{Experiment, Measure, PlacementKind};
use ringfence_machine::Machine;
use ringfence_machine::units::Bytes;
use ringfence_studies::sensitivity::{self, Polluter};

use crate::args::{PolluterArg, Sensitivity};
use crate::failure::Failure;
use crate::shared::flags::{parse_task, parsed};
use crate::shared::{experiment, host};

/// For each curve, where nothing else is asked for.
const USUAL: Duration = Duration::from_secs(30);

/// The smallest footprint of a polluter.
const LEAST: Bytes = Bytes::kib(4);

pub fn run(args: &Sensitivity) -> Result<(), Failure> {
    experiment::run(experiment(args, &host::machine(&args.on)?)?, &args.on, &args.measuring)
}

pub(super) fn experiment(args: &Sensitivity, machine: &Machine) -> Result<Experiment, Failure> {
    let victim = |given: &String| parse_task("victim", given);
    let victims = args.victim.iter().map(victim).collect::<Result<Vec<_>, _>>()?;
    let footprint = |text: &String| {
        let footprint: Bytes = parsed("footprint", text)?;
        if footprint < LEAST {
            return Err(Failure::usage(format!(
                "--footprint {text}: at least {LEAST}, the block that polluters write"
            )));
        }
        Ok(footprint)
    };
    let mut footprints = match &args.footprint {
        Some(list) => list.iter().map(footprint).collect::<Result<Vec<_>, _>>()?,
        None => sensitivity::footprints(&machine.topology),
    };
    footprints.sort_unstable();
    footprints.dedup();
    let mut polluters: Vec<Polluter> = Vec::new();
    for polluter in &args.polluter {
        let polluter = match polluter {
            PolluterArg::Write => Polluter::Write,
            PolluterArg::Chase => Polluter::Chase,
        };
        if !polluters.contains(&polluter) {
            polluters.push(polluter);
        }
    }
    let mut measure = Measure { rounds: 1, ..Measure::default() };
    if args.measuring.trials.is_none() {
        let curves = (victims.len() * polluters.len()) as u32;
        measure.looks = vec![1000];
        measure.time = Some(Span(USUAL * curves));
    }
    let placement: PlacementKind = args.placement.into();
    Ok(sensitivity::experiment(&victims, &polluters, &footprints, placement, measure))
}
