//! A limit of what the aggressor writes to its disks a second, by control groups.

use std::path::Path;

use ringfence_experiment::shell;
use ringfence_experiment::task::{Attached, DirtyIo, Io, Sync, Task};
use ringfence_experiment::units::Rate;
use ringfence_experiment::{Limit, Reason};
use ringfence_machine::units::Bytes;

use super::{KIND, WRITE_BPS, settings};
use crate::lever::{Candidate, LEAST_WRITTEN, Lever, LeverContext, started, started_in_group};
use crate::setting::Version;
use crate::{attachment, disk, disk_io, own_group};

/// The lever `io-limit`.
pub struct IoLimit;

const SHARES: [f64; 3] = [0.5, 0.25, 0.1];

impl Lever for IoLimit {
    fn name(&self) -> &'static str {
        "io-limit"
    }

    fn about(&self) -> &'static str {
        "a limit on its disk writes"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        if let Task::Attached(attached) = context.aggressor {
            return of_attached(attached, &rates(context.disk_bytes_per_s)?);
        }
        cannot_be_limited(context.aggressor).map_or(Ok(()), Err)?;
        let instances = context.baseline.placed.cpus[1 - context.baseline.metric].len();
        let together = context.bytes_per_s.map(|rate| rate * instances as f64);
        let rates = rates(together.or(context.disk_bytes_per_s))?;
        let group = KIND.try_make(context.aggressor, None)?;
        let disks = disk::of(context.aggressor)?;
        let here = Here { disks, version: group.version(), parent: group.parent() };
        if here.version == Version::Two {
            disk_io::charged_elsewhere(context.aggressor).map_or(Ok(()), Err)?;
        }
        Ok(rates.into_iter().map(|rate| candidate(rate, &here, context.aggressor)).collect())
    }
}

// How what a task writes can be limited: its disks, the version of control groups that does it, and
// the group below which one can be made.
struct Here<'a> {
    disks: Vec<disk::Disk>,
    version: Version,
    parent: &'a Path,
}

// Running processes, in their existing group.
fn of_attached(attached: &Attached, rates: &[Rate]) -> Result<Vec<Candidate>, Reason> {
    let disks = disk::of_attached(attached)?;
    let candidate = |rate: &Rate| {
        let limit = settings(&disks, Some(*rate));
        let (_, version) = own_group::own_group(&attachment::found(attached)?, &limit)?;
        let (keep, commands) = own_group::kept(attached, &limit, &properties(&disks, *rate))?;
        Ok(limited(*rate, keep).by(commands).caveat(caveat(version, "")))
    };
    rates.iter().map(candidate).collect()
}

fn limited(rate: Rate, keep: String) -> Candidate {
    Candidate::limit(&IoLimit, &format!("write limit {rate}"), Limit::DiskWrite(rate), keep)
}

fn caveat(version: Version, unseen: &str) -> String {
    let whose = match version {
        Version::One => {
            "write-back by kernel threads, such as of plain buffered writes, is not limited"
        }
        Version::Two => {
            "write-back from the page cache is limited only if the group has both controllers io \
             and memory, the file system is ext4, btrfs, xfs or f2fs, and the pages were first \
             cached in the group"
        }
    };
    format!(
        "it limits what the aggressor itself sends to the disk, with O_DIRECT or a sync: {whose}; \
         requests that are still queued when the aggressor stops are written afterwards{unseen}"
    )
}

// Shares of what is written without a limit, each once.
fn rates(full: Option<f64>) -> Result<Vec<Rate>, Reason> {
    let full = full.ok_or("the aggressor's write rate is unknown")?;
    if full < LEAST_WRITTEN {
        return Err(format!(
            "the aggressor sends at most {} per second to a disk",
            Bytes(full.max(0.0) as u64)
        )
        .into());
    }
    let mut rates: Vec<Rate> =
        SHARES.into_iter().map(|share| Rate::rounded(full * share)).collect();
    rates.dedup();
    Ok(rates)
}

// Why what a task does to a disk is held by no limit of its group, whatever the version.
fn cannot_be_limited(task: &Task) -> Option<Reason> {
    match task {
        Task::Scan(_) => Some("the aggressor reads, and this limit applies to writes".into()),
        task => disk_io::of_others(task),
    }
}

// A program that starts writing and does not wait: the limit applies at the disk, and what is
// queued before it stays in memory.
fn is_not_held_up(task: &Task) -> bool {
    match task {
        Task::Dirty(dirty) => matches!(dirty.io, DirtyIo::Write | DirtyIo::Dontcache),
        Task::Commit(commit) => {
            commit.sync == Sync::RangeWrite
                || commit.sync == Sync::None && commit.io == Io::Dontcache
        }
        _ => false,
    }
}

fn candidate(rate: Rate, here: &Here, aggressor: &Task) -> Candidate {
    let disks: Vec<&str> = here.disks.iter().map(|disk| disk.name.as_str()).collect();
    let of = disks.join(" and ");
    let (keep, commands) = match here.version {
        Version::Two => (
            format!(
                "start the aggressor with that limit on {of}; without systemd, wbps= in io.max of \
                 its cgroup is the same"
            ),
            vec![by_systemd(rate, here, aggressor)],
        ),
        Version::One => (
            format!("start the aggressor in a group of blkio with that limit on {of}"),
            by_hand(rate, here, aggressor),
        ),
    };
    let unseen = match is_not_held_up(aggressor) {
        true => {
            "; this aggressor does not wait for its writes, so the price only shows once memory is \
             full of unwritten data"
        }
        false => "",
    };
    limited(rate, keep).by(commands).caveat(caveat(here.version, unseen))
}

// systemd.resource-control(5): a device and bytes a second, one for each.
fn properties(disks: &[disk::Disk], rate: Rate) -> Vec<String> {
    disks
        .iter()
        .map(|disk| format!("IOWriteBandwidthMax=/dev/{} {}", disk.name, rate.0.0))
        .collect()
}

fn by_systemd(rate: Rate, here: &Here, aggressor: &Task) -> String {
    let limits = properties(&here.disks, rate);
    let flags = limits.iter().flat_map(|limit| ["-p", limit]);
    let words: Vec<&str> = ["systemd-run", "--scope"].into_iter().chain(flags).collect();
    started(&words, aggressor)
}

fn by_hand(rate: Rate, here: &Here, aggressor: &Task) -> Vec<String> {
    let group = here.parent.join("slow-writer");
    let file = group.join(WRITE_BPS);
    let limits =
        here.disks.iter().map(|disk| shell::write(&format!("{} {}", disk.number, rate.0.0), &file));
    let made = std::iter::once(format!("mkdir -p {}", shell::quote(&group.display().to_string())));
    let procs = group.join("cgroup.procs");
    let started = started_in_group(&procs.display().to_string(), aggressor);
    made.chain(limits).chain([started]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::Tasks;

    fn task(table: &str) -> Task {
        Tasks::parse(&table.parse().unwrap()).unwrap().each().unwrap().remove(0).0
    }

    fn here(version: Version) -> Here<'static> {
        let disk = |name: &str, number: &str| disk::Disk {
            name: name.into(),
            number: number.into(),
            scheduler: None,
        };
        Here {
            disks: vec![disk("sda", "8:0"), disk("sdb", "8:16")],
            version,
            parent: Path::new("/cg/blkio"),
        }
    }

    #[test]
    fn rates_are_shares_of_what_is_written_and_each_is_tried_once() {
        let told = |full: f64| {
            let rates = rates(Some(full * f64::from(1 << 20))).unwrap();
            rates.iter().map(Rate::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told(400.0), ["200MiB/s", "100MiB/s", "40MiB/s"]);
        assert_eq!(told(3.0), ["2MiB/s", "1MiB/s"]);
        assert!(rates(Some(1e6)).unwrap_err().contains("at most 976.6KiB per second"));
        assert!(rates(None).unwrap_err().contains("is unknown"));
    }

    #[test]
    fn only_what_a_limit_holds_is_offered() {
        let refused = |table: &str| cannot_be_limited(&task(table));
        for table in [
            "workload = 'dirty'\nio = 'direct'",
            "workload = 'dirty'\nio = 'wait'",
            "workload = 'dirty'\nio = 'dontcache'",
            "workload = 'commit'",
            "workload = 'command'\nrun = 'true'",
        ] {
            assert_eq!(refused(table), None, "{table}");
        }
        for (table, part) in [
            ("workload = 'dirty'", "the kernel's own threads"),
            ("workload = 'commit'\nsync = 'none'", "the kernel's own threads"),
            ("workload = 'churn'", "the file system's own threads"),
            ("workload = 'scan'", "reads"),
            ("workload = 'alu'", "uses no disk"),
        ] {
            assert!(refused(table).is_some_and(|why| why.contains(part)), "{table}");
        }
        let held_by_version_2 = |table: &str| disk_io::charged_elsewhere(&task(table)).is_none();
        for table in ["workload = 'dirty'\nio = 'direct'", "workload = 'command'\nrun = 'true'"] {
            assert!(held_by_version_2(table), "{table}");
        }
        for table in ["workload = 'dirty'\nio = 'wait'", "workload = 'commit'"] {
            assert!(!held_by_version_2(table), "{table}");
        }
    }

    #[test]
    fn how_to_keep_it_is_a_command() {
        let rate: Rate = "5MiB/s".parse().unwrap();
        let program = task("workload = 'command'\nrun = \"dd of='a b'\"");
        let two = candidate(rate, &here(Version::Two), &program);
        assert_eq!(
            two.commands,
            ["systemd-run --scope -p 'IOWriteBandwidthMax=/dev/sda 5242880' -p \
                 'IOWriteBandwidthMax=/dev/sdb 5242880' \
              dd 'of=a b'"]
        );
        let one = candidate(rate, &here(Version::One), &program);
        assert_eq!(
            one.commands[..3],
            [
                "mkdir -p /cg/blkio/slow-writer",
                "echo '8:0 5242880' > /cg/blkio/slow-writer/blkio.throttle.write_bps_device",
                "echo '8:16 5242880' > /cg/blkio/slow-writer/blkio.throttle.write_bps_device",
            ]
        );
        assert!(
            one.commands[3].contains("cgroup.procs") && one.commands[3].ends_with("sh dd 'of=a b'")
        );
        assert_eq!(one.arm.name, "write limit 5MiB/s");
        let caveat = one.caveat.unwrap();
        assert!(caveat.contains("plain buffered writes, is not limited"), "{caveat}");
        assert!(!caveat.contains("the price only shows"), "{caveat}");
    }

    #[test]
    fn who_does_not_wait_does_not_show_the_price() {
        let caveat = |table: &str| {
            let rate: Rate = "5MiB/s".parse().unwrap();
            candidate(rate, &here(Version::One), &task(table)).caveat.unwrap()
        };
        for table in
            ["workload = 'dirty'\nio = 'dontcache'", "workload = 'commit'\nsync = 'range-write'"]
        {
            assert!(caveat(table).contains("the price only shows"), "{table}");
        }
        for table in ["workload = 'dirty'\nio = 'wait'", "workload = 'commit'"] {
            assert!(!caveat(table).contains("the price only shows"), "{table}");
        }
    }
}
