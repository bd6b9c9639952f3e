//! What is wrong with a command line, in one sentence, and what was probably meant.

use std::error::Error as _;
use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use ringfence_experiment::nearest::nearest;
use ringfence_experiment::shell;
use ringfence_experiment::task::WORKLOADS;
use ringfence_experiment::task::{Attached, Instruction};

/// The sentence for what clap refuses.
pub fn sentence(command: &Command, words: &[OsString], error: &Error) -> String {
    let asked = Asked::of(command, words);
    let argument = argument(error);
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    let said = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            text(error, ContextKind::InvalidSubcommand).map(|word| asked.unknown_verb(&word))
        }
        ErrorKind::UnknownArgument => argument.map(|word| match word.starts_with('-') {
            true => asked.unknown_flag(&word, text(error, ContextKind::SuggestedArg)),
            false => asked.stray_word(&word),
        }),
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => Some(asked.missing(missing)),
            _ => None,
        },
        ErrorKind::InvalidValue if value.is_empty() => argument.map(|flag| asked.no_value(&flag)),
        ErrorKind::InvalidValue => argument.map(|flag| wrong_word(error, &flag, &value)),
        ErrorKind::ValueValidation => argument.map(|flag| {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{}: '{value}' {}", asked.as_typed(&flag), not_a_number(&why))
        }),
        ErrorKind::TooManyValues => {
            argument.map(|flag| format!("{flag} takes no value: leave out '{value}'"))
        }
        ErrorKind::ArgumentConflict => argument.map(|flag| conflict(error, &flag)),
        ErrorKind::InvalidUtf8 => Some("an argument is not UTF-8 text".into()),
        _ => None,
    };
    // What has no sentence of its own here is said in clap's words.
    said.unwrap_or_else(|| {
        let whole = error.to_string();
        let first = whole.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).to_string()
    })
}

// The verb that a command line names, and the rest of what was typed.
struct Asked<'a> {
    top: &'a Command,
    verb: &'a Command,
    /// As it is typed: `ringfence lock measure`.
    typed: String,
    words: Vec<String>,
}

/// What flags are called in other programs, and here.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("output", "out"),
    ("out-dir", "out"),
    ("output-dir", "out"),
    ("block-size", "block"),
    ("blocksize", "block"),
    ("bs", "block"),
    ("record-size", "record"),
    ("duration", "time"),
    ("runtime", "time"),
];

impl<'a> Asked<'a> {
    fn of(top: &'a Command, words: &[OsString]) -> Self {
        let words: Vec<String> =
            words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        let (mut verb, mut typed) = (top, String::from("ringfence"));
        let help = words.first().is_some_and(|word| word == "help");
        for word in words.iter().skip(usize::from(help)) {
            match verb.find_subcommand(word) {
                Some(below) => {
                    verb = below;
                    typed += &format!(" {word}");
                }
                None if word.starts_with('-') => {}
                None => break,
            }
        }
        Self { top, verb, typed, words }
    }

    fn is_top(&self) -> bool {
        self.verb.get_name() == self.top.get_name()
    }

    fn unknown_verb(&self, word: &str) -> String {
        let path = Path::new(word);
        let quoted = shell::quote(word);
        if !self.is_top() {
            let known: Vec<&str> = self.verb.get_subcommands().map(Command::get_name).collect();
            if known.is_empty() {
                let help = self.typed.replacen("ringfence", "ringfence help", 1);
                return format!(
                    "'{word}' is one word too many: '{}' has no sub-verbs; see {help}",
                    self.typed
                );
            }
            let hint =
                near(word, &known).unwrap_or_else(|| format!("; it has {}", known.join(", ")));
            return format!("'{word}' is not a verb of '{}'{hint}", self.typed);
        }
        let known: Vec<&str> = self.top.get_subcommands().map(Command::get_name).collect();
        let hint = if WORKLOADS.contains(&word) {
            format!("; it is a workload, to be measured by 'ringfence neighbours --victim {word}'")
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            format!("; if it is an experiment file: ringfence run {quoted}")
        } else if path.is_dir() {
            format!("; if it is a dataset: ringfence show {quoted}")
        } else if path.is_file() {
            format!("; if it is a program: ringfence prove --victim {quoted} --aggressor TASK")
        } else {
            near(word, &known).unwrap_or_else(|| "; 'ringfence help' lists the verbs".into())
        };
        format!("'{word}' is not a verb{hint}")
    }

    fn unknown_flag(&self, flag: &str, suggested: Option<String>) -> String {
        let Self { top, verb, typed, .. } = self;
        let long = flag.trim_start_matches('-');
        if self.is_top() {
            if flag == "-v" {
                return "'-v' comes after a verb, as in 'ringfence show -v'; 'ringfence --version' \
                        prints the version"
                    .into();
            }
            let known: Vec<&str> = top.get_subcommands().map(Command::get_name).collect();
            let meant = nearest(long, &known).filter(|_| flag.starts_with("--"));
            return match meant {
                Some(meant) => format!("'{flag}' is not a flag; did you mean 'ringfence {meant}'?"),
                None => {
                    format!("'{flag}' is not a flag of ringfence; 'ringfence help' lists the verbs")
                }
            };
        }
        let wrong = format!("'{flag}' is not a flag of '{typed}'");
        let has = |verb: &Command, long: &str| verb.get_arguments().any(|arg| is_long(arg, long));
        let is_short = |arg: &Arg| arg.get_short().is_some_and(|short| flag == format!("-{short}"));
        if has(verb, long) || verb.get_arguments().any(is_short) {
            return format!("flags come after the verb: {typed} {flag}");
        }
        if ["cpu", "cpus"].contains(&long) && has(verb, "victim-cpu") {
            return format!(
                "{wrong}: the tasks' CPUs are set by --victim-cpu and --aggressor-cpus"
            );
        }
        // The verbs whose results 'run' continues have all flags for measuring.
        if long == "resume" && has(verb, "precision") {
            return format!(
                "{wrong}; to continue an interrupted run: ringfence run --resume DATASET"
            );
        }
        let meant = OTHER_NAMES.iter().filter(|(other, _)| *other == long).map(|(_, name)| *name);
        if let Some(meant) = meant.into_iter().find(|name| has(verb, name)) {
            return format!("{wrong}; did you mean '--{meant}'?");
        }
        // Old names still work, but no help lists them.
        let listed: Vec<&str> = verb.get_arguments().filter_map(Arg::get_long).collect();
        let suggested = suggested.map(|flag| flag.trim_start_matches('-').to_owned());
        let suggested = suggested
            .filter(|flag| listed.contains(&flag.as_str()))
            .or_else(|| nearest(long, &listed).map(str::to_owned));
        let elsewhere: Vec<&str> =
            top.get_subcommands().filter(|verb| has(verb, long)).map(Command::get_name).collect();
        match (elsewhere.as_slice(), suggested) {
            ([one], _) => format!("{wrong}; 'ringfence {one}' has it"),
            ([one, two], _) => format!("{wrong}; 'ringfence {one}' and 'ringfence {two}' have it"),
            ([_, ..], _) => format!("{wrong}; '{typed} -h' lists its flags"),
            ([], Some(meant)) => format!("{wrong}; did you mean '--{meant}'?"),
            ([], None) => match self.task_flag() {
                Some(task) => format!(
                    "{wrong}, whose flags '{typed} -h' lists; a program's own flags go inside the \
                     quotes, as in \
                     {task} './program {flag}'"
                ),
                None => format!("{wrong}; '{typed} -h' lists its flags"),
            },
        }
    }

    // A word that belongs to no flag: most often the second of a task that is not quoted.
    fn stray_word(&self, word: &str) -> String {
        let Self { verb, typed, .. } = self;
        let instruction = Instruction::ALL.iter().any(|known| known.name() == word);
        if let Some(list) = self.spaced_list(word) {
            return format!("'{word}' belongs to no flag: give several as a list: {list}");
        }
        if let Some(task) = self.task_flag() {
            if let Some(whole) = self.unquoted(word) {
                return format!(
                    "'{word}' belongs to no flag: quote a task of several words, as in {whole}"
                );
            }
            let example = match word {
                _ if instruction => format!("--aggressor 'write instruction={word}'"),
                _ if WORKLOADS.contains(&word) => format!("{task} {word}"),
                _ => format!("{task} 'chase footprint=4MiB'"),
            };
            return format!("'{word}' belongs to no flag: name tasks by flags, as in {example}");
        }
        if instruction && verb.get_arguments().any(|arg| is_long(arg, "instruction")) {
            return format!("'{word}' belongs to no flag: write --instruction {word}");
        }
        let places: Vec<String> = verb.get_positionals().map(value_name).collect();
        match places.as_slice() {
            [] => format!(
                "'{word}' belongs to no flag, and '{typed}' takes only flags; '{typed} -h' lists \
                 them"
            ),
            places => {
                format!("'{word}' is one word too many: '{typed}' takes {}", places.join(" and "))
            }
        }
    }

    // The first flag of the verb that takes a task, if there is one.
    fn task_flag(&self) -> Option<String> {
        let flag = self.verb.get_arguments().find(|arg| takes_task(arg))?;
        Some(format!("--{}", flag.get_long()?))
    }

    // The list whose second element this is, as it should be written.
    fn spaced_list(&self, word: &str) -> Option<String> {
        let at = self.words.iter().position(|typed| typed == word)?;
        let from = self.words[..at].iter().rposition(|typed| typed.starts_with('-'))?;
        let flag = &self.words[from];
        let long = flag.strip_prefix("--")?;
        let arg = self.verb.get_arguments().find(|arg| is_long(arg, long))?;
        let takes_list = value_name(arg) == "LIST" && from + 1 < at;
        takes_list
            .then(|| format!("{flag} {}", shell::quote(&self.up_to_a_flag(from + 1).join(","))))
    }

    // What was typed from a place on, up to the next flag.
    fn up_to_a_flag(&self, from: usize) -> &[String] {
        let words = &self.words[from..];
        &words[..words.iter().position(|typed| typed.starts_with('-')).unwrap_or(words.len())]
    }

    // A flag by the name that was typed, which may be its old one.
    fn as_typed(&self, flag: &str) -> String {
        let typed = |name: &str| {
            self.words
                .iter()
                .any(|word| word.split('=').next().and_then(|w| w.strip_prefix("--")) == Some(name))
        };
        let arg = self.verb.get_arguments().find(|arg| plain(&arg.to_string()) == flag);
        let aliases = arg.and_then(Arg::get_all_aliases).unwrap_or_default();
        let Some(old) = aliases.into_iter().find(|alias| typed(alias)) else {
            return flag.to_owned();
        };
        let sizes = old == "blocks" && self.verb.get_arguments().any(|arg| is_long(arg, "block"));
        let sizes = if sizes { "; block sizes are --block" } else { "" };
        format!("--{old} (the old name of {flag}{sizes})")
    }

    // The task whose second word this is, as it should be written.
    fn unquoted(&self, word: &str) -> Option<String> {
        let at = self.words.iter().position(|typed| typed == word)?;
        let from = self.words[..at].iter().rposition(|typed| typed.starts_with("--"))?;
        let flag = &self.words[from];
        let first = at.checked_sub(from + 1).filter(|words| *words > 0).map(|_| from + 1)?;
        self.verb
            .get_arguments()
            .find(|arg| takes_task(arg) && is_long(arg, flag.trim_start_matches('-')))?;
        Some(format!("{flag} {}", shell::quote(&self.up_to_a_flag(first).join(" "))))
    }

    // Whether a running process is named, by a task or by its own flag.
    fn names_a_running_process(&self) -> bool {
        Attached::KINDS.iter().any(|kind| {
            let (word, flag) = (format!("{kind}:"), format!("-{kind}"));
            self.words.iter().any(|typed| {
                let name = typed.split('=').next().unwrap_or(typed);
                typed.contains(&word) || (name.starts_with("--") && name.ends_with(&flag))
            })
        })
    }

    fn missing(&self, missing: &[String]) -> String {
        let Self { verb, typed, .. } = self;
        let needs = |flag: &str| missing.iter().any(|shown| plain(shown) == flag);
        let asks = |word: &String| word.starts_with("--victim-probe") || word.contains("probe:");
        if needs("--aggressor") && self.words.iter().any(asks) {
            return format!(
                "'{typed}' needs --aggressor, the task to run next to it, or a running process: \
                 --aggressor pid:N"
            );
        }
        if needs("--victim") && self.names_a_running_process() {
            return format!(
                "'{typed}' needs --victim, the task that must not be slowed down, or a service to \
                 query; for example: {typed} --victim probe:redis://localhost --aggressor pid:N"
            );
        }
        let names: Vec<String> = missing.iter().map(|shown| plain(shown)).collect();
        let of = |shown: &String| verb.get_arguments().find(|arg| arg.to_string() == **shown);
        let meaning = |shown: &String| Some(first_lower(&of(shown)?.get_help()?.to_string()));
        let told: Vec<String> = missing
            .iter()
            .zip(&names)
            .map(|(shown, name)| match meaning(shown) {
                Some(meaning) => format!("{name}, {meaning}"),
                None => name.clone(),
            })
            .collect();
        let example = verb.get_after_long_help().and_then(|help| example(&help.to_string()));
        let example = example.map_or(String::new(), |example| format!("; for example: {example}"));
        format!("'{typed}' needs {}{example}", told.join("; and "))
    }

    fn no_value(&self, flag: &str) -> String {
        let arg = self.verb.get_arguments().find(|arg| plain(&arg.to_string()) == flag);
        let Some(arg) = arg else { return format!("{flag} needs a value") };
        // What is simulated is known by its name, too.
        if flag == "--machine" {
            return format!(
                "{flag} needs a value, the machine to simulate: a file, or a name that 'ringfence \
                 machine' lists"
            );
        }
        let meaning = arg.get_help().map(|help| format!(": {}", first_lower(&help.to_string())));
        format!("{flag} needs a value, {}{}", value_name(arg), meaning.unwrap_or_default())
    }
}

fn text(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

// The flag, or the name of the place, that an error is about.
fn argument(error: &Error) -> Option<String> {
    let shown = text(error, ContextKind::InvalidArg)?;
    // What was typed and is not known stays as it was typed.
    if error.kind() == ErrorKind::UnknownArgument { Some(shown) } else { Some(plain(&shown)) }
}

// `--victim <TASK>` without its value, `<PATH>` without its brackets.
fn plain(shown: &str) -> String {
    let name = shown.split([' ', '=']).next().unwrap_or(shown);
    name.trim_start_matches(['<', '['])
        .trim_end_matches("...")
        .trim_end_matches(['>', ']'])
        .to_string()
}

fn is_long(arg: &Arg, long: &str) -> bool {
    arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().and_then(|names| names.first());
    names.map_or_else(|| arg.get_id().to_string(), ToString::to_string)
}

fn takes_task(arg: &Arg) -> bool {
    arg.get_long().is_some() && ["TASK", "COMMAND"].contains(&value_name(arg).as_str())
}

fn near(word: &str, known: &[&str]) -> Option<String> {
    nearest(word, known).map(|meant| format!("; did you mean '{meant}'?"))
}

fn first_lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

fn example(help: &str) -> Option<String> {
    help.lines().skip_while(|line| *line != "Examples:").nth(1).map(|line| line.trim().to_string())
}

fn wrong_word(error: &Error, flag: &str, value: &str) -> String {
    let known = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) => known.as_slice(),
        _ => &[],
    };
    let words: Vec<&str> = known.iter().map(String::as_str).collect();
    let hint = near(value, &words).unwrap_or_default();
    format!("{flag}: '{value}' is not one of {}{hint}", words.join(", "))
}

fn not_a_number(why: &str) -> String {
    match why {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "is not a whole number".into()
        }
        "number too large to fit in target type" => "is too large".into(),
        why => format!("cannot be used: {why}"),
    }
}

fn conflict(error: &Error, flag: &str) -> String {
    let others = match error.get(ContextKind::PriorArg) {
        Some(ContextValue::String(other)) => vec![plain(other)],
        Some(ContextValue::Strings(others)) => others.iter().map(|other| plain(other)).collect(),
        _ => Vec::new(),
    };
    match others.as_slice() {
        [same] if same == flag => format!("{flag} is given twice: give it once"),
        [] => format!("{flag} cannot be combined with the other flags: leave one of them out"),
        others => {
            format!("{flag} cannot be combined with {}: leave one of them out", others.join(" or "))
        }
    }
}
