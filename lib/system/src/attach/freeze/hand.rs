//! The freezing itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::changes::{Changes, Restored, Thread};
use crate::root::FsRoot;

use super::options::{FreezeError, Took};
use super::pause::pause;
use super::tracer::{Tracer, Untraced};
use crate::attach::find::{Found, Members, Method, new_in_groups};
use crate::attach::process::Process;
use crate::attach::refusal::Refusal;
use crate::attach::target::Target;
use crate::attach::tree::Settled;
use crate::attach::vital::Guard;

const V1_STATE: &str = "freezer.state";

pub struct Hand {
    root: FsRoot,
    target: Target,
    method: Method,
    members: Members,
    guard: Guard,
    // None where the kernel resumes all by itself once this program has ended: there is nothing to
    // write down.
    changes: Option<Changes>,
    tracer: Option<Tracer>,
    // Those that may be stopped.
    checked: BTreeSet<u32>,
}

impl Hand {
    pub fn new(root: &FsRoot, found: Found, method: Method, changes: Option<Changes>) -> Self {
        let Found { target, processes, members, guard, .. } = found;
        let checked = processes.iter().map(Process::pid).collect();
        Self { root: root.clone(), target, method, members, guard, changes, tracer: None, checked }
    }

    /// Whether all that are there let themselves be traced, so that it is known before anything is
    /// frozen.
    pub fn try_tracing(
        &mut self,
        processes: &[Process],
        until: Instant,
    ) -> Result<(), FreezeError> {
        let tried = self.tracing()?.touch(processes, until);
        self.thaw()?;
        match tried {
            Err(Untraced::Refused(why)) => Err(why.into()),
            // They come and go; that is looked at when they are frozen.
            Err(Untraced::Moving(_)) | Ok(()) => Ok(()),
        }
    }

    /// Freezes, and returns once all are stopped. Where that fails, some may.
    pub fn freeze(&mut self, until: Instant, limit: Duration) -> Result<Took, FreezeError> {
        match self.method.clone() {
            Method::CgroupV2(folder) => {
                let stands = |root: &FsRoot, folder: &Path| {
                    let events = root.read_opt(folder.join("cgroup.events")).unwrap_or_default();
                    events.lines().any(|line| line == "frozen 1")
                };
                self.freeze_group(&folder, ("cgroup.freeze", "1"), stands, until, limit)
            }
            Method::V1Freezer(folder) => {
                let stands = |root: &FsRoot, folder: &Path| {
                    root.read_opt(folder.join(V1_STATE)).is_some_and(|state| state == "FROZEN")
                };
                self.freeze_group(&folder, (V1_STATE, "FROZEN"), stands, until, limit)
            }
            Method::Signals | Method::Ptrace => self.stop_all(until, limit),
        }
    }

    /// Undoes what [`Self::freeze`] has done.
    pub fn thaw(&mut self) -> Result<(), FreezeError> {
        if let Some(tracer) = &mut self.tracer {
            let tried = || "resuming the traced threads".into();
            tracer
                .end()
                .map_err(|source| crate::changes::Error::Refused { tried: tried(), source })?;
            self.tracer = None;
        }
        let Some(changes) = &mut self.changes else { return Ok(()) };
        if let Some(file) = file(&self.method) {
            changes.set_back(&file)?;
        }
        Ok(changes.resume()?)
    }

    /// Ends the journal.
    pub fn end(&mut self) -> Result<Restored, crate::changes::Error> {
        self.changes.as_mut().map_or_else(|| Ok(Restored::default()), Changes::put_back)
    }

    fn tracing(&mut self) -> Result<&mut Tracer, FreezeError> {
        if self.tracer.is_none() {
            let tried = || "starting the thread that traces".into();
            let started = Tracer::start(&self.root, &self.target);
            self.tracer = Some(
                started
                    .map_err(|source| crate::changes::Error::Refused { tried: tried(), source })?,
            );
        }
        Ok(self.tracer.as_mut().expect("it was started"))
    }

    fn freeze_group(
        &mut self,
        folder: &Path,
        (name, frozen): (&str, &str),
        stands: impl Fn(&FsRoot, &Path) -> bool,
        until: Instant,
        limit: Duration,
    ) -> Result<Took, FreezeError> {
        let new = match &mut self.members {
            members @ Members::Tree(_) => {
                let (true, all) = members.exactly_in(&self.root, folder) else {
                    return Err(FreezeError::Changed { method: self.method.clone() });
                };
                all
            }
            Members::Groups(folders) => new_in_groups(&self.root, folders, &self.checked),
        };
        for process in &new {
            self.check(process)?;
        }
        let file = folder.join(name);
        let now = self.root.read_opt(&file).ok_or(FreezeError::Ended)?;
        if crate::changes::plain(&now) == frozen {
            return Ok(Took { was_frozen: true, ..Took::default() });
        }
        let begun = Instant::now();
        self.changes.as_mut().expect("groups have a journal").set(&file, frozen)?;
        let mut looked = 0;
        while !stands(&self.root, folder) {
            if Instant::now() > until {
                let what = format!("{} does not report that it is frozen", folder.display());
                return Err(FreezeError::Moving { limit, what });
            }
            pause(&mut looked);
            // A parent that was about to wait in vfork when it was told is not told again by
            // version 1, and waits for a frozen child without being frozen: writing once more makes
            // the kernel look at it again.
            if name == V1_STATE
                && self.root.read_opt(&file).is_some_and(|state| state == "FREEZING")
            {
                self.changes.as_mut().expect("groups have a journal").set(&file, frozen)?;
            }
        }
        Ok(Took { time: begun.elapsed(), ..Took::default() })
    }

    fn stop_all(&mut self, until: Instant, limit: Duration) -> Result<Took, FreezeError> {
        let begun = Instant::now();
        let mut sight = Sight { takes_all: self.method == Method::Ptrace, ..Sight::default() };
        let mut looked = 0;
        loop {
            let (all, certain) = self.members.look(&self.root, &sight.settled);
            let round = sight.judge(&self.root, &all);
            for process in &round.to_stop {
                self.check(process)?;
            }
            if !round.to_stop.is_empty() {
                self.stop(&round.to_stop, until, limit)?;
            } else if !certain || round.unsettled {
                // Looked at once more.
            } else if round.living == 0 {
                return Err(FreezeError::Ended);
            } else {
                let (stopped, stood) = sight.counts();
                return Ok(Took {
                    time: begun.elapsed(),
                    stopped,
                    stood,
                    was_frozen: stopped == 0,
                });
            }
            if Instant::now() > until {
                return Err(FreezeError::Moving { limit, what: round.words(certain) });
            }
            pause(&mut looked);
        }
    }

    fn stop(
        &mut self,
        all: &[Process],
        until: Instant,
        limit: Duration,
    ) -> Result<(), FreezeError> {
        if let Some(changes) = &mut self.changes {
            let ids: Vec<Thread> = all.iter().map(|process| process.id).collect();
            return Ok(changes.stop(&ids)?);
        }
        self.tracing()?.stop(all, until).map_err(|why| match why {
            Untraced::Refused(why) => why.into(),
            Untraced::Moving(what) => FreezeError::Moving { limit, what },
        })
    }

    // Whether it may be stopped, once.
    fn check(&mut self, process: &Process) -> Result<(), FreezeError> {
        if self.checked.contains(&process.pid()) {
            return Ok(());
        }
        if let Some(why) = self.guard.refuses(process) {
            let (target, name) = (self.target.clone(), process.name.clone());
            return Err(Refusal::Vital { target, pid: process.pid(), name, why }.into());
        }
        self.checked.insert(process.pid());
        Ok(())
    }
}

fn file(method: &Method) -> Option<PathBuf> {
    match method {
        Method::CgroupV2(folder) => Some(folder.join("cgroup.freeze")),
        Method::V1Freezer(folder) => Some(folder.join(V1_STATE)),
        Method::Signals | Method::Ptrace => None,
    }
}

/// Observations of processes since the first was stopped.
#[derive(Debug, Clone, Default)]
struct Sight {
    // Whether those that others have stopped are stopped, too: then nothing resumes them meanwhile.
    takes_all: bool,
    stopped: BTreeSet<Thread>,
    // Stopped when they were first seen: another process has done that.
    theirs: BTreeSet<Thread>,
    // Seen to stand once, and seen to stand before their children were looked for.
    standing: BTreeSet<Thread>,
    settled: Settled,
}

#[derive(Debug, Default)]
struct Round {
    // Those that move: a stop is repeated until it is seen, since another process may resume them.
    to_stop: Vec<Process>,
    living: usize,
    // Whether some were not seen to stand before their children were looked for.
    unsettled: bool,
}

impl Sight {
    // How many stand because of us, and because of others.
    fn counts(&self) -> (usize, usize) {
        (self.stopped.difference(&self.theirs).count(), self.theirs.len())
    }

    fn judge(&mut self, root: &FsRoot, all: &[Process]) -> Round {
        let living: Vec<&Process> = all.iter().filter(|process| !process.has_ended()).collect();
        let stopped = |process: &&&Process| matches!(process.state, 'T' | 't');
        let parents: BTreeSet<u32> =
            living.iter().filter(stopped).map(|process| process.parent).collect();
        // So one is shown that is gone the next moment, or whose first thread gives its number to
        // one that calls exec.
        let unsettled = all.iter().any(|process| process.threads == 0);
        let mut round = Round { living: living.len(), unsettled, ..Round::default() };
        for process in living {
            let id = process.id;
            if self.settled.contains_key(&id) {
                continue;
            }
            let ours = self.stopped.contains(&id);
            let stands = process.stands(root, parents.contains(&process.pid()));
            // A process that waits in vfork and was not told to stop would resume with its child.
            if stands && (ours || process.state != 'D' && !self.takes_all) {
                // The first thread stood before its children were looked for, the others perhaps
                // not.
                if process.threads <= 1 && process.state != 'D' || self.standing.contains(&id) {
                    self.settled.insert(id, process.clone());
                } else {
                    round.unsettled = true;
                    self.standing.insert(id);
                }
                if !ours {
                    self.theirs.insert(id);
                }
                continue;
            }
            if stands && process.state == 'T' {
                self.theirs.insert(id);
            } else {
                // One of theirs that moves was resumed meanwhile.
                self.theirs.remove(&id);
            }
            self.standing.remove(&id);
            self.stopped.insert(id);
            round.to_stop.push(process.clone());
        }
        round
    }
}

impl Round {
    fn words(&self, certain: bool) -> String {
        let one = |process: &Process| {
            let name = crate::text::printable(&process.name).into_owned();
            format!("process {} ({name}) is in state {}", process.pid(), process.state)
        };
        let mut words: Vec<String> = self.to_stop.iter().take(3).map(one).collect();
        match self.to_stop.len() {
            4.. => words.push(format!("and {} more", self.to_stop.len() - 3)),
            0 if !certain => {
                words.push("processes come and go faster than they can be stopped".into())
            }
            _ => {}
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::FixtureTree;

    use super::*;

    fn process(pid: u32, parent: u32, state: char) -> Process {
        let id = Thread { tid: pid, start: 1 };
        let name = "x".into();
        Process { id, parent, group: 1, session: 1, state, threads: 1, is_kernel: false, name }
    }

    fn pids(round: &Round) -> Vec<u32> {
        round.to_stop.iter().map(Process::pid).collect()
    }

    #[test]
    fn who_stands_already_is_left_and_who_moves_again_is_stopped_again() {
        let root = FixtureTree::empty("sight").root();
        let mut sight = Sight::default();
        let all = [process(7, 1, 'R'), process(8, 7, 'T'), process(9, 7, 'Z')];
        assert_eq!(pids(&sight.judge(&root, &all)), [7]);
        let all = [process(7, 1, 'T'), process(8, 7, 'T'), process(10, 7, 'S')];
        assert_eq!(pids(&sight.judge(&root, &all)), [10]);
        assert_eq!(sight.settled.keys().map(|id| id.tid).collect::<Vec<_>>(), [7, 8]);
        let all = [process(7, 1, 'T'), process(8, 7, 'T'), process(10, 7, 'R')];
        assert_eq!(pids(&sight.judge(&root, &all)), [10]);
        let all = [process(7, 1, 'T'), process(8, 7, 'T'), process(10, 7, 'T')];
        assert_eq!(pids(&sight.judge(&root, &all)), [0; 0]);
        assert_eq!(sight.counts(), (2, 1));
    }

    #[test]
    fn who_calls_exec_has_not_ended() {
        let root = FixtureTree::empty("exec").root();
        let mut gone = process(7, 1, 'X');
        gone.threads = 0;
        assert!(
            Sight::default().judge(&root, &[gone.clone()]).unsettled,
            "it is looked at once more"
        );
        gone.threads = 1;
        let round = Sight::default().judge(&root, &[gone]);
        assert!(!round.unsettled && round.living == 0);
    }

    #[test]
    fn who_stands_already_is_taken_as_well_where_all_are() {
        let root = FixtureTree::empty("takes_all").root();
        let mut sight = Sight { takes_all: true, ..Sight::default() };
        assert_eq!(pids(&sight.judge(&root, &[process(7, 1, 'R'), process(8, 7, 'T')])), [7, 8]);
        assert_eq!(pids(&sight.judge(&root, &[process(7, 1, 't'), process(8, 7, 't')])), [0; 0]);
        assert_eq!(sight.counts(), (1, 1));
    }

    #[test]
    fn who_waits_in_vfork_for_a_stopped_child_stands() {
        let tree = FixtureTree::empty("vfork");
        let root = tree.root();
        let mut sight = Sight::default();
        assert_eq!(pids(&sight.judge(&root, &[process(7, 1, 'D'), process(8, 7, 'R')])), [7, 8]);
        tree.write("/proc/7/task/7/syscall", format!("{} 0x0 0x0", libc::SYS_clone));
        let round = sight.judge(&root, &[process(7, 1, 'D'), process(8, 7, 'T')]);
        assert!(
            round.to_stop.is_empty() && round.unsettled,
            "its children are looked for once more"
        );
        let again = sight.clone().judge(&root, &[process(7, 1, 'D'), process(8, 7, 'T')]);
        assert!(again.to_stop.is_empty() && !again.unsettled);
        // A disk is waited for; that ends.
        tree.write("/proc/7/task/7/syscall", "0 0x3 0x0");
        assert_eq!(pids(&sight.judge(&root, &[process(7, 1, 'D'), process(8, 7, 'T')])), [7]);
        // The last thread of one whose first has ended counts.
        let mut headless = process(9, 1, 'Z');
        headless.threads = 2;
        tree.write("/proc/9/task/9/stat", "9 (x) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 1 0 0");
        tree.write("/proc/9/task/12/stat", "12 (x) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 1 0 0");
        assert_eq!(pids(&sight.judge(&root, &[headless])), [9]);
    }
}
