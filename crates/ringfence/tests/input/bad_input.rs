//! Whatever cannot be done as asked: exit code 2, one sentence on standard error that names the
//! trouble, nothing on standard output, and nothing left in the folder.

use std::fs;
use std::path::Path;

use crate::support::{self, Folder, Output, cpus, ringfence_in, skip};

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

const COMMAND_LINES: &[(&[&str], &str)] = &[
    (&["write", "--cpus", "99"], "CPU 99 is not among"),
    (
        &["neighbours", "--victim", "read"],
        "too short for the work of role 'victim' in one: use at least 2.009s",
    ),
    (&["neighbours", "--victim", "read interval=5ms", "--window", "13ms"], "use at least 14ms"),
    (&["neighbours", "--victim", "read access=8B"], "must be 16B, 32B or 64B"),
    (&["neighbours", "--victim", "read memory=newlock"], "is not memory to read"),
    (&["neighbours", "--victim", "read flush=msync"], "is not one of"),
    (&["write", "--cpus", "x"], "--cpus: "),
    (&["write", "--cpus", ""], "names no CPU"),
    (&["write", "--block", "big"], "'big' is not a size"),
    (
        &["write", "--size", "4XB"],
        "'4XB' is not a size: write a number with B, KiB, MiB, GiB or TiB, such as 4KiB",
    ),
    (&["write", "--block", ""], "'' is not a size"),
    (&["write", "--block", "4KiB,,64B"], "'' is not a size"),
    (&["write", "--block", "65"], "multiple of 64B"),
    (&["write", "--block", "1MiB", "--size", "64KiB"], "smaller than block"),
    (&["write", "--instruction", "clwbb"], "--instruction: 'clwbb' is not one of clflush, "),
    (&["write", "--instruction", "clflush_opt"], "did you mean 'clflushopt'?"),
    (&["write", "--instruction", "clflush-opt"], "did you mean 'clflushopt'?"),
    (&["write", "--instruction", "non-temporal"], "did you mean 'nt'?"),
    (&["write", "--fence", "sfenec"], "sfence"),
    (&["write", "--batch", "0"], "never fence"),
    (&["write", "--batch", "2", "--fence-at", "line"], "only with fence_at"),
    (&["write", "--target", "disk"], "--target: 'disk' is not a target"),
    (&["write", "--target", "/dev/shm"], "write tmpfs:/dev/shm"),
    (&["write", "--target", "/mnt/pmem0"], "dax:/mnt/pmem0 for a file system mounted with -o dax"),
    (&["tune", "/dev/shm"], "write tmpfs:/dev/shm"),
    (&["write", "--instruction", "msync"], "needs a file"),
    (&["write", "--pages", "1GiB"], "2MiB"),
    // What a flag's value is refused for begins with the flag, as it was typed.
    (&["write", "--block", "100"], "ringfence: --block 100B is not a multiple of 64B"),
    (&["commit", ".", "--record", "4x"], "ringfence: --record 4x: '4x' is not a size"),
    (&["commit", "/proc"], "here: no log in /proc, because nothing is stored there"),
    (&["commit", ".", "--batch", "0"], "ringfence: --batch 0 must be between 1 and 1024"),
    (
        &["sensitivity", "--victim", "chase", "--footprint", "1,8"],
        "ringfence: --footprint 1: at least 4KiB",
    ),
    (&["write", "--block-size", "4KiB"], "did you mean '--block'?"),
    (&["write", "--blocksize", "4KiB"], "did you mean '--block'?"),
    (&["survey", "--output", "x"], "did you mean '--out'?"),
    (&["write", "--pace", "fast"], "is not a rate"),
    (&["write", "--threads", "0"], "--threads 0: there must be at least one writer"),
    (&["write", "--window", "0ms"], "must be between 1ms and 10min"),
    (&["write", "--window", "20"], "--window: '20' is not a duration"),
    (&["write", "--settle=-1ms"], "--settle: "),
    (&["write", "--probe", "1d"], "--probe: "),
    (&["write", "--trials", "1"], "--trials 1: a figure takes at least 4 trials"),
    (&["tune", "--trials", "1"], "--trials 1: a figure takes at least 4 trials"),
    (&["write", "--trials", "10,5"], "larger than the one before"),
    (&["write", "--rounds", "0"], "measure nothing"),
    (&["write", "--margin", "0%"], "margin of 0%"),
    (&["write", "--margin", "0.05"], "--margin: '0.05' is not a share"),
    (&["write", "--confidence", "100%"], "confidence of 100%"),
    (&["write", "--precision", "x"], "--precision: "),
    (&["write", "--window", "-1ms"], "--window: '-1ms' is not a duration"),
    (&["write", "--margin", "-1%"], "--margin: '-1%' is not a share"),
    (&["write", "--time", "soon"], "--time: 'soon' is not a duration"),
    (&["write", "--time", "2%"], "--time: '2%' is a share, but this is how long to measure"),
    (&["write", "--budget", "2%"], "--time: '2%' is a share, but this is how long to measure"),
    (
        &["prove", "--victim", "alu", "--aggressor", "alu", "--budget", "60s"],
        "--time says how long to measure",
    ),
    (&["prove", "--victim", "alu", "--aggressor", "alu", "--budget", "-1%"], "'-1%' is negative"),
    (&["prove", "--victim", "alu", "--aggressor", "alu", "--time", "2%"], "--time: '2%'"),
    (
        &["prove", "--victim", "alu", "--aggressor", "alu", "--metric", "p99"],
        "p99 of 'victim' is unknown, because the latencies of alu are not counted: take probe, \
         commit, read or",
    ),
    (
        &["neighbours", "--metric", "p50"],
        "because the latencies of chase are not counted: give it histogram=true",
    ),
    (&["commit", ".", "--metric", "p999"], "--metric: 'p999' is not a quantity"),
    (
        &["prove", "--victim", "alu", "--aggressor", "alu", "--budget", "5x"],
        "'5x' is not a share: write a percentage between 0% and 100%, such as 5%",
    ),
    (&["prove", "--victim", "alu", "--aggressor", "alu", "--budget", "0.02"], "such as 2%"),
    (&["prove", "--victim", "alu", "--aggressor", "alu", "--budget", "500"], "'500%' is not"),
    (&["tune", "--victim", "alu", "--budget", "-1%"], "'-1%' is negative"),
    (&["tune", "--victim", "alu", "--budget", "60s"], "--time says how long to measure"),
    (&["neighbours", "--victim", ""], "--victim: a task is empty"),
    (&["neighbours", "--victim", "chas"], "did you mean 'chase'"),
    (&["neighbours", "--victim", "chase footprint"], "is not key=value"),
    (&["neighbours", "--aggressor", "dirty dir=/a b"], "needs quotes, as in dir='/a b'"),
    (&["neighbours", "--aggressor", "dirty dir='/a b"], "has a ' that is not closed"),
    (&["neighbours", "--aggressor", "dirty dir='/a b,c'"], "/a b,c: No such file or directory"),
    (
        &["neighbours", "--aggressor", "dirty pace=50"],
        "pace = 50: '50' is not a rate: write a size per second, such as 50MiB/s",
    ),
    (
        &["neighbours", "--aggressor", "write block=4x"],
        "ringfence: --aggressor: block = 4x: '4x' is not a size",
    ),
    (&["aa", "--victim", "commit batch=0"], "ringfence: --victim: batch = 0 must be between"),
    (&["lock", "measure", "--size", "3B"], "ringfence: --size 3B is too small: at least 4KiB"),
    (&["neighbours", "--aggressor", "dirty io=dircet"], "did you mean 'direct'?"),
    (&["commit", ".", "--sync", "fsync,fsync"], "--sync names fsync twice: give each value once"),
    (&["commit", ".", "--batch", "1,16,1"], "batch names 1 twice: give each value once"),
    (&["tune", "file:.", "--layout", "written,append,written"], "--layout names written twice"),
    (&["write", "--threads", "2,2"], "--threads names 2 twice"),
    (
        &["neighbours", "--victim", "chase footprint=4MiB footprint=8MiB"],
        "'footprint' is given twice",
    ),
    (
        &["prove", "--victim", "alu", "--aggressor", "stream size=1MiB size=2MiB"],
        "'size' is given twice",
    ),
    (&["neighbours", "--aggressor", "echo a > b"], "write sh -c 'echo a > b'"),
    (&["neighbours", "--victim", "a | b"], "'|' needs a shell"),
    (&["aa", "--victim", "a; b"], "';' needs a shell"),
    (&["prove", "--victim-run", "sort x > y", "--aggressor", "alu"], "write sh -c 'sort x > y'"),
    (
        &["prove", "--victim", "x >y", "--victim-progress", "lines", "--aggressor", "alu"],
        "write sh -c 'x >y'",
    ),
    (
        &["prove", "--victim", "no-such-program-xyz", "--aggressor", "alu"],
        "no program and no workload has that name",
    ),
    (
        &["prove", "--victim", "alu", "--aggressor", "no-such-program-xyz"],
        "no program and no workload has that name",
    ),
    (
        &["prove", "--victim-run", "no-such-program-xyz", "--aggressor", "alu"],
        "no program and no workload has that name",
    ),
    (
        &["neighbours", "--victim", "no-such-program-xyz"],
        "no program and no workload has that name",
    ),
    (&["neighbours", "--victim", "chasse --x"], "did you mean 'chase'"),
    (
        &["prove", "--victim", "mfc", "--aggressor", "alu"],
        "ringfence: --victim: 'mfc' is not a workload or a program; did you mean 'mcf'?",
    ),
    (
        &["prove", "--victim", "alu", "--aggressor", "no-such-program-xyz"],
        "no program and no workload has that name; correct the name or the path",
    ),
    (
        &["prove", "--victim", "alu", "--aggressor", "dirty dir=/nope"],
        "ringfence: --aggressor: files cannot be created in /nope: No such file or directory (os \
         error 2); name another folder",
    ),
    (
        &["prove", "--victim", "commit dir=/nope", "--aggressor", "alu"],
        "ringfence: --victim: files cannot be created in /nope: ",
    ),
    (
        &["prove", "--victim", "sh -c :", "--aggressor", "alu", "--warm-up", "1000d"],
        "'1000d' is not a duration",
    ),
    (
        &["prove", "--victim", "sh -c :", "--aggressor", "alu", "--warm-up", "90min"],
        "at most 10min",
    ),
    (
        &["prove", "--victim", "alu", "--aggressor", "alu", "--warm-up", "1s"],
        "only programs are warmed up",
    ),
    (
        &["prove", "--victim", "alu", "--aggressor", "alu", "--trials", "1"],
        "--trials 1: a figure takes at least 4 trials",
    ),
    (
        &["prove", "--victim", "sh -c :", "--victim-progress", "cpu-time", "--aggressor", "alu"],
        "it would not show a slowdown",
    ),
    (&["prove", "--resume", "no-such-folder"], "name a folder that 'ringfence prove' wrote"),
    (&["write", "--threads", "4000"], "none of this can be measured here: "),
    (&["write", "--threads", "3000,4000"], "none of this can be measured here: "),
    (&["neighbours", "--aggressors", "4000"], "none of this can be measured here: "),
    (
        &["sensitivity", "--victim", "alu", "--placement", "remote"],
        "none of this can be measured here: ",
    ),
    (&["versus", "--progress", "lines", "nosuch-xyz", "yes"], "'nosuch-xyz' cannot be started"),
    (&["versus", "--progress", "lines", "yes", "nosuch-xyz"], "'nosuch-xyz' cannot be started"),
    (&["run", "/dev/zero"], "/dev/zero: this is not an ordinary file"),
    (&["neighbours", "--victim", "chase footprnt=4MiB"], "did you mean 'footprint'"),
    (&["neighbours", "--victim", "chase footprint=1B"], "too small"),
    (&["neighbours", "--victim", "ring variant=optimized"], "did you mean 'optimised'"),
    (&["neighbours", "--victim", "ring variant"], "is not key=value"),
    (&["neighbours", "--victim", "ring entry=0B"], "entry = 0B is not between 1B and 2MiB"),
    (&["neighbours", "--victim", "ring entry=1MiB size=1MiB"], "too small for entry = 1MiB"),
    (&["neighbours", "--victim", "ring batch=0"], "would never push"),
    (&["neighbours", "--victim", "ring variant=naive batch=4"], "only with variant"),
    (&["neighbours", "--victim", "ring target=disk"], "is not a target"),
    (&["neighbours", "--victim", "ring prefault=false"], "'prefault'"),
    (&["neighbours", "--victim", "rin variant=naive"], "did you mean 'ring'"),
    (&["neighbours", "--victim", "'unclosed"], "unclosed quote"),
    (&["neighbours", "--aggressors", "0"], "--aggressors 0: there must be at least one aggressor"),
    (
        &["prove", "--victim", "chase", "--aggressor", "alu", "--aggressors", "0"],
        "--aggressors 0: there must be at least one aggressor",
    ),
    (&["neighbours", "--aggressor-cpus", "4096"], "CPU 4096"),
    (&["aa", "--experiments", "0"], "--experiments: 0 experiments"),
    (&["aa", "--experiments", "4000000000", "--trials", "10"], "more than 100000 trials"),
    (&["aa", "--trials", "10,20"], "--trials: give one number"),
    (&["aa", "--trials", "1"], "at least 2"),
    (&["run", "absent.toml"], "absent.toml"),
    (&["run", "."], "name an experiment file"),
    (&["show", "."], "no dataset here"),
    (&["show"], "there is no result in "),
    (&["report"], "there is no result in "),
    (&["write", "--fence", "none"], "for no fence: --fence-at none"),
    (&["show", "absent"], "name the folder of a dataset"),
    (&["topology", "--root", "absent"], "absent"),
    (&["doctor", "--root", "absent"], "absent"),
    (&["resctrl", "--root", "absent"], "--root: absent: No such file or directory"),
    (&["restore", "--root", "absent"], "--root: absent: No such file or directory"),
    (&["resctrl", "undo", "--root", "absent"], "--root: absent: No such file or directory"),
    (&["resctrl", "run", "--l3", "1"], "COMMAND"),
    (&["resctrl", "run", "--l3", "1", "--cpus", "", "--", "true"], "--cpus: the list is empty"),
    (&["resctrl", "apply", "--pid", "1"], "give --l3, --l2 or --mba, or --none"),
    (
        &["resctrl", "apply", "--l3", "1"],
        "no target is named: give --pid, --cgroup, --unit or --container",
    ),
    (&["resctrl", "apply", "--pid", "one", "--l3", "1"], "--pid"),
    (&["resctrl", "apply", "--pid", "1", "--cgroup", "/a", "--l3", "1"], "--cgroup"),
    (&["resctrl", "apply", "--pid", "1", "--none", "--l3", "1"], "--none"),
    (&["resctrl", "apply", "--pid", "1", "--l3", "1", "--keep", "--for", "1s"], "--keep"),
    (
        &["resctrl", "apply", "--pid", "1", "--l3", "1", "--for", "-1s"],
        "--for: '-1s' is not a duration",
    ),
    (&["resctrl", "watch", "--interval", "0s"], "--interval: 0s is not between 10ms and 1h"),
    (&["resctrl", "watch", "--count", "0"], "--count"),
];

#[test]
fn command_lines() {
    let folder = Folder::new();
    for (args, part) in COMMAND_LINES {
        refused_in_a_line(&folder, args, part);
    }
}

// The progress of programs is a matter of flags where there are flags.
#[test]
fn a_victim_that_shows_no_progress_is_sent_to_flags() {
    let folder = Folder::new();
    let (program, arguments) =
        ("sleep 100", ["neighbours", "--victim", "sleep 100", "--aggressor", "alu"]);
    if ringfence_engine::program::instructions_are_counted() {
        return skip("the kernel counts instructions here, by which any program shows progress");
    }
    refused_in_a_line(&folder, &arguments, "--victim-progress counter or --victim run:COMMAND");
    refused_in_a_line(
        &folder,
        &["prove", "--victim", program, "--aggressor", "alu"],
        "--victim-progress",
    );
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
        (&["run", "pipe"][..], "pipe: this is not an ordinary file"),
        (&["run", "long.toml"], "long.toml: it is longer than 1MiB"),
        (&["prove", "--resume", "proof"], "question.json: this is not an ordinary file"),
        (&["pair", "--resume", "proof"], "question.json: this is not an ordinary file"),
    ] {
        refused_in_a_line(&folder, args, part);
    }
}

const OF_THE_PARSER: &[(&[&str], &str)] = &[
    (&["frobnicate"], "'frobnicate' is not a verb; 'ringfence help' lists the verbs"),
    (&["writ"], "'writ' is not a verb; did you mean 'write'?"),
    (&["help", "writ"], "'writ' is not a verb; did you mean 'write'?"),
    (&["lock", "lst"], "'lst' is not a verb of 'ringfence lock'; did you mean 'list'?"),
    (&["chase"], "it is a workload, to be measured by 'ringfence neighbours --victim chase'"),
    (
        &["some experiment.toml"],
        "if it is an experiment file: ringfence run 'some experiment.toml'",
    ),
    (&["."], "if it is a dataset: ringfence show ."),
    (&["/bin/sh"], "if it is a program: ringfence prove --victim /bin/sh --aggressor TASK"),
    (&["--survey"], "did you mean 'ringfence survey'?"),
    (
        &["write", "--blok", "64B"],
        "'--blok' is not a flag of 'ringfence write'; did you mean '--block'?",
    ),
    (&["write", "--zzz"], "'ringfence write -h' lists its flags"),
    (&["-v"], "'-v' comes after a verb, as in 'ringfence show -v'; 'ringfence --version' prints"),
    (&["-v", "show"], "flags come after the verb: ringfence show -v"),
    (&["-x"], "'-x' is not a flag of ringfence; 'ringfence help' lists the verbs"),
    (&["prove", "--save", "x"], "'ringfence prove -h' lists its flags"),
    (&["notes", "run", "--time"], "'ringfence notes run -h' lists its flags"),
    (
        &["commit", ".", "--resume"],
        "to continue an interrupted run: ringfence run --resume DATASET",
    ),
    (
        &["commit", "--machine"],
        "--machine needs a value, the machine to simulate: a file, or a name that 'ringfence \
         machine' lists",
    ),
    (
        &["prove", "--aggressor-pid", "1"],
        "for example: ringfence prove --victim probe:redis://localhost --aggressor pid:N",
    ),
    (&["pair", "--experiments", "3"], "'ringfence aa' has it"),
    (&["neighbours", "--cpus", "1"], "set by --victim-cpu and --aggressor-cpus"),
    (&["prove", "--cpus", "1"], "set by --victim-cpu and --aggressor-cpus"),
    (
        &["prove", "--victim", "./bench", "-n", "5"],
        "inside the quotes, as in --victim './program -n'",
    ),
    (&["prove", "--aggressor", "write"], "needs --victim, the task that must not be slowed down"),
    (
        &["prove", "--aggressor", "write"],
        "for example: ringfence prove --victim mcf --aggressor 'write",
    ),
    (&["prove", "--victim", "alu"], "needs --aggressor, the task to run beside it"),
    (
        &["prove", "--victim", "alu", "--victim-pid", "1", "--aggressor", "alu"],
        "--victim-pid needs a service to query as the victim",
    ),
    (&["prove", "--victim", "probe:http://localhost"], "--aggressor pid:N"),
    (&["prove", "--aggressor", "pid:1"], "--victim probe:redis://localhost --aggressor pid:N"),
    (&["prove", "--victim", "run:", "--aggressor", "alu"], "--victim: 'run:' names no program"),
    (
        &["prove", "--victim", "alu", "--aggressor", "pid:nginx"],
        "--aggressor: 'pid:nginx' does not name a running process",
    ),
    (
        &["prove", "--victim", "run:sort", "--victim-progress", "lines", "--aggressor", "alu"],
        "--victim-progress cannot be used with run:COMMAND",
    ),
    (
        &["prove", "--victim", "alu", "--aggressor-pid", "nginx"],
        "'nginx' cannot be used: a process ID is a number; for a service: --aggressor unit:nginx",
    ),
    (&["prove", "clwb"], "name tasks by flags, as in --aggressor 'write instruction=clwb'"),
    (&["prove", "mcf", "write"], "name tasks by flags, as in --victim mcf"),
    (&["prove", "x"], "name tasks by flags, as in --victim 'chase footprint=4MiB'"),
    (
        &["neighbours", "--victim", "chase", "footprint=4MiB", "--aggressor", "alu"],
        "quote a task of several words, as in --victim 'chase footprint=4MiB'",
    ),
    (
        &["prove", "--victim-run", "./sort", "input", "file", "--aggressor", "alu"],
        "quote a task of several words, as in --victim-run './sort input file'",
    ),
    (&["write", "clwb"], "write --instruction clwb"),
    (&["write", "x"], "'x' belongs to no flag, and 'ringfence write' takes only flags"),
    (&["show", "a", "b"], "'b' is one word too many: 'ringfence show' takes DATASET"),
    (&["survey", "--json=yes"], "--json takes no value: leave out 'yes'"),
    (&["write", "--trials", "many"], "--trials: 'many' is not a whole number"),
    (
        &["lock", "create", "x", "--size", "1MiB", "--level", "9"],
        "--level: '9' cannot be used: 9 is not in 2..=3",
    ),
    (&["write", "--trials", ""], "--trials"),
    (&["write", "--threads", "-1"], "-1"),
    (&["write", "--time", "1s", "--budget", "1s"], "--time is given twice: give it once"),
    (
        &["prove", "--victim", "alu", "--victim-run", "x", "--aggressor", "alu"],
        "--victim cannot be combined with --victim-run",
    ),
    (&["write", "--out"], "--out needs a value, DIR: folder for the results"),
    (&["write", "--out", ""], "--out"),
    (&["neighbours", "--placement", "moon"], "'moon' is not one of auto, smt, llc, node, remote"),
    (&["neighbours", "--placement", "LLC"], "did you mean 'llc'?"),
    (&["completions", "tcsh"], "'tcsh' is not one of bash, zsh, fish"),
    (&["aa", "--experiments", "-3"], "-3"),
    (&["run"], "FILE.toml"),
    (&["show", "--list", "data"], "--list cannot be combined with DATASET"),
    (&["contribute"], "'ringfence contribute' needs DATASET, the folder of a dataset"),
    (&["survey", "--seed", "x"], "--seed"),
];

#[test]
fn what_the_parser_of_flags_refuses() {
    let folder = Folder::new();
    for (args, part) in OF_THE_PARSER {
        refused_in_a_line(&folder, args, part);
    }
}

// Trials were once called lives, and rounds blocks.
#[test]
fn hints_fit_what_was_typed() {
    let folder = Folder::new();
    for name in ["afile", "script"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let prove = ["prove", "--victim", "mcf", "--aggressor", "alu"];
    let of_prove = |rest: &[&'static str]| [&prove[..], rest].concat();
    let cases: &[(&[&str], &str)] = &[
        (&["--json", "prove"], "flags come after the verb: ringfence prove --json"),
        (
            &["write", "--instruction", "clwb", "nt"],
            "give several as a list: --instruction clwb,nt",
        ),
        (
            &["write", "--blocks", "64B"],
            "--blocks (the old name of --rounds; block sizes are --block): '64B'",
        ),
        (&["write", "--time", "soon"], "such as 60s"),
        (&["write", "--confidence", "200%"], "such as 95%"),
        (&of_prove(&["--budget", "150%"]), "such as 5%"),
        (
            &of_prove(&["--out", "afile"]),
            "afile is a file: --out takes a folder that is empty or does not exist",
        ),
        (
            &of_prove(&["--victim-cpu", "0", "--placement", "llc"]),
            "--victim-cpu cannot be combined with",
        ),
        (&["help", "prove", "foo"], "'ringfence prove' has no sub-verbs; see ringfence help prove"),
        (
            &["tune", "--policy", "missing/policy.toml"],
            "missing/policy.toml cannot be written: No such file",
        ),
        (&["prove", "--victim-run", "./script", "--aggressor", "alu"], "chmod +x ./script"),
    ];
    for (args, part) in cases {
        refused_in_a_line(&folder, args, part);
    }
}

#[test]
fn old_names_of_flags_are_read() {
    let folder = Folder::new();
    let args = ["write", "--lives", "3", "--blocks", "2", "--save", "saved.toml"];
    ringfence_in(folder.path(), &args).ok();
    let saved = fs::read_to_string(folder.path().join("saved.toml")).unwrap();
    assert!(saved.contains("looks = [3]") && saved.contains("rounds = 2"), "{saved}");
    assert!(!support::ringfence(&["help", "write"]).ok().contains("--lives"));
}

// What is named is something else, with which something else can be done.
#[test]
fn experiments_and_datasets_are_told_apart() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("an experiment.toml"), "").unwrap();
    fs::create_dir(at("data")).unwrap();
    fs::write(at("data/manifest.json"), "").unwrap();
    fs::write(at("data/samples.parquet"), "").unwrap();
    fs::write(at("stray"), "").unwrap();
    for (args, part) in [
        (&["show", "an experiment.toml"][..], "run it: ringfence run 'an experiment.toml'"),
        (&["report", "an experiment.toml"], "run it: ringfence run 'an experiment.toml'"),
        (&["show", "data/samples.parquet"], "show the folder that it is in: ringfence show data"),
        (&["show", "stray"], "this is a file and not a folder; name the folder of a dataset"),
        (&["run", "data"], "not an experiment file; print its results: ringfence show data"),
    ] {
        refused_in_a_line(&folder, args, part);
    }
    fs::write(at("data/experiment.toml"), "").unwrap();
    refused_in_a_line(
        &folder,
        &["run", "data"],
        "measure it again: ringfence run data/experiment.toml",
    );
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
        (vec!["--target", "tmpfs:/proc"], "this is not a tmpfs"),
        (vec!["--target", &mine], "exists already"),
        (vec!["--target", &file, "--size", "1TiB"], "free, 1TiB are needed"),
        (vec!["--size", "64TiB"], "free, 64TiB are needed"),
        (vec!["--target", "devdax:/dev/dax9.9"], "/dev/dax9.9"),
        (vec!["--target", "devdax:/dev/null"], "/dev/null"),
        (vec!["--target", "node:1023"], "NUMA node 1023"),
        (vec!["--target", "node:4096"], "no NUMA node 4096"),
    ];
    // Persistent memory holds the one, reserved pages the other.
    if !Path::new("/sys/bus/nd/devices").exists()
        || fs::read_dir("/sys/bus/nd/devices").unwrap().count() == 0
    {
        cases.push((vec!["--target", &dax], "no file system is mounted with DAX at"));
        cases.push((vec!["--target", "dax:/tmp"], "through the page cache, use file:/tmp"));
        cases.push((vec!["--target", "dax:/tmp"], "ringfence: --target dax:/tmp: "));
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
        ("ring target=tmpfs:/proc", "this is not a tmpfs"),
        ("ring target=file:/nowhere/x", "/nowhere/x: no file can be made there"),
        ("ring size=64TiB", "free, 64TiB are needed"),
        ("stream size=64TiB", "--aggressor: workload stream: "),
        ("dirty dir=/nope", "--aggressor: files cannot be created in /nope"),
        ("no-such-program-xyz", "'no-such-program-xyz' cannot be started"),
        ("/etc/passwd", "'/etc/passwd' cannot be started"),
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
    refused_in_a_line(
        &files,
        &["explain"],
        "'ringfence explain' needs PATH, a file, a folder or a device",
    );
}

#[test]
fn places_that_cannot_be_written() {
    let files = Folder::new();
    fs::write(files.path().join("file"), "mine").unwrap();
    fs::create_dir(files.path().join("full")).unwrap();
    fs::write(files.path().join("full/file"), "mine").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["write", "--out", "full"], "not empty"),
        (&["write", "--out", "file"], "file is a file: --out takes a folder"),
        (&["write", "--out", "file/below"], "file/below"),
        (&["write", "--save", "file"], "already exists"),
        (&["write", "--save", "absent/file"], "cannot be written"),
        (&["write", "--save", "full"], "full"),
        (&["survey", "--dir", "absent"], "name a folder"),
        (&["survey", "--dir", "full/file"], "name"),
        (&["survey", "--quick", "--out", "full"], "not empty"),
        (&["survey", "--save", "full"], "not empty"),
        (&["show", "file"], "not a folder"),
        (&["show", "full"], "no dataset here"),
        (&["neighbours", "--aggressors", "4000", "--out", "full"], "not empty"),
    ];
    for (args, part) in cases {
        refused_in_a_line(&files, args, part);
    }
    assert_eq!(fs::read_to_string(files.path().join("file")).unwrap(), "mine");
    assert_eq!(fs::read_dir(files.path().join("full")).unwrap().count(), 1);
}

// Before anything is started or said of what can be known.
#[test]
fn tasks_that_memory_does_not_hold() {
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let folder = Folder::new();
    let verbs = [vec!["prove", "--budget", "2%"], vec!["neighbours"]];
    for verb in verbs {
        let roles = ["--victim", "chase footprint=64TiB", "--aggressor", "write"];
        refused_in_a_line(&folder, &[&verb[..], &roles].concat(), "victim: workload chase: ");
        refused_in_a_line(&folder, &[&verb[..], &roles].concat(), " free, 64TiB are needed");
    }
}
