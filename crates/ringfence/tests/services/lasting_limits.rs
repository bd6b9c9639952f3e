//! A confirmed limit of a running process is left in place, and the printed command removes it.

use std::fs;
use std::process::Command;

use crate::support::service::{Group, Kind, Service, journals};
use crate::support::{Folder, Running, enough_cpus, joined, ringfence, skip};

// Whether a figure is precise enough for a verdict is a matter of the machine.
const TRIES: usize = 6;

// The exit code of a measurement without a verdict.
const UNDECIDED: i32 = 4;

#[test]
fn a_confirmed_limit_stays_until_it_is_taken_away() {
    if !enough_cpus() {
        return;
    }
    let group = match Group::of_controller("kept", "cpuset", "cpuset.cpus") {
        Ok(group) => group,
        Err(why) => return skip(&why),
    };
    let neighbour = group.shell("sh -c 'while :; do :; done' & while :; do :; done");
    neighbour.wait_for(2);
    let file = group.folder.join("cpuset.cpus");
    let now = || fs::read_to_string(&file).unwrap().trim().to_owned();
    let (before, pid) = (now(), neighbour.pid().to_string());
    let folder = Folder::new();
    // It is as slow beside the neighbour as if these shared what the limit parts, on a busy machine
    // too.
    let service = Service::start(&Kind::HeldUp(neighbour.pid(), file.clone(), "1".into()));
    let (address, victim) = (service.address(), service.pid().to_string());
    let (mut said, mut undecided) = (String::new(), true);
    let confirmed = (0..TRIES).find_map(|number| {
        let out = format!("d{number}");
        let args = [
            &[
                "prove",
                "--victim-probe",
                &address,
                "--probe-send",
                "PING\\r\\n",
                "--probe-rate",
                "50",
            ][..],
            &["--victim-pid", &victim, "--aggressor-pid", &pid, "--levers", "cpuset"],
            &[
                "--budget", "100%", "--trials", "6", "--rounds", "1", "--quiet", "--keep", "--out",
                &out,
            ],
            &["--longest-freeze", "300ms", "--frozen-share", "90%", "--window", "200ms"],
        ];
        let run = Running::start(folder.path(), &args.concat());
        let owner = run.child.id();
        let output = run.wait();
        assert!(journals(owner).is_empty(), "{:?}", journals(owner));
        said = format!("{}{}", output.stdout, output.stderr);
        let is_kept = said.contains("Kept in the aggressor's control group");
        assert_eq!(is_kept, now() != before, "{said}");
        undecided &= is_kept || output.code() == Some(UNDECIDED);
        is_kept.then_some(())
    });
    if confirmed.is_none() && undecided {
        return ringfence_testbed::skip_here(
            "a confirmed limit that stays",
            &format!("{TRIES} measurements were all undecided, as on a machine that is busy"),
        );
    }
    assert!(confirmed.is_some(), "{said}");
    assert_eq!(now(), "1");
    // `ringfence restore` must leave it in place.
    ringfence(&["restore"]).ok();
    assert_eq!(now(), "1");
    assert!(joined(&said).contains("'ringfence restore' leaves it"), "{said}");
    let undo = format!("echo {before} > {}", file.display());
    let line = said
        .lines()
        .map(str::trim)
        .find(|line| *line == undo)
        .unwrap_or_else(|| panic!("{undo}: {said}"));
    assert!(Command::new("sh").args(["-c", line]).status().unwrap().success());
    assert_eq!(now(), before);
}
