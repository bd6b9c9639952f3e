//! Time for short measurements: the time-stamp counter where it counts evenly, else the kernel.
//!
//! Reading the TSC costs some 10 ns against some 25 ns for `CLOCK_MONOTONIC`, and its step can be
//! coarse (26 ticks were seen): operations of tens of ns are to be timed in batches either way.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use raw_cpuid::CpuId;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::features::has_cpuinfo_flag;
pub use crate::raw::tsc;
use crate::root::FsRoot;

/// What a [`Clock`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The time-stamp counter.
    Tsc,
    /// `CLOCK_MONOTONIC`, in ns.
    Monotonic,
}

/// A clock with its scale.
///
/// ```
/// use ringfence_machine::clock::Clock;
/// let clock = Clock::host();
/// let start = clock.now();
/// let spent_ns = clock.ns(clock.now() - start);
/// assert!(spent_ns >= 0.0);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    source: Source,
    ns_per_tick: f64,
    why: String,
}

/// What speaks for a TSC that counts evenly, on all CPUs, in every power state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TscEvidence {
    /// CPUID 8000_0007H:EDX bit 8, "invariant TSC" (SDM vol. 2A, table 3-8). Hypervisors
    /// often hide it. Of another machine, what the flags in its `/proc/cpuinfo` say of it.
    pub cpuid_bit: bool,
    /// The kernel's current clocksource. It watches the TSC and leaves it once it drifts, so
    /// `tsc` here is evidence too.
    pub clocksource: Option<String>,
}

impl TscEvidence {
    /// Asks this CPU, and the kernel's files below `root`.
    pub fn gather(root: &FsRoot) -> Self {
        // Linux sets both by that bit (`early_init_intel`, `early_init_amd`).
        let flags =
            || ["constant_tsc", "nonstop_tsc"].iter().all(|flag| has_cpuinfo_flag(root, flag));
        Self {
            cpuid_bit: if root.is_host() { cpuid_invariant() } else { flags() },
            clocksource: root
                .read_opt("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        }
    }

    /// Whether the TSC may be used as a clock.
    pub fn holds(&self) -> bool {
        self.cpuid_bit || self.clocksource.as_deref() == Some("tsc")
    }

    fn why(&self) -> String {
        let kernel = self.clocksource.as_deref().unwrap_or("unknown");
        match (self.cpuid_bit, self.holds()) {
            (true, _) => {
                format!("CPUID reports an invariant TSC; the kernel's clocksource is {kernel}")
            }
            (false, true) => {
                "CPUID does not report an invariant TSC, but the kernel uses the TSC as its clock"
                    .into()
            }
            (false, false) => {
                format!(
                    "CPUID does not report an invariant TSC, and the kernel's clock is {kernel}"
                )
            }
        }
    }
}

impl Clock {
    /// The clock of this machine, calibrated over 20 ms at the first call.
    pub fn host() -> &'static Clock {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        CLOCK.get_or_init(|| {
            Clock::new(&TscEvidence::gather(&FsRoot::host()), Duration::from_millis(20))
        })
    }

    /// The TSC, calibrated for `calibration`, if the evidence holds; `CLOCK_MONOTONIC` otherwise.
    pub fn new(evidence: &TscEvidence, calibration: Duration) -> Self {
        let why = evidence.why();
        if !evidence.holds() {
            return Self { source: Source::Monotonic, ns_per_tick: 1.0, why };
        }
        Self { source: Source::Tsc, ns_per_tick: calibrate(calibration), why }
    }

    /// What is read.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Why it is this source and no other, in a sentence.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Length of a tick in ns.
    pub fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    /// The time now, in ticks since some moment before. Loads and stores before it in program
    /// order are not reordered past it where they are loads; use a fence for stores.
    #[inline]
    pub fn now(&self) -> u64 {
        match self.source {
            Source::Tsc => tsc(),
            Source::Monotonic => monotonic_ns(),
        }
    }

    /// A number of ticks in ns.
    #[inline]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }
}

/// `CLOCK_MONOTONIC` in ns.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn cpuid_invariant() -> bool {
    CpuId::new().get_advanced_power_mgmt_info().is_some_and(|info| info.has_invariant_tsc())
}

/// ns per TSC tick: two readings of both clocks, each the tightest of several so that an
/// interrupt between the two clocks does not count.
fn calibrate(length: Duration) -> f64 {
    let both = || {
        (0..16)
            .map(|_| {
                let before = tsc();
                let ns = monotonic_ns();
                let after = tsc();
                (after - before, before + (after - before) / 2, ns)
            })
            .min()
            .map(|(_, ticks, ns)| (ticks, ns))
            .unwrap_or_default()
    };
    let (ticks_0, ns_0) = both();
    let started = Instant::now();
    while started.elapsed() < length.max(Duration::from_millis(1)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (ticks_1, ns_1) = both();
    (ns_1 - ns_0) as f64 / (ticks_1 - ticks_0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_back_and_says_so() {
        let evidence = TscEvidence { cpuid_bit: false, clocksource: Some("kvm-clock".into()) };
        let clock = Clock::new(&evidence, Duration::from_millis(1));
        assert_eq!(clock.source(), Source::Monotonic);
        assert!(clock.why().contains("kvm-clock"));
        assert_eq!(clock.ns(7), 7.0);
        assert!(clock.now() <= clock.now());
    }

    #[test]
    fn the_kernels_word_is_enough() {
        let evidence = TscEvidence { cpuid_bit: false, clocksource: Some("tsc".into()) };
        assert!(evidence.holds());
        let clock = Clock::new(&evidence, Duration::from_millis(1));
        assert_eq!(clock.source(), Source::Tsc);
        assert!(clock.ns_per_tick() > 0.0 && clock.ns_per_tick() < 100.0);
    }
}
