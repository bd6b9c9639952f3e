//! Packages, cores, caches and nodes as JSON.

use ringfence_machine::topology;
use serde::Serialize;

/// `topology`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/topology/2")]
pub(crate) struct Topology<'a> {
    #[serde(flatten)]
    topology: &'a topology::Topology,
}

/// CPUs, caches and nodes.
pub fn topology(topology: &topology::Topology) -> impl Serialize {
    Topology { topology }
}
