//! The folder of a fleet: made, and opened again.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error;
use ringfence_dataset::text_file;
use ringfence_experiment::Error;
use ringfence_experiment::shell;
use ringfence_system::whole;
use serde::{Deserialize, Serialize};

pub(crate) const PROGRAM: &str = "ringfence";
pub(crate) const EXPERIMENT: &str = "experiment.toml";
const SPEC: &str = "fleet.toml";

/// What runs the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Slurm: a job array, one task a node.
    Slurm,
    /// This machine, one task after the other.
    Local,
}

/// The job of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Version of the folder's layout.
    pub schema: u32,
    /// The program and its version.
    pub program: String,
    /// When, UTC, as RFC 3339 has it.
    pub created: String,
    /// What runs the tasks.
    pub engine: Engine,
    /// How many tasks there are, numbered from 1: one a host.
    pub tasks: u32,
    /// The verb that each task runs, and its flags.
    pub words: Vec<String>,
    /// The folder in which each runs, where relative paths in these words begin.
    pub folder: PathBuf,
    /// The seed that was given, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The time limit of a task, in minutes, as given to Slurm.
    pub minutes: u32,
    /// The node of each task, where they were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Further options for sbatch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Spec {
    /// The current [`Spec::schema`].
    pub const SCHEMA: u32 = 1;

    /// What each task runs, as a shell reads it.
    pub fn line(&self) -> String {
        shell::line(self.words.iter().map(String::as_str))
    }

    /// The node that a task is to run on, where it was named.
    pub fn node(&self, task: u32) -> Option<&str> {
        self.nodes.get(task.checked_sub(1)? as usize).map(String::as_str)
    }
}

/// Whether a folder is that of a fleet.
pub fn is_fleet(dir: &Path) -> bool {
    dir.join(SPEC).is_file()
}

/// Makes the folder of a fleet, with the program and the experiment in it.
///
/// # Errors
/// Where the folder exists and is not empty, and what the kernel refuses.
pub fn create(
    dir: &Path,
    spec: &Spec,
    program: &Path,
    experiment: Option<&str>,
) -> Result<(), Error> {
    match fs::read_dir(dir).map(Iterator::count) {
        Ok(entries) if entries > 0 => {
            let dir = dir.display();
            return Err(Error::usage(format!(
                "{dir} is not empty: name a folder that does not exist yet, or see 'ringfence \
                 fleet status'"
            )));
        }
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(Error::usage(format!("{} is not a folder: name one", dir.display())));
        }
        _ => {}
    }
    for folder in ["tasks", "nodes", "submissions"] {
        let folder = dir.join(folder);
        fs::create_dir_all(&folder).map_err(error::io("make", &folder))?;
    }
    let copy = dir.join(PROGRAM);
    fs::copy(program, &copy).map_err(error::io("copy the program to", &copy))?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&copy, executable).map_err(error::io("make executable", &copy))?;
    if let Some(text) = experiment {
        let path = dir.join(EXPERIMENT);
        whole::write(&path, text.as_bytes()).map_err(error::whole(&path))?;
    }
    // Last: a folder that has it is complete.
    let path = dir.join(SPEC);
    let text = toml::to_string(spec).map_err(Error::failed_by)?;
    whole::write(&path, text.as_bytes()).map_err(error::whole(&path))
}

/// Reads the job of the fleet in a folder.
///
/// # Errors
/// Where it is not the folder of a fleet, or of one that a later version made.
pub fn open(dir: &Path) -> Result<Spec, Error> {
    let path = dir.join(SPEC);
    let text = text_file::read(&path, 1 << 20).map_err(|error| {
        Error::usage(format!(
            "{}: {error}; name the folder of 'ringfence fleet submit'",
            path.display()
        ))
    })?;
    let spec: Spec = toml::from_str(&text).map_err(|error| {
        Error::failed(format!(
            "{} is damaged ({}): restore the original",
            path.display(),
            error.message()
        ))
    })?;
    if spec.schema > Spec::SCHEMA {
        let newer = format!(
            "{} was created by a later version of Ringfence: use that version",
            path.display()
        );
        return Err(Error::usage(newer));
    }
    Ok(spec)
}

/// Why a program may lack its libraries on another machine; `None` for a static one.
pub fn static_problem(program: &Path) -> Option<String> {
    let mut head = Vec::new();
    let read = fs::File::open(program).and_then(|file| file.take(1 << 16).read_to_end(&mut head));
    read.ok()?;
    interpreter(&head)?.then(|| {
        "this program is not static: nodes need the same C library, or a newer one; \
         'scripts/package' builds a static program"
            .into()
    })
}

// Whether a program of this class asks for an interpreter (System V ABI, program header PT_INTERP).
fn interpreter(head: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    let word = |at: usize, bytes: usize| {
        let bytes = head.get(at..at + bytes)?;
        Some(bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    if head.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (first, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
    let kinds = (0..count).map(|number| word((first + number * size) as usize, 4));
    Some(kinds.flatten().any(|kind| kind == u64::from(PT_INTERP)))
}

/// The folder of a task.
pub(crate) fn task(dir: &Path, number: u32) -> PathBuf {
    dir.join("tasks").join(format!("{number:04}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_want_an_interpreter_are_known() {
        let own = fs::read("/proc/self/exe").unwrap();
        assert_eq!(interpreter(&own[..1 << 16]), Some(true));
        assert_eq!(interpreter(b"#!/bin/sh"), None);
        assert_eq!(interpreter(b""), None);
    }

    #[test]
    fn a_spec_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a");
        let spec = Spec {
            schema: Spec::SCHEMA,
            program: "ringfence 1".into(),
            created: "2026-05-09T07:29:33.000Z".into(),
            engine: Engine::Slurm,
            tasks: 2,
            words: vec!["survey".into(), "--quick".into()],
            folder: "/a b".into(),
            seed: Some(1),
            minutes: 10,
            nodes: vec!["n1".into(), "n2".into()],
            options: Vec::new(),
        };
        create(&folder, &spec, Path::new("/bin/sh"), Some("x = 1")).unwrap();
        assert!(is_fleet(&folder) && !is_fleet(dir.path()));
        assert_eq!(open(&folder).unwrap(), spec);
        assert_eq!(spec.line(), "survey --quick");
        assert_eq!((spec.node(2), spec.node(3), spec.node(0)), (Some("n2"), None, None));
        assert!(
            create(&folder, &spec, Path::new("/bin/sh"), None)
                .unwrap_err()
                .to_string()
                .contains("not empty")
        );
        fs::write(folder.join(SPEC), "schema = 1").unwrap();
        assert!(open(&folder).unwrap_err().to_string().contains("is damaged"));
    }
}
