//! `trace.json`: what a recording is of, and which files it consists of.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ringfence_system::whole;
use serde::{Deserialize, Serialize};

use super::error::{RecordingError, damaged, io};
use super::table::Part;
use super::{MANIFEST, SCHEMA};
use crate::events::{Ended, Module, Thread, TracedFile, Unseen};

// No manifest is longer: what there can be much of is in tables.
const LONGEST: u64 = 64 << 20;

/// What a recording says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format: [`SCHEMA`] where this program wrote it.
    pub schema: u32,
    /// What was recorded.
    #[serde(flatten)]
    pub about: About,
    /// When it began, ns since 1970, UTC.
    pub started_unix_ns: u64,
    /// From then to when the last part of it was complete, ns.
    pub recorded_ns: u64,
    /// How it ended; absent where the recorder was killed, so that its last moments are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The files whose accesses were recorded.
    pub files: Vec<TracedFile>,
    /// The threads that accessed them.
    pub threads: Vec<Thread>,
    /// The modules of sites and callers.
    pub modules: Vec<Module>,
    /// Locked instructions that were executed in all: events are only those that something waited
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_in_all: Option<u64>,
    /// Instructions that were not recorded, by module.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
    /// Programs that ran, and could not be recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrecorded: Vec<String>,
    /// The first change of a requested file's name, such as "removed /tmp/pool".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_change: Option<String>,
    /// What readers ought to know of how it was recorded, each a sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The files of each table, in order.
    pub events: Vec<Part>,
    /// As for events.
    pub images: Vec<Part>,
    /// As for events.
    pub sites: Vec<Part>,
    /// As for events.
    pub callers: Vec<Part>,
    /// As for events; absent where the recorder was killed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Part>,
}

/// What is known of a recording when it begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The program that recorded, with its version.
    pub recorder: String,
    /// The command whose accesses were recorded.
    pub command: Vec<String>,
    /// Whether loads were recorded, too.
    pub loads: bool,
    /// Where the command was started; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The requested files and folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Asked>,
}

/// A file or folder whose accesses are recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Its path.
    pub path: PathBuf,
    /// Whether it was there before the command.
    pub existed: bool,
}

impl Manifest {
    /// Writes it in place of an older one, with mode 0600.
    pub(super) fn write(&self, folder: &Path) -> Result<(), RecordingError> {
        let path = folder.join(MANIFEST);
        let temporary = folder.join(format!(".{MANIFEST}.new"));
        let text =
            serde_json::to_string_pretty(self).expect("it has nothing that JSON lacks") + "\n";
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file));
        let file = written.map_err(io("write", &temporary))?;
        whole::put(&file, &temporary, &path)
            .map_err(|error| io("write", &path)(error.into_source()))
    }

    /// Reads that of a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, RecordingError> {
        let path = folder.join(MANIFEST);
        let text = match text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder.is_dir() => {
                return Err(RecordingError::NotATrace { path: folder.into() });
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(damaged(&path, error));
            }
            Err(error) => return Err(io("read", &path)(error)),
        };
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        // What else a later version says may have another form.
        let Version { schema } =
            serde_json::from_str(&text).map_err(|error| damaged(&path, error))?;
        if schema > SCHEMA {
            return Err(RecordingError::Newer { path, schema });
        }
        let manifest: Self = serde_json::from_str(&text).map_err(|error| damaged(&path, error))?;
        let Self { events, images, sites, callers, locations, .. } = &manifest;
        let names = [events, images, sites, callers, locations];
        let strays = |part: &&Part| Path::new(&part.name).file_name() != Some(part.name.as_ref());
        if let Some(part) = names.into_iter().flatten().find(strays) {
            return Err(damaged(
                &path,
                format!("'{}' is not the name of a file in its folder", part.name),
            ));
        }
        Ok(manifest)
    }
}

fn text(path: &Path) -> io::Result<String> {
    // A pipe would block forever.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not an ordinary file"));
    }
    if metadata.len() > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is longer than any that was written",
        ));
    }
    let mut text = String::new();
    File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}
