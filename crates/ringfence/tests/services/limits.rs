//! Limits of running processes: each is set in the process's own control group while its arm runs,
//! and the old setting is restored afterwards, whichever process is killed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run_file;
use crate::support::service::{Group, Neighbour, journals, place};
use crate::support::{Folder, Output, enough_cpus, gone, kill, marked, ringfence, skip, wait_for};

// A limit: its controller of version 1, its file, an arm's table, and what the file says while it
// is set.
struct Limit {
    controller: &'static str,
    file: &'static str,
    table: &'static str,
    set: fn(&str) -> bool,
}

const CPUSET: Limit = Limit {
    controller: "cpuset",
    file: "cpuset.cpus",
    table: "cpuset = { aggressor = '1' }",
    set: |text| text == "1",
};

const WRITING: Limit = Limit {
    controller: "blkio",
    file: "blkio.throttle.write_bps_device",
    table: "disk_write = { aggressor = '5MiB/s' }",
    set: |text| text.lines().any(|line| line.ends_with(" 5242880")),
};

// A neighbour in a group of its own that has such a limit.
struct Limited {
    group: Group,
    neighbour: Neighbour,
    // One of it that has chosen a CPU.
    pinned: u32,
    before: String,
    limit: Limit,
}

impl Limited {
    fn start(limit: Limit, folder: &Path) -> Result<Self, String> {
        let group = Group::of_controller("limited", limit.controller, limit.file)?;
        // One of it has chosen a CPU, and one has a file open, to which it gives something now and
        // then.
        let disk = folder.join("written");
        let script = format!(
            "taskset -c 0 sleep 3600 & exec 3> '{0}'; \
             while :; do dd if=/dev/zero of='{0}' bs=64k count=1 oflag=direct conv=notrunc; sleep \
             0.05; done",
            disk.display()
        );
        let neighbour = group.shell(&script);
        neighbour.wait_for(2);
        let pinned = || neighbour.all().into_iter().find(|pid| cpus(*pid) == "0");
        let pinned = wait_for("one that has chosen a CPU", pinned);
        let mut limited = Self { group, neighbour, pinned, before: String::new(), limit };
        if limited.limit.controller == "blkio" {
            // A limit that was there before, which Ringfence must not remove.
            let disk = limited.disk().ok_or("the file lies on no disk")?;
            fs::write(limited.path(), format!("{disk} 999999999"))
                .map_err(|error| error.to_string())?;
        }
        limited.before = limited.now();
        assert!(!(limited.limit.set)(&limited.before));
        Ok(limited)
    }

    // The number of the disk that is written to, as this group counts it.
    fn disk(&self) -> Option<String> {
        let count = self.group.folder.join("blkio.throttle.io_service_bytes");
        let look = || {
            let text = fs::read_to_string(&count).unwrap_or_default();
            let line =
                text.lines().find(|line| line.contains(" Write ") && !line.ends_with(" 0"))?;
            Some(line.split(' ').next()?.to_owned())
        };
        (0..400).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            look()
        })
    }

    fn path(&self) -> PathBuf {
        self.group.folder.join(self.limit.file)
    }

    fn now(&self) -> String {
        fs::read_to_string(self.path()).unwrap().trim().to_owned()
    }

    fn is_set(&self) -> bool {
        (self.limit.set)(&self.now())
    }

    fn experiment(&self, folder: &Path, looks: u32) {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n\
             [measure]\nlooks = [{looks}]\nrounds = 4\nprobe = '0ms'\nwindow = '50ms'\n\
             [[role]]\nname = 'victim'\ntask = {{ workload = 'alu' }}\n\
             [[role]]\nname = 'aggressor'\ntask = {{ workload = 'attached', pid = {} }}\n\
             [[arm]]\nname = 'free'\nactive = ['victim', 'aggressor']\n\
             [[arm]]\nname = 'set'\nactive = ['victim', 'aggressor']\nbaseline = 'free'\n{}\n",
            self.neighbour.pid(),
            self.limit.table
        );
        fs::write(folder.join("x.toml"), text).unwrap();
    }

    // Of those that live on: where they may run, and their groups.
    fn places(&self) -> [(String, String); 2] {
        [self.neighbour.pid(), self.pinned].map(place)
    }
}

fn cpus(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

fn each(test: impl Fn(Limited, &Folder)) {
    if !enough_cpus() {
        return;
    }
    for limit in [CPUSET, WRITING] {
        let (folder, file) = (Folder::new(), limit.file);
        match Limited::start(limit, folder.path()) {
            Ok(limited) => test(limited, &folder),
            Err(why) => skip(&format!("{file}: {why}")),
        }
    }
}

#[test]
fn a_limit_is_there_while_its_arm_runs_and_gone_afterwards() {
    each(|limited, folder| {
        limited.experiment(folder.path(), 2);
        let places = limited.places();
        let mut run = run_file(folder.path());
        let owner = run.child.id();
        let (mut set, mut back) = (false, false);
        wait_for("the end of the run", || {
            let is_set = limited.is_set();
            back |= set && !is_set;
            set |= is_set;
            run.child.try_wait().unwrap()
        });
        let output = run.wait();
        output.ok();
        assert!(set && back, "{}: {}", limited.limit.file, output.said());
        assert_eq!(limited.now(), limited.before);
        assert_eq!(limited.places(), places);
        assert!(journals(owner).is_empty(), "{:?}", journals(owner));
    });
}

#[test]
fn what_was_there_is_back_whoever_is_killed() {
    each(|limited, folder| {
        let places = limited.places();
        for both in [false, true] {
            limited.experiment(folder.path(), 1000);
            let run = run_file(folder.path());
            let owner = run.child.id();
            wait_for("the limit", || limited.is_set().then_some(()));
            let guardian =
                marked(&run.mark).into_iter().find(|process| process.name == "ringfence-guardian");
            let guardian = guardian.expect("it is there before the first window").pid;
            if both {
                // So that it does not restore what it has not heard of yet.
                kill(guardian, libc::SIGSTOP);
            }
            run.signal(libc::SIGKILL);
            if both {
                kill(guardian, libc::SIGKILL);
                assert!(gone(&run.mark).is_empty());
                run.wait();
                ringfence(&["restore"]).ok();
            } else {
                wait_for("what was there", || (limited.now() == limited.before).then_some(()));
                wait_for("the journal to go", || journals(owner).is_empty().then_some(()));
                run.wait();
            }
            assert_eq!(limited.now(), limited.before);
            assert_eq!(limited.places(), places);
            assert!(journals(owner).is_empty(), "{:?}", journals(owner));
            // There is none where it was killed before the first window.
            let _ = fs::remove_dir_all(folder.path().join("d"));
        }
    });
}

#[test]
fn what_has_no_group_of_its_own_is_not_limited_and_it_is_said_why() {
    if !enough_cpus() {
        return;
    }
    for limit in [CPUSET, WRITING] {
        let folder = Folder::new();
        let held = folder.path().join("written");
        let neighbour = Neighbour::shell(&format!(
            "exec 3> '{}'; while :; do sleep 0.01; done",
            held.display()
        ));
        let group = Group::of_controller("shared", limit.controller, limit.file);
        let limited = match group {
            Ok(group) => {
                Limited { group, pinned: neighbour.pid(), neighbour, before: String::new(), limit }
            }
            Err(why) => {
                skip(&why);
                continue;
            }
        };
        limited.experiment(folder.path(), 2);
        let output: Output = run_file(folder.path()).wait();
        let said = crate::support::joined(&format!("{}{}", output.stdout, output.stderr));
        let controller = if limited.limit.controller == "blkio" { "io" } else { "cpuset" };
        assert!(said.contains("has no control group of its own with the controller"), "{said}");
        assert!(said.contains(&format!("controller '{controller}'")), "{said}");
    }
}
