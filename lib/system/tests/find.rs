//! What is found below a root, and what is refused: trees of files with control groups of version
//! 1, version 2 and both, with units of systemd and containers.

use std::path::Path;

use ringfence_system::attach::{Found, Method, Refusal, Source, Target, VITAL, find, usage};
use ringfence_system::fixture::FixtureTree;

const V1: &str = "cgroup /sys/fs/cgroup/cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
                  cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0\n\
                  cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,xattr,name=systemd 0 0\n";
const V2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate 0 0\n";
const BOTH: &str = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid,nsdelegate 0 0\n";

/// A machine on which this program is process 100, below a shell, below sshd.
struct Machine(FixtureTree);

impl Machine {
    fn new(mounts: &str) -> Self {
        let tree = FixtureTree::empty("attach");
        tree.write("/proc/self/mounts", mounts);
        let machine = Self(tree);
        machine.process(1, 0, "systemd").process(80, 1, "sshd").process(90, 80, "bash").process(
            100,
            90,
            "ringfence",
        );
        let own = std::fs::read_to_string(machine.0.root().path("/proc/100/stat")).unwrap();
        machine.0.write("/proc/self/stat", own).link("/proc/self/exe", "/usr/bin/ringfence");
        machine
    }

    fn process(&self, pid: u32, parent: u32, name: &str) -> &Self {
        let stat = format!(
            "{pid} ({}) S {parent} {pid} {pid} 0 -1 4194560 0 0 0 0 10 5 3 2 20 0 1 0 {} 0 0",
            &name[..name.len().min(15)],
            pid * 7
        );
        let folder = format!("/proc/{pid}");
        self.0.write(format!("{folder}/stat"), stat);
        self.0.write(format!("{folder}/task/{pid}/schedstat"), "170000000 5 6");
        let status =
            format!("Name:\tx\nNSpid:\t{pid}\nCpus_allowed_list:\t{}-{}\n", pid % 4, pid % 4 + 1);
        self.0.write(format!("{folder}/status"), status);
        // It leads nowhere, so that it is not seen to be there.
        let _ = std::fs::remove_file(self.0.root().path(format!("{folder}/exe")));
        self.0.link(format!("{folder}/exe"), format!("/usr/bin/{name}"));
        self
    }

    fn group(&self, folder: &str, pids: &[u32]) -> &Self {
        let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        self.0.write(format!("{folder}/cgroup.procs"), text);
        self
    }

    fn file(&self, path: impl AsRef<Path>, text: &str) -> &Self {
        self.0.write(path, text);
        self
    }

    fn find(&self, target: &str) -> Result<Found, Refusal> {
        find(&self.0.root(), &target.parse::<Target>().unwrap())
    }

    fn found(&self, target: &str) -> (Found, Vec<u32>, Vec<u32>) {
        let found = self.find(target).unwrap_or_else(|error| panic!("{target}: {error}"));
        let roots = found.roots.iter().map(|process| process.pid()).collect();
        let all = found.processes.iter().map(|process| process.pid()).collect();
        (found, roots, all)
    }

    fn refused(&self, target: &str) -> String {
        self.find(target).unwrap_err().to_string()
    }
}

#[test]
fn a_process_is_found_with_its_descendants_and_its_groups() {
    let machine = Machine::new(&format!("{BOTH}{V1}"));
    machine
        .process(200, 1, "server")
        .process(201, 200, "worker")
        .process(202, 201, "helper")
        .process(300, 1, "other");
    machine.file("/proc/200/cgroup", "3:cpu,cpuacct:/a\n2:freezer:/b\n1:name=systemd:/\n0::/c\n");
    machine.group("/sys/fs/cgroup/cpuacct/a", &[200, 201, 202, 300]);
    machine
        .group("/sys/fs/cgroup/freezer/b", &[200])
        .group("/sys/fs/cgroup/freezer/b/c", &[201, 202]);
    machine.file("/sys/fs/cgroup/freezer/b/freezer.state", "THAWED\n");
    machine.group("/sys/fs/cgroup/systemd", &[1, 80, 90, 100, 200, 201, 202, 300]);
    machine
        .group("/sys/fs/cgroup/unified/c", &[200, 201])
        .file("/sys/fs/cgroup/unified/c/cgroup.freeze", "0\n");
    let (found, roots, all) = machine.found("pid:200");
    assert_eq!((roots, all), (vec![200], vec![200, 201, 202]));
    let exact: Vec<(bool, bool)> =
        found.groups.iter().map(|group| (group.is_v2(), group.is_exact)).collect();
    assert_eq!(exact, [(true, false), (false, false), (false, true), (false, false)]);
    // The group of version 2 holds only a part of it, so that it cannot stand for it.
    assert_eq!(
        found.methods,
        [Method::V1Freezer("/sys/fs/cgroup/freezer/b".into()), Method::Signals]
    );
    assert_eq!(found.cpus.to_string(), "0-3");
    machine.group("/sys/fs/cgroup/freezer/b", &[200, 300]);
    assert_eq!(machine.found("pid:200").0.methods, [Method::Signals]);
    machine.group("/sys/fs/cgroup/unified/c", &[200, 201, 202]);
    let methods = machine.found("pid:200").0.methods;
    assert_eq!(methods, [Method::CgroupV2("/sys/fs/cgroup/unified/c".into()), Method::Signals]);
    assert!(machine.refused("pid:4444").contains("no running process"));
}

#[test]
fn a_group_is_found_by_either_path() {
    let machine = Machine::new(V1);
    machine.process(200, 1, "server").process(201, 200, "worker").process(202, 1, "worker");
    machine
        .group("/sys/fs/cgroup/freezer/job", &[200])
        .group("/sys/fs/cgroup/freezer/job/in/in", &[201]);
    machine.file("/sys/fs/cgroup/freezer/job/freezer.state", "THAWED\n");
    machine.group("/sys/fs/cgroup/cpuacct/job", &[202]).group("/sys/fs/cgroup/cpuacct", &[1]);
    let (found, roots, all) = machine.found("cgroup:/sys/fs/cgroup/freezer/job");
    assert_eq!((roots, all), (vec![200], vec![200, 201]));
    assert_eq!(found.methods.len(), 2);
    // By the path alone it is both groups, and neither holds all of it.
    let (found, roots, all) = machine.found("cgroup:/job");
    assert_eq!((roots, all), (vec![200, 202], vec![200, 201, 202]));
    assert_eq!(found.methods, [Method::Signals]);
    for target in ["cgroup:/", "cgroup:/sys/fs/cgroup/cpuacct"] {
        assert!(machine.refused(target).contains("contains the whole system"));
    }
    assert!(machine.refused("cgroup:/gone").contains("no control group has that path"));
    assert!(machine.refused("cgroup:/sys/fs/cgroup/freezer/gone").contains("no such folder"));
    machine.group("/sys/fs/cgroup/freezer/empty", &[]);
    assert!(machine.refused("cgroup:/empty").contains("no running process"));
    machine.group("/sys/fs/cgroup/freezer/job/in/in", &[0, 201]);
    assert!(machine.refused("cgroup:/job").contains("another PID namespace"));
}

#[test]
fn a_unit_is_found_by_its_name() {
    let machine = Machine::new(V2);
    machine
        .process(200, 1, "nginx")
        .process(201, 200, "nginx")
        .process(500, 1, "player")
        .process(600, 1, "nginx");
    machine.group("/sys/fs/cgroup/system.slice/nginx.service", &[200, 201]);
    machine.file("/sys/fs/cgroup/system.slice/nginx.service/cgroup.freeze", "0\n");
    let user =
        "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/player.service";
    machine.group(user, &[500]);
    // A container may have units of its own.
    let id = "c".repeat(64);
    machine.group(
        &format!("/sys/fs/cgroup/system.slice/docker-{id}.scope/system.slice/nginx.service"),
        &[600],
    );
    let (found, roots, all) = machine.found("unit:nginx");
    assert_eq!((roots, all), (vec![200], vec![200, 201]));
    let folder = Path::new("/sys/fs/cgroup/system.slice/nginx.service");
    assert_eq!((found.groups.len(), &*found.groups[0].folder), (1, folder));
    assert_eq!(found.methods[0], Method::CgroupV2(folder.into()));
    assert_eq!(machine.found("unit:player.service").2, [500]);
    machine.group(&user.replace("1000", "1001"), &[]);
    let error = machine.refused("unit:player");
    assert!(
        error.contains("cgroup:/user.slice/user-1000.slice/user@1000") && error.contains(" or "),
        "{error}"
    );
    assert!(machine.refused("unit:gone").contains("systemctl status"));
    let nothing = Machine::new("proc /proc proc rw 0 0\n");
    assert!(nothing.refused("unit:nginx").contains("no control groups are mounted"));
}

#[test]
fn a_container_is_found_by_the_beginning_of_its_id() {
    let (one, other) = (format!("ab{}", "1".repeat(62)), format!("ac{}", "2".repeat(62)));
    for (mounts, place) in [
        (V2, "/sys/fs/cgroup/system.slice/docker-ID.scope"),
        (V2, "/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/cri-containerd-ID.scope"),
        (V2, "/sys/fs/cgroup/machine.slice/libpod-ID.scope"),
        (V1, "/sys/fs/cgroup/freezer/docker/ID"),
    ] {
        let machine = Machine::new(mounts);
        machine.process(200, 1, "init").process(201, 200, "sshd").process(300, 1, "server");
        machine
            .group(&place.replace("ID", &one), &[200, 201])
            .group(&place.replace("ID", &other), &[300]);
        // Of its own PID namespace: this system does not depend on them.
        let inside = |pid: u32, there: u32| {
            machine.file(
                format!("/proc/{pid}/status"),
                &format!("NSpid:\t{pid}\t{there}\nCpus_allowed_list:\t0\n"),
            );
        };
        assert!(machine.refused("container:ab").contains("process 200 (init)"));
        inside(200, 1);
        inside(201, 2);
        let (_, roots, all) = machine.found("container:ab");
        assert_eq!((roots, all), (vec![200], vec![200, 201]), "{place}");
        assert_eq!(machine.found(&format!("container:{one}")).2, [200, 201]);
        let error = machine.refused("container:a");
        assert!(error.contains(&one) && error.contains(&other), "{error}");
        assert!(machine.refused("container:d").contains("no control group of Docker"));
    }
}

#[test]
fn what_the_system_depends_on_is_refused_however_it_is_named() {
    let machine = Machine::new(V2);
    machine.process(2, 0, "kthreadd").process(200, 1, "server");
    let kernel = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 10 5 3 2 20 0 1 0 1 0 0";
    machine.file("/proc/2/stat", kernel);
    machine.process(210, 1, "ringfence");
    for (pid, part) in [
        (1, "process 1"),
        (2, "a thread of the kernel"),
        (80, "this program runs below it"),
        (90, "this program runs below it"),
        (100, "this program itself"),
        (210, "another process of this program"),
    ] {
        let error = machine.refused(&format!("pid:{pid}"));
        assert!(error.contains(part), "{error}");
        machine.group("/sys/fs/cgroup/job", &[pid, 200]);
        assert_eq!(
            machine.refused("cgroup:/job"),
            error.replace(&format!("pid:{pid} "), "cgroup:/job ")
        );
    }
    for (names, why) in VITAL {
        for name in names {
            let name = name.replace('*', "-x");
            machine.process(300, 1, &name).process(301, 200, &name);
            let error = machine.refused("pid:300");
            assert!(error.contains("process 300 (") && error.contains(why), "{error}");
            // Anywhere below what was named.
            assert!(machine.refused("pid:200").contains("process 301 ("));
            machine.0.remove("/proc/301");
            machine.group("/sys/fs/cgroup/system.slice/a.service/below", &[300]);
            assert!(machine.refused("unit:a").contains(why));
        }
    }
    machine.process(300, 1, "server");
    assert_eq!(machine.found("unit:a").2, [300]);
}

#[test]
fn whoever_reads_what_we_write_is_refused() {
    let machine = Machine::new(V2);
    machine
        .process(200, 90, "tee")
        .process(201, 90, "less")
        .process(202, 90, "other")
        .process(203, 1, "terminal");
    machine.process(204, 100, "child");
    let open = |pid: u32, fd: u32, link: &str, info: &str| {
        machine.0.link(format!("/proc/{pid}/fd/{fd}"), link);
        machine.file(format!("/proc/{pid}/fdinfo/{fd}"), info);
    };
    let (reads, writes) = ("pos:\t0\nflags:\t0100000\n", "pos:\t0\nflags:\t0100001\n");
    open(100, 1, "/pipe:[7]", writes);
    open(100, 2, "/dev/pts/3", "flags:\t02\n");
    open(200, 0, "/pipe:[7]", reads);
    open(200, 1, "/pipe:[8]", writes);
    open(201, 0, "/pipe:[8]", reads);
    open(202, 0, "/pipe:[9]", reads);
    open(203, 9, "/dev/ptmx", "flags:\t02\ntty-index:\t3\n");
    // What this program has started writes there too.
    open(204, 1, "/pipe:[7]", writes);
    for pid in [200, 201, 203] {
        let error = machine.refused(&format!("pid:{pid}"));
        assert!(error.contains("reads what this program writes"), "{error}");
    }
    assert_eq!((machine.found("pid:202").2, machine.found("pid:204").2), (vec![202], vec![204]));
}

#[test]
fn whoever_reads_what_we_write_through_a_pipe_with_a_path_is_refused() {
    let machine = Machine::new(V2);
    machine.process(200, 1, "logger").process(201, 1, "other").process(202, 1, "tail");
    let folder = std::env::temp_dir().join(format!("ringfence-pipes-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let paths = ["pipe", "same", "file"].map(|name| folder.join(name));
    let made = std::process::Command::new("mkfifo").arg(&paths[0]).status().unwrap();
    std::fs::hard_link(&paths[0], &paths[1]).unwrap();
    std::fs::write(&paths[2], "").unwrap();
    let open = |pid: u32, fd: u32, path: &std::path::Path, flags: &str| {
        let link = machine.0.root().path(format!("/proc/{pid}/fd/{fd}"));
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(path, link).unwrap();
        machine.file(format!("/proc/{pid}/fdinfo/{fd}"), &format!("pos:\t0\nflags:\t{flags}\n"));
    };
    // By another name, and both ways.
    open(100, 1, &paths[0], "0100001");
    open(100, 2, &paths[2], "0100001");
    open(200, 0, &paths[1], "0100002");
    open(201, 1, &paths[0], "0100001");
    open(202, 0, &paths[2], "0100000");
    let error = machine.refused("pid:200");
    let found = [201, 202].map(|pid| machine.found(&format!("pid:{pid}")).2);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(made.success() && error.contains("reads what this program writes"), "{error}");
    assert_eq!(found, [vec![201], vec![202]]);
}

#[test]
fn what_it_used_is_counted_where_it_is_exact() {
    let machine =
        Machine::new(&format!("{BOTH}{V1}cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n"));
    machine.process(200, 1, "server").process(201, 200, "worker");
    machine.file("/proc/200/io", "rchar: 9\nread_bytes: 4096\nwrite_bytes: 100\n");
    machine.file("/proc/201/io", "rchar: 9\nread_bytes: 4096\nwrite_bytes: 11\n");
    let root = machine.0.root();
    let used = usage(&root, &mut machine.found("pid:200").0);
    // 170 ms of threads that live, more than 15 ticks, and 5 of children each.
    assert_eq!((used.cpu.as_millis(), used.cpu_from), (440, Source::Processes));
    assert_eq!(used.io, Some((8192, 111, Source::Processes)));
    machine.group("/sys/fs/cgroup/cpuacct/job", &[200, 201]);
    machine.file("/sys/fs/cgroup/cpuacct/job/cpuacct.usage", "7000000\n");
    machine.group("/sys/fs/cgroup/blkio/job", &[200, 201]);
    machine.file(
        "/sys/fs/cgroup/blkio/job/blkio.throttle.io_service_bytes_recursive",
        "8:0 Read 10\n8:0 Write 20\n8:16 Read 1\nTotal 31\n",
    );
    let used = usage(&root, &mut machine.found("cgroup:/job").0);
    assert_eq!((used.cpu.as_millis(), used.cpu_from), (7, Source::CgroupV1));
    assert_eq!(used.io, Some((11, 20, Source::CgroupV1)));
    machine.group("/sys/fs/cgroup/unified/job", &[200, 201]);
    machine.file("/sys/fs/cgroup/unified/job/cpu.stat", "usage_usec 5000\nuser_usec 1\n");
    machine.file(
        "/sys/fs/cgroup/unified/job/io.stat",
        "8:0 rbytes=3 wbytes=4 rios=1\n8:16 rbytes=1 wbytes=0\n",
    );
    let used = usage(&root, &mut machine.found("cgroup:/job").0);
    assert_eq!((used.cpu.as_millis(), used.cpu_from), (5, Source::CgroupV2));
    assert_eq!(used.io, Some((4, 4, Source::CgroupV2)));
}
