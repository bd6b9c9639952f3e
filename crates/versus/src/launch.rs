//! Runs commands: each by a process of this program of its own, which is in a session of its own,
//! so without a terminal.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_experiment::{Error, ErrorKind};
use ringfence_machine::root::FsRoot;
use rustix::process::{Pid, Signal};

use crate::launcher::{LAUNCHER, Order, Reply};
use crate::run::Took;
use crate::session::{interrupted, out_of_time};

// How often it is looked whether something has come about that is due.
const LOOK: Duration = Duration::from_millis(5);
// How often to check whether the user wants the run to end.
const GLANCE: Duration = Duration::from_millis(100);
// What ends politely has so long.
const POLITE: Duration = Duration::from_secs(2);

/// Where standard output of a command goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Nowhere.
    Null,
    /// Through a pipe, and then nowhere.
    Pipe,
    /// To where this program's goes; standard error, too.
    Inherit,
    /// To a file, which each run overwrites.
    File(PathBuf),
}

impl Output {
    /// `null`, `pipe`, `inherit`, or a file: one without a slash has a dot in its name, so that a
    /// slip is seen.
    ///
    /// # Errors
    /// One sentence where it is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "null" => Ok(Self::Null),
            "pipe" => Ok(Self::Pipe),
            "inherit" => Ok(Self::Inherit),
            file if file.contains(['/', '.']) => Ok(Self::File(file.into())),
            other => Err(format!(
                "--output: '{other}' is not null, pipe, inherit or a file such as ./{other}"
            )),
        }
    }
}

/// A command to run.
pub struct What<'a> {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// For its standard input.
    pub input: Option<&'a Path>,
    /// The folder in which it runs.
    pub dir: Option<&'a str>,
    /// For its standard output.
    pub output: &'a Output,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
}

/// How a command ended.
pub struct Ran {
    /// What it took.
    pub took: Took,
    /// The end of its standard error.
    pub said: String,
    /// Why instructions were not counted.
    pub not_counted: Option<String>,
}

/// Runs a command that is timed.
///
/// # Errors
/// Where it cannot be started, or the run is interrupted.
pub fn timed(what: &What, stop: &Arc<AtomicBool>, until: Option<Instant>) -> Result<Ran, Error> {
    launch(what, None, true, stop, until)
}

/// Runs a command that belongs around others. What it starts and leaves behind keeps running.
///
/// # Errors
/// As [`timed`].
pub fn around(what: &What, stop: &Arc<AtomicBool>) -> Result<Ran, Error> {
    // A file, not a pipe: a process that keeps running may write there when no process reads any
    // more.
    let said = memory_file().map_err(|error| failed("creating a file in memory", &error))?;
    let mut ran = launch(what, Some(&said), false, stop, None)?;
    if !ran.took.succeeded() {
        ran.said = read_back(said);
    }
    Ok(ran)
}

fn read_back(mut file: File) -> String {
    let mut bytes = Vec::new();
    let end = file.seek(io::SeekFrom::End(0)).unwrap_or(0);
    let _ = file.seek(io::SeekFrom::Start(end.saturating_sub(8 << 10)));
    let _ = file.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn memory_file() -> io::Result<File> {
    let made = rustix::fs::memfd_create("ringfence-said", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(made))
}

fn failed(tried: &str, error: &io::Error) -> Error {
    Error::failed(format!("{tried}: {error}"))
}

fn launch(
    what: &What,
    said: Option<&File>,
    count: bool,
    stop: &Arc<AtomicBool>,
    until: Option<Instant>,
) -> Result<Ran, Error> {
    let io = |tried: &'static str| move |error: io::Error| failed(tried, &error);
    let inherit = *what.output == Output::Inherit;
    let (mut ours, theirs) = UnixStream::pair().map_err(io("creating a pair of sockets"))?;
    let mut launcher = Command::new("/proc/self/exe");
    launcher.arg0("ringfence-run").arg(LAUNCHER);
    launcher.stdin(Stdio::from(OwnedFd::from(theirs)));
    launcher.stdout(match what.output {
        Output::Null | Output::Pipe => Stdio::null(),
        Output::Inherit => Stdio::inherit(),
        Output::File(path) => File::create(path)
            .map_err(|error| {
                Error::usage(format!(
                    "--output: {} cannot be written: {error}; name a file in a folder that can be \
                     written to",
                    path.display()
                ))
            })?
            .into(),
    });
    launcher.stderr(match said {
        Some(_) if inherit => Stdio::inherit(),
        Some(file) => file.as_fd().try_clone_to_owned().map_err(io("copying a descriptor"))?.into(),
        None => Stdio::inherit(),
    });
    let order = Order {
        words: what.words.clone(),
        input: what.input.map(Path::to_owned),
        dir: what.dir.map(PathBuf::from),
        drain: *what.output == Output::Pipe,
        loud: said.is_some() || inherit,
        environment: what.environment.clone(),
        count,
    };
    let mut running = Running(launcher.spawn().map_err(io("starting the launcher process"))?, true);
    // Its end of the socket, which would keep this one open.
    drop(launcher);
    let text = serde_json::to_vec(&order).map_err(Error::failed_by)?;
    let sent =
        ours.write_all(&(text.len() as u64).to_le_bytes()).and_then(|()| ours.write_all(&text));
    sent.map_err(io("sending the command to the launcher process"))
        .map_err(|trouble| unless_stopped(trouble, stop))?;
    let reply = match listen(&mut ours, stop, until) {
        Err(end) if matches!(end.kind(), ErrorKind::Interrupted | ErrorKind::OutOfTime) => {
            running.end();
            return Err(end);
        }
        reply => reply?,
    };
    running.collect();
    match serde_json::from_slice(&reply) {
        Ok(Reply::Ran { took, said, not_counted }) => Ok(Ran { took, said, not_counted }),
        Ok(Reply::Failed { tried, why, usage }) => {
            let text = format!("{tried}: {why}");
            Err(if usage { Error::usage(text) } else { Error::failed(text) })
        }
        Err(_) => {
            let words = what.words.join(" ");
            let text = format!(
                "the launcher process of '{words}' ended without a result; if it was killed, run \
                 this again"
            );
            Err(unless_stopped(Error::failed(text), stop))
        }
    }
}

// A signal to all processes of this program at once may have reached another one first.
fn unless_stopped(trouble: Error, stop: &Arc<AtomicBool>) -> Error {
    let until = Instant::now() + GLANCE;
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() > until {
            return trouble;
        }
        std::thread::sleep(LOOK);
    }
    interrupted()
}

// The reply, unless it is to end before.
fn listen(
    socket: &mut UnixStream,
    stop: &Arc<AtomicBool>,
    until: Option<Instant>,
) -> Result<Vec<u8>, Error> {
    let io = |error: io::Error| failed("waiting for a command", &error);
    socket.set_read_timeout(Some(GLANCE)).map_err(io)?;
    let (mut reply, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(out_of_time());
        }
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(reply),
            Ok(length) => reply.extend_from_slice(&buffer[..length]),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => {}
                // It was killed.
                io::ErrorKind::ConnectionReset => return Ok(reply),
                _ => return Err(io(error)),
            },
        }
    }
}

// A launcher, which ends with its process group unless it has ended well.
struct Running(Child, bool);

impl Running {
    fn collect(&mut self) {
        let _ = self.0.wait();
        self.1 = false;
    }

    fn end(&mut self) {
        if !self.1 {
            return;
        }
        let group = Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, Signal::TERM);
        // It may not have come to lead a group yet.
        let _ = rustix::process::kill_process(group, Signal::TERM);
        let until = Instant::now() + POLITE;
        // The launcher itself ends at once; whether others have, its group says.
        let _ = self.0.wait();
        while lives(group) {
            if Instant::now() > until {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
                break;
            }
            std::thread::sleep(LOOK);
        }
        self.1 = false;
    }
}

// A process that has ended stays a member of its group until it is reaped, which the first process
// of a container may never do.
fn lives(group: Pid) -> bool {
    if rustix::process::test_kill_process_group(group).is_err() {
        return false;
    }
    let root = FsRoot::host();
    let member = |stat: String| {
        // proc(5): the name in brackets, which may hold anything; state, parent, group.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let ended = fields.next()?.starts_with(['Z', 'X']);
        Some(!ended && fields.nth(1)?.parse::<i32>().ok()? == group.as_raw_nonzero().get())
    };
    let stats = root
        .numbered("/proc", "")
        .into_iter()
        .filter_map(|pid| root.read_opt(format!("/proc/{pid}/stat")));
    stats.filter_map(member).any(|lives| lives)
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
