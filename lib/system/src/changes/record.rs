//! What a journal says, thing by thing.

use std::collections::hash_map::Entry as Seat;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::changes::entry::Entry;
use crate::changes::journal::{self, Head};
use crate::changes::kernel::Identity;
use crate::changes::step::{Step, Write};
use crate::changes::thread::Thread;

/// The version of the format.
pub const SCHEMA: u32 = 1;

/// A line that is not a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "note")]
pub enum Note {
    /// What a group is known by that was just made.
    Made { group: PathBuf, identity: Identity },
    /// The kernel stored another value than the requested one.
    Took {
        file: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<Entry>,
        value: String,
    },
    /// A file has back what it held.
    Settled {
        file: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<Entry>,
    },
    /// All that were stopped are resumed.
    Resumed,
    /// The kernel has refused the last step: it was not taken.
    Refused,
}

/// Something that was changed, once or several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    /// A file, or an entry of it, what it held, all that it was given, and what is written on the
    /// way back, if not what it held. Where it was given nothing, it has back what it held.
    File { file: PathBuf, entry: Option<Entry>, was: String, ours: Vec<String>, back: Vec<Write> },
    /// A control group that was created, and its identity; without an identity, it may not have
    /// been created.
    Group { group: PathBuf, home: PathBuf, identity: Option<Identity> },
    /// A process, the group that it came from, and all that it was moved to.
    Process { process: Thread, home: PathBuf, to: Vec<PathBuf> },
    /// Processes that were stopped at any time, and those of them that are now.
    Stopped { known: BTreeSet<Thread>, now: BTreeSet<Thread> },
}

/// A journal as read.
#[derive(Debug, Clone)]
pub struct Record {
    pub head: Head,
    steps: usize,
    // What the last step was about, and what was known of that before: it may not have been taken.
    last: Option<(Key, Option<Thing>)>,
    // In the order in which they were touched first, and where each is among them.
    things: Vec<Thing>,
    places: HashMap<Key, usize>,
    /// The numbers, from 1, of lines that make no sense.
    pub damaged: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    File(PathBuf, Option<Entry>),
    Group(PathBuf),
    Process(Thread),
    Stopped,
}

impl Key {
    fn of(step: &Step) -> Self {
        match step {
            Step::Set { file, .. } => Key::File(file.clone(), None),
            Step::SetEntry { file, entry, .. } => Key::File(file.clone(), Some(entry.clone())),
            Step::Make { group, .. } => Key::Group(group.clone()),
            Step::Move { process, .. } => Key::Process(*process),
            Step::Stop { .. } => Key::Stopped,
        }
    }
}

impl Thing {
    fn of(step: Step) -> Self {
        match step {
            Step::Set { file, was, ours, back } => {
                Thing::File { file, entry: None, was, ours: vec![ours], back }
            }
            Step::SetEntry { file, entry, was, ours } => {
                Thing::File { file, entry: Some(entry), was, ours: vec![ours], back: Vec::new() }
            }
            Step::Make { group, home } => Thing::Group { group, home, identity: None },
            Step::Move { process, from, to } => {
                Thing::Process { process, home: from, to: vec![to] }
            }
            Step::Stop { processes, .. } => {
                let known: BTreeSet<Thread> = processes.into_iter().collect();
                Thing::Stopped { now: known.clone(), known }
            }
        }
    }

    fn again(&mut self, step: Step) {
        let step = match step {
            Step::SetEntry { file, was, ours, .. } => {
                Step::Set { file, was, ours, back: Vec::new() }
            }
            other => other,
        };
        match (self, step) {
            (
                Thing::File { was, ours, back, .. },
                Step::Set { was: had, ours: value, back: new, .. },
            ) => {
                // Another process had set it in between: that is what is restored.
                if had != *was && !ours.contains(&had) {
                    *was = had;
                    *back = new;
                    ours.clear();
                }
                ours.push(value);
            }
            (Thing::Process { to, .. }, Step::Move { to: group, .. }) => to.push(group),
            (Thing::Stopped { known, now }, Step::Stop { processes, but }) => {
                if now.is_empty() {
                    *now = known.iter().filter(|process| !but.contains(process)).copied().collect();
                }
                known.extend(&processes);
                now.extend(processes);
            }
            _ => {}
        }
    }

    // Whether it already has all that a step says.
    fn knows(&self, step: &Step) -> bool {
        match (self, step) {
            (
                Thing::File { was, ours, .. },
                Step::Set { was: had, ours: value, .. }
                | Step::SetEntry { was: had, ours: value, .. },
            ) => ours.contains(value) && (had == was || ours.contains(had)),
            (Thing::Process { to, .. }, Step::Move { to: group, .. }) => to.contains(group),
            _ => false,
        }
    }
}

impl Record {
    /// A step is about to be taken.
    pub fn step(&mut self, step: Step) {
        self.steps += 1;
        let key = Key::of(&step);
        match self.places.entry(key.clone()) {
            Seat::Occupied(place) => {
                let thing = &mut self.things[*place.get()];
                self.last = Some((key, Some(thing.clone())));
                thing.again(step);
            }
            Seat::Vacant(place) => {
                place.insert(self.things.len());
                self.things.push(Thing::of(step));
                self.last = Some((key, None));
            }
        }
    }

    pub fn note(&mut self, note: Note) {
        match note {
            Note::Made { group: made, identity: known } => {
                if let Some(place) = self.places.get(&Key::Group(made))
                    && let Thing::Group { identity, .. } = &mut self.things[*place]
                {
                    *identity = Some(known);
                }
            }
            Note::Took { file, entry, value } => {
                if let Some(place) = self.places.get(&Key::File(file, entry))
                    && let Thing::File { ours, .. } = &mut self.things[*place]
                {
                    ours.push(value);
                }
            }
            Note::Settled { file, entry } => {
                if let Some(place) = self.places.get(&Key::File(file, entry))
                    && let Thing::File { ours, .. } = &mut self.things[*place]
                {
                    ours.clear();
                }
            }
            Note::Resumed => {
                if let Some(place) = self.places.get(&Key::Stopped)
                    && let Thing::Stopped { now, .. } = &mut self.things[*place]
                {
                    now.clear();
                }
            }
            Note::Refused => self.refused(),
        }
    }

    /// What a file held, or an entry of it, and what it was given since, if it was.
    pub fn file(&self, file: &Path, entry: Option<&Entry>) -> Option<(&str, &[String])> {
        match &self.things[*self.places.get(&Key::File(file.to_owned(), entry.cloned()))?] {
            Thing::File { was, ours, .. } if !ours.is_empty() => Some((was, ours)),
            _ => None,
        }
    }

    /// The processes that are stopped.
    pub fn stopped(&self) -> Vec<Thread> {
        match self.places.get(&Key::Stopped).map(|place| &self.things[*place]) {
            Some(Thing::Stopped { now, .. }) => now.iter().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// The step that says that these are stopped, as short as it may be; none where that is known.
    /// Dead processes may be named.
    pub fn stop(&self, processes: &[Thread], lives: impl Fn(Thread) -> bool) -> Option<Step> {
        let none = BTreeSet::new();
        let (known, now) = match self.places.get(&Key::Stopped).map(|place| &self.things[*place]) {
            Some(Thing::Stopped { known, now }) => (known, now),
            _ => (&none, &none),
        };
        let wanted: BTreeSet<Thread> = processes.iter().copied().collect();
        if wanted.is_subset(now) {
            return None;
        }
        if !now.is_empty() {
            return Some(Step::Stop {
                processes: wanted.difference(now).copied().collect(),
                but: Vec::new(),
            });
        }
        let but = known.difference(&wanted).copied().filter(|process| lives(*process));
        Some(Step::Stop {
            processes: wanted.difference(known).copied().collect(),
            but: but.collect(),
        })
    }

    // As if the last step had never been noted.
    fn refused(&mut self) {
        match self.last.take() {
            Some((key, Some(before))) => self.things[self.places[&key]] = before,
            // The last that was touched first.
            Some((key, None)) => {
                self.places.remove(&key);
                self.things.pop();
            }
            None => {}
        }
    }

    /// Whether what is noted already says all that this step does.
    pub fn knows(&self, step: &Step) -> bool {
        self.places.get(&Key::of(step)).is_some_and(|place| self.things[*place].knows(step))
    }

    /// How many steps were noted.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// All that was changed, in the order in which it was touched first.
    pub fn things(&self) -> &[Thing] {
        &self.things
    }
}

impl journal::Record for Record {
    type Header = Head;
    const SCHEMA: u32 = SCHEMA;
    const ABOUT: &'static str = "the settings that it names";

    fn begin(head: Head) -> Self {
        let (things, places) = (Vec::new(), HashMap::new());
        Self { head, steps: 0, last: None, things, places, damaged: Vec::new() }
    }

    fn line(&mut self, line: &str) -> bool {
        if let Ok(step) = serde_json::from_str(line) {
            self.step(step);
        } else if let Ok(note) = serde_json::from_str(line) {
            self.note(note);
        } else {
            return false;
        }
        true
    }

    fn damaged(&mut self, number: usize) {
        self.damaged.push(number);
    }
}
