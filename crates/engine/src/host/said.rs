//! What should be known of figures, whatever they are.

use ringfence_experiment::task::Task;
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;

use super::HostEngine;

// Programs write some lines to logs.
const LEAST_TOLD: u64 = 16 << 20;

impl HostEngine<'_> {
    // What probes say of themselves once they have paused.
    pub(super) fn hear_probes(&mut self) {
        let probes: Vec<usize> = (0..self.workers.len())
            .filter(|&worker| self.workers[worker].probe && self.workers[worker].ended.is_none())
            .collect();
        if probes.is_empty() || self.switch(&[]).is_err() {
            return;
        }
        for worker in probes {
            let said = self.slot(worker).message();
            self.told.extend(said.lines().map(str::to_owned));
        }
    }

    // What programs wrote, which is not limited: each role whose tasks are none of ours.
    pub(super) fn said_of_programs(&self) -> Vec<String> {
        let roles = self.plan.experiment.roles.iter().zip(&self.plan.variants).zip(&self.used);
        let programs = roles.filter_map(|((role, variants), used)| {
            let ours = variants
                .iter()
                .any(|variant| !matches!(variant.task, Task::Command(_) | Task::Attached(_)));
            let wrote = Some(used.disk_bytes).filter(|bytes| !ours && *bytes >= LEAST_TOLD)?;
            Some(format!(
                "In '{}', {} wrote {} to disks during its windows (the kernel's count for its \
                 processes); no limit applies to that.",
                self.plan.experiment.name,
                role.name,
                Bytes(wrote)
            ))
        });
        programs.collect()
    }

    // What should be known of figures of tasks that use a disk.
    pub(super) fn said_of_disks(&self) -> Vec<String> {
        let tasks = self.workers.iter().flat_map(|worker| {
            worker.variants.iter().map(|variant| &self.plan.variants[worker.role][*variant].task)
        });
        // An episode sees what these tell of.
        let windows = self.plan.experiment.measure.episode.is_none();
        let mut said: Vec<String> =
            tasks.filter(|_| windows).filter_map(|task| task.caution()).collect();
        said.sort();
        said.dedup();
        if let Some(wrote) = self.disks.wrote(&FsRoot::host()) {
            let name = &self.plan.experiment.name;
            said.push(format!(
                "In '{name}', {wrote}, by the disk's own count (all programs together)."
            ));
        }
        said
    }
}
