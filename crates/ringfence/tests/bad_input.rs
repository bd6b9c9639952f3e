//! Whatever cannot be done as asked: exit code 2, one sentence on standard error that names the
//! trouble, nothing on standard output, and nothing left in the folder.

mod support;

use std::fs;
use std::path::Path;

use support::{Folder, Output, cpus, ringfence_in, skip};

fn refused(folder: &Folder, args: &[&str], part: &str) -> Output {
    let before = folder.entries();
    let output = ringfence_in(folder.path(), args);
    let said = format!("{args:?}: {:?}\n{}{}", output.status, output.stdout, output.stderr);
    assert_eq!(output.code(), Some(2), "{said}");
    assert_eq!(output.stdout, "", "{said}");
    assert!(output.stderr.contains(part), "'{part}' is not in {said}");
    assert_eq!(folder.entries(), before, "{said}");
    output
}

// Refusals of this program, each one line.
fn refused_in_a_line(folder: &Folder, args: &[&str], part: &str) {
    let output = refused(folder, args, part);
    assert_eq!(output.stderr.lines().count(), 1, "{args:?}: {}", output.stderr);
    assert!(!output.stderr.contains("  "), "a sentence has no holes: {}", output.stderr);
    assert!(output.stderr.starts_with("ringfence: "), "{args:?}: {}", output.stderr);
}

#[test]
fn command_lines() {
    let folder = Folder::new();
    let cases: &[(&[&str], &str)] = &[
        (&["write", "--cpus", "99"], "CPU 99 is not among"),
        (
            &["neighbours", "--victim", "read"],
            "shorter than an interval and a round of role 'victim': use 2.009s",
        ),
        (&["neighbours", "--victim", "read interval=5ms", "--window", "13ms"], "use 14ms at least"),
        (&["neighbours", "--victim", "read access=8B"], "must be 16B, 32B or 64B"),
        (&["neighbours", "--victim", "read memory=newlock"], "is no memory to read"),
        (&["neighbours", "--victim", "read flush=msync"], "expected one of"),
        (&["write", "--cpus", "x"], "--cpus: "),
        (&["write", "--cpus", ""], "names no CPU"),
        (&["write", "--block", "big"], "'big' is not a size"),
        (&["write", "--size", "4KB"], "'4KB' is not a size"),
        (&["write", "--block", ""], "'' is not a size"),
        (&["write", "--block", "4KiB,,64B"], "'' is not a size"),
        (&["write", "--block", "65"], "multiple of 64B"),
        (&["write", "--block", "1MiB", "--size", "64KiB"], "smaller than block"),
        (&["write", "--instruction", "clwbb"], "did you mean `clwb`"),
        (&["write", "--fence", "sfenec"], "sfence"),
        (&["write", "--batch", "0"], "never fence"),
        (&["write", "--batch", "2", "--fence-at", "line"], "only with fence_at"),
        (&["write", "--target", "disk"], "is no target"),
        (&["write", "--instruction", "msync"], "needs a file"),
        (&["write", "--pages", "1GiB"], "2MiB"),
        (&["write", "--pace", "fast"], "is not a rate"),
        (&["write", "--threads", "0"], "count must be at least 1"),
        (&["write", "--window", "0ms"], "must be between 1ms and 10min"),
        (&["write", "--window", "20"], "--window: '20' is not a duration"),
        (&["write", "--settle=-1ms"], "--settle: "),
        (&["write", "--probe", "1h"], "--probe: "),
        (&["write", "--lives", "1"], "at least 2"),
        (&["write", "--lives", "10,5"], "each larger than the one before"),
        (&["write", "--blocks", "0"], "measures nothing"),
        (&["write", "--margin", "0%"], "margin = 0%"),
        (&["write", "--margin", "5"], "--margin: '5' is not a share"),
        (&["write", "--confidence", "100%"], "confidence = 100%"),
        (&["write", "--precision", "x"], "--precision: "),
        (&["write", "--window", "-1ms"], "--window: '-1ms' is not a duration"),
        (&["write", "--margin", "-1%"], "--margin: '-1%' is not a share"),
        (&["write", "--time", "soon"], "--time: 'soon' is not a duration"),
        (&["write", "--time", "2%"], "--time: '2%' is a share, and this is how long to measure"),
        (&["write", "--budget", "2%"], "--time: '2%' is a share, and this is how long to measure"),
        (
            &["prove", "--victim", "alu", "--aggressor", "alu", "--budget", "60s"],
            "how long to measure is --time",
        ),
        (&["prove", "--victim", "alu", "--aggressor", "alu", "--budget", "-1%"], "'-1%' is negative"),
        (&["prove", "--victim", "alu", "--aggressor", "alu", "--time", "2%"], "--time: '2%'"),
        (&["tune", "--victim", "alu", "--budget", "-1%"], "'-1%' is negative"),
        (&["tune", "--victim", "alu", "--budget", "60s"], "how long to measure is --time"),
        (&["neighbours", "--victim", ""], "--victim: a task is empty"),
        (&["neighbours", "--victim", "chas"], "did you mean 'chase'"),
        (&["neighbours", "--victim", "chase footprint"], "is no key=value"),
        (&["neighbours", "--victim", "chase footprint=4MiB footprint=8MiB"], "'footprint' is there twice"),
        (&["prove", "--victim", "alu", "--aggressor", "stream size=1MiB size=2MiB"], "'size' is there twice"),
        (&["neighbours", "--aggressor", "echo a > b"], "write sh -c 'echo a > b'"),
        (&["neighbours", "--victim", "a | b"], "'|' is left to a shell"),
        (&["aa", "--victim", "a; b"], "';' is left to a shell"),
        (&["prove", "--victim-run", "sort x > y", "--aggressor", "alu"], "write sh -c 'sort x > y'"),
        (
            &["prove", "--victim", "x >y", "--victim-progress", "lines", "--aggressor", "alu"],
            "write sh -c 'x >y'",
        ),
        (&["prove", "--victim", "no-such-program-xyz", "--aggressor", "alu"], "there is no such program"),
        (&["prove", "--victim", "alu", "--aggressor", "no-such-program-xyz"], "there is no such program"),
        (&["prove", "--victim-run", "no-such-program-xyz", "--aggressor", "alu"], "there is no such program"),
        (&["neighbours", "--victim", "no-such-program-xyz"], "there is no such program"),
        (&["neighbours", "--victim", "chasse --x"], "did you mean 'chase'"),
        (
            &["prove", "--victim", "sh -c :", "--aggressor", "alu", "--warm-up", "1000h"],
            "'1000h' is not a duration",
        ),
        (&["prove", "--victim", "sh -c :", "--aggressor", "alu", "--warm-up", "90min"], "10min at most"),
        (
            &["prove", "--victim", "alu", "--aggressor", "alu", "--warm-up", "1s"],
            "only programs are warmed up",
        ),
        (
            &["prove", "--victim", "alu", "--aggressor", "alu", "--lives", "1"],
            "at least 2; a figure takes at least 4",
        ),
        (
            &["prove", "--victim", "sh -c :", "--victim-progress", "cpu-time", "--aggressor", "alu"],
            "no slowdown of it would show",
        ),
        (&["prove", "--resume", "no-such-folder"], "name a folder that 'ringfence prove' wrote"),
        (&["write", "--threads", "4000"], "nothing of this can be measured here, because"),
        (&["write", "--threads", "3000,4000"], "nothing of this can be measured here, because"),
        (&["neighbours", "--aggressors", "4000"], "nothing of this can be measured here, because"),
        (
            &["sensitivity", "--victim", "alu", "--placement", "remote"],
            "nothing of this can be measured here, because",
        ),
        (&["run", "/dev/zero"], "/dev/zero: this is no ordinary file"),
        (&["neighbours", "--victim", "chase footprnt=4MiB"], "did you mean `footprint`"),
        (&["neighbours", "--victim", "chase footprint=1B"], "too small"),
        (&["neighbours", "--victim", "ring variant=optimized"], "did you mean `optimised`"),
        (&["neighbours", "--victim", "ring variant"], "is no key=value"),
        (&["neighbours", "--victim", "ring entry=0B"], "entry = 0B is not between 1B and 2MiB"),
        (&["neighbours", "--victim", "ring entry=1MiB size=1MiB"], "too small for entry = 1MiB"),
        (&["neighbours", "--victim", "ring batch=0"], "would never push"),
        (&["neighbours", "--victim", "ring variant=naive batch=4"], "only with variant"),
        (&["neighbours", "--victim", "ring target=disk"], "is no target"),
        (&["neighbours", "--victim", "ring prefault=false"], "`prefault`"),
        (&["neighbours", "--victim", "rin variant=naive"], "did you mean 'ring'"),
        (&["neighbours", "--victim", "'unclosed"], "unclosed quote"),
        (&["neighbours", "--aggressors", "0"], "count must be at least 1"),
        (&["neighbours", "--aggressor-cpus", "4096"], "CPU 4096"),
        (&["aa", "--experiments", "0"], "--experiments: 0 experiments"),
        (&["aa", "--experiments", "4000000000", "--lives", "10"], "more than 100000 lives"),
        (&["aa", "--lives", "10,20"], "--lives: give one number"),
        (&["aa", "--lives", "1"], "at least 2"),
        (&["run", "absent.toml"], "absent.toml"),
        (&["run", "."], "name an experiment file"),
        (&["show", "."], "no dataset here"),
        (&["show", "absent"], "name the folder of a dataset"),
        (&["topology", "--root", "absent"], "absent"),
        (&["doctor", "--root", "absent"], "absent"),
        (&["resctrl", "--root", "absent"], "--root: absent: No such file or directory"),
        (&["restore", "--root", "absent"], "--root: absent: No such file or directory"),
        (&["resctrl", "undo", "--root", "absent"], "--root: absent: No such file or directory"),
    ];
    for (args, part) in cases {
        refused_in_a_line(&folder, args, part);
    }
}

// The progress of programs is a matter of flags where there are flags.
#[test]
fn a_victim_that_shows_no_progress_is_sent_to_flags() {
    let folder = Folder::new();
    let (program, arguments) = ("sleep 100", ["neighbours", "--victim", "sleep 100", "--aggressor", "alu"]);
    if ringfence_engine::program::instructions_are_counted() {
        return skip("the kernel counts instructions here, by which any program shows progress");
    }
    refused_in_a_line(&folder, &arguments, "--victim-progress lines or counter, or --victim-run");
    refused_in_a_line(&folder, &["prove", "--victim", program, "--aggressor", "alu"], "--victim-progress");
}

#[test]
fn files_that_never_end_are_not_read() {
    let folder = Folder::new();
    let pipe = folder.path().join("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: the name outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    fs::write(folder.path().join("long.toml"), "#".repeat((1 << 20) + 1)).unwrap();
    fs::create_dir(folder.path().join("proof")).unwrap();
    fs::write(folder.path().join("manifest.json"), "").unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("proof/question.json")).unwrap();
    for (args, part) in [
        (&["run", "pipe"][..], "pipe: this is no ordinary file"),
        (&["run", "long.toml"], "long.toml: it is longer than 1MiB"),
        (&["prove", "--resume", "proof"], "question.json: this is no ordinary file"),
        (&["pair", "--resume", "proof"], "question.json: this is no ordinary file"),
    ] {
        refused_in_a_line(&folder, args, part);
    }
}

#[test]
fn what_the_parser_of_flags_refuses() {
    let folder = Folder::new();
    let cases: &[(&[&str], &str)] = &[
        (&["frobnicate"], "unrecognized subcommand"),
        (&["writ"], "'write'"),
        (&["write", "--blok", "64B"], "'--block'"),
        (&["write", "--lives", "many"], "many"),
        (&["write", "--lives", ""], "--lives"),
        (&["write", "--threads", "-1"], "-1"),
        (&["write", "--time", "1s", "--budget", "1s"], "--time"),
        (&["write", "--out"], "--out"),
        (&["write", "--out", ""], "--out"),
        (&["neighbours", "--placement", "moon"], "moon"),
        (&["aa", "--experiments", "-3"], "-3"),
        (&["run"], "FILE.toml"),
        (&["show"], "DATASET"),
        (&["survey", "--seed", "x"], "--seed"),
    ];
    for (args, part) in cases {
        refused(&folder, args, part);
    }
}

#[test]
fn targets_and_programs_that_this_machine_does_not_have() {
    let folder = Folder::new();
    let files = Folder::new();
    let inside = |kind: &str| format!("{kind}:{}", files.path().display());
    let (file, dax) = (inside("file"), inside("dax"));
    fs::write(files.path().join("mine"), "precious").unwrap();
    let mine = format!("file:{}", files.path().join("mine").display());
    let mut cases: Vec<(Vec<&str>, &str)> = vec![
        (vec!["--target", "file:/nowhere/x"], "/nowhere/x: no file can be made there"),
        (vec!["--target", "tmpfs:/nowhere"], "/nowhere: No such file"),
        (vec!["--target", "tmpfs:/proc"], "this is no tmpfs"),
        (vec!["--target", &mine], "exists already"),
        (vec!["--target", &file, "--size", "1TiB"], "bytes free"),
        (vec!["--size", "64TiB"], "bytes free"),
        (vec!["--target", "devdax:/dev/dax9.9"], "/dev/dax9.9"),
        (vec!["--target", "devdax:/dev/null"], "/dev/null"),
        (vec!["--target", "node:1023"], "NUMA node 1023"),
        (vec!["--target", "node:4096"], "1024 NUMA nodes"),
    ];
    // Persistent memory holds the one, reserved pages the other.
    if !Path::new("/sys/bus/nd/devices").exists() || fs::read_dir("/sys/bus/nd/devices").unwrap().count() == 0
    {
        cases.push((vec!["--target", &dax], "MAP_SYNC needs a file system"));
    }
    let reserved = fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
    if reserved.trim() == "0" {
        cases.push((vec!["--pages", "2MiB"], "vm.nr_hugepages"));
    }
    for (args, part) in cases {
        let size = if args.contains(&"--size") { vec![] } else { vec!["--size", "4MiB"] };
        let write = vec!["write", "--instruction", "none", "--block", "4KiB"];
        refused_in_a_line(&folder, &[write, args, size].concat(), part);
    }
    assert_eq!(files.entries(), ["mine"]);
    assert_eq!(fs::read_to_string(files.path().join("mine")).unwrap(), "precious");
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    for (aggressor, part) in [
        ("ring target=tmpfs:/proc", "this is no tmpfs"),
        ("ring target=file:/nowhere/x", "/nowhere/x: no file can be made there"),
        ("ring size=64TiB", "bytes free"),
        ("no-such-program-xyz", "'no-such-program-xyz' cannot be started"),
        ("/etc/passwd", "'/etc/passwd' cannot be started"),
        ("sh -c 'exit 3'", "exit status: 3"),
        ("sh -c 'echo why >&2; exit 3'", "it said: why"),
        ("sh -c 'kill -SEGV $$'", "SIGSEGV"),
    ] {
        let args = ["neighbours", "--victim", "chase footprint=64KiB", "--aggressor", aggressor];
        refused_in_a_line(&folder, &args, part);
    }
}

#[test]
fn paths_that_cannot_be_explained() {
    let files = Folder::new();
    std::os::unix::fs::symlink("b", files.path().join("a")).unwrap();
    std::os::unix::fs::symlink("a", files.path().join("b")).unwrap();
    fs::write(files.path().join("file"), "mine").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(files.path().join("socket")).unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["explain", "absent"], "looking at absent failed: No such file or directory"),
        (&["explain", "absent/below", "--json"], "No such file or directory"),
        (&["explain", "file/below"], "Not a directory"),
        (&["explain", "a"], "symbolic links"),
        (&["explain", "socket"], "is a socket: name a file"),
        (&["explain", "/dev/null"], "no device-DAX one"),
        (&["explain", "/dev/dax9.9"], "No such file or directory"),
    ];
    for (args, part) in cases {
        refused_in_a_line(&files, args, part);
    }
    refused(&files, &["explain"], "<PATH>");
}

#[test]
fn places_that_cannot_be_written() {
    let files = Folder::new();
    fs::write(files.path().join("file"), "mine").unwrap();
    fs::create_dir(files.path().join("full")).unwrap();
    fs::write(files.path().join("full/file"), "mine").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["write", "--out", "full"], "not empty"),
        (&["write", "--out", "file"], "no folder"),
        (&["write", "--out", "file/below"], "file/below"),
        (&["write", "--save", "file"], "exists already"),
        (&["write", "--save", "absent/file"], "cannot be written"),
        (&["write", "--save", "full"], "full"),
        (&["survey", "--quick", "--out", "full"], "not empty"),
        (&["survey", "--save", "full"], "not empty"),
        (&["show", "file"], "no folder"),
        (&["show", "full"], "no dataset here"),
        (&["neighbours", "--aggressors", "4000", "--out", "full"], "not empty"),
    ];
    for (args, part) in cases {
        refused_in_a_line(&files, args, part);
    }
    assert_eq!(fs::read_to_string(files.path().join("file")).unwrap(), "mine");
    assert_eq!(fs::read_dir(files.path().join("full")).unwrap().count(), 1);
}
