//! `trace`: what a program does to the files that it maps.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ringfence_machine::text::printable;
use ringfence_trace::events::Ended;
use ringfence_trace::record::{Options, Outcome, RecordError, may_mount, record, with_own_users};
use ringfence_trace::recording::{About, Asked, RecordingError, Writer, pmemcheck};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::Trace;
use crate::failure::Failure;
use crate::output;
use crate::shared::command::{command, pasteable};
use crate::shared::results;

pub fn run(asked: &Trace) -> Result<(), Failure> {
    if let Some(log) = &asked.import {
        return import(log, &new_dir(asked)?);
    }
    if !asked.in_place && !may_mount() {
        return inside("copy the files yourself and use --in-place");
    }
    let files: Vec<PathBuf> = asked.file.iter().map(|file| whole(file)).collect();
    let dir = new_dir(asked)?;
    let out = whole(&dir);
    if let Some(file) = files.iter().find(|file| !asked.in_place && out.starts_with(file)) {
        return Err(Failure::usage(format!(
            "{} is inside {}, which is copied: name another folder with --out",
            printable(&dir.to_string_lossy()),
            printable(&file.to_string_lossy())
        )));
    }
    let mut writer = Writer::create(&dir, about(asked, &files)).map_err(failure)?;
    let options = Options {
        command: asked.command.clone(),
        files,
        copies: (!asked.in_place).then(|| dir.join("copies")),
        loads: asked.loads,
        output: false,
        made_in_memory: false,
    };
    let outcome = match record(options, &mut writer) {
        Ok(outcome) => outcome,
        Err(error) => {
            // What is there of it can be read; why it ended is what matters most.
            let _ = writer.finish(Ended::Stopped(error.to_string()));
            if matches!(
                error,
                RecordError::Start { .. } | RecordError::Copy { .. } | RecordError::Mount { .. }
            ) {
                // Nothing is.
                let _ = fs::remove_dir_all(&dir);
            }
            return Err(refused(error));
        }
    };
    let lost = |error: RecordingError| Failure::failed(error.to_string());
    writer.finish(outcome.ended.clone()).map_err(lost)?;
    tell(asked, &dir, &outcome);
    // Nothing to show, in a folder that was not asked for.
    if outcome.events == 0 && outcome.notes.is_empty() && asked.out.is_none() {
        let _ = fs::remove_dir_all(&dir);
    }
    match outcome.ended {
        Ended::Exited(0) => Ok(()),
        Ended::Exited(code) => Err(Failure::Command(code as u8)),
        Ended::Signal(signal) => Err(Failure::Command(128 + signal as u8)),
        Ended::Stopped(reason) => Err(Failure::failed(format!("recording stopped: {reason}"))),
    }
}

// The writer creates the folder itself, but none above it.
fn new_dir(asked: &Trace) -> Result<PathBuf, Failure> {
    let dir = results::new_dir(asked.out.as_deref(), "trace")?;
    match dir.parent().filter(|_| asked.out.is_none()) {
        None => Ok(dir),
        Some(root) => fs::create_dir_all(root)
            .map(|()| dir.clone())
            .map_err(|error| Failure::usage(format!("cannot create {}: {error}", root.display()))),
    }
}

// The same again, where it may mount.
pub(super) fn inside(remedy: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let what = "the command cannot be given copies in place of the files";
        let why = "this system does not allow users to mount";
        Failure::usage(format!("{what}: {error}; {why}; {remedy}"))
    };
    let this = std::env::current_exe().map_err(failed)?;
    let mut again = std::process::Command::new(this);
    again.args(std::env::args_os().skip(1));
    with_own_users(&mut again);
    let mut recorder = again.spawn().map_err(failed)?;
    // Not before it has started: it is to ignore what this process was started to ignore.
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]).map_err(failed)?;
    let (id, handle) = (Pid::from_child(&recorder), signals.handle());
    let forwarding = std::thread::spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGTERM => Signal::TERM,
                SIGHUP => Signal::HUP,
                // A terminal sends these to the recorder, too.
                _ => continue,
            };
            // It fails only where the recorder has ended.
            let _ = kill_process(id, signal);
        }
    });
    let status = recorder.wait();
    handle.close();
    // A thread that panicked has found a bug of ours: so does this one, then.
    forwarding.join().expect("forwarding signals does not panic");
    let status = status.map_err(failed)?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Command(code as u8)),
        None => Err(Failure::failed("the recorder was killed")),
    }
}

fn about(asked: &Trace, files: &[PathBuf]) -> About {
    // Names that are no text are not told, as JSON has no others.
    let is_text = |path: &Path| path.to_str().is_some();
    let known = files.iter().all(|file| is_text(file));
    About {
        recorder: format!("ringfence {}", env!("CARGO_PKG_VERSION")),
        command: asked.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        loads: asked.loads,
        directory: std::env::current_dir().ok().filter(|path| is_text(path)),
        asked: files
            .iter()
            .filter(|_| known)
            .map(|path| Asked { existed: path.exists(), path: path.clone() })
            .collect(),
    }
}

// As the system names it, as far as it is there.
pub(super) fn whole(file: &Path) -> PathBuf {
    let parent = || {
        let parent =
            file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(fs::canonicalize(parent).ok()?.join(file.file_name()?))
    };
    fs::canonicalize(file).ok().or_else(parent).unwrap_or_else(|| file.to_owned())
}

// To standard error: standard output is the command's.
fn tell(asked: &Trace, dir: &Path, outcome: &Outcome) {
    for note in &outcome.notes {
        say(note);
    }
    if outcome.events == 0 && matches!(outcome.ended, Ended::Stopped(_)) {
        say("nothing was recorded until then");
        return;
    }
    if outcome.events == 0 && !outcome.notes.is_empty() {
        say("nothing was recorded");
        return;
    }
    if outcome.events == 0 {
        say(&format!(
            "nothing was recorded: the command has not mapped {} for sharing",
            names(asked)
        ));
        return;
    }
    let ended = match &outcome.ended {
        Ended::Exited(0) => String::new(),
        Ended::Exited(code) => format!(" The command ended with exit code {code}."),
        Ended::Signal(signal) => format!(" Signal {signal} ended the command."),
        Ended::Stopped(_) => " The trace up to then is kept.".to_owned(),
    };
    let (out, next) = (pasteable(dir), command(&["census"], &results::name(dir)));
    say(&format!("{} events in {out}.{ended} Next: {next}", outcome.events));
}

// stderr may be closed; that is no failure.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "ringfence: {text}");
}

fn names(asked: &Trace) -> String {
    let names: Vec<String> =
        asked.file.iter().map(|file| printable(&file.to_string_lossy()).into_owned()).collect();
    names.join(" or ")
}

fn import(log: &Path, out: &Path) -> Result<(), Failure> {
    let named = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("{}: {error}", printable(&log.to_string_lossy())))
    };
    let file = fs::File::open(log).map_err(|error| named(&error))?;
    let about = About { recorder: "pmemcheck".to_owned(), ..About::default() };
    let mut writer = Writer::create(out, about).map_err(failure)?;
    let imported = match pmemcheck::import(std::io::BufReader::new(file), &mut writer) {
        Ok(imported) => imported,
        Err(error) => {
            // Half a log is no trace.
            drop(writer);
            let _ = fs::remove_dir_all(out);
            return Err(named(&error));
        }
    };
    let ended = if imported.whole {
        Ended::Exited(0)
    } else {
        Ended::Stopped("the log has no end".to_owned())
    };
    writer.finish(ended).map_err(failure)?;
    let next = command(&["census"], &results::name(out));
    let mut text = format!("{} events in {}", imported.events, pasteable(out));
    if imported.elsewhere > 0 {
        let _ = write!(
            text,
            "; {} stores and flushes were in no file that the log names, and were left out",
            imported.elsewhere
        );
    }
    output::print(&format!("{text}. Next: {next}"))
}

fn failure(error: RecordingError) -> Failure {
    Failure::usage(error.to_string())
}

fn refused(error: RecordError) -> Failure {
    match error {
        RecordError::Start { .. } | RecordError::Copy { .. } | RecordError::Mount { .. } => {
            Failure::usage(error.to_string())
        }
        error => Failure::failed(error.to_string()),
    }
}
