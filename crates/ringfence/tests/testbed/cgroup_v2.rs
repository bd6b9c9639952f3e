//! Running processes in a control group of version 2: their limits are set in their own group while
//! an arm runs that has the limits, they are frozen there and nowhere else, and everything is
//! restored afterwards, whichever process is killed.

use ringfence_testbed::{Output, Program, or_skip};

// A group with a program that writes and computes, and with a limit that was there before; arms;
// what is seen.
const BEGIN: &str = r#"
mkdir -p /run/ringfence /mnt/disk
/usr/bin/mke2fs -q -t ext4 -b 4096 /dev/vda && mount -t ext4 /dev/vda /mnt/disk || exit
echo "+cpu +cpuset +io" > /sys/fs/cgroup/cgroup.subtree_control || exit
group=/sys/fs/cgroup/busy && mkdir $group
disk=$(cat /sys/block/vda/dev)
echo "$disk rbps=999999999 wbps=888888888" > $group/io.max || exit
echo 300 > $group/cpu.weight && echo "80000 100000" > $group/cpu.max || exit
write='dd if=/dev/zero of=/mnt/disk/written bs=4k count=1 oflag=direct conv=notrunc'
write="while :; do $write; sleep 0.1; done"
sh -c "echo \$\$ > $group/cgroup.procs; exec 3> /mnt/disk/written; $write" 2> /dev/null & busy=$!
until grep -q ' wbytes=[1-9]' $group/io.stat; do sleep 0.1; done
file() {
cat > $1.toml <<END
schema = 2
name = "$1"
metric = "victim"
[measure]
looks = [${3:-2}]
rounds = 2
window = "${4:-300ms}"
probe = "0ms"
freezing = { longest = "1s", share = "90%" }
[[role]]
name = "victim"
task = { workload = "alu" }
[[role]]
name = "busy"
task = { workload = "attached", pid = $busy }
[[arm]]
name = "alone"
active = ["victim"]
[[arm]]
name = "beside"
active = ["victim", "busy"]
baseline = "alone"
[[arm]]
name = "set"
active = ["victim", "busy"]
baseline = "alone"
$2
END
}
look() {
    for file in cpuset.cpus cpu.weight cpu.max io.max cgroup.freeze; do
        echo "$file '$(cat $group/$file)'"
    done
    echo "group $(cat /proc/$busy/cgroup) of $(grep -c . $group/cgroup.procs |
        sed 's/[1-9]/some/'), state $(sed -n 's/^State:.*(\(.*\))/\1/p' /proc/$busy/status |
        sed 's/running/sleeping/')"
}
run() {
    echo "== $1"
    # One program for all files: what stands for a moment is to be seen where processors are
    # emulated.
    while :; do
        for one in 1 2 3 4 5 6 7 8; do
            (cd $group && grep . cpuset.cpus cpu.weight cpu.max io.max cgroup.freeze)
            sleep 0.02
        done
        look
    done > /tmp/seen 2> /dev/null & looks=$!
    ./ringfence run $1.toml -qv --out /tmp/$1 2>&1; echo "code $?"
    kill $looks; sort -u /tmp/seen | sed 's/^/seen: /'
    ls -d /sys/fs/cgroup/ringfence-* 2> /dev/null; ls /run/ringfence | grep journal
    look | sed 's/^/after: /'
}
echo "== before"
look | sed 's/^/after: /'
"#;

struct Said(Output);

impl Said {
    fn lines(&self, name: &str) -> Vec<&str> {
        let said = &self.0.stdout;
        let lines = said.lines().map(|line| line.trim_end_matches('\r'));
        let rest = lines.skip_while(|line| *line != format!("== {name}")).skip(1);
        rest.take_while(|line| !line.starts_with("== ")).collect()
    }

    fn after(&self, name: &str) -> Vec<&str> {
        self.lines(name).into_iter().filter(|line| line.starts_with("after: ")).collect()
    }

    #[track_caller]
    fn is_as(&self, before: &str, name: &str) {
        assert_eq!(self.after(name).len(), 6, "{}", self.0);
        assert_eq!(self.after(name), self.after(before), "{name}: {}", self.0);
        assert!(
            !self
                .lines(name)
                .iter()
                .any(|line| line.contains("ringfence-") || line.contains(".journal")),
            "{name}: {}",
            self.0
        );
    }

    #[track_caller]
    fn has(&self, name: &str, seen: &str) {
        // Sentences go on in the next line.
        let words: Vec<&str> =
            self.lines(name).into_iter().flat_map(str::split_whitespace).collect();
        assert!(words.join(" ").contains(seen), "{name}: {seen}: {}", self.0);
    }
}

fn in_guest(test: &str, script: &str) -> Option<Said> {
    let testbed = or_skip(test)?;
    let program = Program::new(env!("CARGO_BIN_EXE_ringfence"), "ringfence").unwrap();
    let testbed = testbed.profile("disks").disk(64).time(900).copy(program.path());
    let output = testbed.run(&format!("{BEGIN}{script}\necho '== end'"));
    assert_eq!(output.code, 0, "{output}");
    Some(Said(output))
}

#[test]
fn limits_of_what_runs_already_are_set_in_its_own_group_and_gone_again() {
    let test = "limits_of_what_runs_already_are_set_in_its_own_group_and_gone_again";
    let script = r#"
file inherited 'cpuset = { busy = "1" }'
run inherited
echo 0-1 > $group/cpuset.cpus
echo "== given"
look | sed 's/^/after: /'
file cpuset 'cpuset = { busy = "1" }'
file weight 'cpu_weight = { busy = 10 }'
file quota 'set = { busy = { quota = "50%" } }'
file writes 'disk_write = { busy = "4MiB/s" }'
file duty 'frozen = { busy = "20%" }' 2 700ms
# Without the arm that freezes the group anyway: every pause is then one of the duty cycle.
sed -i '/^\[\[arm\]\]/{N;/alone/{N;d}}
/name = "beside"/,/baseline/{/baseline/d}
s/baseline = "alone"/baseline = "beside"/' duty.toml
for name in cpuset weight quota writes duty; do run $name; done
"#;
    let Some(said) = in_guest(test, script) else { return };
    said.has(
        "inherited",
        "/sys/fs/cgroup/busy/cpuset.cpus is empty, which the kernel does not accept",
    );
    said.is_as("before", "inherited");
    let limits = [
        ("cpuset", "seen: cpuset.cpus:1"),
        ("weight", "seen: cpu.weight:10"),
        ("quota", "seen: cpu.max:5000 10000"),
        // A limit that another process has set stays next to it.
        ("writes", "rbps=999999999 wbps=4194304 "),
        ("duty", "by cgroup.freeze of"),
    ];
    for (name, seen) in limits {
        said.has(name, "code 0");
        said.has(name, seen);
        // The group is frozen while the victim runs alone. The short pauses of a duty cycle can be
        // missed.
        if name != "duty" {
            said.has(name, "seen: cgroup.freeze:1");
            said.has(name, "seen: cgroup.freeze:0");
        }
        said.is_as("given", name);
        // It has not been moved, nor stopped by a signal.
        let moved =
            |line: &&&str| line.contains("group 0::") && !line.contains("0::/busy of some, state");
        let stopped = |line: &&&str| line.contains("state stopped");
        let lines = said.lines(name);
        assert!(!lines.iter().any(|line| moved(&line) || stopped(&line)), "{}", said.0);
    }
}

#[test]
fn what_runs_already_is_as_before_when_the_program_and_its_guardian_are_killed() {
    let test = "what_runs_already_is_as_before_when_the_program_and_its_guardian_are_killed";
    let script = r#"
echo 0-1 > $group/cpuset.cpus
echo "== given"
look | sed 's/^/after: /'
file cpuset 'cpuset = { busy = "1" }' 400
file writes 'disk_write = { busy = "4MiB/s" }' 400
file alone '' 400
killed() {
    ./ringfence run $1.toml --quiet --out /tmp/$1-$4 & pid=$!
    tries=0
    until grep -q "$3" $group/$2; do
        [ $tries -lt 2400 ] || { echo "$1 was never set"; exit 1; }
        sleep 0.05; tries=$((tries + 1))
    done
    case $4 in
        one) kill -KILL $pid ;;
        both)
            guardian=$(pidof ringfence-guardian); kill -STOP $guardian
            kill -KILL $pid $guardian ;;
    esac
    wait $pid
    if [ $4 = both ]; then ./ringfence restore; fi
    tries=0
    while ls /run/ringfence | grep -q journal && [ $tries -lt 1200 ]; do
        sleep 0.05; tries=$((tries + 1))
    done
    echo "== $1-$4"
    ls /run/ringfence | grep journal
    look | sed 's/^/after: /'
}
for who in one both; do
    killed cpuset cpuset.cpus '^1$' $who
    killed writes io.max wbps=4194304 $who
    killed alone cgroup.freeze 1 $who
done
"#;
    let Some(said) = in_guest(test, script) else { return };
    for who in ["one", "both"] {
        for limit in ["cpuset", "writes", "alone"] {
            said.is_as("given", &format!("{limit}-{who}"));
        }
    }
}
