//! What is not measured, and why.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use crate::support::service::{Kind, Neighbour, Service, state};
use crate::support::{Output, enough_cpus, ringfence};

#[track_caller]
fn assert_refused(output: &Output, part: &str) {
    assert_eq!(output.code(), Some(2), "{part}: {}{}", output.stdout, output.stderr);
    assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
}

// A thread of the kernel, where this PID namespace shows any.
fn kernel_thread() -> Option<u32> {
    // The parent of all but itself is kthreadd, process 2.
    let is_one = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("\nPPid:\t2\n")
            && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|it| it.is_empty())
    };
    let pids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid > 2).find(is_one)
}

#[test]
fn what_the_system_depends_on_is_refused_with_a_reason() {
    if !enough_cpus() {
        return;
    }
    let service = Service::start(&Kind::Echo);
    let address = service.address();
    let shell = Command::new("true")
        .spawn()
        .and_then(|mut child| child.wait().map(|_| child.id()))
        .unwrap();
    let own = std::process::id().to_string();
    let mut all = vec![
        ("1".to_owned(), "ringfence: --aggressor pid:1 is refused: process 1 ("),
        ("1".to_owned(), "which everything depends on; name the process of one service"),
        // It runs below this one, and so do those of other tests.
        (own, "is refused: process"),
        // The highest number of a process is one less (proc(5), pid_max).
        ("4194304".into(), "no running process has that ID"),
        ("0".into(), "above 0"),
        ("5000000".into(), "from 1 to"),
    ];
    if state(shell).is_none() {
        all.push((shell.to_string(), "no running process has that ID"));
    }
    match kernel_thread() {
        Some(pid) => all.push((
            pid.to_string(),
            "it is a thread of the kernel; name the process of one service",
        )),
        None => eprintln!("skipped: this PID namespace shows no thread of the kernel"),
    }
    for verb in ["neighbours", "prove"] {
        for (pid, part) in &all {
            let victim = format!("probe:{address} send='PING\\r\\n'");
            let aggressor = format!("pid:{pid}");
            let output = ringfence(&[verb, "--victim", &victim, "--aggressor", &aggressor]);
            assert_refused(&output, part);
        }
    }
}

#[test]
fn limits_and_ways_that_do_not_fit_are_refused() {
    if !enough_cpus() {
        return;
    }
    let service = Service::start(&Kind::Echo);
    let neighbour = Neighbour::shell("while :; do sleep 0.01; done");
    let (address, pid) = (service.address(), neighbour.pid().to_string());
    let attached = ["--aggressor-pid", &pid];
    for (flags, part) in [
        (&["--window", "200ms"][..], "does not fit into the longest pause"),
        (&["--longest-freeze", "5ms"], "not between 20ms and 10s"),
        (&["--longest-freeze", "11s"], "not between 20ms and 10s"),
        (&["--frozen-share", "99%"], "not between 0.1% and 90%"),
        (&["--frozen-share", "0%"], "not between 0.1% and 90%"),
        (&["--frozen-share", "half"], "half"),
        (&["--freeze", "group"], "no control group of its own"),
        (&["--freeze", "hard"], "use group, signals or ptrace"),
        (
            &["--probe-rate", "50"],
            "send more requests (rate= of the probe), or allow a longer pause \
             (--longest-freeze 180ms)",
        ),
        (&["--probe-rate", "0"], "1 and 100000"),
        (&["--probe-rate", "100001"], "1 and 100000"),
        (&["--victim-pid", "4194304"], "no running process has that ID"),
        // The last one counts.
        (&["--aggressor-cgroup", "/a"], "cannot be combined with"),
        (&["--aggressor", "alu"], "cannot be combined with"),
    ] {
        let probe = ["neighbours", "--victim-probe", &address, "--probe-send", "PING\\r\\n"];
        let output = ringfence(&[&probe[..], &attached, flags, &["--quiet"]].concat());
        assert_eq!(output.code(), Some(2), "{flags:?}: {}{}", output.stdout, output.stderr);
        assert!(output.stderr.contains(part), "{flags:?}: {}", output.stderr);
    }
    let (victim, probe) = (service.pid().to_string(), ["--probe-send", "PING\\r\\n", "--quiet"]);
    let same = [
        "neighbours",
        "--victim-probe",
        &address,
        "--victim-pid",
        &victim,
        "--aggressor-pid",
        &victim,
    ];
    assert_refused(&ringfence(&[&same[..], &probe].concat()), "would be paused too");
    let own = ["prove", "--victim-run", "sleep 0.1", "--aggressor-pid", &pid, "--quiet"];
    assert_refused(&ringfence(&own), "can only be paused briefly");
    let alone = ["neighbours", "--victim", "alu", "--aggressor", "idle", "--frozen-share", "5%"];
    assert_refused(&ringfence(&alone), "apply to a running process as aggressor");
    assert_ne!(state(neighbour.pid()), Some('T'));
    assert_eq!(service.stops(), 0);
}

#[test]
fn questions_that_cannot_be_asked_are_refused() {
    if !enough_cpus() {
        return;
    }
    // A port at which no process listens any more.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("tcp://{free}");
    let service = Service::start(&Kind::Echo);
    let address = service.address();
    for (address, send, code, part) in [
        (&*nobody, "PING\\r\\n", 2, "refused"),
        (&address, "PING\\q", 2, "\\q"),
        (&address, "PING\\x4", 2, "\\x"),
        (&address, "", 2, "needs something to send: add send="),
        (
            "tcp://127.0.0.1:6379",
            "",
            2,
            r"write probe:redis://127.0.0.1:6379, or add send='PING\r\n'",
        ),
        ("redis://me:secret@127.0.0.1", "", 2, "not supported"),
        ("localhost:6379", "PING", 2, "tcp://HOST:PORT"),
        ("tcp://127.0.0.1:99999", "PING", 2, "99999"),
        ("http://127.0.0.1:1/", "PING", 2, "by GET"),
    ] {
        for verb in ["neighbours", "prove"] {
            let args =
                [verb, "--victim-probe", address, "--probe-send", send, "--aggressor", "idle"];
            let output = ringfence(&args);
            assert_eq!(
                output.code(),
                Some(code),
                "{address} {send}: {}{}",
                output.stdout,
                output.stderr
            );
            assert!(output.stderr.contains(part), "{address} {send}: {}", output.stderr);
            assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        }
    }
}
