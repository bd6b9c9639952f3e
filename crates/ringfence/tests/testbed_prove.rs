//! `prove` with the levers of resctrl on a real kernel, whose masks have no effect there, and with weights by version 2
//! of control groups, which have: what it finds is what there is, and everything is put back.

mod support;

use ringfence_testbed::{Program, or_skip};
use support::{Folder, figure};

/// The aggressor: a program that others work for.
const AGGRESSOR: &str = "#!/bin/sh
echo $$ > /tmp/aggressor
while :; do :; done
";

/// Who works for it, on the victim's CPU, while it runs (prove pins what it starts itself, and stops it for the
/// windows in which the victim is alone). `always`: whatever the masks say, so that no lever helps. `whole`: only
/// while the default group may use the whole cache, a stand-in, on a kernel whose masks do nothing, for an
/// aggressor that a mask does hold off.
const CROWD: &str = "#!/bin/sh
whole() {
    while read -r line; do case $line in *L3:0=7ff*) return 0 ;; esac; done < /sys/fs/resctrl/schemata
    return 1
}
runs() {
    read -r pid < /tmp/aggressor && read -r id name state rest < /proc/$pid/stat && [ $state = R ]
}
for i in 1 2 3 4 5 6; do
    while :; do
        if runs && { [ $1 = always ] || whole; }; then i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done
        else sleep 0.1; fi
    done 2> /dev/null &
done
wait
";

const SCRIPT: &str = r#"
FLAGS="--victim alu --victim-cpu 1 --aggressor-cpus 0 --aggressor ./aggressor --budget 100% \
    --blocks 1 --window 400ms --settle 200ms --fence-settle 300ms --quiet"
groups() { ls -d /sys/fs/resctrl/*/tasks 2> /dev/null; grep L3 /sys/fs/resctrl/schemata; ls /run/ringfence; }
wait_for() { i=0; until eval "$1"; do i=$((i+1)); [ $i -lt 900 ] || { echo "in vain: $1"; return; }; sleep 0.1; done; }
FENCED='grep -q L3:0=7f8 /sys/fs/resctrl/schemata'
chmod +x aggressor crowd
mkdir -p /run/ringfence
echo "== weight"
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
while :; do
    for group in /sys/fs/cgroup/ringfence-*; do
        [ -e $group/cpu.weight ] && echo "weight $(cat $group/cpu.weight) of $(grep -c . $group/cgroup.procs) processes"
    done
    sleep 0.1
done > /tmp/seen 2> /dev/null & looks=$!
./ringfence prove --victim alu --aggressor alu --victim-cpus 0 --aggressor-cpus 0 --levers weight --budget 30% \
    --lives 6 --blocks 1 --window 400ms --settle 200ms --quiet --json --out /tmp/w > /tmp/w.json
kill $looks; sort -u /tmp/seen; ls -d /sys/fs/cgroup/ringfence-* 2> /dev/null; ls /run/ringfence
echo "== figures"; cat /tmp/w.json
crowd() { setsid taskset 2 ./crowd $1 & crowd=$!; }
crowd always
echo "== before"; groups
echo "== no effect"
./ringfence prove $FLAGS --lives 3 --levers cat,mba --out /tmp/a; echo "code $?"; groups
echo "== killed"
./ringfence prove $FLAGS --lives 4 --levers cat --out /tmp/b > /dev/null 2>&1 & pid=$!
wait_for "$FENCED"; kill -9 $pid; echo fenced; wait_for '! [ -e /run/ringfence/resctrl.journal ]'; groups
echo "== all killed"
./ringfence prove $FLAGS --lives 4 --levers cat --out /tmp/c > /dev/null 2>&1 &
wait_for "$FENCED"; killall -9 ringfence; sleep 1; grep L3 /sys/fs/resctrl/schemata
./ringfence doctor | grep recover
killall -9 aggressor
./ringfence resctrl recover; echo "code $?"; groups
echo "== kept"; killall -9 crowd; crowd whole
for try in 1 2 3; do ./ringfence prove $FLAGS --lives 6 --levers cat --keep --out /tmp/d$try && break; done; echo "code $?"; groups
echo "== undone"; ./ringfence resctrl undo; echo "code $?"; groups
echo "== end"
"#;

/// The part of the output behind `== NAME`.
fn part<'a>(output: &'a str, name: &str) -> &'a str {
    let rest =
        output.split(&format!("== {name}\n")).nth(1).unwrap_or_else(|| panic!("no '{name}' in\n{output}"));
    rest.split("\n== ").next().unwrap()
}

#[test]
fn prove_finds_no_effect_where_there_is_none_and_puts_everything_back() {
    let name = "prove_finds_no_effect_where_there_is_none_and_puts_everything_back";
    let Some(testbed) = or_skip(name) else { return };
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    let folder = Folder::new();
    // Otherwise each session gets as much of the CPU as another, however many programs it has.
    let mut testbed =
        testbed.profile("cascade-lake").mount("-").kernel("noautogroup").time(1200).copy(program.path());
    for (name, text) in [("aggressor", AGGRESSOR), ("crowd", CROWD)] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        testbed = testbed.copy(path);
    }
    let output = testbed.run(SCRIPT);
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
    assert!(figure(&proof["beside"]).is_none_or(|beside| beside > 1.3), "{proof}");
    let tried = proof["tried"].as_array().unwrap();
    let least = tried.iter().find(|tried| tried["offer"]["arm"]["name"] == "cpu weight 1").unwrap();
    assert!(figure(&least["price"]["slowdown"]).is_none_or(|slowdown| slowdown > 3.0), "{proof}");

    let untouched = |text: &str| {
        text.contains("L3:0=7ff") && !text.contains("/sys/fs/resctrl/") && !text.contains("resctrl.journal")
    };
    assert!(untouched(part(&said, "before")), "{output}");

    // The programs slow the victim down whatever the masks say, so nothing may be said to help.
    let no_effect = part(&said, "no effect");
    // Of three lives the intervals may leave it open.
    assert!(no_effect.contains("code 3") || no_effect.contains("code 4"), "{output}");
    assert!(no_effect.contains("cat L3 3 of 11 ways") && no_effect.contains("mba 50 %"), "{output}");
    assert!(!no_effect.contains("within"), "{output}");
    assert!(untouched(no_effect), "{output}");

    // The guardian puts back what a supervisor leaves that is killed.
    let killed = part(&said, "killed");
    assert!(killed.contains("fenced") && untouched(killed), "{output}");

    // With the guardian gone too, doctor says so and recover does it.
    let all = part(&said, "all killed");
    assert!(all.contains("L3:0=7f8") && all.contains("ringfence resctrl recover"), "{output}");
    let after = all.split_once("code 0").unwrap_or_else(|| panic!("{output}")).1;
    assert!(untouched(after), "{output}");

    // What helps is confirmed (on a noisy minute at the second or third try), stays on request, and goes on request.
    let kept = part(&said, "kept");
    assert!(kept.contains("code 0") && kept.contains("ringfence resctrl undo"), "{output}");
    assert!(kept.contains("/sys/fs/resctrl/ringfence-victim/tasks\n"), "{output}");
    assert!(kept.contains("resctrl.kept") && !kept.contains("resctrl.journal"), "{output}");
    let undone = part(&said, "undone");
    assert!(undone.contains("code 0") && untouched(undone) && !undone.contains("resctrl.kept"), "{output}");
    assert!(!said.contains("in vain"), "{output}");
}
