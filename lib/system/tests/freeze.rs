//! Processes of this machine frozen and thawed: alone and by hundreds, forking, in vfork, and
//! already stopped.

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_system::attach::{FreezeError, Freezer, Method, NotYet, Options, usage};
use rustix::process::Signal;
use support::{Group, Job, LIMIT, LONG, eventually, found, options, root, runs, send, state, wait};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn freezer(target: &str, method: Option<Method>, folder: &TempDir) -> Freezer {
    let found = found(target);
    let method = method.unwrap_or_else(|| found.methods[0].clone());
    Freezer::new(&root(), found, method, options(folder)).unwrap()
}

#[test]
fn a_tree_stands_and_goes_on() {
    let job = Job::shell("sh -c 'while :; do :; done' & while :; do :; done");
    job.wait_for(2);
    let folder = folder();
    let mut freezer = freezer(&job.target(), Some(Method::Signals), &folder);
    for _ in 0..3 {
        wait(&freezer, LONG);
        let frozen = freezer.freeze(LONG, LIMIT).unwrap();
        assert_eq!((frozen.took().stopped, frozen.took().stood), (2, 0));
        assert!(job.all().iter().all(|process| process.state == 'T') && !runs(job.pid()));
        assert!(!frozen.thaw().unwrap().by_force);
        eventually("it runs", || runs(job.pid()));
    }
    let (time, share) = freezer.frozen();
    assert!(time >= Duration::from_millis(90) && share > 0.0 && share <= 0.9, "{time:?} {share}");
    let mut found = found(&job.target());
    let before = usage(&root(), &mut found);
    eventually("CPU time is counted", || usage(&root(), &mut found.clone()).cpu > before.cpu);
    freezer.end().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

// The stops of all threads count, and a process that was stopped before stays so.
#[test]
fn who_was_stopped_before_stays_so() {
    let job = Job::shell("sleep 600 & sleep 600 & sleep 600");
    job.wait_for(4);
    let theirs = job.all()[1].pid();
    send(theirs, Signal::STOP);
    eventually("it is stopped", || state(theirs) == Some('T'));
    let folder = folder();
    let mut freezer = freezer(&job.target(), Some(Method::Signals), &folder);
    wait(&freezer, LONG);
    let frozen = freezer.freeze(LONG, LIMIT).unwrap();
    assert_eq!((frozen.took().stopped, frozen.took().stood), (3, 1));
    drop(frozen);
    eventually("the others go on", || {
        job.all().iter().filter(|process| process.state == 'T').count() == 1
    });
    assert_eq!(state(theirs), Some('T'));
    drop(freezer);
    assert_eq!(state(theirs), Some('T'));
}

#[test]
fn a_shell_that_starts_programs_without_end_can_be_stopped_at_any_time() {
    let job = Job::shell("sh -c 'while :; do /bin/true; done'; :");
    let folder = folder();
    let mut freezer = freezer(&job.target(), Some(Method::Signals), &folder);
    let mut between = 0;
    for _ in 0..100 {
        wait(&freezer, Duration::from_millis(5));
        let frozen = freezer.freeze(Duration::from_millis(5), LIMIT).unwrap();
        between += job.all().iter().filter(|process| process.state == 'D').count();
        assert!(
            job.all().iter().all(|process| matches!(process.state, 'T' | 'D' | 'Z')),
            "{:?}",
            job.all()
        );
        frozen.thaw().unwrap();
        std::thread::sleep(Duration::from_micros(500));
    }
    println!("stopped {between} of 100 times between vfork and exec");
}

// Each process forks the next and ends, so that no process in it ever has a parent.
#[test]
fn a_chain_of_orphans_is_caught_or_said_to_move() {
    let job = Job::shell("f() { (sleep 0.002; f) & }; f; sleep 600");
    job.wait_for(2);
    let folder = folder();
    let mut freezer = freezer(&job.target(), Some(Method::Signals), &folder);
    let mut caught = 0;
    for _ in 0..20 {
        wait(&freezer, LONG);
        match freezer.freeze(LONG, Duration::from_millis(500)) {
            Ok(frozen) => {
                let ids = |all: Vec<ringfence_system::attach::Process>| -> Vec<_> {
                    all.into_iter()
                        .filter(|process| process.state != 'Z')
                        .map(|process| process.id)
                        .collect()
                };
                let before = ids(job.all());
                std::thread::sleep(Duration::from_millis(10));
                assert_eq!(before, ids(job.all()), "it went on");
                assert!(job.all().iter().all(|process| matches!(process.state, 'T' | 'D' | 'Z')));
                frozen.thaw().unwrap();
                caught += 1;
            }
            Err(FreezeError::Moving { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    println!("caught {caught} of 20 times");
    assert!(caught > 0);
    eventually("it goes on", || {
        job.all().iter().any(|process| process.name == "sleep" && process.state == 'S')
    });
}

#[test]
fn hundreds_are_stopped_whole() {
    let job = Job::shell("for i in $(seq 300); do sleep 600 & done; wait");
    job.wait_for(301);
    let folder = folder();
    let mut freezer = freezer(&job.target(), Some(Method::Signals), &folder);
    wait(&freezer, LONG);
    let frozen = freezer.freeze(LONG, LIMIT).unwrap();
    assert_eq!(frozen.took().stopped, 301);
    assert!(job.all().iter().all(|process| process.state == 'T'));
    println!("301 processes stood after {:?}", frozen.took().time);
    frozen.thaw().unwrap();
    eventually("all go on", || job.all().iter().all(|process| process.state != 'T'));
}

#[test]
fn groups_are_frozen_with_all_groups_below_them() {
    for (file, thawed) in [("cgroup.freeze", "0"), ("freezer.state", "THAWED")] {
        let name = format!("groups_are_frozen_with_all_groups_below_them ({file})");
        // Groups go before the processes in them.
        let (one, other) =
            (Job::shell("while :; do :; done"), Job::shell("while :; do /bin/true; done"));
        let stranger = Job::shell("while :; do :; done");
        let group = match Group::make("frozen", file) {
            Ok(group) => group,
            Err(why) => {
                ringfence_testbed::skip(&name, &why);
                continue;
            }
        };
        let below = group.0.join("below");
        std::fs::create_dir(&below).unwrap();
        let below = Group(below);
        group.enter(one.pid());
        below.enter(other.pid());
        let folder = folder();
        let mut freezer = freezer(&group.target(), None, &folder);
        for _ in 0..5 {
            wait(&freezer, LONG);
            let frozen = freezer.freeze(LONG, LIMIT).unwrap();
            println!("{file} took hold after {:?}", frozen.took().time);
            assert!(!runs(one.pid()), "{file}");
            assert!(!runs(other.pid()), "{file}: {:?}", other.all());
            eventually("others run", || runs(stranger.pid()));
            frozen.thaw().unwrap();
            assert_eq!(group.read(file), thawed);
            eventually("both run", || runs(one.pid()) && runs(other.pid()));
        }
        // Frozen by another process.
        let theirs = if thawed == "0" { "1" } else { "FROZEN" };
        // A version 1 group can stay at FREEZING until FROZEN is written again.
        eventually("it is frozen", || {
            std::fs::write(group.0.join(file), theirs).unwrap();
            group.read(file) == theirs
        });
        wait(&freezer, LONG);
        let frozen = freezer.freeze(LONG, LIMIT).unwrap();
        assert!(frozen.took().was_frozen);
        frozen.thaw().unwrap();
        drop(freezer);
        assert_eq!(group.read(file), theirs);
        std::fs::write(group.0.join(file), thawed).unwrap();
        drop((below, group));
    }
}

// Version 1 leaves one in twenty of them at FREEZING, with a parent in vfork that is not frozen,
// unless it is told again.
#[test]
fn groups_in_which_programs_start_all_the_time_are_frozen_each_time() {
    for file in ["cgroup.freeze", "freezer.state"] {
        let name =
            format!("groups_in_which_programs_start_all_the_time_are_frozen_each_time ({file})");
        let jobs = [(); 3].map(|()| Job::shell("while :; do /bin/true; done"));
        let group = match Group::make("vfork", file) {
            Ok(group) => group,
            Err(why) => {
                ringfence_testbed::skip(&name, &why);
                continue;
            }
        };
        jobs.iter().for_each(|job| group.enter(job.pid()));
        let folder = folder();
        let mut freezer = freezer(&group.target(), None, &folder);
        let short = Duration::from_millis(1);
        for _ in 0..200 {
            wait(&freezer, short);
            freezer.freeze(short, LIMIT).unwrap().thaw().unwrap();
        }
        freezer.end().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_group_in_which_programs_start_and_end_all_the_time_is_its_own() {
    for file in ["cgroup.freeze", "freezer.state"] {
        let name =
            format!("a_group_in_which_programs_start_and_end_all_the_time_is_its_own ({file})");
        let group = match Group::make("starts", file) {
            Ok(group) => group,
            Err(why) => {
                ringfence_testbed::skip(&name, &why);
                continue;
            }
        };
        // Groups go after the processes in them.
        let job = Job::shell(
            "sleep 0.2; for n in 1 2 3; do while :; do sh -c /bin/true; (/bin/true; /bin/true); \
             done & done; wait",
        );
        group.enter(job.pid());
        job.wait_for(4);
        for look in 0..50 {
            let found = found(&job.target());
            let own = found.groups.iter().find(|one| one.folder == group.0);
            assert!(own.is_some_and(|own| own.is_exact), "{file}, look {look}: {:?}", found.groups);
        }
    }
}

#[test]
fn a_group_that_has_others_in_it_by_now_is_not_frozen_for_a_process() {
    let (job, other) = (Job::shell("sleep 600 & sleep 600"), Job::start("sleep", &["600"]));
    let group = match Group::make("changed", "cgroup.freeze")
        .or_else(|_| Group::make("changed", "freezer.state"))
    {
        Ok(group) => group,
        Err(why) => {
            return ringfence_testbed::skip(
                "a_group_that_has_others_in_it_by_now_is_not_frozen_for_a_process",
                &why,
            );
        }
    };
    job.wait_for(3);
    job.all().iter().for_each(|process| group.enter(process.pid()));
    let folder = folder();
    let mut freezer = freezer(&job.target(), None, &folder);
    wait(&freezer, LONG);
    freezer.freeze(LONG, LIMIT).unwrap().thaw().unwrap();
    group.enter(other.pid());
    wait(&freezer, LONG);
    let error = freezer.freeze(LONG, LIMIT).err().unwrap();
    assert!(matches!(error, FreezeError::Changed { .. }), "{error}");
}

#[test]
fn nobody_is_frozen_longer_than_the_watchdog_allows() {
    let job = Job::shell("while :; do :; done");
    let folder = folder();
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = said.clone();
    let options = Options {
        longest: Duration::from_millis(500),
        margin: Duration::from_millis(10),
        share: 0.2,
        said: Some(Arc::new(move |text: &str| heard.lock().unwrap().push(text.to_owned()))),
        ..options(&folder)
    };
    let mut freezer =
        Freezer::new(&root(), found(&job.target()), Method::Signals, options).unwrap();
    let long = Duration::from_millis(200);
    assert!(matches!(freezer.may_freeze(2 * LIMIT), Err(NotYet::TooLong(_))));
    wait(&freezer, long);
    let frozen = freezer.freeze(long, LIMIT).unwrap();
    eventually("it is thawed", || runs(job.pid()));
    let thawed = frozen.thaw().unwrap();
    assert!(thawed.by_force && thawed.after >= Duration::from_millis(510), "{thawed:?}");
    eventually("it is said", || !said.lock().unwrap().is_empty());
    assert!(said.lock().unwrap()[0].contains("so the watchdog thawed it"));
    // It counts.
    assert!(matches!(freezer.may_freeze(long), Err(NotYet::Until(_))));
}

#[test]
fn what_has_ended_is_said() {
    let mut job = Job::start("sleep", &["600"]);
    let folder = folder();
    let mut freezer = freezer(&job.target(), Some(Method::Signals), &folder);
    job.0.kill().unwrap();
    job.0.wait().unwrap();
    wait(&freezer, LONG);
    assert!(matches!(freezer.freeze(LONG, LIMIT).err().unwrap(), FreezeError::Ended));
}
