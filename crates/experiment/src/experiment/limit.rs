//! Limits: what a role may use while an arm runs.
//!
//! A kind of limit is a row of [`limits!`], and what differs from the others in the functions below
//! it. How it is applied is in the crate `ringfence-limits`.

use std::collections::BTreeMap;
use std::fmt;

use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::units::Bytes;
use ringfence_resctrl::{GroupId, Schemata};
use serde::{Deserialize, Serialize};

use super::{Arm, Freezing};
use crate::Reason;
use crate::io_priority::IoPriority;
use crate::one_or_many::OneOrMany;
use crate::system::SystemSetting;
use crate::task::Settings;
use crate::units::{Rate, Share};

// For each kind: the key of its table in a file, its name, and the type of its value.
macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $key:ident: $name:ident($value:ty),)+) => {
        /// A limit of a role while an arm runs. Kinds are in the order in which they are written.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Limit {
            $($(#[doc = $doc])+ $name($value),)+
        }

        impl Limit {
            const KEYS: &[&str] = &[$(stringify!($key)),+];

            /// The key of its table in a file.
            pub fn key(&self) -> &'static str {
                match self {
                    $(Limit::$name(_) => stringify!($key),)+
                }
            }
        }

        /// An arm as it is written: with a table for each kind of limit, by role.
        #[derive(Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub(super) struct Written {
            /// Its name.
            name: String,
            /// The roles that run; the others are paused.
            active: Vec<String>,
            /// The arm it is compared with.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            baseline: Option<String>,
            /// An arm that has a window between this arm's and its baseline's.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            between: Option<String>,
            /// Parameters that roles' tasks have in this arm instead of their own, by role.
            #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
            set: BTreeMap<String, Settings>,
            /// Which of a role's tasks run in this arm, by their place in its list, from 1.
            #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
            only: BTreeMap<String, OneOrMany<u32>>,
            $(
                $(#[doc = $doc])+
                #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
                $key: BTreeMap<String, $value>,
            )+
            /// Settings of the whole system while this arm runs.
            #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
            system: BTreeMap<SystemSetting, String>,
        }

        impl From<Written> for Arm {
            fn from(written: Written) -> Self {
                let Written { name, active, baseline, between, set, only, system, .. } = written;
                let mut limits: BTreeMap<String, Vec<Limit>> = BTreeMap::new();
                $(for (role, value) in written.$key {
                    limits.entry(role).or_default().push(Limit::$name(value));
                })+
                Arm { name, active, baseline, between, set, only, limits, system }
            }
        }

        impl From<Arm> for Written {
            fn from(arm: Arm) -> Self {
                let Arm { name, active, baseline, between, set, only, limits, system } = arm;
                $(let mut $key = BTreeMap::new();)+
                for (role, limits) in limits {
                    for limit in limits {
                        match limit {
                            $(Limit::$name(value) => _ = $key.insert(role.clone(), value),)+
                        }
                    }
                }
                Written { name, active, baseline, between, set, only, $($key,)+ system }
            }
        }
    };
}

limits! {
    /// What it may use of caches and bandwidth, as resctrl's schemata. Existing groups may have
    /// this limit as well, by their names with a `/` in front (`/` itself is the default group).
    /// What is not named is as before the experiment; afterwards everything is.
    resctrl: Resctrl(Schemata),
    /// The weight of its processes against everything else that wants their CPUs, 1 to 10000, as a
    /// control group's `cpu.weight`. A group without a weight has 100, so that 10 gets a tenth of
    /// what such a group gets.
    cpu_weight: CpuWeight(u32),
    /// At most so many bytes a second that its processes, all together, write to each disk below
    /// the folder that its task uses (a program's: the current one), 256KiB/s or more, as a control
    /// group's `io.max`. It holds for what they give to the disk themselves, directly or by a sync,
    /// and not for what the kernel writes back later.
    disk_write: DiskWrite(Rate),
    /// The weight of its processes against everything else that wants their disks, 1 to 1000, as a
    /// control group's `io.bfq.weight`, or `io.weight` where its cost model is in use. A group
    /// without a weight has 100.
    disk_weight: DiskWeight(u32),
    /// A memory limit for its processes, all together and cached pages included, as a control
    /// group's `memory.high`, 1MiB or more. Processes that take more are throttled. Pages count
    /// where they were first cached.
    memory_high: MemoryHigh(Bytes),
    /// The I/O priority of its threads, `idle` or `best-effort 0` to `best-effort 7`. It holds for
    /// requests that they give to a disk themselves, where its scheduler heeds it.
    io_priority: IoPriority(IoPriority),
    /// The CPUs of running processes, set as their control group's `cpuset.cpus`: fewer than it
    /// has. A role that is started has its own CPUs (`cpus` of the role).
    cpuset: Cpuset(CpuSet),
    /// The share of their time for which running processes are paused, in slices of some
    /// milliseconds: at most what [`Freezing::share`] allows them to be paused in all.
    frozen: Frozen(Share),
}

// The largest block of a built-in writer, 16 MiB, takes a minute then; a pause waits that long for
// it.
const LEAST_RATE: Rate = Rate(Bytes::kib(256));

// Less than a program needs to make progress at all.
const LEAST_MEMORY: Bytes = Bytes::mib(1);

impl Limit {
    /// What running processes can have, in words.
    pub(crate) const OF_RUNNING: &str = "quota, cpu_weight, cpuset or disk_write";

    /// Whether running processes can have it.
    pub(crate) fn is_for_running(&self) -> bool {
        matches!(
            self,
            Limit::Resctrl(_)
                | Limit::CpuWeight(_)
                | Limit::DiskWrite(_)
                | Limit::Cpuset(_)
                | Limit::Frozen(_)
        )
    }

    /// What to use in its place for a role that is started, where only running processes can have
    /// it.
    pub(crate) fn instead_if_started(&self) -> Option<&'static str> {
        match self {
            Limit::Cpuset(_) => Some("make a role of it with other cpus"),
            Limit::Frozen(_) => Some("give it a quota"),
            _ => None,
        }
    }

    /// Why it is not simulated; none where it is.
    pub fn not_simulated(&self) -> Option<Reason> {
        let what = match self {
            Limit::Resctrl(_) => return None,
            Limit::CpuWeight(_) | Limit::Cpuset(_) => "scheduling is not",
            Limit::DiskWrite(_)
            | Limit::DiskWeight(_)
            | Limit::MemoryHigh(_)
            | Limit::IoPriority(_) => "files and disks are not",
            Limit::Frozen(_) => "running processes are not",
        };
        Some(format!("{} is not simulated, since {what}", self.key()).into())
    }

    // What is wrong with its value, if anything.
    fn problem(&self, name: &str) -> Option<String> {
        let key = self.key();
        let outside = |value: &dyn fmt::Display, range: &str| {
            Some(format!("{key}: {value} for '{name}' is not between {range}"))
        };
        match self {
            Limit::Resctrl(schemata) if schemata.settings().next().is_none() => Some(format!(
                "resctrl sets nothing for '{name}': write it as \"L3:0=f\" or \"MB:0=50\""
            )),
            Limit::CpuWeight(weight) if !(1..=10_000).contains(weight) => {
                outside(weight, "1 and 10000")
            }
            Limit::DiskWrite(rate) if *rate < LEAST_RATE => Some(format!(
                "{key}: {rate} for '{name}' is too little to measure: give at least {LEAST_RATE}"
            )),
            Limit::DiskWeight(weight) if !(1..=1000).contains(weight) => {
                outside(weight, "1 and 1000")
            }
            Limit::MemoryHigh(bytes) if *bytes < LEAST_MEMORY => Some(format!(
                "{key}: {bytes} for '{name}' is too little: give at least {LEAST_MEMORY}"
            )),
            Limit::Cpuset(cpus) if cpus.is_empty() => {
                Some(format!("{key} gives '{name}' no CPU: name some, such as \"0-3\""))
            }
            Limit::Frozen(share) if !(Freezing::LEAST_SLICED..=0.9).contains(&share.0) => {
                outside(share, "4% and 90%")
            }
            _ => None,
        }
    }

    fn rank(&self) -> Option<usize> {
        Self::KEYS.iter().position(|key| *key == self.key())
    }
}

impl Arm {
    /// Gives a role a limit, in place of one of the same kind.
    pub fn limit(&mut self, role: &str, limit: Limit) {
        let limits = self.limits.entry(role.into()).or_default();
        limits.retain(|known| known.key() != limit.key());
        limits.push(limit);
        limits.sort_by_key(Limit::rank);
    }

    /// The same with a limit of a role.
    pub fn with(mut self, role: &str, limit: Limit) -> Self {
        self.limit(role, limit);
        self
    }

    /// The limits of a role.
    pub fn limits_of(&self, role: &str) -> &[Limit] {
        self.limits.get(role).map_or(&[], Vec::as_slice)
    }

    /// All limits, with the names that have them.
    pub fn each_limit(&self) -> impl Iterator<Item = (&str, &Limit)> {
        self.limits
            .iter()
            .flat_map(|(name, limits)| limits.iter().map(|limit| (name.as_str(), limit)))
    }

    /// What it sets in resctrl, by role, or by group with a `/` in front.
    pub fn resctrl(&self) -> impl Iterator<Item = (&str, &Schemata)> {
        self.each_limit().filter_map(|(name, limit)| match limit {
            Limit::Resctrl(schemata) => Some((name, schemata)),
            _ => None,
        })
    }
}

/// What is wrong with an arm's limits or settings of the system, if anything.
pub(super) fn problem(arm: &Arm) -> Option<String> {
    let of_system = |(setting, value): (&SystemSetting, &String)| {
        setting.problem(value).map(|why| format!("system: {setting}: {why}"))
    };
    arm.each_limit()
        .find_map(|(name, limit)| stranger(arm, name, limit).or_else(|| limit.problem(name)))
        .or_else(|| arm.system.iter().find_map(of_system))
}

// Why a limit cannot be of this name: neither a role that runs nor, for resctrl, a group.
fn stranger(arm: &Arm, name: &str, limit: &Limit) -> Option<String> {
    if arm.active.iter().any(|role| role == name) {
        return None;
    }
    let key = limit.key();
    if !matches!(limit, Limit::Resctrl(_)) {
        return Some(format!("{key} names '{name}', which it does not run"));
    }
    let Some(group) = name.strip_prefix('/') else {
        return Some(format!(
            "{key} names '{name}', which it does not run: name a role that it runs, or a group \
             with a '/' in front ('/' is the default group)"
        ));
    };
    match group.parse::<GroupId>() {
        Ok(id) if id.is_monitor() => {
            Some(format!("{key}: '{name}' is a monitor group, which allocates nothing"))
        }
        Ok(_) => None,
        Err(error) => Some(format!("{key}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    // Every key, in the order in which it is written.
    const ARM: &str = r#"[[arm]]
name = "all"
active = ["victim", "aggressor"]
baseline = "alone"

[arm.set.aggressor]
footprint = "1MiB"

[arm.only]
victim = 1

[arm.resctrl]
"/" = "L3:0=ff0"
"/web" = "L3:0=f0"
victim = """
L3:0=f
MB:0=50"""

[arm.cpu_weight]
aggressor = 10
victim = 200

[arm.disk_write]
aggressor = "5MiB/s"

[arm.disk_weight]
aggressor = 20

[arm.memory_high]
aggressor = "64MiB"

[arm.io_priority]
aggressor = "best-effort 7"

[arm.cpuset]
aggressor = "1-3"

[arm.frozen]
aggressor = "20%"

[arm.system]
"vda/nr_requests" = "16"
"#;

    fn with_arm(arm: &str) -> String {
        let role =
            |name: &str| format!("[[role]]\nname = '{name}'\ntask = {{ workload = 'chase' }}\n");
        format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n{}{}[[arm]]\nname = 'alone'\n\
             active = ['victim']\n{arm}",
            role("victim"),
            role("aggressor")
        )
    }

    #[test]
    fn an_arm_is_written_with_a_table_for_each_kind_of_limit() {
        let experiment = Experiment::parse(&with_arm(ARM)).unwrap();
        let text = experiment.to_toml();
        assert!(text.ends_with(&format!("\n{ARM}")), "{text}");
        assert_eq!(Experiment::parse(&text).unwrap(), experiment);
        let keys: Vec<&str> =
            experiment.arms[1].limits_of("aggressor").iter().map(Limit::key).collect();
        assert_eq!(keys, Limit::KEYS[1..]);
        let json = serde_json::to_string(&experiment.arms[1]).unwrap();
        let order = ["\"only\":", "\"resctrl\":{\"/\":", "\"frozen\":{", "\"system\":{"];
        let found: Vec<Option<usize>> = order.iter().map(|key| json.find(key)).collect();
        assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{json}");
        assert_eq!(serde_json::from_str::<Arm>(&json).unwrap(), experiment.arms[1]);
    }

    #[test]
    fn what_is_wrong_in_a_table_is_found_at_its_place() {
        let refused = |arm: &str| Experiment::parse(&with_arm(arm)).unwrap_err().to_string();
        let arm = "[[arm]]\nname = 'a'\nactive = ['victim']\n";
        let weight = refused(&format!("{arm}cpu_weight = {{ victim = 'much' }}\n"));
        assert_eq!(weight, "line 16, column 25: 'much' is not a whole number of 0 or more");
        let unknown = refused(&format!("{arm}cpu_wieght = {{ victim = 10 }}\n"));
        let known = "name, active, baseline, between, set, only, resctrl, cpu_weight, disk_write, \
                     disk_weight, memory_high, io_priority, cpuset, frozen, system";
        let expected = format!(
            "line 16, column 1: there is no 'cpu_wieght' here, only {known}; did you mean \
             'cpu_weight'?"
        );
        assert_eq!(unknown, expected);
    }

    #[test]
    fn a_role_has_one_limit_of_a_kind() {
        let mut arm = Arm::new("a", &["victim"], None);
        arm.limit("victim", Limit::Frozen(Share(0.5)));
        arm.limit("victim", Limit::CpuWeight(10));
        arm.limit("victim", Limit::Frozen(Share(0.1)));
        assert_eq!(arm.limits_of("victim"), [Limit::CpuWeight(10), Limit::Frozen(Share(0.1))]);
    }

    #[test]
    fn weights_are_of_roles_that_run() {
        let with = |name: &str, weight: u32| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.limit(name, Limit::CpuWeight(weight));
            problem(&arm)
        };
        assert_eq!((with("victim", 1), with("victim", 10_000)), (None, None));
        assert!(with("aggressor", 10).unwrap().contains("does not run"));
        assert!(with("victim", 0).unwrap().contains("between 1 and 10000"));
        assert!(with("victim", 10_001).unwrap().contains("between 1 and 10000"));
    }

    #[test]
    fn rates_of_writing_are_of_roles_that_run_and_can_be_measured() {
        let with = |name: &str, rate: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.limit(name, Limit::DiskWrite(rate.parse().unwrap()));
            problem(&arm)
        };
        assert_eq!((with("victim", "256KiB/s"), with("victim", "5GiB/s")), (None, None));
        assert!(with("aggressor", "5MiB/s").unwrap().contains("does not run"));
        assert!(with("victim", "255KiB/s").unwrap().contains("give at least 256KiB/s"));
    }

    #[test]
    fn weights_of_disks_and_memory_are_of_roles_that_run() {
        let with = |name: &str, weight: u32, memory: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.limit(name, Limit::DiskWeight(weight));
            arm.limit("victim", Limit::MemoryHigh(memory.parse().unwrap()));
            problem(&arm)
        };
        assert_eq!((with("victim", 1, "1MiB"), with("victim", 1000, "1GiB")), (None, None));
        assert!(with("aggressor", 10, "1MiB").unwrap().contains("does not run"));
        assert!(with("victim", 0, "1MiB").unwrap().contains("between 1 and 1000"));
        assert!(with("victim", 1001, "1MiB").unwrap().contains("between 1 and 1000"));
        assert!(with("victim", 10, "1000KiB").unwrap().contains("give at least 1MiB"));
        let mut stranger = Arm::new("a", &["victim"], None);
        stranger.limit("aggressor", Limit::MemoryHigh(Bytes::mib(8)));
        assert!(problem(&stranger).unwrap().contains("memory_high names 'aggressor'"));
    }

    #[test]
    fn cpusets_are_of_roles_that_run_and_not_empty() {
        let with = |name: &str, cpus: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.limit(name, Limit::Cpuset(cpus.parse().unwrap()));
            problem(&arm)
        };
        assert_eq!(with("victim", "0-3"), None);
        assert!(
            with("aggressor", "0")
                .unwrap()
                .contains("cpuset names 'aggressor', which it does not run")
        );
        assert!(with("victim", "").unwrap().contains("gives 'victim' no CPU"));
    }

    #[test]
    fn shares_of_time_are_of_roles_that_run_and_make_slices() {
        let with = |name: &str, share: f64| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.limit(name, Limit::Frozen(Share(share)));
            problem(&arm)
        };
        assert_eq!((with("victim", 0.04), with("victim", 0.9)), (None, None));
        assert!(
            with("aggressor", 0.1)
                .unwrap()
                .contains("frozen names 'aggressor', which it does not run")
        );
        for share in [0.0, 0.03, 0.91] {
            assert!(
                with("victim", share).unwrap().contains("is not between 4% and 90%"),
                "{share}"
            );
        }
    }

    #[test]
    fn io_priorities_are_of_roles_that_run() {
        let with = |name: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.limit(name, Limit::IoPriority("idle".parse().unwrap()));
            problem(&arm)
        };
        assert_eq!(with("victim"), None);
        assert!(with("aggressor").unwrap().contains("does not run"));
    }

    #[test]
    fn only_what_runs_and_groups_can_be_isolated() {
        let with = |name: &str, schemata: &str| {
            let mut arm = Arm::new("a", &["victim"], None);
            arm.limit(name, Limit::Resctrl(schemata.parse().unwrap()));
            problem(&arm)
        };
        assert_eq!(with("victim", "L3:0=f"), None);
        assert_eq!(with("/", "L3:0=f\nMB:0=50"), None);
        assert_eq!(with("/web", "L2:1=3"), None);
        assert!(with("aggressor", "L3:0=f").unwrap().contains("does not run"));
        assert!(with("/a/mon_groups/b", "L3:0=f").unwrap().contains("monitor group"));
        assert!(with("/info", "L3:0=f").unwrap().contains("cannot be the name"));
        assert!(with("victim", "L3:uninitialized").unwrap().contains("sets nothing"));
    }
}
