//! A quota of CPU time without a control group: the program is stopped and continued.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ringfence_experiment::units::Share;
use ringfence_machine::clock::Clock;
use ringfence_machine::root::FsRoot;

use crate::process;
use ringfence_limits::quota::PERIOD_US;
use rustix::process::Signal;

// Looking for new processes reads all of /proc: not in every period.
const SEARCH_EVERY: u32 = 16;

/// Stops and continues everything below this process, a thread of its own.
pub struct Cycle {
    share: Share,
    running: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Cycle {
    /// A cycle that has not begun.
    pub fn new(share: Share) -> Self {
        Self { share, running: Arc::default(), thread: None }
    }

    /// Begins, with the processes running.
    pub fn begin(&mut self) {
        self.end();
        *self.running.0.lock().unwrap() = true;
        let (running, share) = (self.running.clone(), self.share);
        self.thread = Some(std::thread::spawn(move || turn(&running, share)));
    }

    /// Ends; the processes may run or stand.
    pub fn end(&mut self) {
        *self.running.0.lock().unwrap() = false;
        self.running.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn turn(running: &(Mutex<bool>, Condvar), share: Share) {
    let clock = Clock::host();
    let period = PERIOD_US as f64 * 1e3 / clock.ns_per_tick();
    let ns = |ticks: f64| Duration::from_nanos(clock.ns(ticks.max(0.0) as u64) as u64);
    let (root, mut below) = (FsRoot::host(), Vec::new());
    for number in 0u32.. {
        // Periods follow the clock: windows would else always open at the same point of a period.
        let point = clock.now() as f64 % period;
        if number % SEARCH_EVERY == 0 {
            below = process::descendants(&root, process::own_pid())
                .iter()
                .map(|process| process.pid)
                .collect();
        }
        if point < share.0 * period {
            below.iter().for_each(|pid| process::signal(*pid, Signal::CONT));
            if !wait(running, ns(share.0 * period - point)) {
                return;
            }
        }
        below.iter().for_each(|pid| process::signal(*pid, Signal::STOP));
        if !wait(running, ns(period - clock.now() as f64 % period)) {
            return;
        }
    }
}

// Whether it still runs after a time.
fn wait(running: &(Mutex<bool>, Condvar), time: Duration) -> bool {
    let guard = running.0.lock().unwrap();
    *running.1.wait_timeout_while(guard, time, |running| *running).unwrap().0
}
