//! What the disk did while a window was open, and what the metric's first task did meanwhile.

use std::time::Duration;

use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::stretch::Stretch;

use super::Readings;
use super::disks::Look;
use crate::Measured;
use crate::host::crew::{Crew, Point};
use crate::shm::Marked;

/// How long a stretch of an episode is.
const LENGTH: Duration = Duration::from_millis(250);
// A task is waited for so long to tell its latencies. One that is in the middle of a long commit
// tells them in a later stretch.
const GRACE: Duration = Duration::from_millis(100);

/// The stretches of an episode so far.
pub struct Series {
    worker: usize,
    look: Look,
    units: u64,
    counted: Option<Box<[u64]>>,
    // The number of a question that is still to be answered.
    asked: Option<u32>,
    all: Vec<Stretch>,
}

impl Readings {
    /// Puts down what happened between two looks with the metric's first task: an ordinary window
    /// is one stretch.
    pub fn note_stretch(&self, all: &mut [Measured], looks: Option<(Look, Look)>) {
        let own = all.iter_mut().find(|task| task.role == self.metric);
        let (Some((before, after)), Some(own)) = (looks, own) else { return };
        let stretch = Stretch {
            units: own.units,
            longest_ns: own.latencies.as_ref().and_then(Histogram::most),
            ..before.until(&after, self.origin, self.clock)
        };
        own.stretches = Some([stretch].into());
    }

    /// Begins a series with the report of its task.
    pub fn begin_series(&self, worker: Option<&usize>, begun: Option<&Point>) -> Option<Series> {
        let begun = begun?;
        Some(Series {
            worker: *worker?,
            look: self.look()?,
            units: begun.report.units,
            counted: begun.latencies.clone(),
            asked: None,
            all: Vec::new(),
        })
    }

    /// Advances a series, if there is one and it is time. Does not wait.
    pub fn follow(&self, crew: &Crew, series: &mut Option<Series>) {
        let Some(series) = series else { return };
        let length = series.look.elapsed(self.clock);
        let slot = crew.slot(series.worker);
        let answered = series.asked.is_some_and(|number| slot.wait_answer(number, Duration::ZERO));
        if answered {
            series.asked = None;
            let Marked { report, latencies, .. } = slot.marked();
            self.end_stretch(series, report.units, Some(latencies));
        } else if length >= LENGTH && series.asked.is_none() && series.counted.is_some() {
            series.asked = Some(slot.ask());
        } else if length >= LENGTH + GRACE || (length >= LENGTH && series.counted.is_none()) {
            self.end_stretch(series, slot.latest().1.units, None);
        }
    }

    /// Ends its stretch at a report of its task.
    pub fn follow_to(&self, series: &mut Option<Series>, point: Option<&Point>) {
        let (Some(series), Some(point)) = (series, point) else { return };
        // The report has answered whatever was asked before.
        series.asked = None;
        self.end_stretch(series, point.report.units, point.latencies.clone());
    }

    fn end_stretch(&self, series: &mut Series, units: u64, counted: Option<Box<[u64]>>) {
        let Some(look) = self.look() else { return };
        let since = counted.as_ref().zip(series.counted.as_ref()).map(|(now, before)| {
            Histogram::of_buckets(
                now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)),
            )
        });
        series.all.push(Stretch {
            units: units.saturating_sub(series.units),
            longest_ns: since.as_ref().and_then(Histogram::most),
            ..series.look.until(&look, self.origin, self.clock)
        });
        (series.look, series.units) = (look, units.max(series.units));
        series.counted = counted.or(series.counted.take());
    }
}

impl Series {
    /// All of its stretches.
    pub fn ended(self) -> Vec<Stretch> {
        self.all
    }
}
