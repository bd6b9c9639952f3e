//! A service to ask and neighbours that run already, as processes of their own.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::{kill, wait_for};

/// The test that a service's process runs. Each program of tests with services has one of that
/// name, in any module, and it calls [`serve_if_asked`].
pub const ENTRY: &str = "serves_when_a_test_asks_for_it";
const KIND: &str = "RINGFENCE_TEST_SERVICE";
const ANSWER: &[u8] = b"+PONG\r\n";

/// What a service does before it answers.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Nothing.
    Echo,
    /// It asks a program by one pipe, which answers by the other.
    Asks(PathBuf, PathBuf),
    /// It waits for 2 ms, and for 10 ms more unless a process is stopped or a file says this: as if
    /// its neighbour cost it that.
    HeldUp(u32, PathBuf, String),
    /// It waits for a while, longer for a share of the questions while a process is not stopped,
    /// and writes at its end how long each took.
    Plants(Planted, PathBuf),
}

/// What is planted: a base that is exponential above a least time, and a delay.
#[derive(Debug, Clone, Copy)]
pub struct Planted {
    pub pid: u32,
    pub least_us: u64,
    pub mean_us: u64,
    /// Every how many-th question is delayed, in the mean; 0 for none.
    pub one_of: u64,
    pub delay_us: u64,
    pub seed: u64,
}

impl Kind {
    fn word(&self) -> String {
        match self {
            Kind::Echo => "echo".into(),
            Kind::Asks(to, from) => format!("asks {} {}", to.display(), from.display()),
            Kind::HeldUp(pid, file, text) => format!("held-up {pid} {} {text}", file.display()),
            Kind::Plants(Planted { pid, least_us, mean_us, one_of, delay_us, seed }, log) => {
                format!(
                    "plants {pid} {least_us} {mean_us} {one_of} {delay_us} {seed} {}",
                    log.display()
                )
            }
        }
    }

    fn of_word(word: &str) -> Self {
        let words: Vec<&str> = word.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "echo" => Kind::Echo,
            "asks" => Kind::Asks(words[1].into(), words[2].into()),
            "held-up" => Kind::HeldUp(number(1) as u32, words[2].into(), words[3].into()),
            _ => {
                let planted = Planted {
                    pid: number(1) as u32,
                    least_us: number(2),
                    mean_us: number(3),
                    one_of: number(4),
                    delay_us: number(5),
                    seed: number(6),
                };
                Kind::Plants(planted, words[7].into())
            }
        }
    }
}

/// A service in a process of its own: this test's program once more. It ends when it is dropped, or
/// the test ends.
pub struct Service {
    child: Child,
    pub port: u16,
    stopped: Arc<AtomicU32>,
    over: Arc<AtomicBool>,
    watch: Option<JoinHandle<()>>,
    // The test's program fails where it can print no longer, which it does after a minute.
    _output: Box<dyn std::any::Any>,
}

impl Service {
    pub fn start(kind: &Kind) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([ENTRY, "--nocapture"])
            .env(KIND, kind.word())
            .env_remove("RINGFENCE_REQUIRE_ALL")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.by_ref().find_map(|line| line.split_once("port ")?.1.trim().parse().ok());
        let _output = Box::new(lines);
        let (stopped, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let watch = watch(child.id(), stopped.clone(), over.clone());
        let port = port.expect("the service says its port");
        Self { child, port, stopped, over, watch: Some(watch), _output }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    /// Ends it, so that its log is whole.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// How often its parent, this test, has seen it stopped.
    pub fn stops(&self) -> u32 {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// A parent is notified that a child has stopped, however short the stop: a pause takes many times
// as long.
fn watch(pid: u32, stopped: Arc<AtomicU32>, over: Arc<AtomicBool>) -> JoinHandle<()> {
    let id = WaitId::Pid(Pid::from_raw(pid as i32).unwrap());
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            if matches!(waitid(id.clone(), options), Ok(Some(_))) {
                stopped.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    })
}

/// Serves until the test that asked for it ends; returns at once where none has.
pub fn serve_if_asked() {
    let Ok(word) = std::env::var(KIND) else { return };
    let kind = Kind::of_word(&word);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("port {}", listener.local_addr().unwrap().port());
    let logged = Arc::new(Mutex::new(String::new()));
    let (all, log) =
        (logged.clone(), if let Kind::Plants(_, log) = &kind { Some(log.clone()) } else { None });
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let all = all.lock().unwrap();
        log.into_iter().for_each(|log| fs::write(log, &*all).unwrap());
        std::process::exit(0);
    });
    let before: Arc<dyn Fn() + Send + Sync> = match kind {
        Kind::Echo => Arc::new(|| {}),
        Kind::Asks(to, from) => {
            let to = fs::OpenOptions::new().write(true).open(to).unwrap();
            let from = BufReader::new(fs::File::open(from).unwrap());
            let both = Mutex::new((to, from));
            Arc::new(move || {
                let mut both = both.lock().unwrap();
                both.0.write_all(b"?\n").unwrap();
                both.1.read_line(&mut String::new()).unwrap();
            })
        }
        Kind::HeldUp(pid, file, text) => Arc::new(move || {
            let says = fs::read_to_string(&file).unwrap_or_default();
            let is_free = state(pid) == Some('T') || says.trim() == text;
            std::thread::sleep(Duration::from_millis(if is_free { 2 } else { 12 }));
        }),
        Kind::Plants(planted, _) => {
            // So that it takes as long as it plants, on a busy machine too. Without this permission
            // the delays are noisier.
            let own = std::process::id().to_string();
            let _ =
                Command::new("chrt").args(["-f", "-p", "1", &own]).stderr(Stdio::null()).status();
            let seed = AtomicU64::new(planted.seed);
            Arc::new(move || {
                let begun = Instant::now();
                let runs = state(planted.pid) != Some('T');
                std::thread::sleep(planted_time(&planted, runs, &seed));
                let line = format!("{} {}\n", u8::from(runs), begun.elapsed().as_nanos());
                logged.lock().unwrap().push_str(&line);
            })
        }
    };
    for stream in listener.incoming().map_while(Result::ok) {
        let before = before.clone();
        std::thread::spawn(move || talk(stream, &*before));
    }
}

fn talk(mut stream: TcpStream, before: &dyn Fn()) {
    let _ = stream.set_nodelay(true);
    let Ok(reader) = stream.try_clone() else { return };
    for _ in BufReader::new(reader).lines().map_while(Result::ok) {
        before();
        if stream.write_all(ANSWER).is_err() {
            return;
        }
    }
}

fn planted_time(planted: &Planted, runs: bool, seed: &AtomicU64) -> Duration {
    // SplitMix64 (Steele, Lea and Flood, 2014).
    let next = || {
        let mut z = seed.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let even = ((next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let base = planted.least_us as f64 - even.ln() * planted.mean_us as f64;
    let is_delayed = planted.one_of > 0 && next().is_multiple_of(planted.one_of) && runs;
    let delay = if is_delayed { planted.delay_us } else { 0 };
    Duration::from_secs_f64(base / 1e6) + Duration::from_micros(delay)
}

/// What a neighbour does.
pub const BUSY_WITH_CHILDREN: &str =
    "sh -c 'while :; do /bin/true; sleep 0.001; done' & sleep 3600 & while :; do :; done";

/// A program in a process group of its own, which ends with all that it has started when this is
/// dropped.
pub struct Neighbour(Child);

impl Neighbour {
    pub fn shell(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Self::start(command)
    }

    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.process_group(0).spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// All that live in its process group.
    pub fn all(&self) -> Vec<u32> {
        let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
        let pids = names.filter_map(|name| name.to_str()?.parse().ok());
        let group = self.pid().to_string();
        pids.filter(|pid| {
            let stat = stat(*pid);
            stat.get(2) == Some(&group) && stat[0] != "Z" && stat[0] != "X"
        })
        .collect()
    }

    pub fn wait_for(&self, count: usize) {
        wait_for("the neighbour's processes", || (self.all().len() >= count).then_some(()));
    }

    /// Whether some of it stands by a signal.
    pub fn is_stopped(&self) -> bool {
        self.all().into_iter().any(|pid| state(pid) == Some('T'))
    }

    /// Waits until nothing of it stands, and its first process uses CPU time if it is busy.
    pub fn must_go_on(&self, is_busy: bool) {
        let before = cpu_time(self.pid());
        wait_for("the neighbour goes on", || {
            let used = !is_busy || cpu_time(self.pid()) > before;
            (!self.is_stopped() && used).then_some(())
        });
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        // Some may be forked while they are killed.
        loop {
            for pid in self.all() {
                kill(pid as i32, libc::SIGKILL);
            }
            let _ = self.0.try_wait();
            if self.all().is_empty() || Instant::now() > until {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// /proc/PID/stat from the state on; empty for one that is gone.
fn stat(pid: u32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split_whitespace().map(str::to_owned).collect()
}

pub fn state(pid: u32) -> Option<char> {
    stat(pid).first()?.chars().next()
}

fn cpu_time(pid: u32) -> u64 {
    // On a CPU, ns.
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|used| used.parse().ok()).unwrap_or(0)
}

/// Where a process may run and to which groups it belongs.
pub fn place(pid: u32) -> (String, String) {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let status = read("status");
    let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap();
    (allowed.to_owned(), read("cgroup"))
}

/// Journals of what a run has changed and not restored.
pub fn journals(pid: u32) -> Vec<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("ringfence"));
    let folders = [Some("/run/ringfence".into()), session];
    let files =
        folders.into_iter().flatten().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = files.flatten().map(|entry| entry.path());
    paths.filter(|path| path.to_string_lossy().contains(&format!("/changes-{pid}-"))).collect()
}

/// A control group of this machine with processes of the test; it goes when it is dropped.
pub struct Group {
    pub folder: PathBuf,
    pub file: &'static str,
}

impl Group {
    /// One that can be frozen, of version 2 or 1.
    ///
    /// # Errors
    /// Why there is none here.
    pub fn make(name: &str, file: &'static str) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let point = mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let is_it = match file {
                "cgroup.freeze" => words[2] == "cgroup2",
                _ => words[2] == "cgroup" && words[3].split(',').any(|option| option == "freezer"),
            };
            is_it.then(|| PathBuf::from(words[1]))
        });
        let point = point.ok_or_else(|| format!("no control groups with {file} are mounted"))?;
        let folder = point.join(format!("test-of-services-{}-{name}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("making {}: {error}", folder.display()))?;
        let group = Self { folder, file };
        let is_there = group.folder.join(file).exists();
        if is_there { Ok(group) } else { Err(format!("{} has no {file}", group.folder.display())) }
    }

    /// One that has a controller of version 1, and a file of it.
    ///
    /// # Errors
    /// Why there is none here.
    pub fn of_controller(name: &str, controller: &str, file: &'static str) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let point = mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let has =
                words[2] == "cgroup" && words[3].split(',').any(|option| option == controller);
            has.then(|| PathBuf::from(words[1]))
        });
        let point = point
            .ok_or_else(|| format!("no {controller} of version 1 of control groups is mounted"))?;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = point.join(format!("test-of-services-{}-{name}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("making {}: {error}", folder.display()))?;
        let group = Self { folder, file };
        // No process can be in a group that has none.
        for needed in ["cpuset.cpus", "cpuset.mems"].iter().filter(|_| controller == "cpuset") {
            let value =
                fs::read_to_string(point.join(needed)).map_err(|error| error.to_string())?;
            fs::write(group.folder.join(needed), value)
                .map_err(|error| format!("writing {needed}: {error}"))?;
        }
        let is_there = group.folder.join(file).exists();
        if is_there { Ok(group) } else { Err(format!("{} has no {file}", group.folder.display())) }
    }

    /// A neighbour that begins in it.
    pub fn shell(&self, script: &str) -> Neighbour {
        Neighbour::shell(&format!(
            "echo $$ > '{}/cgroup.procs' && {{ {script}; }}",
            self.folder.display()
        ))
    }

    pub fn is_thawed(&self) -> bool {
        let text = fs::read_to_string(self.folder.join(self.file)).unwrap();
        matches!(text.trim(), "0" | "THAWED")
    }

    /// Its path as in `/proc/PID/cgroup`.
    pub fn path(&self) -> String {
        format!("/{}", self.folder.file_name().unwrap().to_string_lossy())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What is killed while it is frozen ends when it is thawed.
        let freezer = matches!(self.file, "cgroup.freeze" | "freezer.state");
        for word in ["0", "THAWED"].iter().filter(|_| freezer) {
            let _ = fs::write(self.folder.join(self.file), word);
        }
        for _ in 0..4000 {
            let inside = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
            for pid in inside.lines().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 1) {
                kill(pid, libc::SIGKILL);
            }
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
