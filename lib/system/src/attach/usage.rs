//! What a target has used: an aggressor that did nothing proves nothing.

use std::time::Duration;

use crate::root::{FsRoot, field};

use crate::attach::find::Found;
use crate::attach::hierarchy::Group;
use crate::attach::process::{Process, threads};
use crate::attach::tree::Settled;

/// Where figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The control group's own count, of version 2 (`cpu.stat`, `io.stat`).
    CgroupV2,
    /// The control group's own count, of version 1 (`cpuacct.usage`,
    /// `blkio.throttle.io_service_bytes_recursive`).
    CgroupV1,
    /// The sum over the processes that live. What one used that has ended goes with it, unless its
    /// parent is part of the target and has waited for it: a later figure may be smaller than an
    /// earlier one.
    Processes,
}

/// What a target has used since it began; differences of two readings are what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, in user mode and in the kernel.
    pub cpu: Duration,
    /// Where that comes from. Of [`Source::Processes`] it is as exact as the scheduler's count
    /// where the kernel has `CONFIG_SCHED_INFO`, else a clock tick (mostly 10 ms).
    pub cpu_from: Source,
    /// Bytes read from and written to block devices, and where that comes from; `None` where the
    /// kernel does not tell. What is written to files and not yet to the device counts for
    /// processes, and not for groups.
    pub io: Option<(u64, u64, Source)>,
}

/// What a target has used until now. Where its control group does not say, the processes that
/// belong to it are looked up again.
pub fn usage(root: &FsRoot, found: &mut Found) -> Usage {
    let exact = || found.groups.iter().filter(|group| group.is_exact);
    let cpu = exact().find_map(|group| cpu_of_group(root, group));
    let io = exact().find_map(|group| io_of_group(root, group));
    if let (Some((cpu, cpu_from)), Some(_)) = (cpu, io) {
        return Usage { cpu, cpu_from, io };
    }
    let (processes, _) = found.members.look(root, &Settled::new());
    let (cpu, cpu_from) = cpu.unwrap_or_else(|| {
        (processes.iter().map(|one| cpu_of_process(root, one)).sum(), Source::Processes)
    });
    Usage { cpu, cpu_from, io: io.or_else(|| io_of_processes(root, &processes)) }
}

fn cpu_of_group(root: &FsRoot, group: &Group) -> Option<(Duration, Source)> {
    if group.is_v2() {
        let text = root.read_opt(group.folder.join("cpu.stat"))?;
        let us =
            text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok())?;
        return Some((Duration::from_micros(us), Source::CgroupV2));
    }
    let ns = root.parse_opt(group.folder.join("cpuacct.usage")).filter(|_| group.has("cpuacct"))?;
    Some((Duration::from_nanos(ns), Source::CgroupV1))
}

// Of its threads that live, to the nanosecond, or of those that have ended too, by ticks, whatever
// is more; and of the children that it has waited for.
fn cpu_of_process(root: &FsRoot, process: &Process) -> Duration {
    let pid = process.pid();
    let of_thread = |tid: &u32| -> Option<u64> {
        let text = root.read_opt(format!("/proc/{pid}/task/{tid}/schedstat"))?;
        text.split(' ').next()?.parse().ok()
    };
    let fine: u64 = threads(root, pid).iter().filter_map(of_thread).sum();
    let stat = root.read_opt(format!("/proc/{pid}/stat")).unwrap_or_default();
    let [user, system, waited_user, waited_system] = ticks(&stat).unwrap_or_default();
    let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(fine.max((user + system) * tick) + (waited_user + waited_system) * tick)
}

/// Clock ticks of CPU time that a process itself has used.
pub(super) fn own_ticks(root: &FsRoot, pid: u32) -> Option<u64> {
    let [user, system, ..] = ticks(&root.read_opt(format!("/proc/{pid}/stat"))?)?;
    Some(user + system)
}

/// Bytes that a process has written to files on disks; `None` where the kernel does not tell.
pub(super) fn written(root: &FsRoot, pid: u32) -> Option<u64> {
    field(&root.read_opt(format!("/proc/{pid}/io"))?, "write_bytes")?.parse().ok()
}

// Fields 14 to 17.
fn ticks(stat: &str) -> Option<[u64; 4]> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11).map(|field| field.parse::<u64>().ok());
    Some([fields.next()??, fields.next()??, fields.next()??, fields.next()??])
}

fn io_of_group(root: &FsRoot, group: &Group) -> Option<(u64, u64, Source)> {
    let all = io_by_device(root, group)?;
    let (read, written) =
        all.iter().fold((0, 0), |(read, written), one| (read + one.read, written + one.written));
    Some((read, written, if group.is_v2() { Source::CgroupV2 } else { Source::CgroupV1 }))
}

/// What a control group has read from a block device and written to it, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceIo {
    /// Its number, such as `8:0`.
    pub device: String,
    /// Read from it.
    pub read: u64,
    /// Written to it.
    pub written: u64,
}

/// The same by device, as the group counts it; `None` where the kernel does not tell.
pub fn io_by_device(root: &FsRoot, group: &Group) -> Option<Vec<DeviceIo>> {
    let mut all: Vec<DeviceIo> = Vec::new();
    let mut add = |device: &str, read: u64, written: u64| match all
        .iter_mut()
        .find(|one| one.device == device)
    {
        Some(one) => (one.read, one.written) = (one.read + read, one.written + written),
        None => all.push(DeviceIo { device: device.into(), read, written }),
    };
    if group.is_v2() {
        // `8:0 rbytes=4096 wbytes=0 rios=1 ...`
        for line in root.read_opt(group.folder.join("io.stat"))?.lines() {
            let mut words = line.split_whitespace();
            let Some(device) = words.next() else { continue };
            for (key, value) in words.filter_map(|word| word.split_once('=')) {
                let value = value.parse().unwrap_or(0);
                match key {
                    "rbytes" => add(device, value, 0),
                    "wbytes" => add(device, 0, value),
                    _ => {}
                }
            }
        }
        return Some(all);
    }
    let file = group.folder.join("blkio.throttle.io_service_bytes_recursive");
    let text = root.read_opt(file).filter(|_| group.has("blkio"))?;
    // `8:0 Read 4096`, and a sum that has no device.
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [device, "Read", bytes] => add(device, bytes.parse().unwrap_or(0), 0),
            [device, "Write", bytes] => add(device, 0, bytes.parse().unwrap_or(0)),
            _ => {}
        }
    }
    Some(all)
}

fn io_of_processes(root: &FsRoot, processes: &[Process]) -> Option<(u64, u64, Source)> {
    let (mut read, mut written, mut any) = (0, 0, false);
    for process in processes {
        let Some(text) = root.read_opt(format!("/proc/{}/io", process.pid())) else { continue };
        let value =
            |key| field(&text, key).and_then(|value| value.parse::<u64>().ok()).unwrap_or_default();
        any = true;
        read += value("read_bytes");
        written += value("write_bytes");
    }
    any.then_some((read, written, Source::Processes))
}
