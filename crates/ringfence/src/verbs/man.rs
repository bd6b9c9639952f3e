//! `man`: a manual page for the program and for each verb, from the definitions that help follows.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Command;
use clap_mangen::Man;
use ringfence_dataset::Date;
use ringfence_system::whole;

use crate::args;
use crate::failure::Failure;
use crate::output;

const CHANGES: &str = include_str!("../../../../CHANGELOG.md");

/// How a page of ours begins: another file of its name is not replaced.
const MARK: &str = ".\\\" Written by 'ringfence man'.\n";

pub fn run(asked: &args::Man) -> Result<(), Failure> {
    let dir = &asked.dir;
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::usage(format!("{} cannot be written: {why}; name another folder", path.display()))
    };
    let mut pages = Vec::new();
    let mut command = args::whole().disable_help_subcommand(true);
    command.build();
    let date = date(std::env::var("SOURCE_DATE_EPOCH").ok().as_deref(), SystemTime::now());
    add(&command, &date, &mut pages).map_err(Failure::failed_by)?;
    // All are looked at before one is written.
    for path in pages.iter().map(|(name, _)| dir.join(name)) {
        let ours = |found: &String| found.starts_with(MARK);
        if path.exists() && !fs::read_to_string(&path).as_ref().is_ok_and(ours) {
            return Err(cannot(&path, &"it is not a page that 'ringfence man' wrote"));
        }
    }
    fs::create_dir_all(dir).map_err(|error| cannot(dir, &error))?;
    for (name, page) in &pages {
        let path = dir.join(name);
        whole::write(&path, page).map_err(|error| cannot(&path, &error.into_source()))?;
    }
    output::print(&format!(
        "wrote {} pages to {}; read one: man -l {}",
        pages.len(),
        dir.display(),
        { ringfence_experiment::shell::quote(&dir.join("ringfence.1").to_string_lossy()) }
    ))
}

fn add(command: &Command, date: &str, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        add(verb, date, pages)?;
    }
    // A manual page has every flag, those that -h leaves out too.
    let whole = command.clone().mut_args(|arg| arg.hide_short_help(false));
    let page = Man::new(whole).date(date).source(version()).manual("Ringfence");
    let mut text = Vec::from(MARK);
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    synopsis(command, &mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let help = command.get_after_long_help().map(ToString::to_string);
    let help: Vec<String> = args::notes(command).into_iter().chain(help).collect();
    if !help.is_empty() {
        after(&help.join("\n\n"), &mut text)?;
    }
    if command.get_name() != "ringfence" {
        writeln!(text, ".SH SEE ALSO\n\\fBringfence\\fR(1)")?;
    }
    pages.push((page.get_filename(), text));
    Ok(())
}

// How it is called: flags that are not required are one word.
fn synopsis(command: &Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").replace("[OPTIONS]", "[OPTION]...");
    let name = command.get_bin_name().unwrap_or(command.get_name());
    writeln!(text, ".SH SYNOPSIS")?;
    for (number, line) in usage.lines().map(str::trim).enumerate() {
        let rest = line.strip_prefix(name).unwrap_or(line);
        let separator = if number > 0 { ".br\n" } else { "" };
        writeln!(text, "{separator}\\fB{}\\fR{}", escaped(name), escaped(rest))?;
    }
    Ok(())
}

// The day on which this version was released, as the list of changes has it. Before that, the day
// for which it is built (reproducible-builds.org/specs/source-date-epoch), or else today.
fn date(built_for: Option<&str>, now: SystemTime) -> String {
    let built = || Some(UNIX_EPOCH + Duration::from_secs(built_for?.trim().parse().ok()?));
    released(CHANGES, env!("CARGO_PKG_VERSION"))
        .unwrap_or_else(|| Date::new(built().unwrap_or(now)).day())
}

// By a heading such as "## [0.1.0] - 2026-05-09".
fn released(changes: &str, version: &str) -> Option<String> {
    let heading = format!("## [{version}] - ");
    changes.lines().find_map(|line| line.strip_prefix(&heading)).map(|date| date.trim().to_owned())
}

fn version() -> String {
    format!("ringfence {}", env!("CARGO_PKG_VERSION"))
}

// What follows the flags in help: paragraphs, of which some have a section of their own.
fn after(help: &str, text: &mut Vec<u8>) -> std::io::Result<()> {
    let mut notes = false;
    for paragraph in help.split("\n\n") {
        let mut lines = paragraph.lines().peekable();
        let section = match lines.peek().copied() {
            Some("Examples:") => Some("EXAMPLES"),
            Some("Exit codes:") => Some("EXIT STATUS"),
            _ => None,
        };
        if let Some(section) = section {
            lines.next();
            writeln!(text, ".SH {section}")?;
        } else if notes {
            writeln!(text, ".PP")?;
        } else {
            notes = true;
            writeln!(text, ".SH NOTES")?;
        }
        let mut is_set = false;
        for line in lines {
            // Indented lines are set as they are.
            let indented = line.starts_with(' ');
            if indented != is_set {
                writeln!(text, "{}", if indented { ".nf" } else { ".fi" })?;
                is_set = indented;
            }
            writeln!(text, "{}", escaped(line.trim_start()))?;
        }
        if is_set {
            writeln!(text, ".fi")?;
        }
    }
    Ok(())
}

// Text in which roff finds no requests or escapes.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_date_of_the_release_or_of_the_build() {
        let changes = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-24\n\n## [0.1.0] - \
                       2026-05-09\n";
        assert_eq!(released(changes, "0.1.0").as_deref(), Some("2026-05-09"));
        assert_eq!(released(changes, "0.3.0"), None);
        let now = UNIX_EPOCH + Duration::from_secs(86_400);
        let expected = |otherwise: &str| {
            released(CHANGES, env!("CARGO_PKG_VERSION")).unwrap_or_else(|| otherwise.to_owned())
        };
        assert_eq!(date(Some("1778311773"), now), expected("2026-05-09"));
        assert_eq!(date(Some("soon"), now), expected("1970-01-02"));
        assert_eq!(date(None, now), expected("1970-01-02"));
    }

    #[test]
    fn paragraphs_become_sections() {
        let mut text = Vec::new();
        after(
            "Note 'this'.\nMore.\n\nExit codes:\n  0  done\n\nExamples:\n  ringfence aa --out .x",
            &mut text,
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            ".SH NOTES\nNote \\(aqthis\\(aq.\nMore.\n.SH EXIT STATUS\n.nf\n0  done\n.fi\n.SH \
             EXAMPLES\n.nf\nringfence aa \
             \\-\\-out .x\n.fi\n"
        );
        assert_eq!(escaped(".x"), "\\&.x");
    }
}
