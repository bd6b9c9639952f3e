//! What the tasks of a group use: `mon_data`.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::schemata::Domain;

/// A counter's value, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// Bytes.
    Bytes(u64),
    /// `Unavailable`: the hardware gives none at the moment.
    Unavailable,
    /// `Error`: the number of the group is not valid there.
    Error,
    /// `Unassigned`: no counter belongs to this event (AMD, ABMC).
    Unassigned,
    /// Something else.
    Other(String),
}

impl Value {
    fn of(text: &str) -> Self {
        match text.trim() {
            "Unavailable" => Value::Unavailable,
            "Error" => Value::Error,
            "Unassigned" => Value::Unassigned,
            other => other.parse().map_or_else(|_| Value::Other(other.to_owned()), Value::Bytes),
        }
    }

    /// The bytes, where there are any.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Value::Bytes(bytes) => Some(*bytes),
            _ => None,
        }
    }
}

/// An event of one domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The domain's kind, such as `L3`.
    pub resource: String,
    /// The domain.
    pub domain: Domain,
    /// `llc_occupancy` (bytes now), `mbm_total_bytes` or `mbm_local_bytes` (bytes since some time), or
    /// another.
    pub event: String,
    /// What the counter says.
    pub value: Value,
}

/// The events that this library knows; the kernel's list of a folder's files is not asked for, since a
/// file may be read or not at any moment.
pub const EVENTS: [&str; 3] = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];

pub(crate) fn read(kernel: &dyn Kernel, group: &Path) -> io::Result<Vec<Reading>> {
    let base = group.join("mon_data");
    if !kernel.exists(&base) {
        return Ok(Vec::new());
    }
    let mut readings = Vec::new();
    for name in kernel.dirs(&base)? {
        // mon_L3_00; with sub-NUMA clusters, folders mon_sub_L3_NN lie inside and are summed up here.
        let mut parts = name.strip_prefix("mon_").unwrap_or_default().rsplitn(2, '_');
        let (Some(domain), Some(resource)) = (parts.next().and_then(|text| text.parse().ok()), parts.next())
        else {
            continue;
        };
        for event in EVENTS {
            let file = base.join(&name).join(event);
            if !kernel.exists(&file) {
                continue;
            }
            let value = match kernel.read(&file) {
                Ok(text) => Value::of(&text),
                Err(error) => Value::Other(error.to_string()),
            };
            readings.push(Reading { resource: resource.to_owned(), domain, event: event.to_owned(), value });
        }
    }
    Ok(readings)
}

/// The sum of an event over all domains; `None` where any of them has no value.
pub fn total(readings: &[Reading], event: &str) -> Option<u64> {
    let mut values = readings.iter().filter(|reading| reading.event == event).peekable();
    values.peek()?;
    values.map(|reading| reading.value.bytes()).sum()
}
