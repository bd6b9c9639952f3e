//! `census`, of this program and of what a compiler makes.

use std::fs;
use std::process::Command;

use crate::support::{Folder, ringfence, ringfence_in, skip};

const SOURCE: &str = r#"
#include <immintrin.h>
void store(char *p) { _mm_stream_si64((long long *)p, 1); _mm_sfence(); }
__attribute__((target("clflushopt"))) void flush(char *p) { _mm_clflushopt(p); }
#ifdef NEWER
__attribute__((target("clwb"))) void flush_better(char *p) { _mm_clwb(p); _mm_sfence(); }
#else
void fence(void) { _mm_sfence(); _mm_sfence(); }
#endif
int add(int *p) { return __sync_fetch_and_add(p, 1); }
"#;

// Two builds, or none where there is no compiler.
fn built(folder: &Folder) -> bool {
    let source = folder.path().join("store.c");
    fs::write(&source, SOURCE).unwrap();
    let build = |name: &str, flag: &str| {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-shared", "-fPIC", flag, "-o", name, "store.c"])
            .current_dir(folder.path());
        gcc.status().is_ok_and(|status| status.success())
    };
    let all = build("old.so", "-DOLDER") && build("new.so", "-DNEWER");
    if !all {
        skip("there is no gcc");
    }
    all
}

#[test]
fn functions_are_listed_with_what_they_have() {
    let folder = Folder::new();
    if !built(&folder) {
        return;
    }
    let said = ringfence_in(folder.path(), &["census", "old.so"]);
    let row = |name: &str| {
        let lines =
            said.ok().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.into_iter().find(|line| line.starts_with(&format!("{name} ")))
    };
    // clflushopt, non-temporal stores, sfence, locked
    assert_eq!(row("store").unwrap(), "store . 1 1 .");
    assert_eq!(row("flush").unwrap(), "flush 1 . . .");
    assert_eq!(row("fence").unwrap(), "fence . . 2 .");
    assert_eq!(row("whole file").unwrap(), "whole file 1 1 3 1");
    assert!(row("add").is_none() && said.said().contains("--all shows them"), "{}", said.stdout);
    let all = ringfence_in(folder.path(), &["census", "old.so", "--all"]);
    assert!(
        all.ok().contains("\nadd ") && !all.said().contains("--all shows them"),
        "{}",
        all.stdout
    );

    let found = ringfence_in(folder.path(), &["census", "old.so", "--json"]).json();
    assert_eq!(found["schema"], "ringfence/census/1");
    assert_eq!((&found["total"]["sfence"], &found["total"]["clflushopt"]), (&3.into(), &1.into()));
    let functions = found["files"][0]["functions"].as_array().unwrap();
    let names: Vec<&str> =
        functions.iter().map(|function| function["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["store", "flush", "fence", "add"]);

    // A folder has both; what is no program is passed over.
    let both = ringfence_in(folder.path(), &["census", "."]);
    assert!(
        both.said().contains("2 files") && both.said().contains("all files"),
        "{}",
        both.stdout
    );
}

#[test]
fn two_builds_are_told_apart() {
    let folder = Folder::new();
    if !built(&folder) {
        return;
    }
    let changes =
        ringfence_in(folder.path(), &["census", "--diff", "old.so", "new.so", "--json"]).json();
    let changed: Vec<&str> = changes["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["function"].as_str().unwrap())
        .collect();
    assert_eq!(changed, ["fence", "flush_better"]);
    assert_eq!(changes["changes"][1]["after"]["clwb"], 1);
    let said = ringfence_in(folder.path(), &["census", "--diff", "old.so", "new.so"]);
    assert!(
        said.said().contains("fence . 2 → 0") && said.said().contains("flush_better 0 → 1 0 → 1"),
        "{}",
        said.stdout
    );
    let same = ringfence_in(folder.path(), &["census", "--diff", "old.so", "old.so"]);
    assert!(same.said().contains("No function differs"), "{}", same.stdout);
}

#[test]
fn what_is_chosen_at_run_time_is_listed_with_what_it_needs() {
    let folder = Folder::new();
    let source = r#"
#include <immintrin.h>
static void flush_clflush(void *p) { _mm_clflush(p); }
__attribute__((target("clwb"))) static void flush_clwb(void *p) { _mm_clwb(p); }
static void (*resolve(void))(void *) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("clwb") ? flush_clwb : flush_clflush;
}
void flush(void *) __attribute__((ifunc("resolve")));
"#;
    fs::write(folder.path().join("flush.c"), source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-shared", "-fPIC", "-o", "flush.so", "flush.c"]).current_dir(folder.path());
    if !gcc.status().is_ok_and(|status| status.success()) {
        return skip("there is no gcc");
    }
    let found = ringfence_in(folder.path(), &["census", "flush.so", "--json"]).json();
    let [choice] = &found["files"][0]["chosen"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&choice["holder"], &choice["name"]), (&"ifunc".into(), &"flush".into()));
    let here = fs::read_to_string("/proc/cpuinfo").unwrap();
    for (variant, name) in choice["variants"].as_array().unwrap().iter().zip(["clflush", "clwb"]) {
        assert_eq!(variant["function"], format!("flush_{name}"));
        assert_eq!(variant["needs"], serde_json::json!([name]));
        assert_eq!(variant["counts"][name], 1);
        let is_here = here.lines().any(|line| line.split_whitespace().any(|flag| flag == name));
        assert_eq!(variant["lacks"].as_array().unwrap().is_empty(), is_here, "{name}");
    }
    let said = ringfence_in(folder.path(), &["census", "flush.so"]).said();
    assert!(said.contains("Chosen at run time: IFUNC flush, one of 2"), "{said}");
    assert!(said.contains("flush_clwb clwb 1 clwb "), "{said}");
}

#[test]
fn this_program_has_what_it_measures() {
    let found = ringfence(&["census", "--json", env!("CARGO_BIN_EXE_ringfence")]).json();
    for operation in
        ["clflush", "clflushopt", "clwb", "nt store", "sfence", "mfence", "lfence", "locked"]
    {
        assert!(found["total"][operation].as_u64().unwrap() > 0, "{operation}: {}", found["total"]);
    }
}

#[test]
fn what_has_no_code_is_refused_in_a_sentence() {
    let folder = Folder::new();
    fs::write(folder.path().join("text"), "hello").unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    // Without its section headers.
    let mut bare = fs::read("/proc/self/exe").unwrap();
    bare[0x28..0x30].fill(0);
    bare[0x3c..0x40].fill(0);
    for inside in ["bare", "bare/deep"] {
        fs::create_dir(folder.path().join(inside)).unwrap();
        fs::write(folder.path().join(inside).join("file"), &bare).unwrap();
    }
    fs::create_dir(folder.path().join("nothing")).unwrap();
    for (args, why) in [
        (
            &["census", "bare"][..],
            "none of 2 files with code could be read: bare/deep/file: no code found",
        ),
        (&["census", "bare", "--json"], "no code found: its section headers are missing"),
        (&["census", "nothing"], "no file with code for x86 was found"),
    ] {
        let output = ringfence_in(folder.path(), args);
        assert!(
            output.code() == Some(2) && output.stderr.contains(why),
            "{args:?}: {}",
            output.stderr
        );
        assert!(!output.stdout.is_empty());
    }
    // Of several, the others are read all the same.
    let mixed = ringfence_in(folder.path(), &["census", "text", "/bin/true", "bare/file"]);
    let said = mixed.said();
    assert!(
        said.contains("true") && said.contains("not an ELF file") && said.contains("no code found"),
        "{said}"
    );
    for (args, part) in [
        (&["census"][..], "needs PATH"),
        (&["census", "bare/file"], "no code found: its section headers are missing"),
        (&["census", "--diff", "bare", "bare"], "none of 2 files with code could be read"),
        (&["census", "none"], "cannot be read"),
        (&["census", "text"], "text: it is not an ELF file; name a program, a library, an object"),
        (&["census", "empty"], "not an ELF file"),
        (&["census", "/dev/null"], "neither a file nor a folder"),
        (&["census", "--package", "no-such-package"], "no package 'no-such-package' is installed"),
        (&["census", "--diff", "text", "text"], "not an ELF file"),
        (&["census", "--diff", "text", "text", "empty"], "one PATH"),
        (&["census", "--diff", "text"], "needs PATH"),
        (&["census", "--all", "--diff", "text", "text"], "--all"),
    ] {
        let output = ringfence_in(folder.path(), args);
        assert_eq!(
            (output.code(), output.stdout.as_str()),
            (Some(2), ""),
            "{args:?}: {}",
            output.stderr
        );
        assert_eq!(output.stderr.lines().count(), 1, "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
    }
}

// A store that is flushed twice and fenced, and one that is forgotten.
fn trace(folder: &std::path::Path) {
    use ringfence_trace::events::{Action, Ended, Event, Place, Site, TracedFile};
    use ringfence_trace::recording::{About, Writer};

    let about =
        About { recorder: "a test".into(), command: vec!["./it".into()], ..About::default() };
    let mut writer = Writer::create(folder, about).unwrap();
    writer
        .file(TracedFile { id: 1, path: "/mnt/pmem/pool".into(), size: 4096, medium: None })
        .unwrap();
    let at = |offset| Place { file: 1, offset };
    let flush = Action::Flush { flush: ringfence_persist::Flush::Clwb, at: at(0) };
    let store = |offset| Action::Store { at: at(offset), bytes: vec![1; 8] };
    let actions = [store(0), flush.clone(), flush, Action::Sfence, store(64)];
    for (number, action) in (1..).zip(actions) {
        writer.site(&Site {
            id: number,
            module: "/no/such/it".into(),
            address: number.into(),
            bytes: vec![],
        });
        writer
            .push(&Event { sequence: number.into(), thread: 1, site: number, callers: 0, action })
            .unwrap();
    }
    writer.finish(Ended::Exited(0)).unwrap();
}

#[test]
fn of_a_trace_it_says_what_was_executed() {
    let folder = Folder::new();
    trace(&folder.path().join("trace"));
    let said = ringfence_in(folder.path(), &["census", "trace"]).said();
    for part in [
        "./it: 5 events of 1 thread",
        "1 of 2 flushes (50 %) were of lines that had been flushed since the last fence; nothing \
         was stored to any",
        "1 line was not flushed after the last store",
        "it+0x5",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let found = ringfence_in(folder.path(), &["census", "trace", "--json"]).json();
    assert_eq!(found["schema"], "ringfence/census-run/1");
    assert_eq!((&found["events"], &found["total"]["clwb"]), (&5.into(), &2.into()));
    assert_eq!(found["sites"].as_array().unwrap().len(), 5);
    assert_eq!(found["ended"]["exited"], 0);

    // Whose rules the lints go by changes what they find, and no count.
    let by = |rules| {
        ringfence_in(folder.path(), &["census", "trace", "--json", "--rules", rules]).json()
    };
    let (intel, durable) = (by("intel"), by("eadr"));
    assert_eq!((&intel["rules"], &durable["rules"]), (&"intel".into(), &"eadr".into()));
    assert_eq!(intel["total"], durable["total"]);
    let lost = |run: &serde_json::Value| {
        run["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["rule"] == "never durable")
            .count()
    };
    // The last store is never flushed.
    assert_eq!((lost(&intel), lost(&durable)), (1, 0), "{intel} {durable}");
    let said = ringfence_in(folder.path(), &["census", "trace", "--rules", "old-amd"]).said();
    assert!(said.contains("by the rules of AMD's processors before clflushopt"), "{said}");

    fs::write(folder.path().join("trace/events-0001.parquet"), "no table").unwrap();
    for (words, why) in [
        (&["census", "trace"][..], "events-0001.parquet is damaged"),
        (&["census", "trace", "."], "trace is a trace: name it alone"),
        (
            &["census", "trace", "--rules", "mine"],
            "--rules: 'mine' is none of intel, amd, old-amd and eadr",
        ),
        (&["census", "--diff", "trace", "."], "trace is a trace and . is not"),
        (&["census", "--diff", ".", "trace"], "trace is a trace and . is not"),
        (&["census", "--diff", "trace", "trace"], "events-0001.parquet is damaged"),
        (&["census", "--diff", "trace", "trace", "trace"], "trace is a trace: name it alone"),
        (&["census", "trace", "--package", "libpmem1"], "trace is a trace: name it alone"),
    ] {
        let refused = ringfence_in(folder.path(), words);
        assert_eq!(refused.code(), Some(2), "{words:?}");
        assert!(refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
    }
}

// The newer build has neither of two faults, at other addresses.
const FAULTY: &str = r#"
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef NEWER
volatile char other[4096];
__attribute__((noinline)) void more(int n) { for (int i = 0; i < n; i++) other[i] = (char)i; }
#endif
__attribute__((noinline)) void persist(volatile char *p) {
    _mm_clflush((void *)p);
#ifndef NEWER
    _mm_clflush((void *)p);
#endif
    _mm_sfence();
}
#line 100
__attribute__((noinline)) void put(volatile char *p, int n) {
    for (int i = 0; i < n; i++)
        p[64 * i] = 1;
}
int main(int count, char **words) {
    int fd = open(words[1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, 4096)) return 9;
    volatile char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
#ifdef NEWER
    more(9);
    put(p, 3);
#else
    put(p, 4);
#endif
    for (int i = 0; i < 3; i++)
        persist(p + 64 * i);
    return 0;
}
"#;

#[test]
fn two_runs_are_told_apart() {
    let folder = Folder::new();
    fs::write(folder.path().join("store.c"), FAULTY).unwrap();
    for (name, flag) in [("old", "-DOLDER"), ("new", "-DNEWER")] {
        let mut gcc = Command::new("gcc");
        gcc.args(["-g", "-O1", flag, "-o", name, "store.c"]).current_dir(folder.path());
        if !gcc.status().is_ok_and(|status| status.success()) {
            return skip("there is no gcc");
        }
        let (program, trace) = (format!("./{name}"), format!("{name}-trace"));
        let words = ["trace", "--file", "pool", "--out", &trace, "--", &program, "pool"];
        let recorded = ringfence_in(folder.path(), &words);
        assert_eq!(recorded.code(), Some(0), "{}", recorded.stderr);
    }
    let words = ["census", "--diff", "old-trace", "new-trace"];
    let found = ringfence_in(folder.path(), &[&words[..], &["--json"]].concat()).json();
    assert_eq!(found["schema"], "ringfence/census-run-diff/1");
    assert_eq!(found["before"]["trace"], "old-trace");
    let totals = |key: &str| {
        let of = |side: &str| found[side]["total"][key].as_u64().unwrap();
        (of("before"), of("after"))
    };
    assert_eq!((totals("clflush"), totals("flushed_again")), ((6, 3), (3, 0)));
    assert_eq!((totals("unflushed_lines"), totals("sfence")), ((1, 0), (3, 3)));
    let functions = found["functions"].as_array().unwrap();
    let names: Vec<&str> = functions.iter().map(|one| one["place"].as_str().unwrap()).collect();
    assert_eq!(names, ["persist", "put"]);
    assert_eq!(
        (&functions[1]["before"]["stores"], &functions[1]["after"]["stores"]),
        (&4.into(), &3.into())
    );
    // The fence has the same line in both, and does the same.
    let sites = found["sites"].as_array().unwrap();
    let at = |name: &str| sites.iter().any(|one| one["place"] == name);
    assert!(at("put (store.c:102)") && at("persist (store.c:13)"), "{sites:#?}");
    assert!(!at("persist (store.c:15)"), "{sites:#?}");

    let said = ringfence_in(folder.path(), &words).said();
    for part in
        ["before ./old pool:", "after ./new pool:", "flushed twice 3 .", "put . . 4 → 3 1 → 0"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let same = ringfence_in(folder.path(), &["census", "--diff", "old-trace", "old-trace"]);
    assert!(same.said().contains("Nowhere do the runs differ."), "{}", same.stdout);
    let refused = ringfence_in(folder.path(), &["census", "--diff", "old-trace", "new"]);
    assert_eq!((refused.code(), refused.stderr.lines().count()), (Some(2), 1));
    assert!(refused.stderr.contains("old-trace is a trace and new is not"), "{}", refused.stderr);
}

#[test]
fn of_a_trace_it_says_what_it_would_cost_by_a_survey() {
    use ringfence_studies::fixtures::{survey_in, zen};

    let folder = Folder::new();
    trace(&folder.path().join("trace"));
    let survey = survey_in(&folder.path().join("survey"), zen);
    // What the survey says of clwb: the instruction on a line, and a fence after it.
    let clwb = survey.parts.iter().find(|parts| parts.instruction == "clwb").unwrap();
    let expected = clwb.flush.as_ref().unwrap().ns + clwb.fence_per_line.as_ref().unwrap().ns;
    let found =
        ringfence_in(folder.path(), &["census", "trace", "--costs", "survey", "--json"]).json();
    let saving = &found["saving"];
    assert_eq!(
        (&saving["lines"], &saving["fences"], &saving["needless_flushes"]),
        (&1.into(), &1.into(), &1.into())
    );
    let ns = saving["predicted"][0]["ns"].as_f64().unwrap();
    assert!((ns - expected).abs() < 1e-6 * expected.abs(), "{ns} and {expected}");
    assert!(saving["predicted"].as_array().unwrap().len() > 2, "{saving}");
    assert!(saving["needless_ns"].is_null(), "{saving}");
    let said = ringfence_in(folder.path(), &["census", "trace", "--costs", "survey"]).said();
    assert!(said.contains("What 1 line and 1 fence cost on"), "{said}");
    assert!(said.contains("'ringfence tune'"), "{said}");

    let policy = format!(
        "schema = 1\nprocessor = \"{}\"\ntarget = \"dram\"\ninstruction = \"clwb\"\nbatch = \
         1\nclean_flush_ns = 12.5\n",
        ringfence_persist::policy::Fingerprint::here()
    );
    fs::write(folder.path().join("policy.toml"), policy).unwrap();
    let mut priced = std::process::Command::new(env!("CARGO_BIN_EXE_ringfence"));
    priced.args(["census", "trace", "--costs", "survey", "--json"]).current_dir(folder.path());
    let priced = priced.env("RINGFENCE_POLICY", "policy.toml").output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&priced.stdout).unwrap();
    assert_eq!(found["saving"]["needless_ns"], 12.5);

    for (words, why) in [
        (&["census", "trace", "--costs", "trace"][..], "'ringfence survey' makes one"),
        (
            &["census", "--costs", "survey", env!("CARGO_BIN_EXE_ringfence")],
            "--costs is for a trace",
        ),
    ] {
        let refused = ringfence_in(folder.path(), words);
        assert_eq!(refused.code(), Some(2), "{words:?}");
        assert!(refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
    }
}
