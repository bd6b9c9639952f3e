//! Any program as a task: started, pinned, paused and resumed with everything it starts.
//!
//! The worker that runs it adopts what its program leaves behind (it is a *child subreaper*,
//! `prctl(2)`), so the tree stays whole however often it forks. What its work is counted in is
//! the meter's matter; programs that are timed from start to end are [`whole_run`]s.

mod cycle;
mod files;
mod hdr_log;
mod latencies;
mod launcher;
mod meter;
mod server;
pub mod whole_run;

use std::process::Child;
use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::task::{Command, DEFAULT_WARM_UP};
use ringfence_experiment::units::Share;
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::probe::pin;
use ringfence_machine::root::FsRoot;

use crate::process;
use crate::shm::Slot;
use ringfence_limits::cgroup::Group;

use cycle::Cycle;

use latencies::Seen;
use launcher::Launcher;
use meter::Meter;
pub use meter::instructions_are_counted;
use server::Server;

// For a process that cannot be stopped at all; less than the supervisor waits for a switch.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// A program and its descendants, and its server, where it has one of its own.
pub struct Program {
    server: Option<Server>,
    launcher: Launcher,
    child: Child,
    started: Instant,
    home: CpuSet,
    meter: Meter,
    cycle: Option<Cycle>,
    root: FsRoot,
    slot: &'static Slot,
}

impl Program {
    /// Starts the program and pauses it after its warm-up. A quota is kept by the group where there
    /// is one, else by stopping and continuing the program.
    ///
    /// # Errors
    /// Where it cannot be started or fails meanwhile.
    pub fn start(
        command: &Command,
        quota: Option<Share>,
        cgroup: Option<&Group>,
        home: &CpuSet,
        slot: &Slot,
    ) -> Result<Self, Error> {
        process::adopt_orphans();
        // Before what follows is counted, and before this thread runs before others.
        let server =
            command.server.as_ref().map(|server| Server::start(server, home)).transpose()?;
        ring_when_children_end(slot);
        let mut launcher = Launcher::new(command, cgroup)?;
        // Before the first child: only what is forked afterwards inherits a counter.
        let mut meter = Meter::new(command).map_err(Error::usage)?;
        let child = launcher.launch(&mut meter)?;
        let cycle = quota.filter(|quota| cgroup.is_none() && quota.0 < 1.0).map(Cycle::new);
        let root = FsRoot::host();
        let mut program = Self {
            server,
            launcher,
            child,
            started: Instant::now(),
            home: home.clone(),
            meter,
            cycle,
            root,
            slot: slot.lasting(),
        };
        // Counted from the first start: a program that is shorter starts several times meanwhile.
        let (begun, warm_up) = (program.started, command.warm_up.unwrap_or(DEFAULT_WARM_UP).0);
        while begun.elapsed() < warm_up {
            program.keep_running()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        program.pause()?;
        Ok(program)
    }

    /// Work so far.
    pub fn units(&mut self) -> u64 {
        self.meter.units(&self.root)
    }

    /// The latencies that it has printed so far, where it does.
    pub fn latencies(&mut self) -> Option<Seen> {
        self.meter.printed().map(|printed| printed.seen())
    }

    /// Resumes the tree and pins it again: a program may have moved itself.
    pub fn resume(&mut self) {
        if let Some(printed) = self.meter.printed() {
            printed.resumed();
        }
        let server = self.server.as_ref().map(|server| (server.members(&self.root), &server.home));
        for process in process::descendants(&self.root, process::own_pid()) {
            let of_server = server.as_ref().filter(|(members, _)| members.contains(&process.pid));
            let home = of_server.map_or(&self.home, |(_, home)| *home);
            for thread in self.root.numbered(format!("/proc/{}/task", process.pid), "") {
                pin::pin_thread(thread as i32, home).ok();
            }
        }
        process::resume_descendants(&self.root, process::own_pid());
        if let Some(cycle) = &mut self.cycle {
            cycle.begin();
        }
    }

    /// Stops the tree.
    ///
    /// # Errors
    /// Where some process does not stop in time.
    pub fn pause(&mut self) -> Result<(), Error> {
        if let Some(cycle) = &mut self.cycle {
            cycle.end();
        }
        if process::stop_descendants(&self.root, process::own_pid(), STOP_LIMIT) {
            return Ok(());
        }
        let shown = &self.launcher.shown;
        let limit = STOP_LIMIT.as_secs();
        let text = format!(
            "'{shown}' cannot be paused: one of its processes did not stop within {limit} s"
        );
        Err(Error::failed(text))
    }

    /// Starts the program again if it has ended well.
    ///
    /// # Errors
    /// Where it has failed or cannot be started again.
    pub fn keep_running(&mut self) -> Result<(), Error> {
        self.meter.before_the_end(&self.root);
        let shown = &self.launcher.shown;
        if let Some(printed) = self.meter.printed()
            && let Some(trouble) = printed.trouble()
        {
            let text = format!("the latencies of '{shown}' cannot be counted: {trouble}");
            // It was asked for what it can do, and failed at it.
            let failed = printed.is_damaged();
            return Err(if failed { Error::failed(text) } else { Error::usage(text) });
        }
        if let Some(server) = &mut self.server {
            server.check()?;
        }
        let status =
            self.child.try_wait().map_err(Error::trying(format_args!("waiting for '{shown}'")))?;
        let server = self.server.as_ref().map_or(0, Server::pid);
        process::collect_zombies(&[self.child.id() as i32, server]);
        let Some(status) = status else { return Ok(()) };
        if !status.success() {
            if let Some(server) = &mut self.server {
                server.check_after_its_client()?;
            }
            return Err(Error::failed(self.launcher.epitaph(status, self.started.elapsed())));
        }
        self.meter.ended();
        self.child = self.launcher.launch(&mut self.meter)?;
        self.started = Instant::now();
        self.slot.note_restart();
        Ok(())
    }
}

// A thread that rings the worker's bell whenever a child ends. It leaves the child to be waited
// for.
fn ring_when_children_end(slot: &Slot) {
    let slot = slot.lasting();
    std::thread::spawn(move || {
        loop {
            let ended = process::wait_for_end(None);
            slot.ring();
            // Until the main thread has collected it, the same child is reported again; without any
            // child there is nothing to wait for.
            std::thread::sleep(Duration::from_millis(if ended { 2 } else { 20 }));
        }
    });
}
