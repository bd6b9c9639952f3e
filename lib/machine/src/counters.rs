//! Hardware counters of a process, or the reason why there are none.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::root::FsRoot;

/// Why there are no hardware counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// What is the matter.
    pub reason: String,
    /// The error of `perf_event_open`, if it was called.
    pub errno: Option<i32>,
    /// What would help.
    pub remedy: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no hardware counters: {}", self.reason)?;
        if let Some(errno) = self.errno {
            write!(f, " ({})", std::io::Error::from_raw_os_error(errno))?;
        }
        write!(f, "; {}", self.remedy)
    }
}

impl std::error::Error for Unavailable {}

impl Unavailable {
    /// Explains an errno of `perf_event_open` by what the kernel's files say. Its meanings are
    /// in perf_event_open(2).
    pub fn explain(root: &FsRoot, errno: i32) -> Self {
        let paranoid = root.parse_opt::<i32>("/proc/sys/kernel/perf_event_paranoid");
        let (reason, remedy) = match errno {
            libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV if !has_pmu(root) => (
                "this machine shows no PMU, as most virtual machines do not".to_string(),
                "run on the bare machine, or give the guest a virtual PMU (KVM: -cpu host,pmu=on)",
            ),
            libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV => (
                "the PMU does not count this event".to_string(),
                "measure without counters on this processor",
            ),
            libc::EACCES | libc::EPERM => match paranoid {
                Some(level) if level > 2 => (
                    format!("kernel.perf_event_paranoid is {level}, which forbids them to users"),
                    "sysctl kernel.perf_event_paranoid=1, or grant CAP_PERFMON",
                ),
                Some(level) if level > 1 => (
                    format!("perf_event_open is refused; kernel.perf_event_paranoid is {level}"),
                    "grant CAP_PERFMON; in a container, also allow perf_event_open in its seccomp \
                     profile",
                ),
                _ => (
                    "perf_event_open is refused, as the seccomp profile of containers does"
                        .to_string(),
                    "allow perf_event_open in the container's seccomp profile and grant \
                     CAP_PERFMON",
                ),
            },
            libc::ENOSYS => (
                "this kernel or sandbox has no perf_event_open".to_string(),
                "run outside of the sandbox, on a kernel with CONFIG_PERF_EVENTS",
            ),
            libc::ESRCH => ("the process has ended".to_string(), "name a running process"),
            libc::EMFILE => ("this process has too many open files".to_string(), "raise ulimit -n"),
            _ => ("perf_event_open failed".to_string(), "see perf_event_open(2) for this error"),
        };
        Self { reason, errno: Some(errno), remedy: remedy.to_string() }
    }

    /// What can be foretold from the kernel's files alone, without asking for a counter.
    pub fn foretell(root: &FsRoot) -> Result<(), Self> {
        if !has_pmu(root) {
            return Err(Self { errno: None, ..Self::explain(root, libc::ENOENT) });
        }
        match root.parse_opt::<i32>("/proc/sys/kernel/perf_event_paranoid") {
            Some(level) if level > 2 => {
                Err(Self { errno: None, ..Self::explain(root, libc::EACCES) })
            }
            _ => Ok(()),
        }
    }
}

/// `cpu` on ordinary processors, `cpu_core` and `cpu_atom` on hybrid ones.
fn has_pmu(root: &FsRoot) -> bool {
    ["cpu", "cpu_core", "cpu_atom"]
        .iter()
        .any(|name| root.exists(format!("/sys/bus/event_source/devices/{name}")))
}

/// The counted events. A counter that this processor lacks is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Core cycles in user mode.
    pub cycles: Option<u64>,
    /// Instructions retired in user mode.
    pub instructions: Option<u64>,
    /// Misses of the last-level cache, as the kernel's generic event counts them.
    pub cache_misses: Option<u64>,
    /// Loads that looked in the last-level cache.
    pub llc_loads: Option<u64>,
    /// Loads that missed it.
    pub llc_load_misses: Option<u64>,
    /// The share of the time that the counters ran (1 unless there were too few of them); the
    /// counts are already scaled up by it.
    pub running: f64,
}

#[cfg(feature = "perf")]
pub use open::Counters;

#[cfg(feature = "perf")]
mod open {
    use std::io;

    use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};
    use perf_event::{Builder, Counter, ReadFormat};

    use super::{Counts, Unavailable};
    use crate::root::FsRoot;

    /// Counters attached to a process and its future threads and children, user mode only.
    ///
    /// ```
    /// use ringfence_machine::counters::Counters;
    /// match Counters::of_this_process() {
    ///     Ok(mut counters) => {
    ///         counters.start().unwrap();
    ///         assert!(counters.read().unwrap().cycles.is_some());
    ///     }
    ///     Err(unavailable) => println!("{unavailable}"),
    /// }
    /// ```
    #[derive(Debug)]
    pub struct Counters {
        cycles: Counter,
        instructions: Option<Counter>,
        cache_misses: Option<Counter>,
        llc_loads: Option<Counter>,
        llc_load_misses: Option<Counter>,
    }

    impl Counters {
        /// Whether this process may count its own cycles.
        pub fn available() -> Result<(), Unavailable> {
            Self::of_this_process().map(drop)
        }

        /// Counters of the calling thread, and of threads and children that it starts later.
        pub fn of_this_process() -> Result<Self, Unavailable> {
            Self::open(0)
        }

        /// Counters of the main thread of process `pid`, and of threads and children that it
        /// starts later.
        pub fn of(pid: i32) -> Result<Self, Unavailable> {
            Self::open(pid)
        }

        fn open(pid: i32) -> Result<Self, Unavailable> {
            let last_level =
                |result| Cache { which: CacheId::LL, operation: CacheOp::READ, result };
            let cycles = build(Builder::new(Hardware::CPU_CYCLES), pid).map_err(|error| {
                Unavailable::explain(&FsRoot::host(), error.raw_os_error().unwrap_or(libc::EIO))
            })?;
            Ok(Self {
                cycles,
                // Some processors lack some of the generic events.
                instructions: build(Builder::new(Hardware::INSTRUCTIONS), pid).ok(),
                cache_misses: build(Builder::new(Hardware::CACHE_MISSES), pid).ok(),
                llc_loads: build(Builder::new(last_level(CacheResult::ACCESS)), pid).ok(),
                llc_load_misses: build(Builder::new(last_level(CacheResult::MISS)), pid).ok(),
            })
        }

        fn all(&mut self) -> impl Iterator<Item = &mut Counter> {
            let optional = [
                &mut self.instructions,
                &mut self.cache_misses,
                &mut self.llc_loads,
                &mut self.llc_load_misses,
            ];
            std::iter::once(&mut self.cycles).chain(optional.into_iter().flatten())
        }

        /// Counts from zero.
        pub fn start(&mut self) -> io::Result<()> {
            self.all().try_for_each(|counter| {
                counter.reset()?;
                counter.enable()
            })
        }

        /// Stops counting; the counts stay.
        pub fn stop(&mut self) -> io::Result<()> {
            self.all().try_for_each(Counter::disable)
        }

        /// The counts since [`Counters::start`].
        pub fn read(&mut self) -> io::Result<Counts> {
            let (cycles, running) = scaled(&mut self.cycles)?;
            let value = |counter: &mut Option<Counter>| match counter {
                Some(counter) => scaled(counter).map(|(count, _)| count),
                None => Ok(None),
            };
            Ok(Counts {
                cycles,
                instructions: value(&mut self.instructions)?,
                cache_misses: value(&mut self.cache_misses)?,
                llc_loads: value(&mut self.llc_loads)?,
                llc_load_misses: value(&mut self.llc_load_misses)?,
                running,
            })
        }
    }

    fn build(mut builder: Builder<'_>, pid: i32) -> io::Result<Counter> {
        builder
            .observe_pid(pid)
            .any_cpu()
            .inherit(true)
            .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
        builder.build()
    }

    /// The count and the share of time that the counter ran. The kernel takes turns where there
    /// are more counters than the processor has.
    fn scaled(counter: &mut Counter) -> io::Result<(Option<u64>, f64)> {
        let data = counter.read_full()?;
        let nanos =
            |time: Option<std::time::Duration>| time.map_or(0.0, |time| time.as_nanos() as f64);
        let (enabled, running) = (nanos(data.time_enabled()), nanos(data.time_running()));
        if running == 0.0 {
            return Ok((None, 0.0));
        }
        Ok((Some((data.count() as f64 * enabled / running) as u64), running / enabled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn reasons_by_errno() {
        let explain =
            |tree: &fixtures::FixtureTree, errno| Unavailable::explain(&tree.root(), errno);
        let vm = fixtures::vm_2cpu();
        assert!(explain(&vm, libc::ENOENT).reason.contains("no PMU"));
        assert!(explain(&vm, libc::EOPNOTSUPP).reason.contains("no PMU"));
        let xeon = fixtures::xeon_2s64t();
        assert!(explain(&xeon, libc::ENOENT).reason.contains("this event"));
        assert!(explain(&xeon, libc::EACCES).remedy.contains("seccomp"));
        let container = fixtures::one_cpu();
        let denied = explain(&container, libc::EACCES);
        assert!(denied.reason.contains("perf_event_paranoid is 4"));
        assert!(denied.to_string().contains("os error 13"), "{denied}");
    }

    #[test]
    fn foretold_from_files() {
        assert!(Unavailable::foretell(&fixtures::xeon_2s64t().root()).is_ok());
        assert!(Unavailable::foretell(&fixtures::hybrid_laptop().root()).is_ok());
        assert!(
            Unavailable::foretell(&fixtures::vm_2cpu().root())
                .unwrap_err()
                .reason
                .contains("no PMU")
        );
        let container = Unavailable::foretell(&fixtures::one_cpu().root()).unwrap_err();
        assert!(container.reason.contains("is 4") && container.errno.is_none());
    }

    #[cfg(feature = "perf")]
    #[test]
    fn counts_or_says_why_not() {
        match Counters::of_this_process() {
            Ok(mut counters) => {
                counters.start().unwrap();
                let sum: u64 = (0..std::hint::black_box(100_000u64)).sum();
                std::hint::black_box(sum);
                counters.stop().unwrap();
                assert!(counters.read().unwrap().cycles.is_none_or(|cycles| cycles > 0));
            }
            Err(unavailable) => {
                ringfence_testbed::skip_here("counting", &unavailable.to_string());
                assert!(unavailable.errno.is_some() && !unavailable.remedy.is_empty());
            }
        }
    }
}
