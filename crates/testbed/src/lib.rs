//! For tests that want a kernel of their own: runs commands, and scenarios of a test program
//! itself, in the virtual machine of `testbed/` (see `testbed/README.md`).
//!
//! A command:
//!
//! ```no_run
//! let Some(testbed) = ringfence_testbed::or_skip("schemata") else { return };
//! let output = testbed.profile("few").mount("-").run("cat /sys/fs/resctrl/schemata");
//! assert_eq!(output.code, 0, "{output}");
//! ```
//!
//! Scenarios: functions of the test program, which run in the guest as root, one after the other in
//! one boot.
//!
//! ```no_run
//! fn an_empty_mask_is_refused() {
//!     let error = std::fs::write("/sys/fs/resctrl/schemata", "L3:0=0\n").unwrap_err();
//!     assert_eq!(error.raw_os_error(), Some(22));
//! }
//!
//! // #[test]
//! fn refusals() {
//!     ringfence_testbed::scenarios!(
//!         |testbed| testbed.mount("-"),
//!         || Ok(()),
//!         [an_empty_mask_is_refused],
//!     );
//! }
//! ```
//!
//! Where the testbed is not built, such tests say that they did not run, and why, and pass; with
//! `RINGFENCE_REQUIRE_ALL=1` in the environment they fail.

#![forbid(unsafe_code)]

mod guest;
mod program;
mod scenarios;

use std::fmt::{self, Display, Formatter};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use guest::Running;
pub use program::Program;
pub use scenarios::{Scenario, in_guest, run_scenarios};

/// A machine to boot, as the flags of `testbed/run` describe it.
#[derive(Debug, Clone)]
pub struct Testbed {
    run: PathBuf,
    flags: Vec<String>,
    /// Limit on boot and command together on an idle machine, in seconds.
    time: u32,
}

/// What a command in the guest left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; 128 and the signal where a signal ended it.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it printed to stderr.
    pub stderr: String,
    /// The kernel's log: warnings and worse.
    pub console: String,
}

impl Display for Output {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { code, stdout, stderr, console } = self;
        write!(
            f,
            "exit code {code}\n-- stdout\n{stdout}\n-- stderr\n{stderr}\n-- kernel\n{console}"
        )
    }
}

/// The exit codes of `testbed/run` that are not the command's: out of time, and the testbed failed.
const NOT_THE_COMMANDS: [i32; 2] = [OUT_OF_TIME, 125];
const OUT_OF_TIME: i32 = 124;

impl Testbed {
    /// The testbed of this workspace, with the profile `broadwell` and nothing mounted.
    ///
    /// # Errors
    ///
    /// One sentence that says why there is none: it is not built, or what it was built by has
    /// changed since.
    pub fn find() -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed");
        let build = folder.join("build");
        let output = Command::new(&build)
            .arg("--check")
            .output()
            .map_err(|error| format!("{} cannot be started: {error}", build.display()))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(Self { run: folder.join("run"), flags: Vec::new(), time: 180 })
    }

    fn with(&self, flag: &str, value: impl Into<String>) -> Self {
        let mut with = self.clone();
        with.flags.extend([flag.to_owned(), value.into()]);
        with
    }

    /// The processor: a file of `testbed/profiles`, or a path.
    #[must_use]
    pub fn profile(&self, name: &str) -> Self {
        self.with("--profile", name)
    }

    /// Further properties of RDT, which override the profile's: `rdt-rmids=8,rdt-l3-clos=4`.
    #[must_use]
    pub fn rdt(&self, properties: &str) -> Self {
        self.with("--rdt", properties)
    }

    /// CPUs in all, spread as the profile says.
    #[must_use]
    pub fn cpus(&self, count: usize) -> Self {
        self.with("--cpus", count.to_string())
    }

    /// Mounts resctrl on `/sys/fs/resctrl` with these options: `cdp,mba_MBps`, or `-` for none.
    #[must_use]
    pub fn mount(&self, options: &str) -> Self {
        self.with("--mount", options)
    }

    /// Adds an empty NVDIMM of so many MiB.
    #[must_use]
    pub fn pmem(&self, mib: usize) -> Self {
        self.with("--pmem", mib.to_string())
    }

    /// Adds an NVDIMM whose content is a file, and outlives the machine.
    #[must_use]
    pub fn pmem_file(&self, file: impl AsRef<Path>) -> Self {
        self.with("--pmem-file", text(file.as_ref()))
    }

    /// What the firmware says survives a power cut: `adr` (without this), `eadr` or `none`.
    #[must_use]
    pub fn pmem_domain(&self, domain: &str) -> Self {
        self.with("--pmem-domain", domain)
    }

    /// Sets so many MiB of ordinary memory aside as persistent memory (`memmap=`), which keeps
    /// nothing.
    #[must_use]
    pub fn memmap(&self, mib: usize) -> Self {
        self.with("--memmap", mib.to_string())
    }

    /// Adds an empty virtio disk of so many MiB, `/dev/vda` and on; with the profile `disks`.
    #[must_use]
    pub fn disk(&self, mib: usize) -> Self {
        self.with("--disk", mib.to_string())
    }

    /// Adds an empty NVMe disk of so many MiB, `/dev/nvme0n1` and on; with the profile `disks`.
    #[must_use]
    pub fn nvme(&self, mib: usize) -> Self {
        self.with("--nvme", mib.to_string())
    }

    /// The user that runs the command: `root` by default, or `nobody`.
    #[must_use]
    pub fn user(&self, name: &str) -> Self {
        self.with("--user", name)
    }

    /// Copies a file or folder to `/host` in the guest, where the command begins.
    #[must_use]
    pub fn copy(&self, path: impl AsRef<Path>) -> Self {
        self.with("--copy", text(path.as_ref()))
    }

    /// Copies what the command leaves in the guest's `/out` to a folder here.
    #[must_use]
    pub fn out(&self, folder: impl AsRef<Path>) -> Self {
        self.with("--out", text(folder.as_ref()))
    }

    /// Limit on boot and command together on an idle machine, in seconds (default: 180). It is
    /// multiplied by the load per CPU, by ten at most.
    #[must_use]
    pub fn time(&self, seconds: u32) -> Self {
        Self { time: seconds, ..self.clone() }
    }

    /// Further words for the kernel's command line.
    #[must_use]
    pub fn kernel(&self, words: &str) -> Self {
        self.with("--kernel", words)
    }

    /// Boots, runs a command line of the guest's `sh`, and waits for the end.
    ///
    /// # Panics
    ///
    /// When the command did not come to its end: the testbed failed, or time ran out. See
    /// [`try_run`](Self::try_run).
    #[track_caller]
    pub fn run(&self, command: &str) -> Output {
        self.try_run(command).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Boots, runs a command line of the guest's `sh`, and waits for the end.
    ///
    /// # Errors
    ///
    /// What `testbed/run` says when the command did not come to its end, and what the command had
    /// printed.
    pub fn try_run(&self, command: &str) -> Result<Output, String> {
        let mut output = self.once(command)?;
        // On a busy machine an emulated processor now and then hangs in the first second of its
        // boot; the command has not started then.
        if output.code == OUT_OF_TIME && output.stdout.is_empty() {
            _ = writeln!(
                std::io::stderr(),
                "testbed: a guest that said nothing in its time is started again"
            );
            output = self.once(command)?;
        }
        let failed = NOT_THE_COMMANDS.contains(&output.code) || output.code == 2 || output.code < 0;
        if failed && output.stderr.lines().any(|line| line.starts_with("testbed/run: "))
            || output.code < 0
        {
            return Err(output.to_string());
        }
        Ok(output)
    }

    fn once(&self, command: &str) -> Result<Output, String> {
        let console = program::Temporary::new("console")?;
        let log = console.path().join("log");
        let output = self
            .with("--console", text(&log))
            .command(command)
            .output()
            .map_err(|error| format!("{} cannot be started: {error}", self.run.display()))?;
        Ok(Output {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            console: std::fs::read(log)
                .map(|log| String::from_utf8_lossy(&log).into_owned())
                .unwrap_or_default(),
        })
    }

    /// Boots and begins a command line, whose lines can be read while it runs, and whose power can
    /// be cut.
    ///
    /// # Errors
    ///
    /// When `testbed/run` cannot be started.
    pub fn start(&self, command: &str) -> Result<Running, String> {
        Running::start(self.command(command).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    fn command(&self, command: &str) -> Command {
        let mut run = Command::new(&self.run);
        let time = (f64::from(self.time) * load_per_cpu()).ceil().to_string();
        run.args(&self.flags).args(["--time", &time, "--", command]).stdin(Stdio::null());
        run
    }
}

// The load of the last minute for each CPU, from one to ten.
fn load_per_cpu() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|load| load.split(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0);
    let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
    (load / cpus).clamp(1.0, 10.0)
}

fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}

/// The testbed; or a line that says which test did not run, and why.
///
/// # Panics
///
/// Where it is not built and `RINGFENCE_REQUIRE_ALL` is 1.
#[track_caller]
pub fn or_skip(test: &str) -> Option<Testbed> {
    Testbed::find().map_err(|why| skip(test, &why)).ok()
}

/// Says that a test did not run, and why, in one line on stderr, past the test harness, which would
/// keep it to itself.
///
/// # Panics
///
/// Where `RINGFENCE_REQUIRE_ALL` is 1.
#[track_caller]
pub fn skip(test: &str, why: &str) {
    let required = std::env::var_os("RINGFENCE_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!required, "{test} cannot run: {why}");
    skip_here(test, why);
}

/// As [`skip`], for what nothing installed would change: hardware that is missing or busy, or a
/// machine that is set up otherwise. `RINGFENCE_REQUIRE_ALL` does not ask for it.
pub fn skip_here(test: &str, why: &str) {
    _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
