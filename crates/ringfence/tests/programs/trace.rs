//! `trace`, of small programs: what becomes of the file, of the command's exit code, and of the
//! trace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Folder, kill, ringfence_in, skip, wait_for, write_program};

const SOURCE: &str = r#"
#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 4096)) return 9;
  volatile long *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  p[0] = 7; _mm_clflush((void *)p); _mm_sfence();
  printf("%ld %d\n", p[0], getenv("RINGFENCE_OWN_USERS") != 0);
  if (argc > 2 && !strcmp(argv[2], "abort")) abort();
  if (argc > 2 && !strcmp(argv[2], "slowly")) {
    /* Fewer than would end a part, until one is there. */
    for (int i = 0; i < 200 && access(argv[3], F_OK); i++) { p[1] = i; usleep(200000); }
    return access(argv[3], F_OK) ? 1 : 0;
  }
  if (argc > 2 && !strcmp(argv[2], "forever")) for (long i = 0;; i++) { p[1] = i; usleep(100); }
  return 3;
}
"#;

// The program, or none where there is no compiler.
fn built(folder: &Path) -> Option<PathBuf> {
    fs::write(folder.join("store.c"), SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-o", "store", "store.c"]).current_dir(folder);
    if gcc.status().is_ok_and(|status| status.success()) {
        return Some(folder.join("store"));
    }
    skip("there is no gcc");
    None
}

fn executed(folder: &Path, trace: &str) -> serde_json::Value {
    ringfence_in(folder, &["census", trace, "--json"]).json()["total"].clone()
}

#[test]
fn the_command_works_on_a_copy_and_keeps_its_exit_code() {
    let folder = Folder::new();
    let Some(_) = built(folder.path()) else { return };
    fs::write(folder.path().join("file"), "as it was").unwrap();
    let said = ringfence_in(folder.path(), &["trace", "--file", "file", "--", "./store", "file"]);
    assert_eq!((said.code(), said.stdout.as_str()), (Some(3), "7 0\n"), "{}", said.stderr);
    let [trace] = &folder.results()[..] else { panic!("{:?}", folder.results()) };
    let name = trace.file_name().unwrap().to_str().unwrap();
    let place = format!("events in {}. The command ended with exit code 3.", trace.display());
    assert!(said.stderr.contains(&place), "{}", said.stderr);
    assert!(said.stderr.contains(&format!("Next: ringfence census {name}")), "{}", said.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "as it was");
    assert!(!trace.join("copies").exists());
    let total = executed(folder.path(), name);
    assert_eq!(
        (&total["stores"], &total["clflush"], &total["sfence"]),
        (&1.into(), &1.into(), &1.into())
    );
    // A trace holds a program's data.
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(trace), mode(&trace.join("trace.json"))), (0o700, 0o600));
    // It is the last result: as text, as JSON and as a page.
    let shown = ringfence_in(folder.path(), &["show"]);
    assert_eq!(shown.stdout, ringfence_in(folder.path(), &["census", name]).stdout);
    assert_eq!(ringfence_in(folder.path(), &["show", "--json"]).json()["total"], total);
    let page = ringfence_in(folder.path(), &["show", "--html=page.html"]);
    assert_eq!(page.code(), Some(0), "{}", page.stderr);
    assert!(fs::read_to_string(folder.path().join("page.html")).unwrap().contains("clflush"));
    // The same again would mix two traces.
    let (trace, words) = (trace.to_str().unwrap(), ["--file", "file", "--", "./store", "file"]);
    let again = ringfence_in(folder.path(), &[&["trace", "--out", trace][..], &words].concat());
    assert_eq!(again.code(), Some(2), "{}", again.stderr);
}

#[test]
fn in_place_the_file_is_the_commands() {
    let folder = Folder::new();
    let Some(_) = built(folder.path()) else { return };
    let args =
        ["trace", "--file", "file", "--in-place", "--out", "t", "--", "./store", "file", "abort"];
    let said = ringfence_in(folder.path(), &args);
    assert_eq!(said.code(), Some(128 + 6), "{}", said.stderr);
    assert!(said.stderr.contains("Signal 6 ended the command."), "{}", said.stderr);
    assert_eq!(fs::read(folder.path().join("file")).unwrap()[0], 7);
}

#[test]
fn what_cannot_be_recorded_leaves_nothing_behind() {
    let folder = Folder::new();
    let said = ringfence_in(folder.path(), &["trace", "--file", "file", "--", "./not-there"]);
    assert_eq!(said.code(), Some(2));
    assert!(
        said.stderr.contains("./not-there could not be started: No such file"),
        "{}",
        said.stderr
    );
    let without = ringfence_in(folder.path(), &["trace", "--", "true"]);
    assert!(without.code() == Some(2) && without.stderr.contains("--file"), "{}", without.stderr);
    fs::write(folder.path().join("log"), "hello").unwrap();
    let import = ringfence_in(folder.path(), &["trace", "--import", "log"]);
    assert!(
        import.code() == Some(2) && import.stderr.contains("not a log of pmemcheck"),
        "{}",
        import.stderr
    );
    assert!(folder.results().is_empty(), "{:?}", folder.results());
}

#[test]
fn a_command_that_maps_nothing_is_told_of() {
    let folder = Folder::new();
    let said = ringfence_in(folder.path(), &["trace", "--file", "file", "--", "true"]);
    assert_eq!(said.code(), Some(0));
    assert!(
        said.stderr.contains("nothing was recorded: the command has not mapped"),
        "{}",
        said.stderr
    );
    assert!(folder.results().is_empty(), "{:?}", folder.results());
}

// A number of seconds that no other process sleeps.
const SLEEP: &str = "98765.4321";

#[test]
fn a_killed_recorder_takes_the_command_with_it_and_leaves_a_trace() {
    let folder = Folder::new();
    let Some(program) = built(folder.path()) else { return };
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_ringfence"));
    recorder.args(["trace", "--file", "file", "--in-place", "--out", "t", "--", "sh", "-c"]);
    // One that asks for nothing, in a session of its own.
    let sleeper = format!("setsid sleep {SLEEP} & exec \"$0\" file forever");
    recorder.arg(sleeper).arg(&program).current_dir(folder.path());
    let mut recorder = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("a part of the trace", || {
        folder.path().join("t/events-0002.parquet").exists().then_some(())
    });
    let is_running = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.into_iter().any(|one| {
            let words = fs::read_to_string(one.path().join("cmdline")).unwrap_or_default();
            let is_sleeper = words.split('\0').nth(1) == Some(SLEEP);
            is_sleeper || fs::read_link(one.path().join("exe")).is_ok_and(|exe| exe == program)
        })
    };
    assert!(is_running());
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    wait_for("the command to end", || (!is_running()).then_some(()));
    let said = ringfence_in(folder.path(), &["census", "t"]);
    assert!(
        said.said().contains(
            "The recorder did not finish the trace (it was killed, or the disk was full): the end \
             is missing."
        ),
        "{}",
        said.stdout
    );
}

#[test]
fn who_is_not_root_records_on_copies_too() {
    let folder = Folder::new();
    let Some(_) = built(folder.path()) else { return };
    // A folder that every user may enter and write to.
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_ringfence"), folder.path().join("ringfence")).unwrap();
    fs::write(folder.path().join("file"), "as it was").unwrap();
    fs::set_permissions(folder.path().join("file"), PermissionsExt::from_mode(0o666)).unwrap();
    let record = |file: &str, out: &str| {
        let mut unprivileged = Command::new("setpriv");
        unprivileged.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "./ringfence",
            "trace",
        ]);
        unprivileged.args(["--file", file, "--out", out, "--", "./store", file]);
        unprivileged.current_dir(folder.path()).output()
    };
    let Ok(said) = record("file", "t") else {
        return skip("there is no setpriv");
    };
    let stderr = String::from_utf8_lossy(&said.stderr);
    if said.status.code() == Some(127) || stderr.contains("setpriv:") {
        return skip("only root may become somebody else");
    }
    if stderr.contains("does not allow users to mount") {
        return skip("there are no user namespaces for users");
    }
    assert_eq!(said.status.code(), Some(3), "{stderr}");
    // The program is not told of what the recorder needs.
    assert_eq!(String::from_utf8_lossy(&said.stdout), "7 0\n");
    assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "as it was");
    // Of a file that is not there yet, there is no copy.
    let said = record("new", "new-trace").unwrap();
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert_eq!(
        (said.status.code(), &*String::from_utf8_lossy(&said.stdout)),
        (Some(3), "7 0\n"),
        "{stderr}"
    );
    assert_eq!(fs::read(folder.path().join("new")).unwrap()[0], 7);
}

#[test]
fn names_and_places_that_are_odd() {
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::new();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff\xfe");
    fs::write(folder.path().join(name), [0; 64]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
    command.args(["trace", "--out", "t", "--file"]).arg(name).args(["--", "true"]);
    let said = command.current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && text.contains("nothing was recorded"), "{text}");

    // Of what holds the trace's folder, no copy can be made.
    let said = ringfence_in(folder.path(), &["trace", "--file", ".", "--", "true"]);
    assert_eq!(said.code(), Some(2));
    assert!(said.stderr.contains("name another folder with --out"), "{}", said.stderr);
    assert!(folder.results().is_empty(), "{:?}", folder.results());
}

#[test]
fn a_few_stores_are_on_disk_while_the_command_runs() {
    let folder = Folder::new();
    let Some(_) = built(folder.path()) else { return };
    let command = ["./store", "file", "slowly", "t/events-0001.parquet"];
    let words = ["trace", "--file", "file", "--out", "t", "--"];
    let said = ringfence_in(folder.path(), &[&words[..], &command].concat());
    assert_eq!(said.code(), Some(0), "{}", said.stderr);
}

#[test]
fn a_recorder_that_is_asked_to_end_keeps_the_trace_and_says_so() {
    let folder = Folder::new();
    let Some(_) = built(folder.path()) else { return };
    for (signal, name) in [(libc::SIGTERM, "SIGTERM"), (libc::SIGHUP, "SIGHUP")] {
        let mut recorder = Command::new(env!("CARGO_BIN_EXE_ringfence"));
        recorder
            .args(["trace", "--file", "file", "--out", name, "--", "./store", "file", "forever"]);
        recorder.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        // SAFETY: signal() may be called between fork and exec. Under nohup, SIGHUP is ignored.
        unsafe {
            recorder.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        let recorder = recorder.spawn().unwrap();
        wait_for("a part of the trace", || {
            folder.path().join(name).join("events-0001.parquet").exists().then_some(())
        });
        kill(recorder.id() as i32, signal);
        let ended = recorder.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("recording stopped: {name} ended it early")), "{stderr}");
        assert!(!folder.path().join(name).join("copies").exists());

        // The last store to each line but the first was not flushed, which may have been about to
        // come.
        let said = ringfence_in(folder.path(), &["census", name]).said();
        assert!(said.contains(&format!("Recording stopped: {name} ended it early.")), "{said}");
        assert!(said.contains("missing not known, as the trace is incomplete"), "{said}");
        assert!(said.contains("as far as the trace goes, 1 line was not flushed"), "{said}");
        assert!(!said.contains("never durable") && !said.contains("NeverDurable"), "{said}");
        let run = ringfence_in(folder.path(), &["census", name, "--json"]).json();
        assert_eq!(
            (run["uncertain"].as_array().unwrap().len(), &run["findings"]),
            (1, &serde_json::json!([]))
        );
    }
}

// A 32-bit program: alone it prints a line and exits with 7; else it has a child execute its
// arguments, and exits with the child's code.
const OF_32_BITS: &[u8] = b"\x8b\x04\x24\x83\xf8\x01\x7f\x22\
    \xb8\x04\x00\x00\x00\xbb\x01\x00\x00\x00\xb9\xc5\x80\x04\x08\xba\x05\x00\x00\x00\xcd\x80\
    \xb8\x01\x00\x00\x00\xbb\x07\x00\x00\x00\xcd\x80\
    \xb8\x02\x00\x00\x00\xcd\x80\x85\xc0\x75\x22\
    \x8b\x5c\x24\x08\x8d\x4c\x24\x08\x8b\x04\x24\x8d\x54\x84\x08\xb8\x0b\x00\x00\x00\xcd\x80\
    \xb8\x01\x00\x00\x00\xbb\x63\x00\x00\x00\xcd\x80\
    \x89\xc3\x6a\x00\x89\xe1\x31\xd2\xb8\x07\x00\x00\x00\xcd\x80\x5b\xc1\xeb\x08\
    \xb8\x01\x00\x00\x00\xcd\x80hi32\n";

// Such a file, or none where the kernel runs none.
fn of_32_bits(folder: &Path) -> Option<PathBuf> {
    const START: u32 = 0x0804_8000;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // An executable for the 80386, of this version.
    [2u16, 3].iter().for_each(|word| file.extend(word.to_le_bytes()));
    [1, START + 84, 52, 0, 0].iter().for_each(|word: &u32| file.extend(word.to_le_bytes()));
    [52u16, 32, 1, 40, 0, 0].iter().for_each(|word| file.extend(word.to_le_bytes()));
    // All of it is loaded, to be read and executed.
    let size = 84 + OF_32_BITS.len() as u32;
    [1, 0, START, START, size, size, 5, 4096]
        .iter()
        .for_each(|word: &u32| file.extend(word.to_le_bytes()));
    file.extend(OF_32_BITS);
    let path = folder.join("narrow");
    write_program(&path, file);
    match Command::new(&path).output() {
        Ok(ran) if ran.status.code() == Some(7) => Some(path),
        _ => {
            println!("skipped: this kernel runs no 32-bit programs");
            None
        }
    }
}

#[test]
fn a_32_bit_program_runs_unrecorded_and_the_trace_says_so() {
    let folder = Folder::new();
    let (Some(_), Some(_)) = (built(folder.path()), of_32_bits(folder.path())) else { return };
    let note = "narrow is a 32-bit program, which cannot be recorded: it ran unrecorded";
    let record = |out: &str, command: &[&str]| {
        let words = ["trace", "--file", "file", "--out", out, "--"];
        let said = ringfence_in(folder.path(), &[&words[..], command].concat());
        assert!(said.stderr.contains(note), "{command:?}: {}", said.stderr);
        said
    };
    let alone = record("alone", &["./narrow"]);
    assert_eq!((alone.code(), alone.stdout.as_str()), (Some(7), "hi32\n"), "{}", alone.stderr);
    let child = record("child", &["sh", "-c", "./store file; ./narrow"]);
    assert_eq!((child.code(), child.stdout.as_str()), (Some(7), "7 0\nhi32\n"), "{}", child.stderr);
    let said = ringfence_in(folder.path(), &["census", "child"]).said();
    assert!(said.contains(note), "{said}");
    // What it executes is recorded again, whether or not something was recorded before it.
    for (out, command) in [
        ("first", &["./narrow", "./store", "file"][..]),
        ("between", &["sh", "-c", "./narrow ./store file"][..]),
    ] {
        let said = record(out, command);
        assert_eq!((said.code(), said.stdout.as_str()), (Some(3), "7 0\n"), "{}", said.stderr);
        assert_eq!(executed(folder.path(), out)["clflush"], 1, "{out}");
    }
}

const UNNAMED: &str = r#"
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>
static int locked;
static __attribute__((noinline)) void persist(volatile char *p) {
  _mm_clflush((void *)p);
  _mm_sfence();
}
#ifdef DATA
asm(".text\n.byte 6\n");
#endif
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 8192)) return 9;
  volatile char *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (int i = 0; i < 100; i++) {
    p[64 * i] = 1;
    persist(p + 64 * i);
    __sync_fetch_and_add(&locked, 1);
  }
  p[6400] = 1;
  return locked != 100;
}
"#;

#[test]
fn flushes_in_code_without_names_are_recorded_or_counted() {
    let folder = Folder::new();
    fs::write(folder.path().join("unnamed.c"), UNNAMED).unwrap();
    for (out, flag) in [("code", "-DCODE"), ("data", "-DDATA")] {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-fno-asynchronous-unwind-tables", "-s", flag, "-o", out, "unnamed.c"]);
        if !gcc.current_dir(folder.path()).status().is_ok_and(|status| status.success()) {
            return skip("there is no gcc");
        }
        let (trace, program) = (format!("{out}-trace"), format!("./{out}"));
        let words = ["trace", "--file", "file", "--out", &trace, "--", &program, "file"];
        let said = ringfence_in(folder.path(), &words);
        assert_eq!(said.code(), Some(0), "{}", said.stderr);
    }
    let total = executed(folder.path(), "code-trace");
    assert_eq!((&total["clflush"], &total["sfence"]), (&100.into(), &100.into()));
    assert_eq!(total["unflushed_lines"], 1);
    let said = ringfence_in(folder.path(), &["census", "code-trace"]).said();
    assert!(said.contains("missing 1 line was not flushed after the last store"), "{said}");

    // Between the functions lies what is no code, so that all of it may be data.
    assert_eq!(executed(folder.path(), "data-trace")["clflush"], 0);
    let run = ringfence_in(folder.path(), &["census", "data-trace", "--json"]).json();
    let why = run["uncertain"][0].as_str().unwrap();
    assert!(why.contains("data has 1 flush and 1 fence that could not be recorded"), "{why}");
    let rules: Vec<&str> = run["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["rule"].as_str().unwrap())
        .collect();
    assert!(!rules.contains(&"never durable") && !rules.contains(&"missing fence"), "{rules:?}");
    let said = ringfence_in(folder.path(), &["census", "data-trace"]).said();
    assert!(said.contains("missing not known, as the code of"), "{said}");
}

const SYNCS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
static volatile char *p;
static volatile int stored;
/* Stores where it interrupts a call that the recorder makes for the program: while fsync runs. */
static void handle(int signal, siginfo_t *info, void *context) {
  if (((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] >> 40 == 0x2f) { p[0]++; stored = 1; }
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 8192)) return 9;
  p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  p[4096] = 1;
  if (strncmp(argv[2], "during", 6)) {
#line 100
    return msync((void *)p, 8192, MS_SYNC)
      || fsync(fd)
      || fdatasync(fd)
      || syncfs(fd)
      || (sync(), 0)
      || sync_file_range(fd, 0, 8192, SYNC_FILE_RANGE_WRITE);
  }
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  sigaction(SIGALRM, &action, 0);
  struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0}};
  setitimer(ITIMER_REAL, &often, 0);
  int failed;
  do { stored = 0; failed = fsync(fd); } while (!stored || failed);
  signal(SIGALRM, SIG_IGN);
  setitimer(ITIMER_REAL, &never, 0);
  return strcmp(argv[2], "during and after") ? 0 : fsync(fd);
}
"#;

#[test]
fn calls_that_make_files_durable_have_a_place_and_a_beginning() {
    let folder = Folder::new();
    fs::write(folder.path().join("syncs.c"), SYNCS).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-O1", "-o", "syncs", "syncs.c"]).current_dir(folder.path());
    if !gcc.status().is_ok_and(|status| status.success()) {
        return skip("there is no gcc");
    }
    let record = |out: &str| {
        let words = ["trace", "--file", "file", "--out", out, "--", "./syncs", "file", out];
        let said = ringfence_in(folder.path(), &words);
        assert_eq!(said.code(), Some(0), "{}", said.stderr);
        ringfence_in(folder.path(), &["census", out, "--json"]).json()
    };
    let run = record("all");
    let place = |one: &serde_json::Value| {
        (one["location"]["function"].as_str() == Some("main"))
            .then(|| one["location"]["line"].as_u64())
    };
    let callers = run["callers"].as_array().unwrap();
    let lines = |what: &str| {
        let all = callers.iter().filter(|one| one[what] == 1).filter_map(place).flatten();
        all.collect::<std::collections::BTreeSet<u64>>()
    };
    assert_eq!(lines("msync"), (100..105).collect(), "{callers:#?}");
    assert_eq!(lines("sync_ranges"), [105].into(), "{callers:#?}");
    let said = ringfence_in(folder.path(), &["census", "all"]).said();
    assert!(said.contains("sync_file_range: not durable by itself 1"), "{said}");

    let left =
        |run: serde_json::Value| (run["total"]["unflushed_lines"].clone(), run["findings"].clone());
    let (lines, findings) = left(record("during"));
    assert_eq!((lines, &findings[0]["rule"]), (1.into(), &"never durable".into()));
    assert_eq!(left(record("during and after")), (0.into(), serde_json::json!([])));
}
