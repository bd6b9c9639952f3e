//! Sets of CPUs in the kernel's list syntax: `0-3,8,10-12`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kernel's number of a CPU: `N` in `/sys/devices/system/cpu/cpuN`.
pub type CpuId = u32;

/// The largest CPU number that a list may hold; the kernel's own limit (`NR_CPUS`) is 8192.
pub const MAX_CPU: CpuId = 65_535;

/// A set of CPUs (or of NUMA nodes), printed and read as `0-3,8,10-12`.
///
/// ```
/// use ringfence_system::cpulist::CpuSet;
/// let set: CpuSet = "0-3,8,10-12".parse().unwrap();
/// assert!(set.contains(11) && !set.contains(9));
/// assert_eq!(set.len(), 8);
/// assert_eq!(set.to_string(), "0-3,8,10-12");
/// ```
#[doc(alias("hwloc_cpuset_t", "hwloc_bitmap_t"))]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct CpuSet(BTreeSet<CpuId>);

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// The set of one CPU.
    pub fn single(cpu: CpuId) -> Self {
        Self(BTreeSet::from([cpu]))
    }

    /// Adds a CPU; true when it was not there.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        self.0.insert(cpu)
    }

    /// Removes a CPU; true when it was there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        self.0.remove(&cpu)
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.contains(&cpu)
    }

    /// How many CPUs there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<CpuId> {
        self.0.first().copied()
    }

    /// The highest CPU.
    pub fn last(&self) -> Option<CpuId> {
        self.0.last().copied()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = CpuId> + '_ {
        self.0.iter().copied()
    }

    /// `CPU 3`, `CPUs 0-3`.
    pub fn named(&self) -> String {
        let noun = if self.len() == 1 { "CPU" } else { "CPUs" };
        format!("{noun} {self}")
    }

    /// The set in the kernel's mask syntax: hexadecimal words of 32 bits, the highest first, such
    /// as `00000001,0000000f`.
    ///
    /// # Errors
    /// What is not such a mask, or names a CPU beyond [`MAX_CPU`].
    pub fn from_mask(text: &str) -> Result<Self, ParseCpuSetError> {
        let trimmed = text.trim();
        let fail = |reason: &str| ParseCpuSetError {
            text: trimmed.chars().take(60).collect(),
            reason: reason.into(),
        };
        let mut set = BTreeSet::new();
        for (place, word) in trimmed.rsplit(',').enumerate() {
            let bits = u64::from_str_radix(word, 16).ok().filter(|_| !word.starts_with('+'));
            let bits = bits.ok_or_else(|| fail("it is not a mask of hexadecimal words"))?;
            for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
                let cpu = u32::try_from(place * 32).ok().and_then(|base| base.checked_add(bit));
                let cpu = cpu
                    .filter(|cpu| *cpu <= MAX_CPU)
                    .ok_or_else(|| fail("it names a CPU beyond the last one"))?;
                set.insert(cpu);
            }
        }
        Ok(Self(set))
    }

    /// CPUs in either set.
    pub fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    /// CPUs in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// CPUs in this set that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether no CPU is in both.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }
}

/// Why a text is not a CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a CPU list: {reason}; write numbers and ranges such as 0-3,8,10-12")]
pub struct ParseCpuSetError {
    text: String,
    reason: String,
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let fail =
            |reason: String| ParseCpuSetError { text: trimmed.chars().take(60).collect(), reason };
        let number = |part: &str| -> Result<CpuId, ParseCpuSetError> {
            let part = part.trim();
            if part.is_empty() {
                return Err(fail("a number is missing".into()));
            }
            // `+3` would parse as a number, and is none here.
            match part.parse::<CpuId>() {
                Ok(cpu) if cpu <= MAX_CPU && !part.starts_with('+') => Ok(cpu),
                Ok(cpu) if cpu > MAX_CPU => {
                    Err(fail(format!("{cpu} is beyond the last CPU, {MAX_CPU}")))
                }
                _ => Err(fail(format!("'{part}' is not a CPU number"))),
            }
        };
        let mut set = BTreeSet::new();
        if trimmed.is_empty() {
            return Ok(Self(set));
        }
        for part in trimmed.split(',') {
            match part.split_once('-') {
                None => {
                    set.insert(number(part)?);
                }
                Some((from, to)) => {
                    let (from, to) = (number(from)?, number(to)?);
                    if from > to {
                        return Err(fail(format!("the range {from}-{to} runs backwards")));
                    }
                    set.extend(from..=to);
                }
            }
        }
        Ok(Self(set))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut cpus = self.iter().peekable();
        while let Some(from) = cpus.next() {
            let mut to = from;
            while let Some(next) = cpus.next_if(|&next| next == to + 1) {
                to = next;
            }
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&from.to_string());
            if to > from {
                text.push('-');
                text.push_str(&to.to_string());
            }
        }
        f.pad(&text)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        self.0.extend(cpus);
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_what_it_prints(cpus in prop::collection::btree_set(0u32..300, 0..120)) {
            let set = CpuSet(cpus);
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }

        #[test]
        fn never_panics_on_text(text in "[-0-9,+ a:]{0,24}") {
            let _ = text.parse::<CpuSet>();
        }
    }

    #[test]
    fn empty_and_spaced_lists() {
        assert!("\n".parse::<CpuSet>().unwrap().is_empty());
        assert_eq!(CpuSet::new().to_string(), "");
        assert_eq!("3, 1-2\n".parse::<CpuSet>().unwrap().to_string(), "1-3");
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, reason) in [
            ("1,,2", "a number is missing"),
            ("3-", "a number is missing"),
            ("a", "'a' is not a CPU number"),
            ("+1", "'+1' is not a CPU number"),
            ("5-2", "the range 5-2 runs backwards"),
            ("0-99999", "beyond the last CPU"),
            ("0-7:2", "'7:2' is not a CPU number"),
        ] {
            let error = text.parse::<CpuSet>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn set_operations() {
        let a: CpuSet = "0-3".parse().unwrap();
        let b: CpuSet = "2-5".parse().unwrap();
        assert_eq!(a.union(&b).to_string(), "0-5");
        assert_eq!(a.intersection(&b).to_string(), "2-3");
        assert_eq!(a.difference(&b).to_string(), "0-1");
        assert!(CpuSet::single(3).is_subset(&a) && !a.is_disjoint(&b));
        assert_eq!((a.first(), b.last()), (Some(0), Some(5)));
        assert_eq!((a.named(), CpuSet::single(7).named()), ("CPUs 0-3".into(), "CPU 7".into()));
    }

    #[test]
    fn json_is_the_list() {
        let set: CpuSet = "0,2-3".parse().unwrap();
        let json = serde_json::to_string(&set).unwrap();
        assert_eq!(json, "\"0,2-3\"");
        assert_eq!(serde_json::from_str::<CpuSet>(&json).unwrap(), set);
    }
}
