//! Temporary settings: how they are applied and restored, and what restores them if this program is
//! killed.
//!
//! The guardian is another process of this program. It holds the other end of a pipe: however this
//! process dies, the kernel closes the pipe, and the guardian restores the settings. If both are
//! killed, the journal remains, and the next transaction or `ringfence restore` does so.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ringfence_experiment::Error;
use ringfence_resctrl::transaction::{self, OWN, Pending, Restored};
use ringfence_resctrl::{GroupId, Options, Resctrl, Schemata, State, Thread};
use ringfence_system::root::FsRoot;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// The hidden first argument of a guardian; the loan's name and the journal's folder follow.
pub const GUARDIAN: &str = "__resctrl-guardian";

const DISMISSED: &[u8] = b"done";
/// How long to wait for others' changes before one's own.
pub const WAIT: Duration = Duration::from_secs(10);

/// How transactions are run here.
pub fn options(folder: Option<&PathBuf>, wait: Duration) -> Options {
    Options { folder: folder.cloned(), wait, ..Options::default() }
}

/// A name for groups and journals of this process that is not in use yet.
pub fn name(state: &State) -> String {
    let own = format!("{OWN}{}", std::process::id());
    let names =
        (1..).map(|number| if number == 1 { own.clone() } else { format!("{own}-{number}") });
    let taken = |name: &String| {
        state.groups.keys().any(|group| group.path().iter().any(|part| *part == **name))
    };
    names.into_iter().find(|name| !taken(name)).expect("numbers do not end")
}

/// The group of control of a process, and what it may use.
pub fn home(fs: &Resctrl, state: &State, pid: u32) -> (GroupId, Schemata) {
    let start = fs.kernel().started(pid).unwrap_or_default();
    let id = state.control_of(Thread { tid: pid, start });
    let schemata = state.groups.get(&id).map(|group| group.schemata.clone()).unwrap_or_default();
    (id, schemata)
}

/// Temporary settings, and their guardian.
#[derive(Debug)]
pub struct Loan {
    name: String,
    folder: Option<PathBuf>,
    guardian: Child,
    pipe: Option<ChildStdin>,
}

impl Loan {
    /// Has a guardian started, before anything is changed: this program with [`GUARDIAN`] as its
    /// first argument, which calls [`guardian`].
    ///
    /// # Errors
    /// Where the kernel starts no process.
    pub fn guard(name: &str, folder: Option<&PathBuf>) -> Result<Self, Error> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("ringfence-guardian").args([GUARDIAN, name]).args(folder);
        // Keeps it away from the terminal's Ctrl-C, and from programs that wait for the end of our
        // output.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut guardian = command
            .spawn()
            .map_err(Error::trying("starting the process that restores settings"))?;
        let pipe = guardian.stdin.take();
        Ok(Self { name: name.to_owned(), folder: folder.cloned(), guardian, pipe })
    }

    /// Restores the settings. If another process is changing resctrl for long, that is left to the
    /// guardian.
    ///
    /// # Errors
    /// Where they are not restored, or not yet.
    pub fn give_back(mut self, fs: &Resctrl) -> Result<Restored, Error> {
        match transaction::give_back(fs, &self.name, &options(self.folder.as_ref(), WAIT)) {
            Ok(restored) => {
                self.dismiss();
                Ok(restored.unwrap_or_default())
            }
            Err(error @ ringfence_resctrl::Error::Busy(_)) => {
                drop(self.pipe.take());
                let guardian = self.guardian.id();
                Err(Error::failed(format!(
                    "{} is not restored yet: {error}; process {guardian} restores it as soon as it \
                     can",
                    self.name
                )))
            }
            Err(error) => {
                self.dismiss();
                let name = &self.name;
                Err(Error::failed(format!(
                    "{name} could not be restored: {error}; 'ringfence restore' tries again"
                )))
            }
        }
    }

    fn dismiss(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(DISMISSED);
            drop(pipe);
            let _ = self.guardian.wait();
        }
    }
}

impl Drop for Loan {
    // Where nothing was applied in the end, or the transaction has restored everything.
    fn drop(&mut self) {
        self.dismiss();
    }
}

/// The guardian's part of this program.
pub fn guardian(name: &str, folder: Option<&Path>) {
    // It ends by the pipe alone.
    let ignored = Arc::default();
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        let _ = signal_hook::flag::register(signal, Arc::clone(&ignored));
    }
    let mut said = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut said);
    if said == DISMISSED {
        return;
    }
    let root = FsRoot::host();
    let Ok(fs) = Resctrl::find(&root) else { return };
    let options = options(folder.map(Path::to_owned).as_ref(), Duration::from_secs(600));
    while let Err(ringfence_resctrl::Error::Busy(_)) = transaction::give_back(&fs, name, &options) {
    }
    // It may have been killed before anything was applied.
    let half = |left: &transaction::Left| {
        left.what == Pending::Unfinished && !left.under_way && !left.is_others()
    };
    if transaction::left(&root, folder).iter().any(half) {
        let _ = transaction::recover(&fs, &options);
    }
}
