//! A running process is paused by `ptrace`: it resumes by itself when no process is left that would
//! resume it.

use std::process::Command;

use crate::support::service::{BUSY_WITH_CHILDREN, Kind, Neighbour, Service, journals};
use crate::support::{Folder, Running, enough_cpus, gone, kill, marked, skip, wait_for};

// The state of a process, and the PID of its tracer.
fn state_and_tracer(pid: u32) -> Option<(char, u32)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
    Some((of("State:")?.trim().chars().next()?, of("TracerPid:")?.trim().parse().ok()?))
}

fn is_traced(neighbour: &Neighbour) -> bool {
    neighbour.all().into_iter().filter_map(state_and_tracer).any(|(_, tracer)| tracer != 0)
}

fn run(folder: &Folder, service: &Service, pid: u32, more: &[&str]) -> Running {
    let (address, service, pid) = (service.address(), service.pid().to_string(), pid.to_string());
    let args = [
        "neighbours",
        "-v",
        "--victim-probe",
        &address,
        "--probe-send",
        "PING\\r\\n",
        "--victim-pid",
        &service,
    ];
    let args =
        [&args[..], &["--aggressor-pid", &pid, "--freeze", "ptrace", "--probe", "0ms"], more]
            .concat();
    Running::start(folder.path(), &args)
}

#[test]
fn it_is_paused_for_windows_and_goes_on() {
    if !enough_cpus() {
        return;
    }
    let (folder, service) = (Folder::new(), Service::start(&Kind::Echo));
    let neighbour = Neighbour::shell("sleep 3600 & while :; do :; done");
    neighbour.wait_for(2);
    let short =
        ["--probe-rate", "500", "--trials", "2", "--rounds", "2", "--metric", "p99", "--out", "d"];
    let output = run(&folder, &service, neighbour.pid(), &short).wait();
    output.ok();
    neighbour.must_go_on(true);
    assert!(!is_traced(&neighbour));
    // `pid:N was paused 4 times (max 95 ms; 0.4 s in total, 9 % of the time) by
    // ptrace, and is running again.`
    let said = output.said();
    assert!(said.contains(&format!("pid:{} was paused ", neighbour.pid())), "{said}");
    assert!(said.contains("by ptrace, and is running again."), "{said}");
}

#[test]
fn it_goes_on_by_itself_when_all_who_know_of_it_are_killed() {
    if !enough_cpus() {
        return;
    }
    let service = Service::start(&Kind::Echo);
    let neighbour = Neighbour::shell(BUSY_WITH_CHILDREN);
    neighbour.wait_for(3);
    let long = ["--trials", "1000", "--rounds", "4", "--quiet", "--longest-freeze", "400ms"];
    let long = [&long[..], &["--frozen-share", "90%", "--window", "300ms"]].concat();
    for round in 0..3 {
        let folder = Folder::new();
        let run = run(&folder, &service, neighbour.pid(), &long);
        let owner = run.child.id();
        let stands = || state_and_tracer(neighbour.pid()).is_some_and(|(state, _)| state == 't');
        wait_for("a pause", || stands().then_some(()));
        let guardian =
            marked(&run.mark).into_iter().find(|process| process.name == "ringfence-guardian");
        let guardian = guardian.expect("there is one before anything is paused").pid;
        // So that the guardian does not help.
        kill(guardian, libc::SIGSTOP);
        run.signal(libc::SIGKILL);
        wait_for("the neighbour goes on", || (!is_traced(&neighbour)).then_some(()));
        kill(guardian, libc::SIGKILL);
        let left = gone(&run.mark);
        assert!(left.is_empty(), "round {round}: {left:?}");
        run.wait();
        neighbour.must_go_on(true);
        assert!(journals(owner).is_empty(), "round {round}: {:?}", journals(owner));
    }
    assert_eq!(service.stops(), 0);
}

#[test]
fn whoever_is_under_strace_is_refused() {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "sh", "-c", "while :; do :; done"]);
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return skip("strace is not installed");
    }
    let (folder, service) = (Folder::new(), Service::start(&Kind::Echo));
    let neighbour = Neighbour::start(strace);
    // Not a child by which strace learns at its start what the kernel can do, and which is gone at
    // once.
    let is_shell = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sh\n")
    };
    let is_traced = |pid: u32| state_and_tracer(pid).is_some_and(|(_, tracer)| tracer != 0);
    let traced = wait_for("strace traces", || {
        neighbour.all().into_iter().find(|pid| is_shell(*pid) && is_traced(*pid))
    });
    let output = run(&folder, &service, traced, &["--trials", "2"]).wait();
    assert_eq!(output.code(), Some(2), "{}{}", output.stdout, output.stderr);
    for part in ["(strace) traces it already", &format!("process {} ", neighbour.pid())] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
}
