//! Programs as tasks: how they report progress, quotas, environments, and runs that are timed
//! whole.

use std::fs;

use ringfence_dataset::Dataset;

use crate::support::{self, Folder, Output, Running, cpus, ringfence_in, skip};

fn run(folder: &Folder, measure: &str, victim: &str, aggressor: &str) -> Output {
    let beside = match aggressor {
        "" => String::new(),
        task => format!(
            "[[role]]\nname = 'aggressor'\ntask = {task}\n[[arm]]\nname = 'beside'\nactive = \
             ['victim', 'aggressor']\nbaseline = 'alone'\n"
        ),
    };
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nlooks = [2]\nrounds = 1\nprobe = \
         '0ms'\n{measure}\n\
         [[role]]\nname = 'victim'\ntask = {victim}\n[[arm]]\nname = 'alone'\nactive = \
         ['victim']\n{beside}"
    );
    fs::write(folder.path().join("x.toml"), text).unwrap();
    ringfence_in(folder.path(), &["run", "x.toml", "--quiet", "--out", "data", "--json"])
}

fn units(folder: &Folder) -> Vec<(String, u64, u64)> {
    let samples = Dataset::open(&folder.path().join("data")).unwrap().samples;
    samples.iter().map(|sample| (sample.role.to_string(), sample.units, sample.length_ns)).collect()
}

// One line each 5 ms at most, however long a window was.
#[test]
fn lines_are_units() {
    let folder = Folder::new();
    let victim = "{ workload = 'command', unit = 'lines', \
                  run = 'sh -c \"while :; do sleep 0.005; echo x; done\"' }";
    let output = run(&folder, "window = '200ms'", victim, "");
    assert_eq!(output.json()["results"][0]["unit"], "lines of output");
    let windows = units(&folder);
    assert!(windows.iter().any(|(_, units, _)| *units > 0), "{windows:?}");
    for (_, units, length_ns) in windows {
        // What it had printed before is read as the window opens.
        assert!(units <= length_ns / 5_000_000 + 4, "{units} in {length_ns} ns");
    }
}

#[test]
fn a_counter_is_read_whether_mapped_or_written() {
    let folder = Folder::new();
    let script = "import os, struct, time\nf = os.open(os.environ['RINGFENCE_COUNTER'], \
                  os.O_RDWR)\nn = 0\nwhile True:\n    n += 1000\n    os.pwrite(f, \
                  struct.pack('=Q', n), 0)\n    time.sleep(0.002)\n";
    fs::write(folder.path().join("count.py"), script).unwrap();
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return skip("there is no python3 to count");
    }
    let victim =
        "{ workload = 'command', unit = 'counter', run = 'python3 -IS count.py', warm_up = '1s' }";
    let output = run(&folder, "window = '200ms'", victim, "");
    assert_eq!(output.json()["results"][0]["unit"], "counts");
    let windows = units(&folder);
    assert!(windows.iter().any(|(_, units, _)| *units > 0), "{windows:?}");
    for (_, units, length_ns) in windows {
        assert!(
            units <= 1000 * (length_ns / 2_000_000 + 4) && units % 1000 == 0,
            "{units} in {length_ns} ns"
        );
    }
}

#[test]
fn whole_runs_are_timed_from_start_to_end() {
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    // On a busy machine the co-runner may not get a turn in a short run; it does in a long one.
    let worked = [400, 2000, 8000].into_iter().any(|ms: u64| {
        let folder = Folder::new();
        let sleep = format!("sleep {}.{}", ms / 1000, ms % 1000 / 100);
        let victim =
            format!("{{ workload = 'command', unit = 'whole-run', run = 'sh -c \"{sleep}; :\"' }}");
        let output = run(&folder, "window = '1ms'", &victim, "{ workload = 'alu' }");
        let results = &output.json()["results"][0];
        let samples = units(&folder);
        assert_eq!(samples.iter().filter(|(role, ..)| role == "victim").count(), 4);
        for (_, units, length_ns) in samples.into_iter().filter(|(role, ..)| role == "victim") {
            assert_eq!(units, 1);
            assert!(length_ns >= ms * 1_000_000, "{length_ns}");
        }
        results["co_runners"][0]["units_per_s"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    assert!(worked, "nothing ran beside it");
}

#[test]
fn a_run_that_fails_is_named() {
    let folder = Folder::new();
    let victim =
        "{ workload = 'command', unit = 'whole-run', run = 'sh -c \"echo no luck >&2; exit 7\"' }";
    let output = run(&folder, "", victim, "");
    assert_eq!(output.code(), Some(1), "{}", output.stderr);
    for part in ["no luck", "exit 7", "exit status: 7"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
}

// Hours long unless it is interrupted.
#[test]
fn a_long_run_is_interrupted() {
    let folder = Folder::new();
    let text = "schema = 2\nname = 'x'\nmetric = 'victim'\n[[role]]\nname = 'victim'\n\
                task = { workload = 'command', unit = 'whole-run', \
                run = 'sh -c \"sleep 0.01; test -e go || sleep 9999\"' }\n\
                [[arm]]\nname = 'alone'\nactive = ['victim']\n";
    fs::write(folder.path().join("x.toml"), text).unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    let run = Running::start(folder.path(), &["run", "x.toml", "--quiet", "--out", "data"]);
    support::wait_for_steps(&folder.path().join("data"), 2);
    fs::remove_file(folder.path().join("go")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    run.signal(libc::SIGINT);
    let output = run.wait();
    assert_eq!(output.code(), Some(1));
    assert!(output.stderr.contains("interrupted"), "{}", output.stderr);
    assert!(Dataset::open(&folder.path().join("data")).unwrap().samples.len() >= 2);
}

#[test]
fn only_the_victim_is_timed_whole() {
    let folder = Folder::new();
    let aggressor = "{ workload = 'command', unit = 'whole-run', run = 'true' }";
    let output = run(&folder, "", "{ workload = 'alu' }", aggressor);
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(output.stderr.contains("unit = \"runs\""), "{}", output.stderr);
}

#[test]
fn the_environment_is_set() {
    let folder = Folder::new();
    let victim = "{ workload = 'command', unit = 'lines', env = { RF_TEST = 'a b' }, \
                  run = 'sh -c \"test \\\"$RF_TEST\\\" = \\\"a b\\\" || exit 3; while :; do echo; \
                  sleep 0.001; done\"' }";
    run(&folder, "window = '20ms'", victim, "").ok();
}

// CPU time is what a quota limits, so a busy loop cannot get more of it than its share allows; the
// bound is loose, since periods are cut by the ends of windows.
fn quota(no_groups: &str) {
    let folder = Folder::new();
    let victim = "{ workload = 'command', quota = '20%', unit = 'lines', \
                  run = 'sh -c \"while :; do echo; sleep 0.001; done\"' }";
    let aggressor = "{ workload = 'command', quota = '20%', unit = 'cpu-time', \
                     run = 'sh -c \"while :; do :; done\"' }";
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nlooks = [2]\nrounds = 1\nprobe = \
         '0ms'\nwindow = '300ms'\n\
         [[role]]\nname = 'victim'\ntask = {victim}\n[[role]]\nname = 'aggressor'\ntask = \
         {aggressor}\n\
         [[arm]]\nname = 'beside'\nactive = ['victim', 'aggressor']\n"
    );
    fs::write(folder.path().join("x.toml"), text).unwrap();
    let (mut command, mark) =
        support::command(folder.path(), &["run", "x.toml", "--quiet", "--out", "data"]);
    command.env("RINGFENCE_NO_CGROUPS", no_groups);
    Running::spawn(command, mark).wait().ok();
    let samples = Dataset::open(&folder.path().join("data")).unwrap().samples;
    for sample in samples.iter().filter(|sample| &*sample.role == "aggressor") {
        let share = sample.units as f64 / sample.length_ns as f64;
        assert!((0.01..0.4).contains(&share), "{share}");
    }
}

#[test]
fn a_quota_is_kept_by_stopping_and_continuing() {
    quota("1");
}

#[test]
fn a_quota_is_kept_by_a_control_group_where_one_can_be_made() {
    quota("");
    let left = |dir: &str| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("ringfence-"))
            .count()
    };
    // Groups of other tests' runs may exist for a moment; those of runs that have ended may not.
    let until = std::time::Instant::now() + support::LIMIT;
    while left("/sys/fs/cgroup/cpu") + left("/sys/fs/cgroup") > 0 {
        assert!(std::time::Instant::now() < until, "a group was left behind");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

// Two threads, a busy CPU each, where the role names two CPUs; their times add up to more than one
// CPU.
#[test]
fn a_program_may_use_all_cpus_that_its_role_names() {
    let usable = cpus();
    let [first, second, ..] = usable[..] else { return skip("a program on two CPUs needs two") };
    let folder = Folder::new();
    let script = "cat /proc/self/status | sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' > allowed; \
                  while :; do echo; sleep 0.01; done";
    fs::write(folder.path().join("x.sh"), script).unwrap();
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nlooks = [2]\nrounds = 1\nprobe = \
         '0ms'\n\
         [[role]]\nname = 'victim'\ncpus = '{first},{second}'\n\
         task = {{ workload = 'command', unit = 'lines', run = 'sh x.sh' }}\n[[arm]]\nname = \
         'alone'\nactive = ['victim']\n"
    );
    fs::write(folder.path().join("x.toml"), text).unwrap();
    ringfence_in(folder.path(), &["run", "x.toml", "--quiet", "--out", "data"]).ok();
    let allowed = fs::read_to_string(folder.path().join("allowed")).unwrap();
    let ends = [format!("{first}-{second}"), format!("{first},{second}")];
    assert!(ends.contains(&allowed.trim().to_string()), "{allowed}");
}

// Programs that end at the same moment are reported at once: none is waited for after it has been.
#[test]
fn trials_follow_each_other_where_several_programs_are_started_anew() {
    let folder = Folder::new();
    let task = |run: &str| {
        format!("{{ workload = 'command', unit = 'lines', run = '{run}', warm_up = '0ms' }}")
    };
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nlooks = [40]\nrounds = 1\nwindow = \
         '2ms'\nprobe = '0ms'\n\
         [[role]]\nname = 'victim'\ntask = {}\n[[arm]]\nname = 'a'\nactive = \
         ['victim']\n[[arm]]\nname = 'b'\nactive = ['victim']\n\
         baseline = 'a'\nset = {{ victim = {{ run = 'yes b' }} }}\n",
        task("yes a")
    );
    fs::write(folder.path().join("x.toml"), text).unwrap();
    ringfence_in(folder.path(), &["run", "x.toml", "--quiet", "--out", "data"]).said();
    let samples = Dataset::open(&folder.path().join("data")).unwrap().samples;
    let gaps = samples.windows(2).map(|two| two[1].start_ns.saturating_sub(two[0].start_ns));
    let longest = gaps.max().expect("two windows");
    assert!(
        longest < 19_000_000_000,
        "{longest} ns between two windows, for which the engine waits 20 s"
    );
}
