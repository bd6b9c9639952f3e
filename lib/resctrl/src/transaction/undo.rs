//! The steps that undo a transaction: a pure function of the previous state, the steps done, and
//! the current state.
//!
//! Only what the journal names is touched. Where something is now neither as it was before nor as
//! the journal's steps made it, another process has changed it since: it is left alone and
//! reported. What belongs to a CPU or a cache that is offline cannot be restored yet: it is
//! reported separately ([`Rest`]).

use std::collections::{BTreeMap, BTreeSet};

use ringfence_system::cpulist::CpuSet;

use super::journal::Record;
use super::step::Step;
use crate::id::GroupId;
use crate::info::{Info, Unit};
use crate::kernel::Thread;
use crate::mode::Mode;
use crate::schemata::{Domain, Resource, Schemata, Setting};
use crate::state::{GroupState, State};

/// The steps that undo a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undo {
    /// What to do, in this order.
    pub steps: Vec<Step>,
    /// What another process has changed, one sentence each; it stays.
    pub left: Vec<String>,
    /// What is restored to a place where it may not have been before, one sentence each.
    pub notes: Vec<String>,
    /// What cannot be restored yet.
    pub rest: Rest,
}

/// What belongs to CPUs and caches that are offline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rest {
    /// By group, the settings of before.
    pub settings: BTreeMap<GroupId, Schemata>,
    /// What was written in place of those, and what the kernel sets a cache to that comes back.
    pub written: Vec<Step>,
    /// By group, the CPUs.
    pub cpus: BTreeMap<GroupId, CpuSet>,
}

impl Rest {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.cpus.is_empty()
    }

    /// One sentence each.
    pub fn sentences(&self) -> Vec<String> {
        let settings = self.settings.iter().flat_map(|(group, schemata)| {
            schemata.settings().map(move |(resource, domain, old)| {
                format!("{resource}:{domain} of {group}, which was {old}: no CPU of it is online")
            })
        });
        let cpus = self.cpus.iter().map(|(group, cpus)| format!("CPUs {cpus} of {group}: offline"));
        settings.chain(cpus).collect()
    }
}

/// What is there now.
pub struct Now<'a> {
    /// All groups.
    pub state: &'a State,
    /// Those of them that others have made in place of the ones that the journal is about.
    pub strangers: &'a BTreeSet<GroupId>,
    /// The CPUs that are online, where that is known.
    pub online: Option<CpuSet>,
}

impl Now<'_> {
    fn group(&self, id: &GroupId) -> Option<&GroupState> {
        self.state.groups.get(id).filter(|_| !self.strangers.contains(id))
    }
}

/// What must be known of threads.
pub trait Lives {
    /// Whether it still lives.
    fn lives(&self, thread: Thread) -> bool;

    /// The group of control of the nearest ancestor of a thread whose group of before is known, if
    /// any is.
    fn origin(&self, thread: Thread) -> Option<GroupId>;
}

/// Determines the steps that undo a transaction.
pub fn undo(record: &Record, now: &Now, info: &Info, lives: &dyn Lives) -> Undo {
    let past = Past::of(record);
    let mut undo = Undo::default();
    for group in now.strangers {
        undo.left.push(format!(
            "{group} is now another group, which another program created with that name"
        ));
    }
    threads(&past, now, lives, &mut undo);
    // Groups that were made go first: what they had to themselves can then be given back.
    for group in past.made.iter().rev().filter(|group| now.group(group).is_some()) {
        undo.steps.push(Step::Remove { group: group.clone() });
    }
    settings(&past, now, info, &mut undo);
    cpus(&past, now, &mut undo);
    monitors(&past, now, &mut undo);
    whole(past.before, now.state, &mut undo);
    undo
}

// No step touches these, so a change was made by another process; measurements across it mean
// nothing.
fn whole(before: &State, now: &State, undo: &mut Undo) {
    // Journals of earlier versions name none.
    if before.whole.is_empty() {
        return;
    }
    let files: BTreeSet<&String> = before.whole.keys().chain(now.whole.keys()).collect();
    let of = |state: &State, file: &String| {
        state.whole.get(file).cloned().unwrap_or_else(|| "absent".into())
    };
    for file in files {
        let (was, is) = (of(before, file), of(now, file));
        if was != is {
            undo.left.push(format!("info/{file} is now {is}, was {was} before"));
        }
    }
}

// What the journal says, by what it is about.
struct Past<'a> {
    before: &'a State,
    record: &'a Record,
    made: Vec<GroupId>,
    written: BTreeMap<(&'a GroupId, &'a Resource, Domain), Vec<&'a Setting>>,
    modes: BTreeMap<&'a GroupId, Vec<Mode>>,
    cpus: CpuSet,
    // By group, those that it was given.
    given: BTreeMap<&'a GroupId, CpuSet>,
    moved: BTreeMap<Thread, BTreeSet<GroupId>>,
}

impl<'a> Past<'a> {
    fn of(record: &'a Record) -> Self {
        let before = &record.header.before;
        let mut past = Self {
            before,
            record,
            given: BTreeMap::new(),
            made: Vec::new(),
            written: BTreeMap::new(),
            modes: BTreeMap::new(),
            cpus: CpuSet::new(),
            moved: BTreeMap::new(),
        };
        for step in &record.steps {
            match step {
                Step::Create { group } => {
                    if !before.groups.contains_key(group) && !past.made.contains(group) {
                        past.made.push(group.clone());
                    }
                }
                Step::Schemata { group, schemata } => {
                    for (resource, domain, setting) in schemata.settings() {
                        past.written.entry((group, resource, domain)).or_default().push(setting);
                    }
                }
                Step::Mode { group, mode } => past.modes.entry(group).or_default().push(*mode),
                Step::Cpus { group, cpus } => {
                    let had = before
                        .groups
                        .get(group)
                        .map(|state| state.cpus.clone())
                        .unwrap_or_default();
                    past.cpus = past.cpus.union(cpus).union(&had);
                    let given = past.given.entry(group).or_default();
                    *given = given.union(cpus);
                }
                Step::Threads { group, threads } => {
                    for thread in threads {
                        past.moved.entry(*thread).or_default().insert(group.parent());
                    }
                }
                Step::Remove { .. } => {}
            }
        }
        past
    }
}

impl Past<'_> {
    // Where a thread goes that was started in a group that was made, by parents that have ended;
    // and whether it would be there. A process that starts something there was moved there, as a
    // rule.
    fn home_of_born(&self, at: &GroupId) -> (GroupId, bool) {
        let movers = self.moved.iter().filter(|(_, to)| to.contains(at));
        let homes: BTreeSet<GroupId> =
            movers.map(|(thread, _)| self.record.home_of(*thread)).collect();
        match (homes.len(), homes.into_iter().next()) {
            (1, Some(home)) => {
                let certain = home.is_default();
                (home, certain)
            }
            (0, _) => (GroupId::default(), true),
            _ => (GroupId::default(), false),
        }
    }

    // Those of these CPUs that another process has given to another group since.
    fn given_away(&self, cpus: &CpuSet, now: &Now) -> CpuSet {
        let mut away = CpuSet::new();
        for (id, state) in
            now.state.groups.iter().filter(|(id, _)| !id.is_default() && !id.is_monitor())
        {
            let ours = self.made.contains(id) && !now.strangers.contains(id);
            let given = self.given.get(id).cloned().unwrap_or_default();
            let had = self.before.groups.get(id).map(|was| was.cpus.clone()).unwrap_or_default();
            if !ours {
                away =
                    away.union(&state.cpus.intersection(cpus).difference(&given).difference(&had));
            }
        }
        away
    }
}

impl Now<'_> {
    // The default group has every cache that is there.
    fn is_offline(&self, resource: &Resource, domain: Domain) -> bool {
        let default = self.state.groups.get(&GroupId::default());
        default.is_some_and(|state| state.schemata.get(resource, domain).is_none())
    }
}

impl Rest {
    fn setting(
        &mut self,
        (group, resource, domain): (&GroupId, &Resource, Domain),
        old: &Setting,
        written: &[&Setting],
        info: &Info,
    ) {
        self.settings.entry(group.clone()).or_default().set(resource.clone(), domain, old.clone());
        // A cache whose first CPU comes online is all of every group's (Linux 6.1,
        // `domain_setup_ctrlval`).
        let reset = info.cache(resource).map(|cache| Setting::Mask(cache.cbm_mask));
        let percent =
            info.bandwidths.get(resource.name()).filter(|info| info.unit == Unit::Percent);
        let reset = reset.or_else(|| percent.map(|_| Setting::Amount(100)));
        for setting in written.iter().copied().chain(&reset) {
            let mut schemata = Schemata::new();
            schemata.set(resource.clone(), domain, setting.clone());
            self.written.push(Step::Schemata { group: group.clone(), schemata });
        }
    }
}

// Threads in groups that were made, and threads that were moved elsewhere, back to where they were.
fn threads(past: &Past, now: &Now, lives: &dyn Lives, undo: &mut Undo) {
    let mut back: BTreeMap<GroupId, Vec<Thread>> = BTreeMap::new();
    let made: BTreeSet<&GroupId> = past.made.iter().collect();
    let named =
        |thread: &Thread| past.before.groups.values().any(|state| state.threads.contains(thread));
    let mut here: BTreeSet<Thread> = BTreeSet::new();
    for state in past.made.iter().filter_map(|group| now.group(group)) {
        here.extend(&state.threads);
    }
    let mut born: BTreeMap<(GroupId, GroupId), usize> = BTreeMap::new();
    let elsewhere = past.moved.keys().copied().filter(|moved| !here.contains(moved));
    for thread in here.iter().copied().chain(elsewhere).filter(|thread| lives.lives(*thread)) {
        let home = match named(&thread) || past.moved.contains_key(&thread) {
            true => past.record.home_of(thread),
            false => lives.origin(thread).unwrap_or_else(|| {
                let (home, certain) = past.home_of_born(&now.state.control_of(thread));
                if !certain {
                    *born.entry((now.state.control_of(thread), home.clone())).or_default() += 1;
                }
                home
            }),
        };
        let at = now.state.control_of(thread);
        if !past.before.groups.contains_key(&home) {
            continue;
        }
        if at == home {
            // Out of a monitor group that it was moved into; into another one comes last.
            let monitored = now.state.monitor_of(thread);
            let ours = past.moved.get(&thread).is_some_and(|to| to.contains(&at));
            if ours && monitored.is_some() && past.before.monitor_of(thread).is_none() {
                back.entry(home).or_default().push(thread);
            }
            continue;
        }
        // Removing a group that was made brings what is in it to the default group.
        let in_made = made.contains(&at);
        if home.is_default() && in_made {
            continue;
        }
        let ours = in_made
            || at.is_default()
            || past.moved.get(&thread).is_some_and(|to| to.contains(&at));
        if !ours || now.strangers.contains(&at) {
            undo.left.push(format!("thread {} is now in {at}, was in {home} before", thread.tid));
        } else if now.group(&home).is_some() {
            back.entry(home).or_default().push(thread);
        } else {
            undo.left.push(format!("thread {} was in {home}, which no longer exists", thread.tid));
        }
    }
    undo.steps.extend(back.into_iter().map(|(group, threads)| Step::Threads { group, threads }));
    for ((at, home), count) in born {
        let (threads, they) =
            if count == 1 { ("thread", "it goes") } else { ("threads", "they go") };
        undo.notes.push(format!(
            "{count} {threads} of {at} outlived the processes that started them, so their former \
             group is unknown: {they} to {home}"
        ));
    }
}

fn settings(past: &Past, now: &Now, info: &Info, undo: &mut Undo) {
    let mut back: BTreeMap<&GroupId, Schemata> = BTreeMap::new();
    for (&(group, resource, domain), written) in &past.written {
        let Some(was) = past.before.groups.get(group) else { continue };
        let Some(state) = now.group(group) else {
            let gone = format!("{group}, which had been changed, no longer exists");
            if !undo.left.contains(&gone) {
                undo.left.push(gone);
            }
            continue;
        };
        let Some(old) = was.schemata.get(resource, domain) else {
            if let Some(present) = state.schemata.get(resource, domain) {
                undo.left.push(format!(
                    "{resource}:{domain} of {group} came online in the meantime and stays at \
                     {present}"
                ));
            }
            continue;
        };
        let Some(present) = state.schemata.get(resource, domain) else {
            if now.is_offline(resource, domain) {
                undo.rest.setting((group, resource, domain), old, written, info);
            }
            continue;
        };
        if present == old {
            continue;
        }
        if written.iter().any(|setting| in_effect(info, resource, setting, present)) {
            back.entry(group).or_default().set(resource.clone(), domain, old.clone());
        } else {
            undo.left
                .push(format!("{resource}:{domain} of {group} is now {present}, was {old} before"));
        }
    }
    // What each group's mode is and is to be. Exclusive groups may stand in the way of masks while
    // these change, so they are loosened first.
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (id, was) in &past.before.groups {
        let present = now.group(id).and_then(|state| state.mode);
        let (Some(old), Some(present)) = (was.mode, present) else { continue };
        let ours = past.modes.get(id).is_some_and(|set| set.contains(&present));
        if past.modes.contains_key(id) && present != old && !ours {
            undo.left.push(format!("{id} is now {}, was {} before", present.word(), old.word()));
        }
        let wanted = if ours { old } else { present };
        let mut is = present;
        if present == Mode::Exclusive && (back.contains_key(id) || wanted != present) {
            first.push(Step::Mode { group: id.clone(), mode: Mode::Shareable });
            is = Mode::Shareable;
        }
        if wanted != is {
            last.push(Step::Mode { group: id.clone(), mode: wanted });
        }
    }
    let masks =
        back.into_iter().map(|(group, schemata)| Step::Schemata { group: group.clone(), schemata });
    undo.steps.extend(first.into_iter().chain(masks).chain(last));
}

// What a step may have come to that the kernel was asked for.
fn in_effect(info: &Info, resource: &Resource, written: &Setting, present: &Setting) -> bool {
    match (written, present, info.bandwidths.get(resource.name())) {
        (Setting::Amount(written), Setting::Amount(present), Some(info)) => {
            info.can_be(*present, *written)
        }
        (written, present, _) => written == present,
    }
}

// CPUs that a group takes are taken from others, and from their monitor groups.
fn cpus(past: &Past, now: &Now, undo: &mut Undo) {
    let mut touched = past.cpus.clone();
    for state in past.made.iter().filter_map(|group| now.group(group)) {
        touched = touched.union(&state.cpus);
    }
    if touched.is_empty() {
        return;
    }
    let online =
        |cpus: CpuSet| now.online.as_ref().map_or(cpus.clone(), |online| cpus.intersection(online));
    let mut rewritten = BTreeSet::new();
    // Groups of control first: a monitor group has CPUs of the one above alone.
    let ordered = past.before.groups.iter().filter(|(id, _)| !id.is_default() && !id.is_monitor());
    let ordered = ordered.chain(past.before.groups.iter().filter(|(id, _)| id.is_monitor()));
    for (id, was) in ordered {
        let Some(present) = now.group(id) else { continue };
        let mine = was.cpus.intersection(&touched);
        let offline = mine.difference(&online(mine.clone()));
        if !offline.is_empty() {
            undo.rest.cpus.insert(id.clone(), offline);
        }
        let missing = online(was.cpus.difference(&present.cpus));
        let differ = missing.union(&present.cpus.difference(&was.cpus));
        // Of a rest, what it does not name is nothing to it.
        let differ = if past.record.header.rest { differ.intersection(&touched) } else { differ };
        // What is written to the group above takes them from its monitor groups.
        let cleared =
            id.is_monitor() && rewritten.contains(&id.parent()) && !present.cpus.is_empty();
        if differ.is_empty() && !cleared {
            continue;
        }
        let given = past.given.get(id).cloned().unwrap_or_default();
        let taken = differ.difference(&was.cpus).difference(&given);
        let elsewhere =
            if id.is_monitor() { CpuSet::new() } else { past.given_away(&missing, now) };
        let elsewhere = elsewhere.union(&taken);
        if differ.is_subset(&touched) && elsewhere.is_empty() {
            let cpus = online(present.cpus.difference(&touched).union(&mine));
            undo.steps.push(Step::Cpus { group: id.clone(), cpus });
            rewritten.insert(id.clone());
        } else {
            let said =
                |cpus: &CpuSet| if cpus.is_empty() { "none".into() } else { cpus.to_string() };
            let (now, then) = (said(&present.cpus), said(&was.cpus));
            undo.left.push(format!("{id} now has CPUs {now}, had {then} before"));
        }
    }
}

// A thread that is moved between groups of control leaves its monitor group.
fn monitors(past: &Past, now: &Now, undo: &mut Undo) {
    let returning: BTreeSet<Thread> = undo
        .steps
        .iter()
        .flat_map(|step| match step {
            Step::Threads { threads, .. } => threads.as_slice(),
            _ => &[],
        })
        .copied()
        .chain(past.moved.keys().copied())
        .chain(
            past.made
                .iter()
                .filter_map(|group| now.group(group))
                .flat_map(|state| state.threads.clone()),
        )
        .collect();
    for (id, was) in past.before.groups.iter().filter(|(id, _)| id.is_monitor()) {
        let Some(present) = now.group(id) else { continue };
        let missing =
            |thread: &&Thread| returning.contains(thread) && !present.threads.contains(thread);
        let threads: Vec<Thread> = was.threads.iter().filter(missing).copied().collect();
        if !threads.is_empty() {
            undo.steps.push(Step::Threads { group: id.clone(), threads });
        }
    }
}
