//! On which described machines published figures are simulated, how many bytes a published time was
//! for, and what publications leave open.

use std::collections::BTreeMap;

use ringfence_experiment::Reason;
use ringfence_experiment::task::Settings;
use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::reproduce::Published;

const FILE: &str = include_str!("../../../../../experiments/published/simulated.toml");

/// All of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    #[serde(default)]
    on: Vec<On>,
    #[serde(default)]
    volume: Vec<Volume>,
    #[serde(default)]
    alternative: Vec<Alternative>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct On {
    sources: Vec<String>,
    machine: String,
}

/// How many bytes a published time was for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    source: String,
    quantity: String,
    /// How many.
    pub bytes: Bytes,
    /// What such times are of, such as `writes of note 002`: their errors are summed up together.
    pub of: String,
    /// How that is known.
    pub why: String,
}

/// Another reading of what a publication leaves open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// A few words.
    pub name: String,
    /// What is open, and where the reading comes from.
    pub why: Reason,
    /// The experiments that it makes a difference to.
    pub experiments: Vec<String>,
    /// The sources that leave it open.
    pub sources: Vec<String>,
    /// Parameters of roles that are changed.
    #[serde(default)]
    pub set: BTreeMap<String, Settings>,
    /// Values of the machine file that are changed, each with what stands there instead.
    #[serde(default)]
    pub machine: BTreeMap<String, String>,
    /// Another volume.
    pub bytes: Option<Bytes>,
    /// Why it cannot be simulated, if it cannot.
    pub not_run: Option<Reason>,
}

impl Setting {
    /// That of the shipped figures.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn shipped() -> Self {
        Self::parse(FILE)
            .unwrap_or_else(|error| panic!("experiments/published/simulated.toml: {error}"))
    }

    /// Reads a setting.
    ///
    /// # Errors
    /// One sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let setting: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        for alternative in &setting.alternative {
            let changes = !alternative.set.is_empty()
                || !alternative.machine.is_empty()
                || alternative.bytes.is_some();
            if changes == alternative.not_run.is_some() {
                return Err(format!(
                    "the alternative '{}' must either change something or say why it is not run",
                    alternative.name
                ));
            }
        }
        Ok(setting)
    }

    /// The machine on which a source's figures are simulated.
    pub fn machine(&self, source: &str) -> Option<&str> {
        let on = self.on.iter().find(|on| on.sources.iter().any(|known| known == source));
        on.map(|on| on.machine.as_str())
    }

    /// How many bytes a published time was for, where that is known.
    pub fn volume(&self, published: &Published) -> Option<&Volume> {
        self.volume.iter().find(|volume| {
            (&volume.source, &volume.quantity) == (&published.source, &published.quantity)
        })
    }

    /// The other readings of an experiment.
    pub fn alternatives(&self, experiment: &str) -> impl Iterator<Item = &Alternative> {
        let of = move |alternative: &&Alternative| {
            alternative.experiments.iter().any(|one| one == experiment)
        };
        self.alternative.iter().filter(of)
    }

    /// All readings.
    pub fn all(&self) -> &[Alternative] {
        &self.alternative
    }
}

impl Alternative {
    /// Whether a figure leaves open what this is a reading of.
    pub fn is_about(&self, published: &Published) -> bool {
        self.sources.contains(&published.source) && self.experiments.contains(&published.experiment)
    }

    /// Whether samples differ, and not only what is computed from them.
    pub fn changes_samples(&self) -> bool {
        !self.set.is_empty() || !self.machine.is_empty()
    }
}
