//! A look from outside at runs that take too long: those that still use memory are stopped at their
//! next operation; from a loop without any the process cannot be saved, and is ended with a word to
//! its user.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::event::Source;
use crate::raw::LastAt;

/// How often the watcher looks. It counts its looks and not the time, so that a process that is
/// stopped, in a debugger say, is not said to be slow.
const LOOK: Duration = Duration::from_millis(100);
/// Looks that a run is given beyond its limit, to come to its next operation: a quarter of the
/// limit, and at least these.
const GRACE: u64 = 10;

/// What is known from outside of the runs of one check, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    // The number of the run under way; 0 between runs.
    run: AtomicU64,
    runs: AtomicU64,
    // The run that took too long.
    late: AtomicU64,
    // The checker itself is at work: that comes to an end.
    busy: AtomicBool,
    crashes: AtomicUsize,
    last: LastAt,
    limit: Duration,
    thread: String,
}

impl Watched {
    /// A run begins, behind so many crashes.
    pub(crate) fn begin(&self, crashes: usize) {
        let run = self.runs.load(Relaxed) + 1;
        self.runs.store(run, Relaxed);
        self.crashes.store(crashes, Relaxed);
        self.busy.store(false, Relaxed);
        self.last.forget();
        self.run.store(run, Relaxed);
    }

    pub(crate) fn end(&self) {
        self.run.store(0, Relaxed);
    }

    /// The run does something: whether it may be late.
    #[inline]
    pub(crate) fn operation(&self, at: Source) -> bool {
        self.last.note(at);
        self.late.load(Relaxed) != 0
    }

    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Relaxed) == self.run.load(Relaxed)
    }

    pub(crate) fn busy(&self, busy: bool) {
        self.busy.store(busy, Relaxed);
    }

    fn epitaph(&self) -> String {
        let whose = match self.crashes.load(Relaxed) {
            0 => "the program".into(),
            1 => "recovery, behind a crash,".into(),
            crashes => format!("recovery, behind {crashes} crashes,"),
        };
        let last = match self.last.get() {
            Some(at) => format!("Its last operation on memory was at {}:{}", at.file(), at.line()),
            None => "It did not come to its first operation on memory".into(),
        };
        format!(
            "\nA run of {whose} does not come to an end, and does nothing with memory where it \
             could be stopped \
             (run {} of the check in thread '{}'; `Check::most_time` is {:?}).\n{last}: it loops \
             or waits behind that. \
             The process ends here.\n",
            self.run.load(Relaxed),
            self.thread,
            self.limit
        )
    }
}

/// As long as it is there, runs are watched.
#[derive(Debug)]
pub(crate) struct Watch(pub Arc<Watched>);

#[derive(Default)]
struct Watcher {
    watched: Vec<Seen>,
    awake: bool,
}

struct Seen {
    watched: Arc<Watched>,
    run: u64,
    looks: u64,
}

static WATCHER: Mutex<Watcher> = Mutex::new(Watcher { watched: Vec::new(), awake: false });

impl Watch {
    pub(crate) fn new(limit: Duration) -> Self {
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let watched = Arc::new(Watched { limit, thread, ..Watched::default() });
        let mut watcher = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.watched.push(Seen { watched: Arc::clone(&watched), run: 0, looks: 0 });
        if !watcher.awake {
            // Where no thread can be had, nothing watches; all other limits hold.
            watcher.awake =
                std::thread::Builder::new().name("crashcheck watch".into()).spawn(watch).is_ok();
        }
        Self(watched)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watcher = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.watched.retain(|seen| !Arc::ptr_eq(&seen.watched, &self.0));
    }
}

fn watch() {
    loop {
        std::thread::sleep(LOOK);
        let mut watcher = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        if watcher.watched.is_empty() {
            watcher.awake = false;
            return;
        }
        for seen in &mut watcher.watched {
            seen.look();
        }
    }
}

impl Seen {
    fn look(&mut self) {
        let watched = &*self.watched;
        let run = watched.run.load(Relaxed);
        if run == 0 || run != self.run {
            (self.run, self.looks) = (run, 0);
            return;
        }
        self.looks += 1;
        let limit = u64::try_from(watched.limit.as_millis() / LOOK.as_millis()).unwrap_or(u64::MAX);
        if self.looks >= limit {
            watched.late.store(run, Relaxed);
        }
        if self.looks >= limit.saturating_add(GRACE.max(limit / 4))
            && !watched.busy.load(Relaxed)
            && watched.run.load(Relaxed) == run
        {
            use std::io::Write;
            // Past what a test captures, since it does not come to show that.
            _ = std::io::stderr().write_all(watched.epitaph().as_bytes());
            std::process::abort();
        }
    }
}
