//! `prove` with the levers of resctrl on a real kernel, whose masks have no effect there, and with
//! weights by version 2 of control groups, which have: what it finds is what there is, and
//! everything is restored.

use ringfence_testbed::{Program, or_skip};

use crate::support::{Folder, conflict, figure};

// The aggressor is the leader of a crowd on the victim's CPU, both of `support/conflict.c`.
const SCRIPT: &str = r#"
FLAGS="--victim alu --victim-cpu 1 --aggressor ./leader --aggressor-cpus 0 --rounds 1 \
    --budget 100% --quiet"
# Long where a figure must be precise, and where somebody is to meet a lever that is set.
SHORT="--trials 4 --window 150ms --settle 100ms --isolation-settle 100ms"
PRECISE="--trials 6 --window 400ms --settle 200ms --isolation-settle 100ms"
LASTING="--trials 2 --window 500ms --settle 50ms --isolation-settle 1s"
groups() {
    ls -d /sys/fs/resctrl/*/tasks 2> /dev/null; grep L3 /sys/fs/resctrl/schemata
    ls /run/ringfence
}
wait_for() {
    i=0
    until eval "$1"; do
        i=$((i+1)); [ $i -lt 900 ] || { echo "in vain: $1"; return; }; sleep 0.1
    done
}
FENCED='grep -q L3:0=7f8 /sys/fs/resctrl/schemata'
mkdir -p /run/ringfence
echo "== weight"
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
while :; do
    for group in /sys/fs/cgroup/ringfence-*; do
        [ -e $group/cpu.weight ] &&
            echo "weight $(cat $group/cpu.weight) of $(grep -c . $group/cgroup.procs) processes"
    done
    sleep 0.1
done > /tmp/seen 2> /dev/null & looks=$!
./ringfence prove --victim alu --aggressor alu --victim-cpus 0 --aggressor-cpus 0 --levers weight \
    --budget 30% --trials 6 --rounds 1 --window 400ms --settle 200ms --quiet --json --out /tmp/w \
    > /tmp/w.json
kill $looks; sort -u /tmp/seen; ls -d /sys/fs/cgroup/ringfence-* 2> /dev/null; ls /run/ringfence
echo "== figures"; cat /tmp/w.json
crowd() { setsid taskset 2 ./conflict crowd /tmp/leader $1 & }
printf '#!/bin/sh\nexec ./conflict leader /tmp/leader\n' > leader; chmod +x leader
crowd
echo "== before"; groups
echo "== no effect"
./ringfence prove $FLAGS $SHORT --levers cat,mba --out /tmp/a -v; echo "code $?"; groups
echo "== killed"
./ringfence prove $FLAGS $LASTING --levers cat --out /tmp/b > /dev/null 2>&1 & pid=$!
wait_for "$FENCED"; kill -9 $pid; echo fenced
wait_for '! [ -e /run/ringfence/resctrl.journal ]'; groups
echo "== all killed"
./ringfence prove $FLAGS $LASTING --levers cat --out /tmp/c > /dev/null 2>&1 &
wait_for "$FENCED"; killall -9 ringfence; sleep 1; grep L3 /sys/fs/resctrl/schemata
./ringfence doctor --why | grep recover
killall -9 conflict
./ringfence resctrl recover; echo "code $?"; groups
# Far over the budget, and as often as it takes: what is asked is what is kept, not how precise a
# busy machine lets it be.
echo "== kept"; for one in 1 2 3; do crowd L3:0=7ff; done
for try in 1 2 3 4 5 6; do
    ./ringfence prove $FLAGS $PRECISE --levers cat --keep --out /tmp/d$try && break
done; echo "code $?"; groups
echo "== undone"; ./ringfence resctrl undo; echo "code $?"; groups
echo "== end"
"#;

/// The part of the output behind `== NAME`.
fn part<'a>(output: &'a str, name: &str) -> &'a str {
    let rest = output
        .split(&format!("== {name}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no '{name}' in\n{output}"));
    rest.split("\n== ").next().unwrap()
}

#[test]
fn prove_finds_no_effect_where_there_is_none_and_puts_everything_back() {
    let name = "prove_finds_no_effect_where_there_is_none_and_puts_everything_back";
    let Some(testbed) = or_skip(name) else { return };
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    let folder = Folder::new();
    // Otherwise each session gets as much of the CPU as another, however many programs it has.
    let testbed = testbed.profile("cascade-lake").mount("-").kernel("noautogroup").time(1200);
    let output = testbed.copy(program.path()).copy(conflict(&folder)).run(SCRIPT);
    let said = output.stdout.replace('\r', "");
    assert_eq!(output.code, 0, "{output}");
    // By version 2 of control groups: two share a CPU, and the victim gets nearly all of it.
    let weight = part(&said, "weight");
    for seen in ["weight 10 of 1 processes", "weight 1 of 1 processes"] {
        assert!(weight.contains(seen), "{output}");
    }
    assert!(!weight.contains("/sys/fs/cgroup/") && !weight.contains(".journal"), "{output}");
    let figures: serde_json::Value = serde_json::from_str(part(&said, "figures")).unwrap();
    let proof = &figures["proof"];
    // By the intervals' ends, which a noisy minute moves apart.
    let high =
        |estimate: &serde_json::Value| figure(estimate).and_then(|_| estimate["high"].as_f64());
    assert!(high(&proof["beside"]).is_none_or(|beside| beside > 1.3), "{proof}");
    let tried = proof["tried"].as_array().unwrap();
    let least =
        tried.iter().find(|tried| tried["candidate"]["arm"]["name"] == "cpu weight 1").unwrap();
    assert!(high(&least["price"]["slowdown"]).is_none_or(|slowdown| slowdown > 3.0), "{proof}");

    let untouched = |text: &str| {
        text.contains("L3:0=7ff")
            && !text.contains("/sys/fs/resctrl/")
            && !text.contains("resctrl.journal")
    };
    assert!(untouched(part(&said, "before")), "{output}");

    // The programs slow the victim down whatever the masks say, so nothing may be said to help.
    let no_effect = part(&said, "no effect");
    // Of four trials the intervals may leave it open.
    assert!(no_effect.contains("code 3") || no_effect.contains("code 4"), "{output}");
    assert!(
        no_effect.contains("cat L3 3 of 11 ways") && no_effect.contains("mba 50 %"),
        "{output}"
    );
    assert!(!no_effect.contains(" within  "), "{output}");
    assert!(untouched(no_effect), "{output}");

    // The guardian puts back what a supervisor leaves that is killed.
    let killed = part(&said, "killed");
    assert!(killed.contains("fenced") && untouched(killed), "{output}");

    // With the guardian gone too, doctor says so and recover does it.
    let all = part(&said, "all killed");
    assert!(all.contains("L3:0=7f8") && all.contains("ringfence resctrl recover"), "{output}");
    let after = all.split_once("code 0").unwrap_or_else(|| panic!("{output}")).1;
    assert!(untouched(after), "{output}");

    // What helps is confirmed (on a noisy minute not at the first try), stays on request, and goes
    // on request.
    let kept = part(&said, "kept");
    assert!(kept.contains("code 0") && kept.contains("ringfence resctrl undo"), "{output}");
    assert!(kept.contains("/sys/fs/resctrl/ringfence-victim/tasks\n"), "{output}");
    assert!(kept.contains("resctrl.kept") && !kept.contains("resctrl.journal"), "{output}");
    let undone = part(&said, "undone");
    assert!(
        undone.contains("code 0") && untouched(undone) && !undone.contains("resctrl.kept"),
        "{output}"
    );
    assert!(!said.contains("in vain"), "{output}");
}
