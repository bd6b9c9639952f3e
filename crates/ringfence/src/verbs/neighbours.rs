//! `neighbours`: how much aggressors slow a victim down.

use ringfence_experiment::task::{ProgramUnit, Tasks};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Arm, Episode, Experiment, Measure, OneOrMany, Placement, Role};

use crate::args::Neighbours;
use crate::failure::Failure;
use crate::shared::flags::one_or_many;
use crate::shared::{experiment, flags, program, services};

pub fn run(args: &Neighbours) -> Result<(), Failure> {
    let done = experiment::run(experiment(args)?, &args.on, &args.measuring);
    let given = if args.aggressor.is_empty() { &["victim"][..] } else { &["victim", "aggressor"] };
    done.map_err(|failure| services::beginning_with_its_flag(failure, given))
}

pub(super) fn experiment(args: &Neighbours) -> Result<Experiment, Failure> {
    program::check(&args.shown, program::is_timed(&args.victim), args.client.client.is_some())?;
    let client = program::client(&args.client, &args.shown)?;
    let victim = match (services::victim(&args.services), client) {
        (Some(probe), _) => probe,
        (None, Some(client)) => client,
        (None, None) => program::victim(&args.victim, &args.shown)?,
    };
    let victim =
        program::with_log_unit(services::with_probe_flags(victim, &args.services)?, &args.shown)?;
    let default = ["write instruction=clflush,clflushopt,clwb,nt,none size=256MiB", "alu", "idle"];
    let texts: Vec<&str> = if args.aggressor.is_empty() {
        default.to_vec()
    } else {
        args.aggressor.iter().map(String::as_str).collect()
    };
    let aggressors = match services::aggressor(&args.services) {
        Some(attached) => vec![attached],
        None => texts
            .iter()
            .map(|text| flags::parse_task("aggressor", text))
            .collect::<Result<Vec<_>, _>>()?,
    };
    flags::check_counts("aggressors", "aggressor", &args.aggressors)?;
    let (mut victim_cpu, mut aggressor_cpus) = (None, None);
    flags::set_some(&mut victim_cpu, "victim-cpu", args.victim_cpu.as_deref())?;
    flags::set_some(&mut aggressor_cpus, "aggressor-cpus", args.aggressor_cpus.as_deref())?;
    let mut measure = Measure { looks: vec![12], ..Measure::default() };
    match &victim {
        Tasks::Command(program) if program.units() == [ProgramUnit::WholeRun] => measure.rounds = 1,
        // As long as it takes for some work of a program.
        Tasks::Command(program) if !program.units().is_empty() => measure.window = Span::ms(100),
        _ => {}
    }
    let window = args.measuring.window.as_deref();
    services::set_freezing(&mut measure, &args.services, &aggressors, window)?;
    if let Some(text) = &args.episode {
        let mut episode = Episode::default();
        flags::set(&mut episode, "episode", Some(text.as_str()).filter(|text| !text.is_empty()))?;
        (measure.episode, measure.looks, measure.rounds) = (Some(episode), vec![6], 1);
    }
    flags::set(&mut measure.quantity, "metric", args.metric.metric.as_deref())?;
    Ok(Experiment {
        measure,
        placement: Placement { kind: args.placement.into() },
        roles: vec![
            Role {
                name: "victim".into(),
                count: OneOrMany::One(1),
                placement: None,
                cpus: victim_cpu,
                task: OneOrMany::One(victim),
            },
            Role {
                name: "aggressor".into(),
                count: one_or_many(&args.aggressors),
                placement: None,
                cpus: aggressor_cpus,
                task: one_or_many(&aggressors),
            },
        ],
        arms: vec![
            Arm::new("alone", &["victim"], None),
            Arm::new("beside", &["victim", "aggressor"], Some("alone")),
        ],
        ..Experiment::asking("neighbours", "How much do aggressors slow the victim down?", "victim")
    })
}
