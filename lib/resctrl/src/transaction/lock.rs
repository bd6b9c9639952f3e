//! Locks: one program of ours at a time may change resctrl, and no program between two reads that
//! belong together.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_system::changes::error::failed;
use ringfence_system::changes::lock::{flock, patiently};
use ringfence_system::changes::{folders, place};

use crate::error::{Error, Refused};
use crate::fs::Resctrl;
use crate::kernel::Held;

const STEP: Duration = Duration::from_millis(20);
// Other programs hold the kernel's lock for as long as they read or write.
const SHORT: Duration = Duration::from_secs(10);
// A program that only checks whether a lock is held holds it for that moment.
const LOOKED_AT: Duration = Duration::from_millis(100);

/// Whether a transaction that uses this folder is running, as far as this user can see.
pub fn is_held(dir: &Path) -> bool {
    File::open(dir.join(LOCK)).and_then(|file| flock(&file, false)).is_ok_and(|free| !free)
}

/// The folder for journal and lock.
pub fn folder(wanted: Option<&Path>) -> Result<PathBuf, Error> {
    Ok(folders::to_write(wanted, LOCK)?)
}

const LOCK: &str = "resctrl.lock";

/// What a transaction holds from begin to end.
pub struct Own {
    _folder: File,
    // None where resctrl is not asked for anything.
    _changes: Option<Held>,
}

/// Waits until no other transaction of this folder or of this resctrl is running, wherever its
/// journal is.
pub fn own(dir: &Path, fs: Option<&Resctrl>, wait: Duration) -> Result<Own, Error> {
    let until = Instant::now() + wait.max(LOOKED_AT);
    let folder = of_folder(dir, until)?;
    let changes = fs.map(|fs| of_resctrl(fs, until)).transpose()?;
    // For messages alone: a full disk does not keep a program from restoring.
    let note = format!("{}\n", std::process::id());
    let _ = folder.set_len(0).and_then(|()| (&folder).write_all(note.as_bytes()));
    Ok(Own { _folder: folder, _changes: changes })
}

fn of_folder(dir: &Path, until: Instant) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let fail = |source| Error::from(failed("locking", &path, source));
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    let mut file =
        place::check(dir).and_then(|()| place::open(&path, &mut options)).map_err(fail)?;
    let free = || flock(&file, true).map(|free| free.then_some(())).map_err(fail);
    if patiently(until, free)?.is_some() {
        return Ok(file);
    }
    let mut holder = String::new();
    let _ = file.read_to_string(&mut holder);
    Err(busy(holder.trim().parse().ok(), &path.display().to_string()))
}

fn of_resctrl(fs: &Resctrl, until: Instant) -> Result<Held, Error> {
    let what = format!("{}/info", fs.place());
    let refused = |source| Refused::new(format!("locking {what}"), source, None);
    let taken = patiently(until, || fs.kernel().try_lock_changes().map_err(refused))?;
    taken.ok_or_else(|| busy(fs.kernel().holder_of_changes(), &what))
}

fn busy(holder: Option<u32>, what: &str) -> Error {
    let who = holder.map_or_else(|| "another program".into(), |pid| format!("process {pid}"));
    Error::Busy(format!(
        "{who} is changing resctrl ({what} is locked): wait for it to end, or end it"
    ))
}

/// The lock on resctrl itself that programs agree upon, for as long as a change takes.
pub fn shared_with_others(fs: &Resctrl) -> Result<Held, Error> {
    let begun = Instant::now();
    loop {
        let held = fs
            .kernel()
            .try_lock(true)
            .map_err(|source| Refused::new(format!("locking {}", fs.place()), source, None))?;
        match held {
            Some(held) => return Ok(held),
            None if begun.elapsed() < SHORT => std::thread::sleep(STEP),
            None => {
                return Err(Error::Busy(format!(
                    "another program has held the lock on {} for {} s: wait for it to end, or end \
                     it",
                    fs.place(),
                    SHORT.as_secs()
                )));
            }
        }
    }
}
