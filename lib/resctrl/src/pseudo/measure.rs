//! The kernel's own measurements of a locked region: debugfs triggers them, trace events carry the
//! values (kernel documentation, x86/resctrl, "Cache Pseudo-Locking Debugging Interface").

use std::fs;
use std::path::PathBuf;

use ringfence_system::root::FsRoot;

use crate::error::{Error, Refused};
use crate::group::Group;
use crate::mode::Mode;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The time of each read, at a stride of 32 bytes, with the prefetchers off.
    Latency,
    /// Hits and misses in the L2 of one pass over the region, line by line.
    L2,
    /// The same in the L3.
    L3,
}

/// A measurement of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measured {
    /// Cycles of the TSC for each read, in order of address.
    Latency(Vec<u32>),
    /// Of a pass over the region.
    Residency {
        /// Lines found in the cache.
        hits: u64,
        /// Lines not found there.
        misses: u64,
    },
}

impl What {
    fn selector(self) -> &'static str {
        match self {
            What::Latency => "1\n",
            What::L2 => "2\n",
            What::L3 => "3\n",
        }
    }

    fn event(self) -> &'static str {
        match self {
            What::Latency => "pseudo_lock_mem_latency",
            What::L2 => "pseudo_lock_l2",
            What::L3 => "pseudo_lock_l3",
        }
    }
}

/// Makes the kernel measure the region of a group. This needs root, debugfs and tracefs. It uses a
/// temporary trace instance, so that other tracing is not disturbed.
///
/// # Errors
/// What is missing; or that the kernel counted nothing, as without performance counters.
pub fn measure(root: &FsRoot, group: &Group, what: What) -> Result<Measured, Error> {
    if group.mode()? != Some(Mode::PseudoLocked) {
        return Err(Error::Usage(format!(
            "{} is not a pseudo-locked region: there is nothing to measure",
            group.id()
        )));
    }
    let trigger = format!("/sys/kernel/debug/resctrl/{}/pseudo_lock_measure", group.id().name());
    let missing = "the kernel's measurements need root and debugfs: mount -t debugfs debugfs \
                   /sys/kernel/debug";
    if !root.exists(&trigger) {
        let source = std::io::Error::from_raw_os_error(libc::ENOENT);
        let refused = Refused::new(format!("looking for {trigger}"), source, None);
        return Err(refused.unless_said(|_| Some(missing.to_owned())).into());
    }
    let reads = group.size()?.first().map_or(0, |size| size.amount / 32);
    let instance = Instance::new(root)?;
    // Events of 24 bytes at most, and as much again for the pages' own headers.
    instance.write("buffer_size_kb", &format!("{}\n", (reads * 48 / 1024).max(1024)))?;
    instance.write(&format!("events/resctrl/{}/enable", what.event()), "1\n")?;
    write(root.path(&trigger), what.selector())?;
    instance.write(&format!("events/resctrl/{}/enable", what.event()), "0\n")?;
    read(&instance.text("trace")?, what, reads).map_err(|why| match why == UNCOUNTED {
        true => Error::Usage(why),
        false => {
            Error::Content { path: instance.path("trace"), text: what.event().to_owned(), why }
        }
    })
}

const UNCOUNTED: &str = "misses are not counted, because the kernel has no performance counters \
                         here: it counted \
                         nothing, neither hits nor misses";

/// The values in a trace.
pub(super) fn read(trace: &str, what: What, reads: u64) -> Result<Measured, String> {
    let marker = format!(" {}: ", what.event());
    let mut events = trace.lines().filter_map(|line| Some(line.split_once(&*marker)?.1));
    let value = |event: &str, key: &str| -> Result<u64, String> {
        let found =
            event.split_whitespace().find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
        found.and_then(|text| text.parse().ok()).ok_or_else(|| format!("'{event}' has no {key}"))
    };
    match what {
        What::Latency => {
            let cycles = events.map(|event| value(event, "latency").map(|cycles| cycles as u32));
            let cycles: Vec<u32> = cycles.collect::<Result<_, _>>()?;
            if cycles.len() as u64 != reads {
                return Err(format!("it holds {} events, expected {reads}", cycles.len()));
            }
            Ok(Measured::Latency(cycles))
        }
        What::L2 | What::L3 => {
            let event = events.next_back().ok_or(UNCOUNTED)?;
            match (value(event, "hits")?, value(event, "miss")?) {
                (0, 0) => Err(UNCOUNTED.into()),
                (hits, misses) => Ok(Measured::Residency { hits, misses }),
            }
        }
    }
}

fn write(path: PathBuf, text: &str) -> Result<(), Error> {
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        .map_err(|source| {
            Refused::new(format!("writing '{}' to {}", text.trim(), path.display()), source, None)
                .into()
        })
}

/// A trace buffer of its own; removed on drop.
struct Instance {
    folder: PathBuf,
}

impl Instance {
    fn new(root: &FsRoot) -> Result<Self, Error> {
        let name = format!("instances/ringfence-{}", std::process::id());
        let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        // Where it is mounted, and not the folder alone that is there to mount it at.
        let base = places.into_iter().find(|place| root.exists(format!("{place}/instances")));
        let base = base.unwrap_or("/sys/kernel/tracing");
        let folder = root.path(format!("{base}/{name}"));
        match fs::create_dir(&folder) {
            Ok(()) => Ok(Self { folder }),
            Err(source) => {
                let remedy = |errno| {
                    (errno == libc::ENOENT)
                        .then(|| "mount -t tracefs tracefs /sys/kernel/tracing, as root".to_owned())
                };
                let tried = format!("making a trace instance {}", folder.display());
                Err(Refused::new(tried, source, None).unless_said(remedy).into())
            }
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        write(self.path(file), text)
    }

    fn text(&self, file: &str) -> Result<String, Error> {
        let path = self.path(file);
        let read = fs::read_to_string(&path);
        read.map_err(|source| {
            Refused::new(format!("reading {}", path.display()), source, None).into()
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
