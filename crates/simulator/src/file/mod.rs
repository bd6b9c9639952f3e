//! Machine files: what a machine is made of, in TOML, each value with its source.

mod change;
mod check;
mod leaves;
mod toml_error;

use std::collections::BTreeMap;

use crate::hardware::machine::{Cache, Core, Llc, Machine, Node, Prefetcher, Topology, Uncore};
use ringfence_persist::{Flush, Width};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

pub use self::change::{Change, ChangeError};
use self::leaves::{Leaf, leaves};
use crate::noise::Noise;

/// A machine as a file describes it, and the file's text.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Lower case letters, digits and hyphens.
    pub name: String,
    /// What a heading calls it.
    pub title: String,
    /// What disturbs it; absent for nothing.
    pub noise: Option<Noise>,
    /// What the simulation of caches and memory has no use for.
    pub processor: Processor,
    /// What is simulated.
    pub parts: Machine,
    /// The file.
    pub text: String,
    sources: BTreeMap<String, String>,
}

/// The processor's name, and what it can do.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Its vendor.
    pub vendor: Vendor,
    /// The name on the box.
    pub brand: String,
    /// What its cores run at while all of them work, in GHz.
    pub ghz: f64,
    /// The flush instructions that it has.
    #[serde(deserialize_with = "flushes")]
    pub flush: Vec<Flush>,
    /// The vector registers that it has.
    #[serde(deserialize_with = "widths")]
    pub widths: Vec<Width>,
    /// One step of a dependent chain of a shift, an exclusive or and a multiplication of 64 bits,
    /// in ns.
    pub multiply_ns: f64,
    /// Which level the last-level cache is; absent: the third. Where it is the second, `[l2]`
    /// stands for nothing that the machine has.
    pub last_level: Option<u32>,
    /// Classes of service of cache allocation in the last level; absent where it has none.
    pub classes: Option<u32>,
    /// Bits of a mask of cache allocation, each for as many ways as any other; absent: one for each
    /// way.
    pub mask_bits: Option<u32>,
    /// Classes of service of cache allocation in the second level, where that is a core's own;
    /// absent where it has none.
    pub l2_classes: Option<u32>,
    /// As `mask_bits`, of the second level.
    pub l2_mask_bits: Option<u32>,
    /// The levels in which code and data can have masks of their own (CDP).
    #[serde(default)]
    pub cdp: Vec<Level>,
    /// Whether it has bandwidth control.
    #[serde(default)]
    pub bandwidth_control: bool,
    /// Whether caches are in the persistence domain (eADR), so that what they hold survives.
    #[serde(default)]
    pub eadr: bool,
    /// The cache that the kernel can pseudo-lock parts of; absent where there is none.
    pub pseudo_lock: Option<Level>,
}

/// A processor vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
}

/// A level of caches, as resctrl has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The second level.
    L2,
    /// The third level.
    L3,
}

/// A value of a file, where it stands and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Such as `core.store_buffer` and `nodes[1].device.optane.media_read_gb_per_s`.
    pub path: String,
    /// As the file has it.
    pub value: String,
    /// Where it comes from.
    pub source: String,
}

/// Why a text is not a machine file: the line where that shows, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct MachineFileError {
    /// Counted from 1; absent where what is missing has no place.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: String,
    noise: Option<Noise>,
    processor: Processor,
    topology: Topology,
    core: Core,
    l1: Cache,
    l2: Cache,
    prefetcher: Option<Prefetcher>,
    llc: Llc,
    uncore: Uncore,
    nodes: Vec<Node>,
    sources: BTreeMap<String, String>,
}

fn flushes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Flush>, D::Error> {
    words(deserializer, &Flush::ALL, Flush::name)
}

fn widths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Width>, D::Error> {
    words(deserializer, &Width::ALL, Width::name)
}

// Values by their names; the error for an unknown one lists them.
fn words<'de, T: Copy, D: Deserializer<'de>>(
    deserializer: D,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<Vec<T>, D::Error> {
    let named = |word: String| {
        let known = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
        let found = all.iter().copied().find(|one| name(*one) == word);
        found.ok_or_else(|| D::Error::custom(format!("'{word}' is none of {}", known())))
    };
    Vec::<String>::deserialize(deserializer)?.into_iter().map(named).collect()
}

impl Description {
    /// Reads a machine file.
    ///
    /// # Errors
    /// The first thing that is wrong with it, and the line where it stands: what is no TOML, an
    /// unknown or a missing key, values that describe no machine, and values whose source is not
    /// named.
    pub fn parse(text: &str) -> Result<Self, MachineFileError> {
        let of_toml = |error: toml::de::Error| {
            let (line, why) = toml_error::told(&error, text);
            MachineFileError { line, why }
        };
        let leaves = leaves(text).map_err(of_toml)?;
        let file: File = toml::from_str(text).map_err(of_toml)?;
        let description = Self {
            name: file.name,
            title: file.title,
            noise: file.noise,
            processor: file.processor,
            parts: Machine {
                topology: file.topology,
                core: file.core,
                l1: file.l1,
                l2: file.l2,
                prefetcher: file.prefetcher,
                llc: file.llc,
                uncore: file.uncore,
                nodes: file.nodes,
            },
            text: text.to_owned(),
            sources: file.sources,
        };
        description.check(&leaves)?;
        Ok(description)
    }

    /// The level of the last-level cache: 2 or 3.
    pub fn last_level(&self) -> u32 {
        self.processor.last_level.unwrap_or(3)
    }

    /// Bits of a mask of cache allocation.
    pub(crate) fn mask_bits(&self) -> u32 {
        self.processor.mask_bits.unwrap_or(self.parts.llc.ways)
    }

    /// The same machine with another value, such as `2` for `nodes[2].channels`; the file's other
    /// lines stay as they are.
    ///
    /// # Errors
    /// Where it has no such value, and as [`Self::parse`].
    pub fn changed(&self, path: &str, value: &str) -> Result<Self, MachineFileError> {
        let refuse = |why: String| MachineFileError { line: None, why };
        let all = leaves(&self.text).map_err(|error| refuse(error.to_string()))?;
        let mut known = all.iter().filter(|leaf| leaf.wants_source());
        let leaf = known.find(|leaf| leaf.path == path);
        let leaf = leaf.ok_or_else(|| refuse(format!("{} has no value {path}", self.name)))?;
        let mut text = self.text.clone();
        text.replace_range(leaf.span.clone(), value);
        Self::parse(&text)
    }

    /// Its values in the file's order, with their sources.
    pub fn values(&self) -> Vec<Value> {
        let all = leaves(&self.text).unwrap_or_default();
        let sourced = all.into_iter().filter(Leaf::wants_source);
        let value = |leaf: Leaf| Value {
            source: self.source(&leaf.path).unwrap_or_default().to_owned(),
            path: leaf.path,
            value: leaf.value,
        };
        sourced.map(value).collect()
    }

    // Of the longest path that the value is at or below.
    fn source(&self, path: &str) -> Option<&str> {
        let covering = self.sources.iter().filter(|(known, _)| leaves::is_at_or_below(path, known));
        covering.max_by_key(|(known, _)| known.len()).map(|(_, source)| source.as_str())
    }
}
