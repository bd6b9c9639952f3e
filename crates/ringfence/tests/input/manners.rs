//! What the program does to its surroundings: pipes, terminals, affinities, other programs.

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use crate::support::{self, Folder, Output, Running, command, cpus, ringfence, ringfence_in, skip};

const TINY: [&str; 8] = ["--trials", "2", "--rounds", "1", "--window", "2ms", "--probe", "0ms"];
const WRITE: [&str; 7] = ["write", "--instruction", "nt", "--block", "4KiB", "--size", "1MiB"];

fn tiny_write<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&WRITE[..], &TINY, more].concat()
}

// Runs the program on one CPU alone, as taskset(1) does.
fn on_one_cpu(folder: &Folder, args: &[&str]) -> Output {
    let cpu = cpus()[0];
    let (mut command, mark) = command(folder.path(), args);
    // SAFETY: `sched_setaffinity` is a bare system call; the set lives on the closure's stack.
    unsafe {
        command.pre_exec(move || {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            match libc::sched_setaffinity(0, size_of_val(&set), &set) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    Running::spawn(command, mark).wait()
}

#[test]
fn on_one_cpu_what_needs_two_is_not_run_and_says_why() {
    let folder = Folder::new();
    let printed = on_one_cpu(&folder, &tiny_write(&["--json", "--out", "write"])).json();
    assert_eq!(printed["results"].as_array().unwrap().len(), 1);
    let some = tiny_write(&["--threads", "1,2"]);
    let text = on_one_cpu(&folder, &[&some[..], &["--out", "text"]].concat());
    assert!(text.said().contains("Not run: 1 case, because "), "{}", text.stdout);
    let reason = "needs 2 cores of its own";
    assert!(text.said().contains(reason), "{}", text.stdout);
    let printed = on_one_cpu(&folder, &[&some[..], &["--json", "--out", "json"]].concat()).json();
    assert_eq!(printed["results"].as_array().unwrap().len(), 1);
    assert!(printed["not_run"].to_string().contains(reason), "{printed}");
    assert!(ringfence_in(folder.path(), &["show", "text"]).said().contains(reason));
    // Where that is all there was, an empty table would not be an answer.
    let args =
        ["neighbours", "--victim", "chase footprint=64KiB", "--aggressor", "alu", "--out", "none"];
    let none = on_one_cpu(&folder, &[&args[..], &TINY].concat());
    assert_eq!((none.code(), none.stdout.as_str()), (Some(2), ""), "{}", none.stderr);
    assert!(none.stderr.contains("none of this can be measured here: "), "{}", none.stderr);
    assert!(none.stderr.contains("needs another core"), "{}", none.stderr);
    assert!(!folder.entries().contains(&"none".into()));
}

#[test]
fn a_small_stack_is_enough() {
    let folder = Folder::new();
    for args in
        [&["--help"][..], &["topology"], &["prove", "--help"], &tiny_write(&["--out", "data"])]
    {
        let (mut command, mark) = command(folder.path(), args);
        // SAFETY: `setrlimit` is a bare system call; the limit lives on the closure's stack.
        unsafe {
            command.pre_exec(|| {
                let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
                match libc::setrlimit(libc::RLIMIT_STACK, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        Running::spawn(command, mark).wait().ok();
    }
}

// Whatever is advised can be pasted, whatever the folder is called.
#[test]
fn commands_that_are_printed_are_shell() {
    let folder = Folder::new();
    let odd = "it's a folder";
    let saved = ringfence_in(folder.path(), &tiny_write(&["--save", "my file.toml"]));
    let command = saved.ok().trim().rsplit_once("run it with: ").unwrap().1.to_owned();
    let run = format!(
        "ringfence() {{ '{}' \"$@\"; }}; {command} --quiet --out {}",
        env!("CARGO_BIN_EXE_ringfence"),
        "\"it's a folder\""
    );
    let shell = |script: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).current_dir(folder.path()).output().unwrap()
    };
    let ran = shell(&run);
    assert!(ran.status.success(), "{run}: {}", String::from_utf8_lossy(&ran.stderr));
    assert!(folder.path().join(odd).join("manifest.json").exists());
    let long = [
        &WRITE[..],
        &["--trials", "1000", "--window", "20ms", "--quiet", "--out", "it's cut short"],
    ];
    let run = Running::start(folder.path(), &long.concat());
    support::wait_for_steps(&folder.path().join("it's cut short"), 2);
    run.signal(libc::SIGQUIT);
    let output = run.wait();
    assert_eq!(output.code(), Some(1), "{}", output.stderr);
    let command = output.stderr.trim().rsplit_once("continue with: ").unwrap().1.to_owned();
    let script = format!(
        "ringfence() {{ '{}' \"$@\"; }}; {command} --time 100ms --quiet",
        env!("CARGO_BIN_EXE_ringfence")
    );
    let ran = shell(&script);
    assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn quiet_is_quiet_and_otherwise_progress_goes_to_standard_error() {
    assert_eq!(ringfence(&tiny_write(&["--quiet"])).stderr, "");
    let loud = ringfence(&tiny_write(&[]));
    let line = "write: 1 case, at most 2 trials, 0.1 s at least; Ctrl-C keeps what was measured\n";
    assert_eq!(loud.stderr, line);
    assert!(!loud.stdout.is_empty());
}

#[test]
fn what_is_no_terminal_sees_no_escapes() {
    let folder = Folder::new();
    let runs = [
        ringfence_in(folder.path(), &tiny_write(&["--out", "data"])),
        ringfence_in(folder.path(), &["show", "data"]),
        ringfence(&["topology"]),
        ringfence(&["doctor"]),
        ringfence(&["--help"]),
        ringfence(&["write", "--help"]),
        ringfence(&["frobnicate"]),
        ringfence(&["run", "absent"]),
    ];
    for run in runs {
        for text in [&run.stdout, &run.stderr] {
            let strange = text.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(strange, None, "{text}");
        }
    }
}

// The end of a pipe that has no reader.
fn closed_pipe() -> Stdio {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are made, each owned from here on; the reading end is closed at once.
    let write = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        drop(OwnedFd::from_raw_fd(ends[0]));
        OwnedFd::from_raw_fd(ends[1])
    };
    write.into()
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let run = |args: &[&str], out: bool, err: bool| {
        let folder = Folder::new();
        let (mut command, mark) = command(folder.path(), args);
        if out {
            command.stdout(closed_pipe());
        }
        if err {
            command.stderr(closed_pipe());
        }
        Running::spawn(command, mark).wait().code()
    };
    assert_eq!(run(&["topology"], true, false), Some(0));
    assert_eq!(run(&["doctor", "--json"], true, false), Some(0));
    assert_eq!(run(&["--help"], true, false), Some(0));
    assert_eq!(run(&tiny_write(&[]), true, true), Some(0));
    assert_eq!(run(&tiny_write(&["--json"]), true, true), Some(0));
    assert_eq!(run(&["run", "absent"], true, true), Some(2));
}

#[test]
fn a_program_that_ends_well_is_started_again() {
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    let folder = Folder::new();
    let program = "sh -c 'echo run >> runs; sleep 0.05'";
    let args = [
        "neighbours",
        "--victim",
        "chase footprint=64KiB",
        "--aggressor",
        program,
        "--window",
        "200ms",
    ];
    ringfence_in(folder.path(), &[&args[..], &["--trials", "3", "--probe", "0ms"]].concat()).ok();
    let runs = fs::read_to_string(folder.path().join("runs")).unwrap().lines().count();
    assert!(runs > 1, "{runs}");
}

#[test]
fn a_program_that_ignores_polite_signals_is_ended() {
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    // The test harness, which waits for the run, checks that nothing of it is left.
    let program = r#"sh -c "trap '' TERM HUP INT; while :; do :; done""#;
    let args = ["neighbours", "--victim", "chase footprint=64KiB", "--aggressor", program];
    ringfence(&[&args[..], &TINY].concat()).ok();
}

#[test]
fn the_callers_affinity_stays_as_it_is() {
    let before = cpus();
    ringfence(&tiny_write(&[])).ok();
    assert_eq!(cpus(), before);
}

// One table in the program, in brief on its front page, and in the help of the verbs that give
// verdicts, and in the README.
#[test]
fn the_exit_codes_are_told() {
    let meanings = [
        "done",
        "failed",
        "cannot be done",
        "missed",
        "undecided",
        "nothing happened",
        "simulated",
    ];
    let front = ringfence(&["--help"]);
    let (_, brief) = front.ok().split_once("Exit codes: ").unwrap();
    let brief: Vec<&str> = brief.trim().split(',').collect();
    assert_eq!(brief.len(), meanings.len(), "{brief:?}");
    for (code, meaning) in meanings.iter().enumerate() {
        assert!(
            brief[code].trim().starts_with(&format!("{code} ")) && brief[code].contains(meaning),
            "{brief:?}"
        );
    }
    for (args, codes) in [(vec!["prove", "--help"], 7), (vec!["tune", "--help"], 7)] {
        let help = ringfence(&args);
        for (code, meaning) in meanings.iter().enumerate() {
            let told = help
                .ok()
                .lines()
                .any(|l| l.starts_with(&format!("  {code}  ")) && l.contains(meaning));
            assert_eq!(told, code < codes, "{args:?}, {code}:\n{}", help.stdout);
        }
    }
    let page = include_str!("../../../../docs/reference/exit-codes.md");
    for (code, meaning) in meanings.iter().enumerate() {
        let told =
            page.lines().any(|l| l.starts_with(&format!("| {code} |")) && l.contains(meaning));
        assert!(told, "{code}, {meaning}");
    }
}

// A terminal of 80 columns must not break them: a broken line pastes as two commands.
#[test]
fn examples_in_help_can_be_pasted() {
    let folder = Folder::new();
    let verbs = support::verbs();
    let mut examples = 0;
    for verb in verbs {
        let help = ringfence_in(folder.path(), &[&verb, "--help"]);
        let after = help.ok().lines().skip_while(|line| !line.starts_with("Examples:")).skip(1);
        for line in after.take_while(|line| !line.is_empty()) {
            assert!(
                line.starts_with("  ringfence ") && line.chars().count() <= 78,
                "{verb}: {line}"
            );
            examples += 1;
        }
    }
    assert!(examples > 15, "{examples}");
}
