//! What a fleet has come to.

use crate::fleet::{Compared, Overview};
use ringfence_fleet::{Spec, Task};
use serde::Serialize;

use crate::json::Document;

/// `fleet status`: every task.
pub fn fleet_status(spec: &Spec, tasks: &[Task]) -> impl Serialize {
    Document {
        schema: "ringfence/fleet-status/1",
        body: Status { fleet: fleet(spec), tasks: tasks.to_vec() },
    }
}

/// `fleet report`: hosts, figures, and what differs.
pub fn fleet_report<'a>(
    spec: &Spec,
    overview: &'a Overview,
    compared: Option<&'a Compared>,
) -> impl Serialize + 'a {
    Document {
        schema: "ringfence/fleet-report/1",
        body: Report { fleet: fleet(spec), overview, compared },
    }
}

fn fleet(spec: &Spec) -> Fleet {
    let Spec { program, created, engine, tasks: _, words, seed, .. } = spec.clone();
    Fleet { program, created, engine, words, seed }
}

#[derive(Serialize)]
struct Status {
    fleet: Fleet,
    tasks: Vec<Task>,
}

#[derive(Serialize)]
struct Report<'a> {
    fleet: Fleet,
    #[serde(flatten)]
    overview: &'a Overview,
    compared: Option<&'a Compared>,
}

#[derive(Serialize)]
struct Fleet {
    program: String,
    created: String,
    engine: ringfence_fleet::Engine,
    words: Vec<String>,
    seed: Option<u64>,
}
