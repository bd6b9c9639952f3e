//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ringfence_system::whole;

use super::error::DatasetError;
use crate::text_file::LONGEST;

/// Writes a file that must not exist yet, and makes it durable.
pub fn create(path: &Path, content: &[u8]) -> Result<(), DatasetError> {
    let failed = DatasetError::io("write", path);
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) => return Err(failed(error)),
    };
    file.write_all(content).and_then(|()| file.sync_all()).map_err(|error| {
        // Whether this succeeds changes nothing about what is reported.
        let _ = fs::remove_file(path);
        failed(error)
    })
}

/// Writes a file under another name and renames it, so that `path` durably holds either the old
/// file or the new one. The other name is always the same, so that the code that cleans up after a
/// killed start knows it.
pub fn replace<T>(
    path: &Path,
    write: impl FnOnce(File) -> Result<(File, T), DatasetError>,
) -> Result<T, DatasetError> {
    let temporary = temporary(path);
    let failed = DatasetError::io("write", path);
    let result = match File::create(&temporary) {
        Ok(file) => write(file),
        Err(error) => return Err(failed(error)),
    };
    let put = result.and_then(|(file, value)| {
        whole::put(&file, &temporary, path)
            .map(|()| value)
            .map_err(|error| failed(error.into_source()))
    });
    if put.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    put
}

/// Opens a file that must be an ordinary one: a pipe would block forever.
pub fn open(path: &Path) -> Result<File, DatasetError> {
    let metadata = fs::metadata(path).map_err(DatasetError::io("read", path))?;
    if !metadata.is_file() {
        return Err(DatasetError::damaged(
            path,
            "this is not an ordinary file: restore the original",
        ));
    }
    File::open(path).map_err(DatasetError::io("read", path))
}

/// The whole of an ordinary file.
pub fn read(path: &Path) -> Result<String, DatasetError> {
    crate::text_file::read(path, LONGEST).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge => {
            DatasetError::damaged(path, format!("{error}: restore the original"))
        }
        _ => DatasetError::io("read", path)(error),
    })
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}
