//! Damage is said in a sentence, with the file, and no program ends over it.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_trace::events::Event;
use ringfence_trace::recording::{MANIFEST, Reader, RecordingError};

use crate::round_trip;

fn recording() -> (tempfile::TempDir, Vec<Event>) {
    let folder = tempfile::tempdir().unwrap();
    let events: Vec<Event> = (0..50).map(|n| round_trip::store(n, n * 8, b"12345678")).collect();
    round_trip::write(folder.path(), &events, 20);
    (folder, events)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

fn reading(folder: &Path) -> Result<Vec<Event>, RecordingError> {
    let reader = Reader::open(folder)?;
    reader.images().try_for_each(|page| page.map(drop))?;
    reader.events().collect()
}

// One line that names the file.
fn is_plain(error: &RecordingError, path: &Path) {
    let said = error.to_string();
    assert!(said.contains(&path.display().to_string()) && said.lines().count() == 1, "{said}");
}

#[test]
fn every_table_that_was_cut_or_changed_is_noticed() {
    let (folder, events) = recording();
    for path in files(folder.path()).into_iter().filter(|path| !path.ends_with(MANIFEST)) {
        let whole = fs::read(&path).unwrap();
        let cuts = (0..whole.len()).step_by(7).map(|end| whole[..end].to_vec());
        let flips = (0..whole.len()).map(|at| {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            flipped
        });
        for content in cuts.chain(flips).chain([[&whole[..], b"x"].concat()]) {
            fs::write(&path, content).unwrap();
            let error = reading(folder.path()).unwrap_err();
            assert!(matches!(error, RecordingError::Damaged { .. }), "{error}");
            is_plain(&error, &path);
        }
        fs::remove_file(&path).unwrap();
        is_plain(&reading(folder.path()).unwrap_err(), &path);
        fs::create_dir(&path).unwrap();
        is_plain(&reading(folder.path()).unwrap_err(), &path);
        fs::remove_dir(&path).unwrap();
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(reading(folder.path()).unwrap(), events);
}

// It has no checksum of its own: what it says may change, if it still makes sense.
#[test]
fn a_manifest_that_was_cut_or_changed_is_no_catastrophe() {
    let (folder, events) = recording();
    let path = folder.path().join(MANIFEST);
    let whole = fs::read(&path).unwrap();
    for end in 0..whole.len() - 2 {
        fs::write(&path, &whole[..end]).unwrap();
        let error = reading(folder.path()).unwrap_err();
        assert!(matches!(error, RecordingError::Damaged { .. }), "{error}");
        is_plain(&error, &path);
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&path, flipped).unwrap();
            match reading(folder.path()) {
                Ok(read) => assert_eq!(read, events),
                Err(error) => is_plain(&error, folder.path()),
            }
        }
    }
}

#[test]
fn what_is_no_trace_or_a_newer_one_is_called_that() {
    let (folder, _) = recording();
    let path = folder.path().join(MANIFEST);
    let newer = fs::read_to_string(&path).unwrap().replace("\"schema\": 3", "\"schema\": 4");
    fs::write(&path, newer.replace("\"events\"", "\"other\"")).unwrap();
    let said = format!(
        "{} is in version 4 of the format, and this program reads versions up to 3: use a newer \
         ringfence",
        path.display()
    );
    assert_eq!(reading(folder.path()).unwrap_err().to_string(), said);
    fs::remove_file(&path).unwrap();
    let said = format!("{} is not a trace: it has no trace.json", folder.path().display());
    assert_eq!(reading(folder.path()).unwrap_err().to_string(), said);
    let none = folder.path().join("none");
    let said = format!(
        "cannot read {}: No such file or directory (os error 2)",
        none.join(MANIFEST).display()
    );
    assert_eq!(reading(&none).unwrap_err().to_string(), said);
}

// Parts are files of the folder, and of no other.
#[test]
fn no_file_outside_of_the_folder_is_read() {
    let (folder, _) = recording();
    let path = folder.path().join(MANIFEST);
    let whole = fs::read_to_string(&path).unwrap();
    for stray in ["../events-0001.parquet", "/etc/passwd", "..", ""] {
        fs::write(&path, whole.replace("events-0001.parquet", stray)).unwrap();
        let error = reading(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("'{stray}' is not the name of a file in its folder")),
            "{error}"
        );
    }
}

// Events of several parts are one sequence.
#[test]
fn parts_in_the_wrong_order_are_noticed() {
    let (folder, _) = recording();
    let path = folder.path().join(MANIFEST);
    let mut manifest: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest["events"].as_array_mut().unwrap().swap(0, 1);
    fs::write(&path, manifest.to_string()).unwrap();
    let error = reading(folder.path()).unwrap_err().to_string();
    assert!(error.contains("event 0 is not in order"), "{error}");
}
