//! How to get back: a pure function of what was there, what was done, and what is there now.
//!
//! Only what the journal names is touched. Where something is now neither as it was before nor as the
//! journal's steps made it, somebody else has changed it since: it is left alone and reported.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_kernel::cpulist::CpuSet;

use super::step::Step;
use crate::group::{GroupId, Mode};
use crate::info::Info;
use crate::kernel::Thread;
use crate::schemata::{Domain, Resource, Schemata, Setting};
use crate::state::{GroupState, State};

/// The way back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undo {
    /// What to do, in this order.
    pub steps: Vec<Step>,
    /// What somebody else has changed, one sentence each; it stays.
    pub left: Vec<String>,
}

/// What must be known of threads.
pub trait Lives {
    /// Whether it still lives.
    fn lives(&self, thread: Thread) -> bool;

    /// The group of control in which a thread would be that was born since.
    fn origin(&self, thread: Thread) -> GroupId;
}

/// Works out the way back.
pub fn undo(before: &State, done: &[Step], now: &State, info: &Info, lives: &dyn Lives) -> Undo {
    let past = Past::of(before, done);
    let mut undo = Undo::default();
    threads(&past, now, lives, &mut undo);
    // Groups that were made go first: what they had to themselves can then be given back.
    for group in past.made.iter().rev().filter(|group| now.groups.contains_key(group)) {
        undo.steps.push(Step::Remove { group: group.clone() });
    }
    settings(&past, now, info, &mut undo);
    cpus(&past, now, &mut undo);
    monitors(&past, now, &mut undo);
    undo
}

// What the journal says, by what it is about.
struct Past<'a> {
    before: &'a State,
    made: Vec<GroupId>,
    written: BTreeMap<(&'a GroupId, &'a Resource, Domain), Vec<&'a Setting>>,
    modes: BTreeMap<&'a GroupId, Vec<Mode>>,
    cpus: CpuSet,
    moved: BTreeMap<Thread, BTreeSet<GroupId>>,
}

impl<'a> Past<'a> {
    fn of(before: &'a State, done: &'a [Step]) -> Self {
        let mut past = Self {
            before,
            made: Vec::new(),
            written: BTreeMap::new(),
            modes: BTreeMap::new(),
            cpus: CpuSet::new(),
            moved: BTreeMap::new(),
        };
        for step in done {
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
                    let had = before.groups.get(group).map(|state| state.cpus.clone()).unwrap_or_default();
                    past.cpus = past.cpus.union(cpus).union(&had);
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

// Threads in groups that were made, and threads that were moved elsewhere, back to where they were.
fn threads(past: &Past, now: &State, lives: &dyn Lives, undo: &mut Undo) {
    let mut back: BTreeMap<GroupId, Vec<Thread>> = BTreeMap::new();
    let made: BTreeSet<&GroupId> = past.made.iter().collect();
    let named = |thread: &Thread| past.before.groups.values().any(|state| state.threads.contains(thread));
    let mut here: BTreeSet<Thread> = BTreeSet::new();
    for state in past.made.iter().filter_map(|group| now.groups.get(group)) {
        here.extend(&state.threads);
    }
    let elsewhere = past.moved.keys().copied().filter(|moved| !here.contains(moved));
    for thread in here.iter().copied().chain(elsewhere).filter(|thread| lives.lives(*thread)) {
        let home = match named(&thread) || past.moved.contains_key(&thread) {
            true => past.before.control_of(thread),
            false => lives.origin(thread),
        };
        let at = now.control_of(thread);
        if !past.before.groups.contains_key(&home) {
            continue;
        }
        if at == home {
            // Out of a monitor group that it was moved into; into another one comes last.
            let monitored = now.monitor_of(thread);
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
        let ours = in_made || at.is_default() || past.moved.get(&thread).is_some_and(|to| to.contains(&at));
        if !ours {
            undo.left.push(format!("thread {} is in {at} by now, was in {home} before", thread.tid));
        } else if now.groups.contains_key(&home) {
            back.entry(home).or_default().push(thread);
        } else {
            undo.left.push(format!("thread {} was in {home}, which is gone", thread.tid));
        }
    }
    undo.steps.extend(back.into_iter().map(|(group, threads)| Step::Threads { group, threads }));
}

fn settings(past: &Past, now: &State, info: &Info, undo: &mut Undo) {
    let mut back: BTreeMap<&GroupId, Schemata> = BTreeMap::new();
    for (&(group, resource, domain), written) in &past.written {
        let Some(was) = past.before.groups.get(group) else { continue };
        let Some(state) = now.groups.get(group) else {
            let gone = format!("{group} is gone, which had been changed");
            if !undo.left.contains(&gone) {
                undo.left.push(gone);
            }
            continue;
        };
        let (Some(old), Some(present)) =
            (was.schemata.get(resource, domain), state.schemata.get(resource, domain))
        else {
            continue;
        };
        if present == old {
            continue;
        }
        if written.iter().any(|setting| in_effect(info, resource, setting, present)) {
            back.entry(group).or_default().set(resource.clone(), domain, old.clone());
        } else {
            undo.left.push(format!("{resource}:{domain} of {group} is {present} by now, was {old} before"));
        }
    }
    // What each group's mode is and is to be. Exclusive groups may stand in the way of masks while these
    // change, so they are loosened first.
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (id, was) in &past.before.groups {
        let present = now.groups.get(id).and_then(|state| state.mode);
        let (Some(old), Some(present)) = (was.mode, present) else { continue };
        let ours = past.modes.get(id).is_some_and(|set| set.contains(&present));
        if past.modes.contains_key(id) && present != old && !ours {
            undo.left.push(format!("{id} is {} by now, was {} before", present.word(), old.word()));
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
    let masks = back.into_iter().map(|(group, schemata)| Step::Schemata { group: group.clone(), schemata });
    undo.steps.extend(first.into_iter().chain(masks).chain(last));
}

// Bandwidth is rounded up to the next step.
fn in_effect(info: &Info, resource: &Resource, written: &Setting, present: &Setting) -> bool {
    match (written, present) {
        (Setting::Amount(written), Setting::Amount(present)) => {
            let step = info.bandwidths.get(resource.name()).map_or(1, |info| info.bandwidth_gran.max(1));
            present >= written && present - written < step
        }
        (written, present) => written == present,
    }
}

// CPUs that a group takes are taken from others, and from their monitor groups.
fn cpus(past: &Past, now: &State, undo: &mut Undo) {
    let mut touched = past.cpus.clone();
    for state in past.made.iter().filter_map(|group| now.groups.get(group)) {
        touched = touched.union(&state.cpus);
    }
    if touched.is_empty() {
        return;
    }
    let differing = |present: &GroupState, was: &GroupState| {
        present.cpus.difference(&was.cpus).union(&was.cpus.difference(&present.cpus))
    };
    // Groups of control first: a monitor group has CPUs of the one above alone.
    let ordered = past.before.groups.iter().filter(|(id, _)| !id.is_default() && !id.is_monitor());
    let ordered = ordered.chain(past.before.groups.iter().filter(|(id, _)| id.is_monitor()));
    for (id, was) in ordered {
        let Some(present) = now.groups.get(id) else { continue };
        let differ = differing(present, was);
        if differ.is_empty() {
            continue;
        }
        if differ.is_subset(&touched) {
            undo.steps.push(Step::Cpus { group: id.clone(), cpus: was.cpus.clone() });
        } else {
            undo.left.push(format!("{id} has CPUs {} by now, had {} before", present.cpus, was.cpus));
        }
    }
}

// A thread that is moved between groups of control leaves its monitor group.
fn monitors(past: &Past, now: &State, undo: &mut Undo) {
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
                .filter_map(|group| now.groups.get(group))
                .flat_map(|state| state.threads.clone()),
        )
        .collect();
    for (id, was) in past.before.groups.iter().filter(|(id, _)| id.is_monitor()) {
        let Some(present) = now.groups.get(id) else { continue };
        let missing = |thread: &&Thread| returning.contains(thread) && !present.threads.contains(thread);
        let threads: Vec<Thread> = was.threads.iter().filter(missing).copied().collect();
        if !threads.is_empty() {
            undo.steps.push(Step::Threads { group: id.clone(), threads });
        }
    }
}
