//! A run is killed at random moments: whatever it had paused resumes.

use std::time::Duration;

use crate::support::service::{BUSY_WITH_CHILDREN, Group, Kind, Neighbour, Service, journals};
use crate::support::{Folder, Running, enough_cpus, gone, kill, marked, ringfence, skip, wait_for};

// The process that SIGKILL hits.
#[derive(Clone, Copy, PartialEq)]
enum Whom {
    // The guardian resumes the neighbour.
    Supervisor,
    // The next program does.
    Both,
}

// One that is paused by signals, or with its group.
struct Target {
    neighbour: Neighbour,
    group: Option<Group>,
}

impl Target {
    fn stands(&self) -> bool {
        self.neighbour.is_stopped() || self.group.as_ref().is_some_and(|group| !group.is_thawed())
    }

    fn must_go_on(&self) {
        wait_for("the neighbour goes on", || (!self.stands()).then_some(()));
        self.neighbour.must_go_on(true);
    }

    fn flags(&self) -> [String; 2] {
        match &self.group {
            Some(group) => ["--aggressor-cgroup".into(), group.path()],
            None => ["--aggressor-pid".into(), self.neighbour.pid().to_string()],
        }
    }
}

// In how many rounds something stood when the run was killed.
fn kill_often(target: &Target, whom: Whom, rounds: usize) -> usize {
    let mut service = Service::start(&Kind::Echo);
    let (address, pid) = (service.address(), service.pid().to_string());
    let [flag, name] = target.flags();
    let mut args = vec![
        "neighbours",
        "--victim-probe",
        &address,
        "--probe-send",
        "PING\\r\\n",
        "--victim-pid",
        &pid,
    ];
    args.extend([&*flag, &name, "--trials", "1000", "--rounds", "4", "--probe", "0ms", "--quiet"]);
    // For as much of the time as it may.
    args.extend(["--longest-freeze", "400ms", "--frozen-share", "90%", "--window", "300ms"]);
    let mut seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let mut stood = 0;
    for round in 0..rounds {
        let folder = Folder::new();
        let mut run = Running::start(folder.path(), &args);
        let owner = run.child.id();
        // Knuth's constants.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if round % 2 == 0 {
            // Within a pause, of which there are few in a run that begins.
            let is_paused = wait_for("a pause", || match target.stands() {
                true => Some(true),
                false => run.child.try_wait().unwrap().map(|_| false),
            });
            if !is_paused {
                // On a machine that is so busy that the neighbour never stands in time it gives up.
                println!("round {round}: {}", run.wait().stderr);
                assert_eq!(service.ended(), None, "nobody ends the service");
                target.must_go_on();
                continue;
            }
            std::thread::sleep(Duration::from_micros((seed >> 33) % 300_000));
        } else {
            std::thread::sleep(Duration::from_millis((seed >> 33) % 3000));
        }
        let guardian =
            marked(&run.mark).into_iter().find(|process| process.name == "ringfence-guardian");
        run.signal(libc::SIGKILL);
        // A journal is begun a moment before there is a guardian, and nothing is paused until there
        // is.
        let is_guarded = guardian.is_some() && whom == Whom::Supervisor;
        if let Some(guardian) = guardian.filter(|_| whom == Whom::Both) {
            kill(guardian.pid, libc::SIGKILL);
        }
        stood += usize::from(target.stands());
        let left = gone(&run.mark);
        assert!(left.is_empty(), "round {round}: {left:?}");
        run.wait();
        if !is_guarded {
            // It reports what it has restored, or that there was nothing to restore.
            ringfence(&["restore"]).ok();
        }
        target.must_go_on();
        assert!(journals(owner).is_empty(), "round {round}: {:?}", journals(owner));
    }
    assert_eq!(service.stops(), 0);
    stood
}

fn by_signals(rounds: usize) {
    let target = Target { neighbour: Neighbour::shell(BUSY_WITH_CHILDREN), group: None };
    target.neighbour.wait_for(3);
    for whom in [Whom::Supervisor, Whom::Both] {
        let stood = kill_often(&target, whom, rounds);
        println!("by signals: {stood} of {rounds} times something stood after it was killed");
    }
}

fn by_groups(rounds: usize) {
    let mut reasons = Vec::new();
    for file in ["cgroup.freeze", "freezer.state"] {
        let group = match Group::make("killed", file) {
            Ok(group) => group,
            Err(why) => {
                reasons.push(why);
                continue;
            }
        };
        let neighbour = group.shell(BUSY_WITH_CHILDREN);
        neighbour.wait_for(3);
        let target = Target { neighbour, group: Some(group) };
        for whom in [Whom::Supervisor, Whom::Both] {
            let stood = kill_often(&target, whom, rounds);
            println!("{file}: {stood} of {rounds} times it was frozen after the run was killed");
        }
    }
    if reasons.len() == 2 {
        skip(&reasons.join(", and "));
    }
}

#[test]
fn what_is_stopped_goes_on_after_whoever_stopped_it_is_killed() {
    if enough_cpus() {
        by_signals(5);
    }
}

#[test]
fn groups_go_on_after_whoever_froze_them_is_killed() {
    if enough_cpus() {
        by_groups(2);
    }
}

#[test]
#[ignore = "half an hour; scripts/nightly runs it"]
fn four_hundred_kills_leave_nothing_stopped() {
    if enough_cpus() {
        by_signals(200);
        by_groups(20);
    }
}
