//! The pause of one window, and what is watched meanwhile: that everything stays paused, and that
//! the service that a probe asks keeps answering.

use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::Freezing;
use ringfence_experiment::plan::Active;
use ringfence_system::attach::{FreezeError, Frozen};

use super::Pauses;
use super::guests::{FREEZE_LIMIT, Guest, pause_for};
use super::silence::Silence;
use super::slices::Slices;

use crate::host::crew::Crew;

// How often it is looked whether the run is to stop.
const LOOK: Duration = Duration::from_millis(100);
// How often it is looked whether a service still answers.
const POLL: Duration = Duration::from_millis(2);

/// Attached processes that are paused while a window is open; dropping this resumes them.
pub struct Pause<'a> {
    frozen: Vec<(Frozen<'a>, &'a mut Option<Instant>)>,
    // Whether any process was paused.
    is_paused: bool,
    slices: &'a Slices,
    // For how long each was paused in slices before the window opened, ns.
    sliced: Vec<u64>,
    // Whether all stayed paused for as long as they were to be.
    stood: bool,
    window: Duration,
    // The worker that asks a service.
    probe: Option<usize>,
    // Whether that service kept answering.
    answers: bool,
    silence: &'a mut Silence,
}

/// Why no process is paused.
pub enum NotPaused {
    /// One did not stop in time. The next try may succeed: on a busy machine a process may not get
    /// onto a CPU to be stopped.
    Moved(Error),
    /// What the kernel refuses.
    Failed(Error),
}

impl Pauses {
    /// Waits until a window of this length may open, and reads what those that run in it have used.
    ///
    /// # Errors
    /// Where no pause of that length is allowed, and where the run is to stop.
    pub fn wait(
        &mut self,
        crew: &Crew,
        active: &[Active],
        window: Duration,
        slices: &Slices,
    ) -> Result<(), Error> {
        loop {
            let wait = self.guests.iter().try_fold(slices.wait(), |longest, guest| {
                guest.not_before(active, window).map(|wait| longest.max(wait))
            })?;
            if wait.is_zero() {
                break;
            }
            crew.may_go_on()?;
            std::thread::sleep(wait.min(LOOK));
        }
        self.guests.iter_mut().for_each(|guest| guest.begin_window(active));
        Ok(())
    }

    /// Pauses the attached processes that do not run in a window, and waits until the processes
    /// that depend on them have noticed. While the window is open, the probe's service is watched.
    ///
    /// # Errors
    /// Where one cannot be paused; the others are resumed then.
    pub fn pause<'a>(
        &'a mut self,
        active: &[Active],
        window: Duration,
        slices: &'a Slices,
        probe: Option<usize>,
    ) -> Result<Pause<'a>, NotPaused> {
        let mut pause = Pause {
            frozen: Vec::new(),
            is_paused: false,
            slices,
            sliced: Vec::new(),
            stood: true,
            window,
            probe: probe.filter(|_| !self.guests.is_empty()),
            answers: true,
            silence: &mut self.silence,
        };
        for guest in self.guests.iter_mut().filter(|guest| !guest.runs(active)) {
            pause.add(guest)?;
        }
        if pause.is_paused {
            std::thread::sleep(Freezing::AFTER_FREEZE);
        }
        Ok(pause)
    }
}

impl<'a> Pause<'a> {
    fn add(&mut self, guest: &'a mut Guest) -> Result<(), NotPaused> {
        let Some(freezer) = &mut guest.freezer else { return Ok(()) };
        guest.pauses += 1;
        let target = &guest.found.target;
        match freezer.freeze(pause_for(self.window), FREEZE_LIMIT) {
            Ok(frozen) => {
                self.frozen.push((frozen, &mut guest.thawed));
                self.is_paused = true;
                Ok(())
            }
            Err(error) => {
                let why = Error::failed(format!("{target}: {error}"));
                guest.thawed = Some(Instant::now());
                self.resume().map_err(NotPaused::Failed)?;
                Err(match error {
                    FreezeError::Moving { .. } | FreezeError::NotYet(_) => NotPaused::Moved(why),
                    _ => NotPaused::Failed(why),
                })
            }
        }
    }

    // Resumes all that are still paused. Returns whether they stayed paused until now.
    fn resume(&mut self) -> Result<bool, Error> {
        let mut all = true;
        for (frozen, thawed) in self.frozen.drain(..) {
            let ended = frozen.thaw().map_err(Error::failed_by)?;
            *thawed = Some(Instant::now());
            all &= !ended.by_force;
        }
        Ok(all)
    }

    /// The moment at which a window begins to open.
    pub fn opens(&mut self) -> Instant {
        let now = Instant::now();
        self.sliced = self.slices.frozen();
        now
    }

    /// Waits until workers have answered, where a service is watched. A service that waits for a
    /// paused process never reaches the start of the window; the pause ends then.
    pub fn await_answers(
        &mut self,
        crew: &Crew,
        workers: &[usize],
        asked: &[Option<u32>],
    ) -> Result<(), Error> {
        self.watch(crew, || crew.have_answered(workers, asked, POLL));
        if self.is_paused && !self.answers {
            self.stood = self.resume()?;
        }
        Ok(())
    }

    /// Lets an open window pass. While a process is paused, the window ends when the service stops
    /// answering.
    pub fn let_pass(&mut self, crew: &Crew, length: Duration) {
        if self.is_paused && !self.answers {
            return;
        }
        let begun = Instant::now();
        let left = || length.saturating_sub(begun.elapsed());
        self.watch(crew, || {
            std::thread::sleep(left().min(POLL));
            left().is_zero()
        });
        if self.answers || !self.is_paused {
            std::thread::sleep(left());
        }
    }

    // Waits until something is over or the service stops answering.
    fn watch(&mut self, crew: &Crew, is_over: impl FnMut() -> bool) {
        let answers =
            self.probe.is_none_or(|probe| crew.while_it_answers(probe, self.window, is_over));
        self.answers &= answers;
    }

    /// Resumes what is paused: the window that opened at `opening` closes.
    pub fn end(&mut self, opening: Instant) -> Result<(), Error> {
        self.stood &= self.resume()? && self.slices.held(&self.sliced, opening.elapsed());
        Ok(())
    }

    /// Notes whether the service answered.
    pub fn note_silence(&mut self) -> Result<(), Error> {
        self.silence.note(self.is_paused, self.answers)
    }

    /// Judges whether the window was the one that was asked for. Returns how late it is counted as,
    /// if it ended so late.
    pub fn judge(self, late: Duration, asks_a_service: bool) -> Duration {
        if !self.stood || (self.is_paused && !self.answers) {
            // A process was resumed too early.
            self.window * 100
        } else if asks_a_service {
            // It holds what was due in it, however long that was. To leave out those that were long
            // would leave out stalls.
            Duration::ZERO
        } else {
            late
        }
    }
}
