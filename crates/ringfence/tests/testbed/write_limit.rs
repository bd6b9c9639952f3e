//! An arm's limit of what is written to a disk by version 2 of control groups, whose `io`
//! controller a real kernel has on a disk of its own: the limit holds, only where the controller is
//! handed down, and nothing is left of it.

use ringfence_testbed::{Program, or_skip};

use crate::support::figure;

// Persistent memory stands in for a disk. What is written there is limited to a quarter of the
// pace.
const SCRIPT: &str = r#"
/usr/bin/mke2fs -q -t ext4 -b 4096 /dev/pmem0 && mkdir /mnt/disk &&
    mount -t ext4 /dev/pmem0 /mnt/disk || exit
mkdir -p /run/ringfence
cat > x.toml <<END
schema = 2
name = "limited"
metric = "writer"
measure = { looks = [4], rounds = 1, window = "1s", probe = "0ms" }
[[role]]
name = "writer"
[role.task]
workload = "dirty"
dir = "/mnt/disk"
io = "direct"
size = "1MiB"
block = "64KiB"
pace = "4MiB/s"
[[arm]]
name = "free"
active = ["writer"]
[[arm]]
name = "as free"
active = ["writer"]
baseline = "free"
[[arm]]
name = "limited"
active = ["writer"]
baseline = "free"
disk_write = { writer = "1MiB/s" }
END
left() { ls -d /sys/fs/cgroup/ringfence-* 2> /dev/null; ls /run/ringfence; }
echo "== not delegated"; ./ringfence run x.toml --trials 2 -qv --out /tmp/a; left
echo +io > /sys/fs/cgroup/cgroup.subtree_control
while :; do
    for group in /sys/fs/cgroup/ringfence-*-disk-limit*; do
        [ -e $group/io.max ] &&
            echo "$(cat $group/io.max) of $(grep -c . $group/cgroup.procs) processes"
    done
    sleep 0.1
done > /tmp/seen 2> /dev/null & looks=$!
echo "== figures"; ./ringfence run x.toml --quiet --json --out /tmp/b
kill $looks; echo "== seen"; sort -u /tmp/seen; echo "== left"; left; echo "== end"
"#;

#[test]
fn a_limit_of_writing_holds_by_version_2_and_nothing_is_left_of_it() {
    let Some(testbed) = or_skip("a_limit_of_writing_holds_by_version_2_and_nothing_is_left_of_it")
    else {
        return;
    };
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    let output = testbed.pmem(64).time(600).copy(program.path()).run(SCRIPT);
    assert_eq!(output.code, 0, "{output}");
    let said = output.stdout.replace('\r', "");
    let part = |name: &str| {
        let rest = said.split(&format!("== {name}\n")).nth(1).unwrap_or_else(|| panic!("{output}"));
        rest.split("== ").next().unwrap().to_owned()
    };
    let refused = part("not delegated").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(refused.contains("io of cgroup v2 is not delegated"), "{output}");
    assert!(!refused.contains("/sys/fs/cgroup/ringfence-"), "{output}");
    let seen = part("seen");
    assert!(seen.contains(" wbps=1048576 ") && seen.contains("of 1 processes"), "{output}");
    let figures: serde_json::Value = serde_json::from_str(&part("figures")).unwrap();
    let results = figures["results"].as_array().unwrap();
    // By the intervals' ends, which a noisy minute moves apart, or of which it leaves none.
    let end = |arm: &str, name: &str| {
        let result = results.iter().find(|result| result["arm"] == arm).unwrap();
        let slowdown = &result["effect"]["finding"]["slowdown"];
        figure(slowdown).and_then(|_| slowdown[name].as_f64())
    };
    // Four times as long by the limit; half as much again is let pass.
    assert!(end("limited", "high").is_none_or(|high| high > 4.0 / 1.5), "{output}");
    assert!(end("as free", "low").is_none_or(|low| low < 2.0), "{output}");
    let left = part("left");
    assert!(!left.contains("ringfence-") && !left.contains(".journal"), "{output}");
}
