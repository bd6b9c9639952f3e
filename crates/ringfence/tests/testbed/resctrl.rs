//! `resctrl run`, `apply` and `watch` on a real kernel with emulated RDT: what groups are made,
//! which processes are in them, and that everything is restored afterwards. Masks have no effect
//! there, and counters are invented.

use ringfence_testbed::{Output, Program, or_skip};

const BEGIN: &str = r#"
R="./ringfence resctrl"
mkdir -p /run/ringfence
state() {
    cat /sys/fs/resctrl/schemata /sys/fs/resctrl/mode
    ls -d /sys/fs/resctrl/*/tasks /sys/fs/resctrl/*/mon_groups/* \
        /sys/fs/resctrl/mon_groups/* 2> /dev/null
    ls /run/ringfence | grep -v '\.lock$'
}
wait_for() {
    i=0
    until eval "$1"; do
        i=$((i+1)); [ $i -lt 600 ] || { echo "in vain: $1"; return; }; sleep 0.1
    done
}
# Whether the command of 'resctrl run' has begun: before, it ends with whoever was to let it.
begun() { s=$(pidof sleep) && grep -qx "$s" /sys/fs/resctrl/ringfence-*/tasks 2> /dev/null; }
there() { ls -d /sys/fs/resctrl/ringfence-*/tasks > /dev/null 2>&1; }
# The limits of a process's group, and how many are in it.
group_of() {
    for g in /sys/fs/resctrl/ringfence-*; do
        grep -qx $1 $g/tasks && { cat $g/schemata; echo "$(grep -c . $g/tasks) tasks"; }
    done
}
same() { state | cmp - /tmp/before && echo "as before"; }
ours() {
    for p in /proc/[0-9]*; do [ "$(readlink $p/exe)" = /host/ringfence ] && basename $p; done
}
state > /tmp/before
"#;

struct Said(Output);

fn in_guest(test: &str, script: &str) -> Option<Said> {
    let testbed = or_skip(test)?;
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    let testbed = testbed.profile("sockets").mount("-").time(600).copy(program.path());
    let output = testbed.run(&format!("{BEGIN}{script}\necho '== end'"));
    assert_eq!(output.code, 0, "{output}");
    Some(Said(output))
}

impl Said {
    // What belongs to a part by its name, its lines joined.
    fn part(&self, name: &str) -> String {
        let said = self.0.stdout.replace('\r', "");
        let rest = said
            .split(&format!("== {name}\n"))
            .nth(1)
            .unwrap_or_else(|| panic!("{name}: {}", self.0));
        rest.split("== ").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn has(&self, name: &str, parts: &[&str]) {
        let said = self.part(name);
        for part in parts {
            assert!(said.contains(part), "{name}: '{part}' is not in\n{said}\n{}", self.0);
        }
        assert!(!said.contains("in vain"), "{name}: {said}");
    }
}

const RUN: &str = r#"
cat > show <<'END'
#!/bin/sh
g=$(dirname $(grep -lx $$ /sys/fs/resctrl/ringfence-*/tasks))
cat $g/schemata; echo "cpus $(taskset -p $$)"; exit 7
END
chmod +x show
echo "== run"; $R run --l3 '0=0xf;1=0xf0' --mba 45 --cpus 1-2 -- ./show 2>&1; echo "code $?"; same
echo "== rest"; echo L3:0=ff > /sys/fs/resctrl/schemata; state > /tmp/before
$R run --mba 50 -- ./show; same
echo L3:0=fffff > /sys/fs/resctrl/schemata; state > /tmp/before
echo "== open"; $R run --l3 4 -- ls /proc/self/fd > /tmp/open; echo "open: $(cat /tmp/open)."
echo "== signal"; $R run --l3 4 -- sh -c 'kill -9 $$'; echo "code $?"; same
echo "== absent"; $R run --l3 4 -- ./nothing 2>&1; echo "code $?"; same
echo "== outlived"
$R run --l3 4 -- sh -c 'setsid sleep 400 < /dev/null > /dev/null 2>&1 & exit 3'; echo "code $?"
same; killall sleep
echo "== forwarded"
forwarded='trap "echo got it; exit 9" TERM; touch /tmp/ready; while :; do sleep 0.1; done'
$R run --l3 4 -- sh -c "$forwarded" & pid=$!
wait_for '[ -e /tmp/ready ]'; kill -TERM $pid; wait $pid; echo "code $?"; same
echo "== two"
$R run --l3 0x3 -- sleep 15 & one=$!; $R run --l3 0x30 -- sleep 15 & two=$!
wait_for '[ $(ls -d /sys/fs/resctrl/ringfence-*/tasks | wc -l) = 2 ]'; $R | grep -c 'in force'
wait $one; echo "code $?"; wait $two; echo "code $?"; same
echo "== killed"
$R run --l3 4 -- sleep 500 & pid=$!
wait_for begun; wait_for 'ls /run/ringfence | grep -q lent'; kill -9 $pid; wait_for '! there'
pidof sleep > /dev/null && echo "sleeps on"; same; killall sleep
echo "== all killed"
$R run --l3 4 -- sleep 500 & pid=$!
wait_for 'ls /run/ringfence | grep -q lent'; kill -9 $(ours); sleep 0.5; there && echo "still there"
$R; ./ringfence restore; same; killall sleep
echo "== next"
$R run --l3 4 -- sleep 500 & pid=$!
wait_for 'ls /run/ringfence | grep -q lent'; kill -9 $(ours); sleep 0.5
$R run --l3 2 -- sh -c 'ls -d /sys/fs/resctrl/ringfence-*/tasks'; same; killall sleep
"#;

#[test]
fn a_command_runs_in_a_group_of_its_own_that_goes_with_it() {
    let Some(said) = in_guest("a_command_runs_in_a_group_of_its_own_that_goes_with_it", RUN) else {
        return;
    };
    let run = [
        "45 % of MB:0 is rounded up to 50 %",
        "MB:0= 50;1= 50",
        "L3:0=0000f;1=000f0",
        "mask: 6",
        "code 7",
        "as before",
    ];
    said.has("run", &run);
    // Standard input, output, error, and the folder: nothing of ours is open in the command.
    said.has("open", &["open: 0 1 2 3."]);
    said.has("rest", &["MB:0= 50;1= 50", "L3:0=000ff;1=fffff", "as before"]);
    said.has("signal", &["code 137", "as before"]);
    said.has(
        "absent",
        &[
            "./nothing: the command cannot be started: No such file or directory",
            "code 2",
            "as before",
        ],
    );
    said.has("outlived", &["code 3", "as before"]);
    said.has("forwarded", &["got it", "code 9", "as before"]);
    said.has("two", &["2 code 0 code 0 as before"]);
    said.has("killed", &["sleeps on", "as before"]);
    said.has(
        "all killed",
        &[
            "still there",
            "left over resctrl run sleep 500, killed after",
            "remove group ringfence-",
            "as before",
        ],
    );
    let next = said.part("next");
    assert_eq!(next.matches("/sys/fs/resctrl/ringfence-").count(), 1, "{next}");
    said.has("next", &["as before"]);
}

const APPLY: &str = r#"
sh -c 'sleep 600 & sleep 601 & wait' & tree=$!
wait_for '[ $(pidof sleep | wc -w) = 2 ]'
echo "== apply"
$R apply --pid $tree --l3 2 --mba 20 --for 8s & pid=$!
wait_for 'ls /run/ringfence | grep -q lent'; group_of $tree; wait $pid; echo "code $?"; same
echo "== interrupted"
$R apply --pid $tree --l3 0x3 & pid=$!
wait_for 'ls /run/ringfence | grep -q lent'; kill -INT $pid; wait $pid; echo "code $?"; same
echo "== killed"
$R apply --pid $tree --l3 0x3 & pid=$!
wait_for 'ls /run/ringfence | grep -q lent'; kill -KILL $pid; wait_for '! there'; same
echo "== kept"
mkdir -p /sys/fs/cgroup/a.slice/b.service
echo $tree > /sys/fs/cgroup/a.slice/b.service/cgroup.procs
for p in $(pidof sleep); do echo $p > /sys/fs/cgroup/a.slice/b.service/cgroup.procs; done
$R apply --cgroup /a.slice --l3 0x3 --keep | tee /tmp/kept; group_of $tree
./ringfence restore; $R undo nothing 2>&1; echo "code $?"
$R | grep kept; there && echo "still there"
undo=$(sed -n 's/.*To undo it: ringfence/.\/ringfence/p' /tmp/kept); echo "undone by $undo"
$undo --dry-run; $undo; same
echo "== unit"; $R apply --unit b --mba 50 --for 100ms; echo "code $?"; same
echo "== none"
mkdir /sys/fs/resctrl/mine; state > /tmp/before; echo $tree > /sys/fs/resctrl/mine/tasks
$R apply --pid $tree --none --for 8s & pid=$!
wait_for 'ls /run/ringfence | grep -q lent'; grep -cx $tree /sys/fs/resctrl/mine/tasks
wait $pid; grep -cx $tree /sys/fs/resctrl/mine/tasks; same
echo "== from a group"
echo 'L3:0=ff' > /sys/fs/resctrl/mine/schemata
$R apply --pid $tree --mba 50 --for 8s & pid=$!
wait_for 'ls /run/ringfence | grep -q lent'; group_of $tree; wait $pid
grep -cx $tree /sys/fs/resctrl/mine/tasks; rmdir /sys/fs/resctrl/mine
echo "== ended"; state > /tmp/before; sleep 20 & $R apply --pid $! --l3 2; echo "code $?"; same
echo "== refused"
$R apply --pid 1 --l3 2 2>&1; echo "code $?"; $R apply --pid 2 --l3 2 2>&1
$R apply --pid $$ --l3 2 2>&1; $R apply --cgroup / --l3 2 2>&1; same
mkdir /sys/fs/resctrl/own; echo 'L3:0=3;1=3' > /sys/fs/resctrl/own/schemata
echo 'L3:0=ffffc;1=ffffc' > /sys/fs/resctrl/schemata
echo exclusive > /sys/fs/resctrl/own/mode; $R apply --pid $tree --l3 0x6 2>&1; echo "code $?"
rmdir /sys/fs/resctrl/own; echo 'L3:0=fffff;1=fffff' > /sys/fs/resctrl/schemata
echo "== watch"; $R watch --count 2 --interval 200ms; same
echo "== watch json"; $R watch --count 1 --interval 200ms --json --pid $tree
echo "== watched"; same
echo "== watch killed"; $R watch --pid $tree > /dev/null & pid=$!
wait_for 'ls /run/ringfence | grep -q lent'; kill -9 $pid
wait_for '! ls /run/ringfence | grep -q lent'; same
echo "== watch ended"; $R watch --pid $tree --interval 10ms | head -3 | wc -l
wait_for '! ls /run/ringfence | grep -q lent'; same
"#;

// What each part of it says.
const APPLY_SAYS: &[(&str, &[&str])] = &[
    (
        "apply",
        &[
            "MB:0= 20;1= 20",
            "L3:0=30000;1=30000",
            "3 tasks",
            "3 processes with 3 threads",
            "for 8 s",
            "code 0",
            "as before",
        ],
    ),
    ("interrupted", &["until Ctrl-C", "remove group ringfence-", "code 0", "as before"]),
    ("killed", &["as before"]),
    (
        "kept",
        &[
            "3 processes with 3 threads of control group /a.slice",
            "L3:0=00003;1=00003",
            "3 tasks",
            "is kept on request: 'ringfence resctrl undo ringfence-",
            "nothing is kept under the name 'nothing'; kept: ringfence-",
            "code 2",
            "still there",
            "undone by ./ringfence resctrl undo ringfence-",
            "that would be undone",
            "that were undone",
            "as before",
        ],
    ),
    ("unit", &["of unit b.service", "code 0", "as before"]),
    ("none", &["0 Changes of 'resctrl apply to process", "1 as before"]),
    ("from a group", &["MB:0= 50;1= 50", "L3:0=000ff;1=fffff", "1"]),
    ("ended", &["All of it has ended", "code 0", "as before"]),
    (
        "refused",
        &[
            "(init) is part of it, and it is process 1",
            "code 2",
            "it is a thread of the kernel",
            "this program runs below it",
            "the root group contains the whole system",
            "as before",
            "--l3: 0x6 overlaps 0x2 of cache 0, which an exclusive group or a locked region has \
             code 2",
        ],
    ),
    (
        "watch",
        &[
            "seconds group cache occupancy_bytes",
            "default group L3:0",
            "default group L3:1",
            "as before",
        ],
    ),
    ("watched", &["as before"]),
    ("watch killed", &["as before"]),
    ("watch ended", &["3", "as before"]),
];

#[test]
fn what_runs_is_limited_watched_and_left_as_it_was() {
    let Some(said) = in_guest("what_runs_is_limited_watched_and_left_as_it_was", APPLY) else {
        return;
    };
    for (part, says) in APPLY_SAYS {
        said.has(part, says);
    }
    let json: serde_json::Value = serde_json::from_str(&said.part("watch json")).unwrap();
    crate::support::check_json(&json);
    let used = json["used"].as_array().unwrap();
    assert_eq!(used.len(), 2, "{json}");
    for one in used {
        assert!(one["group"].as_str().unwrap().starts_with("mon_groups/ringfence-"), "{json}");
        assert!(
            one["occupancy"].is_u64() && one["total"].is_u64() && one["local"].is_u64(),
            "{json}"
        );
    }
}
