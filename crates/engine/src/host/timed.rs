//! A window of the experiment's length, in phases: the tasks settle, other processes are paused,
//! the window opens and closes, and whether it was the one that was asked for is judged.

use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::plan::Active;

use super::HostEngine;
use super::crew::{Crew, Halved};
use super::pauses::{NotPaused, Pause, Slices};
use super::readings::{Counts, Edge, Look, Readings, Uses};
use crate::Measured;

// How often one that does not stand in time is tried again for a window.
const PAUSE_TRIES: u32 = 20;

/// An open window.
struct Open {
    running: Vec<usize>,
    uses: Uses,
    halved: Option<Halved>,
    look: Option<Look>,
    opening: Instant,
    begun: Edge,
}

/// A window that has closed.
struct Closed {
    ended: Edge,
    looks: Option<(Look, Look)>,
    // How much later than it was due.
    late: Duration,
}

impl HostEngine<'_> {
    /// Measures a window of the experiment's length.
    pub(super) fn timed_window(&mut self, active: &[Active]) -> Result<Vec<Measured>, Error> {
        let slices = self.pauses.begin_slices(active, &self.plan.experiment, self.arms.arm);
        let measured = self.window_in_slices(active, &slices);
        // Why one could not be paused says more than what comes of it.
        self.pauses.end_slices(slices).and(measured)
    }

    fn window_in_slices(
        &mut self,
        active: &[Active],
        slices: &Slices,
    ) -> Result<Vec<Measured>, Error> {
        let length = self.plan.experiment.measure.window.0;
        let running = self.crew.settle(active, &mut self.arms.drifting)?;
        let probe = self.crew.probe(&running);
        let mut tries = PAUSE_TRIES;
        let mut pause = loop {
            self.pauses.wait(&self.crew, active, length, slices)?;
            match self.pauses.pause(active, length, slices, probe) {
                Ok(pause) => break pause,
                Err(NotPaused::Moved(_)) if tries > 0 => tries -= 1,
                Err(NotPaused::Moved(why) | NotPaused::Failed(why)) => return Err(why),
            }
        };
        let mut open = self.readings.open(&mut self.crew, running, &mut pause)?;
        // For tasks that wait for answers, the window began when they were asked.
        let passed = if probe.is_some() { open.opening.elapsed() } else { Duration::ZERO };
        pause.let_pass(&self.crew, length.saturating_sub(passed));
        let closed = self.readings.close(&mut self.crew, &mut open, &mut pause, length)?;
        let late = pause.judge(closed.late, probe.is_some());
        let (begun, ended) = (&open.begun, &closed.ended);
        let mut all = self.readings.measured(&self.crew, &open.running, begun, ended);
        let start_ns = self.readings.start_ns(begun.at);
        for (measured, used) in self.pauses.measured(start_ns, open.uses.at) {
            self.readings.add_used(measured.role, used);
            all.push(measured);
        }
        all.iter_mut().for_each(|task| task.late_ns = Some(late.as_nanos() as u64));
        self.readings.note_stretch(&mut all, closed.looks);
        Ok(all)
    }
}

impl Readings {
    // Opens a window: takes the first reading of everything.
    fn open(&self, crew: &mut Crew, running: Vec<usize>, pause: &mut Pause) -> Result<Open, Error> {
        let uses = self.uses(crew, &running);
        let halved = crew.begin_halving();
        // Before the window begins, and after it has ended.
        let look = self.look();
        let counts = Counts::of(crew, &running);
        let opening = pause.opens();
        let asked = crew.ask(&running);
        pause.await_answers(crew, &running, &asked)?;
        let points = crew.answers(&running, asked)?;
        let begun = Edge { points, at: self.now(), counts };
        Ok(Open { running, uses, halved, look, opening, begun })
    }

    // Closes a window: takes the last reading of everything.
    fn close(
        &mut self,
        crew: &mut Crew,
        open: &mut Open,
        pause: &mut Pause,
        length: Duration,
    ) -> Result<Closed, Error> {
        let running = &open.running;
        let due = Instant::now();
        let asked = crew.ask(running);
        pause.end(open.opening)?;
        let mut points = crew.answers(running, asked)?;
        pause.note_silence()?;
        let held = crew.hold_open(running, &open.begun.points, &mut points, due, length)?;
        let at = self.now();
        let late = open.opening.elapsed().saturating_sub(length + held);
        let ended = Edge { points, at, counts: Counts::of(crew, running) };
        let looks = open.look.take().zip(self.look());
        drop(open.halved.take());
        crew.all_live(running)?;
        self.add_uses(crew, running, &open.uses);
        Ok(Closed { ended, looks, late })
    }
}
