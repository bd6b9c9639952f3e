//! The targets: several running processes or groups, looked up again and again.

use std::collections::BTreeSet;

use ringfence_experiment::Error;
use ringfence_system::attach::{Found, Refusal, Seen, Target, find, see};
use ringfence_system::root::FsRoot;

/// What a flag names: its name is the kind of a [`Target`], such as `pid` or `unit`.
///
/// # Errors
/// Where nothing can have that name.
pub fn named(flag: &str, name: &str) -> Result<Target, Error> {
    format!("{flag}:{name}").parse().map_err(|error| Error::usage(format!("--{flag}: {error}")))
}

// The target does not exist, or must not be touched.
fn refused(refusal: Refusal) -> Error {
    Error::usage(format!("{refusal}; nothing was changed")).because(refusal)
}

#[derive(Debug)]
enum One {
    Limited(Box<Found>),
    Watched(Box<Seen>),
}

impl One {
    fn target(&self) -> &Target {
        match self {
            One::Limited(found) => &found.target,
            One::Watched(seen) => &seen.target,
        }
    }
}

/// Processes, control groups, units and containers, found.
#[derive(Debug)]
pub struct Targets(Vec<One>);

impl Targets {
    /// Finds the processes to limit.
    ///
    /// # Errors
    /// Where one is not there, or holds what the system or the way in depends on.
    pub fn to_limit(root: &FsRoot, named: &[Target]) -> Result<Self, Error> {
        let one = |target| Ok(One::Limited(Box::new(find(root, target).map_err(refused)?)));
        named.iter().map(one).collect::<Result<_, Error>>().map(Self)
    }

    /// Finds those that are only to be watched.
    ///
    /// # Errors
    /// Where one is not there.
    pub fn to_watch(root: &FsRoot, named: &[Target]) -> Result<Self, Error> {
        let one = |target| Ok(One::Watched(Box::new(see(root, target).map_err(refused)?)));
        named.iter().map(one).collect::<Result<_, Error>>().map(Self)
    }

    /// What they are called, such as `process 7, 8` or `unit nginx.service`.
    pub fn name(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        let mut last = "";
        for one in &self.0 {
            let (kind, name) = match one.target() {
                Target::Pid(pid) => ("process", pid.to_string()),
                Target::Group(path) => ("control group", path.clone()),
                Target::Unit(name) => ("unit", name.clone()),
                Target::Container(id) => ("container", id.clone()),
            };
            names.push(if kind == last { name } else { format!("{kind} {name}") });
            last = kind;
        }
        names.join(", ")
    }

    /// Their processes that live now.
    ///
    /// # Errors
    /// Where one that the system depends on is among what is to be limited by now.
    pub fn processes(&mut self, root: &FsRoot) -> Result<BTreeSet<u32>, Error> {
        let mut all = BTreeSet::new();
        for one in &mut self.0 {
            let processes = match one {
                One::Limited(found) => found.look(root).map_err(refused)?,
                One::Watched(seen) => seen.look(root),
            };
            all.extend(processes.iter().map(|process| process.pid()));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_system::fixture::FixtureTree;

    // This program is 401.
    fn tree() -> FixtureTree {
        let tree = FixtureTree::empty("targets");
        for (pid, name, parent, flags) in [
            (1, "systemd", 0, 0x400_100),
            (2, "kthreadd", 0, 0x208_040),
            (300, "sshd", 1, 0x400_100),
            (301, "sshd-session", 300, 0x400_100),
            (302, "sshd-session", 300, 0x400_100),
            (400, "a) b (c", 301, 0x400_000),
            (401, "ringfence", 400, 0x400_000),
            (500, "batch", 1, 0x400_000),
            (501, "batch", 500, 0x400_000),
            (502, "batch", 501, 0x400_000),
            (600, "other", 1, 0x400_000),
        ] {
            let stat = format!(
                "{pid} ({name}) S {parent} {pid} {pid} 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {pid} \
                 0 0\n"
            );
            tree.write(format!("/proc/{pid}/stat"), &stat);
            if pid == 401 {
                tree.write("/proc/self/stat", &stat);
            }
        }
        tree.write("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        let container = "0123456789abcdef".repeat(4);
        for (group, pids) in [
            ("".to_owned(), "2\n"),
            ("a.slice".to_owned(), ""),
            ("a.slice/b.service".to_owned(), "501\n"),
            ("a.slice/b.service/x".to_owned(), "502\n"),
            ("s.slice".to_owned(), "302\n600\n"),
            (format!("docker-{container}.scope"), "600\n"),
        ] {
            tree.write(format!("/sys/fs/cgroup/{group}/cgroup.procs"), pids);
        }
        tree
    }

    fn limited(tree: &FixtureTree, names: &[(&str, &str)]) -> Result<(String, Vec<u32>), String> {
        let root = tree.root();
        let all: Result<Vec<Target>, Error> =
            names.iter().map(|(flag, name)| named(flag, name)).collect();
        let found = all.and_then(|all| Targets::to_limit(&root, &all));
        let mut found = found.map_err(|error| error.to_string())?;
        let processes = found.processes(&root).map_err(|error| error.to_string())?;
        Ok((found.name(), processes.into_iter().collect()))
    }

    #[test]
    fn processes_come_with_what_they_have_started() {
        let tree = tree();
        let found = limited(&tree, &[("pid", "500"), ("pid", "600")]);
        assert_eq!(found, Ok(("process 500, 600".into(), vec![500, 501, 502, 600])));
        assert_eq!(limited(&tree, &[("pid", "500"), ("pid", "501")]).unwrap().1, [500, 501, 502]);
        let none = limited(&tree, &[("pid", "500"), ("pid", "9")]).unwrap_err();
        assert_eq!(
            none,
            "pid:9 was not found: no running process has that ID; nothing was changed"
        );
    }

    #[test]
    fn a_group_is_all_below_it_by_any_of_its_names() {
        let tree = tree();
        for path in ["/sys/fs/cgroup/a.slice", "/a.slice", "a.slice"] {
            assert_eq!(limited(&tree, &[("cgroup", path)]).unwrap().1, [501, 502]);
        }
        for unit in ["b", "b.service"] {
            let found = limited(&tree, &[("unit", unit)]);
            assert_eq!(found, Ok(("unit b.service".into(), vec![501, 502])));
        }
        let found = limited(&tree, &[("container", "0123"), ("pid", "502")]);
        assert_eq!(found, Ok(("container 0123, process 502".into(), vec![502, 600])));
        for (flag, name) in
            [("cgroup", "/b.slice"), ("unit", "c"), ("container", "f"), ("cgroup", "/")]
        {
            assert!(limited(&tree, &[(flag, name)]).is_err());
        }
        let odd = limited(&tree, &[("container", "web")]).unwrap_err();
        assert!(odd.starts_with("--container: 'container:web' is not a target: "), "{odd}");
    }

    #[test]
    fn what_the_system_needs_is_refused() {
        let tree = tree();
        for (pid, why) in [
            (1, "process 1 (systemd) is part of it, and it is process 1"),
            (2, "it is a thread of the kernel"),
            (302, "process 302 (sshd-session) is part of it, and you may be logged in through it"),
            (301, "this program runs below it"),
            (400, "process 400 (a) b (c) is part of it, and this program runs below it"),
            (401, "it is this program itself"),
        ] {
            let found = limited(&tree, &[("pid", "500"), ("pid", &pid.to_string())]);
            let said = found.unwrap_err();
            assert!(said.contains(why) && said.ends_with("; nothing was changed"), "{said}");
        }
        assert!(
            limited(&tree, &[("cgroup", "/s.slice")]).unwrap_err().contains("302 (sshd-session)")
        );
    }

    #[test]
    fn what_joins_later_is_seen_and_held_against_the_same_list() {
        let tree = tree();
        let root = tree.root();
        let mut found = Targets::to_limit(&root, &[named("unit", "b").unwrap()]).unwrap();
        let group = "/sys/fs/cgroup/a.slice/b.service/cgroup.procs";
        tree.write(group, "501\n600\n");
        assert_eq!(found.processes(&root).unwrap(), [501, 502, 600].into());
        tree.write(group, "501\n302\n");
        assert!(found.processes(&root).unwrap_err().is_usage());
    }

    #[test]
    fn what_is_only_watched_may_be_needed() {
        let tree = tree();
        let root = tree.root();
        let mut seen = Targets::to_watch(&root, &[named("cgroup", "/s.slice").unwrap()]).unwrap();
        assert_eq!(seen.processes(&root).unwrap(), [302, 600].into());
        tree.remove("/proc/600");
        assert_eq!(seen.processes(&root).unwrap(), [302].into());
        let none = Targets::to_watch(&root, &[named("pid", "9").unwrap()]);
        assert!(none.unwrap_err().to_string().contains("no running process"));
    }
}
