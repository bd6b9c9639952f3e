//! Who may change resctrl: one program of ours at a time, and nobody between two reads that belong
//! together.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_kernel::root::FsRoot;

use crate::error::Error;
use crate::fs::Resctrl;
use crate::kernel::{Held, flock};

const STEP: Duration = Duration::from_millis(20);
// Other programs hold the kernel's lock for as long as they read or write.
const SHORT: Duration = Duration::from_secs(10);

const DEFAULT: &str = "/run/ringfence";

fn of_session() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("ringfence"))
}

/// Where journals may lie, as seen below a root; nothing is made.
pub fn folders(root: &FsRoot, wanted: Option<&Path>) -> Vec<PathBuf> {
    match wanted {
        Some(wanted) => vec![wanted.to_owned()],
        None => {
            let session = of_session().filter(|_| root.is_host());
            std::iter::once(root.path(DEFAULT)).chain(session).collect()
        }
    }
}

/// Whether a transaction is under way that uses this folder, as far as this user may see it.
pub fn is_held(dir: &Path) -> bool {
    File::open(dir.join(LOCK)).and_then(|file| flock(&file, false)).is_ok_and(|free| !free)
}

/// The folder for journal and lock.
pub fn folder(wanted: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(wanted) = wanted {
        return match fs::create_dir_all(wanted) {
            Ok(()) => Ok(wanted.to_owned()),
            Err(source) => Err(unusable(wanted, source)),
        };
    }
    let own = Path::new(DEFAULT);
    let usable = |dir: &Path| {
        fs::create_dir_all(dir)?;
        OpenOptions::new().create(true).truncate(false).write(true).open(dir.join(LOCK)).map(|_| ())
    };
    let Err(source) = usable(own) else { return Ok(own.to_owned()) };
    of_session().filter(|dir| usable(dir).is_ok()).ok_or_else(|| unusable(own, source))
}

fn unusable(dir: &Path, source: io::Error) -> Error {
    Error::Journal {
        tried: format!("making {} for the journal of changes", dir.display()),
        source,
        remedy: "run as root, or give a folder that you may write to".into(),
    }
}

const LOCK: &str = "resctrl.lock";

/// Waits until no other transaction is under way. Its file names the holder.
pub fn own(dir: &Path, wait: Duration) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let fail = |source| Error::Journal {
        tried: format!("locking {}", path.display()),
        source,
        remedy: "run as root, or give a folder that you may write to".into(),
    };
    let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
    let mut file = open.map_err(fail)?;
    let begun = Instant::now();
    while !flock(&file, true).map_err(fail)? {
        if begun.elapsed() >= wait {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = holder.trim();
            let who = if holder.is_empty() { "another program".into() } else { format!("process {holder}") };
            return Err(Error::Busy(format!(
                "{who} is changing resctrl ({} is locked): wait for it to end, or end it",
                path.display()
            )));
        }
        std::thread::sleep(STEP);
    }
    let note = format!("{}\n", std::process::id());
    let noted = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(note.as_bytes()));
    noted.map_err(fail)?;
    Ok(file)
}

/// The lock on resctrl itself that programs agree upon, for as long as a change takes.
pub fn shared_with_others(fs: &Resctrl) -> Result<Held, Error> {
    let begun = Instant::now();
    loop {
        let held = fs
            .kernel()
            .try_lock(true)
            .map_err(|source| crate::error::Refused::new(format!("locking {}", fs.place()), source, None))?;
        match held {
            Some(held) => return Ok(held),
            None if begun.elapsed() < SHORT => std::thread::sleep(STEP),
            None => {
                return Err(Error::Busy(format!(
                    "another program has held the lock on {} for {} s: wait for it to end, or end it",
                    fs.place(),
                    SHORT.as_secs()
                )));
            }
        }
    }
}
