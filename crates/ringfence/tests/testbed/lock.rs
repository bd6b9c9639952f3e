//! `lock` and `resctrl` on a real kernel that locks regions: the testbed's guest, whose caches are
//! not there. So what is tested is what the kernel takes, refuses and is left as, and never that
//! anything is faster.

use ringfence_testbed::{Program, or_skip};

// Prints what a command says and its exit code behind a line of its own; what it changed must be
// gone.
const SCRIPT: &str = r#"
say() { echo "@@ $*"; "$@" 2>&1; echo "@rc $?"; }
R=./ringfence
cat /sys/fs/resctrl/schemata /sys/fs/resctrl/mode > /tmp/before
say $R lock create hot --size 1MiB
say $R lock list
say $R resctrl
say $R lock create two --size 1MiB
sleep 100 < /dev/pseudo_lock/hot & HOLDER=$!
say $R lock remove hot
say $R lock list
kill $HOLDER; wait
say $R lock remove hot
cat /sys/fs/resctrl/schemata /sys/fs/resctrl/mode > /tmp/after
say cmp /tmp/before /tmp/after
say $R lock misses --repeats 2
say $R lock measure -qv --size 64KiB --interval 5ms --trials 2 --noise 'stream size=1MiB' \
    --settle 100ms --window 120ms --probe 0ms --out /tmp/m
cat /sys/fs/resctrl/schemata /sys/fs/resctrl/mode > /tmp/after
say cmp /tmp/before /tmp/after
say ls /run/ringfence
say ls -d /sys/fs/resctrl/*/tasks
"#;

#[test]
fn regions_are_locked_used_refused_and_given_back() {
    let Some(testbed) = or_skip("regions_are_locked_used_refused_and_given_back") else { return };
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    let output = testbed.profile("broadwell").mount("-").time(600).copy(program.path()).run(SCRIPT);
    assert_eq!(output.console.matches("Oops").count(), 0, "{output}");
    let said: Vec<(i32, String)> = output
        .stdout
        .split("@@ ")
        .skip(1)
        .map(|part| {
            let (text, code) = part.rsplit_once("@rc ").unwrap_or_else(|| panic!("{output}"));
            (code.trim().parse().unwrap(), text.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    let mut said = said.iter();
    let mut next = |code: i32, part: &str| {
        let (found, text) = said.next().unwrap_or_else(|| panic!("'{part}' is missing: {output}"));
        assert!(
            *found == code && text.contains(part),
            "expected {code} and '{part}': {found} {text}\n{output}"
        );
        text.clone()
    };
    next(0, "hot: 1MiB are locked into ways 1");
    next(0, "hot L3:0 1 1MiB 0-1 none seen lock create");
    let shown = next(0, "'ringfence lock remove hot' restores the earlier state");
    assert!(shown.contains("SSSP") && shown.contains("###. 19MiB"), "{shown}");
    next(2, "hot has a region in this cache");
    next(2, "is in use by process");
    next(0, "process ");
    next(0, "remove group hot set L3:0=fffff in default group");
    next(0, "cmp");
    // The emulated processor has no performance counters.
    next(2, "misses are not counted, because the kernel has no performance counters here");
    let measured = next(0, "locked, noise");
    for arm in [
        "own ways, clwb",
        "locked, after clflush,",
        "locked, after clflushopt",
        "locked, after clwb",
    ] {
        assert!(measured.contains(arm), "'{arm}' is not in {measured}");
    }
    assert!(!measured.contains("preloaded") && !measured.contains("not run"), "{measured}");
    next(0, "cmp");
    assert_eq!(next(0, "resctrl.lock"), "ls /run/ringfence resctrl.lock");
    // No group but the default one.
    next(1, "No such file");
}
