//! Copies of the files, which the program finds in the files' places.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ringfence_system::{overlay, sparse};

/// What the program finds in place of the files. It goes when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Copies {
    // The copy, and what it stands for.
    mounts: Vec<(CString, CString)>,
    // Folders of files that are not there.
    layers: Vec<Layer>,
    // Where the program begins, in a layer if there is one.
    directory: Option<CString>,
    folder: Option<PathBuf>,
}

/// A layer in memory over a folder.
#[derive(Debug)]
pub(super) struct Layer {
    /// The folder.
    pub(super) at: CString,
    /// Where memory is mounted, and folders in it.
    pub(super) memory: CString,
    pub(super) folders: [CString; 2],
    /// What the mount is given: the second where the first is refused.
    pub(super) options: [CString; 2],
}

impl Layer {
    fn of(folder: &Path, memory: &Path) -> io::Result<Self> {
        fs::create_dir(memory)?;
        let (at, memory) = (fs::canonicalize(folder)?, fs::canonicalize(memory)?);
        let [upper, work] = ["upper", "work"].map(|name| memory.join(name));
        let options = overlay::options(&at, &upper, &work)?;
        let folders = [name(&upper)?, name(&work)?];
        Ok(Self { at: name(&at)?, memory: name(&memory)?, folders, options })
    }
}

fn name(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

impl Copies {
    /// Copies what is there of `files` into a new folder. What is not there yet needs no copy.
    pub(super) fn of(files: &[PathBuf], folder: &Path) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let mut copies = Self::default();
        copies.folder = Some(folder.to_owned());
        fs::set_permissions(folder, PermissionsExt::from_mode(0o700))?;
        for (number, file) in files.iter().enumerate().filter(|(_, file)| file.exists()) {
            let copy = folder.join(number.to_string());
            copy_all(file, &copy)?;
            copies.mounts.push((name(&fs::canonicalize(copy)?)?, name(&fs::canonicalize(file)?)?));
        }
        Ok(copies)
    }

    /// Puts a layer over each folder in which some of `files` is not there: what is made there is
    /// made in memory.
    pub(super) fn put_layers(&mut self, files: &[PathBuf], folder: &Path) -> io::Result<()> {
        let missing = files.iter().filter(|file| !file.exists()).filter_map(|file| file.parent());
        let parents: BTreeSet<&Path> = missing.collect();
        for (number, parent) in parents.into_iter().enumerate() {
            self.layers.push(Layer::of(parent, &folder.join(format!("made-{number}")))?);
            self.directory = Some(name(&std::env::current_dir()?)?);
        }
        Ok(())
    }

    /// Where to go once the layers are there.
    pub(super) fn directory(&self) -> Option<&CStr> {
        self.directory.as_deref()
    }

    /// Layers over folders, which come before the copies.
    pub(super) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Whether nothing is mounted.
    pub(super) fn is_empty(&self) -> bool {
        self.mounts.is_empty() && self.layers.is_empty()
    }

    /// Each copy, and the path to mount it over.
    pub(super) fn mounts(&self) -> &[(CString, CString)] {
        &self.mounts
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    let about = fs::metadata(from)?;
    if about.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                std::os::unix::fs::symlink(
                    fs::read_link(entry.path())?,
                    to.join(entry.file_name()),
                )?;
            } else {
                copy_all(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
    } else if about.is_file() {
        sparse::copy(&File::open(from)?, &File::create_new(to)?, about.len())?;
    } else {
        return Err(io::Error::other(format!("{} is neither a file nor a folder", from.display())));
    }
    // Only a privileged user may give files away; the program's rights are its own then anyhow.
    let _ = std::os::unix::fs::chown(to, Some(about.uid()), Some(about.gid()));
    fs::set_permissions(to, about.permissions())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_is_there_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut bytes = vec![0; 1 << 20];
        bytes[300_000] = 7;
        fs::write(&file, &bytes).unwrap();
        // To read all of it would take an hour.
        let large = File::create_new(folder.path().join("large")).unwrap();
        large.set_len(1 << 42).unwrap();
        large.write_all_at(b"end", (1 << 42) - 3).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        fs::create_dir_all(folder.path().join("dir/in")).unwrap();
        fs::write(folder.path().join("dir/in/it"), b"it").unwrap();
        let into = folder.path().join("copies");
        let names = ["dir", "not there", "large"].map(|name| folder.path().join(name));
        let files = [[file].as_slice(), &names].concat();
        let copies = Copies::of(&files, &into).unwrap();
        assert_eq!(copies.mounts.len(), 3);
        let mut end = [0; 4];
        File::open(into.join("3")).unwrap().read_exact_at(&mut end, (1 << 42) - 4).unwrap();
        assert_eq!(&end, b"\0end");
        assert_eq!(fs::read(into.join("0")).unwrap(), bytes);
        assert_eq!(fs::metadata(into.join("0")).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read(into.join("1/in/it")).unwrap(), b"it");
        drop(copies);
        assert!(!into.exists());
    }
}
