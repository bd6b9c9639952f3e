//! What an experiment file says: roles, the tasks they may run, and the arms that are compared.
//!
//! ```toml
//! schema = 2
//! name = "chase-beside-clwb"
//! question = "How much does a clwb writer slow a pointer chase down?"
//! seed = 1
//! metric = "victim"
//!
//! [measure]
//! looks = [10, 20]
//! time = "60s"
//!
//! [placement]
//! kind = "llc"
//!
//! [[role]]
//! name = "victim"
//! task = { workload = "chase", footprint = "4MiB" }
//!
//! [[role]]
//! name = "aggressor"
//! task = { workload = "write", instruction = ["clwb", "nt"] }
//!
//! [[arm]]
//! name = "alone"
//! active = ["victim"]
//!
//! [[arm]]
//! name = "beside"
//! active = ["victim", "aggressor"]
//! baseline = "alone"
//! ```
//!
//! Any parameter of a task may be a list; each combination becomes a case of its own. A role may
//! have a `placement` of its own: with `placement = "smt"` it runs on the victim's SMT sibling
//! while others run elsewhere.

mod check;
mod decide;
mod episode;
mod freezing;
mod kind;
mod limit;

use std::collections::BTreeMap;

use crate::Error;
use ringfence_machine::cpulist::CpuSet;
use serde::{Deserialize, Deserializer, Serialize, de};
use toml::Table;

pub use decide::Decide;
pub use episode::Episode;
pub use freezing::{FreezeBy, Freezing};
pub use kind::Kind;
pub use limit::Limit;

use crate::nearest;
use crate::one_or_many::OneOrMany;
use crate::quantity::Quantity;
use crate::system::SystemSetting;
use crate::task::{Settings, Tasks};
use crate::units::{Share, Span};

/// The version of the file format that this program writes; it reads all from 1 on. Version 1 calls
/// some keys otherwise: `blocks`, `fence_settle`, `budget`.
pub const SCHEMA: u32 = 2;

/// An experiment, as in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Version of the format: [`SCHEMA`] once it is read.
    pub schema: u32,
    /// A short name; also that of the dataset's folder.
    pub name: String,
    /// The question it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Seed of everything random: the order of windows, memory layouts.
    #[serde(default = "one")]
    pub seed: u64,
    /// The role whose rate is the figure.
    pub metric: String,
    /// For experiments whose arms are the same: the trials are divided into experiments of so many,
    /// and what is reported is how often they see an effect that is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aa: Option<u32>,
    /// The study that it is a stage of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// How it is measured.
    #[serde(default)]
    pub measure: Measure,
    /// On which CPUs.
    #[serde(default)]
    pub placement: Placement,
    /// The roles that take part.
    #[serde(rename = "role")]
    pub roles: Vec<Role>,
    /// What is compared.
    #[serde(rename = "arm")]
    pub arms: Vec<Arm>,
}

// Keys, and what they were called once.
const RENAMED: [(&str, &str); 3] =
    [("time", "budget"), ("rounds", "blocks"), ("isolation_settle", "fence_settle")];

fn one() -> u64 {
    1
}

/// How an experiment is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Numbers of trials after which the estimates are looked at; the last is the most there will
    /// be.
    pub looks: Vec<u32>,
    /// Rounds of a trial: every case is measured once in each.
    #[serde(alias = "blocks")]
    pub rounds: u32,
    /// Length of a window.
    pub window: Span,
    /// What is measured in the place of a window: absent where harm does not come late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode: Option<Episode>,
    /// How long what is attached may be paused; absent: the defaults, which matter only where
    /// something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freezing: Option<Freezing>,
    /// Least time between a change of tasks and the window; longer where a task needs longer to
    /// refill its caches (a chase is given one round).
    pub settle: Span,
    /// The longest wait after a change of `resctrl` until rates are stable: masks evict nothing,
    /// and what is cached where changes over seconds.
    #[serde(alias = "fence_settle")]
    pub isolation_settle: Span,
    /// Length of the ping-pong between the CPUs in use, before and after each pair; `0ms` for none.
    pub probe: Span,
    /// A change smaller than this does not matter.
    pub margin: Share,
    /// Stop at a look once every interval's half-width is this small; absent: continue to the last
    /// look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Share>,
    /// Stop at a look once it is known on which side of a limit each of some arms lies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decide: Option<Decide>,
    /// What of the metric's units of work the figures are about: the mean time, or a quantile of
    /// the latencies that its task counts.
    #[serde(skip_serializing_if = "Quantity::is_mean")]
    pub quantity: Quantity,
    /// The share of intervals that hold the truth.
    pub confidence: Share,
    /// The share of the permitted error that is kept for the last look, or for the end of the time;
    /// absent: every look has the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_look: Option<Share>,
    /// No trial begins that would not end within this time; absent: no limit. Files written before
    /// it was called so have `budget`, which elsewhere is a share.
    #[serde(alias = "budget", skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            looks: vec![10, 20, 40],
            rounds: 2,
            window: Span::ms(20),
            episode: None,
            freezing: None,
            settle: Span::ms(2),
            isolation_settle: Span::ms(10_000),
            probe: Span::ms(2),
            margin: Share(0.01),
            precision: None,
            decide: None,
            quantity: Quantity::Mean,
            confidence: Share(0.95),
            last_look: None,
            time: None,
        }
    }
}

impl Measure {
    /// How long a window is meant to be, or the episode in its place.
    pub fn length(&self) -> Span {
        self.episode.map_or(self.window, |episode| episode.length())
    }
}

/// On which CPUs roles run that do not say it themselves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Placement {
    /// Where co-runners run relative to the metric's role.
    pub kind: PlacementKind,
}

/// Where co-runners run relative to the metric's role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PlacementKind {
    /// The first of llc, node, remote, smt that this machine has room for; the choice is stated.
    #[default]
    Auto,
    /// On the other hardware thread of the same core.
    Smt,
    /// On other cores that share the last-level cache.
    Llc,
    /// On the same NUMA node, under another last-level cache.
    Node,
    /// On another NUMA node, of another package if there is one.
    Remote,
}

/// A participant in an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// How many run at once, each on a CPU of its own; a list makes cases.
    #[serde(default, skip_serializing_if = "OneOrMany::is_default_count")]
    pub count: OneOrMany<u32>,
    /// Where it runs relative to the metric's role, instead of what `[placement]` says. Roles that
    /// never run at once may share CPUs: two of them with one task compare its places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementKind>,
    /// The CPUs it runs on, in order, instead of a placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// What it runs; each may hold lists.
    #[serde(deserialize_with = "tasks")]
    pub task: OneOrMany<Tasks>,
}

/// Tasks that run at once, and what they are compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "limit::Written", into = "limit::Written")]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// The roles that run; the others are paused.
    pub active: Vec<String>,
    /// The arm it is compared with.
    pub baseline: Option<String>,
    /// An arm that has a window between this arm's and its baseline's, and is in no comparison:
    /// what it leaves behind would show as an effect.
    pub between: Option<String>,
    /// Parameters that roles' tasks have in this arm instead of their own, by role.
    pub set: BTreeMap<String, Settings>,
    /// Which of a role's tasks run in this arm, by their place in its list, from 1; absent: each.
    pub only: BTreeMap<String, OneOrMany<u32>>,
    /// What roles may use while this arm runs, by role, each kind once and in the order of
    /// [`Limit`]'s.
    pub limits: BTreeMap<String, Vec<Limit>>,
    /// Settings of the whole system while this arm runs: `DISK/scheduler`, `DISK/nr_requests` and
    /// `vm.dirty_background_bytes`. They are changed only where `--system` allows it.
    pub system: BTreeMap<SystemSetting, String>,
}

// `OneOrMany` alone would replace the error of a task by its own.
fn tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OneOrMany<Tasks>, D::Error> {
    let task = |table: Table| Tasks::parse(&table).map_err(de::Error::custom);
    Ok(match OneOrMany::<Table>::deserialize(deserializer)? {
        OneOrMany::One(table) => OneOrMany::One(task(table)?),
        OneOrMany::Many(tables) => {
            OneOrMany::Many(tables.into_iter().map(task).collect::<Result<_, _>>()?)
        }
    })
}

impl Role {
    /// One instance, placed as the experiment says.
    pub fn new(name: &str, task: impl Into<OneOrMany<Tasks>>) -> Self {
        Self {
            name: name.into(),
            count: OneOrMany::One(1),
            cpus: None,
            placement: None,
            task: task.into(),
        }
    }
}

impl Arm {
    /// An arm that sets nothing.
    pub fn new(name: &str, active: &[&str], baseline: Option<&str>) -> Self {
        Self {
            name: name.into(),
            active: active.iter().map(|role| (*role).into()).collect(),
            baseline: baseline.map(str::to_owned),
            between: None,
            set: BTreeMap::new(),
            only: BTreeMap::new(),
            limits: BTreeMap::new(),
            system: BTreeMap::new(),
        }
    }
}

impl Experiment {
    /// An experiment that asks a question of the role `metric`, measured with the defaults. The
    /// roles and the comparisons are still to be added.
    pub fn asking(name: &str, question: &str, metric: &str) -> Self {
        Self {
            schema: SCHEMA,
            name: name.into(),
            question: Some(question.into()),
            seed: 1,
            metric: metric.into(),
            aa: None,
            kind: None,
            measure: Measure::default(),
            placement: Placement::default(),
            roles: Vec::new(),
            arms: Vec::new(),
        }
    }

    /// Reads and checks an experiment file's text.
    ///
    /// # Errors
    /// One sentence; where the text is not TOML, with line and column.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut experiment: Experiment = toml::from_str(text).map_err(|error| {
            let place = error.span().map(|span| line_and_column(text, span.start));
            let place = place.map(|(line, column)| format!("line {line}, column {column}: "));
            // Keys that are there twice are no TOML; these have two names.
            let twice = |(name, _): &&(&str, &str)| {
                error.message()
                    == format!(
                        "duplicate field \
                `{name}`"
                    )
            };
            let message = match RENAMED.iter().find(twice) {
                Some((name, before)) => {
                    format!(
                        "`{name}` and its old name `{before}` are both given: leave `{before}` out"
                    )
                }
                None => nearest::improve(error.message()),
            };
            Error::usage(format!("{}{message}", place.unwrap_or_default()))
        })?;
        experiment.check()?;
        experiment.schema = SCHEMA;
        if experiment.kind.is_none() {
            experiment.kind = Kind::of_name(&experiment.name);
        }
        Ok(experiment)
    }

    /// The file's text, complete: parsing it gives this experiment again.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("an experiment is a TOML document by construction")
    }

    /// Checks what the types cannot. Tasks and baselines are checked by [`crate::plan::cases`].
    ///
    /// # Errors
    /// One sentence.
    pub fn check(&self) -> Result<(), Error> {
        self.problem().map_or(Ok(()), |problem| Err(Error::usage(problem)))
    }
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    (line, before.chars().rev().take_while(|c| *c != '\n').count() + 1)
}

#[cfg(test)]
mod tests;
