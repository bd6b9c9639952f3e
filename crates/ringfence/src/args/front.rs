//! The front page, and the command line as clap reads it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, Error, FromArgMatches};

use super::{Args, slips, topics, units};
use crate::failure::Exit;
use crate::shared::results;

/// The verbs that help lists, grouped by what they are for. Old names of verbs and rare ones are
/// hidden.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Start here", &["survey", "prove", "versus", "commit", "explain", "doctor", "show", "run"]),
    ("Measure more", &["write", "neighbours", "pair", "sensitivity", "tune", "lock", "fleet"]),
    ("Compare results", &["compare", "notes"]),
    ("Look at programs", &["crash", "census", "trace"]),
    ("Look at this machine, and change it", &["machine", "resctrl", "restore"]),
];

/// The command line: help, completions and hints follow it.
pub fn command() -> Command {
    topics::divide(whole())
}

/// The same with all that is said of its flags: for manual pages, and for pages of topics.
pub fn whole() -> Command {
    let command = with_results(units::lenient(Args::command()));
    let page = page(&command);
    let usage = "ringfence VERB [FLAGS]";
    command.help_template(page).override_usage(usage).after_long_help(Exit::table())
}

// A result may be named by its folder's name alone.
fn with_results(command: Command) -> Command {
    let is_result = |arg: &Arg| {
        let name = arg.get_value_names().and_then(|names| names.first());
        matches!(arg.get_id().as_str(), "resume" | "paths" | "diff")
            || name.is_some_and(|name| matches!(&**name, "DATASET" | "SURVEY" | "BEFORE" | "AFTER"))
    };
    let find = |arg: Arg| match is_result(&arg) {
        true => arg.value_parser(PathBufValueParser::new().map(results::find)),
        false => arg,
    };
    command.mut_args(find).mut_subcommands(with_results)
}

/// What the command line asks for; help and the version are printed here.
///
/// # Errors
/// One sentence that says what is wrong, with a hint where there is one.
pub fn parse() -> Result<Args, String> {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some(page) = topics::page(&mut whole(), &words) {
        // As with all help, a reader that has gone is not a failure.
        let _ = std::io::stdout().write_all(page.as_bytes());
        std::process::exit(0);
    }
    parse_all(&words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => sentence(&words, &error),
    })
}

/// What a command line within another asks for, without the program's name.
///
/// # Errors
/// As [`parse`].
pub fn parse_words(words: &[String]) -> Result<Args, String> {
    let words: Vec<_> =
        std::iter::once("ringfence".into()).chain(words.iter().map(OsString::from)).collect();
    parse_all(&words).map_err(|error| sentence(&words, &error))
}

// Says how quantities were read that are not exact.
fn parse_all(words: &[OsString]) -> Result<Args, Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(words)?;
    let args = Args::from_arg_matches(&matches)?;
    for line in units::readings(&command, &matches) {
        // stderr may be closed; ignore.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    Ok(args)
}

fn sentence(words: &[OsString], error: &Error) -> String {
    let mut command = command().disable_help_subcommand(true);
    command.build();
    slips::sentence(&command, words, error)
}

// Two lines of exit codes instead of the table, which would not fit the screen.
fn page(command: &Command) -> String {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let mut page = String::from("{about}\n{usage-heading} {usage}\n");
    for (group, verbs) in &GROUPS {
        let _ = writeln!(page, "\n{header}{group}:{header:#}");
        for verb in verbs.iter().filter_map(|verb| command.find_subcommand(verb)) {
            let (name, about) = (verb.get_name(), verb.get_about().map(ToString::to_string));
            let _ =
                writeln!(page, "  {literal}{name:<11}{literal:#}  {}", about.unwrap_or_default());
        }
    }
    page + "\n'ringfence VERB -h' lists the usual flags, 'ringfence help VERB' explains all.\n"
        + &Exit::in_brief()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_one_group() {
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let command = command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut verbs: Vec<&str> = shown.map(Command::get_name).collect();
        grouped.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    #[test]
    fn clap_finds_nothing_wrong_with_it() {
        command().debug_assert();
    }
}
