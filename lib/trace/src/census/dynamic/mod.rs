//! The dynamic census: what a recorded program executed, by instruction and by caller, and
//! which flushes and fences were unnecessary or missing.
//!
//! - A flush is **of a clean line** if nothing was stored to the line since it was last written
//!   back and fenced, or at all; non-temporal stores need a fence and no flush.
//! - A line is **flushed again** by a thread that had flushed it since its last fence, whether or
//!   not something was stored to it meanwhile.
//! - A **fence has nothing to wait for** if its thread has neither flushed a line nor made a
//!   non-temporal store, to these files, since its last fence or locked instruction.
//! - A line that was stored to and not flushed up to the end is **unflushed**; one that was
//!   flushed, or stored to past the caches, and not fenced, is **unfenced**. Lines that the kernel
//!   wrote count as neither.
//! - `msync` with `MS_SYNC` makes whole pages durable, `fsync`, `fdatasync`, `syncfs` and `sync`
//!   whole files: what was stored before they began. `sync_file_range` makes nothing durable.
//!
//! Fences complete the operations of their own thread. Locked instructions are fences as well, but
//! never count as unnecessary.

mod attribution;
mod blocks;
pub mod checked;
mod counts;
mod diff;
mod fates;
mod findings;
mod key;
mod lines;
mod needless;
mod races;
pub mod saving;
mod sizes;
mod waits;
mod walk;

use std::collections::HashMap;

use ringfence_crashcheck::Profile;
use serde::{Serialize, Serializer};

use crate::events::{Ended, Event, LINE, Location, Site, TracedFile, Unseen};
use crate::recording::{Manifest, Reader, RecordingError};

pub use attribution::is_own_module;
pub use blocks::BLOCK;
pub use counts::Executed;
pub use diff::{PlaceDiff, RunDiff, RunTotal, diff};
pub use findings::{Confidence, Finding};
pub use needless::NeedlessLine;
pub use sizes::SizesOf;
pub use waits::Waits;

use findings::Findings;

/// What a recorded program executed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// The command that was recorded.
    pub command: Vec<String>,
    /// How it ended; `None`: the recorder was killed, and the end is missing.
    pub ended: Option<Ended>,
    /// Why what seems to be missing may not be, each a sentence without its stop. Lints of what is
    /// missing are withheld then, and lines that were not flushed or fenced are those that the
    /// recording has not seen flushed or fenced.
    pub uncertain: Vec<String>,
    /// What the recorder has noted, each a sentence without its stop.
    pub notes: Vec<String>,
    /// The files whose accesses were recorded.
    pub files: Vec<TracedFile>,
    /// Threads that did anything.
    pub threads: u64,
    /// Events of all kinds.
    pub events: u64,
    /// How long recording took, ns.
    pub recorded_ns: u64,
    /// Events in a second of recording; `None` where the time was not taken.
    pub events_per_second: Option<f64>,
    /// Locked instructions that were executed in all; `None` where the recorder did not count them.
    /// Those in `total` are the ones that something waited for, or that stored to the files.
    pub locked_in_all: Option<u64>,
    /// Everything together.
    pub total: Executed,
    /// Lines that were stored to and not flushed yet, at most at once.
    pub most_dirty_lines: u64,
    /// `sfence` and `mfence` that waited for something, by how many lines.
    pub waits: Vec<Waits>,
    /// Lines of non-temporal stores, each once between two fences of a thread.
    pub nt_lines: u64,
    /// How large stores were, by powers of two.
    pub sizes: Vec<SizesOf>,
    /// By instruction, first what has most to do with durability.
    pub sites: Vec<AtPlace>,
    /// By the innermost call from outside of the program or library that the instruction is in, or
    /// else by instruction, in the same order.
    pub callers: Vec<AtPlace>,
    /// Stores of two threads to one line that nothing ordered, by the two instructions.
    pub races: Vec<Race>,
    /// The rules of the crash checker's lints: Intel's without eADR, AMD's, AMD's before
    /// clflushopt, or those of processors whose caches are durable.
    #[serde(serialize_with = "by_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = Profile::ALL.map(Profile::name))))]
    pub rules: Profile,
    /// What the crash checker finds wrong or wasteful: first what is the program's own, then by
    /// confidence, then by how often it occurred. What comes from making pools is last.
    pub findings: Vec<Finding>,
    /// Source lines under which at least a tenth of the flushes were needless, in the same order.
    pub needless_lines: Vec<NeedlessLine>,
    /// What the making of pools by PMDK's libraries executed, if any was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_making: Option<Executed>,
}

/// The counts of a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AtPlace {
    /// The place; `None` where it is not known.
    pub location: Option<Location>,
    /// What.
    #[serde(flatten)]
    pub executed: Executed,
}

/// Two places that stored to one line, by two threads, with nothing that ordered them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Race {
    /// Whose store came first.
    pub first: Option<Location>,
    /// Whose store came then.
    pub second: Option<Location>,
    /// How often.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub count: u64,
    /// The file of the first such line.
    pub file: u32,
    /// The first such line's offset in it.
    pub offset: u64,
}

/// Which flushes and fences are needless, one event after the other.
#[derive(Debug, Default)]
pub struct Needless(walk::Walk);

impl Needless {
    /// Whether the next event is a flush of [`Executed::needless_flushes`], or one of
    /// [`Executed::idle_fences`].
    pub fn step(&mut self, event: &Event) -> bool {
        self.0.step(event)
    }
}

/// The census of a recording, by the rules of Intel's processors without eADR.
///
/// # Errors
/// Where it is damaged.
pub fn of(recording: &Reader) -> Result<Run, RecordingError> {
    by_rules(recording, Profile::IntelAdr)
}

fn by_name<S: Serializer>(rules: &Profile, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(rules.name())
}

/// The census of a recording, with the lints of a kind of processor. What is counted depends on
/// none.
///
/// # Errors
/// Where it is damaged.
pub fn by_rules(recording: &Reader, rules: Profile) -> Result<Run, RecordingError> {
    let mut walk = walk::Walk::default();
    let mut findings = Findings::new(recording, rules);
    let mut threads = std::collections::HashSet::new();
    let same = same_instructions(recording);
    for event in recording.events() {
        let mut event = event?;
        event.site = same.get(&event.site).copied().unwrap_or(event.site);
        threads.insert(event.thread);
        walk.step(&event);
        findings.step(&event);
    }
    let most_dirty_lines = walk.lines.most_dirty;
    walk.finish();

    let mut total = Executed::default();
    let mut sites: HashMap<u32, Executed> = HashMap::new();
    let mut callers: HashMap<Option<Location>, Executed> = HashMap::new();
    for (key, executed) in &walk.rows {
        total += *executed;
        *sites.entry(key.site).or_default() += *executed;
        let (place, outside) = attribution::places(recording, *key);
        *callers.entry(outside.or(place)).or_default() += *executed;
    }
    let site = |id| recording.site(id).map(|site| recording.location(&site.module, site.address));
    let race =
        |(&(first, second), &(count, (file, line))): (&(u32, u32), &(u64, lines::Number))| Race {
            first: site(first),
            second: site(second),
            count,
            file,
            offset: line * LINE,
        };
    let mut races: Vec<Race> = walk.races.found.iter().map(race).collect();
    races.sort_by_key(|race| std::cmp::Reverse(race.count));
    let (needless_lines, pool_making) = needless::lines(recording, &walk.rows);
    let manifest = recording.manifest();
    let (events, recorded_ns) = (recording.len(), manifest.recorded_ns);
    let uncertain = uncertain(manifest);
    let seconds = recorded_ns as f64 / 1e9;
    Ok(Run {
        command: manifest.about.command.clone(),
        ended: manifest.ended.clone(),
        files: manifest.files.clone(),
        threads: threads.len() as u64,
        events,
        recorded_ns,
        events_per_second: (recorded_ns > 0).then(|| events as f64 / seconds),
        locked_in_all: recording.manifest().locked_in_all,
        total,
        most_dirty_lines,
        waits: walk.waits.iter().map(|(&lines, &fences)| Waits { lines, fences }).collect(),
        nt_lines: walk.nt_lines,
        sizes: walk.sizes.all(),
        sites: sorted(sites.into_iter().map(|(id, executed)| (site(id), executed))),
        callers: sorted(callers),
        races,
        rules,
        findings: findings.finish(uncertain.is_empty()),
        uncertain,
        notes: manifest.notes.clone(),
        needless_lines,
        pool_making,
    })
}

// A recorder numbers the instructions of each process: of those that have several numbers, the
// least one for each.
fn same_instructions(recording: &Reader) -> HashMap<u32, u32> {
    let mut least: HashMap<(&str, u64), u32> = HashMap::new();
    for site in recording.sites() {
        let known = least.entry((&site.module, site.address)).or_insert(site.id);
        *known = site.id.min(*known);
    }
    let one = |site: &Site| (site.id, least[&(&*site.module, site.address)]);
    recording.sites().map(one).filter(|(id, least)| id != least).collect()
}

fn uncertain(manifest: &Manifest) -> Vec<String> {
    let mut reasons = Vec::new();
    match manifest.ended {
        None | Some(Ended::Stopped(_)) => {
            reasons.push(
                "the trace is incomplete: it does not contain the end of the program".to_owned(),
            );
        }
        // The next instruction might have been the fence.
        Some(Ended::Signal(signal)) => reasons.push(format!("signal {signal} ended the program")),
        Some(Ended::Exited(_)) => {}
    }
    reasons.extend(manifest.unrecorded.iter().map(|program| format!("{program} ran unrecorded")));
    let unseen = |Unseen { module, flushes, fences }: &Unseen| {
        let many = |count: u64, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        };
        let all = [many(*flushes, "flush", "flushes"), many(*fences, "fence", "fences")];
        format!(
            "the code of {module} has {} that could not be recorded, in functions without names or \
             unwind tables",
            all.into_iter().flatten().collect::<Vec<_>>().join(" and ")
        )
    };
    reasons.extend(manifest.unseen.iter().map(unseen));
    reasons
}

fn sorted(rows: impl IntoIterator<Item = (Option<Location>, Executed)>) -> Vec<AtPlace> {
    let row = |(location, executed)| AtPlace { location, executed };
    let mut rows: Vec<AtPlace> = rows.into_iter().map(row).collect();
    rows.sort_by(|a, b| {
        let key =
            |row: &AtPlace| (row.executed.weight(), row.executed.stores + row.executed.locked);
        key(b).cmp(&key(a)).then_with(|| a.location.cmp(&b.location))
    });
    rows
}
