//! Experiments on described machines, through the runner that measures real machines. No test uses
//! all of it.

#![allow(dead_code)]

use std::sync::atomic::AtomicBool;

use ringfence_engine::runner::{self, Observer, Progress};
use ringfence_experiment::ended::Ended;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::{Error, Experiment};
use ringfence_simulator::{Description, SimulatedEngine, catalogue, plan};

pub struct Nobody;

impl Observer for Nobody {
    fn samples(&mut self, _: &[Sample]) -> Result<(), Error> {
        Ok(())
    }

    fn progress(&mut self, _: Progress) {}
}

/// A machine that comes with the program, with some of its values replaced.
pub fn machine(name: &str, changes: &[(&str, &str)]) -> Description {
    let mut text = catalogue::all().into_iter().find(|known| known.name == name).unwrap().text;
    for (value, instead) in changes {
        let changed = text.replace(value, instead);
        assert!(text.contains(value), "{name} has no {value}");
        text = changed;
    }
    Description::parse(&text).unwrap()
}

/// An experiment with these roles, each a line of TOML, and arms; two trials of it.
pub fn experiment(roles: &[&str], arms: &str) -> Experiment {
    let roles: String = roles.iter().map(|role| format!("[[role]]\n{role}\n")).collect();
    let text = format!(
        "schema = 2\nname = 'planted'\nmetric = 'victim'\n[measure]\nlooks = [2]\nrounds = \
         1\nwindow = '20ms'\n{roles}{arms}"
    );
    Experiment::parse(&text).unwrap()
}

pub fn run(description: &Description, experiment: &Experiment) -> Vec<Sample> {
    let machine = description.machine();
    let plan = plan(experiment, description, &machine).unwrap();
    assert!(plan.not_run.is_empty(), "{:?}", plan.not_run);
    let stop = AtomicBool::new(false);
    let mut engine = SimulatedEngine::new(&plan, description, &stop);
    let (samples, ended) = runner::run(&plan, &mut engine, &stop, &mut Nobody).unwrap();
    assert_eq!(ended, Ended::Complete);
    assert!(samples.iter().all(|sample| sample.simulated == Some(true)));
    samples
}

/// The victim's ns a unit in a case.
pub fn ns(samples: &[Sample], case: u32) -> f64 {
    let of_case =
        || samples.iter().filter(|sample| sample.case == case && &*sample.role == "victim");
    let busy: u64 = of_case().map(|sample| sample.busy_ns).sum();
    busy as f64 / of_case().map(|sample| sample.units).sum::<u64>() as f64
}

pub const ALONE: &str = "[[arm]]\nname = 'alone'\nactive = ['victim']\n";
pub const BESIDE: &str =
    "[[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = 'alone'\n";

pub fn slowdown(description: &Description, victim: &str, other: &str) -> f64 {
    let roles = [&*format!("name = 'victim'\n{victim}"), &*format!("name = 'other'\n{other}")];
    let samples = run(description, &experiment(&roles, &format!("{ALONE}{BESIDE}")));
    ns(&samples, 1) / ns(&samples, 0)
}

pub fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} instead of {expected}");
}
