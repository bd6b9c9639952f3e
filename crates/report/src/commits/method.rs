//! How a commit is made, in words, and as the calls that make it.

use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Commit, Io, Layout, Sync, Task};

/// The call and what it goes through: `fdatasync with O_DIRECT`.
pub(crate) fn how(task: &Commit) -> String {
    let sync = match task.sync {
        Sync::Fsync => "fsync",
        Sync::Fdatasync => "fdatasync",
        Sync::OSync => "O_SYNC",
        Sync::ODsync => "O_DSYNC",
        Sync::RwfDsync => "RWF_DSYNC",
        Sync::Msync => "msync",
        Sync::Uring => "io_uring",
        Sync::None => "no sync (not durable)",
        Sync::RangeWrite => "sync_file_range, no wait (not durable)",
        Sync::RangeWait => "sync_file_range (not durable)",
    };
    format!("{sync}{}", through(task.io))
}

/// What it goes through, after the call: ` with O_DIRECT`; nothing for the page cache.
pub(crate) fn through(io: Io) -> &'static str {
    match io {
        Io::Buffered => "",
        Io::Direct => " with O_DIRECT",
        Io::Dontcache => " with RWF_DONTCACHE",
        Io::Atomic => " with RWF_ATOMIC",
        Io::Mmap => " of a mapping",
    }
}

/// The whole method: `fdatasync, overwriting, 16 records a commit`.
pub(crate) fn named(task: &Commit) -> String {
    let batch = match task.batch {
        1 => String::new(),
        batch => format!(", {batch} records a commit"),
    };
    format!("{}, {}{batch}", how(task), onto(task.layout))
}

/// The method of a case, where that tells it from every other case.
pub(crate) fn of_case(plan: &Plan, case: usize) -> Option<String> {
    let named = |case: usize| match plan.metric_task(case) {
        Task::Commit(task) => Some(named(task)),
        _ => None,
    };
    let own = named(case)?;
    let alike = (0..plan.cases.len()).filter(|other| named(*other).as_ref() == Some(&own)).count();
    (alike == 1).then_some(own)
}

/// What it is written onto.
pub(crate) fn onto(layout: Layout) -> &'static str {
    match layout {
        Layout::Append => "appending",
        Layout::KeepSize => "appending to reserved blocks",
        Layout::Allocated => "into reserved blocks",
        Layout::Written => "overwriting",
    }
}

/// The calls that a program makes.
pub(crate) fn calls(task: &Commit) -> String {
    let flags: Vec<&str> = [
        matches!(task.io, Io::Direct | Io::Atomic).then_some("O_DIRECT"),
        (task.sync == Sync::OSync).then_some("O_SYNC"),
        (task.sync == Sync::ODsync).then_some("O_DSYNC"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let of_call: Vec<&str> = [
        (task.io == Io::Dontcache).then_some("RWF_DONTCACHE"),
        (task.io == Io::Atomic).then_some("RWF_ATOMIC"),
        (task.sync == Sync::RwfDsync).then_some("RWF_DSYNC"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let write = match (task.io, &of_call[..]) {
        (Io::Mmap, _) => "memcpy(mapping)".to_owned(),
        (_, []) => "pwrite(fd)".into(),
        (_, flags) => format!("pwritev2(fd, {})", flags.join(" | ")),
    };
    let sync = match task.sync {
        Sync::Fsync => Some("fsync(fd)"),
        Sync::Fdatasync => Some("fdatasync(fd)"),
        Sync::Msync => Some("msync(mapping, MS_SYNC)"),
        Sync::RangeWrite => Some("sync_file_range(fd, SYNC_FILE_RANGE_WRITE)"),
        Sync::RangeWait => Some("sync_file_range(fd) with all three flags"),
        Sync::OSync | Sync::ODsync | Sync::RwfDsync | Sync::None => None,
        Sync::Uring => Some("linked IORING_OP_FSYNC (IORING_FSYNC_DATASYNC)"),
    };
    let write = match (task.sync, &of_call[..]) {
        (Sync::Uring, []) => "io_uring: IORING_OP_WRITE".to_owned(),
        (Sync::Uring, flags) => format!("io_uring: IORING_OP_WRITE ({})", flags.join(" | ")),
        _ => write,
    };
    let open = (!flags.is_empty()).then(|| format!("open({})", flags.join(" | ")));
    let parts = open.into_iter().chain([write]).chain(sync.map(String::from));
    parts.collect::<Vec<_>>().join("; ")
}

/// How much a program has to do for it: less is plainer.
pub(crate) fn effort(task: &Commit) -> u32 {
    let sync = match task.sync {
        Sync::Fsync | Sync::Fdatasync => 0,
        Sync::OSync | Sync::ODsync | Sync::RwfDsync => 1,
        Sync::Msync => 2,
        _ => 3,
    };
    let io = match task.io {
        Io::Buffered => 0,
        Io::Dontcache => 1,
        Io::Direct | Io::Mmap => 2,
        Io::Atomic => 3,
    };
    let layout = match task.layout {
        Layout::Append => 0,
        Layout::Written => 1,
        Layout::KeepSize | Layout::Allocated => 2,
    };
    sync + io + layout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_sync_has_its_calls() {
        let of = |sync, io| calls(&Commit { sync, io, ..Commit::default() });
        for (sync, io, text) in [
            (Sync::Fdatasync, Io::Buffered, "pwrite(fd); fdatasync(fd)"),
            (Sync::Fsync, Io::Direct, "open(O_DIRECT); pwrite(fd); fsync(fd)"),
            (Sync::ODsync, Io::Direct, "open(O_DIRECT | O_DSYNC); pwrite(fd)"),
            (Sync::OSync, Io::Buffered, "open(O_SYNC); pwrite(fd)"),
            (Sync::RwfDsync, Io::Dontcache, "pwritev2(fd, RWF_DONTCACHE | RWF_DSYNC)"),
            (Sync::Msync, Io::Mmap, "memcpy(mapping); msync(mapping, MS_SYNC)"),
            (
                Sync::Uring,
                Io::Direct,
                "open(O_DIRECT); io_uring: IORING_OP_WRITE; linked IORING_OP_FSYNC \
                 (IORING_FSYNC_DATASYNC)",
            ),
            (Sync::None, Io::Buffered, "pwrite(fd)"),
        ] {
            assert_eq!(of(sync, io), text);
        }
    }

    #[test]
    fn words_have_no_equals_sign() {
        for sync in Sync::ALL {
            for io in Io::ALL {
                for layout in Layout::ALL {
                    let task = Commit { sync, io, layout, ..Commit::default() };
                    assert!(
                        !format!("{}{}{}", how(&task), onto(layout), calls(&task)).contains('=')
                    );
                }
            }
        }
    }
}
