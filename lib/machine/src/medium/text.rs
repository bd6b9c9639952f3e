//! A medium in sentences, for people.

use crate::units::Bytes;

use super::Medium;
use super::flush::Reach;
use super::load::Load;
use super::model::{Below, Device, FileSystem, Queue, WriteCache};
use super::promise::{Durable, Promise};

/// A heading and lines, each with a lead, such as a device's name, and a text; an empty lead
/// continues the line before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// What they are about.
    pub heading: &'static str,
    /// Leads and texts.
    pub lines: Vec<(String, String)>,
}

impl Medium {
    /// All parts: the layers, the promise of each call, the activity of the disks, and what cannot
    /// be known.
    pub fn shown(&self) -> Vec<Lines> {
        let mut way = Vec::new();
        file_system(&self.file_system, 0, &mut way);
        let line = |promise: &Promise| (promise.call.to_string(), promise_text(promise));
        let promises = match (&self.flush, &self.promises[..]) {
            // They all say the same.
            (Reach::Memory(_), [first, ..]) => vec![("any call".to_string(), promise_text(first))],
            (_, promises) => promises.iter().map(line).collect(),
        };
        let load = self.load.iter().map(|load| (load.device.clone(), load_text(load))).collect();
        let lead = |n| if n == 0 { "unknown" } else { "" }.to_string();
        let unknown =
            self.unknown.iter().enumerate().map(|(n, text)| (lead(n), text.clone())).collect();
        [
            ("From file to medium", way),
            ("Durability after each call, according to the kernel", promises),
            ("What the disk does now", load),
            ("What cannot be known from here", unknown),
        ]
        .into_iter()
        .filter(|(_, lines): &(_, Vec<_>)| !lines.is_empty())
        .map(|(heading, lines)| Lines { heading, lines })
        .collect()
    }
}

fn file_system(one: &FileSystem, depth: usize, out: &mut Vec<(String, String)>) {
    let mut parts = Vec::new();
    match &one.point {
        Some(point) if one.source.is_empty() => parts.push(format!("mounted at {point}")),
        Some(point) => parts.push(format!("mounted at {point} from {}", one.source)),
        None => parts.push("a file system whose mount is not visible from here".into()),
    }
    match one.journal {
        Some(true) => parts.push("with a journal".into()),
        Some(false) => parts.push(
            "without a journal: after a crash it has to be checked, and files may be damaged"
                .into(),
        ),
        None => {}
    }
    out.push((lead(&one.name, depth), parts.join(", ")));
    for setting in &one.options {
        out.push((String::new(), format!("{}: {}", setting.option, setting.meaning)));
    }
    one.below.iter().for_each(|below| self::below(below, depth + 1, out));
}

fn below(below: &Below, depth: usize, out: &mut Vec<(String, String)>) {
    match below {
        Below::Device(device) => self::device(device, depth, out),
        Below::File { path, file_system } => {
            out.push((lead("file", depth), path.clone()));
            self::file_system(file_system, depth + 1, out);
        }
        Below::Unseen(why) => out.push((lead("?", depth), why.clone())),
    }
}

fn lead(name: &str, depth: usize) -> String {
    format!("{}{name}", " ".repeat(depth.min(6)))
}

fn device(device: &Device, depth: usize, out: &mut Vec<(String, String)>) {
    let mut parts = vec![device.what.clone()];
    parts.extend(device.model.clone());
    parts.extend(device.bytes.map(|bytes| Bytes(bytes).to_string()));
    out.push((lead(&device.name, depth), parts.join(", ")));
    if let Some(queue) = &device.queue {
        out.push((String::new(), cache(queue)));
        // Those of a stack pass requests on; the disk below has the queue.
        if device.below.is_empty() {
            out.push((String::new(), requests(queue)));
        }
    }
    out.extend(device.notes.iter().map(|note| (String::new(), note.clone())));
    device.below.iter().for_each(|below| self::below(below, depth + 1, out));
}

fn cache(queue: &Queue) -> String {
    let cache = match queue.write_cache {
        Some(WriteCache::WriteBack) => {
            "write back: its cache can lose data, and flushes are sent to it"
        }
        Some(WriteCache::WriteThrough) => {
            "write through: it reports no cache that can lose data, and no flush is sent to it"
        }
        None => "it does not report whether its cache can lose data",
    };
    let fua = match queue.fua {
        Some(true) => "; takes writes that go past the cache (FUA)",
        Some(false) if queue.write_cache == Some(WriteCache::WriteBack) => "; no FUA",
        _ => "",
    };
    format!("{cache}{fua}")
}

fn requests(queue: &Queue) -> String {
    let mut parts = Vec::new();
    parts.extend(
        queue
            .rotational
            .map(|turns| if turns { "rotational" } else { "not rotational" }.to_string()),
    );
    parts.extend(queue.scheduler.as_ref().map(|name| format!("scheduler {name}")));
    parts.extend(queue.nr_requests.map(|count| format!("up to {count} requests are queued")));
    parts.extend(match queue.wbt_lat_usec {
        Some(0) => Some("background writes are not delayed (wbt)".into()),
        Some(usec) => Some(format!(
            "background writes are delayed once reads take more than {} ms (wbt)",
            usec as f64 / 1e3
        )),
        None => None,
    });
    parts.extend(match (queue.logical_block_bytes, queue.physical_block_bytes) {
        (Some(logical), Some(physical)) if logical != physical => {
            Some(format!("blocks of {}, physical {}", Bytes(logical), Bytes(physical)))
        }
        (Some(logical), _) => Some(format!("blocks of {}", Bytes(logical))),
        (None, physical) => {
            physical.map(|physical| format!("physical blocks of {}", Bytes(physical)))
        }
    });
    parts.extend(match (queue.atomic_write_unit_min_bytes, queue.atomic_write_unit_max_bytes) {
        (Some(min), Some(max)) if max > 0 => Some(format!(
            "writes of {} to {} are never torn with RWF_ATOMIC",
            Bytes(min),
            Bytes(max)
        )),
        (_, Some(_)) => Some("no atomic writes".into()),
        _ => None,
    });
    if parts.is_empty() { "its queue reports nothing else".into() } else { parts.join("; ") }
}

fn promise_text(promise: &Promise) -> String {
    let durable = match promise.durable {
        Durable::Yes => "durable",
        Durable::No => "not durable",
        Durable::AsTheServerSays => "durable if the server keeps its word",
        Durable::Unknown => "unknown",
    };
    format!("{durable}: {} [{}]", promise.how, promise.source)
}

pub(super) fn load_text(load: &Load) -> String {
    let flushes = load.flushes.map_or(String::new(), |count| format!(", {count} flushes"));
    let told = format!(
        "{} writes ({}){flushes} and {} reads ({}) in {:.2} s, {} in flight",
        load.writes,
        Bytes(load.written_bytes),
        load.reads,
        Bytes(load.read_bytes),
        load.seconds,
        load.in_flight
    );
    match load.is_written_to() {
        true => format!(
            "{told}: another program writes to it, or the kernel writes back earlier data; its \
             figures differ now"
        ),
        false => told,
    }
}
