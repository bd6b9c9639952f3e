//! Services as victims, and neighbours that run already: what is measured of them, and that nothing
//! of them is changed.

#[path = "../support/mod.rs"]
mod support;

mod lasting_limits;
mod limits;
mod ptrace;
mod real_services;
mod refusals;
mod sigkill;
mod slices;

use std::path::Path;
use std::process::Command;

use ringfence_dataset::Dataset;
use support::service::{
    BUSY_WITH_CHILDREN, Group, Kind, Neighbour, Service, journals, place, serve_if_asked,
};
use support::{Folder, Output, Running, enough_cpus, figure, joined, skip};

// No test: what the others ask.
#[test]
fn serves_when_a_test_asks_for_it() {
    serve_if_asked();
}

const SHORT: [&str; 8] =
    ["--probe-rate", "500", "--trials", "2", "--rounds", "2", "--probe", "0ms"];

fn asking(address: &str, pid: &str) -> [&'static str; 4] {
    let victim = format!("probe:{address} send='PING\\r\\n' of=pid:{pid}");
    ["neighbours", "-v", "--victim", victim.leak()]
}

// A run and its number. It must have gone well.
fn run(folder: &Path, args: &[&str]) -> (u32, Output) {
    let run = Running::start(folder, args);
    let pid = run.child.id();
    (pid, run.wait())
}

// A run of the experiment in the file `x.toml`.
fn run_file(folder: &Path) -> Running {
    Running::start(folder, &["run", "x.toml", "--quiet", "--out", "d"])
}

// A service and its words for flags.
fn service(kind: &Kind) -> (Service, String, String) {
    let service = Service::start(kind);
    let (address, pid) = (service.address(), service.pid().to_string());
    (service, address, pid)
}

// Every answer that was counted has its time, and there are answers in every window.
fn assert_every_answer_has_its_time(folder: &Path) {
    let dataset = Dataset::open(folder).unwrap();
    let victims: Vec<_> =
        dataset.samples.iter().filter(|sample| &*sample.role == "victim").collect();
    assert!(!victims.is_empty());
    for sample in victims {
        let times = sample.latencies.as_ref().expect("answers are timed");
        assert!(sample.units > 0, "{sample:?}");
        assert_eq!(times.total(), sample.units, "{sample:?}");
    }
}

// The figure of the service beside its neighbour, or why there is none.
fn slowdown(output: &Output) -> Option<f64> {
    let json = output.json();
    let results = json["results"].as_array().unwrap();
    let beside = results.iter().find(|one| one["arm"] == "beside").expect("the neighbour was run");
    figure(&beside["effect"]["finding"]["slowdown"])
}

#[test]
fn a_service_beside_a_task_that_is_started_counts_its_answers() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    let (service, address, pid) = service(&Kind::Echo);
    let before = place(service.pid());
    let args =
        [&asking(&address, &pid)[..], &["--aggressor", "alu", "--out", "d"], &SHORT].concat();
    let (_, output) = run(folder.path(), &args);
    let said = output.said();
    for part in ["The probe sent ", " us after they were due in the median and ", " % of a CPU"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_every_answer_has_its_time(&folder.path().join("d"));
    assert_eq!(place(service.pid()), before);
    assert_eq!(service.stops(), 0);
}

#[test]
fn a_neighbour_that_runs_is_paused_for_windows_and_goes_on() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    let (service, address, pid) = service(&Kind::Echo);
    let neighbour = Neighbour::shell(BUSY_WITH_CHILDREN);
    neighbour.wait_for(3);
    let places = || (place(service.pid()), place(neighbour.pid()));
    let before = places();
    let aggressor = neighbour.pid().to_string();
    let args = [
        &asking(&address, &pid)[..],
        &["--aggressor-pid", &aggressor, "--metric", "p99", "--out", "d"],
        &SHORT,
    ];
    let (owner, output) = run(folder.path(), &args.concat());
    neighbour.must_go_on(true);
    let said = output.said();
    assert!(said.contains(&format!("pid:{aggressor} was paused ")), "{said}");
    assert!(said.contains("by SIGSTOP, and is running again."), "{said}");
    // As long as a window at least; on a busy machine longer than a pause may be.
    let longest = longest(&said);
    assert!(longest >= 80, "{said}");
    let told = format!("(max {longest} ms; ");
    let kept = Dataset::open(&folder.path().join("d")).unwrap().manifest.said;
    assert!(kept.iter().any(|sentence| sentence.contains(&told)), "{kept:?}");
    support::ringfence_in(folder.path(), &["report", "d"]).ok();
    let page = std::fs::read_to_string(folder.path().join("d/report.html")).unwrap();
    assert!(page.replace("\u{a0}", " ").contains(&told));
    assert_every_answer_has_its_time(&folder.path().join("d"));
    assert!(journals(owner).is_empty(), "{:?}", journals(owner));
    assert_eq!(places(), before);
    assert_eq!(service.stops(), 0, "the victim is never stopped");
    let shown = support::ringfence_in(folder.path(), &["show", "d", "--json"]);
    assert!(!shown.json()["datasets"].as_array().unwrap().is_empty());
}

// The longest pause that was printed, ms.
fn longest(said: &str) -> u64 {
    let (_, longest) = said.split_once(" times (max ").unwrap_or_else(|| panic!("{said}"));
    longest.split_once(" ms; ").unwrap().0.parse().unwrap()
}

#[test]
fn what_is_paused_within_limits_stays_within_them() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    let (service, address, pid) = service(&Kind::Echo);
    let neighbour = Neighbour::shell("while :; do sleep 0.01; done");
    let aggressor = neighbour.pid().to_string();
    let limits =
        ["--longest-freeze", "60ms", "--frozen-share", "5%", "--freeze", "signals", "--out", "d"];
    let args =
        [&asking(&address, &pid)[..], &["--aggressor-pid", &aggressor], &limits, &SHORT].concat();
    let (_, output) = run(folder.path(), &args);
    neighbour.must_go_on(false);
    let said = output.said();
    let share = said.split(" of the time) by SIGSTOP").next().unwrap();
    let share: Vec<&str> = share.rsplit(", ").next().unwrap().split_whitespace().collect();
    let share: f64 = share[0].trim_end_matches('%').parse().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    // A busy machine may end the last pause late, behind which no other one has to wait.
    let late = Some(longest(&said)).filter(|longest| *longest > 60).unwrap_or(0);
    let late = 100.0 * late as f64 / dataset.measured_for().as_millis() as f64;
    // Rounded to whole per cents.
    assert!(share <= 5.5 + late, "{said}");
    assert_eq!(dataset.plan.experiment.measure.window.to_string(), "40ms");
    assert_eq!(service.stops(), 0);
}

#[test]
fn a_control_group_is_paused_as_a_whole() {
    if !enough_cpus() {
        return;
    }
    let mut reasons = Vec::new();
    for file in ["cgroup.freeze", "freezer.state"] {
        // It goes before the group, which is empty then.
        let group = match Group::make("paused", file) {
            Ok(group) => group,
            Err(why) => {
                reasons.push(why);
                continue;
            }
        };
        let neighbour = group.shell(BUSY_WITH_CHILDREN);
        neighbour.wait_for(3);
        let folder = Folder::new();
        let (service, address, pid) = service(&Kind::Echo);
        let before = (place(service.pid()), place(neighbour.pid()));
        let path = group.path();
        let named = ["--aggressor-cgroup", &path, "--freeze", "group", "--out", "d"];
        let (owner, output) =
            run(folder.path(), &[&asking(&address, &pid)[..], &named, &SHORT].concat());
        let said = output.said();
        assert!(said.contains(&format!("cgroup:{path} was paused ")), "{said}");
        assert!(said.contains(&format!("by {file} of ")), "{said}");
        assert!(group.is_thawed());
        neighbour.must_go_on(true);
        assert_every_answer_has_its_time(&folder.path().join("d"));
        assert!(journals(owner).is_empty(), "{:?}", journals(owner));
        assert_eq!((place(service.pid()), place(neighbour.pid())), before);
        assert_eq!(service.stops(), 0);
    }
    if reasons.len() == 2 {
        skip(&reasons.join(", and "));
    }
}

#[test]
fn a_service_that_depends_on_its_neighbour_ends_the_run_and_both_go_on() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    let [to, from] = ["to", "from"].map(|name| folder.path().join(name));
    for pipe in [&to, &from] {
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    let neighbour =
        Neighbour::shell(&format!("exec cat < '{}' > '{}'", to.display(), from.display()));
    let (service, address, pid) = service(&Kind::Asks(to, from));
    let aggressor = neighbour.pid().to_string();
    let named = ["--aggressor-pid", &aggressor, "--out", "d", "--quiet"];
    let args = [
        &asking(&address, &pid)[..],
        &named,
        &["--trials", "8", "--rounds", "2", "--probe", "0ms"],
    ];
    let (owner, output) = run(folder.path(), &args.concat());
    assert_eq!(output.code(), Some(1), "{}{}", output.stdout, output.stderr);
    assert!(joined(&output.stderr).contains("it depends on the aggressor"), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    neighbour.must_go_on(false);
    assert!(journals(owner).is_empty(), "{:?}", journals(owner));
    assert_eq!(service.stops(), 0);
    // It still answers.
    let (_, output) = run(
        folder.path(),
        &[&asking(&address, &pid)[..], &["--aggressor", "idle", "--out", "e"], &SHORT].concat(),
    );
    output.ok();
}

#[test]
fn a_service_that_stops_answering_ends_the_run_and_what_was_measured_is_kept() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    let (service, address, pid) = service(&Kind::Echo);
    let args =
        [&asking(&address, &pid)[..], &["--aggressor", "alu", "--out", "d", "--quiet"]].concat();
    let run = Running::start(
        folder.path(),
        &[&args[..], &["--trials", "500", "--probe", "0ms"]].concat(),
    );
    let journal = folder.path().join("d");
    let kept = || {
        std::fs::read_dir(&journal)
            .ok()?
            .flatten()
            .filter_map(|file| file.metadata().ok())
            .find(|it| it.len() > 20_000)
    };
    support::wait_for("the first windows", kept);
    support::kill(service.pid() as i32, libc::SIGSTOP);
    let output = run.wait();
    assert_eq!(output.code(), Some(1), "{}{}", output.stdout, output.stderr);
    let said = joined(&output.stderr);
    assert!(said.contains(&format!("{address} has not responded since ")), "{said}");
    assert!(said.contains("what was measured until then is in d"), "{said}");
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert_every_answer_has_its_time(&folder.path().join("d"));
}
