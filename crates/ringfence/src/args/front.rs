//! The front page, and the command line as clap reads it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, FromArgMatches};

use super::{Args, slips, topics};
use crate::failure::Exit;

/// The verbs, grouped by what they are for: the front page lists them so, the last group in one
/// line.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Start here", &["survey", "prove", "versus", "explain"]),
    (
        "Measure",
        &["write", "commit", "neighbours", "pair", "sensitivity", "tune", "lock", "run", "fleet"],
    ),
    ("Look at results", &["show", "report", "compare"]),
    (
        "Look at this machine, and at programs",
        &["doctor", "topology", "machine", "resctrl", "restore", "census", "trace"],
    ),
    (
        "Also",
        &["aa", "claims", "reproduce", "whatif", "calibrate", "contribute", "completions", "man"],
    ),
];

/// The command line: help, completions and hints follow it.
pub fn command() -> Command {
    topics::divide(whole())
}

/// The same with all that is said of its flags: for manual pages, and for pages of topics.
pub fn whole() -> Command {
    let command = Args::command();
    let page = page(&command);
    let usage = "ringfence VERB [FLAGS]";
    command.help_template(page).override_usage(usage).after_long_help(Exit::table())
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
    let parsed = command().try_get_matches_from(&words);
    match parsed.and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) => Ok(args),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
            _ => {
                let mut command = command().disable_help_subcommand(true);
                command.build();
                Err(slips::sentence(&command, &words, &error))
            }
        },
    }
}

/// What a command line within another asks for, without the program's name.
///
/// # Errors
/// As [`parse`].
pub fn parse_words(words: &[String]) -> Result<Args, String> {
    let words: Vec<_> =
        std::iter::once("ringfence".into()).chain(words.iter().map(OsString::from)).collect();
    let parsed = command().try_get_matches_from(&words);
    parsed.and_then(|matches| Args::from_arg_matches(&matches)).map_err(|error| {
        let mut command = command().disable_help_subcommand(true);
        command.build();
        slips::sentence(&command, &words, &error)
    })
}

// Two lines of exit codes stand for the table, which would not fit the screen.
fn page(command: &Command) -> String {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let mut page = String::from("{about}\n{usage-heading} {usage}\n");
    let [groups @ .., (last, brief)] = &GROUPS;
    for (group, verbs) in groups {
        let _ = writeln!(page, "\n{header}{group}:{header:#}");
        for verb in verbs.iter().filter_map(|verb| command.find_subcommand(verb)) {
            let (name, about) = (verb.get_name(), verb.get_about().map(ToString::to_string));
            let _ =
                writeln!(page, "  {literal}{name:<11}{literal:#}  {}", about.unwrap_or_default());
        }
    }
    let brief: Vec<String> =
        brief.iter().map(|verb| format!("{literal}{verb}{literal:#}")).collect();
    let _ = writeln!(page, "\n{header}{last}:{header:#} {}", brief.join(", "));
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
        let mut verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    #[test]
    fn clap_finds_nothing_wrong_with_it() {
        command().debug_assert();
    }
}
