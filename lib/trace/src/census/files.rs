//! Which files a census is of.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use object::read::archive::ArchiveFile;

use super::{Census, File, Unread, sweep};
use crate::code::{Image, ImageError, choices};

// The first bytes of an archive of object files.
const ARCHIVE: &[u8] = b"!<arch>\n";

// Above this, one file keeps all processors busy.
const LARGE: u64 = 4 << 20;

/// Why there is no census.
#[derive(Debug, thiserror::Error)]
pub enum CensusError {
    /// The file system refused.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// What was to be read.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file that was named has no code for x86.
    #[error("{}: {why}", path.display())]
    NoCode {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A package is not installed.
    #[error("no package '{name}' is installed: {} is not there; see 'dpkg -l'", path.display())]
    NoPackage {
        /// Its name.
        name: String,
        /// The list of its files.
        path: PathBuf,
    },
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> CensusError {
    move |source| CensusError::Io { path: path.into(), source }
}

/// The census of program files, libraries, object files and archives. Of a folder it is that of
/// every such file below it; links in it are not followed.
///
/// # Errors
/// Where what was named cannot be read, or where the one file that was named has no code for x86.
/// Of several, and in folders, what has none is listed.
pub fn of(paths: &[PathBuf]) -> Result<Census, CensusError> {
    let mut census = Census::default();
    let mut files = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(io(path))?;
        if metadata.is_dir() {
            walk(path, &mut files, &mut census.unread);
        } else if metadata.is_file() {
            // What was named must be there, unlike what lies around.
            let has_code = of_file(path, threads())?;
            match has_code {
                Ok(found) => census.files.extend(found),
                Err(why) if paths.len() > 1 => {
                    census.unread.push(Unread { path: path.clone(), why })
                }
                Err(why) => return Err(CensusError::NoCode { path: path.clone(), why }),
            }
        } else {
            let why = "it is neither a file nor a folder".into();
            return Err(CensusError::NoCode { path: path.clone(), why });
        }
    }
    read_all(files, &mut census);
    census.sort();
    Ok(census)
}

/// The census of an installed Debian package: of the files that dpkg lists below this root. What
/// cannot be read is listed.
///
/// # Errors
/// Where the package is not installed, or the list cannot be read.
pub fn of_package(root: &Path, name: &str) -> Result<Census, CensusError> {
    let folder = root.join("var/lib/dpkg/info");
    let lists =
        [format!("{name}.list"), format!("{name}:amd64.list")].map(|list| folder.join(list));
    let Some(list) = lists.iter().find(|list| list.is_file()) else {
        return Err(CensusError::NoPackage { name: name.into(), path: lists[0].clone() });
    };
    let text = fs::read_to_string(list).map_err(io(list))?;
    let inside = |line: &str| root.join(line.trim_start_matches('/'));
    let files = text.lines().map(inside).filter(|path| {
        fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
            && begins_like_code(path)
    });
    let mut census = Census::default();
    read_all(files.collect(), &mut census);
    census.sort();
    Ok(census)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

// Files that begin like ELF files or archives, below a folder.
fn walk(folder: &Path, files: &mut Vec<PathBuf>, unread: &mut Vec<Unread>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return unread.push(Unread { path: folder.into(), why: error.to_string() }),
    };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            walk(&path, files, unread);
        } else if metadata.is_file() && begins_like_code(&path) {
            files.push(path);
        }
    }
}

fn begins_like_code(path: &Path) -> bool {
    use std::io::Read;
    let mut first = [0; ARCHIVE.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
    // What cannot be opened is tried again, and listed then.
    read.is_err_and(|error| error.kind() != std::io::ErrorKind::UnexpectedEof)
        || crate::code::is_elf(&first)
        || first == ARCHIVE
}

fn read_all(files: Vec<PathBuf>, census: &mut Census) {
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let (large, small): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| size(path) > LARGE);
    let together = Mutex::new(census);
    let read = |path: &PathBuf, threads: usize| {
        let found = of_file(path, threads);
        let mut census = together.lock().expect("nobody panics with it");
        match found {
            Ok(Ok(found)) => census.files.extend(found),
            // Libraries for other processors lie beside those for this one.
            Ok(Err(why)) => census.unread.push(Unread { path: path.clone(), why }),
            Err(CensusError::Io { path, source }) => {
                census.unread.push(Unread { path, why: source.to_string() });
            }
            Err(other) => census.unread.push(Unread { path: path.clone(), why: other.to_string() }),
        }
    };
    large.iter().for_each(|path| read(path, threads()));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads().min(small.len()) {
            scope.spawn(|| {
                while let Some(path) = small.get(next.fetch_add(1, Ordering::Relaxed)) {
                    read(path, 1);
                }
            });
        }
    });
}

// What a file has, or why it has no code for x86.
fn of_file(path: &Path, threads: usize) -> Result<Result<Vec<File>, String>, CensusError> {
    let bytes = fs::read(path).map_err(io(path))?;
    if !bytes.starts_with(ARCHIVE) {
        return Ok(of_image(path, None, &bytes, threads)
            .map(|file| vec![file])
            .map_err(|error| error.to_string()));
    }
    let members = || -> Result<Vec<File>, String> {
        let archive = ArchiveFile::parse(&*bytes).map_err(|error| error.to_string())?;
        let (mut files, mut no_code) = (Vec::new(), None);
        for member in archive.members() {
            let member = member.map_err(|error| error.to_string())?;
            let name = String::from_utf8_lossy(member.name()).into_owned();
            let data = member.data(&*bytes).map_err(|error| error.to_string())?;
            match of_image(path, Some(name), data, threads) {
                Ok(file) => files.push(file),
                // Lists of symbols and other notes, and objects with data alone.
                Err(NoFile::Unread(ImageError::NotElf)) => {}
                Err(NoFile::NoCode(why)) => no_code = Some(why),
                Err(error) => return Err(error.to_string()),
            }
        }
        match no_code {
            _ if !files.is_empty() => Ok(files),
            Some(_) => Err("no code found: none of its object files has any".into()),
            None => Err("it has no object files".into()),
        }
    };
    Ok(members())
}

// Why there is no census of a file.
#[derive(Debug, thiserror::Error)]
enum NoFile {
    #[error(transparent)]
    Unread(#[from] ImageError),
    #[error("no code found: {0}")]
    NoCode(&'static str),
}

fn of_image(
    path: &Path,
    member: Option<String>,
    bytes: &[u8],
    threads: usize,
) -> Result<File, NoFile> {
    let image = Image::parse(bytes)?;
    if let Some(why) = image.why_no_code() {
        return Err(NoFile::NoCode(why));
    }
    let (counts, functions) = sweep::sweep(&image, threads);
    let sites = functions.iter().flat_map(|function| &function.sites);
    let sites: Vec<_> = sites.map(|site| (site.address, site.operation)).collect();
    let chosen = choices::find(&image, &sites);
    let not_detected = choices::not_detected(&image).filter(|_| counts.are_for_durability());
    let code_bytes = image.code_bytes();
    let choices_not_detected = not_detected.map(Into::into);
    Ok(File {
        path: path.into(),
        member,
        code_bytes,
        counts,
        functions,
        chosen,
        choices_not_detected,
    })
}
