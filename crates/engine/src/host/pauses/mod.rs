//! Attached processes: which there are, when they are paused, and what they used while they ran.

mod guests;
mod pause;
mod silence;
mod slices;
mod usage;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use ringfence_experiment::Error;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Attached, Task};
use ringfence_limits::attachment;
use ringfence_system::attach::Usage;

use crate::Measured;
use crate::usage::Used;
use guests::Guest;
pub use guests::find_all;
pub use pause::{NotPaused, Pause};
use silence::Silence;
pub use slices::Slices;

// After so many overruns the measurement ends: this machine does not keep the promise.
const MOST_OVERRUNS: u32 = 3;
// Of stages of this run that have ended.
static OVERRUNS: AtomicU32 = AtomicU32::new(0);

/// The attached processes of a plan, and the services that probes ask.
pub struct Pauses {
    guests: Vec<Guest>,
    // By role.
    services: Vec<(usize, Attached)>,
    silence: Silence,
}

impl Pauses {
    /// Those of a plan, none of them paused.
    ///
    /// # Errors
    /// Where one is not there, or not to be attached to.
    pub fn of_plan(plan: &Plan) -> Result<Self, Error> {
        let services = plan.variants.iter().enumerate().filter_map(|(role, variants)| {
            let service = variants.iter().find_map(|variant| match &variant.task {
                Task::Probe(probe) => probe.service(),
                _ => None,
            });
            service.map(|service| (role, service))
        });
        Ok(Self {
            guests: guests::of_plan(plan)?,
            services: services.collect(),
            silence: Silence::default(),
        })
    }

    /// The attached processes of a role, and the service that its probe asks.
    pub fn processes(&self, role: usize) -> Vec<u32> {
        let guests = self.guests.iter().filter(|guest| guest.role() == role);
        let services = self.services.iter().filter(|(own, _)| *own == role);
        guests
            .flat_map(Guest::processes)
            .chain(services.flat_map(|(_, service)| attachment::processes(service)))
            .collect()
    }

    /// What those did that were read before a window, which is over, and what they used.
    pub fn measured(&mut self, start_ns: u64, since: Instant) -> Vec<(Measured, Used)> {
        let after: Vec<Option<Usage>> = self.guests.iter_mut().map(Guest::end_window).collect();
        let length = since.elapsed();
        let guests = self.guests.iter_mut().zip(after);
        guests.filter_map(|(guest, after)| guest.measured(after?, start_ns, length)).collect()
    }

    /// Refuses further pauses once too many pauses were much longer than allowed.
    ///
    /// # Errors
    /// That a limit was reached, then.
    pub fn keep_the_limit(&self) -> Result<(), Error> {
        let earlier = OVERRUNS.load(Ordering::Relaxed);
        if earlier + self.guests.iter().map(Guest::overruns).sum::<u32>() < MOST_OVERRUNS {
            return Ok(());
        }
        let before =
            (earlier > 0).then(|| format!("in earlier stages, {earlier} pauses were too long"));
        let now = self.guests.iter().filter_map(Guest::overrun);
        Err(Error::limit(now.chain(before).collect::<Vec<_>>().join("; ")))
    }

    /// Detaches: no process stays paused, whatever happens. Returns what the user should know.
    ///
    /// # Errors
    /// What could not be restored.
    pub fn end(&mut self) -> Result<Vec<String>, Error> {
        let mut notes = Vec::new();
        let mut failed = None;
        for guest in self.guests.drain(..) {
            OVERRUNS.fetch_add(guest.overruns(), Ordering::Relaxed);
            failed = guest.end(&mut notes).err().or(failed);
        }
        failed.map_or(Ok(notes), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::guests::tests::Busy;
    use super::*;
    use crate::host::crew::tests::{Stage, active, plan};

    const WINDOW: Duration = Duration::from_millis(20);

    fn attached(busy: &Busy, longest: Duration) -> Pauses {
        let guests = vec![busy.attach(longest, 0.9)];
        Pauses { guests, services: Vec::new(), silence: Silence::default() }
    }

    fn is_stopped(busy: &Busy) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", busy.pid())).unwrap();
        text.rsplit(") ").next().unwrap().starts_with(['T', 't'])
    }

    fn wait_until_it_runs(busy: &Busy) {
        let until = Instant::now() + Duration::from_secs(60);
        while is_stopped(busy) {
            assert!(Instant::now() < until, "nothing resumes it");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_does_not_run_in_a_window_is_paused_for_it_and_goes_on() {
        let (plan, stop, busy) = (plan(""), AtomicBool::new(false), Busy::start());
        let stage = Stage::new(&plan, &stop);
        let mut pauses = attached(&busy, Duration::from_secs(10));
        let alone = [active(0)];
        let slices = pauses.begin_slices(&alone, &plan.experiment, 0);
        // On a busy machine it may not get onto a CPU to be stopped.
        let mut pause = loop {
            pauses.wait(&stage, &alone, WINDOW, &slices).unwrap();
            if let Ok(pause) = pauses.pause(&alone, WINDOW, &slices, None) {
                break pause;
            }
        };
        assert!(is_stopped(&busy));
        let opening = pause.opens();
        pause.let_pass(&stage, WINDOW);
        assert!(opening.elapsed() >= WINDOW && is_stopped(&busy));
        pause.end(opening).unwrap();
        wait_until_it_runs(&busy);
        let late = Duration::from_millis(3);
        assert_eq!(pause.judge(late, false), late);
        pauses.end_slices(slices).unwrap();
        let notes = pauses.end().unwrap();
        assert!(notes[0].contains("was paused") && notes[0].contains("running again"), "{notes:?}");
    }

    #[test]
    fn what_runs_in_a_window_is_measured_and_not_paused() {
        let (plan, stop, busy) = (plan(""), AtomicBool::new(false), Busy::start());
        let stage = Stage::new(&plan, &stop);
        let mut pauses = attached(&busy, Duration::from_secs(10));
        let both = [active(0), active(1)];
        let slices = pauses.begin_slices(&both, &plan.experiment, 0);
        pauses.wait(&stage, &both, WINDOW, &slices).unwrap();
        let since = Instant::now();
        let pause = pauses.pause(&both, WINDOW, &slices, None).ok().unwrap();
        assert!(!is_stopped(&busy));
        // What answers requests holds what was due, however late it was.
        assert_eq!(pause.judge(Duration::from_millis(3), true), Duration::ZERO);
        std::thread::sleep(WINDOW);
        let all = pauses.measured(7, since);
        let (measured, used) = &all[0];
        assert_eq!((all.len(), measured.role, measured.start_ns), (1, 1, 7));
        assert!(measured.length_ns >= 20_000_000 && used.cpu_ns == measured.units, "{measured:?}");
        assert!(pauses.measured(7, since).is_empty(), "it was read for one window");
        pauses.end().unwrap();
    }

    #[test]
    fn a_window_in_which_a_process_was_resumed_too_early_is_not_the_one_asked_for() {
        let (plan, stop, busy) = (plan(""), AtomicBool::new(false), Busy::start());
        let stage = Stage::new(&plan, &stop);
        let mut pauses = attached(&busy, Duration::from_millis(100));
        let alone = [active(0)];
        let slices = pauses.begin_slices(&alone, &plan.experiment, 0);
        let mut pause = loop {
            pauses.wait(&stage, &alone, WINDOW, &slices).unwrap();
            if let Ok(pause) = pauses.pause(&alone, WINDOW, &slices, None) {
                break pause;
            }
        };
        let opening = pause.opens();
        wait_until_it_runs(&busy);
        pause.end(opening).unwrap();
        assert_eq!(pause.judge(Duration::ZERO, false), WINDOW * 100);
        pauses.end().unwrap();
    }
}
