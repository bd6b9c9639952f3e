//! `aa`: a task against itself, to learn what this machine's noise looks like.

use ringfence_experiment::{Arm, Experiment, Measure, OneOrMany, Role};

use crate::args::Aa;
use crate::failure::Failure;
use crate::shared::experiment;
use crate::shared::flags::{parse_task, set};

const TRIALS: u32 = 10;

pub fn run(args: &Aa) -> Result<(), Failure> {
    let trials = match args.measuring.trials.as_deref() {
        None => TRIALS,
        Some([trials]) => *trials,
        Some(_) => {
            return Err(Failure::usage("--trials: give one number, the trials of each experiment"));
        }
    };
    let most = args
        .experiments
        .checked_mul(trials)
        .filter(|most| args.experiments > 0 && *most <= 100_000);
    let Some(most) = most else {
        return Err(Failure::usage(format!(
            "--experiments: {} experiments of {trials} trials are {}",
            args.experiments,
            if args.experiments == 0 {
                "nothing to measure"
            } else {
                "more than 100000 trials, which is the limit"
            }
        )));
    };
    let mut flags = experiment(args, trials)?;
    flags.measure.looks = vec![most];
    // The flag's trials are those of one experiment; the run has all of them.
    let measuring = crate::args::Measuring { trials: Some(vec![most]), ..args.measuring.clone() };
    experiment::run(flags, &args.on, &measuring)
}

fn experiment(args: &Aa, trials: u32) -> Result<Experiment, Failure> {
    let role = |name: &str, flag: &str, task: &str| -> Result<Role, Failure> {
        let task = parse_task(flag, task)?;
        Ok(Role {
            name: name.into(),
            count: OneOrMany::One(1),
            placement: None,
            cpus: None,
            task: OneOrMany::One(task),
        })
    };
    let mut roles = vec![role("victim", "victim", &args.victim)?];
    if let Some(beside) = &args.beside {
        roles.push(role("co-runner", "beside", beside)?);
    }
    let active: Vec<String> = roles.iter().map(|role| role.name.clone()).collect();
    let active: Vec<&str> = active.iter().map(String::as_str).collect();
    let arm = |name: &str, baseline: Option<&str>| Arm::new(name, &active, baseline);
    let mut arms = vec![arm("first", None), arm("again", Some("first"))];
    if let Some(between) = &args.between {
        roles.push(role("visitor", "between", between)?);
        arms[1].between = Some("between".into());
        arms.push(Arm::new("between", &[&active[..], &["visitor"]].concat(), None));
    }
    let mut measure = Measure { rounds: 1, ..Measure::default() };
    set(&mut measure.quantity, "metric", args.metric.metric.as_deref())?;
    Ok(Experiment {
        aa: Some(trials),
        measure,
        roles,
        arms,
        ..Experiment::asking(
            "aa",
            "How often does this machine show an effect that is not there?",
            "victim",
        )
    })
}
