//! A server that is started before its client, and runs as long as that is measured.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::{Child, Command as Spawn, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::task::{DEFAULT_READY_WITHIN, Ready, Server as Task};
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::probe::pin;
use ringfence_machine::root::FsRoot;

use crate::{before_exec, process};

// How long an earlier process may take to leave the port.
const LEAVING: Duration = Duration::from_secs(2);
const CONNECTING: Duration = Duration::from_millis(500);
// A client that loses its server notices first.
const GRACE: Duration = Duration::from_millis(300);
const LONGEST_SAID: usize = 200;

/// A server that runs.
pub struct Server {
    child: Child,
    run: String,
    started: Instant,
    said: Arc<Mutex<Said>>,
    /// Its CPUs.
    pub home: CpuSet,
}

#[derive(Default)]
struct Said {
    last: String,
    ready: bool,
}

impl Server {
    /// Starts it, on the client's CPUs unless it has others, and waits until it is ready.
    ///
    /// # Errors
    /// Where it cannot be started, ends, or is not ready in time; and where another process answers
    /// in its place.
    pub fn start(task: &Task, client: &CpuSet) -> Result<Self, Error> {
        process::adopt_orphans();
        refuse_others(&task.ready)?;
        let home = task.cpus.clone().unwrap_or_else(|| client.clone());
        let mut server = launch(task, home, client)?;
        let within = task.within.unwrap_or(DEFAULT_READY_WITHIN);
        while !server.is_ready(&task.ready) {
            server.check()?;
            if server.started.elapsed() > within.0 {
                let missing = match &task.ready {
                    Ready::Line(pattern) => format!("printed no line with '{pattern}'"),
                    place => format!("accepted no connection at {place}"),
                };
                return Err(Error::failed(format!(
                    "the server '{}' has {missing} within {within}{}; --ready-within allows more \
                     time",
                    server.run,
                    server.last_said()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        server.check()?;
        Ok(server)
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// It and all that it started.
    pub fn members(&self, root: &FsRoot) -> Vec<i32> {
        process::family(root, self.pid())
    }

    /// Fails where the server has ended.
    ///
    /// # Errors
    /// One sentence with its last words.
    pub fn check(&mut self) -> Result<(), Error> {
        let ended = self.child.try_wait();
        match ended.map_err(Error::trying(format_args!("waiting for '{}'", self.run)))? {
            Some(status) => Err(Error::failed(self.epitaph(status))),
            None => Ok(()),
        }
    }

    /// The same after its client failed: if the server has ended, that is the error to report.
    ///
    /// # Errors
    /// Where it has ended, too.
    pub fn check_after_its_client(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < GRACE {
            self.check()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn is_ready(&self, ready: &Ready) -> bool {
        match ready {
            Ready::Line(_) => lock(&self.said).ready,
            place => answers(place),
        }
    }

    fn last_said(&self) -> String {
        let said = lock(&self.said).last.clone();
        if said.is_empty() {
            "; it printed nothing".into()
        } else {
            format!("; its last output: {said}")
        }
    }

    fn epitaph(&self, status: ExitStatus) -> String {
        // What it wrote may not have been read yet.
        std::thread::sleep(Duration::from_millis(20));
        let foreground = match status.success() {
            true => ": it must stay in the foreground while its client is measured",
            false => "",
        };
        let after = self.started.elapsed().as_secs_f64();
        format!(
            "the server '{}' ended with {status} after {after:.1} s{foreground}{}",
            self.run,
            self.last_said()
        )
    }
}

fn launch(task: &Task, home: CpuSet, client: &CpuSet) -> Result<Server, Error> {
    let argv = task.argv().unwrap_or_default();
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        Error::failed(format!("{what} of the server '{}' failed: {error}", task.run))
    };
    let (output, both) =
        std::io::pipe().map_err(|error| failed("creating a pipe for the output", &error))?;
    let again =
        both.try_clone().map_err(|error| failed("creating a pipe for the output", &error))?;
    let mut spawn = Spawn::new(&argv[0]);
    spawn.args(&argv[1..]).envs(&task.env).stdin(Stdio::null()).stdout(both).stderr(again);
    // What is started takes over the CPUs of this thread.
    pin::set_affinity(&home).map_err(|error| {
        Error::usage(format!("the server '{}' cannot run on CPU {home}: {error}", task.run))
    })?;
    before_exec::end_with_us(&mut spawn);
    let started = Instant::now();
    let child = spawn.spawn();
    pin::set_affinity(client).map_err(|error| failed("going on without the CPUs", &error))?;
    let child = child.map_err(|error| {
        Error::usage(format!(
            "the server '{}' cannot be started: {error}; check the name and the path",
            argv[0]
        ))
    })?;
    let said = Arc::new(Mutex::new(Said::default()));
    let pattern = task.ready.line().map_err(Error::usage)?;
    let told = said.clone();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while let Ok(1..) = output.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            let mut said = lock(&told);
            said.ready |= pattern.as_ref().is_some_and(|pattern| pattern.is_in(text));
            if !text.trim().is_empty() {
                said.last = text.trim().chars().take(LONGEST_SAID).collect();
            }
            drop(said);
            line.clear();
        }
    });
    Ok(Server { child, run: task.run.clone(), started, said, home })
}

// A process that answers before the server is started would be measured in its place.
fn refuse_others(ready: &Ready) -> Result<(), Error> {
    let begun = Instant::now();
    while answers(ready) {
        if begun.elapsed() > LEAVING {
            return Err(Error::usage(format!(
                "another program already accepts connections at {ready} before the server is \
                 started: end it, or let the server use another port"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

// Whether anything accepts connections there.
fn answers(ready: &Ready) -> bool {
    let places: Vec<SocketAddr> = match ready {
        Ready::Port(port) => {
            vec![([127, 0, 0, 1], *port).into(), (std::net::Ipv6Addr::LOCALHOST, *port).into()]
        }
        Ready::Tcp(host, port) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            (host, *port).to_socket_addrs().map(Iterator::collect).unwrap_or_default()
        }
        Ready::Line(_) => Vec::new(),
    };
    places.iter().any(|place| TcpStream::connect_timeout(place, CONNECTING).is_ok())
}

// A thread that panicked left complete lines.
fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}
