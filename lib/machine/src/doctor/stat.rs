//! How CPUs spent their time, from two readings of `/proc/stat`.

use std::collections::BTreeMap;

use crate::cpulist::CpuId;
use crate::root::{FsRoot, RootError};

/// Clock ticks that a CPU has spent, since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// Ticks in all states.
    pub total: u64,
    /// Ticks idle or waiting for I/O.
    pub idle: u64,
    /// Ticks in which the hypervisor ran something else while this CPU was ready to run.
    pub steal: u64,
}

/// One reading of `/proc/stat`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatSnapshot {
    /// By CPU; offline CPUs are missing.
    pub cpus: BTreeMap<CpuId, CpuTimes>,
}

/// What a CPU did between two readings, as shares of the time between them (0 to 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Share that was not idle.
    pub busy: f64,
    /// Share that was stolen.
    pub steal: f64,
}

impl StatSnapshot {
    /// Reads `/proc/stat` below `root`.
    pub fn read(root: &FsRoot) -> Result<Self, RootError> {
        Ok(Self::parse(&root.read_trimmed("/proc/stat")?))
    }

    /// The fields are user, nice, system, idle, iowait, irq, softirq, steal, guest and
    /// guest_nice, proc_stat(5); the last two are contained in user and nice.
    fn parse(text: &str) -> Self {
        let cpu = |line: &str| {
            let (name, rest) = line.split_once(' ')?;
            let id = name.strip_prefix("cpu")?.parse().ok()?;
            let ticks: Vec<u64> =
                rest.split_whitespace().take(8).map_while(|text| text.parse().ok()).collect();
            let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
            Some((id, CpuTimes { total: ticks.iter().sum(), idle: at(3) + at(4), steal: at(7) }))
        };
        Self { cpus: text.lines().filter_map(cpu).collect() }
    }

    /// What each CPU did from this reading to `later`. CPUs whose clock did not tick are left out.
    pub fn until(&self, later: &StatSnapshot) -> BTreeMap<CpuId, Usage> {
        let usage = |(cpu, after): (&CpuId, &CpuTimes)| {
            let before = self.cpus.get(cpu)?;
            // The kernel's counts of idle time can step back a little.
            let total = after.total.checked_sub(before.total).filter(|&ticks| ticks > 0)? as f64;
            let idle = after.idle.saturating_sub(before.idle) as f64;
            let steal = after.steal.saturating_sub(before.steal) as f64;
            Some((
                *cpu,
                Usage {
                    busy: (1.0 - idle / total).clamp(0.0, 1.0),
                    steal: (steal / total).min(1.0),
                },
            ))
        };
        later.cpus.iter().filter_map(usage).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_between_two_readings() {
        let before = StatSnapshot::parse(
            "cpu  9 9 9 9\ncpu0 100 0 100 800 0 0 0 0 7 0\ncpu1 0 0 0 100 0 0 0 0",
        );
        let after =
            StatSnapshot::parse("cpu0 130 0 120 840 0 0 0 10 9 0\ncpu1 0 0 0 100 0 0 0 0\nintr 5");
        let usage = before.until(&after);
        assert_eq!(usage.len(), 1, "CPU 1 did not tick");
        assert!((usage[&0].busy - 0.6).abs() < 1e-9 && (usage[&0].steal - 0.1).abs() < 1e-9);
    }

    #[test]
    fn time_that_runs_backwards_is_no_panic() {
        let before = StatSnapshot::parse("cpu0 100 0 0 800 0 0 0 5");
        let after = StatSnapshot::parse("cpu0 200 0 0 790 0 0 0 4");
        assert_eq!(before.until(&after)[&0].busy, 1.0);
        assert!(after.until(&before).is_empty());
    }
}
