//! The processes that belong to each role, for isolation.

use ringfence_machine::root::FsRoot;

use super::crew::Crew;
use super::pauses::Pauses;
use crate::process;
use ringfence_limits::Tasks;

/// The workers' processes and everything that they have started, the attached running processes,
/// and the services that probes ask.
pub(super) struct Members<'a>(pub(super) &'a Crew<'a>, pub(super) &'a Pauses);

impl Tasks for Members<'_> {
    fn processes(&self, role: usize) -> Vec<u32> {
        let mut all = self.1.processes(role);
        let workers = self.0.workers.iter().filter(|worker| worker.role == role);
        for pid in workers.filter_map(|worker| worker.pid) {
            let below = process::descendants(&FsRoot::host(), pid);
            let pids = std::iter::once(pid).chain(below.iter().map(|child| child.pid));
            all.extend(pids.filter_map(|pid| u32::try_from(pid).ok()));
        }
        all
    }

    // The guardian has them.
    fn orphans(&self) -> Vec<u32> {
        let guardian = self.0.guardian();
        let below = process::descendants(&FsRoot::host(), guardian);
        let workers: Vec<i32> = self.0.workers.iter().filter_map(|worker| worker.pid).collect();
        let orphan = |process: &&process::Process| {
            process.parent == guardian && process.state != 'Z' && !workers.contains(&process.pid)
        };
        below.iter().filter(orphan).filter_map(|process| u32::try_from(process.pid).ok()).collect()
    }
}
