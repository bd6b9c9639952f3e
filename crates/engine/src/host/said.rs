//! What should be known of figures, whatever they are.

use ringfence_experiment::task::Task;
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;

use super::HostEngine;

// Programs write some lines to logs.
const LEAST_TOLD: u64 = 16 << 20;

impl HostEngine<'_> {
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
        // An episode sees what these tell of.
        let windows = self.plan.experiment.measure.episode.is_none();
        let mut said: Vec<String> =
            self.crew.tasks().filter(|_| windows).filter_map(Task::caution).collect();
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
