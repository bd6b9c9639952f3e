//! Where a scenario runs: a kernel in the guest, or the model.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_resctrl::kernel::model::{Hardware, Model};
use ringfence_resctrl::{Error, Group, Mode, Resctrl, Schemata, State};
use ringfence_system::root::FsRoot;

pub trait Env {
    fn fs(&self) -> Resctrl;
    /// A process that sleeps; its id.
    fn spawn(&self) -> u32;
    /// It starts another one; its id.
    fn fork(&self, from: u32) -> u32;
    /// Ends a process, and waits for it; one that another has started, after that one.
    fn end(&self, pid: u32);
    fn set_online(&self, cpu: u32, online: bool);
    /// Acts as a user without any permission.
    fn as_nobody(&self, act: &mut dyn FnMut());
    /// Ends every process that is left.
    fn end_all(&self);

    fn group(&self, path: &str) -> Group {
        self.fs().group(&path.parse().unwrap())
    }

    fn make(&self, path: &str) -> Group {
        let (group, begun) = (self.group(path), Instant::now());
        // Where there are two sockets, a number for monitoring that was given back is busy for a
        // second.
        while let Err(error) = group.create() {
            assert!(
                error.errno() == Some(libc::EBUSY) && begun.elapsed() < Duration::from_secs(10),
                "{error}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        group
    }

    /// Writes what this library would not; the errno, and what the status says then.
    fn write(&self, path: &str, text: &str) -> Result<(), (i32, Option<String>)> {
        let written = self.fs().kernel().write(Path::new(path), text);
        written.map_err(|error| (error.source.raw_os_error().unwrap(), self.fs().last_status()))
    }
}

pub fn set(group: &Group, text: &str) -> Result<(), Error> {
    group.set_schemata(&text.parse::<Schemata>().unwrap())
}

/// What a user is told: what was tried, the errno, the kernel's words, and what to do.
#[track_caller]
pub fn refused<T>(result: Result<T, Error>, tried: &str, errno: i32, words: &str, remedy: &str) {
    let Err(error) = result else { panic!("{tried} was not refused") };
    let text = error.to_string();
    let Error::Refused(refused) = error else { panic!("{text}") };
    assert_eq!(
        (refused.errno(), refused.status.as_deref().unwrap_or_default()),
        (Some(errno), words),
        "{text}"
    );
    assert!(refused.tried.contains(tried), "'{}' does not say '{tried}'", refused.tried);
    assert!(refused.remedy.contains(remedy), "'{}' does not say '{remedy}'", refused.remedy);
    assert!(
        !remedy.is_empty() && text.contains(words) && text.ends_with(&refused.remedy),
        "{text}"
    );
    assert!(!text.contains('\n'), "{text}");
}

/// Everything that a scenario must leave as it was: the groups, and how many more there can be.
#[derive(Debug, PartialEq)]
struct Before {
    state: State,
    free: (usize, usize),
}

impl Before {
    fn read(env: &dyn Env) -> Self {
        Self { state: State::read(&env.fs()).unwrap(), free: free(env) }
    }
}

/// As many groups, and then monitor groups, as can be made.
pub fn free(env: &dyn Env) -> (usize, usize) {
    let make = |base: &str| {
        let groups = (0..1000).map(|n| env.group(&format!("{base}free-{n}")));
        groups.take_while(|group| group.create().is_ok()).collect::<Vec<_>>()
    };
    let (control, monitor) = (make(""), make("mon_groups/"));
    control.iter().chain(&monitor).for_each(|group| group.remove().unwrap());
    (control.len(), monitor.len())
}

/// Until numbers for monitoring are free again: a second in a guest that has a processor to itself,
/// many where several guests share two.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a scenario and sees to it that everything is as before.
pub fn check(env: &dyn Env, scenario: fn(&dyn Env)) {
    let mut before = Before::read(env);
    scenario(env);
    env.end_all();
    // Numbers for monitoring that were given back, by the count as well, are busy for a second (see
    // `make`).
    let begun = Instant::now();
    let mut after = Before::read(env);
    while after != before && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1500));
        // The first count may itself have come too soon after another scenario.
        before.free = before.free.max(after.free);
        after = Before::read(env);
    }
    assert_eq!(after, before);
}

/// After a scenario that failed, so that the next one begins anew.
pub fn clean() -> Result<(), String> {
    let Ok(fs) = Resctrl::find(&FsRoot::host()) else { return Ok(()) };
    let info = fs.info().map_err(|error| error.to_string())?;
    for group in fs.groups().map_err(|error| error.to_string())?.iter().rev() {
        if !group.id().is_default() && group.exists() {
            group.remove().map_err(|error| error.to_string())?;
        }
    }
    let default = fs.default_group();
    let (mut all, now) = (Schemata::new(), default.schemata().map_err(|error| error.to_string())?);
    for (resource, domain, _) in now.settings() {
        if let Some(cache) = info.cache(resource) {
            all.set_mask(resource.clone(), domain, cache.cbm_mask);
        } else if resource.is_bandwidth() {
            let most = if fs.options().mba_mbps { u32::MAX.into() } else { 100 };
            all.set_amount(resource.clone(), domain, most);
        }
    }
    // Numbers for monitoring are free at once: the guest's invented occupancy may lie above the
    // limit for good.
    let threshold = "/sys/fs/resctrl/info/L3_MON/max_threshold_occupancy";
    if Path::new(threshold).exists() {
        fs::write(threshold, "1048576\n").map_err(|error| format!("{threshold}: {error}"))?;
    }
    default
        .set_mode(Mode::Shareable)
        .and_then(|()| default.set_schemata(&all))
        .map_err(|error| error.to_string())
}

/// The kernel that runs here.
pub struct Guest {
    children: RefCell<Vec<Child>>,
}

impl Guest {
    pub fn new() -> Self {
        // What is orphaned here is this process's to wait for, or it would stay in its group as a
        // zombie. SAFETY: it takes no pointer.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }, 0);
        Self { children: RefCell::default() }
    }
}

impl Env for Guest {
    fn fs(&self) -> Resctrl {
        Resctrl::find(&FsRoot::host()).unwrap()
    }

    fn spawn(&self) -> u32 {
        // Starts another process for each line that it is told.
        let mut child = Command::new("sh")
            .args(["-c", "while read line; do sleep 1000 > /dev/null & echo $!; done; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        child.stdin.as_mut().unwrap().flush().unwrap();
        self.children.borrow_mut().push(child);
        pid
    }

    fn fork(&self, from: u32) -> u32 {
        let mut children = self.children.borrow_mut();
        let child = children.iter_mut().find(|child| child.id() == from).unwrap();
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    fn end(&self, pid: u32) {
        let mut children = self.children.borrow_mut();
        if let Some(place) = children.iter().position(|child| child.id() == pid) {
            let mut child = children.remove(place);
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            // Its parent has ended, so that it is this process's child by now.
            // SAFETY: they take no pointer that is not null.
            unsafe {
                assert_eq!(libc::kill(pid as i32, libc::SIGKILL), 0);
                assert_eq!(libc::waitpid(pid as i32, std::ptr::null_mut(), 0), pid as i32);
            }
        }
    }

    fn set_online(&self, cpu: u32, online: bool) {
        fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), u8::from(online).to_string())
            .unwrap();
    }

    fn as_nobody(&self, act: &mut dyn FnMut()) {
        // SAFETY: it takes no pointer; the other threads of the test harness wait.
        assert_eq!(unsafe { libc::seteuid(65534) }, 0);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        // SAFETY: as above.
        assert_eq!(unsafe { libc::seteuid(0) }, 0);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    fn end_all(&self) {
        let all: Vec<u32> = self.children.borrow().iter().map(Child::id).collect();
        all.into_iter().for_each(|pid| self.end(pid));
    }
}

/// The model of it.
pub struct InModel {
    model: Model,
    spawned: RefCell<Vec<u32>>,
}

impl InModel {
    pub fn new(hardware: Hardware) -> Self {
        Self { model: Model::new(hardware), spawned: RefCell::default() }
    }
}

impl Env for InModel {
    fn fs(&self) -> Resctrl {
        self.model.resctrl()
    }

    fn spawn(&self) -> u32 {
        let pid = self.model.spawn();
        self.spawned.borrow_mut().push(pid);
        pid
    }

    fn fork(&self, from: u32) -> u32 {
        let pid = self.model.fork(from);
        self.spawned.borrow_mut().push(pid);
        pid
    }

    fn end(&self, pid: u32) {
        self.model.end(pid);
    }

    fn set_online(&self, cpu: u32, online: bool) {
        self.model.set_online(cpu, online);
    }

    fn as_nobody(&self, act: &mut dyn FnMut()) {
        self.model.ask_as(65534, false);
        act();
        self.model.ask_as(0, true);
    }

    fn end_all(&self) {
        self.spawned.borrow_mut().drain(..).for_each(|pid| self.model.end(pid));
    }
}
