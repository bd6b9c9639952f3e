//! `machine` and `--machine`: described machines, and that nothing simulated passes for measured.

use std::fs;
use std::process::Command;

use ringfence_dataset::Dataset;
use serde_json::Value;

use crate::support::{self, Folder, Output, Running, joined, ringfence_in, small_laptop};

const WRITE: [&str; 9] =
    ["write", "--instruction", "clwb,nt", "--block", "4KiB", "--size", "16MiB", "--trials", "2"];
const MARK: &str = "simulated: nothing here was measured";

fn refused(output: &Output, part: &str) {
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(output.stdout.is_empty() && joined(&output.stderr).contains(part), "{}", output.stderr);
    assert_eq!(output.stderr.trim().lines().count(), 1, "one sentence: {}", output.stderr);
}

fn simulate(folder: &Folder, out: &str, more: &[&str]) -> Output {
    let args =
        [&WRITE[..], &["--quiet", "--machine", "cascade-lake-optane", "--out", out], more].concat();
    ringfence_in(folder.path(), &args)
}

#[test]
fn every_form_of_a_result_says_that_it_is_simulated() {
    let folder = Folder::new();
    let found = simulate(&folder, "one", &["--target", "dax:/mnt/pmem0"]);
    let text = found.said();
    assert!(
        text.contains(MARK) && text.contains("Optane") == text.contains("Optane 100"),
        "{text}"
    );
    assert!(text.starts_with(MARK), "{text}");
    let details = simulate(&folder, "details", &["--target", "dax:/mnt/pmem0", "-v"]).said();
    assert!(details.contains(", simulated: 2 sockets x 16 cores x 2 threads"), "{details}");
    let dataset = Dataset::open(&folder.path().join("one")).unwrap();
    assert!(dataset.samples.iter().all(|sample| sample.simulated == Some(true)));
    let json = simulate(&folder, "two", &["--json"]).json();
    assert_eq!(json["simulated"], true);
    let shown = ringfence_in(folder.path(), &["show", "one"]);
    assert!(shown.said().contains(MARK), "{}", shown.stdout);
    assert_eq!(
        ringfence_in(folder.path(), &["show", "one", "--json"]).json()["datasets"][0]["simulated"],
        true
    );
    ringfence_in(folder.path(), &["report", "one"]).ok();
    let page = fs::read_to_string(folder.path().join("one/report.html")).unwrap();
    assert!(
        page.contains("<main class=\"simulated\">") && page.contains(MARK),
        "the page lacks its mark"
    );
    assert!(page.contains("Simulated by ringfence") && !page.contains("Measured by ringfence"));
}

#[test]
fn equal_seeds_simulate_the_same() {
    let folder = Folder::new();
    let samples = |out: &str, seed: &str| {
        simulate(&folder, out, &["--seed", seed]).ok();
        Dataset::open(&folder.path().join(out)).unwrap().samples
    };
    let one = samples("one", "7");
    assert_eq!(one, samples("again", "7"));
    assert_ne!(one, samples("other", "8"));
}

#[test]
fn what_was_simulated_is_compared_with_its_like_alone() {
    let folder = Folder::new();
    for (out, seed) in [("one", "1"), ("two", "2")] {
        simulate(&folder, out, &["--trials", "4", "--seed", seed]).ok();
    }
    let here =
        [&WRITE[..7], &["--trials", "4", "--window", "2ms", "--quiet", "--out", "here"]].concat();
    ringfence_in(folder.path(), &here).ok();
    refused(
        &ringfence_in(folder.path(), &["compare", "one", "here"]),
        "one was simulated, the other measured",
    );
    let both = ringfence_in(folder.path(), &["compare", "one", "two"]);
    assert!(both.said().contains(MARK), "{}", both.stdout);
    let json = ringfence_in(folder.path(), &["compare", "one", "two", "--json"]).json();
    assert_eq!(json["compared"][0]["comparison"]["simulated"], true);
    let measured = ringfence_in(folder.path(), &["show", "here"]);
    assert!(!measured.stdout.contains("simulated"), "{}", measured.stdout);
}

#[test]
fn it_begins_again_and_does_not_go_on() {
    let folder = Folder::new();
    let long = ["--trials", "1000", "--machine", "laptop", "--out", "long"];
    let mut running = Running::start(folder.path(), &[&WRITE[..7], &long].concat());
    let begun = std::time::Instant::now();
    // A file of that name is tried out before signals are watched for.
    let journal = folder.path().join("long/samples.journal");
    while fs::metadata(&journal).map_or(0, |journal| journal.len()) < 4096 {
        assert!(begun.elapsed() < support::LIMIT, "nothing is simulated");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Command::new("kill").args(["-INT", &running.child.id().to_string()]).status().unwrap();
    let status = running.child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    refused(&ringfence_in(folder.path(), &["run", "--resume", "long"]), "it was simulated");
    let dataset = Dataset::open(&folder.path().join("long")).unwrap();
    assert!(!dataset.samples.is_empty());
    let both = ["run", "--resume", "long", "--machine", "laptop"];
    refused(&ringfence_in(folder.path(), &both), "--machine cannot be combined with --resume");
}

#[test]
fn machines_are_listed_shown_and_changed() {
    let folder = Folder::new();
    let listed = ringfence_in(folder.path(), &["machine"]).said();
    assert!(listed.contains("cascade-lake-optane") && listed.contains("zen3-epyc"), "{listed}");
    let names = ringfence_in(folder.path(), &["machine", "--json"]).json();
    for one in names["machines"].as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        let shown = ringfence_in(folder.path(), &["machine", name, "-v"]).said();
        assert!(shown.contains("core.store_buffer = "), "{shown}");
        let json = ringfence_in(folder.path(), &["machine", name, "--json"]).json();
        assert!(json["values"].as_array().unwrap().len() > 50);
    }
    let file = ringfence_in(folder.path(), &["machine", "laptop", "--file"]);
    fs::write(folder.path().join("mine.toml"), file.ok()).unwrap();
    let args = [
        "write",
        "--machine",
        "mine.toml",
        "--trials",
        "2",
        "--quiet",
        "--block",
        "64B",
        "--size",
        "1MiB",
    ];
    assert!(ringfence_in(folder.path(), &args).said().contains(MARK));
    let text = file.stdout.replacen("store_buffer = ", "store_buffer = 0 # ", 1);
    fs::write(folder.path().join("mine.toml"), text).unwrap();
    refused(&ringfence_in(folder.path(), &args), "core.store_buffer is 0, but must be from 8");
}

#[test]
fn what_cannot_be_simulated_is_refused_in_a_sentence() {
    let folder = Folder::new();
    let run = |args: &[&str]| ringfence_in(folder.path(), args);
    refused(&run(&["machine", "cascade-lake-optan"]), "did you mean cascade-lake-optane?");
    refused(&run(&["write", "--machine", "none.toml"]), "none.toml:");
    refused(&run(&["write", "--machine", "."]), "name a machine file");
    fs::write(folder.path().join("empty.toml"), "").unwrap();
    refused(
        &run(&["write", "--machine", "empty.toml"]),
        "empty.toml: no name in it, above the first table; correct the file, or name a machine \
         that 'ringfence machine' lists",
    );
    let file = ["write", "--machine", "laptop", "--instruction", "msync", "--target", "file:x"];
    refused(&run(&file), "none of this can be simulated: ");
    let large = ["write", "--machine", "laptop", "--size", "1TiB", "--block", "4KiB", "--quiet"];
    refused(&run(&large), "has 16GiB there, and 1TiB are asked for");
    refused(&run(&["survey", "--machine", "lap-top"]), "did you mean laptop?");
    assert!(folder.entries().iter().all(|name| name == "empty.toml"), "{:?}", folder.entries());
}

// Saved with the command that simulates it.
#[test]
fn an_experiment_is_saved_with_its_machine() {
    let folder = Folder::new();
    let saved = simulate(&folder, "unused", &["--save", "write.toml"]).said();
    assert!(saved.ends_with("ringfence run write.toml --machine cascade-lake-optane"), "{saved}");
    let again =
        ringfence_in(folder.path(), &["run", "write.toml", "--machine", "laptop", "--quiet"]);
    assert!(again.said().contains(MARK));
}

// A machine whose last level a stream fills at once, by LRU, with or without classes of service.
fn planted(folder: &Folder, name: &str, processor: &str) {
    let mut text = ringfence_in(folder.path(), &["machine", "laptop", "--file"]).ok().to_owned();
    for (value, instead) in [
        ("bandwidth_control = false\n", processor),
        ("size_kib = 1280\nways = 20", "size_kib = 80\nways = 20"),
        (
            "size_kib = 12288\nways = 12\nlatency_ns = 11.0\nreplacement = \"drrip\"",
            "size_kib = 768\nways = 12\nlatency_ns = 11.0\nreplacement = \"lru\"",
        ),
    ] {
        assert!(text.contains(value), "{value}");
        text = text.replacen(value, instead, 1);
    }
    // One source for all of it.
    let lines = text.lines().filter(|line| !line.starts_with("\"processor"));
    let text: Vec<&str> = lines.collect();
    let text = text.join("\n").replacen("[sources]", "[sources]\n\"processor\" = \"planted\"", 1);
    fs::write(folder.path().join(name), text).unwrap();
}

const PROVE: [&str; 12] = [
    "prove",
    "--quiet",
    "--budget",
    "5%",
    "--trials",
    "6",
    "--rounds",
    "1",
    "--victim",
    "chase footprint=384KiB",
    "--aggressor",
    "stream size=16MiB",
];

#[test]
fn the_planted_lever_is_found_and_nothing_is_said_to_be_met() {
    let folder = Folder::new();
    planted(&folder, "classes.toml", "classes = 4\nbandwidth_control = false\n");
    let on = ["--machine", "classes.toml", "--levers", "cat,mba,quota", "--json", "--out", "proof"];
    let found = ringfence_in(folder.path(), &[&PROVE[..], &on].concat());
    assert_eq!(found.code(), Some(6), "{}{}", found.stdout, found.stderr);
    let json = found.json_of_any();
    let proof = &json["proof"];
    assert_eq!((&proof["verdict"], &proof["simulated"]), (&"simulated_only".into(), &true.into()));
    let chosen = &proof["confirmations"][0]["tried"]["candidate"];
    assert_eq!(chosen["lever"], "cat", "{chosen}");
    assert!(
        chosen.get("commands").is_none()
            && chosen["keep"].as_str().unwrap().contains("it was simulated")
    );
    let refused = proof["record"]["refused"].to_string();
    assert!(refused.contains("cannot allocate memory bandwidth"), "{refused}");
    assert!(refused.contains("scheduling is not"), "{refused}");
    // The same again, from the folder.
    let shown = ringfence_in(folder.path(), &["show", "proof"]).said();
    assert!(shown.contains(MARK) && shown.contains("SIMULATED ONLY, within the budget"), "{shown}");
    assert!(!shown.contains("keep it") && !shown.contains("MET"), "{shown}");
    ringfence_in(folder.path(), &["report", "proof"]).ok();
    let page = fs::read_to_string(folder.path().join("proof/report.html")).unwrap();
    assert!(page.contains("<main class=\"simulated\">") && page.contains("SIMULATED ONLY"));
    refused_resume(&folder);
}

fn refused_resume(folder: &Folder) {
    let resumed = ringfence_in(folder.path(), &["prove", "--resume", "proof", "--quiet"]);
    refused(&resumed, "it was simulated");
}

#[test]
fn a_lever_that_the_machine_lacks_is_not_offered_and_what_needs_none_is_not_met_either() {
    let folder = Folder::new();
    planted(&folder, "plain.toml", "bandwidth_control = false\n");
    let on = ["--machine", "plain.toml", "--levers", "cat,cat+mba", "-v"];
    let missed = ringfence_in(folder.path(), &[&PROVE[..], &on].concat());
    assert_eq!(missed.code(), Some(4), "{}{}", missed.stdout, missed.stderr);
    let text = joined(&missed.stdout);
    assert!(
        text.contains("not offered: cat, because the described processor shows no RDT"),
        "{text}"
    );
    let alu = [&PROVE[..8], &["--victim", "alu", "--aggressor", "alu", "--machine", "plain.toml"]]
        .concat();
    let needless = ringfence_in(folder.path(), &alu);
    assert_eq!(needless.code(), Some(6), "{}{}", needless.stdout, needless.stderr);
    let said = joined(&needless.stdout);
    assert!(said.contains("within the budget of 5 %") && !said.contains("MET"), "{said}");
}

#[test]
fn a_proof_on_a_described_machine_changes_nothing_here() {
    let folder = Folder::new();
    let on = |more: &[&str]| {
        ringfence_in(folder.path(), &[&PROVE[..], &["--machine", "broadwell-x"], more].concat())
    };
    refused(&on(&["--keep"]), "--keep sets what was confirmed on this machine");
    let program =
        [&PROVE[..8], &["--victim", "true", "--aggressor", "alu", "--machine", "laptop"]].concat();
    refused(&ringfence_in(folder.path(), &program), "programs are not simulated");
    let both = ["prove", "--resume", "proof", "--machine", "laptop"];
    refused(&ringfence_in(folder.path(), &both), "--machine cannot be combined with --resume");
    assert!(folder.entries().is_empty(), "{:?}", folder.entries());
}

// Figures of the shipped experiments are what described machines are judged by: here a machine that
// no publication is about, and nothing is said of how near it comes.
#[test]
fn published_figures_stand_beside_simulated_ones() {
    let folder = Folder::new();
    let run = |args: &[&str]| ringfence_in(folder.path(), args);
    let name = "what-does-ordering-cost-a-flush";
    let args = ["reproduce", name, "--simulated", "--machine", "laptop", "--quiet"];
    // It has no persistent memory.
    let none = run(&[&args[..], &["--out", "none"]].concat());
    assert_eq!(none.code(), Some(1), "{}", none.stderr);
    let said = joined(&none.stdout);
    assert!(
        said.contains("not run, because the described machine has no dax:/mnt/pmem0"),
        "{said}"
    );
    // Ordinary memory of a small machine, as if it were mounted.
    let file = small(&[]);
    let (parts, sources) = file.split_once("[sources]").unwrap();
    let dram = parts.split_once("[[nodes]]").unwrap().1;
    let dax = format!("[[nodes]]{}", dram.replacen("\"dram\"", "\"dax:/mnt/pmem0\"", 1));
    let made = format!("{parts}{dax}[sources]\n\"nodes[1]\" = \"made\"{sources}");
    let made = made.replacen("name = \"laptop\"", "name = \"made\"", 1);
    fs::write(folder.path().join("made.toml"), made).unwrap();
    let args = ["reproduce", name, "--simulated", "--machine", "made.toml", "--quiet"];
    let text = run(&[&args[..], &["--out", "text"]].concat()).said();
    assert!(text.contains(MARK) && text.contains("writes of note 000"), "{text}");
    assert!(text.contains("4 of 4 comparisons simulated"), "{text}");
    assert!(text.contains("not run, because made has no value"), "{text}");
    let page = fs::read_to_string(folder.path().join("text/report.html")).unwrap();
    assert!(
        page.contains("<main class=\"simulated\">") && page.contains(MARK),
        "the page lacks its mark"
    );
    let json = run(&[&args[..], &["--out", "json", "--json"]].concat()).json();
    assert_eq!(
        (&json["simulated"], &json["simulations"][0]["machine"]),
        (&true.into(), &"made".into())
    );
    let rows = json["simulations"][0]["rows"].as_array().unwrap();
    assert_eq!((rows.len(), json["simulations"][0]["times"].as_array().unwrap().len()), (4, 5));
    assert!(
        rows.iter().all(|row| row["measured"].is_null() && row["simulated"].is_object()),
        "{json}"
    );
    refused(&run(&["reproduce", "--measured", "text"]), "--simulated");
    let beside = run(&[&args[..], &["--out", "beside", "--measured", "text"]].concat());
    refused(&beside, "it was simulated; name a folder of measurements");
    let unpublished = ["reproduce", "does-the-lab-see-two-percent", "--simulated", "--quiet"];
    refused(&run(&unpublished), "no figures of these experiments were published");
}

// What the kernel's pseudo-locking patches show, on their smaller machine.
#[test]
fn a_locked_region_is_measured_where_the_kernel_locks_any() {
    let folder = Folder::new();
    let measure = |machine: &str| {
        let args = [
            "lock",
            "measure",
            "--machine",
            machine,
            "--interval",
            "10ms",
            "--trials",
            "4",
            "--quiet",
        ];
        ringfence_in(folder.path(), &[&args[..], &["--json", "--out", machine]].concat()).json()
    };
    let found = measure("goldmont-j3455");
    let experiment = &found["experiments"][0];
    assert_eq!(experiment["simulated"], true);
    let cases = experiment["results"].as_array().unwrap();
    let slowdown = |arm: &str| {
        let case = cases
            .iter()
            .find(|case| case["arm"] == arm)
            .unwrap_or_else(|| panic!("{arm}: {experiment}"));
        case["effect"]["finding"]["slowdown"]["value"].as_f64().unwrap_or_else(|| panic!("{case}"))
    };
    assert!(slowdown("malloc, noise") > 2.0, "{experiment}");
    assert!(slowdown("locked, noise") < 1.1, "{experiment}");
    assert!(slowdown("locked, clflush") > 2.0, "{experiment}");
    // Elsewhere it says why not.
    let laptop = measure("laptop");
    assert!(
        laptop["notes"].to_string().contains("does not lock regions into the caches"),
        "{laptop}"
    );
    assert!(laptop["notes"].to_string().contains("own ways: not run, because"), "{laptop}");
}

// A laptop with small caches, so that they soon settle, and four cores.
fn small(changes: &[(&str, &str)]) -> String {
    small_laptop(&[&[("topology.threads_per_core", "2")], changes].concat())
}

// ns a line of blocks of 4 KiB as they come, fenced once each.
fn cost(survey: &Value, instruction: &str) -> f64 {
    let is_it = |row: &&Value| {
        let write = &row["write"];
        let what = [&write["instruction"], &write["block"], &write["fence_at"], &write["line"]];
        what == [instruction, "4KiB", "block", "as-is"]
    };
    let row = survey["cost"]
        .as_array()
        .unwrap()
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{instruction}"));
    support::figure(&row["result"]["ns_per_unit"]).unwrap()
}

fn slowdown(survey: &Value, victim: &str, co_runner: &str) -> f64 {
    let tables = survey["neighbours"].as_array().unwrap();
    let table = tables.iter().find(|table| table["victim"] == victim).unwrap();
    let of = |row: &&Value| row["label"] == co_runner && row["paced"] == false;
    let row = table["rows"].as_array().unwrap().iter().find(of).unwrap();
    support::figure(&row["result"]["effect"]["by_class"]["all"]["slowdown"]).unwrap()
}

// What is planted: clflush waits for each line and the other flushes do not; clwb keeps its line,
// or not; and cores share a last-level cache, or each has its own.
#[test]
#[ignore = "takes minutes: scripts/nightly runs it"]
fn a_survey_finds_what_was_planted() {
    let folder = Folder::new();
    let survey = |name: &str, changes: &[(&str, &str)]| {
        fs::write(folder.path().join(format!("{name}.toml")), small(changes)).unwrap();
        let machine = format!("{name}.toml");
        let args = ["survey", "--quick", "--machine", &machine, "--out", name, "--json", "--quiet"];
        ringfence_in(folder.path(), &args).json()
    };
    let shared = survey("shared", &[]);
    let apart = survey(
        "apart",
        &[
            ("topology.llcs_per_socket", "4"),
            ("topology.cores_per_llc", "1"),
            ("core.clwb", "\"invalidated\""),
            ("core.clflush_ordered", "false"),
        ],
    );
    assert_eq!((&shared["simulated"], &apart["simulated"]), (&true.into(), &true.into()));
    assert!(
        cost(&shared, "clflush") > 1.5 * cost(&shared, "clflushopt"),
        "{}",
        cost(&shared, "clflush")
    );
    assert!(
        cost(&apart, "clflush") < 1.05 * cost(&apart, "clflushopt"),
        "{}",
        cost(&apart, "clflush")
    );
    let line = |survey: &Value| {
        let advice = survey["advice"].as_array().unwrap();
        advice.iter().find(|one| one["about"] == "reload").unwrap()["line"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!((line(&shared), line(&apart)), ("kept".into(), "evicted".into()));
    let (here, there) =
        (slowdown(&shared, "mcf", "plain store"), slowdown(&apart, "mcf", "plain store"));
    assert!(
        here > 1.02 && there < here,
        "{here} beside a writer under the same cache, {there} under another"
    );
    assert!((slowdown(&shared, "alu", "plain store") - 1.0).abs() < 0.01);
    let caches = shared["probes"]["caches"].as_array().unwrap();
    let last = caches.iter().find(|cache| cache["level"] == 3).unwrap();
    assert!((last["plateau_ns"].as_f64().unwrap() - 11.0).abs() < 0.5, "{last}");
    let failed = shared["probes"]["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].as_str().unwrap().contains("page walks are not simulated"));
    let text = ringfence_in(folder.path(), &["show", "shared"]).said();
    assert!(
        text.matches(MARK).count() >= 4 && text.contains("On the described machine:"),
        "{text}"
    );
    assert!(text.contains("as described") && !text.contains("On this machine"), "{text}");
    let page = fs::read_to_string(folder.path().join("shared/report.html")).unwrap();
    assert!(
        page.contains("<main class=\"simulated\">") && page.contains(MARK),
        "the page lacks its mark"
    );
}

#[test]
fn pairs_are_simulated() {
    let folder = Folder::new();
    fs::write(folder.path().join("small.toml"), small(&[])).unwrap();
    let tasks = [
        "--task",
        "chase footprint=1MiB",
        "--task",
        "write instruction=none size=16MiB",
        "--task",
        "alu",
        "--task",
        "alu",
    ];
    let how = ["--machine", "small.toml", "--placement", "llc", "--trials", "4", "--quiet"];
    let run =
        |more: &[&str]| ringfence_in(folder.path(), &[&["pair"], &tasks[..], &how, more].concat());
    let text = run(&["--out", "text"]).said();
    assert!(text.starts_with(MARK), "{text}");
    let json = run(&["--out", "json", "--json"]).json();
    assert_eq!(json["outcome"]["simulated"], true);
    // The chase suffers with the writer and with no other task.
    let advised = &json["outcome"]["advice"]["assignment"];
    assert!(!advised.is_null(), "{json}");
    let page = fs::read_to_string(folder.path().join("text/report.html")).unwrap();
    assert!(page.contains("<main class=\"simulated\">"), "the page lacks its mark");
    let again = ["pair", "--resume", "text", "--machine", "small.toml", "--quiet"];
    refused(&ringfence_in(folder.path(), &again), "--machine cannot be combined with --resume");
    refused(
        &ringfence_in(folder.path(), &["pair", "--resume", "text", "--quiet"]),
        "it was simulated",
    );
    refused(&run(&["--out", "other", "--task", "sleep 1"]), "programs are not simulated");
}

#[test]
fn a_simulated_choice_is_no_policy() {
    let folder = Folder::new();
    let slow =
        [("core.clwb", "\"invalidated\""), ("processor.flush", "[\"clflush\", \"clflushopt\"]")];
    fs::write(folder.path().join("small.toml"), small(&slow)).unwrap();
    let args = ["tune", "--machine", "small.toml", "--size", "16MiB", "--quiet"];
    let run = |more: &[&str]| ringfence_in(folder.path(), &[&args[..], more].concat());
    let text = run(&["--out", "text"]);
    assert_eq!(text.code(), Some(6), "{}", text.stderr);
    let said = joined(&text.stdout);
    assert!(
        said.contains(MARK) && said.contains("no policy was written, since a policy needs"),
        "{said}"
    );
    let json = run(&["--out", "json", "--json"]);
    assert_eq!(json.code(), Some(6), "{}", json.stderr);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let tuned = &json["tuned"];
    assert_eq!((&tuned["simulated"], &tuned["policy"]), (&true.into(), &Value::Null));
    // By what the described processor has, not by what this one has.
    assert_eq!(tuned["pmdk"]["instruction"], "clflushopt");
    let files = folder.entries();
    assert!(files.iter().all(|name| !name.contains("policy")), "{files:?}");
    assert!(!folder.path().join("text/policy.toml").exists());
    refused(&run(&["--policy", "mine.toml"]), "a policy needs measurements");
}
