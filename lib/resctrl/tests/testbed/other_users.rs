//! What others do at the same time on a real kernel, in the testbed: another user, another
//! namespace, another mount, groups under our names, CPUs that go offline, a disk that is full.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ringfence_resctrl::transaction::{left, recover};
use ringfence_resctrl::{
    Absent, Error, GroupId, Mode, MountOptions, Options, Resctrl, State, Step, Transaction,
};
use ringfence_system::root::FsRoot;

use crate::host::{group, resctrl, schemata};

const ROLE: &str = "RINGFENCE_ROLE";
const NOBODY: u32 = 65534;
const SESSION: &str = "/run/user/65534";
const PLACE: &str = "/sys/fs/resctrl";

#[test]
fn others_on_a_real_kernel() {
    ringfence_testbed::scenarios!(
        |testbed| testbed.profile("broadwell").mount("-").time(600),
        clean,
        [
            root_and_a_user_at_once,
            what_a_user_left_is_said_to_root,
            unmounted_and_mounted_again,
            made_anew_by_somebody_else,
            a_tmpfs_mounted_over_it,
            a_region_is_not_removed_from_inside_a_pid_namespace,
            an_offline_cpu_keeps_nobody_from_anything,
            a_full_disk_at_recovery,
        ],
    );
}

#[test]
fn caches_that_go_offline() {
    ringfence_testbed::scenarios!(
        |testbed| testbed.profile("sockets").mount("-").time(300),
        clean,
        [the_mask_of_an_offline_cache_waits],
    );
}

fn clean() -> Result<(), String> {
    let state = State::read(&resctrl()).map_err(|error| error.to_string())?;
    let default = &state.groups[&GroupId::default()];
    let whole = default.schemata.to_string().contains("L3:0=fffff")
        && default.mode == Some(Mode::Shareable);
    let journals = left(&FsRoot::host(), None);
    let done = state.groups.len() == 1 && whole && journals.is_empty();
    if done { Ok(()) } else { Err(format!("{state:?} {journals:?}")) }
}

fn set(group: &str, text: &str) -> Step {
    Step::Schemata { group: group.parse().unwrap(), schemata: schemata(text) }
}

fn own() -> GroupId {
    GroupId::control("own")
}

fn create() -> Step {
    Step::Create { group: own() }
}

fn begin(purpose: &str) -> Result<Transaction, Error> {
    Transaction::begin(&resctrl(), purpose, &Options::default())
}

fn left_behind(steps: &[Step]) {
    let mut killed = begin("killed").unwrap();
    steps.iter().for_each(|step| killed.apply(step.clone()).unwrap());
    killed.abandon();
}

// A child of this program that plays a part. The harness's own words end with the blank line before
// its own.
#[test]
#[ignore = "a part that the tests above play in the testbed"]
fn part() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "hold" => {
            let mut change = begin("held").unwrap();
            change.apply(set("", "L3:0=ff")).unwrap();
            println!("\nready");
            std::io::stdin().lines().for_each(drop);
            change.restore().unwrap();
        }
        // In a PID namespace of its own, as the first process of it: with its own /proc, or with
        // the one from outside.
        "remove" | "remove below the outer proc" => {
            if role == "remove" {
                let mounted =
                    Command::new("mount").args(["-t", "proc", "proc", "/proc"]).status().unwrap();
                assert!(mounted.success());
            }
            println!("\nready");
            println!("{}", group("hot").remove().unwrap_err());
        }
        other => panic!("no part is called {other}"),
    }
}

struct Part(Child);

impl Part {
    fn command(role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "other_users::part",
            "--exact",
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn start(mut command: Command) -> Self {
        let mut part = Self(command.spawn().unwrap());
        let line = part.lines().find(|line| line == "ready");
        assert!(line.is_some(), "{:?}", part.0.wait());
        part
    }

    // As a user with a session: journals lie in its folder.
    fn of_nobody() -> Self {
        let mut command = Self::command("hold");
        command.env("XDG_RUNTIME_DIR", SESSION).uid(NOBODY).gid(NOBODY);
        Self::start(command)
    }

    fn lines(&mut self) -> impl Iterator<Item = String> {
        // A buffer would take what comes later with it, so byte by byte.
        BufReader::with_capacity(1, self.0.stdout.as_mut().unwrap()).lines().map(Result::unwrap)
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// Root gives a user the files that a change of the default group takes.
fn give_to_nobody(user: u32) {
    fs::create_dir_all(SESSION).unwrap();
    for file in [SESSION, PLACE, &format!("{PLACE}/schemata"), &format!("{PLACE}/tasks")] {
        std::os::unix::fs::chown(file, Some(user), Some(user)).unwrap();
    }
}

fn root_and_a_user_at_once() {
    give_to_nobody(NOBODY);
    let before = State::read(&resctrl()).unwrap();
    let user = Part::of_nobody();
    let text = begin("root's").err().unwrap().to_string();
    assert!(text.contains(&format!("process {} is changing resctrl", user.0.id())), "{text}");
    assert!(Path::new(SESSION).join("ringfence/resctrl.journal").exists());
    user.end();
    // And the other way round: the user waits for root.
    let mut change = begin("root's").unwrap();
    let mut command = Part::command("hold");
    command.env("XDG_RUNTIME_DIR", SESSION).uid(NOBODY).gid(NOBODY).stderr(Stdio::piped());
    let refused = command.spawn().unwrap().wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
    assert!(!refused.status.success() && text.contains("is changing resctrl"), "{text}");
    change.restore().unwrap();
    drop(change);
    assert_eq!(State::read(&resctrl()).unwrap(), before);
    give_to_nobody(0);
}

fn what_a_user_left_is_said_to_root() {
    give_to_nobody(NOBODY);
    let before = State::read(&resctrl()).unwrap();
    drop(Part::of_nobody());
    let text = begin("root's").err().unwrap().to_string();
    let folder = Path::new(SESSION).join("ringfence");
    assert!(text.contains("'held', started by user 65534, was killed"), "{text}");
    assert!(text.contains(&format!("--folder {}", folder.display())), "{text}");
    let seen = left(&FsRoot::host(), None);
    assert!(seen.len() == 1 && seen[0].folder == folder && seen[0].is_others(), "{seen:?}");
    let options = Options { folder: Some(folder), ..Options::default() };
    recover(&resctrl(), &options).unwrap().unwrap();
    assert_eq!(State::read(&resctrl()).unwrap(), before);
    begin("root's").unwrap();
    give_to_nobody(0);
}

fn unmounted_and_mounted_again() {
    left_behind(&[set("", "L3:0=ff"), create(), set("own", "L3:0=ff00")]);
    resctrl().unmount().unwrap();
    Resctrl::mount(MountOptions::default()).unwrap();
    // Another process sets just what the transaction had set.
    group("").set_schemata(&schemata("L3:0=ff")).unwrap();
    group("own").create().unwrap();
    group("own").set_schemata(&schemata("L3:0=ff00")).unwrap();
    let theirs = State::read(&resctrl()).unwrap();
    assert_eq!(recover(&resctrl(), &Options::default()).unwrap(), None);
    assert_eq!(State::read(&resctrl()).unwrap(), theirs);
    group("own").remove().unwrap();
    group("").set_schemata(&schemata("L3:0=fffff")).unwrap();
}

fn made_anew_by_somebody_else() {
    left_behind(&[create(), set("own", "L3:0=ff00")]);
    group("own").remove().unwrap();
    group("own").create().unwrap();
    // What the kernel forgets when memory is short does not make it another group.
    fs::write("/proc/sys/vm/drop_caches", "2\n").unwrap();
    let restored = recover(&resctrl(), &Options::default()).unwrap().unwrap();
    assert!(restored.left[0].starts_with("own is now another group"), "{:?}", restored.left);
    assert!(group("own").exists());
    group("own").remove().unwrap();
    left_behind(&[create(), set("own", "L3:0=ff00")]);
    fs::write("/proc/sys/vm/drop_caches", "2\n").unwrap();
    assert_eq!(recover(&resctrl(), &Options::default()).unwrap().unwrap().left, [] as [String; 0]);
    assert!(!group("own").exists());
}

fn a_tmpfs_mounted_over_it() {
    left_behind(&[create(), set("", "L3:0=ff")]);
    let before = resctrl();
    let mount =
        |args: &[&str]| assert!(Command::new("mount").args(args).status().unwrap().success());
    mount(&["-t", "tmpfs", "tmpfs", PLACE]);
    // The same names, and no resctrl.
    fs::create_dir_all(format!("{PLACE}/own")).unwrap();
    fs::create_dir_all(format!("{PLACE}/info")).unwrap();
    assert_eq!(Resctrl::find(&FsRoot::host()).unwrap_err(), Absent::Covered(PLACE.into()));
    // Found before it was covered, too.
    let refused = recover(&before, &Options::default()).unwrap_err();
    assert!(matches!(refused, Error::Absent(Absent::Covered(_))), "{refused}");
    assert!(Path::new(PLACE).join("own").exists());
    assert!(Command::new("umount").arg(PLACE).status().unwrap().success());
    recover(&resctrl(), &Options::default()).unwrap().unwrap();
    assert!(!group("own").exists());
}

fn a_region_is_not_removed_from_inside_a_pid_namespace() {
    group("").set_schemata(&schemata("L3:0=fff00")).unwrap();
    group("hot").create().unwrap();
    group("hot").set_mode(Mode::PseudoLocksetup).unwrap();
    group("hot").set_schemata(&schemata("L3:0=3")).unwrap();
    let device = group("hot").device();
    let open = fs::File::open(&device).unwrap();
    let says = |role: &str, part: &str| {
        let mut command = Command::new("unshare");
        let this = std::env::current_exe().unwrap();
        command.args(["-m", "-p", "-f"]).arg(this);
        command.args([
            "other_users::part",
            "--exact",
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        let output = command.env(ROLE, role).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(part), "{text} {}", String::from_utf8_lossy(&output.stderr));
    };
    says(
        "remove",
        "the users of /dev/pseudo_lock/hot are unknown, because /proc shows the processes of one \
         PID",
    );
    assert!(group("hot").exists());
    says("remove below the outer proc", &format!("is in use by process {}", std::process::id()));
    drop(open);
    // From there not all processes can be seen, whether one has it open or not.
    says("remove", "are unknown");
    group("hot").remove().unwrap();
    group("").set_schemata(&schemata("L3:0=fffff")).unwrap();
}

fn online(cpus: std::ops::Range<u32>, online: bool) {
    for cpu in cpus {
        fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), u8::from(online).to_string())
            .unwrap();
    }
}

fn an_offline_cpu_keeps_nobody_from_anything() {
    group("web").create().unwrap();
    group("web").set_cpus(&"0-1".parse().unwrap()).unwrap();
    left_behind(&[create(), Step::Cpus { group: own(), cpus: "1".parse().unwrap() }]);
    online(1..2, false);
    let next = begin("next").unwrap();
    assert_eq!(next.recovered().unwrap().waiting, ["CPUs 1 of web: offline"]);
    drop(next);
    assert_eq!(group("web").cpus().unwrap().to_string(), "0");
    online(1..2, true);
    let restored = recover(&resctrl(), &Options::default()).unwrap().unwrap();
    assert_eq!((restored.waiting, restored.left), (Vec::new(), Vec::new()));
    assert_eq!(group("web").cpus().unwrap().to_string(), "0-1");
    group("web").remove().unwrap();
}

fn the_mask_of_an_offline_cache_waits() {
    group("web").create().unwrap();
    group("web").set_schemata(&schemata("L3:0=ff;1=f0")).unwrap();
    let before = State::read(&resctrl()).unwrap();
    left_behind(&[set("web", "L3:0=f;1=f"), create()]);
    online(2..4, false);
    let restored = recover(&resctrl(), &Options::default()).unwrap().unwrap();
    assert!(
        restored.waiting.iter().any(|text| text.starts_with("L3:1 of web, which was")),
        "{restored:?}"
    );
    assert!(!group("own").exists());
    begin("next").unwrap();
    online(2..4, true);
    let restored = recover(&resctrl(), &Options::default()).unwrap().unwrap();
    assert_eq!((restored.waiting, restored.left), (Vec::new(), Vec::new()));
    assert_eq!(State::read(&resctrl()).unwrap(), before);
    group("web").remove().unwrap();
}

fn a_full_disk_at_recovery() {
    let folder = Path::new("/tmp/full");
    fs::create_dir_all(folder).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=32k", "tmpfs"]).arg(folder).status();
    assert!(mounted.unwrap().success());
    let options = Options { folder: Some(folder.into()), ..Options::default() };
    let before = State::read(&resctrl()).unwrap();
    let mut killed = Transaction::begin(&resctrl(), "killed", &options).unwrap();
    killed.apply(set("", "L3:0=ff")).unwrap();
    killed.abandon();
    fs::write(folder.join("filler"), vec![0; 65536]).unwrap_err();
    // Going back needs no room.
    recover(&resctrl(), &options).unwrap().unwrap();
    assert_eq!(State::read(&resctrl()).unwrap(), before);
    // Beginning does, and says so.
    fs::write(folder.join("more"), vec![0; 65536]).unwrap_err();
    let refused = Transaction::begin(&resctrl(), "next", &options).err().unwrap();
    let text = refused.to_string();
    assert_eq!(refused.errno(), Some(libc::ENOSPC), "{text}");
    assert!(text.contains("no room left") && !text.contains("root"), "{text}");
    assert!(Command::new("umount").arg(folder).status().unwrap().success());
}
