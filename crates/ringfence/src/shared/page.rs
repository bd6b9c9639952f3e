//! The HTML page of a folder of figures.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use ringfence_machine::Machine;
use ringfence_report::html::{self, Digest, Page};
use ringfence_studies::measure::Measurement;

use super::answer::Answer;
use super::command::{command, pasteable};
use super::folder;
use crate::failure::Failure;
use crate::output;

/// How a page of ours begins: what else is there is not replaced.
const GENERATOR: &str = "name=\"generator\" content=\"ringfence ";

/// Writes the page of a folder, in the file that `flag` names, and returns its path.
pub fn write(dir: &Path, out: Option<&Path>, flag: &str) -> Result<PathBuf, Failure> {
    folder::refuse_file(dir)?;
    let path = out.map_or_else(|| dir.join("report.html"), Path::to_owned);
    put(&path, flag, || Answer::open(dir)?.page())?;
    Ok(path)
}

/// Writes the page of what was measured and says where it is. To be called when the figures have
/// been printed: a page that cannot be written costs nothing but itself, and the exit code is the
/// answer's. Of a measurement that ended early, what is said of that is enough.
pub fn beside(dir: &Path, as_json: bool, ended_early: bool) -> Result<(), Failure> {
    beside_with(dir, as_json, ended_early, || Answer::open(dir)?.page())
}

/// The same of one experiment that was measured just now. Only what ended early is read back: its
/// dataset is still to be completed.
pub fn beside_measured(
    dir: &Path,
    as_json: bool,
    done: &Measurement,
    machine: &Machine,
) -> Result<(), Failure> {
    beside_with(dir, as_json, !done.ended.is_planned(), || {
        match Digest::measured(dir, done, machine) {
            Some(digest) => Ok(html::datasets(&[digest])),
            None => Answer::open(dir)?.page(),
        }
    })
}

/// The same of a page that is made of what was measured just now.
pub fn beside_with(
    dir: &Path,
    as_json: bool,
    ended_early: bool,
    page: impl FnOnce() -> Result<Page, Failure>,
) -> Result<(), Failure> {
    let again = format!("'{} --html=FILE'", command(&["show"], dir));
    let path = dir.join("report.html");
    match put(&path, &again, page) {
        Ok(()) if as_json => Ok(()),
        Ok(()) => output::print(&format!("report: {}; open it in a browser\n", pasteable(&path))),
        Err(_) if ended_early => Ok(()),
        Err(failure) => {
            // stderr may be closed; ignore.
            let _ = writeln!(std::io::stderr(), "ringfence: no report was written: {failure}");
            Ok(())
        }
    }
}

/// Writes a page that a flag named, in the place of an older one.
pub fn put(
    path: &Path,
    flag: &str,
    page: impl FnOnce() -> Result<Page, Failure>,
) -> Result<(), Failure> {
    refuse_foreign(path, flag)?;
    replace(path, html::page(&page()?).as_bytes(), flag)
}

fn refuse_foreign(path: &Path, flag: &str) -> Result<(), Failure> {
    let refuse = |problem: &str| {
        Err(Failure::usage(format!("{}: {problem}: name another file with {flag}", path.display())))
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => refuse(&format!("it cannot be read, {error}")),
        Ok(metadata) if !metadata.is_file() => refuse("this is not an ordinary file"),
        Ok(_) => match fs::read(path) {
            Ok(bytes)
                if String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).contains(GENERATOR) =>
            {
                Ok(())
            }
            Ok(_) => refuse("this file exists and is not a report of Ringfence"),
            Err(error) => refuse(&format!("it exists and cannot be read, {error}")),
        },
    }
}

// The old page or the new one, never half of it.
fn replace(path: &Path, text: &[u8], flag: &str) -> Result<(), Failure> {
    ringfence_system::whole::write(path, text).map_err(|error| {
        let kind = error.kind();
        let (path, error) = (path.display(), error.into_source());
        let text = format!("{path} cannot be written: {error}; name another file with {flag}");
        match kind {
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem => Failure::usage(text),
            _ => Failure::failed(text),
        }
    })
}
