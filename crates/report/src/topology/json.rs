//! Packages, cores, caches and nodes as JSON.

use ringfence_machine::topology::Topology;
use serde::Serialize;

use crate::json::Document;

/// CPUs, caches and nodes.
pub fn topology(topology: &Topology) -> impl Serialize {
    Document { schema: "ringfence/topology/2", body: topology }
}
