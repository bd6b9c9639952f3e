//! Stopping by `ptrace`: the kernel resumes every thread whose tracer has ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::root::{FsRoot, field};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, gettid};

use super::pause::pause;
use crate::attach::process::{self, Process};
use crate::attach::refusal::Refusal;
use crate::attach::target::Target;

/// So often it is looked, while one is being seized, whether others have ended.
const LOOK: Duration = Duration::from_millis(1);
/// A thread that ends does so within microseconds, unless the machine is so busy that it gets no
/// CPU, or the kernel keeps it.
const END: Duration = Duration::from_secs(10);
/// How many times a thread is tried that exists, has no tracer, and is refused.
const TRIES: u32 = 3;

/// The threads that one freeze has stopped.
///
/// The kernel takes orders about a tracee only from the thread that seized it, so a dedicated
/// thread does that. All tracees resume when that thread ends, and in no other way: whether it is
/// told to end, panics, or is killed with this program, the kernel does the same. Tracees are not
/// detached one by one. Nor is a stop collected by `waitid(2)`, after which the signal that a
/// tracee was about to get would have to be passed on by hand: the kernel does that itself while it
/// holds the signal.
pub struct Tracer {
    root: FsRoot,
    // Gone once it is to end.
    orders: Option<Sender<Vec<Order>>>,
    answers: Receiver<Result<Missed, Untraced>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    number: Arc<OnceLock<u32>>,
    // Those that are seized, or are being, with their processes.
    threads: BTreeMap<u32, u32>,
}

struct Order {
    process: Process,
    // Those to be seized.
    threads: Vec<u32>,
    // Those that are. One that calls exec while it is seized changes its number, and is not hit by
    // what comes next.
    again: Vec<u32>,
    interrupt: bool,
}

// Those that have ended meanwhile.
type Missed = Vec<u32>;

/// Why a thread was not stopped.
pub enum Untraced {
    /// It may not be.
    Refused(Refusal),
    /// It is another thread by now, or was not seized in time.
    Moving(String),
}

impl Tracer {
    /// Starts the thread that traces.
    pub fn start(root: &FsRoot, target: &Target) -> std::io::Result<Self> {
        let (orders, ordered) = mpsc::channel::<Vec<Order>>();
        let (answer, answers) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let number = Arc::new(OnceLock::new());
        let hand = Hand { root: root.clone(), target: target.clone(), is_over: is_over.clone() };
        let own = number.clone();
        let work = move || {
            let own = *own.get_or_init(|| gettid().as_raw() as u32);
            while let Ok(orders) = ordered.recv() {
                let mut missed = Missed::new();
                let result = orders.iter().try_for_each(|order| hand.obey(own, order, &mut missed));
                if answer.send(result.map(|()| missed)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("traces".into()).spawn(work)?;
        let (orders, thread) = (Some(orders), Some(thread));
        Ok(Self {
            root: root.clone(),
            orders,
            answers,
            is_over,
            thread,
            number,
            threads: BTreeMap::new(),
        })
    }

    /// Tells all threads of these to stop. They may take a while, and can be told again.
    pub fn stop(&mut self, processes: &[Process], until: Instant) -> Result<(), Untraced> {
        self.seize(processes, until, true)
    }

    /// Seizes all threads of these, and lets them run.
    pub fn touch(&mut self, processes: &[Process], until: Instant) -> Result<(), Untraced> {
        self.seize(processes, until, false)
    }

    fn seize(
        &mut self,
        processes: &[Process],
        until: Instant,
        interrupt: bool,
    ) -> Result<(), Untraced> {
        self.collect();
        let of = |process: &Process| {
            let is_ours = |tid| self.number.get().copied() == tracer(&self.root, tid);
            // A thread that was not seized may have called exec, and have got the number of a first
            // thread that was.
            let is_known = |tid: &u32| {
                self.threads.contains_key(tid) && (*tid != process.pid() || is_ours(*tid))
            };
            let all = process::threads(&self.root, process.pid());
            let (again, threads) = all.into_iter().partition(is_known);
            Order { process: process.clone(), threads, again, interrupt }
        };
        let orders: Vec<Order> = processes.iter().map(of).collect();
        for order in &orders {
            self.threads.extend(order.threads.iter().map(|tid| (*tid, order.process.pid())));
        }
        // Where that thread has died, there is no answer either.
        let _ = self.orders.as_ref().map(|to| to.send(orders));
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(Ok(missed)) => {
                    missed.iter().for_each(|tid| {
                        self.threads.remove(tid);
                    });
                    return Ok(());
                }
                Ok(Err(why)) => return Err(why),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Untraced::Moving("the thread that traces has died".into()));
                }
                // One that calls exec cannot be seized until its other threads have ended and were
                // collected, by us where they were seized before it.
                Err(RecvTimeoutError::Timeout) => self.collect(),
            }
            if Instant::now() > until {
                return Err(Untraced::Moving("the kernel does not allow all to be seized".into()));
            }
        }
    }

    /// Collects threads that have ended, which one that calls exec waits for. First threads are
    /// left to their parents.
    fn collect(&mut self) {
        let root = &self.root;
        self.threads.retain(|tid, process| tid == process || !collected(root, *tid));
    }

    /// Resumes all threads, and returns once the kernel has. It can be called again where that
    /// fails.
    pub fn end(&mut self) -> std::io::Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        self.orders = None;
        let until = Instant::now() + END;
        let mut looked = 0;
        let mut wait = || {
            pause(&mut looked);
            if Instant::now() > until { Err(Errno::ETIMEDOUT) } else { Ok(()) }
        };
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            self.collect();
            wait()?;
        }
        if let Some(thread) = self.thread.take() {
            // Where it has panicked the kernel resumes all threads as well.
            let _ = thread.join();
        }
        // `join` returns a moment before the thread has released its tracees and is gone.
        if let Some(number) = self.number.get() {
            let own = format!("/proc/self/task/{number}");
            while self.root.exists(&own) {
                wait()?;
            }
        }
        Ok(())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

// What the thread has.
struct Hand {
    root: FsRoot,
    target: Target,
    is_over: Arc<AtomicBool>,
}

impl Hand {
    fn obey(&self, own: u32, order: &Order, missed: &mut Missed) -> Result<(), Untraced> {
        let mut seized = Vec::new();
        for &tid in &order.threads {
            if self.is_over.load(Ordering::Relaxed) {
                return Err(Untraced::Moving("it took too long".into()));
            }
            match self.seize(own, order, tid)? {
                true => seized.push(tid),
                false => missed.push(tid),
            }
        }
        // A thread that is seized keeps its number until it is collected. A thread that has got
        // such a number since it was listed is resumed with all others.
        let pid = order.process.pid();
        let process = Process::read(&self.root, pid);
        let is_same = process.is_some_and(|process| process.id == order.process.id);
        let all = if is_same { process::threads(&self.root, pid) } else { Vec::new() };
        let is_stranger = |tid: &u32| !all.contains(tid) && tracer(&self.root, *tid) == Some(own);
        if seized.iter().any(is_stranger) {
            return Err(Untraced::Moving(format!(
                "threads of process {pid} end while they are listed"
            )));
        }
        if order.interrupt {
            // Those that have ended need no stop.
            for tid in seized.into_iter().chain(order.again.iter().copied()) {
                let _ = ptrace::interrupt(pid_of(tid));
            }
        }
        Ok(())
    }

    // Whether it is seized; else it has ended.
    fn seize(&self, own: u32, order: &Order, tid: u32) -> Result<bool, Untraced> {
        let (target, pid, name) =
            (self.target.clone(), order.process.pid(), order.process.name.clone());
        for tries_left in (0..TRIES).rev() {
            // Without options: those that there are kill it with us, or stop it more often.
            let Err(errno) = ptrace::seize(pid_of(tid), ptrace::Options::empty()) else {
                return Ok(true);
            };
            let status = self.root.read_opt(format!("/proc/{pid}/task/{tid}/status"));
            let Some(status) = status.filter(|_| errno != Errno::ESRCH) else { return Ok(false) };
            if field(&status, "State").is_none_or(|state| state.starts_with(['Z', 'X'])) {
                return Ok(false);
            }
            let why = match tracer(&self.root, tid) {
                // A thread that was seized, and has got the number of its process by exec.
                Some(thread) if thread == own => return Ok(true),
                // It had ended, and its number went to a thread that called exec.
                None if tries_left > 0 => continue,
                None => {
                    let why = std::io::Error::from(errno).to_string();
                    Refusal::Untraceable { target, pid, name, why }
                }
                Some(thread) => {
                    let tracer = number(&self.root, thread, "Tgid").unwrap_or(thread);
                    let tracer_name = Process::read(&self.root, tracer).map(|process| process.name);
                    let tracer_name = tracer_name.unwrap_or_default();
                    Refusal::Traced { target, pid, name, tracer, tracer_name }
                }
            };
            return Err(Untraced::Refused(why));
        }
        Ok(false)
    }
}

// The thread that traces one.
fn tracer(root: &FsRoot, tid: u32) -> Option<u32> {
    number(root, tid, "TracerPid").filter(|tracer| *tracer != 0)
}

fn number(root: &FsRoot, tid: u32, name: &str) -> Option<u32> {
    field(&root.read_opt(format!("/proc/{tid}/status"))?, name)?.parse().ok()
}

// Collects a thread if it has ended. By number, since other children of this program belong to
// other code; and what a thread has stopped for is looked at without taking it.
fn collected(root: &FsRoot, tid: u32) -> bool {
    let thread = || Id::Pid(pid_of(tid));
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::__WALL;
    let has_ended = match waitid(thread(), ended | WaitPidFlag::WNOWAIT) {
        Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => true,
        // A real-time signal, which has no name here: it may have ended by it, or have stopped for
        // it.
        Err(Errno::EINVAL) => Process::read(root, tid).is_none_or(|thread| thread.state == 'Z'),
        _ => false,
    };
    has_ended && waitid(thread(), ended) != Err(Errno::EINTR)
}

fn pid_of(tid: u32) -> Pid {
    Pid::from_raw(tid as i32)
}
