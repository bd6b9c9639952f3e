//! What every test of the program needs: a folder of its own, runs that cannot hang, and a list of
//! the processes that a run has started.

#![allow(dead_code)]

pub mod disk;
pub mod readers;
pub mod schema;
pub mod service;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MARK: &str = "RINGFENCE_TEST_MARK";
/// The folder of results, below a test's folder.
pub const STATE: &str = "state";
/// Against hanging only: a loaded machine must not come near it.
pub const LIMIT: Duration = Duration::from_secs(900);

/// A folder that removes itself.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("ringfence-test-{}", unique()));
        fs::create_dir(&path).expect("a temporary folder can be made");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is in it; the folder of results only if there are any.
    pub fn entries(&self) -> Vec<String> {
        let mut found = names(&self.0);
        found.retain(|name| name != STATE || !self.results().is_empty());
        found
    }

    /// The results that went where they go by default.
    pub fn results(&self) -> Vec<PathBuf> {
        let root = self.0.join(STATE).join("ringfence");
        let names = if root.exists() { names(&root) } else { Vec::new() };
        names.into_iter().map(|name| root.join(name)).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("the folder is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// What a run came to.
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The text of a run that must have gone well.
    pub fn ok(&self) -> &str {
        assert_eq!(self.code(), Some(0), "{:?}\n{}", self.status, self.stderr);
        &self.stdout
    }

    /// The same in one line: where text is broken hangs on how long its figures are.
    pub fn said(&self) -> String {
        joined(self.ok())
    }

    /// The value of a run that printed JSON, which is as its schema says.
    pub fn json(&self) -> serde_json::Value {
        self.ok();
        self.json_of_any()
    }

    /// The same of a run that may have failed.
    pub fn json_of_any(&self) -> serde_json::Value {
        let value = serde_json::from_str(&self.stdout);
        let value =
            value.unwrap_or_else(|error| panic!("{error}:\n{}\n{}", self.stdout, self.stderr));
        check_json(&value);
        value
    }
}

/// The words of a text, one space between them.
pub fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// That a document is as `docs/schema/ringfence.json` says.
#[track_caller]
pub fn check_json(document: &serde_json::Value) {
    let problems = schema::problems(document);
    assert!(
        problems.is_empty(),
        "{} is not as its schema says:\n{}",
        document["schema"],
        problems.join("\n")
    );
}

/// The figure of an estimate in JSON; `None` where it says that it has none, and why. Which of the
/// two it is depends on how noisy the minute was, so that a test takes both.
pub fn figure(estimate: &serde_json::Value) -> Option<f64> {
    let value = estimate["value"].as_f64();
    assert!(
        value.is_some() || estimate["reason"].is_string(),
        "neither a figure nor a reason: {estimate}"
    );
    value
}

/// A run under way: a marked process in a folder, with what it prints. It is killed when dropped.
pub struct Running {
    pub child: Child,
    pub mark: String,
    readers: [Option<JoinHandle<String>>; 2],
}

/// A command that runs the program in `folder`, marked.
pub fn command(folder: &Path, args: &[&str]) -> (Command, String) {
    let mark = unique();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
    command.args(args).current_dir(folder).env(MARK, &mark).env_remove("NO_COLOR");
    command.env("XDG_STATE_HOME", folder.join(STATE));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (command, mark)
}

impl Running {
    pub fn start(folder: &Path, args: &[&str]) -> Self {
        let (command, mark) = command(folder, args);
        Self::spawn(command, mark)
    }

    pub fn spawn(mut command: Command, mark: String) -> Self {
        fn reader(from: Option<impl Read + Send + 'static>) -> Option<JoinHandle<String>> {
            from.map(|mut from| {
                std::thread::spawn(move || {
                    let mut bytes = Vec::new();
                    let _ = from.read_to_end(&mut bytes);
                    String::from_utf8_lossy(&bytes).into_owned()
                })
            })
        }
        let mut child = command.spawn().expect("the program can be started");
        let readers = [reader(child.stdout.take()), reader(child.stderr.take())];
        Self { child, mark, readers }
    }

    pub fn signal(&self, signal: i32) {
        kill(self.child.id() as i32, signal);
    }

    /// Waits for its end. What it started must end with it, or reading what they print would hang.
    pub fn wait(mut self) -> Output {
        let until = Instant::now() + LIMIT;
        let status = loop {
            match self.child.try_wait().expect("it is a child of ours") {
                Some(status) => break status,
                None if Instant::now() > until => {
                    panic!("the program hangs: {:?}", marked(&self.mark))
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let left = gone(&self.mark);
        assert!(left.is_empty(), "left behind: {left:?}");
        let text = |reader: &mut Option<JoinHandle<String>>| {
            reader.take().map(|reader| reader.join().unwrap()).unwrap_or_default()
        };
        let [stdout, stderr] = self.readers.each_mut().map(text);
        assert_ne!(status.code(), Some(101), "the program panicked: {stderr}");
        Output { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // After a failure too, nothing stays behind.
        for process in marked(&self.mark) {
            kill(process.pid, libc::SIGKILL);
        }
    }
}

/// Runs the program in an empty folder of its own.
pub fn ringfence(args: &[&str]) -> Output {
    let folder = Folder::new();
    ringfence_in(folder.path(), args)
}

/// The verbs, as the front page lists them.
pub fn verbs() -> Vec<String> {
    let front = ringfence(&["--help"]);
    let lines = front.ok().lines().filter_map(|line| line.strip_prefix("  "));
    let verbs: Vec<String> =
        lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(
        verbs.contains(&"prove".into()) && verbs.contains(&"restore".into()) && verbs.len() > 15,
        "{verbs:?}"
    );
    verbs
}

/// Runs the program.
pub fn ringfence_in(folder: &Path, args: &[&str]) -> Output {
    Running::start(folder, args).wait()
}

/// A process that a run has started.
#[derive(Debug)]
pub struct Process {
    pub pid: i32,
    /// The first word of its command line, by which the guardian and workers are known.
    pub name: String,
    pub state: String,
}

/// All processes with a mark, whatever their parent is; zombies are left out.
pub fn marked(mark: &str) -> Vec<Process> {
    let entry = format!("{MARK}={mark}");
    let pids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let look = |pid: i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let marked = environ.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes());
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let state = status.lines().find_map(|line| line.strip_prefix("State:\t"))?.to_owned();
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let name =
            command.split(|byte| *byte == 0).next().map(String::from_utf8_lossy)?.into_owned();
        (marked && !state.starts_with(['Z', 'X'])).then_some(Process { pid, name, state })
    };
    pids.filter_map(look).collect()
}

/// Waits until no process with a mark is left, and returns those that are after [`LIMIT`].
pub fn gone(mark: &str) -> Vec<Process> {
    let until = Instant::now() + LIMIT;
    loop {
        let left = marked(mark);
        if left.is_empty() || Instant::now() > until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port at which no process listens at present. Another process may take it before it is used.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .unwrap()
        .port()
}

/// Writes a program with install(1), so that this process never has it open for writing. A child
/// that another test forks at that moment would inherit the descriptor, and the kernel executes no
/// file that is open for writing (`ETXTBSY`).
pub fn write_program(path: &Path, content: impl AsRef<[u8]>) {
    let draft = path.with_extension("draft");
    fs::write(&draft, content).unwrap();
    let installed = Command::new("install").args(["-m", "755"]).args([&draft, path]).status();
    assert!(installed.unwrap().success());
    fs::remove_file(draft).unwrap();
}

pub fn is_installed(program: &str) -> bool {
    let folders = std::env::var("PATH").unwrap_or_default();
    // Debian has some programs where root alone looks.
    let all = folders.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
    all.into_iter().any(|folder| Path::new(folder).join(program).exists())
}

/// Waits for something that must come.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + LIMIT;
    loop {
        match look() {
            Some(found) => return found,
            None if Instant::now() > until => panic!("in vain: {what}"),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Waits until a run has recorded some steps in the dataset `dir`.
pub fn wait_for_steps(dir: &Path, steps: usize) {
    wait_for("steps in the journal", || {
        let journal = fs::read(dir.join("samples.journal")).ok()?;
        // The first line is a header.
        (journal.iter().filter(|byte| **byte == b'\n').count() > steps).then_some(())
    });
}

pub fn kill(pid: i32, signal: i32) {
    assert!(pid > 1);
    // SAFETY: a signal to a process that the test has started; no memory is touched.
    unsafe { libc::kill(pid, signal) };
}

/// The programs of `conflict.c`, built into a folder as `conflict`.
pub fn conflict(folder: &Folder) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/conflict.c");
    let program = folder.path().join("conflict");
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(source).status();
    assert!(built.is_ok_and(|status| status.success()), "conflict.c wants a C compiler");
    program
}

/// The file of a laptop with small caches, so that they soon settle, LRU, so that what they hold
/// does not depend on what ran before, and with these values changed.
pub fn small_laptop(changes: &[(&str, &str)]) -> String {
    let all = ringfence_simulator::catalogue::all();
    let laptop = all.into_iter().find(|known| known.name == "laptop").expect("it is shipped");
    let small = [
        ("l2.size_kib", "160"),
        ("llc.size_kib", "1536"),
        ("llc.replacement", "\"lru\""),
        ("nodes[0].gib", "1"),
    ];
    let changes = small.iter().chain(changes);
    changes.fold(laptop, |machine, (path, value)| machine.changed(path, value).expect(path)).text
}

/// Says that a test cannot run here; where everything is required, fails instead.
pub fn skip(reason: &str) {
    let required = std::env::var_os("RINGFENCE_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!required, "cannot run: {reason}");
    // Past the test harness, which keeps what passing tests print.
    _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Whether a task can have a neighbour here; where it cannot, that is said.
pub fn enough_cpus() -> bool {
    let enough = cpus().len() >= 2;
    if !enough {
        skip("neighbours need two CPUs");
    }
    enough
}

/// CPUs that this process may use.
pub fn cpus() -> Vec<usize> {
    // SAFETY: an all-zero set is a valid out-parameter of the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
    }
}

/// Moves this thread, and what it starts from then on, to these CPUs.
pub fn stay_on(cpus: &[usize]) {
    // SAFETY: an all-zero set is valid, and the set is read in the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}
