//! Arms that hold a writer back at a disk, on a real kernel with disks of its own: each is set
//! while its arm runs, as the kernel's files say, gone afterwards, and refused where nothing heeds
//! it. Whether any of it helps, times here cannot say.

use ringfence_testbed::{Output, Program, Testbed, or_skip};

// A writer to /mnt/disk, and an arm that sets something; what is seen meanwhile, and what is left.
const BEGIN: &str = r#"
mkdir -p /run/ringfence /mnt/disk
queues='/sys/block/[nv]*/queue'
settings="$queues/scheduler $queues/nr_requests /proc/sys/vm/dirty_background_*"
file() {
cat > $1.toml <<END
schema = 2
name = "$1"
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
pace = "1MiB/s"
[[arm]]
name = "free"
active = ["writer"]
[[arm]]
name = "as free"
active = ["writer"]
baseline = "free"
[[arm]]
name = "set"
active = ["writer"]
baseline = "free"
$2
END
}
# Starts few processes: they are slow in an emulated guest, and a setting lasts for a second.
look() {
    for group in /sys/fs/cgroup/ringfence-*; do
        for file in io.bfq.weight io.weight memory.high; do
            [ -e $group/$file ] &&
                echo "$file $(cat $group/$file) of $(grep -c . $group/cgroup.procs)"
        done
    done
    for process in $(pidof ringfence); do ionice -p $process; done
    grep . $settings
}
run() {
    name=$1 && shift && echo "== $name"
    while :; do look; sleep 0.02; done > /tmp/seen 2> /dev/null & looks=$!
    ./ringfence run $name.toml --trials 2 -qv --out /tmp/$name "$@" 2>&1; echo "code $?"
    kill $looks; sort -u /tmp/seen | sed 's/^/seen: /'
    ls -d /sys/fs/cgroup/ringfence-* 2> /dev/null; ls /run/ringfence | grep journal
    rm -rf /tmp/$name
    look | sed 's/^/after: /'
}
file idle 'io_priority = { writer = "idle" }'
file low 'io_priority = { writer = "best-effort 7" }'
file weight 'disk_weight = { writer = 10 }'
file high 'memory_high = { writer = "8MiB" }'
file both 'memory_high = { writer = "8MiB" }
disk_write = { writer = "1MiB/s" }'
disk() { /usr/bin/mke2fs -q -t ext4 -b 4096 /dev/$1 && mount -t ext4 /dev/$1 /mnt/disk || exit; }
scheduler() { echo $2 > /sys/block/$1/queue/scheduler || exit; }
"#;

struct Said(Output);

impl Said {
    // What belongs to the run of a name, its lines joined.
    fn part(&self, name: &str) -> String {
        let said = self.0.stdout.replace('\r', "");
        let rest =
            said.split(&format!("== {name}\n")).nth(1).unwrap_or_else(|| panic!("{}", self.0));
        rest.split("== ").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn has(&self, name: &str, parts: &[&str]) {
        let said = self.part(name);
        for part in parts {
            assert!(said.contains(part), "{name}: {part}\n{}", self.0);
        }
        // Whatever was set.
        assert!(
            !said.contains("/sys/fs/cgroup/ringfence-") && !said.contains(".journal"),
            "{name}\n{}",
            self.0
        );
    }

    fn has_not(&self, name: &str, part: &str) {
        assert!(!self.part(name).contains(part), "{name}: {part}\n{}", self.0);
    }
}

fn in_guest(test: &str, disks: impl Fn(Testbed) -> Testbed, script: &str) -> Option<Said> {
    let testbed = or_skip(test)?;
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    let testbed = disks(testbed.profile("disks")).time(900).copy(program.path());
    let output = testbed.run(&format!("{BEGIN}{script}"));
    assert_eq!(output.code, 0, "{output}");
    Some(Said(output))
}

#[test]
fn what_orders_a_disks_requests_is_set_and_gone_again() {
    let test = "what_orders_a_disks_requests_is_set_and_gone_again";
    let script = r#"
disk vda
scheduler vda none
file refused-idle 'io_priority = { writer = "idle" }'
file refused-weight 'disk_weight = { writer = 10 }'
file refused-high 'memory_high = { writer = "8MiB" }'
for name in refused-idle refused-weight refused-high; do run $name; done
echo "+io +memory" > /sys/fs/cgroup/cgroup.subtree_control
scheduler vda mq-deadline
run idle
run low
scheduler vda bfq
file low-bfq 'io_priority = { writer = "best-effort 7" }'
run low-bfq
run weight
run high
run both
echo "== end"
"#;
    let Some(said) = in_guest(test, |testbed| testbed.disk(64), script) else { return };
    said.has(
        "refused-idle",
        &["because the scheduler of vda is none, which ignores I/O priorities"],
    );
    said.has("refused-weight", &["because the scheduler of vda is none, which has no weights"]);
    said.has("refused-high", &["because no control group with a memory.high", "'echo +memory >"]);
    said.has("idle", &["seen: idle", "code 0"]);
    said.has_not("idle", "after: idle");
    said.has(
        "low",
        &["because the scheduler of vda is mq-deadline, which distinguishes I/O classes"],
    );
    said.has("low-bfq", &["seen: best-effort: prio 7", "code 0"]);
    said.has(
        "weight",
        &["seen: io.bfq.weight default 10 of 1", "seen: io.bfq.weight default 100 of 0", "code 0"],
    );
    said.has("high", &["seen: memory.high 8388608 of 1", "seen: memory.high max of 0", "code 0"]);
    said.has("both", &["in one hierarchy a process is in one group only"]);
}

#[test]
fn a_model_of_costs_shares_out_what_no_scheduler_does() {
    let test = "a_model_of_costs_shares_out_what_no_scheduler_does";
    let script = r#"
disk nvme0n1
scheduler nvme0n1 none
echo +io > /sys/fs/cgroup/cgroup.subtree_control
echo "$(cat /sys/block/nvme0n1/dev) enable=1" > /sys/fs/cgroup/io.cost.qos || exit
run weight
echo "== end"
"#;
    let Some(said) = in_guest(test, |testbed| testbed.nvme(64), script) else { return };
    said.has(
        "weight",
        &["seen: io.weight default 10 of 1", "seen: io.weight default 100 of 0", "code 0"],
    );
}

#[test]
fn settings_of_the_whole_system_are_put_back_with_what_the_kernel_changes_along() {
    let test = "settings_of_the_whole_system_are_put_back_with_what_the_kernel_changes_along";
    let script = r#"
disk vda
scheduler vda mq-deadline
echo 99 > /sys/block/vda/queue/nr_requests || exit
file system '[arm.system]
"vda/scheduler" = "bfq"
"nvme0n1/nr_requests" = "17"
"vm.dirty_background_bytes" = "16MiB"'
file refused 'system = { "vda/scheduler" = "bfq" }'
file unknown 'system = { "vda/scheduler" = "cfq", "nvme0n1/nr_requests" = "17" }'
run refused
run unknown --system
run system --system
echo "== killed"
sed 's/looks = \[4\]/looks = [400]/' system.toml > killed.toml
./ringfence run killed.toml --quiet --out /tmp/killed --system & pid=$!
tries=0
until grep -q '\[bfq\]' /sys/block/vda/queue/scheduler || [ $tries = 2400 ]; do
    sleep 0.05; tries=$((tries + 1))
done
kill -KILL $pid; look | sed 's/^/in it: /'
tries=0
while ls /run/ringfence | grep -q journal && [ $tries -lt 2400 ]; do
    sleep 0.05; tries=$((tries + 1))
done
ls /run/ringfence | grep journal; look | sed 's/^/after: /'
echo "== end"
"#;
    let Some(said) = in_guest(test, |testbed| testbed.disk(64).nvme(64), script) else { return };
    said.has("refused", &["because it changes the whole system; --system allows it"]);
    said.has_not("refused", "[bfq]");
    said.has("unknown", &["because the kernel offers no scheduler cfq for vda"]);
    let files = |when: &str, values: [&str; 5]| {
        let names = [
            "/sys/block/vda/queue/scheduler",
            "/sys/block/vda/queue/nr_requests",
            "/sys/block/nvme0n1/queue/nr_requests",
            "/proc/sys/vm/dirty_background_bytes",
            "/proc/sys/vm/dirty_background_ratio",
        ];
        names
            .iter()
            .zip(values)
            .map(|(name, value)| format!("{when}: {name}:{value}"))
            .collect::<Vec<_>>()
    };
    let all = |name: &str, lines: Vec<String>| {
        said.has(name, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let chosen = |part: &str, name: &str| {
        let said = said.part(part);
        assert!(said.contains(&format!("[{name}]")), "{part}: {name}\n{said}");
    };
    let set = |when| files(when, ["", "", "17", "16777216", "0"]).split_off(2);
    all("system", set("seen"));
    chosen("system", "bfq");
    let after = || files("after", ["", "99", "1023", "0", "10"]).split_off(1);
    all("system", after());
    all("killed", after());
    for part in ["system", "killed"] {
        let part = said.part(part);
        let after = part
            .split("after: ")
            .skip(1)
            .find(|line| line.contains("vda/queue/scheduler"))
            .unwrap();
        assert!(after.contains("[mq-deadline]"), "{after}");
    }
}
