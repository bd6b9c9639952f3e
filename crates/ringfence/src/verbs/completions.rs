//! `completions`: what a shell needs to complete verbs and flags.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use clap_complete::aot::generate;
use ringfence_experiment::task::text::WORKLOADS;
use ringfence_experiment::task::{FenceAt, FenceKind, Instruction, WidthChoice};
use ringfence_studies::{prove, reproduce};

use crate::args::{self, Completions};
use crate::failure::Failure;
use crate::output;

pub fn run(asked: &Completions) -> Result<(), Failure> {
    let shell = match asked.shell {
        args::Shell::Bash => Shell::Bash,
        args::Shell::Zsh => Shell::Zsh,
        args::Shell::Fish => Shell::Fish,
    };
    // Not to standard output at once: the library panics where nobody reads it.
    let mut script = Vec::new();
    generate(shell, &mut with_words(args::command()), "ringfence", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

// The words that a value may begin with, and whether it is a folder. The parser itself takes more than these: lists, and
// what is known only once the value is read, and refuses the rest in words of its own.
fn with_words(command: Command) -> Command {
    command.mut_args(with_words_of).mut_subcommands(with_words)
}

fn with_words_of(arg: Arg) -> Arg {
    let words: Vec<&'static str> = match arg.get_id().as_str() {
        "instruction" => Instruction::NAMES.into(),
        "fence_at" => FenceAt::NAMES.into(),
        "fence" => FenceKind::NAMES.into(),
        "width" => WidthChoice::NAMES.into(),
        "levers" => prove::lever_names(),
        // A program is written as it is, without the word that an experiment file has for it.
        "victim" | "aggressor" | "task" => WORKLOADS.into_iter().filter(|name| *name != "command").collect(),
        "names" => {
            // The parser wants words that stay; the program ends with them.
            reproduce::experiments().into_iter().map(|experiment| &*experiment.name.leak()).collect()
        }
        _ => Vec::new(),
    };
    if !words.is_empty() {
        return arg.value_parser(PossibleValuesParser::new(words));
    }
    let is_folder =
        |name: &clap::builder::Str| matches!(name.as_str(), "DIR" | "DATASET" | "BEFORE" | "AFTER");
    let folder = arg.get_value_names().is_some_and(|names| names.iter().any(is_folder));
    if folder { arg.value_hint(ValueHint::DirPath) } else { arg }
}
