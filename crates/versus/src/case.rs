//! What is run: commands, with every combination of their parameters.

use serde::{Deserialize, Serialize};

use crate::parameter::Parameter;

/// A parameter's name and value.
pub type Setting = (String, String);

/// A command with every parameter decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Case {
    /// `a`, `b`, `c`: which of the commands that were given; where one command is run with several
    /// settings, which of these.
    pub role: String,
    /// Cases of one group are compared with each other, the first with each of the others.
    pub group: usize,
    /// What it is called: its name if one was given, otherwise the command.
    pub name: String,
    /// The command, its parameters filled in.
    pub command: String,
    /// The parameters.
    pub parameters: Vec<Setting>,
    /// What is run around it, parameters filled in.
    #[serde(skip)]
    pub around: Around,
}

impl Case {
    /// The first name in braces in the command, where no parameter was given.
    pub fn placeholder(&self) -> Option<&str> {
        placeholders(&self.command).next().filter(|_| self.parameters.is_empty())
    }
}

/// Commands that are run around the one that is timed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// Once, before the first run of any command.
    pub setup: Option<String>,
    /// Before each run.
    pub prepare: Option<String>,
    /// After each run.
    pub conclude: Option<String>,
    /// Once, after the last run of any command.
    pub cleanup: Option<String>,
    /// Where standard output goes: null, pipe, inherit or a file.
    pub output: Option<String>,
    /// The folder in which it is run, and what belongs around it.
    pub dir: Option<String>,
}

/// The requested commands, before parameters are filled in.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The commands: a, b, c.
    pub commands: Vec<String>,
    /// Names for them.
    pub names: Vec<String>,
    /// Parameters; each combination of their values is one setting.
    pub parameters: Vec<Parameter>,
    /// Once for all, or once for each command.
    pub setup: Vec<String>,
    /// Once for all, or once for each command.
    pub prepare: Vec<String>,
    /// Once for all, or once for each command.
    pub conclude: Vec<String>,
    /// Once for all, or once for each command.
    pub cleanup: Vec<String>,
    /// Once for all, or once for each command.
    pub output: Vec<String>,
    /// Once for all, or once for each command.
    pub dir: Vec<String>,
}

/// All cases, group by group.
///
/// Several commands are compared for each combination of parameters. One command is compared with
/// itself, under the first combination and each of the others; without parameters it is measured
/// alone.
///
/// # Errors
/// One sentence on what cannot be.
pub fn cases(asked: &Asked) -> Result<Vec<Case>, String> {
    if asked.commands.iter().any(|command| command.trim().is_empty()) {
        return Err("a command is empty: give the command line of a program".into());
    }
    let combinations = combinations(&asked.parameters);
    let (commands, alone) = (asked.commands.len(), asked.commands.len() == 1);
    refuse_unused(asked)?;
    let cases = if alone { combinations.len() } else { commands };
    if cases > MOST_ROLES {
        return Err(format!(
            "{cases} commands are more than the {MOST_ROLES} that are compared at once: give fewer"
        ));
    }
    for (flag, given) in [
        ("setup", &asked.setup),
        ("prepare", &asked.prepare),
        ("conclude", &asked.conclude),
        ("cleanup", &asked.cleanup),
        ("output", &asked.output),
        ("dir", &asked.dir),
    ] {
        if given.len() > 1 && given.len() != commands {
            return Err(format!(
                "--{flag} was given {} times for {commands} commands: give it once for all, or \
                 once for each",
                given.len()
            ));
        }
    }
    let names = asked.names.len();
    if names > commands.max(combinations.len() * commands) {
        return Err(format!(
            "--command-name was given {names} times for {commands} commands: give it once for each"
        ));
    }
    let mut all = Vec::new();
    for (group, combination) in combinations.iter().enumerate() {
        for (place, command) in asked.commands.iter().enumerate() {
            let fill = |text: &String| filled(text, combination);
            let of =
                |given: &[String]| given.get(if given.len() > 1 { place } else { 0 }).map(fill);
            let number = all.len();
            let name = match names {
                n if n > commands => asked.names.get(number),
                _ => asked.names.get(place),
            };
            let command = fill(command);
            all.push(Case {
                role: role(if alone { group } else { place }),
                group: if alone { 0 } else { group },
                name: name.map(fill).unwrap_or_else(|| command.clone()),
                command,
                parameters: combination.clone(),
                around: Around {
                    setup: of(&asked.setup),
                    prepare: of(&asked.prepare),
                    conclude: of(&asked.conclude),
                    cleanup: of(&asked.cleanup),
                    output: of(&asked.output),
                    dir: of(&asked.dir),
                },
            });
        }
    }
    refuse_states_that_setup_switches(&all)?;
    Ok(all)
}

/// The number of names of at most two letters.
const MOST_ROLES: usize = 26 * 27;

/// What the command in a place is called: `a` to `z`, then `aa`, `ab` and so on.
pub fn role(place: usize) -> String {
    let letter = |place: usize| char::from(b'a' + (place % 26) as u8);
    let first = (place / 26).checked_sub(1).map(letter);
    first.into_iter().chain([letter(place)]).collect()
}

// The first parameter changes fastest, as in hyperfine: names that are given by their place rely on
// it.
fn combinations(parameters: &[Parameter]) -> Vec<Vec<Setting>> {
    parameters.iter().rev().fold(vec![Vec::new()], |all, parameter| {
        let with = |rest: &Vec<Setting>| {
            let rest = rest.clone();
            let first = |value: &String| (parameter.name.clone(), value.clone());
            parameter.values.iter().map(move |value| [&[first(value)], &rest[..]].concat())
        };
        all.iter().flat_map(with).collect()
    })
}

fn filled(text: &str, settings: &[Setting]) -> String {
    settings
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

// Otherwise each group would be the same measurement.
fn refuse_unused(asked: &Asked) -> Result<(), String> {
    let texts = asked
        .commands
        .iter()
        .chain(&asked.setup)
        .chain(&asked.prepare)
        .chain(&asked.output)
        .chain(&asked.dir);
    let texts: Vec<&String> = texts.collect();
    match asked
        .parameters
        .iter()
        .find(|one| !texts.iter().any(|text| text.contains(&format!("{{{}}}", one.name))))
    {
        None => Ok(()),
        Some(Parameter { name, .. }) => {
            let other = texts.iter().find_map(|text| {
                placeholders(text).find(|used| asked.parameters.iter().all(|one| one.name != *used))
            });
            let other =
                other.map_or(String::new(), |other| format!(", and {{{other}}} has no values"));
            Err(format!(
                "the parameter '{name}' is in no command{other}: write {{{name}}} where its value \
                 belongs"
            ))
        }
    }
}

// Runs are interleaved: what one setup leaves, the next would have changed before the first run.
fn refuse_states_that_setup_switches(cases: &[Case]) -> Result<(), String> {
    for (number, one) in cases.iter().enumerate() {
        let same = |other: &&Case| {
            other.command == one.command
                && other.around.prepare == one.around.prepare
                && other.around.dir == one.around.dir
                && other.around.setup != one.around.setup
        };
        if let Some(other) = cases[..number].iter().find(same) {
            return Err(format!(
                "'{}' and '{}' are the same command and differ only in --setup, but runs are \
                 interleaved and both setups run before the first one: build each into its own \
                 folder, or switch with --prepare, which runs before each run",
                other.name, one.name
            ));
        }
    }
    Ok(())
}

/// Refuses placeholders that nothing fills in, where parameters were given: most often a misspelt
/// name.
pub fn unfilled(case: &Case, parameters: &[Parameter]) -> Option<String> {
    if parameters.is_empty() {
        return None;
    }
    let around = &case.around;
    let around = [
        &around.setup,
        &around.prepare,
        &around.conclude,
        &around.cleanup,
        &around.output,
        &around.dir,
    ];
    let texts = [&case.command].into_iter().chain(around.into_iter().flatten());
    let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let slip = |text: &String| {
        let name = placeholders(text).find(|name| !known.contains(name))?.to_owned();
        Some(match ringfence_experiment::nearest::nearest(&name, &known) {
            Some(near) => {
                format!("'{text}': there is no parameter '{name}'; did you mean '{near}'?")
            }
            None => format!(
                "'{text}': there is no parameter '{name}': give it values with --parameter \
                 {name}=..., or write {{ {name} }} if the braces are the command's own"
            ),
        })
    };
    texts.into_iter().find_map(slip)
}

// Names in braces. What follows a dollar sign is the shell's.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(begin, _)| {
        let rest = &text[begin + 1..];
        let name = &rest[..rest.find('}')?];
        let sound =
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
        (sound && !text[..begin].ends_with('$') && !name.contains("..")).then_some(name)
    })
}
