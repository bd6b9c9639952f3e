//! `resctrl run`: a command in a group of its own.
//!
//! The command is started by a process of this program that waits at a gate, and becomes the
//! command once it was moved: so none of the command runs outside of the group, and what it would
//! be in otherwise is known.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_limits::running::loan::{self, Loan};
use ringfence_limits::running::{check, make_group};
use ringfence_machine::probe::pin::set_affinity;
use ringfence_machine::text::printable;
use ringfence_resctrl::{GroupId, Resctrl, State, Step, Transaction};
use ringfence_system::cpulist::CpuSet;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::messages::{say, steps};
use crate::args::Confined;
use crate::failure::Failure;
use crate::output;
use crate::shared::host;

/// The hidden first argument of what becomes the command; whose child it is, the gate there, CPUs
/// and the command follow.
pub const START: &str = "__resctrl-start";

pub fn run(asked: &Confined) -> Result<(), Failure> {
    let root = host::root(&asked.kernel.root)?;
    let cpus = asked.cpus.as_deref().map(cpus).transpose()?;
    let fs = Resctrl::find(&root).map_err(ringfence_resctrl::Error::from)?;
    let limits = asked.limits.given();
    if limits.is_none() {
        return Err(Failure::usage("nothing is limited: give --l3, --l2 or --mba"));
    }
    let folder = asked.kernel.journal.folder.as_ref();
    let own = std::process::id();
    let state = State::read(&fs)?;
    let checked = check(&limits, &fs.info()?, &state, &loan::home(&fs, &state, own).1)?;
    let name = loan::name(&state);
    let group = GroupId::control(&name);
    if asked.dry_run {
        let planned = [
            Step::Create { group: group.clone() },
            Step::Schemata { group: group.clone(), schemata: checked.schemata },
        ];
        let last = format!("run {} in {group}", words(&asked.command));
        return output::print(&steps(&planned, &[last], &checked.notes));
    }
    let purpose = format!("resctrl run {}", words(&asked.command));
    let loan = Loan::guard(&name, folder)?;
    let mut change = Transaction::begin(&fs, &purpose, &loan::options(folder, loan::WAIT))?;
    // Under the lock, as it is now.
    let base = loan::home(&fs, change.before(), own).1;
    let checked = check(&limits, &fs.info()?, change.before(), &base)?;
    checked.notes.iter().for_each(|note| say(note));
    make_group(&mut change, &group, &base.overlaid(&checked.schemata))?;
    // What is ignored by now, as under nohup, is ignored by the command too.
    let waiting = Waiting::start(&asked.command, cpus.as_ref())?;
    let signals = match Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT])
    {
        Ok(signals) => signals,
        Err(error) => {
            waiting.turn_away();
            return Err(Failure::failed(format!("watching for signals: {error}")));
        }
    };
    let moved = change.move_process(&group, waiting.child.id());
    if let Err(error) = moved.and_then(|_| change.lend(&name)) {
        waiting.turn_away();
        return Err(error.into());
    }
    let status = waiting.let_in(signals);
    let restored =
        loan.give_back(&fs).map(|restored| restored.left.iter().for_each(|left| say(left)));
    let status =
        status.map_err(|error| Failure::failed(format!("waiting for the command: {error}")))?;
    if status.success() {
        return Ok(restored?);
    }
    // The command's own code says more.
    if let Err(failure) = restored {
        say(&failure.to_string());
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Err(Failure::Command(code as u8))
}

fn cpus(text: &str) -> Result<CpuSet, Failure> {
    let parsed: Result<CpuSet, _> = text.parse();
    match parsed {
        Ok(cpus) if !cpus.is_empty() => Ok(cpus),
        Ok(_) => Err(Failure::usage("--cpus: the list is empty: give CPUs such as 5-6")),
        Err(error) => Err(Failure::usage(format!("--cpus: {error}"))),
    }
}

fn words(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    printable(&ringfence_experiment::shell::line(words.iter().map(AsRef::as_ref))).into_owned()
}

// What is to become the command.
struct Waiting {
    child: Child,
    // Open until the end: it may be found late.
    gate: PipeReader,
    opener: PipeWriter,
}

impl Waiting {
    fn start(command: &[OsString], cpus: Option<&CpuSet>) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::failed(format!("starting the command: {error}"));
        let (gate, opener) = std::io::pipe().map_err(failed)?;
        let (whose, fd) = (std::process::id().to_string(), gate.as_raw_fd().to_string());
        let mut child = Command::new("/proc/self/exe");
        child.arg0("ringfence-start").args([START, &whose, &fd]);
        child.arg(cpus.map(ToString::to_string).unwrap_or_default()).args(command);
        let child = child.spawn().map_err(failed)?;
        Ok(Self { child, gate, opener })
    }

    // From here on it is the command; how it ends, with signals passed on.
    fn let_in(mut self, signals: Signals) -> std::io::Result<ExitStatus> {
        self.opener.write_all(b"!")?;
        let ended = wait(self.child, signals);
        drop(self.gate);
        ended
    }

    fn turn_away(mut self) {
        // The child exits when no process can open the gate any more.
        drop(self.opener);
        let _ = self.child.wait();
    }
}

fn wait(mut child: Child, mut signals: Signals) -> std::io::Result<ExitStatus> {
    let pid = Pid::from_child(&child);
    let (handle, ended) = (signals.handle(), Arc::new(AtomicBool::new(false)));
    let over = ended.clone();
    let waiter = std::thread::spawn(move || {
        let status = child.wait();
        over.store(true, Ordering::SeqCst);
        handle.close();
        status
    });
    for signal in signals.forever() {
        if let Some(known) = Signal::from_named_raw(signal)
            && !ended.load(Ordering::SeqCst)
            && !(matches!(signal, SIGINT | SIGQUIT) && at_the_terminal())
        {
            let _ = rustix::process::kill_process(pid, known);
        }
    }
    waiter
        .join()
        .unwrap_or_else(|_| Err(std::io::Error::other("the thread that waits has panicked")))
}

// Whether the terminal's Ctrl-C reaches the command itself, which is in the same process group.
fn at_the_terminal() -> bool {
    let foreground =
        File::open("/dev/tty").ok().and_then(|terminal| rustix::termios::tcgetpgrp(&terminal).ok());
    foreground == Some(rustix::process::getpgrp())
}

/// What becomes the command; it returns where that cannot be.
pub fn start(arguments: &[OsString]) -> Result<(), Failure> {
    let [whose, fd, cpus, program, rest @ ..] = arguments else {
        return Err(Failure::usage("this is for ringfence itself"));
    };
    let (whose, fd) = (whose.to_string_lossy(), fd.to_string_lossy());
    let opened =
        File::open(format!("/proc/{whose}/fd/{fd}")).and_then(|mut gate| gate.read(&mut [0]));
    match opened {
        Ok(1) => {}
        // The process that was to open it has reported why not, or is dead.
        Ok(_) => return Err(Failure::Command(1)),
        Err(error) => {
            return Err(Failure::failed(format!(
                "the command cannot wait to be moved: /proc/{whose}/fd/{fd}: {error}"
            )));
        }
    }
    if !cpus.is_empty() {
        let cpus = self::cpus(&cpus.to_string_lossy())?;
        set_affinity(&cpus).map_err(|error| Failure::usage(format!("--cpus: {error}")))?;
    }
    let error = Command::new(program).args(rest).exec();
    let shown = printable(&OsStr::to_string_lossy(program)).into_owned();
    Err(Failure::usage(format!("{shown}: the command cannot be started: {error}")))
}
