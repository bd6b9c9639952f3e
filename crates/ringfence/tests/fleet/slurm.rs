//! `fleet` with a Slurm of several nodes on this host (`testbed/slurm`): nodes that die, a full
//! disk, time zones, equal host names, a node without AVX-512.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ringfence_machine::fixtures;
use serde_json::Value;

use crate::support::{self, Folder, Output, Running, is_installed, skip, wait_for, write_program};

const WRITE: [&str; 15] = [
    "write",
    "--instruction",
    "nt",
    "--block",
    "4KiB",
    "--size",
    "1MiB",
    "--trials",
    "4",
    "--rounds",
    "1",
    "--window",
    "2ms",
    "--probe",
    "0ms",
];

/// The testbed's Slurm, ended when it is dropped.
struct Slurm {
    folder: PathBuf,
    work: Folder,
}

fn testbed(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/slurm").join(program)
}

impl Slurm {
    fn start(nodes: u32) -> Option<Self> {
        for program in ["munged", "slurmctld", "slurmd", "sbatch"] {
            if !is_installed(program) {
                skip(&format!(
                    "{program} is not installed: apt-get install slurmctld slurmd slurm-client \
                     munge"
                ));
                return None;
            }
        }
        // SAFETY: a bare system call.
        if unsafe { libc::geteuid() } != 0 {
            skip("Slurm is started by root alone");
            return None;
        }
        let work = Folder::new();
        let folder = work.path().join("slurm");
        // Each test's own.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let port =
            20_000 + std::process::id() % 500 * 20 + STARTED.fetch_add(1, Ordering::Relaxed) * 10;
        let mut up = Command::new(testbed("up"));
        up.arg(&folder).args([nodes.to_string(), port.to_string()]);
        // What it starts would keep a pipe open.
        let log = fs::File::create(work.path().join("up.txt")).unwrap();
        up.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let slurm = Self { folder, work };
        let up = up.status().unwrap();
        assert!(up.success(), "{}", fs::read_to_string(slurm.work.path().join("up.txt")).unwrap());
        Some(slurm)
    }

    fn conf(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    fn scontrol(&self, words: &[&str]) -> String {
        let ran =
            Command::new("scontrol").args(words).env("SLURM_CONF", self.conf()).output().unwrap();
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    fn run(&self, args: &[&str]) -> Output {
        let (mut command, mark) = support::command(self.work.path(), args);
        command.env("SLURM_CONF", self.conf());
        Running::spawn(command, mark).wait()
    }

    // The same with a program of Slurm's that does something before or after what it is for;
    // `$real` is that program.
    fn run_beside(&self, program: &str, script: &str, args: &[&str]) -> Output {
        let folder = self.work.path().join("programs");
        fs::create_dir_all(&folder).unwrap();
        let path = std::env::var("PATH").unwrap();
        let real = std::env::split_paths(&path)
            .map(|folder| folder.join(program))
            .find(|path| path.is_file());
        let text = format!("#!/bin/sh\nreal={}\n{script}\n", real.unwrap().display());
        let own = folder.join(program);
        write_program(&own, text);
        let (mut command, mark) = support::command(self.work.path(), args);
        command.env("SLURM_CONF", self.conf()).env("PATH", format!("{}:{path}", folder.display()));
        let ran = Running::spawn(command, mark).wait();
        fs::remove_file(own).unwrap();
        ran
    }

    // Hands in a fleet that begins when its job is released; the number of that.
    fn submit_held(&self, options: &[&str]) -> String {
        let submit = ["fleet", "submit", "fleet", "--slurm"];
        let submit = [&submit[..], options, &["--hold", "--"], &WRITE];
        let submitted = self.run(&submit.concat());
        let job = submitted.ok().split("job ").nth(1).and_then(|rest| rest.split(':').next());
        job.unwrap().to_owned()
    }

    fn tasks(&self) -> Vec<Value> {
        let status = self.run(&["fleet", "status", "fleet", "--json"]).json();
        status["tasks"].as_array().unwrap().clone()
    }

    fn states(&self) -> Vec<String> {
        self.tasks().iter().map(|task| task["state"].as_str().unwrap().to_owned()).collect()
    }

    fn wait_for_states(&self, wanted: &[&str]) {
        wait_for(&format!("{wanted:?}"), || {
            let states = self.states();
            if states == wanted {
                return Some(());
            }
            std::thread::sleep(Duration::from_millis(300));
            None
        });
    }

    // What each task runs, in place of the program: nodes that differ, as those of one host do not.
    fn wrap(&self, script: &str) {
        let program = self.work.path().join("fleet/ringfence");
        let text = format!(
            "#!/bin/sh\nreal={}\n{script}\nexec \"$real\" \"$@\"\n",
            env!("CARGO_BIN_EXE_ringfence")
        );
        write_program(&program, text);
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let _ = Command::new(testbed("down")).arg(&self.folder).stdout(Stdio::null()).status();
        // Where the test has mounted one.
        let disk = self.work.path().join("fleet/tasks/0004");
        let _ = Command::new("umount").arg(disk).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_node_dies_a_disk_is_full_and_nothing_is_lost() {
    let Some(slurm) = Slurm::start(4) else { return };
    let work = slurm.work.path();
    let without_avx512 = fixtures::zen_multi_llc();
    let job = slurm.submit_held(&["--partition=main", "--nodelist=node[1-4]"]);
    assert_eq!(slurm.states(), ["waiting"; 4]);
    fs::write(work.join("slow"), "").unwrap();
    let (root, slow) = (without_avx512.root().path("/"), work.join("slow"));
    slurm.wrap(&format!(
        r#"case "$SLURMD_NODENAME" in
        node1) TZ=JST-9 ;;
        node2) TZ=EST5; [ "$1" = fleet ] || [ ! -e '{}' ] || sleep 300 ;;
        node3) [ "$1" != fleet ] || set -- "$@" --root '{}' ;;
        esac
        export TZ"#,
        slow.display(),
        root.display()
    ));
    let disk = work.join("fleet/tasks/0004");
    fs::create_dir(&disk).unwrap();
    let mount = |options: &str| {
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&disk).status()
    };
    assert!(
        mount("size=100k").is_ok_and(|status| status.success()),
        "a tmpfs can be mounted by root"
    );
    slurm.scontrol(&["release", &job]);

    // A node dies half way.
    slurm.wait_for_states(&["done", "running", "done", "failed"]);
    slurm.scontrol(&["update", "nodename=node2", "state=down", "reason=smoke"]);
    slurm.wait_for_states(&["done", "failed", "done", "failed"]);
    let tasks = slurm.tasks();
    let died = tasks[1]["reason"].as_str().unwrap();
    assert!(died.starts_with("node2 failed (Slurm reports NODE_FAIL: smoke)"), "{died}");
    let full = tasks[3]["reason"].as_str().unwrap();
    assert!(full.contains("No space left on device"), "{full}");
    let gathered = slurm.run(&["fleet", "gather", "fleet"]);
    assert!(gathered.said().contains("2 of 4 tasks"), "{}", gathered.stdout);
    assert!(
        gathered.said().contains("task 2, failed: node2 failed (Slurm reports NODE_FAIL: smoke)"),
        "{}",
        gathered.stdout
    );
    let report = slurm.run(&["fleet", "report", "fleet", "--json"]).json();
    assert_eq!((&report["tasks"]["done"], &report["tasks"]["failed"]), (&2.into(), &2.into()));

    // Only these run again, on their nodes.
    fs::remove_file(work.join("slow")).unwrap();
    slurm.scontrol(&["update", "nodename=node2", "state=resume"]);
    assert!(mount("remount,size=8m").is_ok_and(|status| status.success()));
    assert!(slurm.run(&["fleet", "retry", "fleet"]).said().contains("2 tasks"));
    assert!(slurm.run(&["fleet", "status", "fleet", "--wait"]).said().contains("4 done"));
    let tasks = slurm.tasks();
    let attempts: Vec<usize> =
        tasks.iter().map(|task| task["attempts"].as_array().unwrap().len()).collect();
    assert_eq!(attempts, [1, 2, 1, 2]);
    hosts_are_told_apart(&slurm);
    // A clock is a clock, whatever the zone: all of it within this test.
    let begun: Vec<&str> = tasks.iter().map(|task| task["started"].as_str().unwrap()).collect();
    let seconds = |at: &str| {
        let time = ringfence_dataset::Date::parse(at).unwrap_or_else(|| panic!("{at} is not UTC"));
        time.elapsed().map_or(0, |since| since.as_secs())
    };
    assert!(begun.iter().all(|at| seconds(at) < 600), "{begun:?}");
    assert_eq!(fs::read_dir(work.join("fleet/table/samples")).unwrap().count(), 4);
    a_node_that_is_down_holds_nobody_up(&slurm);
}

fn hosts_are_told_apart(slurm: &Slurm) {
    let report = slurm.run(&["fleet", "report", "fleet", "--by", "avx512", "--json"]).json();
    let hosts = report["hosts"].as_array().unwrap();
    let nodes: Vec<&str> = hosts.iter().map(|host| host["node"].as_str().unwrap()).collect();
    // Four hosts, though all give themselves one name.
    assert_eq!(nodes, ["node1", "node2", "node3", "node4"]);
    assert_eq!(hosts[0]["facts"]["hostname"], hosts[1]["facts"]["hostname"]);
    assert_eq!(hosts[2]["facts"]["avx512"], "no");
    assert_ne!(hosts[2]["facts"]["processor"], hosts[0]["facts"]["processor"]);
}

// Also where its task is the last.
fn a_node_that_is_down_holds_nobody_up(slurm: &Slurm) {
    slurm.scontrol(&["update", "nodename=node4", "state=down", "reason=smoke"]);
    let submit = ["fleet", "submit", "other", "--slurm", "--nodelist=node[3-4]", "--"];
    slurm.run(&[&submit[..], &WRITE].concat()).ok();
    wait_for("the task of node3", || {
        std::thread::sleep(Duration::from_millis(300));
        let status = slurm.run(&["fleet", "status", "other", "--json"]).json();
        assert_eq!(status["tasks"][1]["state"], "waiting", "{status}");
        (status["tasks"][0]["state"] == "done").then_some(())
    });
}

#[test]
fn reasons_are_true_and_nothing_is_handed_in_twice() {
    let Some(slurm) = Slurm::start(3) else { return };
    let work = slurm.work.path();
    let job = slurm.submit_held(&["--nodelist=node[1-3]"]);
    let program = work.join("fleet/ringfence");
    let own = work.join("own");
    fs::rename(&program, &own).unwrap();
    let reason =
        |task: usize| slurm.tasks()[task - 1]["reason"].as_str().unwrap_or_default().to_owned();
    // The fleet's program is missing.
    slurm.scontrol(&["release", &job]);
    slurm.wait_for_states(&["failed"; 3]);
    let missing = reason(1);
    for part in [
        "on node1 with exit code 127",
        "the fleet's own copy of the program is missing",
        "not found",
    ] {
        assert!(missing.contains(part), "{part}: {missing}");
    }
    fs::rename(&own, &program).unwrap();
    slurm.wrap("[ \"$1\" = fleet ] || sleep 300");

    // Of three retries one hands in, whether the others come at the same time or later.
    let retry = || {
        let (mut command, mark) =
            support::command(work, &["fleet", "retry", "fleet", "--limit", "1min"]);
        command.env("SLURM_CONF", slurm.conf());
        Running::spawn(command, mark)
    };
    let retries = [retry(), retry(), retry()].map(Running::wait);
    let handed = retries.iter().filter(|retry| retry.stdout.contains("3 tasks; see")).count();
    assert_eq!(handed, 1, "{:?}", retries.each_ref().map(|retry| (&retry.stdout, &retry.stderr)));
    assert_eq!(fs::read_dir(work.join("fleet/submissions")).unwrap().count(), 2);
    slurm.wait_for_states(&["running"; 3]);
    let text = fs::read_to_string(work.join("fleet/submissions/2/job.json")).unwrap();
    let job = serde_json::from_str::<Value>(&text).unwrap()["job"].as_str().unwrap().to_owned();

    // One is cancelled.
    let cancelled =
        Command::new("scancel").arg(format!("{job}_1")).env("SLURM_CONF", slurm.conf()).status();
    assert!(cancelled.unwrap().success());
    slurm.wait_for_states(&["failed", "running", "running"]);
    let told = reason(1);
    assert!(
        told.starts_with("it was cancelled in Slurm on node1: ") && !told.contains(';'),
        "{told}"
    );

    // What runs is unknown where the controller does not answer.
    let conf = fs::read_to_string(slurm.conf()).unwrap();
    let port = conf.lines().find(|line| line.starts_with("SlurmctldPort=")).unwrap();
    let silent = slurm.folder.join("silent.conf");
    fs::write(&silent, conf.replace(port, "SlurmctldPort=1")).unwrap();
    let ask = |words: &[&str]| {
        let (mut command, mark) = support::command(work, &[&["fleet"], words].concat());
        command.env("SLURM_CONF", &silent);
        Running::spawn(command, mark).wait()
    };
    let status = ask(&["status", "fleet", "--json"]).json();
    assert!(
        status["tasks"].as_array().unwrap().iter().all(|task| task["state"] == "unknown"),
        "{status}"
    );
    let refused = ask(&["retry", "fleet"]);
    assert_eq!(
        (refused.code(), refused.stderr.lines().count()),
        (Some(1), 1),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("whether 3 of 3 tasks still run"), "{}", refused.stderr);
    assert_eq!(fs::read_dir(work.join("fleet/submissions")).unwrap().count(), 2);
}

#[test]
#[ignore = "takes two minutes: Slurm's limits are minutes"]
fn a_task_that_runs_out_of_its_time_says_so() {
    let Some(slurm) = Slurm::start(1) else { return };
    let submit =
        ["fleet", "submit", "fleet", "--limit", "1min", "--slurm", "--nodelist=node1", "--"];
    slurm.run(&[&submit[..], &["versus", "sleep 300", "sleep 300", "-N"]].concat()).ok();
    slurm.wait_for_states(&["failed"]);
    let told = slurm.tasks()[0]["reason"].as_str().unwrap().to_owned();
    assert!(told.starts_with("it reached its time limit of 00:01:00 on node1: give"), "{told}");
}

// Slurm has the job though sbatch gave up, or was not heard: by its name it is found again.
#[test]
fn a_job_whose_number_nobody_learned_is_found_and_not_handed_in_twice() {
    let Some(slurm) = Slurm::start(2) else { return };
    let work = slurm.work.path();
    let submit = ["fleet", "submit", "fleet", "--slurm", "--nodelist=node[1-2]", "--"];
    let submit = [&submit[..], &WRITE].concat();
    // Ctrl-C while tasks get their nodes: nothing is left behind.
    let told = slurm.run_beside(
        "scontrol",
        r#"[ "$1" != update ] || kill -INT $PPID; exec "$real" "$@""#,
        &submit,
    );
    assert_eq!((told.code(), told.stderr.lines().count()), (Some(1), 1), "{}", told.stderr);
    assert!(
        told.stderr.contains("was interrupted") && told.stderr.contains("is cancelled"),
        "{}",
        told.stderr
    );
    assert!(!work.join("fleet").exists());
    let squeue = |words: &[&str]| {
        let ran =
            Command::new("squeue").args(words).env("SLURM_CONF", slurm.conf()).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    };
    assert_eq!(squeue(&["--noheader"]), "");

    let gives_up = r#"[ "$1" != --version ] || exec "$real" "$@"
        "$real" "$@" > accepted
        echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv' \
            'operation' >&2
        exit 1"#;
    let failed = slurm.run_beside("sbatch", gives_up, &submit);
    assert_eq!((failed.code(), failed.stderr.lines().count()), (Some(1), 1), "{}", failed.stderr);
    for part in ["Socket timed out", "may exist nevertheless", "fleet status "] {
        assert!(failed.stderr.contains(part), "{part}: {}", failed.stderr);
    }
    let job = fs::read_to_string(work.join("accepted")).unwrap().trim().to_owned();
    assert_eq!(slurm.states(), ["waiting"; 2]);
    let reason = slurm.tasks()[0]["reason"].as_str().unwrap().to_owned();
    let remedy = format!(
        "JobHeldUser: the submission was interrupted before every task had its node: run \
             'scancel {job}'"
    );
    assert!(reason.starts_with(&remedy), "{reason}");
    let again = slurm.run(&["fleet", "retry", "fleet"]);
    assert!(
        again.said().contains("not submitted again, because Slurm still has it: tasks 1-2: "),
        "{}",
        again.stdout
    );
    assert!(again.stdout.contains("nothing to rerun"), "{}", again.stdout);
    assert_eq!(fs::read_dir(work.join("fleet/submissions")).unwrap().count(), 1);
    // Also for a job that ended before its state was checked.
    fs::remove_file(work.join("fleet/submissions/1/job.json")).unwrap();
    let cancelled = Command::new("scancel").arg(&job).env("SLURM_CONF", slurm.conf()).status();
    assert!(cancelled.unwrap().success());
    slurm.wait_for_states(&["failed"; 2]);
    let reason = slurm.tasks()[1]["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("it was cancelled in Slurm: "), "{reason}");
    assert!(slurm.run(&["fleet", "retry", "fleet"]).said().contains("2 tasks; see"));
    slurm.wait_for_states(&["done"; 2]);
    let attempts: Vec<usize> =
        slurm.tasks().iter().map(|task| task["attempts"].as_array().unwrap().len()).collect();
    assert_eq!(attempts, [1, 1]);
}

#[test]
fn what_slurm_would_wait_for_or_measure_twice_is_refused() {
    let Some(slurm) = Slurm::start(1) else { return };
    for (option, part) in [
        ("--wait", "sbatch would wait for tasks that cannot start before it ends"),
        ("-W", "wait with 'ringfence fleet status --wait'"),
        ("--job-name=mine", "the fleet sets this to find its jobs again"),
        ("--nodelist=node1,node1", "node1 is in it twice"),
    ] {
        let submit =
            ["fleet", "submit", "fleet", "--hosts", "2", "--slurm", option, "--", "survey"];
        let refused = slurm.run(&submit);
        assert_eq!(
            (refused.code(), refused.stderr.lines().count()),
            (Some(2), 1),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        assert!(!slurm.work.path().join("fleet").exists());
    }
    let odd = ["fleet", "submit", "a \"b\"", "--hosts", "1", "--slurm", "--", "survey"];
    let refused = slurm.run(&odd);
    assert_eq!(
        (refused.code(), refused.stderr.lines().count()),
        (Some(2), 1),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("quotation mark or a backslash"), "{}", refused.stderr);
    // What Slurm refuses for good leaves nothing that looks as if it might run.
    let submit =
        ["fleet", "submit", "fleet", "--hosts", "1", "--slurm", "--exclude=node1", "--", "survey"];
    let refused = slurm.run(&submit);
    assert_eq!(refused.code(), Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("may have been measured already"), "{}", refused.stderr);
    assert!(!slurm.work.path().join("fleet").exists());
}

// A slurmd that is killed leaves its work running, and Slurm begins the same task elsewhere.
#[test]
#[ignore = "takes two minutes: Slurm's timeouts"]
fn a_task_that_runs_twice_is_one_task() {
    let Some(slurm) = Slurm::start(2) else { return };
    let submit =
        ["fleet", "submit", "fleet", "--hosts", "1", "--slurm", "--requeue", "--hold", "--"];
    let submitted = slurm.run(&[&submit[..], &WRITE].concat());
    let job = submitted
        .ok()
        .split("job ")
        .nth(1)
        .and_then(|rest| rest.split(':').next())
        .unwrap()
        .to_owned();
    // Long enough for Slurm to give the node up, and to begin again.
    slurm.wrap("[ \"$1\" = fleet ] || sleep 60");
    slurm.scontrol(&["release", &job]);
    slurm.wait_for_states(&["running"]);
    let node = wait_for("the first attempt", || {
        let task = slurm.tasks().remove(0);
        task["attempts"][0]["node"].as_str().map(str::to_owned)
    });
    let pid = fs::read_to_string(slurm.folder.join(format!("slurmd-{node}.pid"))).unwrap();
    support::kill(pid.trim().parse().unwrap(), libc::SIGKILL);
    let task = wait_for("two complete attempts", || {
        std::thread::sleep(Duration::from_secs(1));
        let task = slurm.tasks().remove(0);
        let attempts = task["attempts"].as_array().unwrap();
        (attempts.iter().filter(|attempt| attempt["complete"] == true).count() == 2).then_some(task)
    });
    let ended = |attempt: usize| task["attempts"][attempt]["ended"].as_str().unwrap();
    let first = if ended(0) < ended(1) { 1 } else { 2 };
    assert_eq!((&task["state"], &task["counting"]), (&"done".into(), &first.into()), "{task}");
    let report = slurm.run(&["fleet", "report", "fleet", "--json"]).json();
    assert_eq!(report["hosts"].as_array().unwrap().len(), 1);
    assert_eq!(report["hosts"][0]["node"], task["attempts"][first - 1]["node"]);
}
