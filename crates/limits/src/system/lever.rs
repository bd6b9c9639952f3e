//! Settings that all programs on the machine share, with `--system` alone: a disk's scheduler, how
//! many requests may wait in it, and the dirty pages from which on the kernel writes back.

use std::collections::BTreeMap;

use ringfence_experiment::shell;
use ringfence_experiment::system::SystemSetting;
use ringfence_experiment::task::{Commit, DirtyIo, Io, Task};
use ringfence_experiment::{Arm, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;

use super::{file, schedulers, value};
use crate::disk;
use crate::lever::{AGGRESSOR, ALONE, Candidate, Lever, LeverContext, VICTIM};

/// The lever `scheduler`.
pub struct Scheduler;
/// The lever `queue-requests`.
pub struct QueueRequests;
/// The lever `dirty-background`.
pub struct DirtyBackground;

impl Lever for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn about(&self) -> &'static str {
        "another I/O scheduler for its disk (--system)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let (root, disks) = (FsRoot::host(), disk::of(context.aggressor)?);
        allowed(context)?;
        let own: Vec<Option<String>> = disks.iter().map(|disk| disk.scheduler.clone()).collect();
        let offered: Vec<Vec<String>> =
            disks.iter().map(|disk| schedulers(&root, &disk.name)).collect();
        let others = others(&own, &offered);
        let names = named(&disks);
        if others.is_empty() {
            return Err(format!("the kernel offers no other scheduler for {names}").into());
        }
        let candidate = |name: String| {
            let set = disks
                .iter()
                .map(|disk| (SystemSetting::Scheduler(disk.name.clone()), name.clone()));
            candidate(
                self,
                format!("scheduler {name}"),
                set.collect(),
                format!(
                    "it applies to all users of {names}; the settings of the old scheduler \
                     (queue/iosched) are reset when that is restored"
                ),
            )
        };
        Ok(others.into_iter().map(candidate).collect())
    }
}

// Those that every disk may have and not every disk has.
fn others(own: &[Option<String>], offered: &[Vec<String>]) -> Vec<String> {
    let first = offered.first().cloned().unwrap_or_default();
    let everywhere = |name: &String| offered.iter().all(|some| some.contains(name));
    let new = |name: &String| own.iter().any(|own| own.as_ref() != Some(name));
    first.into_iter().filter(|name| everywhere(name) && new(name)).collect()
}

const PARTS: [u64; 2] = [4, 16];

// The kernel's least (BLKDEV_MIN_RQ).
const FEWEST: u64 = 4;

impl Lever for QueueRequests {
    fn name(&self) -> &'static str {
        "queue-requests"
    }

    fn about(&self) -> &'static str {
        "a shorter queue for its disk (--system)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        let (root, disks) = (FsRoot::host(), disk::of(context.aggressor)?);
        allowed(context)?;
        let now = |disk: &disk::Disk| {
            root.parse_opt::<u64>(file(&SystemSetting::Requests(disk.name.clone())))
        };
        let least = disks
            .iter()
            .filter_map(now)
            .min()
            .ok_or("the kernel does not report how many requests may be queued")?;
        let names = named(&disks);
        let fewer = fewer(least);
        if fewer.is_empty() {
            return Err(
                format!("the queue of {names} is already limited to {least} requests").into()
            );
        }
        let candidate = |count: u64| {
            let set = disks
                .iter()
                .map(|disk| (SystemSetting::Requests(disk.name.clone()), count.to_string()));
            candidate(
                self,
                format!("{count} requests"),
                set.collect(),
                format!(
                    "fewer requests of all programs, the victim included, may be queued in the \
                     scheduler of {names}, and a program that finds the queue full waits; without \
                     a scheduler (none), it is the number of requests that the device gets at once"
                ),
            )
        };
        Ok(fewer.into_iter().map(candidate).collect())
    }
}

fn fewer(now: u64) -> Vec<u64> {
    let mut counts: Vec<u64> = PARTS.iter().map(|part| (now / part).max(FEWEST)).collect();
    counts.retain(|count| *count < now);
    counts.dedup();
    counts
}

const BACKGROUNDS: [Bytes; 2] = [Bytes::mib(64), Bytes::mib(16)];

impl Lever for DirtyBackground {
    fn name(&self) -> &'static str {
        "dirty-background"
    }

    fn about(&self) -> &'static str {
        "write-back that starts earlier (--system)"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        leaves_dirty(context.aggressor).map_or(Ok(()), Err)?;
        allowed(context)?;
        // 0 where a share of memory is set in place of bytes.
        let now: Option<u64> = FsRoot::host().parse_opt(file(&SystemSetting::DirtyBackground));
        let now = now.filter(|bytes| *bytes > 0).unwrap_or(u64::MAX);
        let candidate = |bytes: &Bytes| {
            candidate(
                self,
                format!("dirty background {bytes}"),
                BTreeMap::from([(SystemSetting::DirtyBackground, bytes.to_string())]),
                "the kernel starts write-back earlier, for all programs: the same bytes are \
                 written in more and smaller parts, and a page that is modified again is written \
                 again; no program waits until dirty_bytes or dirty_ratio is reached"
                    .into(),
            )
        };
        let smaller: Vec<Candidate> =
            BACKGROUNDS.iter().filter(|bytes| bytes.0 < now).map(candidate).collect();
        match smaller.is_empty() {
            true => Err(format!("vm.dirty_background_bytes is already {now}").into()),
            false => Ok(smaller),
        }
    }
}

// Why a task leaves no dirty pages to the kernel, if so.
fn leaves_dirty(task: &Task) -> Option<Reason> {
    let why = match task {
        Task::Dirty(dirty) if dirty.io == DirtyIo::Direct => {
            "the aggressor bypasses the page cache"
        }
        Task::Commit(Commit { io: Io::Direct | Io::Atomic, .. }) => {
            "the aggressor bypasses the page cache"
        }
        Task::Dirty(_) | Task::Commit(_) | Task::Churn(_) | Task::Command(_) => return None,
        Task::Scan(_) => "the aggressor reads",
        _ => "the aggressor writes no files",
    };
    Some(why.into())
}

fn allowed(context: &LeverContext) -> Result<(), Reason> {
    match context.system {
        true => Ok(()),
        false => Err("it changes the whole system; --system allows it".into()),
    }
}

fn named(disks: &[disk::Disk]) -> String {
    disks.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>().join(" and ")
}

fn candidate(
    lever: &dyn Lever,
    words: String,
    system: BTreeMap<SystemSetting, String>,
    caveat: String,
) -> Candidate {
    let command = |(setting, wanted): (&SystemSetting, &String)| {
        shell::write(&value(setting, wanted), &file(setting))
    };
    let commands = system.iter().map(command).collect();
    let arm = Arm { system, ..Arm::new(&words, &[VICTIM, AGGRESSOR], Some(ALONE)) };
    let keep = "set it for the whole system, as root; it lasts until the next start".into();
    let candidate = Candidate::of(lever, arm, keep).by(commands).caveat(caveat);
    Candidate { price_in_cpu_time: true, ..candidate }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::Tasks;

    fn task(table: &str) -> Task {
        Tasks::parse(&table.parse().unwrap()).unwrap().each().unwrap().remove(0).0
    }

    #[test]
    fn other_schedulers_are_those_that_all_disks_may_have() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (one, two) = (list(&["none", "mq-deadline", "bfq"]), list(&["none", "bfq"]));
        let own = |names: &[&str]| list(names).into_iter().map(Some).collect::<Vec<_>>();
        assert_eq!(others(&own(&["mq-deadline"]), std::slice::from_ref(&one)), ["none", "bfq"]);
        assert_eq!(others(&own(&["none", "none"]), &[one.clone(), two.clone()]), ["bfq"]);
        // One of them has it already.
        assert_eq!(others(&own(&["none", "bfq"]), &[one, two]), ["none", "bfq"]);
        assert_eq!(others(&own(&["none"]), &[list(&["none"])]), [""; 0]);
    }

    #[test]
    fn fewer_requests_are_at_least_four() {
        assert_eq!(fewer(256), [64, 16]);
        assert_eq!(fewer(16), [4]);
        assert_eq!(fewer(4), [0; 0]);
    }

    #[test]
    fn only_who_leaves_pages_dirty_is_offered_an_earlier_write_back() {
        for table in
            ["workload = 'dirty'", "workload = 'churn'", "workload = 'command'\nrun = 'true'"]
        {
            assert_eq!(leaves_dirty(&task(table)), None, "{table}");
        }
        for (table, part) in [
            ("workload = 'dirty'\nio = 'direct'", "bypasses the page cache"),
            ("workload = 'scan'", "reads"),
            ("workload = 'alu'", "writes no files"),
        ] {
            assert!(leaves_dirty(&task(table)).is_some_and(|why| why.contains(part)), "{table}");
        }
    }

    #[test]
    fn how_to_keep_it_is_a_command() {
        let of = |setting: &str, value: &str| {
            BTreeMap::from([(setting.parse().unwrap(), value.to_owned())])
        };
        let said = |system| candidate(&DirtyBackground, "x".into(), system, "c".into()).commands;
        assert_eq!(
            said(of("vda/scheduler", "none")),
            ["echo none > /sys/block/vda/queue/scheduler"]
        );
        assert_eq!(
            said(of("vm.dirty_background_bytes", "16MiB")),
            ["echo 16777216 > /proc/sys/vm/dirty_background_bytes"]
        );
    }
}
