//! What the model has beside the kernel: hooks, its lock, its clock.

use super::*;
use std::sync::mpsc;

#[test]
fn counters_rise_or_say_why_not() {
    let bench = Bench::new(Hardware::cascade_lake());
    let group = bench.make("a");
    let first = group.monitored().unwrap();
    let second = group.monitored().unwrap();
    assert_eq!(first.len(), 6);
    for (before, after) in
        first.iter().zip(&second).filter(|(before, _)| before.event != "llc_occupancy")
    {
        assert!(after.value.bytes() > before.value.bytes());
    }
    bench.model.set_reading("a", 1, "mbm_local_bytes", "Unavailable");
    let third = group.monitored().unwrap();
    assert_eq!(third.iter().filter(|reading| reading.value.bytes().is_none()).count(), 1);
}

#[test]
fn the_lock_is_held_once_or_shared() {
    let model = Model::new(Hardware::broadwell());
    let shared = model.try_lock(false).unwrap().unwrap();
    let second = model.try_lock(false).unwrap().unwrap();
    assert!(model.try_lock(true).unwrap().is_none());
    drop((shared, second));
    let exclusive = model.try_lock(true).unwrap().unwrap();
    assert!(model.try_lock(false).unwrap().is_none());
    drop(exclusive);
    assert!(model.try_lock(true).unwrap().is_some());
}

#[test]
fn hooks_play_faults_and_others() {
    let bench = Bench::new(Hardware::broadwell());
    bench.model.fail_at(1, EIO);
    let group = bench.make("a");
    assert_eq!(set(&group, "L3:0=f").unwrap_err().errno(), Some(EIO));
    set(&group, "L3:0=f0").unwrap();
    let other = bench.model.clone();
    bench.model.before(0, move || {
        other.write(Path::new("a/schemata"), "L3:0=f00\n").unwrap();
    });
    group.set_mode(Mode::Shareable).unwrap();
    assert_eq!(group.schemata().unwrap().mask(&Resource::L3, 0), Some(Mask(0xf00)));
    // A hook that panics plays SIGKILL: nothing was done, and the model goes on.
    bench.model.before(0, || panic!("killed"));
    let removed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| group.remove()));
    assert!(removed.is_err() && group.exists());
    group.remove().unwrap();
    let (send, seen) = mpsc::channel();
    bench.model.set_hook(move |operation| {
        send.send(operation.clone()).unwrap();
        Fate::Goes
    });
    bench.make("b");
    bench.model.clear_hook();
    assert!(seen.iter().any(|operation| operation == Operation::MakeDir("b".into())));
}

#[test]
fn a_reboot_forgets() {
    let bench = Bench::new(Hardware::broadwell());
    bench.make("a");
    let (pid, boot) = (bench.model.spawn(), bench.model.boot_id());
    bench.model.reboot();
    assert!(!bench.group("a").exists() && bench.model.started(pid).is_none());
    assert_ne!(bench.model.boot_id(), boot);
    assert_eq!(bench.fs.groups().unwrap().len(), 1);
    assert!(bench.fs.default_group().id() == &GroupId::default());
}
