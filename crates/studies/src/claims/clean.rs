//! Removes the names of hosts, persons and folders from a dataset.
//!
//! What stays is what figures need: samples, cases, placement, and of the machine the processor,
//! its features, the kernel's version, topology and what speaks for the clock. Paths of targets get
//! the names that shipped experiments use, folders of commits' logs numbers; commands that no
//! shipped experiment has become the names of their programs. Whatever else looks like a path or
//! has one of the names that must not appear makes the dataset refused: it is never published as it
//! is.

use std::collections::BTreeSet;

use crate::reproduce;
use ringfence_dataset::Dataset;
use ringfence_experiment::Experiment;
use ringfence_experiment::plan::{Case, NotRun, Plan};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::claims::evidence::Machine;

/// A dataset that can be published.
#[derive(Debug, Clone)]
pub struct Cleaned {
    /// It; its folder is that of the one it was made from.
    pub dataset: Dataset,
    /// The machine that it is of.
    pub machine: Machine,
    /// The parts that were removed or changed, a sentence each.
    pub left_out: Vec<String>,
}

// What of machine.json figures need.
const KEPT: [&str; 7] =
    ["schema", "kernel", "processor", "features", "tsc", "topology", "simulated"];

// Folders that do not reveal their owner, bare or with a number behind.
const COMMON: [&str; 11] = [
    "/mnt/pmem",
    "/dev/dax",
    "/dev/pmem",
    "/dev/shm",
    "/dev/zero",
    "/dev/null",
    "/dev/mem",
    // As the shipped experiments call a region; others' names may tell.
    "/dev/pseudo_lock/region",
    "/tmp",
    "/var/tmp",
    FOLDER,
];

// What the folders of commits' logs are called, with a number behind.
const FOLDER: &str = "/folder";

// The kernel's own files.
const KERNELS: [&str; 2] = ["/proc/", "/sys/"];

// Names that every second machine has, and sentences use.
const NO_NAMES: [&str; 3] = ["root", "localhost", "none"];

/// Cleans a dataset. `private` are the names that must not appear: of the host, the user, the home
/// folder.
///
/// # Errors
/// One sentence: it was cut short, or there is something in it that cannot be cleaned, and where.
pub fn clean(dataset: &Dataset, private: &[String]) -> Result<Cleaned, String> {
    if dataset.unfinished() || !dataset.is_done() {
        return Err(
            "it was cut short and cannot serve as evidence: finish it with 'ringfence run --resume'"
                .into(),
        );
    }
    let mut left_out = Vec::new();
    let public = public_texts();
    let mut table: toml::Table = dataset
        .plan
        .experiment
        .to_toml()
        .parse()
        .map_err(|error| format!("its experiment: {error}"))?;
    let renamed = renamed(&table, &public);
    for (from, to) in &renamed {
        left_out.push(format!("'{from}' became '{to}'"));
    }
    table.iter_mut().for_each(|(_, value)| replace_toml(value, &renamed));
    let text = table.to_string();
    let experiment = Experiment::parse(&text)
        .map_err(|error| format!("its experiment after cleaning: {error}"))?;

    let cases: Vec<Case> = cleaned(&dataset.plan.cases, &renamed)?;
    let not_run: Vec<NotRun> = cleaned(&dataset.plan.not_run, &renamed)?;
    let placed = cleaned(&dataset.plan.placed, &renamed)?;
    let plan = Plan::stored(experiment, cases, not_run, placed)
        .map_err(|error| format!("the cleaned copy would be inconsistent: {error}"))?;

    let (machine, gone) = reduced(&dataset.machine);
    if !gone.is_empty() {
        left_out.push(format!("of the machine: {}", gone.join(", ")));
    }
    let simulated = dataset.samples.iter().any(|sample| sample.simulated == Some(true));
    let known = Machine::of(&machine, simulated);
    let cleaned = Dataset { plan, machine, ..dataset.clone() };
    check(&cleaned, private, &public)?;
    Ok(Cleaned { dataset: cleaned, machine: known, left_out })
}

/// What of these names or paths a text has; `None` where it has none.
pub fn found(text: &str, private: &[String]) -> Option<String> {
    let names = private.iter().filter(|name| !NO_NAMES.contains(&name.to_lowercase().as_str()));
    let mut names = names.filter(|name| !name.is_empty() && has_word(text, name));
    names
        .next()
        .map(|name| format!("the name '{name}'"))
        .or_else(|| path(text).map(|path| format!("the path '{path}'")))
}

// Every text that the dataset's files will hold.
fn check(dataset: &Dataset, private: &[String], public: &BTreeSet<String>) -> Result<(), String> {
    let Dataset { plan, machine, manifest, samples, .. } = dataset;
    let parts = [
        ("its experiment", Value::String(plan.experiment.to_toml())),
        ("its cases", json(&plan.cases)),
        ("the reasons why cases were not run", json(&plan.not_run)),
        ("its placement", json(&plan.placed)),
        ("its machine", machine.clone()),
        ("how it ended", json(&manifest.ended)),
        (
            "the name of the program",
            Value::String(format!("{} {}", manifest.program, manifest.version)),
        ),
        (
            "its roles",
            json(&samples.iter().map(|sample| sample.role.to_string()).collect::<BTreeSet<_>>()),
        ),
    ];
    for (part, value) in parts {
        let mut texts = Vec::new();
        strings(&value, &mut texts);
        for mut text in texts {
            for known in public {
                text = text.replace(known.as_str(), "");
                // As TOML and JSON write it.
                text = text.replace(&known.replace('\\', "\\\\").replace('"', "\\\""), "");
            }
            if let Some(what) = found(&text, private) {
                return Err(format!(
                    "{part}: {what} would be published: rename it in the experiment or the machine \
                     file, and run it again"
                ));
            }
        }
    }
    Ok(())
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("its keys are texts")
}

// Commands of shipped experiments: every user has them.
fn public_texts() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for experiment in reproduce::experiments() {
        let table: toml::Table = experiment.to_toml().parse().expect("it was parsed before");
        below(&toml::Value::Table(table), "run", &mut |run| {
            all.insert(run.to_owned());
        });
    }
    all
}

// What each path and command is to be called, the longest first.
fn renamed(experiment: &toml::Table, public: &BTreeSet<String>) -> Vec<(String, String)> {
    let whole = toml::Value::Table(experiment.clone());
    let mut targets = BTreeSet::new();
    toml_strings(&whole, &mut |text| {
        if ["dax:", "tmpfs:", "file:"].iter().any(|kind| text.starts_with(kind)) {
            targets.insert(text.to_owned());
        }
    });
    let mut taken: BTreeSet<String> =
        targets.iter().filter(|text| path(text).is_none()).cloned().collect();
    let mut all = Vec::new();
    for target in targets.iter().filter(|text| path(text).is_some()) {
        let (kind, own) = target.split_once(':').expect("it begins with its kind");
        let name = |number: usize| match (kind, number) {
            ("dax", number) => format!("/mnt/pmem{number}"),
            ("tmpfs", 0) => "/dev/shm".into(),
            ("tmpfs", number) => format!("/dev/shm/{number}"),
            (_, 0) => "/var/tmp".into(),
            (_, number) => format!("/var/tmp/{number}"),
        };
        let free = (0..).map(name).find(|name| !taken.contains(&format!("{kind}:{name}")));
        let free = free.expect("numbers do not end");
        taken.insert(format!("{kind}:{free}"));
        all.push((own.to_owned(), free));
    }
    let mut folders = BTreeSet::new();
    below(&whole, "dir", &mut |dir| {
        folders.insert(dir.to_owned());
    });
    let taken = folders.clone();
    let mut free =
        (1..).map(|number| format!("{FOLDER}/{number}")).filter(|name| !taken.contains(name));
    for dir in folders.into_iter().filter(|dir| path(dir).is_some()) {
        if all.iter().all(|(from, _)| *from != dir) {
            all.push((dir, free.next().expect("numbers do not end")));
        }
    }
    let mut runs = BTreeSet::new();
    below(&whole, "run", &mut |run| {
        if !public.contains(run) {
            runs.insert(run.to_owned());
        }
    });
    let mut names: BTreeSet<String> = BTreeSet::new();
    for run in runs {
        let program = program(&run);
        let numbered = (2..).map(|number| format!("{program} ({number})"));
        let mut free =
            std::iter::once(program.clone()).chain(numbered).filter(|name| !names.contains(name));
        let name = free.next().expect("numbers do not end");
        names.insert(name.clone());
        if name != run {
            all.push((run, name));
        }
    }
    all.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    all
}

// The name of the program that a command line begins with.
fn program(run: &str) -> String {
    let first = run.split_whitespace().next().unwrap_or("program");
    let name = first.rsplit('/').next().unwrap_or(first);
    let plain: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || ['-', '_', '.', '+'].contains(c))
        .collect();
    if plain.is_empty() { "program".into() } else { plain }
}

// Hands over what stands at a key, wherever that is: `run`, what tasks of programs run, and `dir`,
// where logs of commits lie.
fn below(value: &toml::Value, wanted: &str, take: &mut dyn FnMut(&str)) {
    match value {
        toml::Value::Table(table) => {
            for (key, inner) in table {
                if key == wanted {
                    toml_strings(inner, take);
                } else {
                    below(inner, wanted, take);
                }
            }
        }
        toml::Value::Array(all) => all.iter().for_each(|one| below(one, wanted, take)),
        _ => {}
    }
}

fn toml_strings(value: &toml::Value, take: &mut dyn FnMut(&str)) {
    match value {
        toml::Value::String(text) => take(text),
        toml::Value::Array(all) => all.iter().for_each(|one| toml_strings(one, take)),
        toml::Value::Table(table) => table.values().for_each(|one| toml_strings(one, take)),
        _ => {}
    }
}

fn replaced(text: &str, renamed: &[(String, String)]) -> String {
    renamed.iter().fold(text.to_owned(), |text, (from, to)| match from.starts_with('/') {
        true => path_replaced(&text, from, to),
        false => text.replace(from.as_str(), to),
    })
}

// A path is not the beginning of a longer name: what is left of that would pass for no path.
fn path_replaced(text: &str, from: &str, to: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(from) {
        let (before, behind) = (&rest[..at], &rest[at + from.len()..]);
        out += before;
        let longer = behind.starts_with(|c: char| c.is_alphanumeric() || "_-+@~".contains(c));
        out += if longer && !from.ends_with('/') { from } else { to };
        rest = behind;
    }
    out + rest
}

fn replace_toml(value: &mut toml::Value, renamed: &[(String, String)]) {
    match value {
        toml::Value::String(text) => *text = replaced(text, renamed),
        toml::Value::Array(all) => all.iter_mut().for_each(|one| replace_toml(one, renamed)),
        toml::Value::Table(table) => {
            table.iter_mut().for_each(|(_, one)| replace_toml(one, renamed));
        }
        _ => {}
    }
}

fn replace_json(value: &mut Value, renamed: &[(String, String)]) {
    match value {
        Value::String(text) => *text = replaced(text, renamed),
        Value::Array(all) => all.iter_mut().for_each(|one| replace_json(one, renamed)),
        Value::Object(map) => map.values_mut().for_each(|one| replace_json(one, renamed)),
        _ => {}
    }
}

// A value with other texts.
fn cleaned<T: Serialize + DeserializeOwned>(
    value: &T,
    renamed: &[(String, String)],
) -> Result<T, String> {
    let mut json = serde_json::to_value(value).map_err(|error| error.to_string())?;
    replace_json(&mut json, renamed);
    serde_json::from_value(json)
        .map_err(|error| format!("the cleaned copy could not be read: {error}"))
}

fn strings(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|one| strings(one, all)),
        Value::Object(map) => map.iter().for_each(|(key, one)| {
            all.push(key.clone());
            strings(one, all);
        }),
        _ => {}
    }
}

// What figures need of machine.json, and the names of what is left out; a reader finds its fields,
// empty.
fn reduced(machine: &Value) -> (Value, Vec<String>) {
    let Value::Object(whole) = machine else { return (Value::Object(Map::new()), Vec::new()) };
    let (mut kept, mut gone) = (Map::new(), Vec::new());
    for (key, value) in whole {
        if KEPT.contains(&key.as_str()) {
            kept.insert(key.clone(), value.clone());
        } else if value.as_array().is_none_or(|all| !all.is_empty()) {
            gone.push(key.clone());
        }
    }
    kept.insert("targets".into(), Value::Array(Vec::new()));
    kept.insert("findings".into(), Value::Array(Vec::new()));
    if let Some(notes) = kept.get_mut("topology").and_then(|topology| topology.get_mut("notes")) {
        if notes.as_array().is_some_and(|all| !all.is_empty()) {
            gone.push("notes on its topology".into());
        }
        *notes = Value::Array(Vec::new());
    }
    (Value::Object(kept), gone)
}

// Whether a text has another one, not as a part of a longer word; in whatever case.
fn has_word(text: &str, word: &str) -> bool {
    let (text, word) = (text.to_lowercase(), word.to_lowercase());
    let part = |c: char| c.is_alphanumeric();
    text.match_indices(&word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(part);
        let after = text[at + word.len()..].chars().next().is_some_and(part);
        !(before && word.starts_with(part) || after && word.ends_with(part))
    })
}

// The first absolute path that is not common to all machines.
fn path(text: &str) -> Option<String> {
    let inner = |c: char| c.is_alphanumeric() || "/._-+@~".contains(c);
    let mut rest = text;
    let mut before = None;
    while let Some(at) = rest.find('/') {
        let previous = rest[..at].chars().next_back().or(before);
        let end = rest[at..].find(|c: char| !inner(c)).map_or(rest.len(), |length| at + length);
        let token = rest[at..end].trim_end_matches('.');
        // Such as in MB/s and and/or; a home may be written with a tilde.
        let divides =
            previous.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ')' || c == '.');
        if !divides && token.len() > 1 && !token.starts_with("//") && !is_common(token) {
            return Some(token.to_owned());
        }
        before = rest[..end].chars().next_back();
        rest = &rest[end.max(at + 1)..];
    }
    None
}

fn is_common(path: &str) -> bool {
    let numbered = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '/');
    KERNELS.iter().any(|kernels| path.starts_with(kernels))
        || COMMON.iter().any(|common| path.strip_prefix(common).is_some_and(numbered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_name_somebody_are_found_and_others_are_not() {
        for text in [
            "dax:/home/bob/pm",
            "locked:/dev/pseudo_lock/bob",
            "'/opt/secret/run' --x",
            "in /var/tmp/bob",
            "/root",
            "~/x",
            "a=/srv/a.b.",
        ] {
            assert!(path(text).is_some(), "{text}");
        }
        for text in [
            "600 MB/s and/or",
            "dax:/mnt/pmem0",
            "/dev/dax1.0",
            "/dev/shm/2",
            "locked:/dev/pseudo_lock/region",
            "/proc/self/fd/3",
            "1/2",
            "a // b",
        ] {
            assert_eq!(path(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_found_as_words_alone() {
        let private = ["vm".to_owned(), "Bob".to_owned(), "root".to_owned(), String::new()];
        assert_eq!(found("a kvm guest, bobsled, as root", &private), None);
        assert_eq!(found("kernel 6.1-bob", &private).unwrap(), "the name 'Bob'");
        assert_eq!(found("VM", &private).unwrap(), "the name 'vm'");
        assert_eq!(found("linux/home", &["/home".to_owned()]).unwrap(), "the name '/home'");
    }

    #[test]
    fn a_path_is_replaced_as_a_whole() {
        let renamed = [("/srv/logs", "/folder/2"), ("/srv", "/folder/1")];
        let renamed = renamed.map(|(from, to)| (from.to_owned(), to.to_owned()));
        for (text, expected) in [
            ("dir=/srv/logs, dir=/srv.", "dir=/folder/2, dir=/folder/1."),
            ("/srv/logs/x and /srv/other", "/folder/2/x and /folder/1/other"),
            ("/srvx/logs", "/srvx/logs"),
        ] {
            assert_eq!(replaced(text, &renamed), expected);
        }
        // What lies below is found, and refused.
        assert!(
            path("/folder/2/x").is_some()
                && path("/folder/2").is_none()
                && path("/folders/2").is_some()
        );
    }

    #[test]
    fn programs_keep_their_names_alone() {
        for (run, name) in [
            ("/home/bob/bin/solve --x /data", "solve"),
            ("gzip -c", "gzip"),
            ("", "program"),
            ("'a b'", "a"),
        ] {
            assert_eq!(program(run), name);
        }
    }
}
