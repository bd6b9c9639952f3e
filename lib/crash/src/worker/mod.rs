//! Runs commands on images of files, each in an isolated view of the system.
//!
//! A worker is a separate process, because it mounts file systems and forks often, which is slow in
//! a large process. Its commands see the system through overlays in memory, which are discarded
//! after each run. They have a network with only a loopback, and all processes that they start end
//! with them.

mod orders;
mod reads;
mod run;
mod view;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use orders::{Given, ImageFile, Order, Ran, Read as ReadWords, Setup, Status};

use view::View;

/// The hidden first argument by which a program runs as a worker.
pub const WORKER: &str = "__crash-worker";

/// A handle to a worker process.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    to: BufWriter<std::process::ChildStdin>,
    from: BufReader<std::process::ChildStdout>,
}

impl Worker {
    /// Starts one, by `program` with [`WORKER`] as its argument.
    ///
    /// # Errors
    /// Where it cannot be started, or cannot have a view of its own.
    pub fn start(program: &Path, setup: &Setup) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let to = BufWriter::new(child.stdin.take().expect("it is piped"));
        let from = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut worker = Self { child, to, from };
        write(&mut worker.to, setup)?;
        worker.to.flush()?;
        let ready: Result<(), String> = read(&mut worker.from)?;
        ready.map(|()| worker).map_err(io::Error::other)
    }

    /// Whether commands can be run here in a view of their own: one is, in a folder that must be
    /// new.
    ///
    /// # Errors
    /// Where that is refused.
    pub fn check(program: &Path, folder: &Path) -> io::Result<()> {
        const TIME: Duration = Duration::from_secs(60);
        std::fs::create_dir_all(folder)?;
        let setup = Setup {
            folder: folder.to_owned(),
            files: Vec::new(),
            words: Vec::new(),
            checksum: Vec::new(),
            directory: "/".into(),
            disk: 1 << 20,
            memory: 1 << 30,
            cpu: 0,
        };
        let order = Order { command: "exit 0".into(), time: TIME, ..Order::default() };
        let ran = Self::start(program, &setup).and_then(|mut worker| worker.run(&[], &order));
        std::fs::remove_dir_all(folder)?;
        match ran?.status {
            Status::Exited(0) => Ok(()),
            other => Err(io::Error::other(format!("a shell that exits ends with {other}"))),
        }
    }

    /// Runs a command; `changed` are the words whose contents differ from those of the last run.
    ///
    /// # Errors
    /// Where the worker cannot do it.
    pub fn run(&mut self, changed: &[(u64, u64)], order: &Order) -> io::Result<Ran> {
        write(&mut self.to, order)?;
        for (word, content) in changed {
            self.to.write_all(&word.to_le_bytes())?;
            self.to.write_all(&content.to_le_bytes())?;
        }
        self.to.flush()?;
        let ran: Result<Ran, String> = read(&mut self.from)?;
        ran.map_err(io::Error::other)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Its namespaces go with it, and all that runs in them.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves runs until the parent closes the pipe, and never returns, if this process is a worker.
pub fn enter_hidden_role() {
    if std::env::args_os().nth(1).is_some_and(|word| word == WORKER) {
        main();
    }
}

fn main() -> ! {
    let code = match work() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("ringfence: {error}");
            1
        }
    };
    std::process::exit(code)
}

fn work() -> io::Result<()> {
    let (input, output) = ours()?;
    let (mut input, mut output) = (BufReader::new(File::from(input)), File::from(output));
    let setup: Setup = read(&mut input)?;
    stay_on(setup.cpu);
    let mut view = match View::new(setup) {
        Ok(view) => {
            write(&mut output, &Ok::<(), String>(()))?;
            view
        }
        Err(error) => return write(&mut output, &Err::<(), String>(error.to_string())),
    };
    loop {
        let order: Order = match read(&mut input) {
            Ok(order) => order,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut changed = vec![[0; 16]; order.changed];
        for word in &mut changed {
            input.read_exact(word)?;
        }
        let ran = view.change(&changed).and_then(|()| view.run(&order));
        write(&mut output, &ran.map_err(|error| error.to_string()))?;
    }
}

fn stay_on(number: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let count = allowed.count().max(1) as usize;
    let mut all = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    if let Some(cpu) = all.nth(number % count) {
        let mut one = CpuSet::new();
        one.set(cpu);
        // It is slower where that is refused.
        let _ = sched_setaffinity(None, &one);
    }
}

// Moves the pipes to the parent out of the way, so that no command inherits them.
fn ours() -> io::Result<(OwnedFd, OwnedFd)> {
    // The kernel ends the worker if its parent dies.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // Ctrl-C must not reach workers: their parent still needs the results.
    let _ = rustix::process::setsid();
    let input = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 10)?;
    let output = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 10)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((input, output))
}

fn write(to: &mut impl Write, what: &impl serde::Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(what)?;
    to.write_all(&(text.len() as u64).to_le_bytes())?;
    to.write_all(&text)
}

fn read<T: serde::de::DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let mut text = vec![0; u64::from_le_bytes(length) as usize];
    from.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
