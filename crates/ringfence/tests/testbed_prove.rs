//! `prove` with the levers of resctrl on a real kernel, whose masks have no effect there: what it finds is
//! what there is, and everything is put back.

use ringfence_testbed::{Program, or_skip};

/// A program that burns the victim's CPU: no mask helps against it.
const BURNS: &str = "taskset 2 sh -c \"while :; do :; done\"";

/// Burns it too, but only while the default group may use the whole cache: a stand-in, on a kernel whose masks do
/// nothing, for an aggressor that a mask does hold off.
const GIVES_WAY: &str = "#!/bin/sh
while :; do
    if grep -q L3:0=7ff /sys/fs/resctrl/schemata; then
        i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done
    else
        sleep 0.02
    fi
done
";

const SCRIPT: &str = r#"
prove() { ./ringfence prove --victim alu --victim-cpu 1 --aggressor-cpus 0 --lives 4 --window 200ms \
    --fence-settle 1s --quiet "$@"; }
groups() { ls -d /sys/fs/resctrl/*/tasks 2> /dev/null; grep L3 /sys/fs/resctrl/schemata; ls /run/ringfence; }
until_fenced() { i=0; while ! grep -q L3:0=7f8 /sys/fs/resctrl/schemata; do i=$((i+1)); [ $i -lt 600 ] || return; sleep 0.1; done; }
until_whole() { i=0; while ! grep -q L3:0=7ff /sys/fs/resctrl/schemata; do i=$((i+1)); [ $i -lt 200 ] || return; sleep 0.1; done; sleep 1; }
chmod +x gives-way
echo "== before"; groups
echo "== no effect"; prove --aggressor "$BURNS" --levers cat,mba --budget 20% --out /tmp/a; echo "code $?"; groups
echo "== killed"
prove --aggressor "$BURNS" --levers cat --budget 20% --out /tmp/b > /dev/null 2>&1 & pid=$!
until_fenced; kill -9 $pid; echo "fenced $(grep L3 /sys/fs/resctrl/schemata)"; until_whole; groups
echo "== all killed"
prove --aggressor "$BURNS" --levers cat --budget 20% --out /tmp/c > /dev/null 2>&1 &
until_fenced; killall -9 ringfence; sleep 1; grep L3 /sys/fs/resctrl/schemata
./ringfence doctor | grep recover
./ringfence resctrl recover; echo "code $?"; groups
echo "== kept"; prove --aggressor "taskset 2 /host/gives-way" --levers cat --budget 20% --keep --out /tmp/d; echo "code $?"; groups
for group in /sys/fs/resctrl/ringfence-*; do grep L3 $group/schemata; done
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
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("gives-way");
    std::fs::write(&script, GIVES_WAY).unwrap();
    let testbed = testbed.profile("cascade-lake").mount("-").time(900).copy(program.path()).copy(&script);
    let output = testbed.run(&format!("BURNS='{BURNS}'\n{SCRIPT}"));
    let said = output.stdout.replace('\r', "");
    assert_eq!(output.code, 0, "{output}");
    let untouched = |text: &str| text.contains("L3:0=7ff") && !text.contains("/sys/fs/resctrl/");
    assert!(untouched(part(&said, "before")), "{output}");

    // The program halves the victim's speed whatever the masks say, so nothing may be said to help.
    let no_effect = part(&said, "no effect");
    assert!(no_effect.contains("code 3"), "{output}");
    assert!(no_effect.contains("cat L3 3 of 11 ways") && no_effect.contains("mba 50 %"), "{output}");
    assert!(!no_effect.contains("within"), "{output}");
    assert!(untouched(no_effect) && !no_effect.contains("resctrl.journal"), "{output}");

    // The guardian puts back what a supervisor leaves that is killed.
    let killed = part(&said, "killed");
    assert!(killed.contains("fenced") && killed.contains("L3:0=7f8"), "{output}");
    let after = killed.split_once("L3:0=7f8").unwrap().1;
    assert!(untouched(after) && !after.contains("resctrl.journal"), "{output}");

    // With the guardian gone too, doctor says so and recover does it.
    let all = part(&said, "all killed");
    assert!(all.contains("L3:0=7f8") && all.contains("ringfence resctrl recover"), "{output}");
    let after = all.split_once("code 0").unwrap_or_else(|| panic!("{output}")).1;
    assert!(untouched(after) && !after.contains("resctrl.journal"), "{output}");

    // What helps is confirmed, stays on request, and goes on request.
    let kept = part(&said, "kept");
    assert!(kept.contains("code 0") && kept.contains("ringfence resctrl undo"), "{output}");
    assert!(
        kept.contains("/sys/fs/resctrl/ringfence-victim/tasks") && kept.contains("resctrl.kept"),
        "{output}"
    );
    let undone = part(&said, "undone");
    assert!(undone.contains("code 0") && untouched(undone) && !undone.contains("resctrl.kept"), "{output}");
}
