//! `aa`: a task against itself, to learn what this machine's noise looks like.

use ringfence_engine::available;
use ringfence_experiment::{Arm, Experiment, Measure, OneOrMany, Role};

use crate::args::Aa;
use crate::failure::Failure;
use crate::shared::experiment;

const LIVES: u32 = 10;

pub fn run(args: &Aa) -> Result<(), Failure> {
    let lives = match args.measuring.lives.as_deref() {
        None => LIVES,
        Some([lives]) => *lives,
        Some(_) => {
            return Err(Failure::Usage("--lives: give one number, that of an experiment's lives".into()));
        }
    };
    let most = args.experiments.checked_mul(lives).filter(|most| args.experiments > 0 && *most <= 100_000);
    let Some(most) = most else {
        return Err(Failure::Usage(format!(
            "--experiments: {} experiments of {lives} lives are none, or more than 100000 lives",
            args.experiments
        )));
    };
    let mut flags = experiment(args, lives)?;
    flags.measure.looks = vec![most];
    // The flag's lives are those of one experiment; the run has all of them.
    let measuring = crate::args::Measuring { lives: Some(vec![most]), ..args.measuring.clone() };
    experiment::run(flags, &measuring)
}

fn experiment(args: &Aa, lives: u32) -> Result<Experiment, Failure> {
    let role = |name: &str, flag: &str, task: &str| -> Result<Role, Failure> {
        let task =
            available::parse_task(task).map_err(|error| Failure::Usage(format!("--{flag}: {error}")))?;
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
    Ok(Experiment {
        aa: Some(lives),
        measure: Measure { blocks: 1, ..Measure::default() },
        roles,
        arms: vec![arm("first", None), arm("again", Some("first"))],
        ..Experiment::asking("aa", "How often does this machine show an effect that is not there?", "victim")
    })
}
