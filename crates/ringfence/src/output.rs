//! Where text goes: its width and colours, and closed pipes.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_report::Style;

use crate::failure::Failure;

static DETAILS: AtomicBool = AtomicBool::new(false);

/// Prints details from here on.
pub fn show_details() {
    DETAILS.store(true, Ordering::Relaxed);
}

/// The style of standard output.
pub fn style() -> Style {
    style_of(&std::io::stdout())
}

/// The style of standard error.
pub fn style_of_stderr() -> Style {
    style_of(&std::io::stderr())
}

fn style_of(stream: &(impl AsFd + IsTerminal)) -> Style {
    let terminal = stream.is_terminal();
    let width = terminal_size::terminal_size_of(stream).map(|(width, _)| width.0 as usize);
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    Style {
        color: terminal && !plain,
        width: width.unwrap_or(100).min(140),
        // Where the locale says nothing, as in containers, terminals show UTF-8 all the same.
        unicode: utf8.is_none_or(|locale| {
            locale.to_uppercase().replace('-', "").contains("UTF8")
                || locale == "C"
                || locale == "POSIX"
        }),
        details: DETAILS.load(Ordering::Relaxed),
    }
}

/// Prints text; a reader that has gone (`| head`) is not a failure.
pub fn print(text: &str) -> Result<(), Failure> {
    print_if_read(text).map(|_| ())
}

/// The same, and whether the output is still read: a program that would run forever ends otherwise.
pub fn print_if_read(text: &str) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    match written.and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed(format!("writing to standard output: {error}"))),
    }
}

/// Prints a value as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::failed_by)?;
    print(&ringfence_machine::text::printable_json(&text))
}

/// A value as JSON in one line.
pub fn json_line(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(value).map_err(Failure::failed_by)?;
    Ok(ringfence_machine::text::printable_json(&text).into_owned() + "\n")
}
