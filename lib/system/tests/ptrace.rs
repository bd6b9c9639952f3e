//! Frozen by `ptrace`: all threads are stopped, nothing is lost on the way, and the kernel resumes
//! them when the program that froze them is killed.

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_system::attach::{FreezeError, Freezer, Method, Options, Process, Refusal};
use ringfence_system::root::field;
use rustix::process::Signal;
use support::{Job, LIMIT, LONG, eventually, found, options, root, runs, send, state, wait};
use tempfile::TempDir;

const ROLE: &str = "RINGFENCE_TEST_ROLE";
const TARGET: &str = "RINGFENCE_TEST_TARGET";

fn freezer_with(target: &str, options: Options) -> Result<Freezer, FreezeError> {
    Freezer::new(&root(), found(target), Method::Ptrace, options)
}

fn freezer(target: &str) -> (Freezer, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (freezer_with(target, options(&folder)).unwrap(), folder)
}

fn states(pid: u32) -> Vec<char> {
    let threads = root().numbered(format!("/proc/{pid}/task"), "");
    let state = |tid: u32| Process::read(&root(), tid).map(|thread| thread.state);
    threads.into_iter().filter_map(state).collect()
}

// As `runs`, of all threads.
fn any_runs(pid: u32) -> bool {
    root().numbered(format!("/proc/{pid}/task"), "").into_iter().any(runs)
}

fn tracer(pid: u32) -> u32 {
    let status = root().read_opt(format!("/proc/{pid}/status")).unwrap();
    field(&status, "TracerPid").unwrap().parse().unwrap()
}

// A copy of this test's program, as a process with a role: this program itself is not a target.
struct Copied {
    program: PathBuf,
    _folder: TempDir,
}

impl Copied {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("actor");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        Self { program, _folder: folder }
    }

    fn role(&self, role: &str, target: &str) -> Command {
        playing(&self.program, role, target)
    }

    fn start(&self, role: &str, target: &str) -> Job {
        Job(self.role(role, target).stdout(Stdio::piped()).process_group(0).spawn().unwrap())
    }
}

fn playing(program: &Path, role: &str, target: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", "plays_a_role", "--nocapture"]).env(ROLE, role).env(TARGET, target);
    command.stdin(Stdio::null());
    command
}

fn freezing(target: &str) -> Child {
    let mut command = playing(&std::env::current_exe().unwrap(), "freezes", target);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line.ends_with("frozen")));
    child
}

// Started by the other tests; it does nothing without them.
#[test]
fn plays_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let target = std::env::var(TARGET).unwrap();
    match &*role {
        "threads" => {
            for _ in 0..8 {
                std::thread::spawn(|| {
                    loop {
                        std::hint::spin_loop()
                    }
                });
            }
            // Threads that come and go.
            loop {
                std::thread::spawn(|| ()).join().unwrap();
            }
        }
        // Threads, of which one becomes another program, which begins anew.
        "execs" => {
            for _ in 0..4 {
                std::thread::spawn(|| std::thread::sleep(Duration::from_secs(600)));
            }
            let own = std::env::current_exe().unwrap();
            std::thread::spawn(move || {
                panic!("{}", playing(&own, "execs", "").stdout(Stdio::null()).exec())
            });
            std::thread::sleep(Duration::from_secs(600));
        }
        "answers" => {
            let got = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(target.parse().unwrap(), got.clone()).unwrap();
            println!("\nready");
            loop {
                if got.swap(false, Ordering::SeqCst) {
                    println!("got");
                }
            }
        }
        "freezes" => {
            let (mut freezer, _folder) = freezer(&target);
            wait(&freezer, LIMIT);
            let _frozen = freezer.freeze(LIMIT, LIMIT).unwrap();
            println!("frozen");
            std::thread::sleep(Duration::from_secs(600));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_tree_with_threads_stands_and_goes_on() {
    let actors = Copied::new();
    let threads = actors.start("threads", "");
    eventually("it has threads", || states(threads.pid()).len() >= 10);
    let tree = Job::shell("sh -c 'while :; do :; done' & sleep 600 & while :; do :; done");
    tree.wait_for(3);
    for (job, count) in [(&threads, 1), (&tree, 3)] {
        let (mut freezer, folder) = freezer(&job.target());
        for _ in 0..5 {
            wait(&freezer, LONG);
            let frozen = freezer.freeze(LONG, LIMIT).unwrap();
            assert_eq!((frozen.took().stopped, frozen.took().stood), (count, 0));
            println!("stood after {:?}", frozen.took().time);
            for process in job.all() {
                // Some have ended.
                let states = states(process.pid());
                assert!(states.iter().all(|state| matches!(state, 't' | 'Z')), "{states:?}");
            }
            assert!(!any_runs(job.pid()));
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it needs no journal");
            assert!(!frozen.thaw().unwrap().by_force);
            // By now, and not only in a while.
            assert!(job.all().iter().all(|process| tracer(process.pid()) == 0));
            eventually("it runs", || any_runs(job.pid()));
        }
        freezer.end().unwrap();
    }
}

#[test]
fn who_was_stopped_before_stays_so() {
    let job = Job::shell("sleep 600 & sleep 600 & sleep 600");
    job.wait_for(4);
    let theirs = job.all()[1].pid();
    send(theirs, Signal::STOP);
    eventually("it is stopped", || state(theirs) == Some('T'));
    let (mut freezer, _folder) = freezer(&job.target());
    wait(&freezer, LONG);
    for _ in 0..3 {
        let frozen = freezer.freeze(LONG, LIMIT).unwrap();
        assert_eq!((frozen.took().stopped, frozen.took().stood), (3, 1));
        drop(frozen);
        eventually("the others go on", || {
            job.all().iter().filter(|one| one.state == 'S').count() == 3
        });
        eventually("it is stopped", || state(theirs) == Some('T'));
        assert_eq!(tracer(theirs), 0);
        wait(&freezer, LONG);
    }
    // Stopped, and resumed, while it was frozen.
    let frozen = freezer.freeze(LONG, LIMIT).unwrap();
    let other = job.all()[2].pid();
    send(other, Signal::STOP);
    send(theirs, Signal::CONT);
    std::thread::sleep(Duration::from_millis(20));
    assert!(job.all().iter().all(|process| process.state == 't'), "{:?}", job.all());
    drop(frozen);
    eventually("it is stopped", || state(other) == Some('T'));
    eventually("it goes on", || state(theirs) == Some('S'));
}

fn lines(job: &mut Job) -> std::sync::mpsc::Receiver<String> {
    let (to, lines) = std::sync::mpsc::channel();
    let output = BufReader::new(job.0.stdout.take().unwrap());
    std::thread::spawn(move || {
        output.lines().map_while(Result::ok).try_for_each(|line| to.send(line))
    });
    lines
}

fn speaking(script: &str) -> Job {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
    Job(command.process_group(0).spawn().unwrap())
}

#[test]
fn signals_come_through_once_it_goes_on() {
    let mut job = speaking("trap 'echo got' USR1; echo ready; while :; do :; done");
    let lines = lines(&mut job);
    assert_eq!(lines.recv_timeout(LIMIT).unwrap(), "ready");
    let (mut freezer, _folder) = freezer(&job.target());
    for _ in 0..3 {
        wait(&freezer, LONG);
        let frozen = freezer.freeze(LONG, LIMIT).unwrap();
        send(job.pid(), Signal::USR1);
        lines.recv_timeout(Duration::from_millis(30)).unwrap_err();
        frozen.thaw().unwrap();
        assert_eq!(lines.recv_timeout(LIMIT).unwrap(), "got");
    }
    lines.recv_timeout(Duration::from_millis(30)).unwrap_err();
}

// Each waits for the last, so that none may be lost: one that was about to be delivered when it was
// stopped, nor one that only has a number.
#[test]
fn no_signal_is_lost_at_any_moment() {
    let actors = Copied::new();
    // SIGUSR1, and the fifth of the real-time signals.
    for signal in ["10", "39"] {
        let mut job = actors.start("answers", signal);
        let script = format!("while read -r _; do kill -{signal} {}; done", job.pid());
        let mut sender = Command::new("sh");
        sender.args(["-c", &script]).stdin(Stdio::piped()).process_group(0);
        let mut sender = Job(sender.spawn().unwrap());
        let mut to = sender.0.stdin.take().unwrap();
        let lines = lines(&mut job);
        assert!(lines.iter().any(|line| line == "ready"));
        let sends = std::thread::spawn(move || {
            let mut count = 0;
            let until = Instant::now() + Duration::from_millis(1500);
            while Instant::now() < until {
                writeln!(to).unwrap();
                assert_eq!(lines.recv_timeout(LIMIT).expect("a signal was lost"), "got");
                count += 1;
            }
            count
        });
        let (mut freezer, _folder) = freezer(&job.target());
        let mut freezes = 0;
        let short = Duration::from_millis(1);
        while !sends.is_finished() {
            wait(&freezer, short);
            drop(freezer.freeze(short, LIMIT).unwrap());
            freezes += 1;
        }
        println!("signal {signal}: {} signals in {freezes} freezes", sends.join().unwrap());
        assert!(freezes > 10);
    }
}

#[test]
fn a_shell_that_starts_programs_without_end_can_be_stopped_at_any_time() {
    let job = Job::shell("sh -c 'while :; do /bin/true; done'; :");
    let (mut freezer, _folder) = freezer(&job.target());
    for _ in 0..100 {
        wait(&freezer, Duration::from_millis(5));
        let frozen = freezer.freeze(Duration::from_millis(5), LIMIT).unwrap();
        let all = job.all();
        assert!(all.iter().all(|process| matches!(process.state, 't' | 'D' | 'Z')), "{all:?}");
        let ids = |all: Vec<Process>| all.into_iter().map(|process| process.id).collect::<Vec<_>>();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(ids(job.all()), ids(all), "it went on");
        frozen.thaw().unwrap();
        std::thread::sleep(Duration::from_micros(500));
    }
    eventually("it goes on", || job.all().iter().any(|process| process.name == "true"));
}

// exec waits for the other threads to end, and seizing one that calls it waits for that.
#[test]
fn threads_that_become_another_program_are_stopped_and_hold_nobody_up() {
    let actors = Copied::new();
    let job = actors.start("execs", "");
    let (mut freezer, _folder) = freezer(&job.target());
    for _ in 0..200 {
        wait(&freezer, Duration::from_millis(2));
        let frozen = freezer.freeze(Duration::from_millis(2), LIMIT).unwrap();
        assert!(
            states(job.pid()).iter().all(|state| matches!(state, 't' | 'Z')),
            "{:?}",
            states(job.pid())
        );
        frozen.thaw().unwrap();
    }
    eventually("it goes on", || any_runs(job.pid()));
}

#[test]
fn hundreds_are_stopped_whole_and_one_may_be_killed() {
    let mut job = Job::shell("for i in $(seq 300); do sleep 600 & done; wait");
    job.wait_for(301);
    let (mut freezer, _folder) = freezer(&job.target());
    wait(&freezer, LIMIT);
    let frozen = freezer.freeze(LIMIT, LIMIT).unwrap();
    assert_eq!(frozen.took().stopped, 301);
    println!("301 processes stood after {:?}", frozen.took().time);
    send(job.pid(), Signal::KILL);
    eventually("it ends", || state(job.pid()) == Some('Z'));
    let begun = Instant::now();
    frozen.thaw().unwrap();
    println!("and went on after {:?}", begun.elapsed());
    eventually("all go on", || job.all().iter().all(|process| matches!(process.state, 'S' | 'Z')));
    // Its end is its parent's.
    assert_eq!(job.0.wait().unwrap().signal(), Some(9));
}

#[test]
fn whoever_forgets_to_thaw_is_helped() {
    let job = Job::shell("while :; do :; done");
    let folder = tempfile::tempdir().unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let log = said.clone();
    let say = Arc::new(move |text: &str| log.lock().unwrap().push(text.to_owned()));
    let options = Options { longest: LONG, said: Some(say), ..options(&folder) };
    let mut freezer = freezer_with(&job.target(), options).unwrap();
    wait(&freezer, LONG);
    let frozen = freezer.freeze(LONG, LIMIT).unwrap();
    eventually("it runs", || runs(job.pid()));
    assert!(frozen.thaw().unwrap().by_force);
    assert!(said.lock().unwrap()[0].contains("so the watchdog thawed it"));
}

#[test]
fn all_go_on_once_whoever_froze_them_is_killed() {
    let job = Job::shell("sleep 600 & sh -c 'while :; do /bin/true; done' & while :; do :; done");
    job.wait_for(3);
    let theirs = Job::start("sleep", &["600"]);
    theirs.signal(Signal::STOP);
    for _ in 0..5 {
        let mut freezing = freezing(&job.target());
        assert_eq!(state(job.pid()), Some('t'));
        freezing.kill().unwrap();
        assert_eq!(freezing.wait().unwrap().signal(), Some(9));
        // No other process helps: there is nothing to restore.
        eventually("all go on", || job.all().iter().all(|one| !matches!(one.state, 't' | 'T')));
        eventually("it runs", || runs(job.pid()));
    }
    assert_eq!(state(theirs.pid()), Some('T'));
}

#[test]
fn who_is_traced_by_somebody_else_is_refused() {
    let job = Job::shell("while :; do :; done");
    // Found while it was free.
    let (mut freezer, folder) = freezer(&job.target());
    let mut other = freezing(&job.target());
    wait(&freezer, LONG);
    let errors = [
        freezer.freeze(LONG, LIMIT).err().unwrap(),
        freezer_with(&job.target(), options(&folder)).err().unwrap(),
    ];
    for error in errors {
        let FreezeError::Refused(Refusal::Traced { pid, tracer, .. }) = &error else {
            panic!("{error}")
        };
        assert_eq!((*pid, *tracer), (job.pid(), other.id()));
        assert!(error.to_string().contains("traces it already"), "{error}");
    }
    other.kill().unwrap();
    other.wait().unwrap();
    eventually("it runs", || runs(job.pid()));
    wait(&freezer, LONG);
    drop(freezer.freeze(LONG, LIMIT).unwrap());
}

#[test]
fn who_may_not_be_traced_is_refused_with_the_errno() {
    if !rustix::process::geteuid().is_root() {
        return ringfence_testbed::skip(
            "who_may_not_be_traced_is_refused_with_the_errno",
            "it takes root",
        );
    }
    let job = Job::shell("while :; do :; done");
    let output =
        Copied::new().role("freezes", &job.target()).uid(65534).gid(65534).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("Untraceable"), "{said}");
    assert!(said.contains("os error 1") && said.contains(&format!("pid: {}", job.pid())), "{said}");
    eventually("it runs", || runs(job.pid()));
}
