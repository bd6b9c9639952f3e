//! The I/O priority of a role's threads (ioprio_set(2)) while an arm runs that sets it.
//!
//! A priority orders requests that wait in a disk's scheduler, and each scheduler decides what it
//! makes of one (kernel documentation, block/ioprio): bfq heeds classes and levels, mq-deadline
//! classes since Linux 5.14, none and kyber nothing. A request has the priority of the thread that
//! gives it to the disk, so that what the kernel's threads write back has theirs.
//!
//! Nothing of it is in the journal of changes: it ends with the threads, which are this program's
//! own.

mod lever;

use std::collections::BTreeMap;

use ringfence_experiment::io_priority::IoPriority;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::{Arm, Error, Limit, Reason, Role};
use ringfence_machine::root::FsRoot;
use ringfence_machine::{io_priority as kernel, kernel_release};

use crate::disk::{self, Disk};
use crate::kind::{Begun, Isolation, Kind, Tasks};

pub use lever::IoNice;

/// Isolation by the order of requests.
pub struct ByPriority;

impl Kind for ByPriority {
    fn wanted(&self, arm: &Arm) -> bool {
        arm.limits.keys().any(|role| of_role(arm, role).is_some())
    }

    fn missing(&self, plan: &Plan, arm: &Arm, active: &[Active]) -> Option<Reason> {
        active.iter().find_map(|active| {
            let priority = of_role(arm, &plan.experiment.roles[active.role].name)?;
            heeded(&plan.variants[active.role][active.variant].task, priority).err()
        })
    }

    fn begin(&self, plan: &Plan) -> Begun {
        Ok(Some(Box::new(Priorities::of(plan))))
    }
}

fn of_role(arm: &Arm, role: &str) -> Option<IoPriority> {
    arm.limits_of(role).iter().find_map(|limit| match limit {
        Limit::IoPriority(priority) => Some(*priority),
        _ => None,
    })
}

/// The disks below a task's folder, whose schedulers all heed a priority.
///
/// # Errors
/// Why they do not.
pub fn heeded(task: &Task, priority: IoPriority) -> Result<Vec<Disk>, Reason> {
    let root = FsRoot::host();
    let disks = disk::disks_of(&root, task)?;
    let release = kernel_release(&root);
    disks.iter().try_for_each(|disk| heeds(disk, release, priority))?;
    Ok(disks)
}

fn heeds(disk: &Disk, release: (u32, u32), priority: IoPriority) -> Result<(), Reason> {
    let name = &disk.name;
    let why = match (disk.scheduler.as_deref(), priority) {
        (Some("bfq"), _) => return Ok(()),
        (Some("mq-deadline"), _) if release < (5, 14) => format!(
            "the scheduler of {name} is mq-deadline, which supports I/O classes since Linux 5.14"
        ),
        (Some("mq-deadline"), IoPriority::Idle) => return Ok(()),
        (Some("mq-deadline"), IoPriority::BestEffort(_)) => format!(
            "the scheduler of {name} is mq-deadline, which distinguishes I/O classes but not the \
             levels within one"
        ),
        (Some(other), _) => format!(
            "the scheduler of {name} is {other}, which ignores I/O priorities; bfq and mq-deadline \
             use them"
        ),
        (None, _) => format!("the kernel does not report the scheduler of {name}"),
    };
    Err(why.into())
}

struct Priorities {
    root: FsRoot,
    // In the order of the experiment's arms, by role.
    arms: Vec<BTreeMap<usize, IoPriority>>,
    // What roles have been given, and what their threads had before: those that were there then.
    given: BTreeMap<usize, Given>,
}

struct Given {
    priority: IoPriority,
    before: BTreeMap<u32, u16>,
}

impl Priorities {
    fn of(plan: &Plan) -> Self {
        let roles = &plan.experiment.roles;
        let of_arm = |arm: &Arm| {
            let of = |(index, role): (usize, &Role)| Some((index, of_role(arm, &role.name)?));
            roles.iter().enumerate().filter_map(of).collect()
        };
        let arms = plan.experiment.arms.iter().map(of_arm).collect();
        Self { root: FsRoot::host(), arms, given: BTreeMap::new() }
    }

    fn threads(&self, pids: &[u32]) -> Vec<u32> {
        pids.iter().flat_map(|pid| self.root.numbered(format!("/proc/{pid}/task"), "")).collect()
    }

    fn give(&mut self, role: usize, priority: IoPriority, tasks: &dyn Tasks) -> Result<(), Error> {
        self.take(role, Some(priority), tasks);
        let mut before = self.given.remove(&role).map(|given| given.before).unwrap_or_default();
        // A program may start others meanwhile: they have what their parent has then, so that the
        // second round finds the last that were born without.
        for _ in 0..2 {
            for thread in self.threads(&tasks.processes(role)) {
                // One that has ended needs nothing.
                let Ok(had) = kernel::of(thread) else { continue };
                if had == priority.value() {
                    continue;
                }
                match kernel::set(thread, priority.value()) {
                    Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                        return Err(Error::failed(format!(
                            "giving thread {thread} the I/O priority '{priority}' failed: {error}"
                        )));
                    }
                    _ => _ = before.entry(thread).or_insert(had),
                }
            }
        }
        self.given.insert(role, Given { priority, before });
        Ok(())
    }

    // Puts back what a role's threads had, unless they keep it. Threads that were born since have
    // what the default is.
    fn take(&mut self, role: usize, keep: Option<IoPriority>, tasks: &dyn Tasks) {
        if self.given.get(&role).is_none_or(|given| Some(given.priority) == keep) {
            return;
        }
        let Some(given) = self.given.remove(&role) else { return };
        for _ in 0..2 {
            for thread in self.threads(&tasks.processes(role)) {
                // What a program has given itself meanwhile is its own affair, and what has ended
                // needs nothing.
                if kernel::of(thread).is_ok_and(|now| now == given.priority.value()) {
                    let had = given.before.get(&thread).copied().unwrap_or(kernel::NONE);
                    let _ = kernel::set(thread, had);
                }
            }
        }
    }
}

impl Isolation for Priorities {
    fn begin_trial(&mut self, _: &dyn Tasks) -> Result<(), Error> {
        // New ones have nothing.
        self.given.clear();
        Ok(())
    }

    fn set(&mut self, arm: usize, tasks: &dyn Tasks) -> Result<bool, Error> {
        let roles: Vec<usize> = self.given.keys().copied().collect();
        for role in roles {
            self.take(role, self.arms[arm].get(&role).copied(), tasks);
        }
        for (role, priority) in self.arms[arm].clone() {
            self.give(role, priority, tasks)?;
        }
        Ok(false)
    }

    fn end_trial(&mut self, tasks: &dyn Tasks) {
        let roles: Vec<usize> = self.given.keys().copied().collect();
        roles.into_iter().for_each(|role| self.take(role, None, tasks));
    }

    fn end(self: Box<Self>) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn disk(scheduler: Option<&str>) -> Disk {
        Disk { name: "sda".into(), number: "8:0".into(), scheduler: scheduler.map(str::to_owned) }
    }

    #[test]
    fn schedulers_heed_what_their_source_says() {
        let says = |scheduler, release, priority: &str| {
            heeds(&disk(scheduler), release, priority.parse().unwrap())
        };
        let new = (6, 1);
        assert_eq!(says(Some("bfq"), (5, 4), "best-effort 7"), Ok(()));
        assert_eq!(says(Some("mq-deadline"), new, "idle"), Ok(()));
        assert_eq!(says(Some("mq-deadline"), (5, 14), "idle"), Ok(()));
        for (scheduler, release, priority, part) in [
            (Some("mq-deadline"), (5, 10), "idle", "since Linux 5.14"),
            (Some("mq-deadline"), new, "best-effort 7", "not the levels within one"),
            (
                Some("none"),
                new,
                "idle",
                "the scheduler of sda is none, which ignores I/O priorities",
            ),
            (Some("kyber"), new, "idle", "is kyber"),
            (None, new, "idle", "does not report"),
        ] {
            let why = says(scheduler, release, priority).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    struct One(Child);

    impl Tasks for One {
        fn processes(&self, _: usize) -> Vec<u32> {
            vec![self.0.id()]
        }

        fn orphans(&self) -> Vec<u32> {
            Vec::new()
        }
    }

    #[test]
    fn threads_have_it_while_the_arm_runs_and_then_what_they_had() {
        let mut task = One(Command::new("sleep").arg("60").spawn().unwrap());
        let pid = task.0.id();
        let now = || kernel::of(pid).unwrap();
        let (idle, low) = (IoPriority::Idle, IoPriority::BestEffort(7));
        let arms = [None, Some(idle), Some(low)];
        let arms = arms.map(|one| one.into_iter().map(|priority| (1, priority)).collect());
        let mut priorities =
            Priorities { root: FsRoot::host(), arms: arms.into(), given: BTreeMap::new() };
        let first = IoPriority::BestEffort(2).value();
        kernel::set(pid, first).unwrap();
        priorities.begin_trial(&task).unwrap();
        for (arm, is) in
            [(0, first), (1, idle.value()), (1, idle.value()), (2, low.value()), (0, first)]
        {
            priorities.set(arm, &task).unwrap();
            assert_eq!(now(), is, "arm {arm}");
        }
        priorities.set(1, &task).unwrap();
        priorities.end_trial(&task);
        assert_eq!(now(), first);
        // What it gives itself is kept.
        priorities.set(1, &task).unwrap();
        kernel::set(pid, low.value()).unwrap();
        priorities.set(0, &task).unwrap();
        assert_eq!(now(), low.value());
        task.0.kill().unwrap();
        task.0.wait().unwrap();
        priorities.set(1, &task).unwrap();
    }
}
