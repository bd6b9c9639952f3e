//! Groups, what they use, and what was restored, as JSON.

use ringfence_resctrl::Overview;
use ringfence_resctrl::monitor::Used;
use ringfence_resctrl::transaction::{Left, Restored};
use serde::Serialize;

use crate::json::Document;

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
