//! Groups, what they use, and what was restored, as JSON.

use ringfence_resctrl::Overview;
use ringfence_resctrl::monitor::Used;
use ringfence_resctrl::transaction::{Left, Restored};
use serde::Serialize;

/// `resctrl`: what each group may use.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/resctrl/2")]
pub(crate) struct Resctrl<'a> {
    /// The mounted file system at a moment.
    resctrl: &'a Overview,
    /// Groups that can still be made; null where nothing is shared out, or not all of it is known.
    closids_free: Option<u32>,
    /// Groups and monitor groups that can still be monitored, at most; null where nothing is
    /// monitored, or not all of it is known.
    rmids_free: Option<u32>,
    /// Journals of what was changed.
    journals: &'a [Left],
}

/// `resctrl watch`: what groups use, a document for each reading.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/resctrl-watch/1")]
pub(crate) struct ResctrlWatch<'a> {
    /// Seconds since watching began.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    at: f64,
    /// Seconds since the reading before.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    seconds: f64,
    /// By group and domain.
    used: &'a [Used],
    /// What is not counted here, a sentence each.
    missing: &'a [String],
}

/// `resctrl recover` and `resctrl undo`: one of the four.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/put-back/2")]
pub(crate) struct PutBackDocument<'a> {
    #[serde(flatten)]
    what: &'a PutBack<'a>,
}

/// `restore`: what runs that were killed have left behind.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/restored/1")]
pub(crate) struct RestoredDocument<'a> {
    #[serde(flatten)]
    runs: Runs<'a>,
    /// What is not restored now, a sentence each: under way, kept on request, in use, or another
    /// user's.
    stays: &'a [String],
    /// What could not be restored, a sentence each; the exit code is 1 then.
    failed: &'a [String],
}

/// Runs whose changes were undone, or would be.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Runs<'a> {
    /// They were.
    PutBack(&'a [LeftBehind]),
    /// They would be.
    WouldPutBack(&'a [LeftBehind]),
}

/// What was restored, or would be.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PutBack<'a> {
    /// It was; none where there was nothing.
    PutBack(Option<LeftBehind>),
    /// It would be.
    WouldPutBack(Option<LeftBehind>),
    /// A journal of what is gone was removed.
    Removed(Gone<'a>),
    /// It would be.
    WouldRemove(Gone<'a>),
}

/// What is gone with everything that was set.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gone<'a> {
    /// What it was set for.
    pub purpose: &'a str,
    /// What is gone, such as `an earlier boot`.
    pub of: &'a str,
}

/// Changes that were undone, or would be.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Undone"))]
pub struct LeftBehind {
    /// What they were for.
    pub purpose: String,
    /// The steps that led back, a sentence each.
    pub steps: Vec<String>,
    /// What another process has changed since, a sentence each: it was left alone.
    pub left: Vec<String>,
    /// What was restored to a place where it may not have been before, a sentence each.
    pub notes: Vec<String>,
    /// What could not be undone yet, a sentence each: it is still in a journal.
    pub waiting: Vec<String>,
}

impl From<Restored> for LeftBehind {
    fn from(restored: Restored) -> Self {
        let Restored { purpose, steps, left, notes, waiting } = restored;
        let steps = steps.iter().map(ToString::to_string).collect();
        Self { purpose, steps, left, notes, waiting }
    }
}

/// Which groups may use which caches and how much bandwidth, and journals of what was changed.
pub fn resctrl<'a>(seen: &'a Overview, journals: &'a [Left]) -> impl Serialize + use<'a> {
    let (closids_free, rmids_free) = (seen.closids_free(), seen.rmids_free());
    Resctrl { resctrl: seen, closids_free, rmids_free, journals }
}

/// What groups use, `at` seconds after watching began, by readings that are `seconds` apart.
pub fn resctrl_watch<'a>(
    at: f64,
    seconds: f64,
    used: &'a [Used],
    missing: &'a [String],
) -> impl Serialize + use<'a> {
    ResctrlWatch { at, seconds, used, missing }
}

/// What was restored, or would be.
pub fn put_back(what: &PutBack) -> impl Serialize {
    PutBackDocument { what }
}

/// What runs that were killed have left behind, restored or only looked at; what stays, and what
/// failed.
pub fn restored<'a>(
    runs: &'a [LeftBehind],
    dry_run: bool,
    stays: &'a [String],
    failed: &'a [String],
) -> impl Serialize + 'a {
    let runs = if dry_run { Runs::WouldPutBack(runs) } else { Runs::PutBack(runs) };
    RestoredDocument { runs, stays, failed }
}
