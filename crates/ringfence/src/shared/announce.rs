//! What a verb prints before it runs: what it measures, how long at most, and how much it writes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ringfence_engine::write_budget;
use ringfence_experiment::plan::{Plan, is_left_out};
use ringfence_experiment::task::Task;
use ringfence_experiment::units::Span;
use ringfence_machine::Machine;

use crate::args::Output;

/// The line of an experiment; nothing with `--json`, or where files cannot be written.
pub fn plan(plan: &Plan, machine: &Machine, output: &Output) -> Option<String> {
    let writes = write_budget::at_most(plan);
    let is_refused = plan.writes_about().is_some() && writes.is_none();
    if is_refused {
        return None;
    }
    let written = match writes.filter(|_| machine.simulated.is_none()) {
        Some(bytes) => format!(", at most {bytes} written to disks"),
        None => String::new(),
    };
    let name = format!("{}{}", plan.experiment.name, place(plan));
    sentence(&name, &cases(plan), &(length(plan, machine) + &written), output.json)
}

/// `commit in /home: 16 cases, at most 30 s; Ctrl-C keeps what was measured`; nothing with
/// `--json`. The display leaves it out with `--quiet`.
pub fn sentence(name: &str, what: &str, length: &str, json: bool) -> Option<String> {
    (!json).then(|| format!("{name}: {what}, {length}; Ctrl-C keeps what was measured"))
}

/// A time as in a sentence: `30 s`, `2 min`, `2 min 5 s`.
pub fn time(time: Duration) -> String {
    let time = Span(time).rounded_up().0;
    match (time.as_secs() / 60, time.as_secs() % 60) {
        (0, _) | (1, 0..30) => format!("{} s", time.as_secs_f64()),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// How long it takes. Measurements of a service have no limit: a window ends when late responses
/// have arrived, and the first requests are sent before time is counted.
pub fn within(plan: &Plan, limit: Duration) -> String {
    let mut tasks = plan.variants.iter().flatten().map(|variant| &variant.task);
    let limit = time(limit);
    match tasks.any(Task::asks_a_service) {
        true => format!("about {limit}, and longer if responses are late"),
        false => format!("at most {limit}"),
    }
}

fn cases(plan: &Plan) -> String {
    let measured = plan.measured().len();
    let left_out = plan.not_run.iter().filter(|one| is_left_out(&one.reason)).count();
    match (measured, left_out) {
        (1, 0) => "1 case".into(),
        (measured, 0) => format!("{measured} cases"),
        (measured, left_out) => {
            format!("{measured} of {} cases for lack of time", measured + left_out)
        }
    }
}

// The folder or file of what is written, where there is one.
fn place(plan: &Plan) -> String {
    let tasks = plan.variants.iter().flatten().map(|variant| &variant.task);
    let paths: BTreeSet<&Path> = tasks.filter_map(|task| task.writes_to()).collect();
    match Vec::from_iter(paths)[..] {
        [path] => {
            let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
            format!(" in {}", whole.display())
        }
        _ => String::new(),
    }
}

fn length(plan: &Plan, machine: &Machine) -> String {
    let measure = &plan.experiment.measure;
    let trials = measure.looks.last().copied().unwrap_or_default();
    let least = plan.least_trial() * trials;
    match measure.time {
        Some(limit) if machine.simulated.is_some() => {
            format!("simulated, at most {} of the machine's own time", time(limit.0))
        }
        None if machine.simulated.is_some() => format!("simulated, at most {trials} trials"),
        Some(limit) => within(plan, limit.0),
        None if least.is_zero() => format!("at most {trials} trials"),
        None => format!("at most {trials} trials, {} at least", time(least)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_announced_of_a_service() {
        let text = |task: &str| {
            let text = format!(
                "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\ntime = '10s'\n\
                 [[role]]\nname = 'victim'\ntask = {task}\n\
                 [[arm]]\nname = 'alone'\nactive = ['victim']"
            );
            let machine = Machine::examine(&ringfence_machine::fixtures::vm_2cpu().root()).unwrap();
            let experiment = ringfence_experiment::Experiment::parse(&text).unwrap();
            length(&Plan::new(&experiment, &machine.topology, None).unwrap(), &machine)
        };
        assert_eq!(text("{ workload = 'alu' }"), "at most 10 s");
        let probe = "{ workload = 'probe', ask = 'tcp://127.0.0.1:1', send = 'x' }";
        assert_eq!(text(probe), "about 10 s, and longer if responses are late");
    }

    #[test]
    fn times_are_printed_as_people_say_them() {
        for (ms, text) in [
            (1_750, "1.8 s"),
            (30_000, "30 s"),
            (89_000, "89 s"),
            (120_000, "2 min"),
            (125_000, "2 min 5 s"),
        ] {
            assert_eq!(time(Duration::from_millis(ms)), text);
        }
    }
}
