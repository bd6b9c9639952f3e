//! The claims, their sources and their tests.

use std::collections::BTreeSet;
use std::fmt;

use crate::reproduce;
use ringfence_experiment::Reason;
use serde::{Deserialize, Serialize};

use crate::claims::expect::Expect;

/// All claims of all documents.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// The documents, in order.
    #[serde(rename = "document")]
    pub documents: Vec<Document>,
    /// The claims, document by document.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A document that claims something.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// How the ids of its claims begin.
    pub id: String,
    /// What it is.
    pub title: String,
}

/// Something that a document says, in one sentence.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The document's id, a hyphen and a short name.
    pub id: String,
    /// Its place in the document.
    pub place: String,
    /// What kind of statement it is.
    pub kind: Kind,
    /// The statement, in our words. A question stands as the statement that would answer it with
    /// yes.
    pub says: String,
    /// What tests it; all must come out.
    #[serde(default, rename = "test")]
    pub tests: Vec<Test>,
    /// What the crash checker shows, if only the state after a crash can.
    pub explored: Option<Explored>,
    /// Why nothing tests it.
    pub untested: Option<Reason>,
    /// The machines that it is about, where that is not all: a part of the name, or of what
    /// identifies the processor.
    #[serde(default)]
    pub machines: Vec<String>,
}

/// What kind of statement a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ClaimKind"))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Stated as so.
    Claim,
    /// Stated as what might be so, to be tested.
    Hypothesis,
    /// Asked.
    Question,
}

/// What the crash checker found, exploring every state that a crash can leave by the rules of the
/// manuals.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explored {
    /// Whether it holds.
    pub holds: bool,
    /// The test that shows it, `FILE::NAME`. It fails if the verdict changes.
    pub test: String,
    /// What it shows, as part of a sentence.
    pub shows: String,
}

/// A comparison within an experiment, and what it must come to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// A shipped experiment.
    pub experiment: String,
    /// The case, as published figures name theirs.
    pub case: String,
    /// The case that its time is divided by.
    pub against: String,
    /// Another pair of cases, by whose ratio the first one is divided.
    pub than: Option<[String; 2]>,
    /// What the figure must be.
    pub expect: Expect,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::Claim => "claim",
            Kind::Hypothesis => "hypothesis",
            Kind::Question => "question",
        })
    }
}

impl Test {
    /// The same comparison with DRAM where persistent memory stands; `None` where that is the same,
    /// or compares DRAM with itself.
    pub fn on_dram(&self) -> Option<Self> {
        let on_dram = |case: &str| {
            let words = case.replace("dax:/mnt/pmem0", "dram");
            words.split(' ').map(|word| word.replace("PM", "DRAM")).collect::<Vec<_>>().join(" ")
        };
        let than = self.than.as_ref().map(|pair| pair.clone().map(|case| on_dram(&case)));
        let other = Self {
            case: on_dram(&self.case),
            against: on_dram(&self.against),
            than,
            ..self.clone()
        };
        (other != *self && other.case != other.against).then_some(other)
    }
}

impl Ledger {
    /// The ledger that the program carries with it.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn shipped() -> Self {
        Self::parse(include_str!("../../../../experiments/claims/claims.toml"))
            .expect("a test reads it")
    }

    /// Reads a ledger.
    ///
    /// # Errors
    /// One sentence: what is no TOML or has an unknown key, a claim of no document, two of one id,
    /// one that has not exactly one of tests, what was explored and a reason, and tests of
    /// experiments that are not shipped.
    pub fn parse(text: &str) -> Result<Self, String> {
        let ledger: Self =
            toml::from_str(text).map_err(|error| error.to_string().trim().replace('\n', ", "))?;
        let experiments = reproduce::experiments();
        let mut ids = BTreeSet::new();
        for claim in &ledger.claims {
            let refuse = |why: String| Err(format!("{}: {why}", claim.id));
            if !ledger.documents.iter().any(|document| claim.is_of(document)) {
                return refuse("its id does not start with the id of a document".into());
            }
            if !ids.insert(&claim.id) {
                return refuse("two claims have this id".into());
            }
            let told = claim.untested.as_ref().is_some_and(|why| !why.trim().is_empty());
            let given = [!claim.tests.is_empty(), claim.explored.is_some(), told];
            if given.into_iter().filter(|given| *given).count() != 1 {
                return refuse(
                    "give it tests, or 'explored', or a reason in 'untested' why it has none"
                        .into(),
                );
            }
            let known =
                |test: &&Test| experiments.iter().any(|known| known.name == test.experiment);
            if let Some(test) = claim.tests.iter().find(|test| !known(test)) {
                return refuse(format!("there is no experiment '{}'", test.experiment));
            }
        }
        Ok(ledger)
    }
}

impl Claim {
    /// Whether a document says it.
    pub fn is_of(&self, document: &Document) -> bool {
        self.id.strip_prefix(&document.id).is_some_and(|rest| rest.starts_with('-'))
    }

    /// The experiments that test it, each once.
    pub fn experiments(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for test in &self.tests {
            if !names.contains(&test.experiment.as_str()) {
                names.push(&test.experiment);
            }
        }
        names
    }
}
