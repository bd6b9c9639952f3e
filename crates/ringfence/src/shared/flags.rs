//! Flags into an experiment.

use ringfence_analysis::estimate::FEWEST_TRIALS;
use ringfence_engine::available;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::nearest::nearest;
use ringfence_experiment::plan::least_window;
use ringfence_experiment::task::{OneTask, Tasks, text};
use ringfence_experiment::units::{Share, Span};
use ringfence_experiment::{Experiment, OneOrMany, PlacementKind, Role};

use crate::args::{Measuring, Placement};
use crate::failure::Failure;

/// Sets what the flags say of an experiment.
pub fn apply(experiment: &mut Experiment, flags: &Measuring) -> Result<(), Failure> {
    let measure = &mut experiment.measure;
    if let Some(trials) = &flags.trials {
        check_trials(trials.first().copied())?;
        measure.looks = trials.clone();
    }
    if let Some(rounds) = flags.rounds {
        measure.rounds = rounds;
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
    if flags.window.is_none() {
        lengthen(experiment);
    }
    Ok(())
}

// Unless a window is asked for.
fn lengthen(experiment: &mut Experiment) {
    experiment.measure.window = long_enough(experiment.measure.window, least_window(experiment));
}

/// A window that is as long as tasks need, up to half a second. Longer ones are not chosen without
/// the user's knowledge.
pub fn long_enough(window: Span, least: Option<Span>) -> Span {
    const LONGEST: Span = Span::ms(500);
    least.filter(|least| *least <= LONGEST).map_or(window, |least| window.max(least))
}

/// A workload's tasks: of each parameter its name, what was given, and what is measured otherwise;
/// absent where neither is.
pub fn task(
    tasks: impl Into<Tasks>,
    parameters: &[(&str, &Option<String>, Option<&str>)],
) -> Result<Tasks, Failure> {
    let mut tasks = tasks.into();
    for (key, given, otherwise) in parameters {
        if let Some(value) = given.as_deref().or(*otherwise) {
            let set = tasks.set(key, &text::list(value));
            set.map_err(|error| of_a_flag(&error, |named| named == *key))?;
        }
    }
    Ok(tasks)
}

/// So many of a task at once, on these CPUs.
pub fn role(
    name: &str,
    tasks: Tasks,
    threads: Option<&[u32]>,
    cpus: Option<&str>,
) -> Result<Role, Failure> {
    let checked = tasks.each();
    checked.map_err(|error| of_a_flag(&error, |named| tasks.written().contains_key(named)))?;
    let mut role = Role::new(name, tasks);
    set_some(&mut role.cpus, "cpus", cpus)?;
    if let Some(threads) = threads {
        check_counts("threads", name, threads)?;
        role.count = one_or_many(threads);
    }
    Ok(role)
}

/// The tasks that a flag names. A sentence about one that cannot be used begins with the flag.
pub fn parse_task(flag: &str, text: &str) -> Result<Tasks, Failure> {
    let tasks = available::parse_task(text).and_then(|tasks| tasks.each().map(|_| tasks));
    tasks.map_err(|error| Failure::usage(format!("--{flag}: {}", without_workload(&error))))
}

/// The one task that a flag names.
pub fn one_task(flag: &str, tasks: Tasks) -> Result<OneTask, Failure> {
    OneTask::try_from(tasks).map_err(|error| Failure::usage(format!("--{flag}: {error}")))
}

fn without_workload(error: &str) -> &str {
    let rest = error.strip_prefix("workload ").and_then(|rest| rest.split_once(": "));
    rest.map_or(error, |(_, rest)| rest)
}

// What is wrong with a task that flags describe, beginning with the flag: `--record 4k: ...`.
fn of_a_flag(error: &str, is_flag: impl Fn(&str) -> bool) -> Failure {
    let error = without_workload(error);
    Failure::usage(match error.split_once(" = ") {
        Some((key, rest)) if is_flag(key) => format!("--{} {rest}", key.replace('_', "-")),
        _ => error.into(),
    })
}

/// Refuses a list with an unknown or a repeated word.
pub fn words(flag: &str, list: Option<&str>, known: &[&str]) -> Result<(), Failure> {
    let given: Vec<&str> = list.iter().flat_map(|list| list.split(',')).collect();
    let twice = given.iter().enumerate().find(|(place, word)| given[..*place].contains(word));
    match given.iter().find(|word| !known.contains(word)) {
        None => twice.map_or(Ok(()), |(_, word)| Err(given_twice(flag, word))),
        Some(word) => {
            let near = nearest(word, known).map(|near| format!("; did you mean '{near}'?"));
            let (known, near) = (known.join(", "), near.unwrap_or_default());
            Err(Failure::usage(format!("--{flag}: '{word}' is not one of {known}{near}")))
        }
    }
}

// What a flag's text says. The example of a refusal is one that suits the flag.
pub fn parsed<T>(flag: &str, text: &str) -> Result<T, Failure>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| {
        let said = error.to_string();
        let fitting = match (flag, said.rsplit_once("such as ")) {
            ("time", Some((lead, "20ms"))) if text != "20" => Some((lead, "60s".to_owned())),
            ("time", Some((lead, meant))) => Some((lead, meant.replace("ms", "s"))),
            ("confidence", Some((lead, "0.5%"))) => Some((lead, "95%".into())),
            ("budget", Some((lead, "0.5%"))) => Some((lead, "5%".into())),
            _ => None,
        };
        let said =
            fitting.map_or(said.clone(), |(lead, example)| format!("{lead}such as {example}"));
        Failure::usage(format!("--{flag}: {said}"))
    })
}

/// Sets a field from a flag's text.
pub fn set<T>(field: &mut T, flag: &str, text: Option<&str>) -> Result<(), Failure>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    if let Some(text) = text {
        *field = parsed(flag, text)?;
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
        *field = Some(parsed(flag, text)?);
    }
    Ok(())
}

/// The time that `--time` gives, or `--budget`, as it was once called in verbs without a verdict.
pub fn set_time(field: &mut Option<Span>, text: Option<&str>) -> Result<(), Failure> {
    if let Some(text) = text {
        let what = match text.parse::<Budget>() {
            Ok(Budget::Slowdown(_)) => Some("a share"),
            Ok(Budget::AtMost(..)) => Some("a bound"),
            Err(_) => None,
        };
        if let Some(what) = what {
            return Err(Failure::usage(format!(
                "--time: '{text}' is {what}, but this is how long to measure, such as 60s; to test \
                 a victim against a \
                 budget, use 'ringfence prove'"
            )));
        }
    }
    set_some(field, "time", text)
}

/// What `--budget` allows.
pub fn budget(text: &str) -> Result<Budget, Failure> {
    if text.parse::<Span>().is_ok() {
        return Err(Failure::usage(format!(
            "--budget: '{text}' is a duration without the metric that it bounds: write 'p99<{}', \
             or the allowed slowdown, such as 2%; --time says how long to measure",
            text.trim()
        )));
    }
    if text.trim_start().starts_with('-') {
        return Err(Failure::usage(format!(
            "--budget: '{text}' is negative; the allowed slowdown must be 0% or more, such as 2%"
        )));
    }
    parsed("budget", &percent(text))
}

// A number by itself is taken for percent from 1 on: below, it may be meant as a share of one.
fn percent(text: &str) -> String {
    let bare = text.trim().parse::<f64>().is_ok_and(|number| number >= 1.0);
    if bare { format!("{}%", text.trim()) } else { text.to_owned() }
}

/// The slowdown that `--budget` allows, of a victim whose units of work are compared by their mean
/// time.
pub fn set_slowdown(field: &mut Share, text: Option<&str>) -> Result<(), Failure> {
    match text.map(budget).transpose()? {
        Some(Budget::Slowdown(share)) => *field = share,
        Some(bound) => {
            return Err(Failure::usage(format!(
                "--budget '{bound}': here it is the allowed slowdown, such as 2%; for a bound on \
                 time, use 'ringfence prove'"
            )));
        }
        None => {}
    }
    Ok(())
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

/// Refuses fewer trials than show how they differ. A figure takes more, and that is the number to
/// name.
pub fn check_trials(trials: Option<u32>) -> Result<(), Failure> {
    match trials.filter(|trials| *trials < 2) {
        Some(trials) => Err(Failure::usage(format!(
            "--trials {trials}: a figure takes at least {FEWEST_TRIALS} trials"
        ))),
        None => Ok(()),
    }
}

/// Refuses a count of 0, and a repeated count.
pub fn check_counts(flag: &str, what: &str, counts: &[u32]) -> Result<(), Failure> {
    let twice = counts.iter().enumerate().find(|(place, count)| counts[..*place].contains(count));
    match (counts.contains(&0), twice) {
        (true, _) => Err(Failure::usage(format!("--{flag} 0: there must be at least one {what}"))),
        (false, Some((_, count))) => Err(given_twice(flag, count)),
        (false, None) => Ok(()),
    }
}

fn given_twice(flag: &str, value: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("--{flag} names {value} twice: give each value once"))
}
