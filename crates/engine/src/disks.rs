//! What built-in tasks can do on a disk: each is tried once, because only a trial shows what a
//! kernel and a file system accept, and how fast.

use std::time::Duration;

use ringfence_experiment::Reason;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Dirty, Task};
use ringfence_experiment::units::Span;
use ringfence_machine::units::Bytes;

/// What was tried out.
#[derive(Default)]
pub struct Disks(Vec<(Task, Result<Option<f64>, Reason>)>);

impl Disks {
    /// Why a task cannot be run in a plan's windows.
    pub fn unmet(&mut self, task: &Task, plan: &Plan) -> Option<Reason> {
        match (self.of(task), task) {
            (Err(reason), _) => Some(reason),
            // In an episode it stands still from there on.
            (Ok(Some(_)), Task::Dirty(_)) if plan.experiment.measure.episode.is_some() => None,
            (Ok(Some(bytes_per_s)), Task::Dirty(dirty)) => {
                beyond_limit(dirty, bytes_per_s, runs_for(plan))
            }
            (Ok(_), _) => None,
        }
    }

    // Bytes a second, where it writes all the time.
    fn of(&mut self, task: &Task) -> Result<Option<f64>, Reason> {
        if let Some((_, found)) = self.0.iter().find(|(known, _)| known == task) {
            return found.clone();
        }
        if !task.uses_a_disk() {
            return Ok(None);
        }
        let found = ringfence_workloads::try_out(task);
        self.0.push((task.clone(), found.clone()));
        found
    }
}

// How long a task is let run at once.
fn runs_for(plan: &Plan) -> Duration {
    let (measure, calm) = (&plan.experiment.measure, plan.calm().unwrap_or_default());
    measure.settle.0.max(calm.lead_in) + measure.window.0
}

// The test run is short, and fits into caches; a longer run is up to this many times as slow.
const SLOWER: f64 = 2.0;

// A task that stops at its limit in the middle of a window would cause no interference from then
// on. A task that reaches its limit anyway ends the measurement.
fn beyond_limit(task: &Dirty, bytes_per_s: f64, time: Duration) -> Option<Reason> {
    let rate = task.pace.map_or(bytes_per_s, |pace| bytes_per_s.min(pace.0.0 as f64));
    let bytes = rate * time.as_secs_f64();
    let least = bytes / if task.pace.is_some() { 1.0 } else { SLOWER };
    (least > task.limit.0 as f64).then(|| {
        format!(
            "it would write at least {} in a window and the preparation before it, {} together, \
             and its limit is {}: raise the limit, set a pace, or shorten the window",
            Bytes(least as u64),
            Span(time),
            task.limit
        )
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_would_reach_its_limit_in_a_window_is_not_run() {
        let window = Duration::from_millis(600);
        let task = Dirty { limit: Bytes::mib(1000), ..Dirty::default() };
        assert_eq!(beyond_limit(&task, 2e9, window), None);
        let reason = beyond_limit(&task, 4e9, window).unwrap();
        assert!(reason.contains("write at least 1.1GiB") && reason.contains("600ms"), "{reason}");
        let paced = Dirty { pace: Some("500MiB/s".parse().unwrap()), ..task };
        assert_eq!(beyond_limit(&paced, 9e9, window), None);
    }
}
