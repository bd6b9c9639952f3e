//! What the tasks of a group use: `mon_data`.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::id::GroupId;
use crate::kernel::Kernel;
use crate::schemata::Domain;

/// A counter's value, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Counter"))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CounterReading"))]
pub struct Reading {
    /// The domain's kind, such as `L3`.
    pub resource: String,
    /// The domain.
    pub domain: Domain,
    /// `llc_occupancy` (bytes now), `mbm_total_bytes` or `mbm_local_bytes` (bytes since some time),
    /// or another.
    pub event: String,
    /// What the counter says.
    pub value: Value,
}

/// The events that this library knows. It does not list the folder's files, since a file may or may
/// not be readable at any moment.
pub const EVENTS: [&str; 3] = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];

pub(crate) fn read(kernel: &dyn Kernel, group: &Path) -> io::Result<Vec<Reading>> {
    let base = group.join("mon_data");
    if !kernel.exists(&base) {
        return Ok(Vec::new());
    }
    let mut readings = Vec::new();
    for name in kernel.dirs(&base)? {
        // mon_L3_00; with sub-NUMA clusters, folders mon_sub_L3_NN lie inside and are summed up
        // here.
        let mut parts = name.strip_prefix("mon_").unwrap_or_default().rsplitn(2, '_');
        let (Some(domain), Some(resource)) =
            (parts.next().and_then(|text| text.parse().ok()), parts.next())
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
            readings.push(Reading {
                resource: resource.to_owned(),
                domain,
                event: event.to_owned(),
                value,
            });
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

/// What a group holds of a cache, and how fast it moves data to and from memory, by two readings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "GroupUse"))]
pub struct Used {
    /// Which group.
    pub group: GroupId,
    /// The domain's kind, such as `L3`.
    pub resource: String,
    /// The domain.
    pub domain: Domain,
    /// Bytes of the cache now; none where the hardware gives none.
    pub occupancy: Option<u64>,
    /// Bytes per second to and from all memory; `None` if a reading has none, or if the counter was
    /// restarted in between.
    pub total: Option<u64>,
    /// The same of the memory of its own node.
    pub local: Option<u64>,
}

/// The usage of a group between two readings that are `seconds` apart.
pub fn used(group: &GroupId, before: &[Reading], now: &[Reading], seconds: f64) -> Vec<Used> {
    let mut all: Vec<Used> = Vec::new();
    for reading in now {
        let known =
            |used: &&mut Used| used.resource == reading.resource && used.domain == reading.domain;
        if all.iter_mut().find(known).is_none() {
            let (resource, domain) = (reading.resource.clone(), reading.domain);
            all.push(Used {
                group: group.clone(),
                resource,
                domain,
                occupancy: None,
                total: None,
                local: None,
            });
        }
        let Some(used) = all.iter_mut().find(known) else { continue };
        let same = |one: &&Reading| {
            (&one.resource, one.domain, &one.event)
                == (&reading.resource, reading.domain, &reading.event)
        };
        let rate = || {
            let first = before.iter().find(same)?.value.bytes()?;
            let moved = reading.value.bytes()?.checked_sub(first)?;
            (seconds > 0.0).then(|| (moved as f64 / seconds).round() as u64)
        };
        match reading.event.as_str() {
            "llc_occupancy" => used.occupancy = reading.value.bytes(),
            "mbm_total_bytes" => used.total = rate(),
            "mbm_local_bytes" => used.local = rate(),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(domain: Domain, event: usize, text: &str) -> Reading {
        Reading {
            resource: "L3".into(),
            domain,
            event: EVENTS[event].into(),
            value: Value::of(text),
        }
    }

    #[test]
    fn bandwidth_is_what_was_moved_by_the_time_between() {
        let before = [
            reading(0, 1, "1000"),
            reading(0, 2, "500"),
            reading(1, 1, "9000"),
            reading(2, 1, "Unavailable"),
        ];
        let now = [
            reading(0, 0, "4096"),
            reading(0, 1, "3000"),
            reading(0, 2, "Unavailable"),
            reading(1, 1, "10"),
            reading(2, 0, "Error"),
            reading(2, 1, "7"),
        ];
        let used = used(&GroupId::default(), &before, &now, 0.5);
        let figures: Vec<_> =
            used.iter().map(|used| (used.domain, used.occupancy, used.total, used.local)).collect();
        // Counters that went back, or of which one reading is missing, say nothing.
        assert_eq!(
            figures,
            [(0, Some(4096), Some(4000), None), (1, None, None, None), (2, None, None, None)]
        );
    }
}
