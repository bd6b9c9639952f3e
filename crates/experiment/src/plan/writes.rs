//! How much a plan may write to disks: a rough figure, known before anything is written.

use std::time::Duration;

use ringfence_machine::units::Bytes;

use super::{Active, Plan};
use crate::task::Task;

impl Plan {
    /// About how many bytes built-in tasks write to disks at most, on a fast disk; `None` where
    /// none of them writes to a file that may lie on one.
    pub fn writes_about(&self) -> Option<Bytes> {
        let cases = self.measured();
        let writes = |task: &Task| task.file_bytes_per_s().is_some();
        let all =
            cases.iter().flat_map(|case| std::iter::once(*case).chain(self.cases[*case].others()));
        let active: Vec<Active> = all.flat_map(|case| self.cases[case].active.clone()).collect();
        if !active.iter().any(|active| writes(self.task(active))) {
            return None;
        }
        let measure = &self.experiment.measure;
        let before = measure.settle.0 + self.calm().unwrap_or_default().lead_in;
        let window = before + measure.length().0;
        let in_windows: f64 = active.iter().map(|active| self.in_window(active, window)).sum();
        let prepared: f64 =
            active.iter().map(|active| self.task(active).prepares().0 as f64).fold(0.0, f64::max);
        let per_trial = in_windows * f64::from(measure.rounds) + prepared;
        Some(Bytes((per_trial * self.most_trials()) as u64))
    }

    fn task(&self, active: &Active) -> &Task {
        &self.variants[active.role][active.variant].task
    }

    fn in_window(&self, active: &Active, window: Duration) -> f64 {
        let task = self.task(active);
        let bytes = task.file_bytes_per_s().unwrap_or_default() * window.as_secs_f64();
        let bytes = match task {
            Task::Dirty(dirty) => bytes.min(dirty.limit.0 as f64),
            _ => bytes,
        };
        bytes * f64::from(active.count)
    }

    // Trials that the plan has, or that fit into its time.
    fn most_trials(&self) -> f64 {
        let measure = &self.experiment.measure;
        let planned = measure.looks.last().copied().map_or(0.0, f64::from);
        let least = self.least_trial().as_secs_f64();
        let fit =
            measure.time.filter(|_| least > 0.0).map(|time| (time.0.as_secs_f64() / least).ceil());
        fit.map_or(planned, |fit| fit.min(planned))
    }
}

#[cfg(test)]
mod tests {
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    use super::*;
    use crate::Experiment;

    fn writes(victim: &str, aggressor: &str, measure: &str) -> Option<u64> {
        let text = format!(
            "schema = 2\nname = 'w'\nmetric = 'victim'\n[measure]\nrounds = 1\nsettle = \
             '0ms'\nprobe = '0ms'\n{measure}\n\
             [[role]]\nname = 'victim'\ntask = {victim}\n[[role]]\nname = 'other'\ntask = \
             {aggressor}\n\
             [[arm]]\nname = 'alone'\nactive = ['victim']\n\
             [[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = 'alone'"
        );
        let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
        let plan = Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap();
        plan.writes_about().map(|bytes| bytes.0)
    }

    #[test]
    fn what_writes_to_no_disk_has_no_estimate() {
        let measure = "looks = [10]\nwindow = '1s'";
        assert_eq!(writes("{ workload = 'chase' }", "{ workload = 'alu' }", measure), None);
        let memory = "{ workload = 'write', target = 'dram' }";
        assert_eq!(writes("{ workload = 'chase' }", memory, measure), None);
    }

    #[test]
    fn windows_trials_and_the_time_are_counted() {
        let paced = "{ workload = 'dirty', pace = '96MiB/s' }";
        let chase = "{ workload = 'chase' }";
        let ten = writes(chase, paced, "looks = [10]\nwindow = '1s'").unwrap();
        assert!((9.9e8..2.1e9).contains(&(ten as f64)), "{ten}");
        let half = writes(chase, paced, "looks = [10]\nwindow = '1s'\ntime = '10s'").unwrap();
        assert!(half < ten && half > ten / 4, "{half} of {ten}");
        // The limit of a window bounds it.
        let limited =
            writes(chase, "{ workload = 'dirty', limit = '1GiB' }", "looks = [10]\nwindow = '60s'")
                .unwrap();
        assert_eq!(limited, 10 << 30);
    }

    #[test]
    fn episodes_of_a_writer_are_hundreds_of_gib() {
        let measure = "looks = [6]\nepisode = { beside = '40s', tail = '37s' }";
        let bytes = writes("{ workload = 'commit' }", "{ workload = 'dirty' }", measure).unwrap();
        assert!(bytes > 60 << 30, "{bytes}");
    }
}
