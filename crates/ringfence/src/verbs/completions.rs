//! `completions`: what a shell needs to complete verbs and flags.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use clap_complete::aot::generate;
use ringfence_experiment::quantity::Quantity;
use ringfence_experiment::task::WORKLOADS;
use ringfence_experiment::task::{FenceAt, FenceKind, Instruction, Io, Layout, Sync, WidthChoice};
use ringfence_simulator::catalogue;
use ringfence_studies::prove;
use ringfence_studies::reproduce;

use crate::args::{self, Completions};
use crate::failure::Failure;
use crate::output;

/// How a target begins.
const TARGETS: [&str; 6] = ["dram", "tmpfs:", "file:", "dax:", "devdax:", "node:"];

pub fn run(asked: &Completions) -> Result<(), Failure> {
    let shell = match asked.shell {
        args::Shell::Bash => Shell::Bash,
        args::Shell::Zsh => Shell::Zsh,
        args::Shell::Fish => Shell::Fish,
    };
    // Not to standard output directly: the library panics if the pipe's reader has gone.
    let mut script = Vec::new();
    generate(shell, &mut with_words(args::command()), "ringfence", &mut script);
    let script = String::from_utf8_lossy(&script);
    output::print(&match shell {
        Shell::Bash => with_files(&script, &args::command()),
        _ => script.into_owned(),
    })
}

// For a verb that takes a path, the script offers flags in its place until a letter of it is typed.
// Where it offers nothing, bash offers files.
fn with_files(script: &str, command: &Command) -> String {
    let verbs: Vec<String> =
        command.get_subcommands().filter(|verb| takes_path(verb)).map(block_of).collect();
    let (mut out, mut takes_path) = (String::new(), false);
    for line in script.lines() {
        let block =
            line.trim().strip_suffix(')').filter(|name| name.starts_with("ringfence__subcmd__"));
        takes_path = block.map_or(takes_path, |name| verbs.iter().any(|verb| verb == name));
        let line = match line.trim() {
            // Where a word begins with a dash, and after flags without a value, alike.
            "COMPREPLY=( $(compgen -W \"${opts}\" -- \"${cur}\") )" if takes_path => {
                line.replace("COMPREPLY=", "[[ -z ${cur} ]] || COMPREPLY=")
            }
            _ => line.to_owned(),
        };
        out += &line;
        out.push('\n');
    }
    out
}

fn takes_path(verb: &Command) -> bool {
    let is_path = |arg: &Arg| {
        let named = |name: &clap::builder::Str| {
            matches!(name.as_str(), "PATH" | "FILE.toml" | "DIR" | "DATASET" | "BEFORE" | "AFTER")
        };
        arg.get_value_names().is_some_and(|names| names.iter().any(named))
    };
    verb.get_positionals().any(is_path)
}

// As the script calls its part for a verb.
fn block_of(verb: &Command) -> String {
    format!("ringfence__subcmd__{}", verb.get_name().replace('-', "__"))
}

// The words that a value may begin with, and whether it is a folder. The parser itself takes more
// than these: lists, and what is known only once the value is read, and refuses the rest in words
// of its own.
fn with_words(command: Command) -> Command {
    command.mut_args(with_words_of).mut_subcommands(with_words)
}

fn with_words_of(arg: Arg) -> Arg {
    let words: Vec<&'static str> = match arg.get_id().as_str() {
        "instruction" => Instruction::NAMES.into(),
        "fence_at" => FenceAt::NAMES.into(),
        "fence" => FenceKind::NAMES.into(),
        "width" => WidthChoice::NAMES.into(),
        "sync" => Sync::NAMES.into(),
        "io" => Io::NAMES.into(),
        "layout" => Layout::NAMES.into(),
        "metric" => Quantity::NAMES.into(),
        "target" => TARGETS.into(),
        "machine" => catalogue::all().into_iter().map(|machine| &*machine.name.leak()).collect(),
        "levers" => prove::lever_names(),
        // A program is written as it is, without the word that an experiment file has for it.
        "victim" | "aggressor" | "task" => {
            WORKLOADS.iter().copied().filter(|name| *name != "command").collect()
        }
        "names" => {
            // The parser wants words that stay; the program ends with them.
            reproduce::experiments()
                .into_iter()
                .map(|experiment| &*experiment.name.leak())
                .collect()
        }
        _ => Vec::new(),
    };
    if !words.is_empty() {
        return arg.value_parser(PossibleValuesParser::new(words));
    }
    let is_folder = |name: &clap::builder::Str| {
        matches!(name.as_str(), "DIR" | "DATASET" | "SURVEY" | "BEFORE" | "AFTER")
    };
    let folder = arg.get_value_names().is_some_and(|names| names.iter().any(is_folder));
    if folder { arg.value_hint(ValueHint::DirPath) } else { arg }
}
