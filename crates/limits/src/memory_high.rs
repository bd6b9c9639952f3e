//! A memory limit above which processes are throttled: `memory.high` of version 2 of control groups
//! (kernel documentation, admin-guide/cgroup-v2). Cached pages count as memory of the group in
//! which they were first cached, so that a writer is throttled if it makes pages dirty faster than
//! they are written. Version 1 has no such limit: its soft limit applies only when memory is short
//! on the whole machine, and throttles no process.

use ringfence_experiment::task::{Commit, DirtyIo, Io, Task};
use ringfence_experiment::{Limit, Reason};
use ringfence_machine::units::Bytes;

use crate::groups::GroupKind;
use crate::lever::{Candidate, LEAST_WRITTEN, Lever, LeverContext, started};
use crate::setting::{Controller, GroupSettings, Version};

/// Isolation by a limit of memory.
pub const KIND: GroupKind = GroupKind {
    is: |limit| matches!(limit, Limit::MemoryHigh(_)),
    word: "memory-limit",
    what: "a memory.high",
    settings: |_, _, limit| {
        let high = match limit {
            Some(Limit::MemoryHigh(bytes)) => bytes.0.to_string(),
            _ => "max".into(),
        };
        Ok(GroupSettings::of(&MEMORY).with(Version::Two, "memory.high", high))
    },
};

const MEMORY: Controller = Controller {
    one: "memory",
    two: "memory",
    not_there: "memory of cgroup v2 is not delegated to a group (as root: 'echo +memory > \
                /sys/fs/cgroup/cgroup.subtree_control'), and cgroup v1 has no memory.high",
};

/// The lever `memory-high`.
pub struct MemoryHigh;

const LIMITS: [Bytes; 3] = [Bytes::mib(256), Bytes::mib(64), Bytes::mib(16)];

impl Lever for MemoryHigh {
    fn name(&self) -> &'static str {
        "memory-high"
    }

    fn about(&self) -> &'static str {
        "less memory for its page cache and dirty pages"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        not_held_up(context.aggressor).map_or(Ok(()), Err)?;
        match context.disk_bytes_per_s {
            Some(rate) if rate < LEAST_WRITTEN => {
                return Err(format!(
                    "the aggressor writes at most {} per second",
                    Bytes(rate.max(0.0) as u64)
                )
                .into());
            }
            None if matches!(context.aggressor, Task::Command(_)) => {
                return Err("the aggressor's write rate is unknown".into());
            }
            _ => {}
        }
        KIND.try_make(context.aggressor, None)?;
        Ok(LIMITS.into_iter().map(|limit| candidate(self, limit, context.aggressor)).collect())
    }
}

// Why no limit of memory holds a task up.
fn not_held_up(task: &Task) -> Option<Reason> {
    const OLD: &str = "the aggressor rewrites pages that were cached before it was moved into a \
                       group, and cgroup v2 charges a page to the group that first cached it; a \
                       program that is started in the group can be throttled";
    let why = match task {
        Task::Command(_) => return None,
        // Its pages leave the cache once they are written, and come anew.
        Task::Dirty(dirty) if dirty.io == DirtyIo::Dontcache => return None,
        Task::Commit(Commit { io: Io::Dontcache, .. }) => return None,
        Task::Dirty(dirty) if dirty.io == DirtyIo::Direct => {
            "the aggressor bypasses the page cache"
        }
        Task::Commit(Commit { io: Io::Direct | Io::Atomic, .. }) => {
            "the aggressor bypasses the page cache"
        }
        Task::Dirty(_) | Task::Commit(_) => OLD,
        Task::Scan(_) => "the aggressor reads, and this limit only delays writes to the page cache",
        Task::Churn(_) => "the aggressor creates and removes files, which dirties few pages",
        Task::Attached(_) => {
            "the aggressor is a running process, and which files it writes is \
                              unknown"
        }
        _ => "the aggressor writes no files",
    };
    Some(why.into())
}

fn candidate(lever: &dyn Lever, limit: Bytes, aggressor: &Task) -> Candidate {
    // systemd.resource-control(5) takes a number of bytes.
    let property = format!("MemoryHigh={}", limit.0);
    let keep = format!(
        "start the aggressor with that limit; without systemd, {} in memory.high of its cgroup is \
         the same",
        limit.0
    );
    Candidate::limit(lever, &format!("memory high {limit}"), Limit::MemoryHigh(limit), keep)
        .by(vec![started(&["systemd-run", "--scope", "-p", &property], aggressor)])
        .caveat(
            "it bounds how far writes may run ahead of the disk, not how fast the disk is written \
             to; memory that the aggressor had before the arm started does not count here, but all \
             memory of a program that is started in such a group does: a limit below its working \
             set makes it swap or drop pages again and again",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::Tasks;

    fn task(table: &str) -> Task {
        Tasks::parse(&table.parse().unwrap()).unwrap().each().unwrap().remove(0).0
    }

    #[test]
    fn only_who_takes_new_pages_is_held_up() {
        for table in ["workload = 'command'\nrun = 'true'", "workload = 'dirty'\nio = 'dontcache'"]
        {
            assert_eq!(not_held_up(&task(table)), None, "{table}");
        }
        for (table, part) in [
            ("workload = 'dirty'", "the group that first cached it"),
            ("workload = 'commit'", "the group that first cached it"),
            ("workload = 'dirty'\nio = 'direct'", "bypasses the page cache"),
            ("workload = 'scan'", "reads"),
            ("workload = 'churn'", "few pages"),
            ("workload = 'alu'", "writes no files"),
        ] {
            assert!(not_held_up(&task(table)).is_some_and(|why| why.contains(part)), "{table}");
        }
    }

    #[test]
    fn how_to_keep_it_is_a_command() {
        let offered = candidate(
            &MemoryHigh,
            Bytes::mib(64),
            &task("workload = 'command'\nrun = \"dd of='a b'\""),
        );
        assert_eq!(offered.commands, ["systemd-run --scope -p MemoryHigh=67108864 dd 'of=a b'"]);
        assert_eq!(
            (offered.arm.name.as_str(), offered.arm.limits_of("aggressor")),
            ("memory high 64MiB", &[Limit::MemoryHigh(Bytes::mib(64))][..])
        );
        assert!(offered.caveat.unwrap().contains("not how fast the disk is written to"));
    }

    #[test]
    fn version_1_does_not_have_it() {
        let written = |limit: Option<&Limit>, version| {
            let root = ringfence_machine::root::FsRoot::host();
            (KIND.settings)(&root, &[], limit).unwrap().written(version)
        };
        let high = Limit::MemoryHigh(Bytes::mib(64));
        assert_eq!(written(Some(&high), Version::Two), ["memory.high = 67108864"]);
        assert_eq!(written(None, Version::Two), ["memory.high = max"]);
        assert_eq!(written(Some(&high), Version::One), [""; 0]);
    }
}
