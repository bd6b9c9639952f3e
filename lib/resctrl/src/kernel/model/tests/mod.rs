//! The model against the sources' rules, through the library that it stands in for.

mod hooks;
mod locking;
mod masks;
mod tasks;

use libc::{E2BIG, EACCES, EBUSY, EEXIST, EINVAL, EIO, ENOENT, ENOMEM, ENOSPC, EPERM, ESRCH};
use ringfence_system::cpulist::CpuSet;

use super::*;
use crate::error::Error;
use crate::group::Group;
use crate::id::GroupId;
use crate::mode::Mode;
use crate::schemata::{Mask, Resource, Schemata};

struct Bench {
    model: Model,
    fs: Resctrl,
}

impl Bench {
    fn new(hardware: Hardware) -> Self {
        let model = Model::new(hardware);
        Self { fs: model.resctrl(), model }
    }

    fn group(&self, path: &str) -> Group {
        self.fs.group(&path.parse().unwrap())
    }

    fn make(&self, path: &str) -> Group {
        let group = self.group(path);
        group.create().unwrap();
        group
    }

    fn schemata(&self, path: &str) -> String {
        self.model.read(&Path::new(path).join("schemata")).unwrap()
    }

    /// Writes as a shell would; the errno and the whole status.
    fn write(&self, path: &str, text: &str) -> Result<(), (i32, String)> {
        let written = self.model.write(Path::new(path), text);
        written.map_err(|error| (error.source.raw_os_error().unwrap(), self.status()))
    }

    fn status(&self) -> String {
        self.model.read(Path::new("info/last_cmd_status")).unwrap()
    }
}

fn set(group: &Group, text: &str) -> Result<(), Error> {
    group.set_schemata(&text.parse::<Schemata>().unwrap())
}

/// What a user is told: the errno and the kernel's words.
#[track_caller]
fn refused<T>(result: Result<T, Error>, errno: i32, words: &str) {
    let error = result.err().expect("it is refused");
    assert_eq!(
        (error.errno(), error.status().unwrap_or_default()),
        (Some(errno), words),
        "{error}"
    );
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

#[test]
fn files_look_like_the_kernels() {
    let bench = Bench::new(Hardware::broadwell());
    assert_eq!(bench.schemata(""), "MB:0=  100\nL3:0=fffff\n");
    assert_eq!(bench.model.read(Path::new("size")).unwrap(), "MB:0=100\nL3:0=20971520\n");
    assert_eq!(bench.model.read(Path::new("cpus")).unwrap(), "f\n");
    assert_eq!(bench.model.dirs(Path::new("")).unwrap(), ["info", "mon_data", "mon_groups"]);
    let cdp = Bench::new(Hardware::broadwell().with_cdp());
    let text = "    MB:0=  100\nL3DATA:0=fffff\nL3CODE:0=fffff\n";
    assert_eq!(cdp.schemata(""), text);
    assert_eq!(cdp.fs.info().unwrap().num_closids(), Some(8));
    let goldmont = Bench::new(Hardware::goldmont());
    assert_eq!(goldmont.schemata(""), "L2:0=ff;1=ff\n");
    assert_eq!(goldmont.model.dirs(Path::new("")).unwrap(), ["info"]);
}

#[test]
fn numbers_run_out() {
    let bench = Bench::new(Hardware::broadwell());
    for n in 1..8 {
        bench.make(&format!("g{n}"));
    }
    refused(bench.group("more").create(), ENOSPC, "Out of CLOSIDs");
    refused(bench.group("more").create(), ENOSPC, "Out of CLOSIDs");
    // The status was added to, twice.
    assert_eq!(bench.status(), "Out of CLOSIDs\nOut of CLOSIDs\n");
    for n in 8..32 {
        bench.make(&format!("mon_groups/m{n}"));
    }
    refused(bench.group("mon_groups/more").create(), ENOSPC, "Out of RMIDs");
    // The number for monitoring is asked for first.
    refused(bench.group("more").create(), ENOSPC, "Out of RMIDs");
    bench.model.set_limbo(true);
    bench.group("g1").remove().unwrap();
    refused(bench.group("more").create(), EBUSY, "Out of RMIDs");
    bench.model.drain_limbo();
    bench.make("more");
    refused(bench.group("more").create(), EEXIST, "");
}

#[test]
fn the_status_takes_512_bytes() {
    let bench = Bench::new(Hardware::broadwell());
    (1..8).for_each(|n| drop(bench.make(&format!("g{n}"))));
    for _ in 0..60 {
        refused(bench.group("more").create(), ENOSPC, "Out of CLOSIDs");
    }
    assert!(bench.status().len() < 512);
}

#[test]
fn folders_that_are_no_groups() {
    let bench = Bench::new(Hardware::broadwell());
    bench.make("a");
    let errno = |result: io::Result<()>| result.unwrap_err().raw_os_error().unwrap();
    for (path, expected) in [
        ("a/b", EPERM),
        ("a/mon_groups/mon_groups", EPERM),
        ("info/x", EPERM),
        ("x/y", ENOENT),
        ("a", EEXIST),
        ("info", EEXIST),
        ("x\ny", EINVAL),
    ] {
        assert_eq!(errno(bench.model.make_dir(Path::new(path))), expected, "{path}");
    }
    for (path, expected) in [
        ("", EBUSY),
        ("info", EPERM),
        ("mon_groups", EPERM),
        ("a/mon_data", EPERM),
        ("a/mon_data/mon_L3_00", EPERM),
        ("x", ENOENT),
    ] {
        assert_eq!(errno(bench.model.remove_dir(Path::new(path))), expected, "{path}");
    }
}
