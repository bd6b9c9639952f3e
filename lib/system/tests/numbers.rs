//! Numbers that mean another process: reused ones, and those of another namespace.

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use ringfence_system::attach::{FreezeError, Freezer, Method, Process};
use support::{Job, LIMIT, LONG, eventually, found, options, root, runs, state, wait};
use tempfile::TempDir;

fn freezer(target: &str, folder: &TempDir) -> Freezer {
    let freezer = Freezer::new(&root(), found(target), Method::Signals, options(folder)).unwrap();
    wait(&freezer, LONG);
    freezer
}

// A program under a number that belonged to another process. The kernel gives out the one behind
// that in the file, unless it is taken.
fn start_as(pid: u32) -> Result<Job, String> {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
            .map_err(|error| format!("/proc/sys/kernel/ns_last_pid: {error}"))?;
        let job = Job::start("sleep", &["600"]);
        if job.pid() == pid {
            return Ok(job);
        }
    }
    panic!("others were given {pid} all the time");
}

#[test]
fn whoever_has_the_number_now_is_left_alone() {
    let mut job = Job::start("sleep", &["600"]);
    let folder = tempfile::tempdir().unwrap();
    let mut freezer = freezer(&job.target(), &folder);
    job.0.kill().unwrap();
    job.0.wait().unwrap();
    let other = match start_as(job.pid()) {
        Ok(other) => other,
        Err(why) => {
            return ringfence_testbed::skip("whoever_has_the_number_now_is_left_alone", &why);
        }
    };
    assert!(matches!(freezer.freeze(LONG, LIMIT).err().unwrap(), FreezeError::Ended));
    assert_ne!(state(other.pid()), Some('T'));
}

// SIGSTOP of its own namespace would not reach it.
#[test]
fn a_containers_first_process_is_one_like_others() {
    let script = "while :; do :; done & while :; do /bin/true; done";
    let unshare = ["--pid", "--fork", "--mount-proc", "sh", "-c", script];
    let can = Command::new("unshare").args(["--pid", "--fork", "true"]).output();
    if !can.is_ok_and(|ran| ran.status.success()) {
        return ringfence_testbed::skip(
            "a_containers_first_process_is_one_like_others",
            "no namespace of processes can be made here",
        );
    }
    let job = Job::start("unshare", &unshare);
    let first = |job: &Job| -> Option<Process> {
        job.all().into_iter().find(|process| process.parent == job.pid() && process.name == "sh")
    };
    eventually("it has begun", || first(&job).is_some());
    let first = first(&job).unwrap().pid();
    let inside = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    let numbers = inside.lines().find(|line| line.starts_with("NSpid:")).unwrap();
    assert!(numbers.ends_with("\t1"), "{numbers}");
    let folder = tempfile::tempdir().unwrap();
    let mut freezer = freezer(&format!("pid:{first}"), &folder);
    let frozen = freezer.freeze(LONG, LIMIT).unwrap();
    let below: Vec<Process> =
        job.all().into_iter().filter(|process| process.pid() != job.pid()).collect();
    assert!(
        below.len() >= 2 && below.iter().all(|process| matches!(process.state, 'T' | 'D' | 'Z')),
        "{below:?}"
    );
    assert!(!frozen.thaw().unwrap().by_force);
    eventually("it runs", || runs(first));
}
