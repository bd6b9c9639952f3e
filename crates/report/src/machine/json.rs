//! Described machines as JSON.

use ringfence_machine::topology::Topology;
use ringfence_simulator::{self as simulator, Description};
use serde::Serialize;

/// `machine FILE`: a described machine.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/machine/1")]
pub(crate) struct Machine {
    /// Its short name.
    name: String,
    /// What a heading calls it.
    title: String,
    /// What the file says, in its order.
    values: Vec<Value>,
    /// What `topology` says of a machine, without its schema.
    topology: Topology,
}

/// `machine`: the machines that come with the program.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/machines/1")]
pub(crate) struct Machines {
    /// All of them.
    machines: Vec<Named>,
}

/// One value.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "MachineValue"))]
struct Value {
    /// Such as `core.store_buffer` and `nodes[1].gib`.
    path: String,
    /// As the file has it.
    value: String,
    /// Where it comes from.
    source: String,
}

/// One machine.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Named {
    /// What `--machine` calls it.
    name: String,
    /// What it is, in a line.
    title: String,
}

/// A described machine: its values, and where each comes from.
pub fn machine(description: &Description) -> impl Serialize {
    let value =
        |simulator::Value { path, value, source }: simulator::Value| Value { path, value, source };
    Machine {
        name: description.name.clone(),
        title: description.title.clone(),
        values: description.values().into_iter().map(value).collect(),
        topology: description.machine().topology,
    }
}

/// The machines that come with the program.
pub fn machines(all: &[Description]) -> impl Serialize + use<> {
    let named = |one: &Description| Named { name: one.name.clone(), title: one.title.clone() };
    Machines { machines: all.iter().map(named).collect() }
}
