//! However the program or a part of it is killed, none of its processes lives on, running or
//! stopped.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::support::{Folder, Running, enough_cpus, gone, kill, marked, wait_for};

// Ignores a polite end, has a child, and a grandchild in a session of its own.
const STUBBORN: &str = r#"sh -c "trap '' TERM; (setsid sleep 600 &); sleep 600 & wait""#;

// Long enough that only a kill ends them.
const MEASURE: [&str; 7] = ["--trials", "1000", "--window", "20ms", "--rounds", "1", "--quiet"];

fn neighbours<'a>(victim: &'a str, aggressor: &'a str) -> Vec<&'a str> {
    [&["neighbours", "--victim", victim, "--aggressor", aggressor], &MEASURE[..]].concat()
}

// Programs on both sides; the victim's work is counted in runs, which needs no counters.
fn experiment(victim: &str, aggressor: &str) -> String {
    format!(
        r#"
schema = 2
name = "programs"
metric = "victim"
[measure]
looks = [1000]
[[role]]
name = "victim"
task = {{ workload = "command", run = {victim:?}, unit = "runs" }}
[[role]]
name = "aggressor"
task = {{ workload = "command", run = {aggressor:?} }}
[[arm]]
name = "alone"
active = ["victim"]
[[arm]]
name = "beside"
active = ["victim", "aggressor"]
baseline = "alone"
"#
    )
}

// Delays of 0 to 1500 ms; the same in every run, so that a failure can be met again.
fn delays() -> impl Iterator<Item = Duration> {
    let mut state: u64 = 0x5eed;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis((state >> 33) % 1501)
    })
}

#[test]
fn a_killed_supervisor_leaves_no_process_behind() {
    if !enough_cpus() {
        return;
    }
    let files = Folder::new();
    let file = |name: &str, victim: &str, aggressor: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, experiment(victim, aggressor)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let short = file("short.toml", "sh -c 'sleep 0.02 & wait'", "sh -c 'sleep 600 & sleep 600'");
    let stubborn = file("stubborn.toml", STUBBORN, STUBBORN);
    let ways = [
        neighbours("chase footprint=256KiB", STUBBORN),
        neighbours("mcf footprint=256KiB", STUBBORN),
        vec!["run", &stubborn, "--quiet"],
        neighbours("write size=1MiB instruction=nt", STUBBORN),
        vec!["run", &short, "--quiet"],
    ];
    for (round, delay) in delays().take(25).enumerate() {
        let args = &ways[round % ways.len()];
        let folder = Folder::new();
        let run = Running::start(folder.path(), args);
        std::thread::sleep(delay);
        run.signal(libc::SIGKILL);
        let left = gone(&run.mark);
        assert!(left.is_empty(), "round {round}, after {delay:?}, {args:?}: {left:?}");
        // Killed, not ended by itself before: otherwise the round shows nothing.
        assert_eq!(run.wait().status.signal(), Some(libc::SIGKILL), "round {round}: {args:?}");
    }
}

#[test]
fn a_killed_guardian_ends_the_run_with_a_sentence_and_leaves_no_process_behind() {
    if !enough_cpus() {
        return;
    }
    for (round, delay) in delays().take(4).enumerate() {
        let folder = Folder::new();
        let run = Running::start(folder.path(), &neighbours("chase footprint=256KiB", STUBBORN));
        let guardian = wait_for("the guardian", || {
            marked(&run.mark).into_iter().find(|process| process.name == "ringfence-guardian")
        });
        std::thread::sleep(delay);
        kill(guardian.pid, libc::SIGKILL);
        let output = run.wait();
        assert_eq!(output.code(), Some(1), "round {round}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        assert!(output.stderr.contains("guardian process"), "{}", output.stderr);
    }
}

#[test]
fn what_was_stopped_is_ended_too() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    let run = Running::start(folder.path(), &neighbours("chase footprint=256KiB", STUBBORN));
    wait_for("a stopped program", || {
        marked(&run.mark).iter().any(|process| process.state.starts_with('T')).then_some(())
    });
    run.signal(libc::SIGSTOP);
    // It takes the signal when it gets a CPU.
    let supervisor = run.child.id() as i32;
    wait_for("the supervisor to stand still", || {
        let all = marked(&run.mark);
        all.iter()
            .any(|process| process.pid == supervisor && process.state.starts_with('T'))
            .then_some(())
    });
    run.signal(libc::SIGKILL);
    let left = gone(&run.mark);
    assert!(left.is_empty(), "{left:?}");
}

// Both stand still first, so that neither sees the other end.
fn kill_both(run: &Running, others: &[&str]) {
    let named = || {
        let all = marked(&run.mark).into_iter();
        all.filter(|process| others.contains(&process.name.as_str())).map(|process| process.pid)
    };
    let mut killed: Vec<i32> = named().collect();
    killed.push(run.child.id() as i32);
    killed.iter().for_each(|pid| kill(*pid, libc::SIGSTOP));
    wait_for("all to stand still", || {
        let all = marked(&run.mark);
        let stands =
            |pid: &i32| all.iter().any(|one| one.pid == *pid && one.state.starts_with('T'));
        killed.iter().all(stands).then_some(())
    });
    killed.iter().for_each(|pid| kill(*pid, libc::SIGKILL));
}

#[test]
fn a_supervisor_and_its_guardian_that_are_killed_at_once_leave_no_process_behind() {
    if !enough_cpus() {
        return;
    }
    let files = Folder::new();
    let path = files.path().join("stubborn.toml");
    std::fs::write(&path, experiment(STUBBORN, STUBBORN)).unwrap();
    let stubborn = path.to_str().unwrap();
    for (round, delay) in delays().take(6).enumerate() {
        let folder = Folder::new();
        let run = match round % 2 {
            0 => Running::start(folder.path(), &["run", stubborn, "--quiet"]),
            _ => Running::start(folder.path(), &neighbours("chase footprint=256KiB", STUBBORN)),
        };
        wait_for("a program", || {
            marked(&run.mark).iter().any(|one| one.name == "sleep").then_some(())
        });
        std::thread::sleep(delay);
        kill_both(&run, &["ringfence-guardian"]);
        let left = gone(&run.mark);
        assert!(left.is_empty(), "round {round}, after {delay:?}: {left:?}");
    }
}

#[test]
fn a_program_ends_with_whoever_started_it_even_if_all_of_ringfence_is_killed_at_once() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    let run = Running::start(folder.path(), &neighbours("chase footprint=256KiB", "sleep 600"));
    wait_for("a program", || marked(&run.mark).iter().any(|one| one.name == "sleep").then_some(()));
    kill_both(&run, &["ringfence-guardian", "ringfence-worker"]);
    let left = gone(&run.mark);
    assert!(left.is_empty(), "{left:?}");
}
