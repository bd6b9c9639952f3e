//! What was looked at without being measured: the machine, a path, resctrl.

use ringfence_machine::Machine;
use ringfence_machine::doctor::Finding;
use ringfence_machine::medium::Medium;
use ringfence_machine::targets::Target;
use ringfence_machine::topology::Topology;
use ringfence_resctrl::Overview;
use ringfence_resctrl::monitor::Used;
use ringfence_resctrl::transaction::{Left, Restored};
use ringfence_simulator::{Description, Value};
use ringfence_studies::lock::{Misses, Region};
use serde::Serialize;

use crate::json::Document;

/// CPUs, caches and nodes.
pub fn topology(topology: &Topology) -> impl Serialize {
    Document { schema: "ringfence/topology/2", body: topology }
}

/// Sources of noise, and what can be written to.
pub fn doctor(machine: &Machine) -> impl Serialize {
    #[derive(Serialize)]
    struct Doctor<'a> {
        findings: &'a [Finding],
        targets: &'a [Target],
    }
    let body = Doctor { findings: &machine.findings, targets: &machine.targets };
    Document { schema: "ringfence/doctor/2", body }
}

/// How durable a store to a path can become.
#[derive(Debug, Serialize)]
pub struct Explanation<'a> {
    /// The path.
    pub path: &'a str,
    /// How durable, in one word or two with a hyphen.
    pub durability: &'a str,
    /// Whether flush instructions are left out there, since caches are persistent.
    pub elides_flushes: bool,
    /// The same in a sentence.
    pub verdict: &'a str,
    /// Why, a sentence each.
    pub reasons: &'a [String],
    /// What would make it more durable, a sentence each.
    pub remedies: &'a [String],
    /// What stands between the file and its medium; `None` of a device.
    pub medium: Option<&'a Medium>,
}

/// How durable a store to a path can become.
pub fn explanation(said: &Explanation) -> impl Serialize {
    Document { schema: "ringfence/explanation/2", body: said }
}

/// Which groups may use which caches and how much bandwidth, and journals of what was changed.
pub fn resctrl<'a>(seen: &'a Overview, journals: &'a [Left]) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Resctrl<'a> {
        resctrl: &'a Overview,
        closids_free: Option<u32>,
        rmids_free: Option<u32>,
        journals: &'a [Left],
    }
    let (closids_free, rmids_free) = (seen.closids_free(), seen.rmids_free());
    let body = Resctrl { resctrl: seen, closids_free, rmids_free, journals };
    Document { schema: "ringfence/resctrl/2", body }
}

/// What groups use, `at` seconds after watching began, by readings that are `seconds` apart.
pub fn resctrl_watch<'a>(
    at: f64,
    seconds: f64,
    used: &'a [Used],
    missing: &'a [String],
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Watched<'a> {
        at: f64,
        seconds: f64,
        used: &'a [Used],
        missing: &'a [String],
    }
    Document { schema: "ringfence/resctrl-watch/1", body: Watched { at, seconds, used, missing } }
}

/// What was restored, or would be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PutBack<'a> {
    /// It was; none where there was nothing.
    PutBack(#[serde(serialize_with = "way_back")] Option<&'a Restored>),
    /// It would be.
    WouldPutBack(#[serde(serialize_with = "way_back")] Option<&'a Restored>),
    /// A journal of what is gone was removed.
    Removed(Gone<'a>),
    /// It would be.
    WouldRemove(Gone<'a>),
}

/// What is gone with everything that was set.
#[derive(Debug, Serialize)]
pub struct Gone<'a> {
    /// What it was set for.
    pub purpose: &'a str,
    /// What is gone, such as `an earlier boot`.
    pub of: &'a str,
}

fn way_back<S: serde::Serializer>(restored: &Option<&Restored>, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Written<'a> {
        purpose: &'a str,
        steps: Vec<String>,
        left: &'a [String],
        notes: &'a [String],
        waiting: &'a [String],
    }
    let written = restored.map(|restored| Written {
        purpose: &restored.purpose,
        steps: restored.steps.iter().map(ToString::to_string).collect(),
        left: &restored.left,
        notes: &restored.notes,
        waiting: &restored.waiting,
    });
    written.serialize(to)
}

/// What was restored, or would be.
pub fn put_back(what: &PutBack) -> impl Serialize {
    Document { schema: "ringfence/put-back/2", body: what }
}

/// What a run that was killed had changed: sentences, as of [`put_back`].
#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the schema says what each is")]
pub struct LeftBehind {
    pub purpose: String,
    pub steps: Vec<String>,
    pub left: Vec<String>,
    pub notes: Vec<String>,
    pub waiting: Vec<String>,
}

/// What runs that were killed have left behind, restored or only looked at; what stays, and what
/// failed.
pub fn restored<'a>(
    runs: &'a [LeftBehind],
    dry_run: bool,
    stays: &'a [String],
    failed: &'a [String],
) -> impl Serialize + 'a {
    #[derive(Serialize)]
    struct All<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        put_back: Option<&'a [LeftBehind]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        would_put_back: Option<&'a [LeftBehind]>,
        stays: &'a [String],
        failed: &'a [String],
    }
    let (put_back, would_put_back) = if dry_run { (None, Some(runs)) } else { (Some(runs), None) };
    Document {
        schema: "ringfence/restored/1",
        body: All { put_back, would_put_back, stays, failed },
    }
}

/// Regions that are locked into caches.
pub fn lock_list(regions: &[Region]) -> impl Serialize {
    #[derive(Serialize)]
    struct Regions<'a> {
        regions: &'a [Region],
    }
    Document { schema: "ringfence/lock-list/2", body: Regions { regions } }
}

/// What the kernel counted in passes over locked regions.
pub fn lock_misses(misses: &[Misses]) -> impl Serialize {
    #[derive(Serialize)]
    struct All<'a> {
        misses: &'a [Misses],
    }
    Document { schema: "ringfence/lock-misses/2", body: All { misses } }
}

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
