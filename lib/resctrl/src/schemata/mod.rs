//! The contents of a `schemata` file: resources, caches (domains), and what is allowed in each.

mod mask;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use mask::{Mask, ParseMaskError};

/// The number of a cache or of a memory domain: the kernel's cache id, as in
/// `/sys/devices/system/cpu/cpu*/cache/index*/id`.
pub type Domain = u32;

/// What is shared out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Ways of the L3.
    L3,
    /// Ways of the L3 for instructions, where CDP is on.
    L3Code,
    /// Ways of the L3 for data, where CDP is on.
    L3Data,
    /// Ways of the L2.
    L2,
    /// Ways of the L2 for instructions.
    L2Code,
    /// Ways of the L2 for data.
    L2Data,
    /// Memory bandwidth.
    Mb,
    /// Bandwidth of slow memory, such as CXL (AMD).
    Smba,
    /// One that this library does not know: its settings are kept as they are.
    Other(String),
}

impl Resource {
    const KNOWN: [(Resource, &'static str); 8] = [
        (Resource::L3, "L3"),
        (Resource::L3Code, "L3CODE"),
        (Resource::L3Data, "L3DATA"),
        (Resource::L2, "L2"),
        (Resource::L2Code, "L2CODE"),
        (Resource::L2Data, "L2DATA"),
        (Resource::Mb, "MB"),
        (Resource::Smba, "SMBA"),
    ];

    /// The kernel's name of it.
    pub fn name(&self) -> &str {
        match self {
            Resource::Other(name) => name,
            known => {
                Self::KNOWN.iter().find(|(other, _)| other == known).map_or("", |(_, name)| name)
            }
        }
    }

    /// The resource of that name.
    pub fn of(name: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|(_, known)| *known == name);
        known.map_or_else(|| Resource::Other(name.to_owned()), |(resource, _)| resource)
    }

    /// The level of the cache whose ways it allocates.
    pub fn cache_level(&self) -> Option<u32> {
        match self {
            Resource::L3 | Resource::L3Code | Resource::L3Data => Some(3),
            Resource::L2 | Resource::L2Code | Resource::L2Data => Some(2),
            _ => None,
        }
    }

    /// Whether it limits bandwidth.
    pub fn is_bandwidth(&self) -> bool {
        matches!(self, Resource::Mb | Resource::Smba)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a group may use of one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Ways of a cache.
    Mask(Mask),
    /// Bandwidth, in the resource's unit ([`crate::info::Unit`]).
    Amount(u64),
    /// A value of an unknown resource.
    Text(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Mask(mask) => write!(f, "{mask}"),
            Setting::Amount(amount) => write!(f, "{amount}"),
            Setting::Text(text) => f.write_str(text),
        }
    }
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A setting for each domain.
    Domains(BTreeMap<Domain, Setting>),
    /// `uninitialized`: the group is being set up for pseudo-locking.
    Uninitialized,
}

/// A whole file, or a part to write: settings that are not named stay as they are.
///
/// ```
/// use ringfence_resctrl::{Mask, Resource, Schemata};
/// let mut schemata: Schemata = "    L3:0=fffff;1=fffff\n    MB:0=100;1= 50\n".parse().unwrap();
/// assert_eq!(schemata.mask(&Resource::L3, 1), Some(Mask(0xfffff)));
/// assert_eq!(schemata.amount(&Resource::Mb, 1), Some(50));
/// schemata.set_mask(Resource::L3, 1, Mask(0xf));
/// assert_eq!(schemata.to_string(), "L3:0=fffff;1=f\nMB:0=100;1=50\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Schemata {
    lines: BTreeMap<Resource, Line>,
}

impl Schemata {
    /// One that names nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines, by resource.
    pub fn lines(&self) -> impl Iterator<Item = (&Resource, &Line)> {
        self.lines.iter()
    }

    /// Every setting.
    pub fn settings(&self) -> impl Iterator<Item = (&Resource, Domain, &Setting)> {
        self.lines.iter().flat_map(|(resource, line)| {
            let domains = match line {
                Line::Domains(domains) => Some(domains),
                Line::Uninitialized => None,
            };
            domains.into_iter().flatten().map(move |(domain, setting)| (resource, *domain, setting))
        })
    }

    /// A setting.
    pub fn get(&self, resource: &Resource, domain: Domain) -> Option<&Setting> {
        match self.lines.get(resource)? {
            Line::Domains(domains) => domains.get(&domain),
            Line::Uninitialized => None,
        }
    }

    /// The ways allowed in a cache.
    #[doc(alias("pqos_l3ca_get", "pqos_l2ca_get"))]
    pub fn mask(&self, resource: &Resource, domain: Domain) -> Option<Mask> {
        match self.get(resource, domain)? {
            Setting::Mask(mask) => Some(*mask),
            _ => None,
        }
    }

    /// The bandwidth allowed.
    #[doc(alias = "pqos_mba_get")]
    pub fn amount(&self, resource: &Resource, domain: Domain) -> Option<u64> {
        match self.get(resource, domain)? {
            Setting::Amount(amount) => Some(*amount),
            _ => None,
        }
    }

    /// The domains of a resource.
    pub fn domains(&self, resource: &Resource) -> Vec<Domain> {
        match self.lines.get(resource) {
            Some(Line::Domains(domains)) => domains.keys().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// Puts in a setting.
    pub fn set(&mut self, resource: Resource, domain: Domain, setting: Setting) {
        let line = self.lines.entry(resource).or_insert_with(|| Line::Domains(BTreeMap::new()));
        if *line == Line::Uninitialized {
            *line = Line::Domains(BTreeMap::new());
        }
        if let Line::Domains(domains) = line {
            domains.insert(domain, setting);
        }
    }

    /// Puts in a mask.
    #[doc(alias("pqos_l3ca_set", "pqos_l2ca_set"))]
    pub fn set_mask(&mut self, resource: Resource, domain: Domain, mask: Mask) {
        self.set(resource, domain, Setting::Mask(mask));
    }

    /// Puts in a bandwidth.
    #[doc(alias = "pqos_mba_set")]
    pub fn set_amount(&mut self, resource: Resource, domain: Domain, amount: u64) {
        self.set(resource, domain, Setting::Amount(amount));
    }

    /// This one with everything that the other names in place of its own.
    pub fn overlaid(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (resource, domain, setting) in other.settings() {
            all.set(resource.clone(), domain, setting.clone());
        }
        all
    }

    /// What this one names that the other has not, or has otherwise.
    pub fn differing_from(&self, other: &Self) -> Self {
        let mut differing = Self::new();
        for (resource, domain, setting) in self.settings() {
            if other.get(resource, domain) != Some(setting) {
                differing.set(resource.clone(), domain, setting.clone());
            }
        }
        differing
    }

    /// What this one, which was read, has otherwise than the other, which was written, has named
    /// it.
    pub(crate) fn in_place_of(&self, written: &Self) -> Self {
        let named = |(resource, domain, _): (&Resource, Domain, &Setting)| {
            self.get(resource, domain).map(|setting| (resource.clone(), domain, setting.clone()))
        };
        let mut found = Self::new();
        for (resource, domain, setting) in written.settings().filter_map(named) {
            found.set(resource, domain, setting);
        }
        found.differing_from(written)
    }
}

impl fmt::Display for Schemata {
    /// As the kernel reads it: a line for each resource, a newline behind each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (resource, line) in &self.lines {
            write!(f, "{resource}:")?;
            match line {
                Line::Uninitialized => f.write_str("uninitialized")?,
                Line::Domains(domains) => {
                    for (place, (domain, setting)) in domains.iter().enumerate() {
                        let separator = if place == 0 { "" } else { ";" };
                        write!(f, "{separator}{domain}={setting}")?;
                    }
                }
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// Why a text is not a valid schemata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a valid schemata: {why}; write lines such as L3:0=f;1=ff or MB:0=50")]
pub struct ParseSchemataError {
    text: String,
    why: String,
}

impl FromStr for Schemata {
    type Err = ParseSchemataError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut schemata = Self::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let fail = |why: String| ParseSchemataError {
                text: line.trim().chars().take(80).collect(),
                why,
            };
            let (name, values) =
                line.split_once(':').ok_or_else(|| fail("a ':' is missing".into()))?;
            let resource = Resource::of(name.trim());
            if resource.name().is_empty() {
                return Err(fail("the resource has no name".into()));
            }
            let parsed = if values.trim() == "uninitialized" {
                Line::Uninitialized
            } else {
                Line::Domains(domains(&resource, values).map_err(fail)?)
            };
            if schemata.lines.insert(resource, parsed).is_some() {
                return Err(fail("the resource appears twice".into()));
            }
        }
        Ok(schemata)
    }
}

fn domains(resource: &Resource, values: &str) -> Result<BTreeMap<Domain, Setting>, String> {
    let mut domains = BTreeMap::new();
    for part in values.split(';') {
        let (domain, value) =
            part.split_once('=').ok_or_else(|| format!("'{}' has no '='", part.trim()))?;
        let (domain, value) = (domain.trim(), value.trim());
        let number: Domain =
            domain.parse().map_err(|_| format!("'{domain}' is not the number of a cache"))?;
        let setting = match resource {
            known if known.cache_level().is_some() => {
                Setting::Mask(value.parse().map_err(|error: ParseMaskError| error.to_string())?)
            }
            known if known.is_bandwidth() => {
                Setting::Amount(value.parse().map_err(|_| format!("'{value}' is not a bandwidth"))?)
            }
            _ => Setting::Text(value.to_owned()),
        };
        if domains.insert(number, setting).is_some() {
            return Err(format!("cache {number} appears twice"));
        }
    }
    Ok(domains)
}

impl Serialize for Schemata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.to_string().trim_end())
    }
}

impl<'de> Deserialize<'de> for Schemata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
