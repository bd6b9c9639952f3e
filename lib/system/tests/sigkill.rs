//! The program that freezes is killed at random moments: the next program thaws.

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringfence_system::attach::{Freezer, NotYet, Options};
use ringfence_system::changes::Whose;
use rustix::process::Signal;
use support::{Group, Job, eventually, found, root, runs};

const TARGET: &str = "RINGFENCE_TEST_TARGET";
const FOLDER: &str = "RINGFENCE_TEST_FOLDER";

fn changes(folder: PathBuf) -> ringfence_system::changes::Options {
    ringfence_system::changes::Options {
        folder: Some(folder),
        ..ringfence_system::changes::Options::default()
    }
}

// What is killed: it is started by the other tests, and does nothing without them.
#[test]
fn freezes_until_it_is_killed() {
    let (Ok(target), Some(folder)) = (std::env::var(TARGET), std::env::var_os(FOLDER)) else {
        return;
    };
    let found = found(&target);
    let method = found.methods[0].clone();
    let long = Duration::from_millis(2);
    let options = Options {
        longest: long,
        share: 0.9,
        changes: changes(folder.into()),
        ..Options::default()
    };
    let mut freezer = Freezer::new(&root(), found, method, options).unwrap();
    loop {
        if let Err(NotYet::Until(left)) = freezer.may_freeze(long) {
            std::thread::sleep(left);
            continue;
        }
        // It may not be quick enough.
        if let Ok(frozen) = freezer.freeze(long, Duration::from_secs(1)) {
            std::thread::sleep(frozen.left());
            frozen.thaw().unwrap();
        }
    }
}

// How often something was to be put back.
fn kill_often(target: &str, goes_on: impl Fn() -> bool) -> usize {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut put_back = 0;
    let mut seed = 7_u64;
    for _ in 0..30 {
        let mut freezing = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "freezes_until_it_is_killed"])
            .env(TARGET, target)
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the journal is begun", || {
            std::fs::read_dir(folder.path()).unwrap().count() > 0
        });
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((seed >> 33) % 20_000));
        freezing.kill().unwrap();
        let status = freezing.wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "it ended by itself");
        let all = ringfence_system::changes::put_back_left(
            &root(),
            Whose::Anybody,
            &changes(folder.path().into()),
        );
        // None where it was killed while it began the journal.
        assert!(all.len() <= 1);
        for one in all {
            let restored = one.result.unwrap();
            assert_eq!(restored.left, [""; 0]);
            put_back += restored.steps.len();
        }
        eventually("it goes on", &goes_on);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    put_back
}

#[test]
fn stopped_processes_go_on_and_those_of_others_stay() {
    let job = Job::shell("sleep 600 & sh -c 'while :; do /bin/true; done' & while :; do :; done");
    let theirs = Job::start("sleep", &["600"]);
    theirs.signal(Signal::STOP);
    job.wait_for(3);
    let goes_on = || job.all().iter().all(|process| process.state != 'T') && runs(job.pid());
    let put_back = kill_often(&job.target(), goes_on);
    println!("{put_back} of 30 times it was killed while something stood");
    assert!(put_back > 0);
    assert!(theirs.all().iter().all(|process| process.state == 'T'));
}

#[test]
fn frozen_groups_are_thawed() {
    for (file, thawed) in [("cgroup.freeze", "0"), ("freezer.state", "THAWED")] {
        // The group goes before the process in it.
        let job = Job::shell("while :; do :; done");
        let group = match Group::make("killed", file) {
            Ok(group) => group,
            Err(why) => {
                ringfence_testbed::skip(&format!("frozen_groups_are_thawed ({file})"), &why);
                continue;
            }
        };
        group.enter(job.pid());
        let put_back =
            kill_often(&group.target(), || group.read(file) == thawed && runs(job.pid()));
        println!("{file}: {put_back} of 30 times it was killed while it was frozen");
        assert!(put_back > 0);
        drop(group);
    }
}
