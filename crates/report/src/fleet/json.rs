//! What a fleet has come to.

use crate::fleet::{Compared, Overview};
use ringfence_fleet::{Spec, Task};
use serde::Serialize;

/// `fleet status`: every task of a fleet.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/fleet-status/1")]
pub(crate) struct FleetStatus {
    /// The task of a fleet.
    fleet: Fleet,
    /// The tasks, by number.
    tasks: Vec<Task>,
}

/// `fleet report`: hosts, figures, and which differ.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/fleet-report/1")]
pub(crate) struct FleetReport<'a> {
    /// The task of a fleet.
    fleet: Fleet,
    #[serde(flatten)]
    overview: &'a Overview,
    /// What `--compare` asked for; null without it.
    compared: Option<&'a Compared>,
}

/// The task of a fleet.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Fleet {
    /// The program and its version.
    program: String,
    /// When it was handed over, UTC, as RFC 3339 has it.
    created: String,
    /// The engine that runs the tasks.
    engine: ringfence_fleet::Engine,
    /// The verb that each task runs, and its flags.
    words: Vec<String>,
    /// The seed that was given; null where none was.
    seed: Option<u64>,
}

/// `fleet status`: every task.
pub fn fleet_status(spec: &Spec, tasks: &[Task]) -> impl Serialize {
    FleetStatus { fleet: fleet(spec), tasks: tasks.to_vec() }
}

/// `fleet report`: hosts, figures, and what differs.
pub fn fleet_report<'a>(
    spec: &Spec,
    overview: &'a Overview,
    compared: Option<&'a Compared>,
) -> impl Serialize + 'a {
    FleetReport { fleet: fleet(spec), overview, compared }
}

fn fleet(spec: &Spec) -> Fleet {
    let Spec { program, created, engine, tasks: _, words, seed, .. } = spec.clone();
    Fleet { program, created, engine, words, seed }
}
