//! Described machines as JSON.

use ringfence_machine::topology::Topology;
use ringfence_simulator::{Description, Value};
use serde::Serialize;

use crate::json::Document;

/// A described machine: its values, and where each comes from.
pub fn machine(description: &Description) -> impl Serialize {
    #[derive(Serialize)]
    struct One {
        path: String,
        value: String,
        source: String,
    }
    #[derive(Serialize)]
    struct Described {
        name: String,
        title: String,
        values: Vec<One>,
        topology: Topology,
    }
    let one = |Value { path, value, source }| One { path, value, source };
    let body = Described {
        name: description.name.clone(),
        title: description.title.clone(),
        values: description.values().into_iter().map(one).collect(),
        topology: description.machine().topology,
    };
    Document { schema: "ringfence/machine/1", body }
}

/// The machines that come with the program.
pub fn machines(all: &[Description]) -> impl Serialize + use<> {
    #[derive(Serialize)]
    struct One {
        name: String,
        title: String,
    }
    #[derive(Serialize)]
    struct All {
        machines: Vec<One>,
    }
    let one = |one: &Description| One { name: one.name.clone(), title: one.title.clone() };
    Document {
        schema: "ringfence/machines/1",
        body: All { machines: all.iter().map(one).collect() },
    }
}
