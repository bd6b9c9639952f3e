//! The processes that belong to each role, for isolation.

use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Attached, Task};
use ringfence_machine::root::FsRoot;

use super::super::process;
use super::crew::Crew;
use super::guests::Guest;
use ringfence_limits::Tasks;
use ringfence_limits::attachment;

/// The workers' processes and everything that they have started, the attached running processes,
/// and the services that probes ask.
pub(super) struct Members<'a> {
    pub(super) crew: &'a Crew<'a>,
    pub(super) guests: &'a [Guest],
    /// By role.
    pub(super) services: &'a [(usize, Attached)],
}

/// The services whose answers a plan is about, where they were named.
pub(super) fn services(plan: &Plan) -> Vec<(usize, Attached)> {
    let of_role = |(role, variants): (usize, &Vec<ringfence_experiment::task::Variant>)| {
        let service = variants.iter().find_map(|variant| match &variant.task {
            Task::Probe(probe) => probe.service(),
            _ => None,
        });
        service.map(|service| (role, service))
    };
    plan.variants.iter().enumerate().filter_map(of_role).collect()
}

impl Tasks for Members<'_> {
    fn processes(&self, role: usize) -> Vec<u32> {
        let mut all: Vec<u32> = Vec::new();
        for guest in self.guests.iter().filter(|guest| guest.role() == role) {
            all.extend(guest.processes());
        }
        for (_, service) in self.services.iter().filter(|(own, _)| *own == role) {
            all.extend(attachment::processes(service));
        }
        let workers = self.crew.workers.iter().filter(|worker| worker.role == role);
        for pid in workers.filter_map(|worker| worker.pid) {
            let below = process::descendants(&FsRoot::host(), pid);
            let pids = std::iter::once(pid).chain(below.iter().map(|child| child.pid));
            all.extend(pids.filter_map(|pid| u32::try_from(pid).ok()));
        }
        all
    }

    // The guardian has them.
    fn orphans(&self) -> Vec<u32> {
        let guardian = self.crew.guardian();
        let below = process::descendants(&FsRoot::host(), guardian);
        let workers: Vec<i32> = self.crew.workers.iter().filter_map(|worker| worker.pid).collect();
        let orphan = |process: &&process::Process| {
            process.parent == guardian && process.state != 'Z' && !workers.contains(&process.pid)
        };
        below.iter().filter(orphan).filter_map(|process| u32::try_from(process.pid).ok()).collect()
    }
}
