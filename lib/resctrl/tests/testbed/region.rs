//! What only a real kernel does: mapping, measuring, mounting.

use libc::EINVAL;
use ringfence_resctrl::pseudo::{Mapped, Measured, Support, What, measure, support};
use ringfence_resctrl::{Absent, Error, Group, Mode, MountOptions, Resctrl};
use ringfence_system::root::FsRoot;

use crate::env::{Env, refused, set};

fn locked(env: &dyn Env) -> Group {
    set(&env.group(""), "L3:0=fff00").unwrap();
    let group = env.make("lock");
    group.set_mode(Mode::PseudoLocksetup).unwrap();
    set(&group, "L3:0=3").unwrap();
    group
}

fn unlocked(env: &dyn Env, group: &Group) {
    group.remove().unwrap();
    set(&env.group(""), "L3:0=fffff").unwrap();
}

pub fn a_region_is_mapped_from_its_own_cpus(env: &dyn Env) {
    assert_eq!(support(&FsRoot::host()), Support::Can("Broadwell-X"));
    let group = locked(env);
    // Both CPUs of this machine are below the cache.
    let mapped = Mapped::open(&group).unwrap();
    assert_eq!(mapped.len(), 2 << 20);
    for offset in (0..mapped.len()).step_by(4096) {
        // SAFETY: within the mapping, which nothing else uses.
        unsafe {
            let byte = mapped.as_ptr().add(offset);
            assert_eq!(byte.read_volatile(), 0);
            byte.write_volatile(0xa5);
            assert_eq!(byte.read_volatile(), 0xa5);
        }
    }
    drop(mapped);
    // Mapped again, it is empty.
    let mapped = Mapped::open(&group).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { mapped.as_ptr().read_volatile() }, 0);
    drop(mapped);
    unlocked(env, &group);
}

pub fn a_region_in_use_is_not_removed(env: &dyn Env) {
    let group = locked(env);
    let mapped = Mapped::open(&group).unwrap();
    let error = group.remove().unwrap_err();
    let (text, pid) = (error.to_string(), std::process::id());
    assert!(
        matches!(error, Error::Busy(_)) && text.contains(&format!("in use by process {pid}")),
        "{text}"
    );
    assert!(group.exists());
    assert!(env.fs().unmount().unwrap_err().to_string().contains("in use by process"));
    drop(mapped);
    unlocked(env, &group);
}

pub fn a_region_is_measured(env: &dyn Env) {
    let group = locked(env);
    match measure(&FsRoot::host(), &group, What::Latency).unwrap() {
        // Times of an emulated processor mean nothing; that there is one for each read does.
        Measured::Latency(cycles) => assert_eq!(cycles.len(), (2 << 20) / 32),
        other => panic!("{other:?}"),
    }
    // The guest's performance counters do not count.
    let why = measure(&FsRoot::host(), &group, What::L3).unwrap_err().to_string();
    assert!(why.contains("counted nothing"), "{why}");
    assert_eq!(std::fs::read_dir("/sys/kernel/debug/tracing/instances").unwrap().count(), 0);
    unlocked(env, &group);
}

pub fn no_hardware() {
    assert_eq!(Resctrl::find(&FsRoot::host()).unwrap_err(), Absent::NoHardware);
    assert!(
        matches!(support(&FsRoot::host()), Support::Cannot(why) if why.starts_with("no region can \
            be locked"))
    );
    assert!(Resctrl::mount(MountOptions::default()).is_err());
}

pub fn options_that_the_machine_lacks() {
    assert_eq!(Resctrl::find(&FsRoot::host()).unwrap_err(), Absent::NotMounted);
    for options in [
        MountOptions { mba_mbps: true, ..MountOptions::default() },
        MountOptions { cdpl2: true, ..MountOptions::default() },
    ] {
        let tried = if options.mba_mbps { "with mba_MBps" } else { "with cdpl2" };
        refused(
            Resctrl::mount(options),
            tried,
            EINVAL,
            "",
            "this machine does not support an option",
        );
    }
    assert_eq!(Resctrl::find(&FsRoot::host()).unwrap_err(), Absent::NotMounted);
}

pub fn mounted_and_unmounted() {
    let options = MountOptions { cdp: true, ..MountOptions::default() };
    let fs = Resctrl::mount(options).unwrap();
    assert_eq!((fs.options(), fs.place().as_str()), (options, "/sys/fs/resctrl"));
    assert!(fs.info().unwrap().cdp(3));
    let open = std::fs::File::open("/sys/fs/resctrl/schemata").unwrap();
    let busy = fs.clone().unmount();
    refused(
        busy,
        "unmounting /sys/fs/resctrl",
        libc::EBUSY,
        "",
        "has a file of /sys/fs/resctrl open",
    );
    drop(open);
    fs.unmount().unwrap();
    assert_eq!(Resctrl::find(&FsRoot::host()).unwrap_err(), Absent::NotMounted);
}

pub fn not_mounted_by_a_user() {
    // SAFETY: it takes no pointer; the other threads of the test harness wait.
    assert_eq!(unsafe { libc::seteuid(65534) }, 0);
    let mounted = Resctrl::mount(MountOptions::default());
    // SAFETY: as above.
    assert_eq!(unsafe { libc::seteuid(0) }, 0);
    refused(mounted, "mounting resctrl at /sys/fs/resctrl", libc::EPERM, "", "run as root");
}
