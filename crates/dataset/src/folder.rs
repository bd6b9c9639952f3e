//! Where datasets lie.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::date::Date;
use super::error::DatasetError;
use super::{MANIFEST, manifest_file};

/// A folder in `parent` that does not exist yet: `NAME-YYYYMMDD-HHMMSS` in UTC, followed by `-2`,
/// `-3`... if that name is taken.
pub fn new_dir(parent: &Path, name: &str) -> PathBuf {
    untaken(parent, &format!("{name}-{}", Date::new(SystemTime::now()).compact()))
}

fn untaken(parent: &Path, stem: &str) -> PathBuf {
    let later = (2u64..).map(|number| format!("{stem}-{number}"));
    let mut names = std::iter::once(stem.to_owned()).chain(later).map(|name| parent.join(name));
    names
        .find(|path| path.symlink_metadata().is_err())
        .expect("a folder has fewer than 2^64 entries")
}

/// Whether a folder is a dataset: one without any sample yet, at the least.
pub fn is_dataset(dir: &Path) -> bool {
    dir.join(MANIFEST).exists()
}

/// The datasets that a folder holds: itself where it is one, else those of its sub-folders that
/// are, by the time at which they were created and by name.
///
/// # Errors
/// One sentence where the folder cannot be read or holds no dataset.
pub fn list(dir: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    if is_dataset(dir) {
        return Ok(vec![dir.into()]);
    }
    let entries = entries(dir)?.into_iter().filter(|path| is_dataset(path));
    // A manifest that cannot be read is listed first: opening it says what is wrong.
    let created = |path: &Path| {
        manifest_file::read(path).map(|manifest| manifest.created).unwrap_or_default()
    };
    let mut found: Vec<(String, PathBuf)> = entries.map(|path| (created(&path), path)).collect();
    if found.is_empty() {
        let problem =
            "there is no dataset here or in a sub-folder: name a folder that Ringfence wrote";
        return Err(DatasetError::usage(dir, problem));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// What is in a folder.
pub fn entries(dir: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let metadata = fs::metadata(dir).map_err(|error| {
        DatasetError::usage(
            dir,
            format!(
                "{error}; name the folder of a dataset ('ringfence show --list' lists results)"
            ),
        )
    })?;
    if !metadata.is_dir() {
        return Err(DatasetError::usage(dir, "this is not a folder; name the folder of a dataset"));
    }
    let read =
        fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    read.map_err(DatasetError::io("list", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let dir = tempfile::tempdir().unwrap();
        let next = || untaken(dir.path(), "a");
        assert_eq!(next(), dir.path().join("a"));
        for name in ["a", "a-2"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(next(), dir.path().join("a-3"));
    }
}
