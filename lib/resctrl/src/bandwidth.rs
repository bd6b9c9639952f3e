//! Memory bandwidth that is shared out: what amounts are counted in, and which amounts there are.

use serde::{Deserialize, Serialize};

/// What a bandwidth is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BandwidthUnit"))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Percent of what there is (Intel, MPAM).
    Percent,
    /// MB/s, kept by the kernel's software controller (mount option `mba_MBps`).
    MegabytesPerSecond,
    /// Eighths of a GB/s (AMD and Hygon).
    EighthsOfGigabyte,
}

/// What a group has on AMD and Hygon that nothing limits (Linux, `MAX_MBA_BW_AMD`).
pub const UNLIMITED_EIGHTHS: u64 = 0x800;

impl Unit {
    /// The largest amount that the kernel takes: Linux refuses more.
    pub fn most(self) -> u64 {
        match self {
            Unit::Percent => 100,
            Unit::MegabytesPerSecond => u32::MAX.into(),
            Unit::EighthsOfGigabyte => UNLIMITED_EIGHTHS,
        }
    }

    /// An amount in words.
    pub fn say(self, amount: u64) -> String {
        match self {
            Unit::Percent => format!("{amount} %"),
            // The limit of a group that was never limited (Linux, `MBA_MAX_MBPS`).
            Unit::MegabytesPerSecond if amount >= u32::MAX.into() => "no limit".into(),
            Unit::MegabytesPerSecond => format!("{amount} MB/s"),
            Unit::EighthsOfGigabyte if amount >= UNLIMITED_EIGHTHS => "no limit".into(),
            Unit::EighthsOfGigabyte => format!("{:.3} GB/s", amount as f64 / 8.0),
        }
    }
}

/// How two hardware threads of a core are throttled that ask for different bandwidths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleMode {
    /// Both as the one with the smaller bandwidth.
    Max,
    /// Each by itself.
    PerThread,
    /// The kernel does not say.
    Unknown,
}

/// A bandwidth that is shared out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BandwidthInfo {
    /// Groups that there can be, the default one included.
    pub num_closids: u32,
    /// The file of that name: the hardware's least amount, in percent under `mba_MBps` too. What
    /// may be written is [`BandwidthInfo::least`].
    pub min_bandwidth: u64,
    /// The file of that name: the hardware's step, in percent under `mba_MBps` too. What amounts
    /// are rounded to is [`BandwidthInfo::step`].
    pub bandwidth_gran: u64,
    /// Whether delays are linear.
    pub delay_linear: bool,
    /// What is throttled with a hardware thread.
    pub throttle: ThrottleMode,
    /// What amounts are counted in.
    pub unit: Unit,
}

impl BandwidthInfo {
    /// The least amount that limits anything, in its unit.
    pub fn least(&self) -> u64 {
        match self.unit {
            Unit::Percent | Unit::EighthsOfGigabyte => self.min_bandwidth,
            Unit::MegabytesPerSecond => 1,
        }
    }

    /// What amounts are whole multiples of, in their unit; 1 at least. The software controller
    /// takes every number of MB/s: the hardware's steps are of the percentages that it works with
    /// (Linux, `bw_validate`).
    pub fn step(&self) -> u64 {
        match self.unit {
            Unit::Percent | Unit::EighthsOfGigabyte => self.bandwidth_gran.max(1),
            Unit::MegabytesPerSecond => 1,
        }
    }

    /// The amount at or above `amount` that can be set: [`BandwidthInfo::least`] and whole steps
    /// (kernel documentation, resctrl, "bandwidth_gran").
    pub fn round_up(&self, amount: u64) -> u64 {
        let over = amount.saturating_sub(self.least());
        let rounded =
            self.least().saturating_add(over.div_ceil(self.step()).saturating_mul(self.step()));
        // The largest amount may be no whole step: AMD's, which stands for no limit.
        rounded.min(self.unit.most().max(amount))
    }

    /// Whether the kernel can have set `found` for the request `asked`: the same value, or less
    /// than a step above.
    pub fn can_be(&self, found: u64, asked: u64) -> bool {
        found >= asked && found - asked < self.step()
    }

    /// Which amounts there are, in words, to follow the resource's name.
    pub fn choice(&self) -> String {
        match self.unit {
            Unit::MegabytesPerSecond => "any number of MB/s".into(),
            unit => {
                format!("from {} in steps of {}", unit.say(self.least()), unit.say(self.step()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(unit: Unit, min: u64, step: u64) -> BandwidthInfo {
        BandwidthInfo {
            num_closids: 8,
            min_bandwidth: min,
            bandwidth_gran: step,
            delay_linear: true,
            throttle: ThrottleMode::Max,
            unit,
        }
    }

    #[test]
    fn each_unit_has_its_own_steps() {
        let percent = info(Unit::Percent, 10, 10);
        assert_eq!(
            [0, 10, 11, 45, 100].map(|amount| percent.round_up(amount)),
            [10, 10, 20, 50, 100]
        );
        assert!(percent.can_be(50, 45) && percent.can_be(50, 50));
        assert!(!percent.can_be(60, 50) && !percent.can_be(40, 45));
        assert_eq!(percent.choice(), "from 10 % in steps of 10 %");
        // The files still say 10 and 10, of percentages.
        let megabytes = info(Unit::MegabytesPerSecond, 10, 10);
        assert_eq!([0, 7, 2005].map(|amount| megabytes.round_up(amount)), [1, 7, 2005]);
        assert!(megabytes.can_be(2005, 2005) && !megabytes.can_be(2005, 2000));
        assert_eq!(megabytes.choice(), "any number of MB/s");
        assert_eq!(megabytes.unit.say(u32::MAX.into()), "no limit");
        let amd = info(Unit::EighthsOfGigabyte, 1, 1);
        assert_eq!(
            [2, 2047, 2048].map(|amount| amd.unit.say(amount)),
            ["0.250 GB/s", "255.875 GB/s", "no limit"]
        );
        assert!(amd.round_up(17) == 17 && !amd.can_be(17, 16));
        // A file that says 0 stands for no steps.
        assert_eq!(info(Unit::EighthsOfGigabyte, 0, 0).round_up(17), 17);
        assert_eq!(amd.choice(), "from 0.125 GB/s in steps of 0.125 GB/s");
    }
}
