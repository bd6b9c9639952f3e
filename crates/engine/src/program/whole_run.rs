//! A program that is timed from its start to its end, once per order to run.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::task::{Command, Counted, Figure, Finder};
use ringfence_machine::clock::Clock;
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::root::FsRoot;

use super::launcher::{Launcher, last_line};
use super::meter::Meter;
use super::server::Server;
use crate::process;
use crate::shm::Slot;

const END_LIMIT: Duration = Duration::from_secs(20);

/// A program that runs on order.
pub struct WholeRun {
    launcher: Launcher,
    meter: Meter,
    slot: &'static Slot,
    run: Option<Run>,
    figure: Option<(String, Finder)>,
    server: Option<Server>,
}

/// A run that has ended well.
pub struct Ended {
    /// The clock at its end, ticks.
    pub ticks: u64,
    /// The figure that it printed, where that replaces its time.
    pub counted: Option<Counted>,
}

struct Run {
    child: Child,
    started: Instant,
    /// The clock at its end, ticks; 0 before.
    ended: Arc<AtomicU64>,
}

impl WholeRun {
    /// A program that does not run yet; its server does, where it has one of its own.
    ///
    /// # Errors
    /// Where its server is not ready, there is no memory for what it needs, or its figure cannot be
    /// searched for.
    pub fn new(command: &Command, home: &CpuSet, slot: &Slot) -> Result<Self, Error> {
        process::adopt_orphans();
        // Before this thread runs before others.
        let server =
            command.server.as_ref().map(|server| Server::start(server, home)).transpose()?;
        if let Some(pid) = server.as_ref().map(Server::pid) {
            let slot = slot.lasting();
            // A client that waits for it would wait forever.
            std::thread::spawn(move || {
                process::wait_for_end(Some(pid));
                slot.ring();
            });
        }
        let launcher = Launcher::new(command, None)?;
        let meter = Meter::new(command).map_err(Error::usage)?;
        let find = |figure: &Figure| -> Result<_, Error> {
            Ok((figure.pattern.clone(), figure.finder().map_err(Error::usage)?))
        };
        let figure = command.figure.as_ref().map(find).transpose()?;
        Ok(Self { launcher, meter, slot: slot.lasting(), run: None, figure, server })
    }

    /// Starts it. It inherits this process's CPU.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(&mut self) -> Result<(), Error> {
        let started = Instant::now();
        let child = self.launcher.launch(&mut self.meter)?;
        let ended = Arc::new(AtomicU64::new(0));
        let (pid, slot, at_end) = (child.id(), self.slot, ended.clone());
        // Waits for this child alone and leaves it to be collected.
        std::thread::spawn(move || {
            process::wait_for_end(Some(pid as i32));
            at_end.store(Clock::host().now(), Ordering::Release);
            slot.ring();
        });
        self.run = Some(Run { child, started, ended });
        Ok(())
    }

    /// How the run that was started last ended; `None` while it runs.
    ///
    /// # Errors
    /// Where it has failed, or has printed no figure that was to stand for it.
    pub fn end_of_run(&mut self) -> Result<Option<Ended>, Error> {
        if let Some(server) = &mut self.server {
            server.check()?;
        }
        let Some(run) = &mut self.run else { return Ok(None) };
        let ticks = run.ended.load(Ordering::Acquire);
        if ticks == 0 {
            return Ok(None);
        }
        let status = run
            .child
            .wait()
            .map_err(Error::trying(format_args!("waiting for '{}'", self.launcher.shown)))?;
        let after = run.started.elapsed();
        self.run = None;
        match status.success() {
            true => Ok(Some(Ended { ticks, counted: self.counted()? })),
            false => {
                if let Some(server) = &mut self.server {
                    server.check_after_its_client()?;
                }
                Err(Error::failed(self.launcher.epitaph(status, after)))
            }
        }
    }

    fn counted(&self) -> Result<Option<Counted>, Error> {
        let Some((pattern, finder)) = &self.figure else { return Ok(None) };
        let (stdout, stderr) = self.launcher.written();
        finder.read(&stdout, &stderr).map(Some).map_err(|why| {
            let last =
                [last_line(&stdout), last_line(&stderr)].into_iter().find(|line| !line.is_empty());
            let last = last
                .map_or("it printed nothing".into(), |line| format!("its last line is '{line}'"));
            Error::usage(format!(
                "'{}' must print a number that matches '{pattern}', but its output {why}; {last}",
                self.launcher.shown
            ))
        })
    }

    /// Ends what still runs of it, but for its server.
    pub fn end(&mut self) {
        let server = self.server.as_ref().map(Server::pid);
        process::end_descendants_but(&FsRoot::host(), process::own_pid(), server, END_LIMIT);
        if let Some(mut run) = self.run.take() {
            let _ = run.child.wait();
        }
        process::collect_zombies(&[server.unwrap_or(0)]);
    }
}
