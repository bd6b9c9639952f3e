//! `restore`, and what is left of a run that was killed: nothing, whichever of its processes is
//! killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_machine::fixtures::FixtureTree;

use crate::support::{
    Folder, Output, Running, cpus, joined, kill, marked, ringfence, ringfence_in, skip, wait_for,
};

const JOURNAL: &str = "/run/ringfence/changes-4711-9-1.journal";
const SYSCTL: &str = "/proc/sys/vm/dirty_ratio";

fn restore(tree: &FixtureTree, args: &[&str]) -> Output {
    let root = tree.root().path("/");
    ringfence(&[&["restore"], args, &["--root", root.to_str().unwrap()]].concat())
}

// A run was killed that had set a sysctl from 20 to 5.
fn killed(schema: u32) -> FixtureTree {
    let tree = FixtureTree::empty("restore");
    tree.write(SYSCTL, "5\n");
    let head = format!(
        r#"{{"schema":{schema},"boot":"","owner":{{"tid":4711,"start":9}},"purpose":"a run"}}
{{"do":"set","file":"{SYSCTL}","was":"20","ours":"5"}}
"#
    );
    tree.write(JOURNAL, head);
    tree
}

#[test]
fn a_dry_run_tells_and_the_other_does() {
    let tree = killed(1);
    let told = |verb: &str| {
        format!("Changes of 'a run' that {verb} undone:\n  set /proc/sys/vm/dirty_ratio to 20\n")
    };
    assert_eq!(restore(&tree, &["--dry-run"]).ok(), told("would be"));
    let json = restore(&tree, &["--dry-run", "--json"]).json();
    assert_eq!(json["would_put_back"][0]["steps"][0], "set /proc/sys/vm/dirty_ratio to 20");
    assert_eq!(tree.root().read_trimmed(SYSCTL).unwrap(), "5");
    assert_eq!(restore(&tree, &[]).ok(), told("were"));
    assert_eq!(tree.root().read_trimmed(SYSCTL).unwrap(), "20");
    assert!(!tree.root().exists(JOURNAL));
    assert!(restore(&tree, &[]).ok().starts_with("Nothing to restore"));
}

#[test]
fn what_somebody_else_has_set_meanwhile_stays() {
    let tree = killed(1);
    tree.write(SYSCTL, "33\n");
    let text = restore(&tree, &[]).ok().to_owned();
    assert!(
        text.contains("Changed by another program since") && text.contains("is now 33, was 20"),
        "{text}"
    );
    assert_eq!(tree.root().read_trimmed(SYSCTL).unwrap(), "33");
}

#[test]
fn a_journal_of_a_newer_version_is_named_and_left() {
    let tree = killed(2);
    for args in [&["--dry-run"][..], &[]] {
        let output = restore(&tree, args);
        assert_eq!(output.code(), Some(1), "{}", output.stdout);
        assert!(
            output.stderr.contains("its schema is 2, this program reads 1"),
            "{}",
            output.stderr
        );
    }
    assert!(tree.root().exists(JOURNAL));
}

#[test]
fn a_kept_setting_that_cannot_be_read_is_not_called_kept() {
    let tree = FixtureTree::empty("restore");
    tree.write("/run/ringfence/resctrl.kept", "{}\n");
    let output = restore(&tree, &["--dry-run"]);
    assert_eq!(output.code(), Some(1), "{}", output.stdout);
    let said = output.stdout + &output.stderr;
    assert!(
        said.contains("resctrl.kept holds '{}\\n': not a journal") && !said.contains("on request"),
        "{said}"
    );
}

// Groups that a process has made, by its number, in either version's usual places.
fn groups(pid: i32) -> Vec<PathBuf> {
    let of =
        |place: &str| fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(&format!("ringfence-{pid}-"))
    };
    ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/blkio"]
        .into_iter()
        .flat_map(of)
        .filter(ours)
        .collect()
}

fn journals(pid: i32) -> Vec<PathBuf> {
    let entries =
        fs::read_dir("/run/ringfence").into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_string_lossy().contains(&format!("/changes-{pid}-"))).collect()
}

fn is_put_back(pid: i32) -> Option<()> {
    (groups(pid).is_empty() && journals(pid).is_empty()).then_some(())
}

// Two busy loops on one CPU, with a weight or a quota; `None` where no group can be made.
fn under_way(folder: &Path, table: &str, arm: &str) -> Option<Running> {
    let cpu = cpus()[0];
    let busy = format!(
        "{{ workload = 'command', unit = 'lines', {table} run = 'sh -c \"while :; do echo; sleep \
         0.001; done\"' }}"
    );
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nlooks = [50]\nrounds = 50\nprobe = \
         '0ms'\nwindow = '20ms'\n\
         [[role]]\nname = 'victim'\ncpus = '{cpu}'\ntask = {busy}\n\
         [[role]]\nname = 'other'\ncpus = '{cpu}'\ntask = {busy}\n\
         [[arm]]\nname = 'both'\nactive = ['victim', 'other']\n{arm}\n"
    );
    fs::write(folder.join("x.toml"), text).unwrap();
    let args = ["run", "x.toml", "--quiet", "--out", "data", "--system"];
    let mut run = Running::start(folder, &args);
    // Where no group can be made, it has ended.
    let mut begun = || {
        let journal = fs::read(folder.join("data/samples.journal")).unwrap_or_default();
        journal.iter().filter(|byte| **byte == b'\n').count() > 3
            || run.child.try_wait().unwrap().is_some()
    };
    wait_for("the first windows", || begun().then_some(()));
    if fs::metadata("/sys/fs/cgroup/cpu").is_err()
        && fs::metadata("/sys/fs/cgroup/cpu.weight").is_err()
    {
        skip("no CPU controller of control groups");
        return None;
    }
    Some(run)
}

fn guardian(run: &Running) -> i32 {
    let look =
        || marked(&run.mark).into_iter().find(|process| process.name == "ringfence-guardian");
    wait_for("the guardian", look).pid
}

const WEIGHT: &str = "cpu_weight = { other = 1 }";

// Of what the current folder lies on.
const WRITE_LIMIT: &str = "disk_write = { other = '5MiB/s' }";

#[test]
fn a_weight_and_a_limit_of_writing_go_with_the_program() {
    for arm in [WEIGHT, WRITE_LIMIT] {
        let folder = Folder::new();
        let Some(run) = under_way(folder.path(), "", arm) else { return };
        let pid = run.child.id() as i32;
        if groups(pid).is_empty() {
            skip(&format!("no control group can be made for {arm}"));
            continue;
        }
        assert_eq!(journals(pid).len(), 1);
        run.signal(libc::SIGKILL);
        wait_for("the guardian to put back", || is_put_back(pid));
        run.wait();
    }
}

// No process is left to restore it: the next start does, or a user.
#[test]
fn what_nobody_could_put_back_is_put_back_later() {
    let folder = Folder::new();
    let Some(run) = under_way(folder.path(), "", WEIGHT) else { return };
    let pid = run.child.id() as i32;
    if groups(pid).is_empty() {
        return skip("no control group can be made");
    }
    let guardian = guardian(&run);
    kill(guardian, libc::SIGSTOP);
    run.signal(libc::SIGKILL);
    kill(guardian, libc::SIGKILL);
    for process in marked(&run.mark) {
        kill(process.pid, libc::SIGKILL);
    }
    run.wait();
    ringfence(&["restore"]).ok();
    assert_eq!((groups(pid), journals(pid)), (vec![], vec![]));
}

// A disk of a file that is this test's own, so that no other program uses its queue. A device that
// is free keeps what its queue was set to, so that this has what it had then.
struct Loop {
    name: String,
    before: String,
}

impl Loop {
    fn new(folder: &Path) -> Option<Self> {
        let file = folder.join("disk");
        fs::File::create(&file).and_then(|made| made.set_len(1 << 20)).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        let output = output.ok().filter(|output| output.status.success())?;
        let device = String::from_utf8(output.stdout).unwrap();
        let name = device.trim().trim_start_matches("/dev/").to_owned();
        let mut made = Self { name, before: String::new() };
        made.before = made.now();
        Some(made)
    }

    fn requests(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join("queue/nr_requests")
    }

    fn now(&self) -> String {
        fs::read_to_string(self.requests()).unwrap().trim().to_owned()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = fs::write(self.requests(), &self.before);
        let _ = Command::new("losetup").args(["--detach", &format!("/dev/{}", self.name)]).status();
    }
}

#[test]
fn settings_of_the_whole_system_go_with_the_program_and_only_where_they_are_allowed() {
    let folder = Folder::new();
    let Some(disk) = Loop::new(folder.path()) else {
        return skip("no loop device can be made here");
    };
    let before = "64";
    if fs::write(disk.requests(), before).is_err() {
        return skip("nr_requests of a loop device cannot be written here");
    }
    let arm = format!("system = {{ '{}/nr_requests' = '32' }}", disk.name);
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let Some(run) = under_way(folder.path(), "", &arm) else { return };
        let pid = run.child.id() as i32;
        wait_for("the setting", || (disk.now() == "32").then_some(()));
        assert_eq!(journals(pid).len(), 1);
        run.signal(signal);
        wait_for("what was there", || (disk.now() == before).then_some(()));
        wait_for("the journal to go", || is_put_back(pid));
        run.wait();
        fs::remove_dir_all(folder.path().join("data")).unwrap();
    }
    // What another process has set meanwhile stays, and is reported.
    let file = folder.path().join("x.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("looks = [50]", "looks = [2]"))
        .unwrap();
    let run = Running::start(folder.path(), &["run", "x.toml", "-qv", "--out", "data", "--system"]);
    wait_for("the setting", || (disk.now() == "32").then_some(()));
    fs::write(disk.requests(), "48").unwrap();
    let said = run.wait().said();
    assert_eq!(disk.now(), "48");
    assert!(
        joined(&said).contains(&format!("nr_requests is now 48, was {before} before")),
        "{said}"
    );
    // Without the flag.
    let output = ringfence_in(folder.path(), &["run", "x.toml", "--quiet", "--out", "refused"]);
    assert_eq!((output.code(), disk.now().as_str()), (Some(2), "48"), "{}", output.said());
    assert!(
        output.stderr.contains("it changes the whole system; --system allows it"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_quota_goes_with_whoever_is_killed() {
    for whom in ["program", "guardian"] {
        let folder = Folder::new();
        let Some(run) = under_way(folder.path(), "quota = '20%',", "") else { return };
        let guardian = guardian(&run);
        if groups(guardian).is_empty() {
            return skip("no control group can be made");
        }
        assert_eq!(journals(guardian).len(), 1);
        kill(if whom == "program" { run.child.id() as i32 } else { guardian }, libc::SIGKILL);
        wait_for(whom, || is_put_back(guardian));
        run.wait();
    }
}
