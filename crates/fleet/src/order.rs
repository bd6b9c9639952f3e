//! The order for a new fleet: words of a command line become a [`Spec`].

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ringfence_dataset::{Date, text_file};
use ringfence_experiment::plan::Plan;
use ringfence_experiment::units::Span;
use ringfence_experiment::{Error, Experiment, shell};
use ringfence_machine::Machine;
use ringfence_machine::root::FsRoot;

use crate::error;
use crate::folder::{EXPERIMENT, Engine, Spec};
use crate::slurm;

// Far more than any user writes.
const LONGEST_FILE: u64 = 1 << 20;

/// What was typed.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// An experiment file and the fleet's folder; the folder alone where a verb was typed.
    pub places: Vec<PathBuf>,
    /// The number of tasks on this machine.
    pub local: Option<u32>,
    /// The number of tasks on nodes that Slurm chooses.
    pub hosts: Option<u32>,
    /// The longest that a task may take.
    pub limit: Option<String>,
    /// Options for sbatch; the verb may follow after `--`.
    pub slurm: Option<Vec<String>>,
    /// The verb and its flags.
    pub verb: Vec<String>,
}

/// A fleet that can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// Its folder.
    pub dir: PathBuf,
    /// The job.
    pub spec: Spec,
    /// The experiment's file, where there is one.
    pub experiment: Option<String>,
}

/// Checks an order; `called` returns what is wrong with a command line of this program.
///
/// # Errors
/// One sentence where there is none in it, or no Slurm here.
pub fn order(
    order: &Order,
    called: &dyn Fn(&[String]) -> Result<(), String>,
) -> Result<Ordered, Error> {
    let mut options = order.slurm.clone().unwrap_or_default();
    let mut words = order.verb.clone();
    // '--slurm' takes what follows, hyphens and all.
    if let Some(end) = options.iter().position(|word| word == "--") {
        words = options.split_off(end).split_off(1);
    }
    let (file, dir) = match (order.places.as_slice(), words.as_slice()) {
        ([file, dir], []) => (Some(file.clone()), dir),
        ([dir], [verb, file, ..]) if verb == "run" && !file.starts_with('-') => {
            (Some(PathBuf::from(file)), dir)
        }
        ([dir], [_, ..]) => (None, dir),
        ([_, _], _) => {
            return Err(usage("name an experiment file, or a verb after '--', but not both"));
        }
        _ => {
            return Err(usage(
                "name an experiment file, FILE.toml, and a folder for the fleet, or a verb after \
                 '--'",
            ));
        }
    };
    let text = file.as_deref().map(experiment).transpose()?;
    if text.is_some() {
        let flags = words.split_off(words.len().min(2));
        words = ["run", EXPERIMENT].map(str::to_owned).into_iter().chain(flags).collect();
    }
    if text.is_none() && words.first().is_some_and(|verb| verb == "run") {
        return Err(usage("name an experiment file after 'run'"));
    }
    check(&words, called)?;
    let minutes = minutes(order, &words, text.as_deref())?;
    let mut spec = Spec {
        schema: Spec::SCHEMA,
        program: format!("ringfence {}", env!("CARGO_PKG_VERSION")),
        created: Date::new(SystemTime::now()).rfc3339(),
        engine: if order.local.is_some() { Engine::Local } else { Engine::Slurm },
        tasks: order.local.unwrap_or(0),
        seed: seed(&words, text.as_deref()),
        words,
        folder: here()?,
        minutes,
        nodes: Vec::new(),
        options: Vec::new(),
    };
    match (order.local, &order.slurm) {
        (None, None) => {
            return Err(usage("choose where it runs: --slurm, or --local 2 to try it here"));
        }
        (Some(0), _) => return Err(usage("--local: a fleet takes at least one task")),
        (Some(_), _) => {}
        (None, Some(_)) => {
            of_slurm(&mut spec, options, order.hosts)?;
            namable(dir)?;
        }
    }
    Ok(Ordered { dir: dir.clone(), spec, experiment: text })
}

fn usage(text: &str) -> Error {
    Error::usage(text)
}

fn experiment(file: &Path) -> Result<String, Error> {
    let refuse = |why: String| Error::usage(format!("{}: {why}", file.display()));
    let text = text_file::read(file, LONGEST_FILE)
        .map_err(|error| refuse(format!("{error}; name an experiment file")))?;
    Experiment::parse(&text).map_err(|error| refuse(error.to_string()))?;
    Ok(text)
}

// What each task will be called with, read as it will be.
fn check(words: &[String], called: &dyn Fn(&[String]) -> Result<(), String>) -> Result<(), Error> {
    if words.iter().any(|word| word == "--out" || word.starts_with("--out=")) {
        return Err(usage("each task writes to its own folder: leave out --out"));
    }
    if words.iter().any(|word| word == "--save" || word.starts_with("--save=")) {
        return Err(usage("--save writes an experiment instead of running it: leave it out"));
    }
    let whole: Vec<String> =
        words.iter().cloned().chain(["--out", "data", "--quiet"].map(str::to_owned)).collect();
    let Err(why) = called(&whole) else { return Ok(()) };
    Err(Error::usage(format!(
        "'{}' cannot be the task of a fleet: {why}",
        shell::line(words.iter().map(String::as_str))
    )))
}

// sbatch reads the name of the log in quotes, in which it knows no way to write these.
fn namable(dir: &Path) -> Result<(), Error> {
    let whole = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    match whole.to_string_lossy().contains(['"', '\\', '\n']) {
        true => Err(Error::usage(format!(
            "{}: Slurm accepts no folder with a quotation mark or a backslash in its name: choose \
             another",
            whole.display()
        ))),
        false => Ok(()),
    }
}

fn of_slurm(spec: &mut Spec, options: Vec<String>, hosts: Option<u32>) -> Result<(), Error> {
    slurm::is_here()?;
    let mut named = None;
    let mut array = None;
    let mut rest = options.into_iter().peekable();
    while let Some(option) = rest.next() {
        let value = |rest: &mut std::iter::Peekable<std::vec::IntoIter<String>>,
                     long: &str,
                     short: &str| {
            match option.strip_prefix(long) {
                Some("") => rest.next(),
                Some(value) => value.strip_prefix('=').map(str::to_owned),
                None if option == short => rest.next(),
                None => option.strip_prefix(short).map(str::to_owned),
            }
        };
        if let Some(list) = value(&mut rest, "--nodelist", "-w") {
            named = Some(list);
        } else if let Some(list) = value(&mut rest, "--array", "-a") {
            array = Some(count(&list)?);
            spec.options.push(format!("--array={list}"));
        } else {
            spec.options.push(sensible(option)?);
        }
    }
    if let Some(list) = named {
        spec.nodes = slurm::nodes(&list)?;
        let twice = |(place, node): &(usize, &String)| spec.nodes[..*place].contains(node);
        if let Some((_, node)) = spec.nodes.iter().enumerate().find(twice) {
            return Err(Error::usage(format!(
                "--nodelist={list}: {node} is in it twice: name each node once"
            )));
        }
        spec.tasks = u32::try_from(spec.nodes.len()).unwrap_or(u32::MAX);
    }
    let known = [Some(spec.tasks).filter(|_| !spec.nodes.is_empty()), hosts, array];
    let mut known = known.into_iter().flatten();
    spec.tasks = known.next().filter(|tasks| *tasks > 0).ok_or_else(|| {
        usage("give the number of hosts: --hosts 4, or --slurm --nodelist='n[1-4]' or --array=1-4")
    })?;
    match known.find(|other| *other != spec.tasks) {
        Some(other) => Err(Error::usage(format!(
            "{} hosts and {other} hosts are both requested: name one number",
            spec.tasks
        ))),
        None => Ok(()),
    }
}

/// An option of sbatch that does not conflict with the fleet's own options.
///
/// # Errors
/// One sentence.
pub(crate) fn sensible(option: String) -> Result<String, Error> {
    let refuse = |why: &str| Err(Error::usage(format!("{option}: {why}")));
    if ["--wait", "-W"].contains(&option.as_str()) {
        return refuse(
            "sbatch would wait for tasks that cannot start before it ends: leave it out, and wait \
             with 'ringfence fleet status --wait'",
        );
    }
    let long = option == "--job-name" || option.starts_with("--job-name=");
    if long || (option.starts_with("-J") && !option.starts_with("--")) {
        return refuse("the fleet sets this to find its jobs again: leave it out");
    }
    Ok(option)
}

// `1-40` or `1-40%10`: a retry has an array of its own, so this is only how many there are.
fn count(list: &str) -> Result<u32, Error> {
    let range = list.split('%').next().unwrap_or_default();
    let last = range
        .strip_prefix("1-")
        .and_then(|last| last.parse().ok())
        .or_else(|| (range == "1").then_some(1));
    last.ok_or_else(|| {
        Error::usage(format!("--array={list}: tasks are numbered from 1, as in --array=1-40"))
    })
}

fn seed(words: &[String], text: Option<&str>) -> Option<u64> {
    let given = value_of(words, "--seed").and_then(|seed| seed.parse().ok());
    given.or_else(|| Some(Experiment::parse(text?).ok()?.seed))
}

fn value_of<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| word.starts_with(flag))?;
    match words[at].strip_prefix(flag)? {
        "" => words.get(at + 1).map(String::as_str),
        value => value.strip_prefix('='),
    }
}

// Half as long again as it should take, and ten minutes for everything around it.
fn minutes(order: &Order, words: &[String], text: Option<&str>) -> Result<u32, Error> {
    if let Some(limit) = &order.limit {
        return limit_minutes(limit);
    }
    let budget = match value_of(words, "--time") {
        Some(time) => Some(span(time, "--time")?),
        None => text.and_then(planned),
    };
    // A survey takes two minutes, a proof with all its levers some twenty.
    let budget =
        budget.unwrap_or(Duration::from_secs(if words[0] == "survey" { 300 } else { 2400 }));
    Ok(whole_minutes(budget.mul_f64(1.5)).saturating_add(10))
}

/// Parses a time limit.
///
/// # Errors
/// Where it is none.
pub(crate) fn limit_minutes(limit: &str) -> Result<u32, Error> {
    span(limit, "--limit").map(whole_minutes)
}

fn span(text: &str, flag: &str) -> Result<Duration, Error> {
    let span =
        text.parse::<Span>().map_err(|error| Error::usage(format!("{flag}: '{text}': {error}")));
    Ok(span?.0)
}

fn whole_minutes(time: Duration) -> u32 {
    time.as_secs().div_ceil(60).clamp(1, u64::from(u32::MAX)) as u32
}

// As long as the file says, or its windows take.
fn planned(text: &str) -> Option<Duration> {
    let experiment = Experiment::parse(text).ok()?;
    if let Some(time) = experiment.measure.time {
        return Some(time.0);
    }
    let machine = Machine::examine(&FsRoot::host()).ok()?;
    let plan = Plan::new(&experiment, &machine.topology, machine.features.as_ref()).ok()?;
    let trials = plan.experiment.measure.looks.last().copied().unwrap_or(1);
    Some((plan.least_trial() * trials).max(Duration::from_secs(600)))
}

fn here() -> Result<PathBuf, Error> {
    let here = Path::new(".");
    here.canonicalize().map_err(error::io("find", here))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(places: &[&str], more: Order) -> Result<Ordered, String> {
        let places = places.iter().map(PathBuf::from).collect();
        order(&Order { places, ..more }, &|_| Ok(())).map_err(|error| error.to_string())
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_verb_here() {
        let local =
            Order { local: Some(2), verb: words("survey --quick --seed 7"), ..Order::default() };
        let Ordered { dir, spec, experiment } = ordered(&["fleet"], local.clone()).unwrap();
        assert_eq!(
            (dir.to_str(), spec.tasks, spec.engine, spec.seed),
            (Some("fleet"), 2, Engine::Local, Some(7))
        );
        // Five minutes, half as long again, and ten.
        assert_eq!((spec.minutes, experiment), (18, None));
        let timed = Order { verb: words("prove --time=60s"), ..local.clone() };
        assert_eq!(ordered(&["fleet"], timed).unwrap().spec.minutes, 12);
        let limited = Order { limit: Some("90s".into()), ..local };
        assert_eq!(ordered(&["fleet"], limited).unwrap().spec.minutes, 2);
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_a_sentence() {
        let local = |verb: &str| Order { local: Some(1), verb: words(verb), ..Order::default() };
        for (places, order, part) in [
            (&["a", "b"][..], local("survey"), "but not both"),
            (&["a"], Order { local: Some(1), ..Order::default() }, "a verb after '--'"),
            (&["a"], local("survey --out x"), "leave out --out"),
            (&["a"], Order { local: None, ..local("survey") }, "--slurm, or --local 2"),
            (&["a"], Order { local: Some(0), ..local("survey") }, "at least one task"),
            (&["a"], Order { limit: Some("long".into()), ..local("survey") }, "--limit: 'long'"),
            (&["absent.toml", "a"], Order { local: Some(1), ..Order::default() }, "absent.toml"),
        ] {
            let error = ordered(places, order).unwrap_err();
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(count("1-40%10").unwrap(), 40);
        for option in ["--wait", "-W", "--job-name=a", "-Ja"] {
            assert!(
                sensible(option.into()).unwrap_err().to_string().contains("leave it out"),
                "{option}"
            );
        }
        assert_eq!(sensible("--wait-all-nodes=1".into()).unwrap(), "--wait-all-nodes=1");
        assert!(count("3-5").is_err());
    }
}
