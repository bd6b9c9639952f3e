//! Datasets as evidence: on which machine, of which experiment.

use ringfence_dataset::Dataset;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use serde::Serialize;
use serde_json::Value;

/// A dataset, and where it comes from.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// What was measured, or simulated.
    pub machine: Machine,
    /// When, as RFC 3339 has it.
    pub created: String,
    /// The plan, with the experiment.
    pub plan: Plan,
    /// What came out.
    pub samples: Vec<Sample>,
}

/// A machine that the project was run on, or that was described to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ClaimMachine"))]
pub struct Machine {
    /// Short: lower case letters, digits and hyphens.
    pub name: String,
    /// The processor with the details that distinguish it from others of its name, and the kernel.
    pub title: String,
    /// Whether nothing of it was measured.
    pub simulated: bool,
}

impl Machine {
    /// The machine that a dataset's `machine.json` describes.
    pub fn of(machine: &Value, simulated: bool) -> Self {
        let text = |path: &str| machine.pointer(path).and_then(Value::as_str).map(str::to_owned);
        if simulated {
            let name = text("/simulated/name").unwrap_or_else(|| "unknown".into());
            let title = text("/simulated/title").unwrap_or_else(|| name.clone());
            return Self { name, title, simulated };
        }
        let number = |path: &str| machine.pointer(path).and_then(Value::as_u64);
        let brand = text("/processor/brand").unwrap_or_else(|| "unknown processor".into());
        let mut name = short(&brand);
        for (word, value) in [("f", number("/processor/family")), ("m", number("/processor/model"))]
        {
            if let Some(value) = value {
                name += &format!("-{word}{value}");
            }
        }
        let hypervisor = text("/features/hypervisor");
        if let Some(hypervisor) = &hypervisor {
            name += &format!("-{}", short(hypervisor));
        }
        let mut about = vec![brand];
        let identity = ["family", "model", "stepping"]
            .into_iter()
            .filter_map(|what| Some(format!("{what} {}", number(&format!("/processor/{what}"))?)));
        about.push(identity.collect::<Vec<_>>().join(", "));
        about.extend(text("/processor/microcode").map(|version| format!("microcode {version}")));
        about.extend(text("/kernel").map(|version| format!("Linux {version}")));
        about.extend(hypervisor.map(|name| format!("a guest of {name}")));
        about.retain(|part| !part.is_empty());
        Self { name, title: about.join("; "), simulated }
    }

    /// Whether a claim about some machines is about this one.
    pub fn is_one_of(&self, wanted: &[String]) -> bool {
        wanted.is_empty()
            || wanted
                .iter()
                .any(|part| self.name.contains(part.as_str()) || self.title.contains(part.as_str()))
    }
}

impl From<Dataset> for Evidence {
    fn from(dataset: Dataset) -> Self {
        let simulated = dataset.samples.iter().any(|sample| sample.simulated == Some(true));
        Self {
            machine: Machine::of(&dataset.machine, simulated),
            created: dataset.manifest.created,
            plan: dataset.plan,
            samples: dataset.samples,
        }
    }
}

// In lower case, other characters as single hyphens.
fn short(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-")
}
