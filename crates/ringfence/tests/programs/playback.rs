//! Recorded programs on described machines: recorded by `trace`, played by `--machine`.

use std::fs;
use std::process::Command;

use ringfence_dataset::Dataset;

use crate::support::{Folder, Output, joined, ringfence_in, skip};

const SOURCE: &str = r#"
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 1 << 16)) return 9;
  volatile long *p = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (long line = 0; line < 1024; line++) {
    p[line * 8] = line;
    if (argc == 2) { _mm_clflush((void *)(p + line * 8)); _mm_sfence(); }
  }
  if (argc > 2) msync((void *)p, 1 << 16, MS_SYNC);
  return 0;
}
"#;

// Traces of two runs, one of which flushes and one of which leaves that to `msync`; none where
// there is no compiler.
fn recorded(folder: &Folder) -> bool {
    fs::write(folder.path().join("store.c"), SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-o", "store", "store.c"]).current_dir(folder.path());
    if !gcc.status().is_ok_and(|status| status.success()) {
        skip("there is no gcc");
        return false;
    }
    for (out, more) in [("flushes", &[][..]), ("msyncs", &["msync"])] {
        let args =
            [&["trace", "--file", "file", "--out", out, "--", "./store", "file"], more].concat();
        ringfence_in(folder.path(), &args).ok();
    }
    true
}

fn refused(output: &Output, part: &str) {
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(output.stdout.is_empty() && joined(&output.stderr).contains(part), "{}", output.stderr);
    assert_eq!(output.stderr.trim().lines().count(), 1, "one sentence: {}", output.stderr);
}

const ON_DAX: &str = "trace file=flushes target=dax:/mnt/pmem0";

fn neighbours(folder: &Folder, victim: &str, more: &[&str]) -> Output {
    let args = [
        "neighbours",
        "--victim",
        victim,
        "--aggressor",
        "idle",
        "--trials",
        "4",
        "--window",
        "20ms",
        "--quiet",
    ];
    ringfence_in(folder.path(), &[&args[..], more].concat())
}

#[test]
fn a_recorded_program_is_as_fast_as_the_writer_that_does_the_same() {
    let folder = Folder::new();
    if !recorded(&folder) {
        return;
    }
    let on = ["--machine", "cascade-lake-optane", "--json", "--out"];
    let of = |victim: &str, out: &str| {
        assert_eq!(
            neighbours(&folder, victim, &[&on[..], &[out]].concat()).json()["simulated"],
            true
        );
        let samples = Dataset::open(&folder.path().join(out)).unwrap().samples;
        let own = || samples.iter().filter(|sample| &*sample.role == "victim");
        own().map(|sample| sample.units).sum::<u64>() as f64
            / own().map(|sample| sample.busy_ns).sum::<u64>() as f64
    };
    // Three events are a line.
    let events = of(ON_DAX, "played");
    let lines =
        of("write instruction=clflush block=64B size=64KiB target=dax:/mnt/pmem0", "written");
    assert!((events / 3.0 / lines - 1.0).abs() < 0.01, "{events} and {lines}");
    let shown = ringfence_in(folder.path(), &["show", "-v", "played"]).said();
    assert!(shown.contains("per event"), "{shown}");
    let page = ringfence_in(folder.path(), &["report", "played"]);
    page.ok();
    let page = fs::read_to_string(folder.path().join("played/report.html")).unwrap();
    assert!(
        page.contains("without what its program does between"),
        "the page does not say what is missing"
    );
}

#[test]
fn flushes_that_the_other_machine_needs_not_are_left_out_there() {
    let folder = Folder::new();
    if !recorded(&folder) {
        return;
    }
    let change =
        ["whatif", "cascade-lake-optane", "--change", "processor.eadr=true", "--quiet", "--json"];
    let ratio = |victim: &str, out: &str| {
        let verb = [
            "--out",
            out,
            "--",
            "neighbours",
            "--aggressor",
            "idle",
            "--trials",
            "4",
            "--window",
            "20ms",
            "--victim",
            victim,
        ];
        let json = ringfence_in(folder.path(), &[&change[..], &verb].concat()).json();
        let cell = &json["whatif"]["comparison"]["cells"][0];
        cell["change"]["slowdown"]["value"].as_f64().unwrap_or_else(|| panic!("{json}"))
    };
    assert_eq!(ratio(ON_DAX, "recorded"), 1.0, "a flush that is there costs what it costs");
    let needed = ratio(&format!("{ON_DAX} flush=as-needed"), "needed");
    assert!(needed < 0.3, "{needed}");
}

#[test]
fn what_cannot_be_played_is_refused_in_a_sentence() {
    let folder = Folder::new();
    if !recorded(&folder) {
        return;
    }
    let before = folder.entries();
    let on = ["--machine", "cascade-lake-optane"];
    refused(&neighbours(&folder, ON_DAX, &[]), "can only be replayed on a described machine");
    let prove = ["prove", "--victim", ON_DAX, "--aggressor", "alu", "--budget", "5%", "--quiet"];
    refused(&ringfence_in(folder.path(), &prove), "can only be replayed on a described machine");
    refused(&neighbours(&folder, "trace file=none", &on), "there is no trace.json in it");
    refused(&neighbours(&folder, "trace file=msyncs", &on), "with msync only");
    refused(&neighbours(&folder, "trace", &on), "'file' is missing");
    refused(&neighbours(&folder, "trace file=flushes loads=none", &on), "loads");
    refused(
        &neighbours(
            &folder,
            "trace file=flushes",
            &["--machine", "broadwell-x", "--victim-cpu", "99"],
        ),
        "99",
    );
    // Half of what was recorded.
    fs::rename(folder.path().join("flushes"), folder.path().join("damaged")).unwrap();
    let events = folder.path().join("damaged/events-0001.parquet");
    let whole = fs::read(&events).unwrap();
    fs::write(&events, &whole[..whole.len() / 2]).unwrap();
    refused(&neighbours(&folder, "trace file=damaged", &on), "is damaged");
    let after: Vec<String> = folder.entries();
    assert_eq!(before.len(), after.len(), "{after:?}");
}
