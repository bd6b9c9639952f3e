//! `tune` on this machine: a policy that the persistence library reads.

use std::fs;

use ringfence_persist::policy::{FileSync, Policy, RegionSync};
use ringfence_persist::{Durability, Mapped, Memory, Methods, Region};

use crate::support::disk::{empty, on_disk};
use crate::support::{self, Folder, ringfence_in};

const QUICK: [&str; 6] = ["tune", "dram", "--trials=6", "--size=2MiB", "--quiet", "--out=data"];

#[test]
fn a_policy_is_written_that_the_library_reads() {
    let folder = Folder::new();
    let output = ringfence_in(folder.path(), &[&QUICK[..], &["--json"]].concat());
    let tuned = &output.json()["tuned"];
    let text = fs::read_to_string(folder.path().join("ringfence-policy.toml")).unwrap();
    let policy = Policy::parse(&text).unwrap();
    assert!(policy.is_for_here());
    assert_eq!(policy.target, "dram");
    // What was chosen is what is written, unless fresh trials spoke against it.
    let chosen =
        if tuned["fell_back"].as_bool().unwrap() { &tuned["pmdk"] } else { &tuned["choice"] };
    assert_eq!(chosen["instruction"].as_str().unwrap(), policy.instruction.to_string());
    assert_eq!(chosen["nt_threshold"].as_u64(), policy.nt_threshold);
    assert_eq!(tuned["costs"].as_array().unwrap().len(), 60);
    // The folder says what was concluded, too.
    let shown = ringfence_in(folder.path(), &["show", "data"]);
    assert!(
        text.lines().filter(|line| line.contains(" = ")).all(|line| shown.ok().contains(line)),
        "{}",
        shown.ok()
    );
    // 64 flushes take longer than a step of any clock.
    assert!(tuned["unpriced"].is_null());
    assert!(policy.prices.flush_ns.is_some() && policy.prices.clean_flush_ns.is_some());
    // Any reader of TOML reads it, too.
    assert!(text.parse::<toml::Table>().is_ok());

    let again = ringfence_in(
        folder.path(),
        &["tune", "dram", "--trials=2", "--size=2MiB", "--quiet", "--out=more"],
    );
    assert_eq!(again.code(), Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("already exists: name another file"), "{}", again.stderr);
}

#[test]
fn a_victim_decides_whether_there_is_a_policy() {
    if support::cpus().len() < 2 {
        return support::skip("a victim beside a writer needs two CPUs");
    }
    let folder = Folder::new();
    let output = ringfence_in(
        folder.path(),
        &[&QUICK[..], &["--victim=alu", "--budget=100%", "--json"]].concat(),
    );
    let json = output.json_of_any();
    let code = match json["tuned"]["proof"]["verdict"].as_str() {
        Some("nothing_needed" | "met") => 0,
        Some("undecided") => 4,
        _ => 3,
    };
    assert_eq!(output.code(), Some(code), "{}", output.stderr);
    assert_eq!(folder.path().join("ringfence-policy.toml").exists(), code == 0);
}

// From the folder to the call that a region makes.
#[test]
fn a_policy_for_files_is_written_and_followed() {
    let Some(data) = on_disk("tuned") else { return };
    let folder = Folder::new();
    // Named by a link, from which nothing follows elsewhere.
    std::os::unix::fs::symlink(&data, folder.path().join("link")).unwrap();
    let target = format!("file:{}", data.canonicalize().unwrap().display());
    let few =
        ["--sync=fdatasync,rwf-dsync", "--layout=written", "--trials=2", "--size=1MiB", "--quiet"];
    let args = [&["tune", "file:./link", "--out=data", "--json"][..], &few].concat();
    let output = ringfence_in(folder.path(), &args);
    let json = output.json();
    assert_eq!(json["schema"], "ringfence/tuned-files/1");
    let tuned = &json["tuned"];
    // The plain way is compared, though it is not among those to choose from.
    assert_eq!(tuned["costs"].as_array().unwrap().len(), 3, "{tuned}");
    assert_eq!(tuned["batches"].as_array().unwrap().len(), 4, "{tuned}");
    assert_eq!(tuned["settled"]["mapped"], serde_json::Value::Null, "mappings were not measured");
    // It has what the fresh trials show to be cheaper, and else what most programs do.
    let wanted = &tuned["settled"];
    let confirmed = tuned["confirmed"].as_array().unwrap();
    let way = confirmed.iter().find(|one| one["what"] == "way");
    let faster = way.is_some_and(|one| one["finding"]["verdict"] == "faster");
    let from = if faster { &tuned["choice"] } else { &tuned["plain"] };
    assert_eq!((&wanted["sync"], &wanted["layout"]), (&from["sync"], &from["layout"]), "{tuned}");
    let text = fs::read_to_string(folder.path().join("ringfence-policy.toml")).unwrap();
    let policy = Policy::parse(&text).unwrap();
    assert_eq!((policy.target.as_str(), policy.is_for_here()), (target.as_str(), true));
    let file = policy.file.unwrap();
    assert_eq!(wanted["sync"], file.sync.name());
    assert_eq!(wanted["layout"], file.layout.name());
    assert_eq!(wanted["batch"].as_u64(), Some(file.batch.into()));
    assert!(matches!(file.sync, FileSync::Fdatasync | FileSync::RwfDsync), "{text}");
    assert!(text.parse::<toml::Table>().is_ok(), "any reader of TOML reads it");
    assert!(ringfence_in(folder.path(), &["show", "data"]).ok().contains("[file]"));
    // What it says is what a region does.
    let methods = Methods::of_policy(&policy).unwrap();
    assert_eq!(methods.sync, RegionSync::Fdatasync);
    let path = data.join("region");
    let memory = Mapped::with_methods(
        Region::create(&path, 1 << 20, Durability::PageCache).unwrap(),
        methods,
    );
    for at in [0, 4096, 1 << 19] {
        memory.store(at, b"stored");
        memory.flush(at..at + 6);
    }
    memory.sfence();
    assert_eq!((memory.region().syncs(), memory.health().is_ok()), (1, true));
    fs::remove_file(&path).unwrap();
    assert!(empty(&data), "nothing is left");
}

#[test]
fn slips_about_files_are_refused_in_a_sentence() {
    let folder = Folder::new();
    fs::write(folder.path().join("a file"), "").unwrap();
    let cases: [(&[&str], &str); 13] = [
        (&["file:/dev/shm"], "it is in memory, where nothing is durable and syncing does nothing"),
        (&["file:none"], "none: No such file or directory (os error 2); name a folder"),
        (&["file:a file"], "a file is not a folder"),
        (&["file:.", "--victim", "alu"], "--aggressor 'commit dir=.'"),
        (&["file:.", "--budget", "2%"], "--budget: it applies to memory"),
        (&["file:.", "--placement", "smt"], "commits have none here"),
        (&["file:.", "--machine", "laptop"], "files and disks are not simulated"),
        (&["file:.", "--block", "2MiB"], "between 1B and 1MiB"),
        (&["file:.", "--size", "8KiB"], "too small"),
        (&["file:.", "--trials", "1"], "at least 4"),
        (&["file:.", "--sync", "none"], "--sync: 'none' is not one of fdatasync, fsync"),
        (&["file:.", "--layout", "writen"], "did you mean 'written'?"),
        (
            &["dram", "--layout", "written"],
            "--layout applies to files: name a folder as the target",
        ),
    ];
    for (args, part) in cases {
        let output = ringfence_in(folder.path(), &[&["tune"], args].concat());
        assert_eq!(output.code(), Some(2), "{args:?}: {}", output.stderr);
        let told = output.stderr.contains(part) && output.stderr.lines().count() == 1;
        assert!(told, "{args:?}: {}", output.stderr);
    }
    assert_eq!(folder.entries(), ["a file"]);
}

#[test]
fn slips_are_refused_in_a_sentence_and_nothing_is_written() {
    let folder = Folder::new();
    let cases: [(&[&str], &str); 6] = [
        (&["tune", "disk"], "is not a target"),
        (&["tune", "--budget", "2%"], "name the task with --victim"),
        (&["tune", "--size", "64KiB"], "smaller than the largest block"),
        (&["tune", "--victim", "wrte block=1KiB"], "did you mean 'write'"),
        (&["tune", "--victim", "mcf", "--budget", "many"], "is not a share"),
        (&["tune", "--trials", "none"], "--trials"),
    ];
    for (args, part) in cases {
        let output = ringfence_in(folder.path(), args);
        assert_eq!(output.code(), Some(2), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
    }
    assert_eq!(folder.entries(), Vec::<String>::new());
}
