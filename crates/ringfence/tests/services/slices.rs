//! A running process is paused in slices while an arm asks for it: it stays within its share, and
//! resumes whichever process is killed.

use std::fs;
use std::path::Path;

use crate::run_file;
use crate::support::service::{Group, Neighbour, journals};
use crate::support::{Folder, Running, enough_cpus, gone, kill, marked, ringfence, skip, wait_for};

// Both arms run the neighbour: nothing is paused for a window.
fn experiment(folder: &Path, neighbour: &str, frozen: &str, share: &str, looks: u32) {
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n\
         [measure]\nlooks = [{looks}]\nrounds = 2\nprobe = '0ms'\nwindow = '80ms'\nfreezing = {{ \
         share = '{share}' }}\n\
         [[role]]\nname = 'victim'\ntask = {{ workload = 'alu' }}\n\
         [[role]]\nname = 'aggressor'\ntask = {{ workload = 'attached', {neighbour} }}\n\
         [[arm]]\nname = 'free'\nactive = ['victim', 'aggressor']\n\
         [[arm]]\nname = 'sliced'\nactive = ['victim', 'aggressor']\nbaseline = 'free'\nfrozen = \
         {{ aggressor = '{frozen}' }}\n"
    );
    fs::write(folder.join("x.toml"), text).unwrap();
}

#[test]
fn slices_stay_within_the_share_and_are_told() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    let neighbour = Neighbour::shell("while :; do :; done");
    experiment(folder.path(), &format!("pid = {}", neighbour.pid()), "20%", "20%", 6);
    let run = Running::start(folder.path(), &["run", "x.toml", "-v", "--out", "d"]);
    let owner = run.child.id();
    let output = run.wait();
    output.ok();
    neighbour.must_go_on(true);
    assert!(journals(owner).is_empty(), "{:?}", journals(owner));
    let said = output.said();
    // `pid:N was paused 40 times (max 5 ms; 0.2 s in total, 9 % of the time) by
    // SIGSTOP, and is running again.`
    let (_, line) = said.split_once(" was paused ").unwrap_or_else(|| panic!("{said}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |word: &str| {
        words[words.iter().position(|one| *one == word).unwrap() - 1].parse::<f64>().unwrap()
    };
    assert!(before("times") >= 3.0, "{said}");
    // Rounded, and by what a busy machine adds to the last slice.
    assert!(before("%") <= 24.0, "{said}");
}

#[test]
fn more_than_the_share_is_refused() {
    let folder = Folder::new();
    let neighbour = Neighbour::shell("while :; do sleep 0.01; done");
    experiment(folder.path(), &format!("pid = {}", neighbour.pid()), "30%", "20%", 3);
    let output = run_file(folder.path()).wait();
    assert_eq!(output.code(), Some(2), "{}{}", output.stdout, output.stderr);
    assert!(
        output
            .stderr
            .contains("frozen = 30% exceeds the allowed share of time for pauses of 'aggressor'"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("--frozen-share"), "{}", output.stderr);
    neighbour.must_go_on(false);
}

fn kill_in_slices(neighbour: &Neighbour, named: &str, stands: impl Fn() -> bool) {
    for (round, both) in [false, true, false, true].into_iter().enumerate() {
        let folder = Folder::new();
        experiment(folder.path(), named, "80%", "90%", 1000);
        let run = run_file(folder.path());
        let owner = run.child.id();
        wait_for("a slice", || stands().then_some(()));
        let guardian =
            marked(&run.mark).into_iter().find(|process| process.name == "ringfence-guardian");
        let guardian = guardian.expect("there is one before anything is paused").pid;
        if both {
            kill(guardian, libc::SIGSTOP);
        }
        run.signal(libc::SIGKILL);
        if both {
            kill(guardian, libc::SIGKILL);
        }
        let left = gone(&run.mark);
        assert!(left.is_empty(), "round {round}: {left:?}");
        run.wait();
        if both {
            ringfence(&["restore"]).ok();
        }
        wait_for("the neighbour goes on", || (!stands()).then_some(()));
        neighbour.must_go_on(true);
        wait_for("the journal to go", || journals(owner).is_empty().then_some(()));
    }
}

#[test]
fn who_is_paused_in_slices_goes_on_whoever_is_killed() {
    if !enough_cpus() {
        return;
    }
    let neighbour = Neighbour::shell("while :; do :; done");
    kill_in_slices(&neighbour, &format!("pid = {}", neighbour.pid()), || neighbour.is_stopped());
    match Group::make("sliced", "freezer.state").or_else(|_| Group::make("sliced", "cgroup.freeze"))
    {
        Ok(group) => {
            let neighbour = group.shell("while :; do :; done");
            neighbour.wait_for(1);
            kill_in_slices(&neighbour, &format!("cgroup = '{}'", group.path()), || {
                !group.is_thawed()
            });
        }
        Err(why) => skip(&why),
    }
}
