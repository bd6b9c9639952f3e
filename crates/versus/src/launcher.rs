//! The process that runs one command, times it and says what it took.
//!
//! It is started anew for every run, and the command is its only child: so the kernel's sums over
//! its children (`getrusage(2)`, RUSAGE_CHILDREN) are about that run alone, peak memory included.
//! What its own start takes is outside of the time that is measured. It is small, because the
//! kernel counts what a process had in memory before it became the command to that command's peak.
//!
//! It reads what to run from its standard input, which is a socket, and writes the result there. If
//! the other end closes first, the requesting process is gone, and the launcher kills its whole
//! process group.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use perf_event::events::Hardware;
use perf_event::{Builder, Counter};
use rustix::process::WaitOptions;
use serde::{Deserialize, Serialize};

use crate::run::Took;

/// The hidden first argument by which a program runs as a launcher.
pub const LAUNCHER: &str = "__versus-run";

// Of standard error.
const KEPT: usize = 8 << 10;

// What ends this long after the command is about to end, and no process that it has left behind.
const ABOUT_TO_END: Duration = Duration::from_millis(50);

/// What to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// A file for its standard input; none: nothing to read.
    pub input: Option<PathBuf>,
    /// The folder in which it runs.
    pub dir: Option<PathBuf>,
    /// Its standard output is read, and thrown away.
    pub drain: bool,
    /// Whether its standard error is passed through. Otherwise the end of it is kept.
    pub loud: bool,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// Whether to count instructions and cycles.
    pub count: bool,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// It ran.
    Ran {
        /// What it took.
        took: Took,
        /// The end of its standard error, where it did not end well.
        said: String,
        /// Why nothing was counted, if counts were requested.
        not_counted: Option<String>,
    },
    /// It could not be started, or not be waited for.
    Failed {
        /// What was tried.
        tried: String,
        /// What happened.
        why: String,
        /// Whether the request itself was invalid (a usage error).
        usage: bool,
    },
}

/// Runs as a launcher where the first argument says so; it does not return then. To be called first
/// in `main`.
pub fn enter_hidden_role() {
    if std::env::args_os().nth(1).is_none_or(|word| word != LAUNCHER) {
        return;
    }
    let done = serve();
    std::process::exit(i32::from(done.is_err()));
}

fn serve() -> io::Result<()> {
    // A program that asks the terminal for a password would be stopped in the background,
    // unnoticed.
    rustix::process::setsid()?;
    // What the command leaves behind becomes a child of this process, and is seen.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut length = [0; 8];
    socket.read_exact(&mut length)?;
    let mut order = vec![0; u64::from_le_bytes(length) as usize];
    socket.read_exact(&mut order)?;
    let order: Order = serde_json::from_slice(&order)?;
    let mut watched = socket.try_clone()?;
    std::thread::spawn(move || {
        // Nothing more is said to this end until it closes.
        if !matches!(watched.read(&mut [0]), Ok(1..)) {
            let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
        }
    });
    let reply = run(&order);
    socket.write_all(&serde_json::to_vec(&reply)?)?;
    socket.shutdown(Shutdown::Write)
}

fn run(order: &Order) -> Reply {
    match timed(order) {
        Ok(reply) => reply,
        Err((tried, error)) => {
            use io::ErrorKind::{
                InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
            };
            let usage = [NotFound, PermissionDenied, NotADirectory, IsADirectory, InvalidInput];
            Reply::Failed {
                tried,
                why: format!("{error}{}", remedy(&error)),
                usage: usage.contains(&error.kind()) || exec_format(&error),
            }
        }
    }
}

// Of an error that is about a program or a file that was named.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; correct the name or the path",
        io::ErrorKind::PermissionDenied => "; name an executable file (chmod +x makes one)",
        _ if exec_format(error) => "; a script needs a first line such as #!/bin/sh",
        _ => "",
    }
}

// ENOEXEC.
fn exec_format(error: &io::Error) -> bool {
    error.raw_os_error() == Some(8)
}

type Tried<T> = Result<T, (String, io::Error)>;

fn trying<T>(what: impl FnOnce() -> String, result: io::Result<T>) -> Tried<T> {
    result.map_err(|error| (what(), error))
}

fn timed(order: &Order) -> Tried<Reply> {
    let (program, arguments) = order.words.split_first().ok_or_else(|| {
        ("starting nothing".to_string(), io::Error::new(io::ErrorKind::InvalidInput, "no command"))
    })?;
    let mut command = Command::new(program);
    command.args(arguments).envs(order.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(match &order.input {
        None => Stdio::null(),
        Some(path) => trying(|| format!("reading {}", path.display()), File::open(path))?.into(),
    });
    if let Some(dir) = &order.dir {
        command.current_dir(dir);
    }
    let pipes = || "making a pipe".to_string();
    let mut tail = None;
    if !order.loud {
        let (reader, writer) = trying(pipes, io::pipe())?;
        command.stderr(writer);
        tail = Some(Tail::of(reader));
    }
    let mut drained = None;
    if order.drain {
        let (reader, writer) = trying(pipes, io::pipe())?;
        command.stdout(writer);
        drained = Some(Tail::of(reader));
    }
    // Only what is started afterwards inherits a counter, and what becomes another program starts
    // to count.
    let counters = order.count.then(counters);
    let memory_floor = own_peak();
    let began = Instant::now();
    let mut child = trying(|| format!("starting '{program}'"), command.spawn())?;
    let status = trying(|| format!("waiting for '{program}'"), child.wait())?;
    let wall = began.elapsed();
    // Its ends of the pipes, which would keep readers waiting.
    drop(command);
    let usage = trying(
        || "getrusage".into(),
        getrusage(UsageWho::RUSAGE_CHILDREN).map_err(io::Error::from),
    )?;
    let (instructions, cycles, not_counted) = match counters {
        None => (None, None, None),
        Some(Err(error)) => (None, None, Some(format!("perf_event_open failed: {error}"))),
        Some(Ok([mut instructions, mut cycles])) => {
            (instructions.read().ok(), cycles.read().ok(), None)
        }
    };
    drop(drained);
    let left_behind = if order.count { left_behind() } else { Vec::new() };
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let took = Took {
        wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
        user_ns: ns(usage.user_time()),
        system_ns: ns(usage.system_time()),
        // KiB, getrusage(2).
        peak_memory: count(usage.max_rss()) * 1024,
        memory_floor,
        minor_faults: count(usage.minor_page_faults()),
        major_faults: count(usage.major_page_faults()),
        voluntary_switches: count(usage.voluntary_context_switches()),
        involuntary_switches: count(usage.involuntary_context_switches()),
        instructions,
        cycles,
        code: status.code(),
        signal: status.signal(),
        left_behind,
    };
    let said =
        if took.succeeded() { String::new() } else { tail.map(Tail::end).unwrap_or_default() };
    Ok(Reply::Ran { took, said, not_counted })
}

// The names of the children that keep running, once the command has ended and its usage is known.
fn left_behind() -> Vec<String> {
    let until = Instant::now() + ABOUT_TO_END;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => return children(),
            // There are no others.
            Err(_) => return Vec::new(),
        }
    }
}

fn children() -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let name = |entry: fs::DirEntry| {
        // proc(5): the number, the name in brackets, which may hold anything, the state, and the
        // parent.
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (before, rest) = stat.rsplit_once(") ")?;
        let (_, name) = before.split_once(" (")?;
        (rest.split(' ').nth(1)? == own).then(|| name.to_owned())
    };
    entries.filter_map(name).collect()
}

fn ns(time: TimeVal) -> u64 {
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_usec() as u64 * 1000
}

// User mode alone, which the kernel lets every user count.
fn counters() -> io::Result<[Counter; 2]> {
    let counter = |event| Builder::new(event).inherit(true).enable_on_exec(true).build();
    Ok([counter(Hardware::INSTRUCTIONS)?, counter(Hardware::CPU_CYCLES)?])
}

// The most that this process had in memory: what the command has at least before it is the command.
fn own_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

// Reads a pipe to its end, and keeps the last of it.
struct Tail(mpsc::Receiver<Vec<u8>>);

impl Tail {
    fn of(mut reader: io::PipeReader) -> Self {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut kept, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                kept.extend_from_slice(&buffer[..length]);
                let excess = kept.len().saturating_sub(KEPT);
                kept.drain(..excess);
            }
            let _ = send.send(kept);
        });
        Self(receive)
    }

    // What the command has started and left may hold the pipe open.
    fn end(self) -> String {
        let kept = self.0.recv_timeout(Duration::from_millis(500)).unwrap_or_default();
        String::from_utf8_lossy(&kept).into_owned()
    }
}
