//! `dirty`, `churn` and `scan`, and windows beside tasks that use a disk.

use std::path::Path;
use std::time::Duration;

use ringfence_dataset::Dataset;
use ringfence_experiment::sample;

use crate::support::disk::{disk_is_shown, empty, on_disk};
use crate::support::{
    self, Folder, Running, enough_cpus, gone, kill, marked, ringfence_in, wait_for,
};

// Little is written, whatever the disk is.
const SHORT: [&str; 6] = ["--trials", "2", "--rounds", "1", "--probe", "0ms"];

fn task(name: &str, data: &Path, rest: &str) -> String {
    format!("{name} dir={} {rest}", data.display())
}

#[test]
fn windows_beside_them_are_kept_apart_and_what_they_write_is_told() {
    if !enough_cpus() {
        return;
    }
    let Some(data) = on_disk("disks") else { return };
    let folder = Folder::new();
    let victim = task("commit", &data, "size=1MiB layout=written");
    let dirty = task("dirty", &data, "io=wait,buffered size=4MiB block=64KiB pace=50MiB/s");
    let (churn, scan) = (task("churn", &data, ""), task("scan", &data, "size=4MiB pace=50MiB/s"));
    let roles =
        ["--victim", &victim, "--aggressor", &dirty, "--aggressor", &churn, "--aggressor", &scan];
    let args = [&["neighbours"], &roles[..], &["--out", "n", "-v"], &SHORT].concat();
    let said = ringfence_in(folder.path(), &args).said();
    if disk_is_shown(&data) {
        assert!(said.contains("In 'neighbours', ") && said.contains(" wrote "), "{said}");
        assert!(said.contains("by the disk's own count (all programs together)."), "{said}");
    }
    assert!(said.contains("these figures contain no delayed effects"), "{said}");
    let dataset = Dataset::open(&folder.path().join("n")).unwrap();
    // Every aggressor, and alone.
    assert_eq!(dataset.plan.measured().len(), 4, "{:?}", dataset.plan.not_run);
    let samples = &dataset.samples;
    assert!(samples.iter().all(|sample| sample.units > 0), "{samples:?}");
    // Nothing runs for 0.2 s between two windows, and all tasks run for as long before each.
    let mut windows: Vec<(u64, u64, u64)> = sample::steps(samples)
        .flat_map(|step| step.chunk_by(|one, other| one.position == other.position))
        .map(|window| {
            let end = |sample: &sample::Sample| sample.start_ns + sample.length_ns;
            let starts = window.iter().map(|sample| sample.start_ns).min();
            let longest =
                window.iter().filter_map(|sample| sample.latencies.as_ref()?.most()).max();
            (starts.unwrap(), window.iter().map(end).max().unwrap(), longest.unwrap_or(0))
        })
        .collect();
    windows.sort_unstable();
    assert_eq!(windows.len(), 2 * 2 * 4);
    for pair in windows.windows(2) {
        let [(_, end, _), (start, _, longest)] = [pair[0], pair[1]];
        // A window begins with the last report before it, which a commit holds up that is under way
        // then: it is in the window.
        let apart = Duration::from_nanos(start.saturating_sub(end) + longest);
        assert!(apart >= Duration::from_millis(200), "{apart:?}");
    }
    assert!(empty(&data), "nothing is left");
}

#[test]
fn whoever_would_reach_its_limit_in_a_window_is_not_run() {
    if !enough_cpus() {
        return;
    }
    let Some(data) = on_disk("limit") else { return };
    let folder = Folder::new();
    let victim = task("commit", &data, "size=1MiB layout=written");
    let limited = |limits: &str| {
        task("dirty", &data, &format!("io=wait size=1MiB block=64KiB pace=50MiB/s limit={limits}"))
    };
    let run = |aggressor: &str, out: &str| {
        let roles = ["--victim", &victim, "--aggressor", aggressor, "--out", out];
        ringfence_in(folder.path(), &[&["neighbours"], &roles[..], &SHORT].concat())
    };
    let said = run(&limited("128KiB,64GiB"), "a").said();
    assert!(said.contains("Not run: 1 case"), "{said}");
    let said = ringfence_in(folder.path(), &["show", "-v", "a"]).said();
    assert!(said.contains("not run: limit=128KiB, because it would write"), "{said}");
    // Where there is nothing else, it is refused in one sentence.
    let alone = run(&limited("128KiB"), "b");
    assert_eq!(alone.code(), Some(2), "{}", alone.stdout);
    assert!(alone.stderr.contains("its limit is 128KiB"), "{}", alone.stderr);
    assert_eq!(alone.stderr.lines().count(), 1, "{}", alone.stderr);
    assert!(empty(&data), "nothing is left");
}

// At a pace at which little is written in either arm.
fn limited(data: &Path) -> String {
    format!(
        "schema = 2\nname = 'limited'\nmetric = 'writer'\n\
         [measure]\nlooks = [2]\nrounds = 2\nwindow = '1s'\nprobe = '0ms'\n\
         [[role]]\nname = 'writer'\ntask = {{ workload = 'dirty', dir = '{}', io = 'direct', size \
         = '1MiB', block = '64KiB', \
         pace = '12MiB/s' }}\n\
         [[arm]]\nname = 'free'\nactive = ['writer']\n\
         [[arm]]\nname = 'limited'\nactive = ['writer']\nbaseline = 'free'\ndisk_write = {{ writer \
         = '5MiB/s' }}\n",
        data.display()
    )
}

#[test]
fn an_arms_limit_of_writing_holds_and_nothing_is_left_of_it() {
    let Some(data) = on_disk("write-limit") else { return };
    let folder = Folder::new();
    std::fs::write(folder.path().join("x.toml"), limited(&data)).unwrap();
    let run = Running::start(folder.path(), &["run", "x.toml", "--out", "d", "--quiet"]);
    let pid = run.child.id();
    let output = run.wait();
    assert!(empty(&data), "nothing is left");
    for parent in ["/sys/fs/cgroup", "/sys/fs/cgroup/blkio"] {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        assert_eq!(names.filter(|name| name.starts_with(&format!("ringfence-{pid}-"))).count(), 0);
    }
    if output.code() == Some(2) && output.stderr.contains("no control group") {
        return support::skip(output.stderr.trim());
    }
    output.ok();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    // Bytes a second over all windows of an arm.
    let rate = |case: u32| {
        let of_it = dataset.samples.iter().filter(|sample| sample.case == case);
        let (units, ns) =
            of_it.fold((0, 0), |(units, ns), one| (units + one.units, ns + one.length_ns));
        units as f64 / ns as f64 * 1e9 / f64::from(1 << 20)
    };
    let (free, held) = (rate(0), rate(1));
    assert!(held > 0.0 && held <= 1.5 * 5.0, "{held} MiB/s, and {free} without the limit");
    // A disk that takes less by itself shows no limit.
    assert!(free > held || free < 5.0, "{held} MiB/s, and {free} without the limit");
}

#[test]
fn a_limit_of_what_is_written_to_no_disk_is_not_run() {
    let folder = Folder::new();
    let run = |text: String| {
        std::fs::write(folder.path().join("x.toml"), text).unwrap();
        ringfence_in(folder.path(), &["run", "x.toml", "--trials", "2", "--quiet"])
    };
    let alu = "schema = 2\nname = 'x'\nmetric = 'v'\n[measure]\nrounds = 1\nprobe = \
               '0ms'\n[[role]]\nname = 'v'\ntask = { workload = 'alu' }\n\
               [[arm]]\nname = 'free'\nactive = ['v']\n\
               [[arm]]\nname = 'limited'\nactive = ['v']\nbaseline = 'free'\ndisk_write = \
               { v = '5MiB/s' }\n";
    let first = alu.replace("disk_write = { v = '5MiB/s' }", "io_priority = { v = 'idle' }");
    let only = first
        .replace("[[arm]]\nname = 'free'\nactive = ['v']\n", "")
        .replace("baseline = 'free'\n", "");
    for (text, part) in
        [(first, "alu uses no disk"), (only, "none of this can be measured here: alu uses no disk")]
    {
        let refused = run(text);
        assert_eq!(refused.code(), Some(2), "{}", refused.stdout);
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    let other = "[[arm]]\nname = 'as free'\nactive = ['v']\nbaseline = 'free'\n";
    let said = run(format!("{alu}{other}")).said();
    assert!(said.contains("because alu uses no disk"), "{said}");
    for (text, part) in [
        (alu.to_string(), "alu uses no disk"),
        (alu.replace("5MiB/s", "1KiB/s"), "give at least 256KiB/s"),
    ] {
        let refused = run(text);
        assert_eq!(refused.code(), Some(2), "{}", refused.stdout);
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    }
}

#[test]
fn a_proof_takes_windows_that_are_long_enough() {
    if !enough_cpus() {
        return;
    }
    let Some(data) = on_disk("proof") else { return };
    let folder = Folder::new();
    let victim = task("commit", &data, "size=1MiB layout=written");
    let aggressor = task("dirty", &data, "io=wait size=1MiB block=64KiB pace=1MiB/s");
    let roles = ["--victim", &victim, "--aggressor", &aggressor];
    let flags = [
        "--budget", "100%", "--trials", "4", "--rounds", "1", "--levers", "io", "--out", "p",
        "--quiet",
    ];
    let output = ringfence_in(folder.path(), &[&["prove"], &roles[..], &flags].concat());
    assert!(
        [Some(0), Some(3), Some(4)].contains(&output.code()),
        "{}{}",
        output.stdout,
        output.stderr
    );
    if disk_is_shown(&data) {
        let said = &output.stdout;
        assert!(said.contains("In 'baseline', ") && said.contains(" wrote "), "{said}");
    }
    let baseline = Dataset::open(&folder.path().join("p/baseline")).unwrap();
    assert_eq!(baseline.plan.experiment.measure.window.to_string(), "400ms");
    assert!(empty(&data), "nothing is left");
}

#[test]
fn what_cannot_be_measured_says_why() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    for (aggressor, part) in [
        ("dirty dir=none", "No such file or directory"),
        ("dirty io=dontcahe", "did you mean 'dontcache'"),
        ("dirty block=1000", "multiple of 4KiB"),
        ("dirty block=1MiB size=4KiB", "make the file larger"),
        ("dirty limit=0B", "raise it"),
        ("dirty pace=fast", "is not a rate"),
        ("dirty sync=none", "here, only"),
        ("dirty dir=/dev/shm", "in memory"),
        ("dirty dir=/proc size=1MiB", "nothing is stored there"),
        ("churn dir=none", "No such file or directory"),
        ("churn dir=/dev/shm", "in memory"),
        ("churn size=2MiB", "at most 1MiB"),
        ("scan dir=none", "No such file or directory"),
        ("scan io=mmap", "is not one of"),
        ("scan size=4KiB", "make the file larger"),
        ("scan dir=/dev/shm", "in memory"),
        ("dirty size=fast", "is not a size"),
        ("dirty pace=0MiB/s", "is not a rate"),
        ("dirty block=2GiB", "between 4KiB and 16MiB"),
        ("dirty dir=", "No such file or directory"),
        ("dirty io=", "is not one of"),
        ("churn dir=/proc", "nothing is stored there"),
        ("churn size=-1", "a size such as 4KiB"),
        ("churn pace=5MiB/s", "here, only"),
        ("scan block=3KiB", "multiple of 4KiB"),
        ("scan pace=-5MiB/s", "is not a rate"),
        ("scan count=0", "here, only"),
        ("commit sync=fdatasync,", "is not one of"),
        ("commit record=2MiB", "between 1B and 1MiB"),
    ] {
        let args = [
            "neighbours",
            "--victim",
            "alu",
            "--aggressor",
            aggressor,
            "--trials",
            "2",
            "--out",
            "x",
        ];
        let out = ringfence_in(folder.path(), &args);
        assert_eq!(out.code(), Some(2), "{aggressor}: {}{}", out.stdout, out.stderr);
        assert!(
            out.stderr.contains(part) && out.stderr.lines().count() == 1,
            "{aggressor}: {}",
            out.stderr
        );
    }
    let short = ["neighbours", "--victim", "alu", "--aggressor", "churn", "--window", "20ms"];
    assert!(ringfence_in(folder.path(), &short).stderr.contains("use at least 400ms"));
    let described =
        ["neighbours", "--victim", "alu", "--aggressor", "dirty", "--machine", "laptop"];
    assert!(
        ringfence_in(folder.path(), &described)
            .stderr
            .contains("files and disks are not simulated")
    );
}

#[test]
fn nothing_is_left_of_a_run_that_is_killed() {
    if !enough_cpus() {
        return;
    }
    let Some(data) = on_disk("killed-disks") else { return };
    let churn = task("churn", &data, "");
    let args =
        ["neighbours", "--victim", "alu", "--aggressor", &churn, "--trials", "1000", "--quiet"];
    // Its folder is there for as long as the task is.
    let folders = || std::fs::read_dir(&data).unwrap().count();
    for whom in ["supervisor", "ringfence-guardian", "ringfence-worker"] {
        let folder = Folder::new();
        let run = Running::start(folder.path(), &args);
        wait_for("the folder", || (folders() > 0).then_some(()));
        // In the middle of its work, and not at its start.
        std::thread::sleep(Duration::from_millis(300));
        if whom == "supervisor" {
            run.signal(libc::SIGKILL);
        } else {
            let found =
                marked(&run.mark).into_iter().filter(|process| process.name.starts_with(whom));
            found.for_each(|process| kill(process.pid, libc::SIGKILL));
        }
        let left = gone(&run.mark);
        assert!(left.is_empty(), "{whom}: {left:?}");
        run.wait();
        assert_eq!(folders(), 0, "{whom}");
    }
    assert!(empty(&data));
}

// At any moment: while files are made, in windows, between them, while they are removed.
#[test]
#[ignore = "two minutes; scripts/nightly runs it"]
fn nothing_is_left_of_fifty_runs_that_are_killed_at_random_moments() {
    if !enough_cpus() {
        return;
    }
    let Some(data) = on_disk("fifty") else { return };
    let victim = task("commit", &data, "size=1MiB layout=written");
    let with = |aggressor: &str, more: &[&str]| {
        let args = [
            "neighbours",
            "--victim",
            &victim,
            "--aggressor",
            aggressor,
            "--trials",
            "1000",
            "--quiet",
        ];
        args.iter().chain(more).map(|arg| arg.to_string()).collect::<Vec<_>>()
    };
    let dirty = task("dirty", &data, "io=buffered,dontcache,direct size=16MiB pace=50MiB/s");
    let (churn, scan) = (
        task("churn", &data, ""),
        task("scan", &data, "io=buffered,direct size=16MiB pace=50MiB/s"),
    );
    let episode = task("dirty", &data, "size=16MiB limit=64MiB pace=50MiB/s");
    let runs = [
        ["commit", data.to_str().unwrap(), "--size", "1MiB", "--trials", "1000", "--quiet"]
            .map(String::from)
            .to_vec(),
        with(&dirty, &[]),
        with(&churn, &[]),
        with(&scan, &[]),
        with(&episode, &["--episode", "1s+1s"]),
    ];
    let mut seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    println!("seed {seed}");
    for round in 0..50 {
        let folder = Folder::new();
        let args: Vec<&str> = runs[round % runs.len()].iter().map(String::as_str).collect();
        let run = Running::start(folder.path(), &args);
        // Knuth's constants.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis((seed >> 33) % 3000));
        run.signal(libc::SIGKILL);
        let left = gone(&run.mark);
        assert!(left.is_empty(), "round {round}, {args:?}: {left:?}");
        run.wait();
        let files = std::fs::read_dir(&data).unwrap().count();
        assert_eq!(files, 0, "round {round}, {args:?}");
    }
    assert!(empty(&data));
}
