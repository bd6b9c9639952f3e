//! `crash`, of small programs with a planted bug, and of the same without it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Folder, Output, ringfence_in, skip, wait_for};

const SOURCE: &str = include_str!("crash.c");

/// A folder with a program of a C source, and two files for it; none if there is no compiler.
pub(crate) fn built_of(name: &str, source: &str) -> Option<Folder> {
    let folder = Folder::new();
    let file = format!("{name}.c");
    fs::write(folder.path().join(&file), source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-mclflushopt", "-mclwb", "-pthread", "-o", name, &file]);
    if !gcc.current_dir(folder.path()).status().is_ok_and(|status| status.success()) {
        skip("there is no gcc");
        return None;
    }
    for name in ["one", "two"] {
        fs::write(folder.path().join(name), vec![0; 65536]).unwrap();
    }
    Some(folder)
}

fn built() -> Option<Folder> {
    built_of("stores", SOURCE)
}

fn crash(folder: &Folder, name: &str, twin: &str, more: &[&str]) -> Output {
    let recover = format!("./stores {name} {twin} list one two");
    let mut words = vec!["crash", "--file", "one", "--file", "two", "--recover", &recover];
    words.extend(["--quiet", "--json"]);
    words.extend(more);
    words.extend(["--", "./stores", name, twin, "append", "3", "one", "two"]);
    ringfence_in(folder.path(), &words)
}

const PMEM: [&str; 4] = ["--medium", "pmem", "--rules", "intel"];
const AMD: [&str; 4] = ["--medium", "pmem", "--rules", "amd"];
const PAGES: [&str; 2] = ["--medium", "pages"];

// Each bug is found, at the store that is lost, and its twin has none.
fn is_found(folder: &Folder, name: &str, medium: &[&str]) {
    let twin = crash(folder, name, "good", medium);
    assert_eq!(twin.code(), Some(0), "{name}: {}{}", twin.stdout, twin.stderr);
    let answer = &twin.json()["crash"];
    assert_eq!(answer["points"], answer["complete"], "{name}");
    let planted = crash(folder, name, "bad", medium);
    assert_eq!(planted.code(), Some(3), "{name}: {}{}", planted.stdout, planted.stderr);
    let answer = planted.json_of_any();
    let first = &answer["crash"]["findings"][0];
    let at = first["lost"][0]["at"].as_str().unwrap_or_default().to_owned();
    assert!(at.starts_with(name) && at.contains("stores.c:"), "{name}: {first}");
    assert_eq!(first["remedy"]["left"], 0, "{name}: {first}");
}

#[test]
fn planted_bugs_of_persistent_memory_are_found_and_their_twins_are_not_accused() {
    let Some(folder) = built() else { return };
    for name in ["missing_flush", "missing_fence", "wrong_line", "early", "two_lines", "creation"] {
        is_found(&folder, name, &PMEM);
    }
    for name in ["non_temporal", "other_thread"] {
        is_found(&folder, name, &AMD);
    }
}

#[test]
fn planted_bugs_of_ordinary_files_are_found_and_their_twins_are_not_accused() {
    let Some(folder) = built() else { return };
    for name in ["two_files", "wrong_range"] {
        is_found(&folder, name, &PAGES);
    }
}

#[test]
fn a_moment_between_two_crash_points_is_seen_by_a_kill() {
    let Some(folder) = built() else { return };
    let good = crash(&folder, "moved", "good", &AMD);
    assert_eq!(good.code(), Some(0), "{}{}", good.stdout, good.stderr);
    let bad = crash(&folder, "moved", "bad", &AMD);
    assert_eq!(bad.code(), Some(4), "{}{}", bad.stdout, bad.stderr);
    let answer = &bad.json_of_any()["crash"];
    assert_eq!(answer["gap"]["line"], "it is there", "{answer}");
}

#[test]
fn a_remedy_is_tried_and_failures_that_it_prevents_are_one_bug() {
    let Some(folder) = built() else { return };
    let added = |name: &str, medium: &[&str]| {
        let bad = crash(&folder, name, "bad", medium);
        let findings = bad.json_of_any()["crash"]["findings"].clone();
        assert_eq!(findings.as_array().unwrap().len(), 1, "{name}: {findings}");
        let remedy = findings[0]["remedy"].clone();
        let after = remedy["after"].as_str().unwrap().to_owned();
        (remedy["added"].as_str().unwrap().to_owned(), after.starts_with(name))
    };
    assert_eq!(added("missing_flush", &AMD), ("flush_and_fence".into(), true));
    // The flush that no fence follows is in a function of its own.
    assert_eq!(added("missing_fence", &AMD).0, "fence");
    assert_eq!(added("two_files", &PAGES), ("sync".into(), true));
}

#[test]
fn the_program_is_not_run_where_recovery_cannot_be() {
    let Some(folder) = built() else { return };
    let ringfence = env!("CARGO_BIN_EXE_ringfence");
    let inside = format!(
        "echo 0 > /proc/sys/user/max_pid_namespaces && exec {ringfence} crash --file one --medium \
         pages --out result --recover true -- touch started"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", &inside]);
    let Ok(said) = unshare.current_dir(folder.path()).output() else {
        return skip("there is no unshare");
    };
    let stderr = String::from_utf8_lossy(&said.stderr);
    if stderr.contains("unshare failed") || stderr.contains("max_pid_namespaces") {
        return skip("a user may have no namespaces here");
    }
    assert_eq!(said.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("recovery cannot be isolated here"), "{stderr}");
    assert!(!folder.path().join("started").exists());
    assert!(!folder.path().join("result").exists());
}

#[test]
fn an_examination_that_was_cut_short_goes_on_with_the_runs_that_it_has() {
    let Some(folder) = built() else { return };
    let whole = crash(&folder, "missing_flush", "bad", &AMD).json_of_any()["crash"].clone();
    let cut: Vec<&str> = AMD.iter().copied().chain(["--states", "4", "--out", "result"]).collect();
    let cut = crash(&folder, "missing_flush", "bad", &cut).json_of_any()["crash"].clone();
    assert_eq!(cut["cut"], "states", "{cut}");
    // As if it had been killed.
    fs::remove_file(folder.path().join("result/crash.json")).unwrap();
    let runs = || fs::read_to_string(folder.path().join("result/runs")).unwrap().lines().count();
    let before = runs();
    let words = ["crash", "--resume", "result", "--quiet", "--json"];
    let rest = ringfence_in(folder.path(), &words);
    assert_eq!(rest.code(), Some(3), "{}{}", rest.stdout, rest.stderr);
    let rest = rest.json_of_any()["crash"].clone();
    for what in ["points", "complete", "cut"] {
        assert_eq!(rest[what], whole[what], "{what}: {rest}");
    }
    assert_eq!(rest["findings"].as_array().unwrap().len(), 1);
    assert!(before > 0 && runs() > before, "{before} runs and {} runs", runs());
    let nothing = ringfence_in(folder.path(), &["crash", "--resume", "one"]);
    assert_eq!(nothing.code(), Some(2), "{}", nothing.stderr);
}

#[test]
fn a_failure_that_differs_each_time_is_refused_with_its_lines() {
    let Some(folder) = built() else { return };
    let said = crash(&folder, "chance", "bad", &AMD);
    assert_eq!(said.code(), Some(2), "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("chance ") && said.stderr.contains("--ignore"), "{}", said.stderr);
}

#[test]
fn msync_settles_stores_by_all_rules() {
    let Some(folder) = built() else { return };
    for rules in ["amd", "eadr"] {
        let medium = ["--medium", "pmem", "--rules", rules];
        let good = crash(&folder, "wrong_range", "good", &medium);
        assert_eq!(good.code(), Some(0), "{rules}: {}{}", good.stdout, good.stderr);
    }
}

#[test]
fn processors_differ_in_what_they_order() {
    let Some(folder) = built() else { return };
    is_found(&folder, "clflush_alone", &AMD);
    let intel = crash(&folder, "clflush_alone", "bad", &PMEM);
    assert_eq!(intel.code(), Some(0), "{}{}", intel.stdout, intel.stderr);
    let others = &intel.json()["crash"]["by_other_rules"];
    let fail = |medium: &str| others.as_array().unwrap().iter().find(|by| by["medium"] == medium);
    assert_eq!(fail("pmem-amd").unwrap()["fails"], true, "{others}");
    assert_eq!(fail("pmem-eadr").unwrap()["fails"], false, "{others}");
    let eadr = ["--medium", "pmem", "--rules", "eadr"];
    let eadr = crash(&folder, "missing_flush", "bad", &eadr);
    assert_eq!(eadr.code(), Some(0), "{}{}", eadr.stdout, eadr.stderr);
}

#[test]
fn a_recovery_that_flushes_nothing_loses_what_it_printed_when_it_crashes_after_a_kill() {
    let Some(folder) = built() else { return };
    let name = "unflushed_recovery";
    let once = crash(&folder, name, "bad", &PMEM);
    assert_eq!(once.code(), Some(0), "{}{}", once.stdout, once.stderr);
    let twice: Vec<&str> = PMEM.iter().copied().chain(["--crashes", "2"]).collect();
    let bad = crash(&folder, name, "bad", &twice);
    assert_eq!(bad.code(), Some(3), "{}{}", bad.stdout, bad.stderr);
    let answer = &bad.json_of_any()["crash"];
    let found = &answer["findings"][0];
    assert_eq!(found["fault"], "lost", "{found}");
    assert!(found["lost"][0]["at"].as_str().unwrap().starts_with(name), "{found}");
    assert!(found["killed"]["before"].is_string(), "{found}");
    assert_eq!(answer["kills"]["examined"], answer["kills"]["all"]);
    let good = crash(&folder, name, "good", &twice);
    assert_eq!(good.code(), Some(0), "{}{}", good.stdout, good.stderr);
}

#[test]
fn a_file_that_is_not_there_is_made_for_the_program_alone() {
    let Some(folder) = built() else { return };
    let run = |twin: &str| {
        let recover = format!("./stores creation {twin} list fresh");
        let mut words = vec!["crash", "--file", "fresh", "--recover", &recover, "--quiet"];
        words.extend(["--json"]);
        words.extend(PMEM);
        words.extend(["--", "./stores", "creation", twin, "append", "1", "fresh"]);
        ringfence_in(folder.path(), &words)
    };
    let good = run("good");
    assert_eq!(good.code(), Some(0), "{}{}", good.stdout, good.stderr);
    let bad = run("bad");
    assert_eq!(bad.code(), Some(3), "{}{}", bad.stdout, bad.stderr);
    assert!(!folder.path().join("fresh").exists());
    let found = &bad.json_of_any()["crash"]["findings"][0];
    let rerun = Command::new("sh").arg(found["rerun"].as_str().unwrap()).output().unwrap();
    assert_eq!(rerun.status.code(), Some(3), "{}", String::from_utf8_lossy(&rerun.stderr));
    assert!(!folder.path().join("fresh").exists());
}

#[test]
fn a_command_can_check_what_recovery_prints() {
    let Some(folder) = built() else { return };
    let check = "n=$(grep -c appended); m=$(sed -n 's/ entries//p' $RECOVERED)
        test $m -ge $n && test $m -le $((n + 1)) || { echo $n appended, $m there; false; }";
    let expect: Vec<&str> = PMEM.iter().copied().chain(["--expect", check]).collect();
    let bad = crash(&folder, "early", "bad", &expect);
    assert_eq!(bad.code(), Some(3), "{}{}", bad.stdout, bad.stderr);
    let found = &bad.json_of_any()["crash"]["findings"][0];
    assert_eq!(found["fault"], "refused", "{found}");
    assert_eq!(found["message"], "1 appended, 0 there", "{found}");
    let good = crash(&folder, "early", "good", &expect);
    assert_eq!(good.code(), Some(0), "{}{}", good.stdout, good.stderr);
    let never: Vec<&str> = PMEM.iter().copied().chain(["--expect", "echo no; false"]).collect();
    let refused = crash(&folder, "early", "good", &never);
    assert_eq!(refused.code(), Some(2));
    let said = "--expect refuses what recovery prints on the files as they were at first: no";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
}

#[test]
fn the_failure_shows_without_ringfence_and_the_files_stay_as_they_were() {
    let Some(folder) = built() else { return };
    let planted = crash(&folder, "missing_flush", "bad", &PMEM);
    let answer = planted.json_of_any();
    let first = &answer["crash"]["findings"][0];
    assert_eq!(first["fault"]["ends"]["exited"], 3, "{first}");
    assert!(first["printed"].as_str().unwrap().starts_with("entry"), "{first}");
    let rerun = first["rerun"].as_str().unwrap();
    let shown = Command::new("sh").arg(rerun).output().unwrap();
    let said = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(shown.status.code(), Some(3), "{said}{}", String::from_utf8_lossy(&shown.stderr));
    assert!(said.contains("entry"), "{said}");
    for name in ["one", "two"] {
        let bytes = fs::read(folder.path().join(name)).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "{name} was changed");
    }
    let [result] = &folder.results()[..] else { panic!("{:?}", folder.results()) };
    let shown = ringfence_in(folder.path(), &["show", result.to_str().unwrap()]);
    assert!(shown.ok().starts_with("stores: 1 bug; "), "{}", shown.stdout);
    assert!(shown.stdout.contains("never flushed"), "{}", shown.stdout);
    let page = ringfence_in(folder.path(), &["show", "--html", result.to_str().unwrap()]);
    page.ok();
    let page = fs::read_to_string(result.join("report.html")).unwrap();
    assert!(page.contains("never flushed"));
}

fn mounts(folder: &Folder) -> usize {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours = folder.path().display().to_string();
    all.lines().filter(|line| line.contains(&ours)).count()
}

#[test]
fn a_recovery_out_of_control_ends_in_a_sentence_and_leaves_nothing() {
    let Some(folder) = built() else { return };
    for (name, time, says) in [("hangs", "1s", "no end"), ("forks", "60s", "too many processes")] {
        let refused = crash(&folder, name, "good", &[&PMEM[..], &["--time", time]].concat());
        assert_eq!(refused.code(), Some(2), "{name}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{name}: {}", refused.stderr);
    }
    // The disk that it sees is full, and the real one is not.
    let filled = crash(&folder, "fills", "good", &PMEM);
    assert_eq!(filled.code(), Some(4), "{}{}", filled.stdout, filled.stderr);
    assert!(!folder.path().join("filled").exists());
    assert_eq!(mounts(&folder), 0);
    wait_for("no process is left", || {
        let ours = format!("{}", folder.path().display());
        let all = fs::read_dir("/proc").unwrap().flatten();
        let cwd = |entry: fs::DirEntry| fs::read_link(entry.path().join("cwd")).ok();
        all.filter_map(cwd).all(|cwd| !cwd.starts_with(Path::new(&ours))).then_some(())
    });
}

#[test]
fn a_recovery_that_allocates_without_end_is_a_finding() {
    let Some(folder) = built() else { return };
    let began = Instant::now();
    let limit: Vec<&str> = PMEM.iter().copied().chain(["--memory", "64MiB"]).collect();
    let bad = crash(&folder, "allocates", "bad", &limit);
    assert_eq!(bad.code(), Some(3), "{}{}", bad.stdout, bad.stderr);
    // It gets no memory, and stores there nevertheless.
    let found = &bad.json_of_any()["crash"]["findings"][0];
    assert_eq!(found["fault"]["ends"]["signal"], 11, "{found}");
    let rerun = Command::new("sh").arg(found["rerun"].as_str().unwrap()).output().unwrap();
    assert!(!rerun.status.success());
    assert!(began.elapsed() < Duration::from_secs(60));
    let good = crash(&folder, "allocates", "good", &limit);
    assert_eq!(good.code(), Some(0), "{}{}", good.stdout, good.stderr);
    let refused = crash(&folder, "allocates", "good", &["--memory", "much"]);
    assert!(refused.stderr.contains("--memory: 'much' is not a size"), "{}", refused.stderr);
}

#[test]
fn output_that_changes_by_itself_is_refused_until_it_is_left_out() {
    let Some(folder) = built() else { return };
    let refused = crash(&folder, "timestamp", "good", &PMEM);
    assert_eq!(refused.code(), Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("--ignore"), "{}", refused.stderr);
    let found = crash(&folder, "timestamp", "good", &[&PMEM[..], &["--ignore", "^at "]].concat());
    assert_eq!(found.code(), Some(0), "{}{}", found.stdout, found.stderr);
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence() {
    let Some(folder) = built() else { return };
    let run = |words: &[&str]| ringfence_in(folder.path(), words);
    let program = ["--", "./stores", "early", "good", "append", "1", "one", "two"];
    let start = ["crash", "--file", "one", "--recover", "true"];
    for (more, says) in [
        (&["--rules", "arm", "--medium", "pmem"][..], "--rules"),
        (&["--acknowledge", "("], "--acknowledge '('"),
        (&["--time", "soon"], "--time"),
        (&["--file", "no-folder/file"], "is not there"),
        (&["--crashes", "3"], "--crashes"),
    ] {
        let refused = run(&[&start[..], more, &program].concat());
        assert_eq!(refused.code(), Some(2), "{more:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{more:?}: {}", refused.stderr);
    }
    let other = ["crash", "--file", "one", "--medium", "pmem", "--recover", "./not-there"];
    let unstartable = run(&[&other[..], &program].concat());
    assert_eq!(unstartable.code(), Some(2), "{}{}", unstartable.stdout, unstartable.stderr);
    assert!(unstartable.stderr.contains("not-there"), "{}", unstartable.stderr);
    let failed = run(&[&start[..], &["--", "false"]].concat());
    assert_eq!(failed.code(), Some(1), "{}", failed.stderr);
    let nothing = run(&[&start[..], &["--", "true"]].concat());
    assert_eq!(nothing.code(), Some(2), "{}", nothing.stderr);
    assert!(nothing.stderr.contains("nothing to examine"), "{}", nothing.stderr);
}

#[test]
fn a_folder_stands_for_its_files() {
    let Some(folder) = built() else { return };
    fs::create_dir(folder.path().join("db")).unwrap();
    for name in ["one", "two"] {
        fs::rename(folder.path().join(name), folder.path().join("db").join(name)).unwrap();
    }
    for (twin, code) in [("good", 0), ("bad", 3)] {
        let recover = format!("./stores two_files {twin} list db/one db/two");
        let mut words = vec!["crash", "--file", "db", "--recover", &recover, "--quiet"];
        words.extend(PAGES);
        words.extend(["--", "./stores", "two_files", twin, "append", "3", "db/one", "db/two"]);
        let said = ringfence_in(folder.path(), &words);
        assert_eq!(said.code(), Some(code), "{twin}: {}{}", said.stdout, said.stderr);
    }
}

#[test]
fn a_user_who_is_not_root_finds_the_same() {
    let Some(folder) = built() else { return };
    let open = |name: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    fs::copy(env!("CARGO_BIN_EXE_ringfence"), folder.path().join("ringfence")).unwrap();
    open("", 0o777);
    ["one", "two"].into_iter().for_each(|name| open(name, 0o666));
    let mut unprivileged = Command::new("setpriv");
    unprivileged.args(["--reuid=65534", "--regid=65534", "--clear-groups", "./ringfence"]);
    unprivileged.args(["crash", "--file", "one", "--file", "two", "--out", "found", "--quiet"]);
    unprivileged.args(["--recover", "./stores missing_flush bad list one two"]).args(PMEM);
    unprivileged.args(["--", "./stores", "missing_flush", "bad", "append", "3", "one", "two"]);
    let Ok(said) = unprivileged.current_dir(folder.path()).output() else {
        return skip("there is no setpriv");
    };
    let stderr = String::from_utf8_lossy(&said.stderr);
    if said.status.code() == Some(127) || stderr.contains("setpriv:") {
        return skip("only root can become another user");
    }
    if stderr.contains("does not allow users to mount") {
        return skip("users have no user namespaces");
    }
    let stdout = String::from_utf8_lossy(&said.stdout);
    assert_eq!(said.status.code(), Some(3), "{stdout}{stderr}");
    assert!(stdout.contains("never flushed"), "{stdout}");
}
