//! `commit`: durable commits to files, from the command line.

use ringfence_dataset::Dataset;
use ringfence_experiment::ended::Ended;

use crate::support::disk::{empty, on_disk};
use crate::support::{self, Folder, Running, ringfence_in};

const SHORT: [&str; 4] = ["--trials", "4", "--settle", "1ms"];

#[test]
fn ways_are_measured_and_one_is_advised() {
    let Some(data) = on_disk("ways") else { return };
    let folder = Folder::new();
    let ways = [
        "--sync",
        "fdatasync,o-dsync,none,msync",
        "--io",
        "buffered",
        "--layout",
        "written",
        "--size",
        "1MiB",
    ];
    let args = [&["commit", data.to_str().unwrap()][..], &ways, &SHORT, &["--out", "a"]].concat();
    let said = ringfence_in(folder.path(), &args).said();
    assert!(said.contains("no sync (not durable)"), "{said}");
    assert!(said.contains("msync needs io=mmap"), "what makes no sense is not run: {said}");
    let details = ringfence_in(folder.path(), &["show", "-v", "a"]).said();
    assert!(details.contains("sync=none makes nothing durable"), "{details}");
    assert!(!said.contains("misses"), "commits hit no cache: {said}");
    assert!(empty(&data), "nothing is left");
    // As JSON every commit is counted.
    let json = ringfence_in(folder.path(), &["show", "a", "--json"]).json();
    let json = &json["datasets"][0];
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    assert!(results.iter().all(|result| result["unit"] == "commits"), "{json}");
    assert_eq!(json["latencies"].as_array().unwrap().len(), 3, "{json}");
    // Each window is a stretch in which the disk was looked at.
    let dataset = Dataset::open(&folder.path().join("a")).unwrap();
    for sample in &dataset.samples {
        let [stretch] = sample.stretches.as_deref().unwrap() else { panic!("{sample:?}") };
        assert_eq!(
            (stretch.units, stretch.dirty_bytes.is_some()),
            (sample.units, true),
            "{sample:?}"
        );
        assert_eq!(stretch.longest_ns, sample.latencies.as_ref().unwrap().most(), "{sample:?}");
        // It holds the window, which begins with the last report before it.
        assert!(stretch.length_ns > 350_000_000, "{sample:?}");
    }
    // A sentence says which way to use, or why none is advised: by what was measured, which noise
    // has a part in.
    let durable =
        |result: &&serde_json::Value| !result["label"].as_str().unwrap().contains("sync=none");
    let known = results
        .iter()
        .filter(durable)
        .filter(|result| result["ns_per_unit"]["value"].is_f64())
        .count();
    let advice = match known {
        2 => "Use ",
        1 => "No method is recommended, because only one of the 2 durable ones has a figure: ",
        _ => "No method is recommended, because none of the 2 durable ones has a figure: ",
    };
    assert!(details.contains(advice) && !details.contains("Use no sync"), "{advice}: {details}");
    assert_ne!(details.contains("Use "), details.contains("No method is"), "{details}");
    // In short one of them, with its calls.
    let shown = ringfence_in(folder.path(), &["show", "a"]).said();
    for said in [&said, &shown] {
        assert_eq!(said.contains("No method is recommended, because "), known < 2, "{said}");
        let calls = ["pwrite(fd); fdatasync(fd)", "open(O_DSYNC); pwrite(fd)"];
        assert_eq!(calls.iter().any(|calls| said.contains(calls)), known == 2, "{said}");
        assert_eq!(said.matches("Use ").count(), usize::from(known == 2), "{said}");
        assert!(!said.contains("Use no sync"), "{said}");
    }
    // The page says so first: the method and its cost.
    ringfence_in(folder.path(), &["report", "a", "--out", "page.html"]).ok();
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    let first = page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0;
    let method = first.contains(", overwriting: ") && first.contains("per commit of 4KiB");
    assert_eq!(first.starts_with("Use ") && method, known == 2, "{first}");
    assert!(known == 2 || first.starts_with(advice), "{first}");
    assert!(
        page.contains("<h2>What a commit takes</h2>") && page.contains("none (not durable)"),
        "{first}"
    );
}

#[test]
fn what_makes_nothing_durable_says_so() {
    let Some(data) = on_disk("nothing") else { return };
    let folder = Folder::new();
    let ways = ["--sync", "none", "--io", "buffered", "--layout", "append", "--size", "1MiB"];
    let args = [&["commit", data.to_str().unwrap()][..], &ways, &SHORT].concat();
    let said = ringfence_in(folder.path(), &args).said();
    assert!(said.contains("Nothing here is durable: no sync (not durable)."), "{said}");
    let said = ringfence_in(folder.path(), &[&args[..], &["-v"]].concat()).said();
    assert!(said.contains("sync=none makes nothing durable: there is no durable commit"), "{said}");
    let torn = ["--sync", "fsync", "--io", "direct", "--layout", "append", "--record", "100"];
    let out =
        ringfence_in(folder.path(), &[&["commit", data.to_str().unwrap()][..], &torn].concat());
    assert_eq!(out.code(), Some(2), "{}", out.stderr);
    assert!(
        support::joined(&out.stderr).contains("multiples of the device's block"),
        "{}",
        out.stderr
    );
}

#[test]
fn a_victim_and_an_aggressor_can_commit() {
    let Some(data) = on_disk("pair") else { return };
    let folder = Folder::new();
    let victim = format!("commit dir={} size=1MiB layout=written", data.display());
    let aggressor = format!("commit dir={} size=1MiB record=64KiB sync=none", data.display());
    let roles = ["--victim", &victim, "--aggressor", &aggressor];
    let args =
        [&["neighbours"][..], &roles, &["--window", "400ms", "--json", "--out", "n"], &SHORT]
            .concat();
    let json = ringfence_in(folder.path(), &args).json();
    let done = json["results"][0]["co_runners"][0]["units"].as_f64();
    assert!(json["results"].as_array().is_some_and(|all| !all.is_empty()), "{json}");
    assert!(done.is_none_or(|units| units > 0.0), "{json}");
}

// What the neighbour did between the windows that are compared is in no figure, and in the samples.
#[test]
fn a_neighbour_between_two_equal_windows_is_in_no_comparison() {
    let Some(data) = on_disk("between") else { return };
    let folder = Folder::new();
    let victim = format!("commit dir={} size=1MiB layout=written", data.display());
    // Paced: a fast disk would reach the limit of what is written.
    let visitor = format!("dirty dir={} io=direct size=32MiB pace=50MiB/s", data.display());
    let args =
        ["aa", "--victim", &victim, "--between", &visitor, "--experiments", "2", "--trials", "4"];
    let json = ringfence_in(folder.path(), &[&args[..], &["--json", "--out", "a"]].concat()).json();
    // Trials may differ too much for an interval.
    let experiments = ["estimates", "not_estimable"].map(|of| json["aa"][of].as_u64().unwrap());
    assert_eq!(experiments.iter().sum::<u64>(), 2, "{json}");
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 1, "{json}");
    assert_eq!(results[0]["effect"]["diagnostics"]["pairs"], 8, "{json}");
    let latencies = json["latencies"].as_array().unwrap();
    assert!(
        latencies
            .iter()
            .any(|of| of["arm"] == "between" && !of["histogram"].as_array().unwrap().is_empty())
    );
}

#[test]
fn at_the_limit_of_what_is_written_it_ends_undecided_and_keeps_what_it_has() {
    let Some(data) = on_disk("limit") else { return };
    let folder = Folder::new();
    // A commit of each window is as much as may be written.
    let ways =
        ["--sync", "fdatasync", "--io", "buffered", "--layout", "append", "--record", "1MiB"];
    let limit = ["--write-limit", "1MiB", "--out", "a"];
    let args = [&["commit", data.to_str().unwrap()][..], &ways, &SHORT, &limit].concat();
    let out = ringfence_in(folder.path(), &args);
    assert_eq!(out.code(), Some(4), "{}{}", out.stdout, out.stderr);
    let told = support::joined(&out.stderr);
    assert!(
        told.contains("at most 1MiB written to disks; Ctrl-C keeps what was measured"),
        "{told}"
    );
    assert!(told.contains("a limit was reached: built-in tasks have written"), "{told}");
    let kept = Dataset::open(&folder.path().join("a")).unwrap();
    assert!(matches!(&kept.manifest.ended, Some(Ended::Limit(_))), "{:?}", kept.manifest.ended);
    assert!(!kept.samples.is_empty() && empty(&data));
}

#[test]
fn what_cannot_be_measured_says_why() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    for (args, part) in [
        (vec!["commit", "none"], "none: No such file or directory (os error 2); name a folder"),
        (vec!["commit", "file"], "file is not a folder"),
        (vec!["commit", ".", "--sync", "fdatasnyc"], "did you mean 'fdatasync'?"),
        (vec!["commit", ".", "--io", "dircet"], "did you mean 'direct'?"),
        (vec!["commit", ".", "--layout", "new"], "--layout: 'new' is not one of"),
        (vec!["commit", ".", "--record", "0B"], "between 1B and 1MiB"),
        (vec!["commit", ".", "--batch", "0"], "between 1 and 1024"),
        (vec!["commit", ".", "--writers", "0"], "between 1 and 64"),
        (vec!["commit", ".", "--writers", "9", "--size", "64KiB"], "by 9 writers: at least 72KiB"),
        (vec!["commit", ".", "--size", "4KiB"], "too small"),
        (vec!["commit", ".", "--window", "5ms"], "400ms"),
        (vec!["commit", "/dev/shm", "--out", "x"], "it is in memory"),
        (vec!["commit", "/proc", "--out", "x"], "no log in /proc, because nothing is stored there"),
        (vec!["commit", ".", "--machine", "laptop"], "files and disks are not simulated"),
        (vec!["commit", ".", "--threads", "0"], "at least one committer"),
        (vec!["commit", ".", "--cpus", "999"], "CPU 999 is not among"),
        (vec!["commit", ".", "--cpus", "zero"], "not a CPU list"),
        (vec!["commit", ".", "--batch", "1,x"], "is not a whole number"),
        (vec!["commit", ".", "--size", "2GiB"], "at most 1GiB"),
        (vec!["commit", ".", "--trials", "0"], "at least 4"),
        (vec!["commit", ".", "--metric", "p100"], "not a quantity"),
        (vec!["commit", ".", "."], "one word too many"),
        (vec!["commit", ".", "--time", "1s", "--out", "x"], "4 trials, which take 1.8s here"),
        (vec!["commit", "", "--out", "x"], "DIR needs a value"),
    ] {
        let out = ringfence_in(folder.path(), &args);
        assert_eq!(out.code(), Some(2), "{args:?}: {}{}", out.stdout, out.stderr);
        assert!(
            out.stderr.contains(part) && out.stderr.lines().count() == 1,
            "{args:?}: {}",
            out.stderr
        );
    }
}

#[test]
fn nothing_is_left_of_a_run_that_is_killed() {
    let Some(data) = on_disk("killed") else { return };
    let folder = Folder::new();
    let run = Running::start(
        folder.path(),
        &["commit", data.to_str().unwrap(), "--size", "1MiB", "--out", "k"],
    );
    std::thread::sleep(std::time::Duration::from_millis(1500));
    run.signal(libc::SIGKILL);
    run.wait();
    assert!(empty(&data));
}

#[test]
fn a_budget_is_answered_by_the_exit_code() {
    let Some(data) = on_disk("budget") else { return };
    let folder = Folder::new();
    let dir = data.to_str().unwrap();
    // No disk takes an hour, and none a nanosecond; a single trial too few is no answer.
    for (budget, trials, within) in
        [("mean<1h", "4", Some(true)), ("mean<1ns", "4", Some(false)), ("mean<1h", "2", None)]
    {
        let args = ["commit", dir, "--budget", budget, "--trials", trials, "--settle", "1ms"];
        let out = format!("{}-{trials}", budget.replace('<', "-"));
        let ran = ringfence_in(folder.path(), &[&args[..], &["--out", &out, "--json"]].concat());
        let json = ran.json_of_any();
        let judged = json["judged"].as_array().unwrap();
        assert_eq!(judged.len(), 1, "the plainest way is judged: {json}");
        let known = judged[0]["within"].as_bool();
        // Where a busy disk gives no figure, there is no answer either.
        assert!(known == within || known.is_none(), "{budget}: {json}");
        let code = match known {
            Some(true) => 0,
            Some(false) => 3,
            None => 4,
        };
        assert_eq!(ran.code(), Some(code), "{budget}: {}", ran.stderr);
        let text = ringfence_in(folder.path(), &["show", &out]).said();
        let word =
            ["Met", "Missed", "Undecided"][[0, 3, 4].iter().position(|c| *c == code).unwrap()];
        assert!(text.starts_with(&format!("{word}: mean<")), "{text}");
        assert!(text.contains("fdatasync"), "{text}");
    }
    let refused = ringfence_in(folder.path(), &["commit", dir, "--budget", "5%"]);
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("such as 'p99<10ms'"), "{}", refused.stderr);
}
