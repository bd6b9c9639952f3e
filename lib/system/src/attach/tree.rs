//! A process with its descendants, however fast they fork.

use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::changes::Thread;
use crate::root::FsRoot;

use crate::attach::process::{self, Process};

/// Processes that are stopped, and stay so until they are resumed.
pub type Settled = BTreeMap<Thread, Process>;

/// What is known of a tree, so that looking again is quick and those whose parents have ended stay
/// in it.
///
/// A descendant is a child of one that is known; or it is in a session, or is an orphan in a
/// process group, that is led by one that is or was known. What leaves its session and loses its
/// parent between two looks is lost, as it means to be (`daemon(7)`).
#[derive(Debug, Clone)]
pub struct Tree {
    top: Thread,
    // Those of the last look, by number.
    members: BTreeMap<u32, Process>,
    // Numbers that lead a session or a process group of the tree.
    leaders: HashSet<u32>,
    // Whose child an orphan becomes, as far as that can be known.
    reapers: HashSet<u32>,
    // Looked at, and none of the tree.
    strangers: HashSet<u32>,
    // The number that was given last when all of these had been looked at.
    last: Option<u32>,
}

impl Tree {
    /// The tree below a process.
    pub fn new(root: &FsRoot, top: &Process) -> Self {
        // The parent's other children are no orphans.
        let above =
            process::ancestors(root, top.pid()).into_iter().skip(1).map(|process| process.pid());
        let reapers = above.chain([1]).collect();
        Self {
            top: top.id,
            members: BTreeMap::new(),
            leaders: HashSet::new(),
            reapers,
            strangers: HashSet::new(),
            last: None,
        }
    }

    fn add(&mut self, process: Process) {
        let pid = process.pid();
        if process.session == pid || process.group == pid {
            self.leaders.insert(pid);
        }
        self.strangers.remove(&pid);
        self.members.insert(pid, process);
    }

    fn knows(&self, id: Thread) -> bool {
        self.members.get(&id.tid).is_some_and(|known| known.id == id)
    }

    /// Looks again: all that live, and whether that is certain to be all. It is not where one was
    /// seen whose parent had ended or was not seen yet. Those that are settled stand, and so do
    /// their children's lists: they are not looked at.
    pub fn look(&mut self, root: &FsRoot, settled: &Settled) -> (Vec<Process>, bool) {
        let mut next: VecDeque<Thread> = self.members.values().map(|process| process.id).collect();
        if !self.knows(self.top) {
            next.push_front(self.top);
        }
        let before = std::mem::take(&mut self.members);
        // A number may be reused once no process is in the session or group any more; not at once.
        self.leaders.retain(|leader| {
            before.values().any(|known| [known.pid(), known.session, known.group].contains(leader))
        });
        let mut certain = true;
        let mut listed = true;
        let mut seen = HashSet::new();
        while let Some(id) = next.pop_front() {
            if let Some(process) = settled.get(&id) {
                seen.insert(id.tid);
                self.add(process.clone());
                continue;
            }
            let same = |process: &Process| process.id == id;
            let Some(process) = Process::read(root, id.tid).filter(same) else {
                // It may have left a child behind.
                certain &= !before.contains_key(&id.tid);
                continue;
            };
            if !seen.insert(id.tid) {
                continue;
            }
            match process::children(root, &process) {
                Some(children) => {
                    for child in children.into_iter().filter(|child| !seen.contains(child)) {
                        match Process::read(root, child).filter(|child| child.parent == id.tid) {
                            Some(child) => next.push_back(child.id),
                            None => certain = false,
                        }
                    }
                }
                None => listed = false,
            }
            self.add(process);
        }
        // No process was started since, unless all numbers were given out in between.
        let last = last_given(root);
        if !listed || last.is_none() || last != self.last {
            let all = self.adopt(root, listed);
            self.last = last.filter(|_| all);
            certain &= all;
        }
        (self.members.values().cloned().collect(), certain)
    }

    // Those that are found by looking at all processes. Only those that are new since the last time
    // are looked at, unless the kernel lists no children.
    fn adopt(&mut self, root: &FsRoot, listed: bool) -> bool {
        let all: HashSet<u32> = process::all(root).into_iter().collect();
        self.strangers.retain(|pid| listed && all.contains(pid));
        let unseen = all
            .iter()
            .filter(|pid| !self.strangers.contains(pid) && !self.members.contains_key(pid));
        let mut unknown: Vec<Process> =
            unseen.filter_map(|pid| Process::read(root, *pid)).collect();
        let mut certain = true;
        loop {
            let (mine, others): (Vec<_>, Vec<_>) =
                unknown.into_iter().partition(|process| self.is_ours(process));
            unknown = others;
            if mine.is_empty() {
                break;
            }
            // Their children are looked for next time.
            certain = false;
            mine.into_iter().for_each(|process| self.add(process));
        }
        // A stranger is one whose parent is one: else it may be an orphan by the next time.
        let mut new: HashSet<u32> = unknown.iter().map(Process::pid).collect();
        let parents = |parent: u32| {
            parent == 0 || self.strangers.contains(&parent) || self.reapers.contains(&parent)
        };
        let lost: Vec<u32> = unknown
            .iter()
            .filter(|process| !new.contains(&process.parent) && !parents(process.parent))
            .map(Process::pid)
            .collect();
        certain &= lost.is_empty();
        lost.iter().for_each(|pid| {
            new.remove(pid);
        });
        self.strangers.extend(new);
        certain
    }

    fn is_ours(&self, process: &Process) -> bool {
        let leads =
            |leader: u32| leader > 1 && leader != process.pid() && self.leaders.contains(&leader);
        self.members.contains_key(&process.parent)
            || leads(process.session)
            || self.reapers.contains(&process.parent) && leads(process.group)
    }
}

// The number that was given last, the fifth field of /proc/loadavg (proc(5)).
fn last_given(root: &FsRoot) -> Option<u32> {
    root.read_opt("/proc/loadavg")?.split(' ').nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::fixture::FixtureTree;

    use super::*;

    fn write(tree: &FixtureTree, pid: u32, parent: u32, group: u32, session: u32) {
        let stat = format!(
            "{pid} (x) S {parent} {group} {session} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0",
            pid * 10
        );
        tree.write(format!("/proc/{pid}/stat"), stat);
    }

    fn pids((found, certain): (Vec<Process>, bool)) -> (Vec<u32>, bool) {
        (found.iter().map(Process::pid).collect(), certain)
    }

    #[test]
    fn orphans_stay_in_it_and_strangers_do_not_get_in() {
        let tree = FixtureTree::empty("tree");
        // A shell (20) with a pipeline, of which 21 is the target, and 22 in the same process group
        // is not.
        for (pid, parent, group, session) in [
            (1, 0, 1, 1),
            (20, 1, 20, 20),
            (21, 20, 21, 20),
            (22, 20, 21, 20),
            (23, 21, 21, 20),
            (24, 23, 24, 24),
        ] {
            write(&tree, pid, parent, group, session);
        }
        let root = tree.root();
        let mut known = Tree::new(&root, &Process::read(&root, 21).unwrap());
        known.look(&root, &Settled::new());
        assert_eq!(pids(known.look(&root, &Settled::new())), (vec![21, 23, 24], true));
        // One ends, and its child, which leads a session, is an orphan; that one has a child that
        // is one too.
        tree.remove("/proc/23");
        write(&tree, 24, 1, 24, 24);
        write(&tree, 26, 1, 26, 24);
        // A child of one that came and went between two looks, in the process group of the target.
        write(&tree, 25, 1, 21, 20);
        write(&tree, 30, 1, 30, 30);
        while !known.look(&root, &Settled::new()).1 {}
        assert_eq!(pids(known.look(&root, &Settled::new())), (vec![21, 24, 25, 26], true));
        // Another process has the number by now.
        tree.write("/proc/24/stat", "24 (x) S 1 24 24 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 999 0 0");
        tree.remove("/proc/26");
        while !known.look(&root, &Settled::new()).1 {}
        assert_eq!(pids(known.look(&root, &Settled::new())), (vec![21, 25], true));
    }

    #[test]
    fn the_kernels_lists_of_children_are_enough() {
        let tree = FixtureTree::empty("children");
        for (pid, parent, children) in
            [(1, 0, "20"), (20, 1, "21 22"), (21, 20, ""), (22, 20, "23"), (23, 22, "")]
        {
            write(&tree, pid, parent, 1, 1);
            tree.write(format!("/proc/{pid}/task/{pid}/children"), children);
        }
        let root = tree.root();
        let mut known = Tree::new(&root, &Process::read(&root, 20).unwrap());
        assert_eq!(pids(known.look(&root, &Settled::new())), (vec![20, 21, 22, 23], true));
    }
}
