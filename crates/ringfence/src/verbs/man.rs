//! `man`: a manual page for the program and for each verb, from the definitions that help follows.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use ringfence_sysfs::whole;

use crate::args;
use crate::failure::Failure;
use crate::output;

/// How a page of ours begins: another file of its name is not replaced.
const MARK: &str = ".\\\" Written by 'ringfence man'.\n";

pub fn run(asked: &args::Man) -> Result<(), Failure> {
    let dir = &asked.dir;
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::Usage(format!("{} cannot be written: {why}; name another folder", path.display()))
    };
    let mut pages = Vec::new();
    let mut command = args::command().disable_help_subcommand(true);
    command.build();
    add(&command, &mut pages).map_err(|error| Failure::Failed(error.to_string()))?;
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
    output::print(&format!("wrote {} pages to {}; read one: man -l {}", pages.len(), dir.display(), {
        ringfence_experiment::shell::quote(&dir.join("ringfence.1").to_string_lossy())
    }))
}

fn add(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        add(verb, pages)?;
    }
    // A manual page has every flag, those that -h leaves out too.
    let whole = command.clone().mut_args(|arg| arg.hide_short_help(false));
    let page = Man::new(whole).source(version()).manual("Ringfence");
    let mut text = Vec::from(MARK);
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(help) = command.get_after_long_help() {
        after(&help.to_string(), &mut text)?;
    }
    if command.get_name() != "ringfence" {
        writeln!(text, ".SH SEE ALSO\n\\fBringfence\\fR(1)")?;
    }
    pages.push((page.get_filename(), text));
    Ok(())
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
    fn paragraphs_become_sections() {
        let mut text = Vec::new();
        after(
            "Note 'this'.\nMore.\n\nExit codes:\n  0  done\n\nExamples:\n  ringfence aa --out .x",
            &mut text,
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            ".SH NOTES\nNote \\(aqthis\\(aq.\nMore.\n.SH EXIT STATUS\n.nf\n0  done\n.fi\n.SH EXAMPLES\n.nf\nringfence aa \
             \\-\\-out .x\n.fi\n"
        );
        assert_eq!(escaped(".x"), "\\&.x");
    }
}
