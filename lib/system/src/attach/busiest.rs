//! The processes that use most CPU time, and those that write most to disks.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::attach::process::{self, Process};
use crate::attach::usage::{own_ticks, written};
use crate::changes::Thread;
use crate::root::FsRoot;

/// What every process has used since it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processes(BTreeMap<Thread, Used>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Used {
    name: String,
    cpu: Duration,
    /// `None` where the kernel does not show it to this user.
    written: Option<u64>,
}

/// What one process did between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Busy {
    /// Its number.
    pub pid: u32,
    /// The first 15 bytes of its name.
    pub name: String,
    /// CPUs that it kept busy: 0.5 is half of one.
    pub cpus: f64,
    /// Bytes a second that it wrote to files on disks, in the page cache or past it; `None` where
    /// the kernel does not show it to this user.
    pub written_per_s: Option<f64>,
}

/// The busiest processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Busiest {
    /// Time between the two readings.
    pub over: Duration,
    /// Those that used most CPU time, the first one most.
    pub cpu: Vec<Busy>,
    /// Those that wrote most, the first one most.
    pub writers: Vec<Busy>,
    /// Processes whose writes the kernel does not show to this user.
    pub hidden: usize,
}

/// Less than this share of a CPU is the resolution of the kernel's count.
const LEAST: f64 = 0.01;

impl Processes {
    /// Reads `/proc` below `root`. This program is left out.
    pub fn read(root: &FsRoot) -> Self {
        let own = process::own(root);
        let tick = Duration::from_secs(1) / rustix::param::clock_ticks_per_second().max(1) as u32;
        let used = |pid: u32| {
            let process = Process::read(root, pid)?;
            let ticks = own_ticks(root, pid)?;
            let cpu = tick.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
            let used = Used { name: process.name.clone(), cpu, written: written(root, pid) };
            Some((process.id, used))
        };
        let others = process::all(root).into_iter().filter(|pid| Some(*pid) != own);
        Self(others.filter_map(used).collect())
    }

    /// The `most` busiest processes between this reading and one taken `over` later. Those that
    /// ended meanwhile are left out.
    pub fn until(&self, later: &Self, over: Duration, most: usize) -> Busiest {
        let seconds = over.as_secs_f64().max(f64::MIN_POSITIVE);
        let busy = |(id, after): (&Thread, &Used)| {
            // A process that is new has done everything since.
            let (cpu, bytes) = self
                .0
                .get(id)
                .map_or((Duration::ZERO, Some(0)), |before| (before.cpu, before.written));
            let per_s = |bytes: u64| bytes as f64 / seconds;
            Busy {
                pid: id.tid,
                name: after.name.clone(),
                cpus: after.cpu.saturating_sub(cpu).as_secs_f64() / seconds,
                written_per_s: after
                    .written
                    .zip(bytes)
                    .map(|(after, before)| per_s(after.saturating_sub(before))),
            }
        };
        let all: Vec<Busy> = later.0.iter().map(busy).collect();
        let first = |share: fn(&Busy) -> f64, least: f64| {
            let mut busy: Vec<Busy> =
                all.iter().filter(|one| share(one) > least).cloned().collect();
            busy.sort_by(|a, b| share(b).total_cmp(&share(a)));
            busy.truncate(most);
            busy
        };
        Busiest {
            over,
            cpu: first(|one| one.cpus, LEAST),
            writers: first(|one| one.written_per_s.unwrap_or(0.0), 0.0),
            hidden: all.iter().filter(|one| one.written_per_s.is_none()).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::FixtureTree;

    fn process(tree: &FixtureTree, pid: u32, name: &str, ticks: [u64; 2], written: Option<u64>) {
        let [user, system] = ticks;
        tree.write(
            format!("/proc/{pid}/stat"),
            format!(
                "{pid} ({name}) R 1 {pid} {pid} 0 -1 4194560 1 2 0 0 {user} {system} 900 900 20 0 \
                 1 0 99 1000 1"
            ),
        );
        if let Some(bytes) = written {
            tree.write(
                format!("/proc/{pid}/io"),
                format!("wchar: 1\nread_bytes: 2\nwrite_bytes: {bytes}\n"),
            );
        }
    }

    #[test]
    fn shares_come_from_two_readings() {
        let tree = FixtureTree::empty("busiest");
        let second = rustix::param::clock_ticks_per_second();
        let second = |share: f64| (second as f64 * share) as u64;
        process(&tree, 1, "init", [1000, 0], Some(7));
        process(&tree, 20, "a (b)", [0, 500], None);
        process(&tree, 30, "writer", [0, 0], Some(1 << 20));
        process(&tree, 40, "ends", [0, 0], Some(0));
        process(&tree, 50, "ringfence", [0, 0], Some(0));
        tree.write("/proc/self/stat", "50 (ringfence) R 1");
        let before = Processes::read(&tree.root());
        process(&tree, 20, "a (b)", [second(1.0), 500 + second(0.5)], None);
        process(&tree, 30, "writer", [second(0.1), 0], Some(3 << 20));
        process(&tree, 50, "ringfence", [second(2.0), 0], Some(9 << 20));
        process(&tree, 60, "new", [second(0.5), 0], Some(0));
        tree.remove("/proc/40");
        let after = Processes::read(&tree.root());
        let busiest = before.until(&after, Duration::from_secs(2), 3);
        let names = |busy: &[Busy]| busy.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&busiest.cpu), ["a (b)", "new", "writer"]);
        assert_eq!((busiest.cpu[0].pid, busiest.cpu[0].cpus), (20, 0.75));
        assert_eq!(names(&busiest.writers), ["writer"]);
        assert_eq!(busiest.writers[0].written_per_s, Some(f64::from(1 << 20)));
        assert_eq!(busiest.hidden, 1);
        assert_eq!(before.until(&after, Duration::from_secs(2), 1).cpu.len(), 1);
    }

    #[test]
    fn a_machine_without_processes_has_no_busy_ones() {
        let reading = Processes::read(&FixtureTree::empty("idle").root());
        let busiest = reading.until(&reading, Duration::ZERO, 3);
        assert!(busiest.cpu.is_empty() && busiest.writers.is_empty());
    }
}
