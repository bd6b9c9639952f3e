//! Settings for as long as something lasts: made, lent, given back, and by whom should this program
//! be killed.
//!
//! The guardian is another process of this program. It holds the other end of a pipe: however this
//! one dies, the kernel closes it, and the guardian gives back what was lent. Should both be
//! killed, the journal is there, and the next transaction or `ringfence restore` does so.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ringfence_resctrl::transaction::{self, OWN, Pending, Restored};
use ringfence_resctrl::{GroupId, Options, Resctrl, Schemata, State, Thread};
use ringfence_system::root::FsRoot;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::running::error::Error;

/// The hidden first argument of a guardian; the loan's name and the journal's folder follow.
pub const GUARDIAN: &str = "__resctrl-guardian";

const DISMISSED: &[u8] = b"done";
/// How long to wait for others' changes before one's own.
pub const WAIT: Duration = Duration::from_secs(10);

/// How transactions are run here.
pub fn options(folder: Option<&PathBuf>, wait: Duration) -> Options {
    Options { folder: folder.cloned(), wait, ..Options::default() }
}

/// A name for groups and journals of this process that nobody has.
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

/// Something that was lent, and its guardian.
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
        // Away from the terminal's Ctrl-C, and from whoever waits for the end of our output.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut guardian = command.spawn().map_err(|error| {
            Error::Failed(format!("starting a process that puts things back: {error}"))
        })?;
        let pipe = guardian.stdin.take();
        Ok(Self { name: name.to_owned(), folder: folder.cloned(), guardian, pipe })
    }

    /// Puts back what was lent. Where somebody else is changing resctrl for long, that is left to
    /// the guardian.
    ///
    /// # Errors
    /// Where it is not put back, or not yet.
    pub fn give_back(mut self, fs: &Resctrl) -> Result<Restored, Error> {
        match transaction::give_back(fs, &self.name, &options(self.folder.as_ref(), WAIT)) {
            Ok(restored) => {
                self.dismiss();
                Ok(restored.unwrap_or_default())
            }
            Err(error @ ringfence_resctrl::Error::Busy(_)) => {
                drop(self.pipe.take());
                let guardian = self.guardian.id();
                Err(Error::Failed(format!(
                    "{} is not put back yet: {error}; process {guardian} does so as soon as it can",
                    self.name
                )))
            }
            Err(error) => {
                self.dismiss();
                let name = &self.name;
                Err(Error::Failed(format!(
                    "{name} could not be put back: {error}; 'ringfence restore' tries again"
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
    // Where nothing was lent in the end, or its transaction has put it back.
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
    // It may have been killed before anything was lent.
    let half = |left: &transaction::Left| {
        left.what == Pending::Unfinished && !left.under_way && !left.is_others()
    };
    if transaction::left(&root, folder).iter().any(half) {
        let _ = transaction::recover(&fs, &options);
    }
}
