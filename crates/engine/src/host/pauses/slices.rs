//! Pauses running processes for a share of their time, in short slices, while an arm runs that asks
//! for it. Slices use the same freezer as pauses for windows, within the same limits, and the same
//! guards resume the processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_experiment::plan::Active;
use ringfence_experiment::units::Share;
use ringfence_experiment::{Error, Experiment, Freezing, Limit};
use ringfence_system::attach::{FreezeError, Freezer, NotYet};

use super::Pauses;
use super::guests::FREEZE_LIMIT;

// How often it is looked whether a pause may begin, or is to end for good.
const LOOK: Duration = Duration::from_millis(2);

/// Those that are paused in slices at present.
pub struct Slices(Vec<Slicing>);

struct Slicing {
    guest: usize,
    share: f64,
    since: Instant,
    stop: Arc<AtomicBool>,
    frozen_ns: Arc<AtomicU64>,
    thread: Option<JoinHandle<Sliced>>,
}

// What comes back when it ends.
struct Sliced {
    freezer: Freezer,
    slices: u64,
    failed: Option<FreezeError>,
}

impl Pauses {
    /// Begins to pause in slices those of an arm that run in a window.
    pub fn begin_slices(
        &mut self,
        active: &[Active],
        experiment: &Experiment,
        arm: usize,
    ) -> Slices {
        let mut all = Vec::new();
        for (number, guest) in
            self.guests.iter_mut().enumerate().filter(|(_, guest)| guest.runs(active))
        {
            let limits = experiment.arms[arm].limits_of(&experiment.roles[guest.role()].name);
            let frozen = limits.iter().find_map(|limit| match limit {
                Limit::Frozen(Share(share)) => Some(*share),
                _ => None,
            });
            let Some(share) = frozen else { continue };
            let Some(freezer) = guest.freezer.take() else { continue };
            all.push(Slicing::begin(number, freezer, share, guest.longest));
        }
        Slices(all)
    }

    /// Ends slicing: all processes are resumed, and may be paused for windows again.
    ///
    /// # Errors
    /// Why one could not be paused or resumed.
    pub fn end_slices(&mut self, mut slices: Slices) -> Result<(), Error> {
        let mut failed = None;
        for mut one in slices.0.drain(..) {
            let guest = &mut self.guests[one.guest];
            let Some(sliced) = one.end() else { continue };
            guest.pauses += sliced.slices;
            guest.freezer = Some(sliced.freezer);
            if sliced.slices > 0 {
                guest.thawed = Some(Instant::now());
            }
            let error =
                |error: FreezeError| Error::failed(format!("{}: {error}", guest.found.target));
            failed = failed.or(sliced.failed.map(error));
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Slices {
    /// How long it is until a window may open: they are paused in slices for a while by then, as
    /// after any change.
    pub fn wait(&self) -> Duration {
        let since =
            self.0.iter().map(|one| Freezing::AFTER_THAW.saturating_sub(one.since.elapsed()));
        since.max().unwrap_or_default()
    }

    /// For how long each was paused until now, ns.
    pub fn frozen(&self) -> Vec<u64> {
        self.0.iter().map(|one| one.frozen_ns.load(Ordering::Relaxed)).collect()
    }

    /// Whether each was paused for most of what it was to be since `before`, which is so long ago.
    /// What falls on the ends of a window, and what a busy machine takes away, is let pass.
    pub fn held(&self, before: &[u64], length: Duration) -> bool {
        let now = self.frozen();
        self.0.iter().zip(before.iter().zip(now)).all(|(one, (before, now))| {
            let frozen = Duration::from_nanos(now.saturating_sub(*before));
            frozen >= length.mul_f64(one.share / 2.0)
        })
    }
}

impl Slicing {
    fn begin(guest: usize, freezer: Freezer, share: f64, longest: Duration) -> Self {
        let (stop, frozen_ns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let slice = Freezing::SLICES.mul_f64(share).min(longest);
        let (stopped, frozen) = (stop.clone(), frozen_ns.clone());
        let thread = std::thread::spawn(move || run(freezer, slice, share, &stopped, &frozen));
        Self { guest, share, since: Instant::now(), stop, frozen_ns, thread: Some(thread) }
    }

    // `None` if the thread has panicked, which has resumed the processes that it held.
    fn end(&mut self) -> Option<Sliced> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Slicing {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn run(
    mut freezer: Freezer,
    slice: Duration,
    share: f64,
    stop: &AtomicBool,
    frozen_ns: &AtomicU64,
) -> Sliced {
    let period = slice.div_f64(share);
    let (mut slices, mut due) = (0, Instant::now());
    let mut failed = None;
    while !stop.load(Ordering::Relaxed) {
        let wait = due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait.min(LOOK));
            continue;
        }
        let paused = match freezer.freeze(slice, FREEZE_LIMIT) {
            Ok(frozen) => {
                std::thread::sleep(frozen.left());
                frozen.thaw()
            }
            // The share of its time is used up, by pauses for windows or because this one is late.
            Err(FreezeError::NotYet(NotYet::Until(_))) => {
                std::thread::sleep(LOOK);
                continue;
            }
            // On a busy machine it is not on a CPU to be stopped; the window says whether enough of
            // them took hold.
            Err(FreezeError::Moving { .. }) => {
                due = Instant::now() + period;
                continue;
            }
            Err(error) => Err(error),
        };
        match paused {
            Ok(thawed) => {
                frozen_ns.fetch_add(thawed.after.as_nanos() as u64, Ordering::Relaxed);
                slices += 1;
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
        // A late slice is not made up for.
        due = (due + period).max(Instant::now());
    }
    Sliced { freezer, slices, failed }
}

#[cfg(test)]
mod tests {
    use super::super::guests::tests::Busy;
    use super::*;

    fn cpu_time(pid: u32) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }

    #[test]
    fn what_runs_is_paused_in_slices_within_its_share_and_goes_on() {
        let busy = Busy::start();
        let longest = Duration::from_millis(100);
        let freezer = busy.attach(longest, 0.4).freezer.take().unwrap();
        let mut slicing = Slicing::begin(0, freezer, 0.2, longest);
        let until = Instant::now() + Duration::from_secs(60);
        // One slice may be long where the machine has more to do.
        let (mut frozen, mut slices) = (0, 0);
        while frozen < 50_000_000 || slices < 2 {
            assert!(Instant::now() < until, "it is not paused");
            std::thread::sleep(LOOK);
            let now = slicing.frozen_ns.load(Ordering::Relaxed);
            slices += u32::from(now > std::mem::replace(&mut frozen, now));
        }
        let sliced = slicing.end().unwrap();
        assert!(sliced.failed.is_none(), "{:?}", sliced.failed.map(|error| error.to_string()));
        assert!(sliced.slices >= 2, "{} slices", sliced.slices);
        assert!(sliced.freezer.frozen().0 >= Duration::from_millis(50));
        sliced.freezer.end().unwrap();
        let (before, until) = (cpu_time(busy.pid()), Instant::now() + Duration::from_secs(60));
        while cpu_time(busy.pid()) <= before {
            assert!(Instant::now() < until, "it does not go on");
            std::thread::sleep(LOOK);
        }
        let names =
            std::fs::read_dir(busy.folder.path()).unwrap().flatten().map(|entry| entry.file_name());
        let journals = names.filter(|name| name.to_string_lossy().ends_with(".journal")).count();
        assert_eq!(journals, 0);
    }
}
