//! Others change resctrl at the same time: two transactions, and programs that know of none.

use std::sync::mpsc;
use std::time::Duration;

use ringfence_resctrl::kernel::model::Hardware;
use ringfence_resctrl::transaction::{Pending, forget, recover, undo_kept, undo_named};
use ringfence_resctrl::{Error, GroupId, Mask, Mode, Resource, Step, Transaction};

use crate::world::*;

fn group(name: &str) -> GroupId {
    GroupId::control(name)
}

fn schemata(name: &str, text: &str) -> Step {
    let group = if name.is_empty() { GroupId::default() } else { group(name) };
    Step::Schemata { group, schemata: text.parse().unwrap() }
}

#[test]
fn the_second_is_refused_or_waits_and_sees_what_was_before() {
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    let mut first = Transaction::begin(&world.fs, "first", &world.options()).unwrap();
    first.apply(schemata("", "L3:0=ff")).unwrap();
    let refused = Transaction::begin(&world.fs, "second", &world.options()).err().unwrap();
    assert!(
        matches!(&refused, Error::Busy(text) if text.contains(&std::process::id().to_string())),
        "{refused}"
    );
    let mut patient = world.options();
    patient.wait = Duration::from_secs(60);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let fs = world.fs.clone();
        scope.spawn(move || {
            let mut second = Transaction::begin(&fs, "second", &patient).unwrap();
            tell.send(second.before().clone()).unwrap();
            second.apply(schemata("", "L3:0=f0")).unwrap();
            second.restore().unwrap();
        });
        assert!(told.recv_timeout(Duration::from_millis(200)).is_err(), "it waits");
        first.restore().unwrap();
        drop(first);
        assert_eq!(
            told.recv_timeout(Duration::from_secs(60)).unwrap(),
            before,
            "no update is lost"
        );
    });
    assert_eq!(world.state(), before);
}

#[test]
fn what_somebody_else_has_set_since_is_left_and_said() {
    let world =
        World::new(Hardware::broadwell(), &[Deed::Create(1), Deed::Create(2), Deed::Create(3)]);
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    for step in [
        schemata("", "L3:0=ff"),
        schemata("web", "L3:0=f00"),
        schemata("batch", "L3:0=f00"),
        Step::Create { group: group("own") },
    ] {
        change.apply(step).unwrap();
    }
    // Neither as it was nor as the transaction made it; gone; made anew; and something it never
    // touched.
    world.take(&schemata("", "L3:0=3f")).unwrap();
    world.take(&Step::Remove { group: group("web") }).unwrap();
    world.take(&schemata("db", "L3:0=3")).unwrap();
    world.take(&Step::Create { group: group("new") }).unwrap();
    let restored = change.restore().unwrap();
    assert_eq!(restored.left.len(), 2, "{:?}", restored.left);
    assert!(
        restored
            .left
            .iter()
            .any(|left| left == "L3:0 of default group is now 3f, was fffff before")
    );
    assert!(
        restored.left.iter().any(|left| left == "web, which had been changed, no longer exists")
    );
    let state = world.state();
    let mask = |id: &GroupId| state.groups[id].schemata.mask(&Resource::L3, 0).unwrap();
    assert_eq!(mask(&GroupId::default()), Mask(0x3f));
    assert_eq!(mask(&group("db")), Mask(0x3));
    assert_eq!(mask(&group("batch")), Mask(0xfffff));
    assert!(state.groups.contains_key(&group("new")));
    assert!(!state.groups.contains_key(&group("own")) && !state.groups.contains_key(&group("web")));
}

#[test]
fn a_group_that_somebody_else_made_under_our_name_stays() {
    let world = World::new(Hardware::broadwell(), &[]);
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    world.take(&Step::Create { group: group("own") }).unwrap();
    let refused = change.apply(Step::Create { group: group("own") }).unwrap_err();
    assert_eq!(refused.errno(), Some(libc::EEXIST), "{refused}");
    change.abandon();
    recover(&world.fs, &world.options()).unwrap().unwrap();
    assert!(world.fs.group(&group("own")).exists());
}

#[test]
fn a_thread_that_somebody_else_has_moved_stays_there() {
    let world = World::new(Hardware::broadwell(), &[Deed::Create(1), Deed::Create(2)]);
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(Step::Create { group: group("own") }).unwrap();
    assert_eq!(change.move_process(&group("own"), world.processes[0]).unwrap(), 2);
    world.fs.group(&group("db")).add_thread(world.processes[0]).unwrap();
    let restored = change.restore().unwrap();
    assert!(restored.left[0].contains("is now in db"), "{:?}", restored.left);
    assert!(world.threads()[&world.processes[0]].contains("db"));
}

#[test]
fn what_the_kernel_refuses_leaves_the_rest_to_be_put_back() {
    let world = World::new(Hardware::broadwell(), &[Deed::Create(1)]);
    let before = world.state();
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(schemata("", "L3:0=ff")).unwrap();
    for refused in [
        schemata("web", "L3:0=0"),
        schemata("web", "L3:0=5"),
        schemata("web", "L3:7=f"),
        Step::Mode { group: group("web"), mode: Mode::Exclusive },
        Step::Create { group: group("web") },
    ] {
        assert!(change.apply(refused.clone()).is_err(), "{refused}");
    }
    let somebody_elses = change.apply(Step::Remove { group: group("web") }).unwrap_err();
    assert!(matches!(somebody_elses, Error::Usage(_)), "{somebody_elses}");
    assert_eq!(change.restore().unwrap().left, [] as [String; 0]);
    assert_eq!(world.state(), before);
}

#[test]
fn dropping_puts_back_and_an_error_on_the_way_keeps_the_journal() {
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(schemata("", "L3:0=ff")).unwrap();
    change.apply(Step::Create { group: group("own") }).unwrap();
    drop(change);
    assert_eq!(world.state(), before);

    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(schemata("", "L3:0=ff")).unwrap();
    change.apply(Step::Create { group: group("own") }).unwrap();
    // The first thing on the way back fails; the other is done all the same.
    world.model.fail_at(0, libc::EIO);
    assert_eq!(change.restore().unwrap_err().errno(), Some(libc::EIO));
    drop(change);
    assert_eq!(world.state().groups[&GroupId::default()], before.groups[&GroupId::default()]);
    assert!(world.journal().exists());
    world.model.clear_hook();
    assert_eq!(recover(&world.fs, &world.options()).unwrap().unwrap().purpose, "a test");
    assert_eq!(world.state(), before);
    assert_eq!(recover(&world.fs, &world.options()).unwrap(), None);
}

#[test]
fn the_next_transaction_puts_back_what_a_killed_one_left() {
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    let mut killed = Transaction::begin(&world.fs, "killed", &world.options()).unwrap();
    killed.apply(schemata("", "L3:0=ff")).unwrap();
    killed.abandon();
    let mut next = Transaction::begin(&world.fs, "next", &world.options()).unwrap();
    assert_eq!(next.recovered().unwrap().purpose, "killed");
    assert_eq!(*next.before(), before);
    next.restore().unwrap();
}

#[test]
fn nothing_outlives_a_boot_and_what_cannot_be_put_back_can_be_forgotten() {
    let world = World::new(Hardware::broadwell(), &[]);
    let leave = || {
        let mut change = Transaction::begin(&world.fs, "left", &world.options()).unwrap();
        change.apply(schemata("", "L3:0=ff")).unwrap();
        change.abandon();
    };
    leave();
    world.model.reboot();
    assert_eq!(recover(&world.fs, &world.options()).unwrap(), None);
    assert!(!world.journal().exists());
    leave();
    assert!(forget(Pending::Unfinished, &world.options()).unwrap());
    assert!(!forget(Pending::Unfinished, &world.options()).unwrap());
    let left = &world.state().groups[&GroupId::default()].schemata;
    assert_eq!(left.mask(&Resource::L3, 0), Some(Mask(0xff)));
}

#[test]
fn what_is_kept_stays_until_it_is_undone() {
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    let mut change = Transaction::begin(&world.fs, "proved", &world.options()).unwrap();
    change.apply(schemata("", "L3:0=ff")).unwrap();
    change.keep().unwrap();
    let kept = world.state();
    assert_ne!(kept, before);
    // Other transactions take it as what is there.
    let mut other = Transaction::begin(&world.fs, "other", &world.options()).unwrap();
    other.apply(schemata("", "L3:0=f")).unwrap();
    other.restore().unwrap();
    drop(other);
    assert_eq!(world.state(), kept);
    assert!(world.folder.path().join("resctrl.kept").exists() && !world.journal().exists());
    let again =
        Transaction::begin(&world.fs, "again", &world.options()).unwrap().keep().unwrap_err();
    assert!(again.to_string().contains("undo"), "{again}");
    undo_kept(&world.fs, &world.options()).unwrap().unwrap();
    assert_eq!(world.state(), before);
}

#[test]
fn damaged_journals_are_said_and_a_line_cut_short_is_no_step() {
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    std::fs::write(world.journal(), "nonsense\n").unwrap();
    let refused = recover(&world.fs, &world.options()).unwrap_err();
    assert!(refused.to_string().contains("resctrl.journal"), "{refused}");
    assert!(Transaction::begin(&world.fs, "a test", &world.options()).is_err());
    std::fs::remove_file(world.journal()).unwrap();

    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(schemata("", "L3:0=ff")).unwrap();
    change.abandon();
    let mut text = std::fs::read_to_string(world.journal()).unwrap();
    text += "{\"do\":\"create\",\"gro";
    std::fs::write(world.journal(), text).unwrap();
    recover(&world.fs, &world.options()).unwrap().unwrap();
    assert_eq!(world.state(), before);
}

#[test]
fn what_was_kept_later_and_rests_on_it_is_put_back_first() {
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    let mut first = Transaction::begin(&world.fs, "the first", &world.options()).unwrap();
    first.apply(schemata("", "L3:0=ffffe")).unwrap();
    first.apply(Step::Create { group: group("hot") }).unwrap();
    first.keep_named("hot").unwrap();
    let mut second = Transaction::begin(&world.fs, "the second", &world.options()).unwrap();
    second.apply(schemata("", "L3:0=fffc0")).unwrap();
    second.keep().unwrap();
    let both = world.state();
    let refused = undo_named(&world.fs, "hot", &world.options()).unwrap_err();
    assert!(refused.to_string().contains("'the second' was kept after this"), "{refused}");
    assert_eq!(world.state(), both);
    undo_kept(&world.fs, &world.options()).unwrap().unwrap();
    undo_named(&world.fs, "hot", &world.options()).unwrap().unwrap();
    assert_eq!(world.state(), before);
}

#[test]
fn what_cannot_be_put_back_is_said_with_a_way_out() {
    let world = World::new(Hardware::broadwell(), &[]);
    let mut killed = Transaction::begin(&world.fs, "killed", &world.options()).unwrap();
    killed.apply(schemata("", "L3:0=ff0")).unwrap();
    killed.abandon();
    world.take(&Step::Create { group: group("web") }).unwrap();
    world.take(&schemata("web", "L3:0=f")).unwrap();
    world.take(&Step::Mode { group: group("web"), mode: Mode::Exclusive }).unwrap();
    let refused = Transaction::begin(&world.fs, "next", &world.options()).err().unwrap();
    assert_eq!(refused.status(), Some("Overlaps with exclusive group"));
    let text = refused.to_string();
    assert!(text.contains("the changes of 'killed'") && text.contains("resctrl forget"), "{text}");
    assert!(forget(Pending::Unfinished, &world.options()).unwrap());
    Transaction::begin(&world.fs, "next", &world.options()).unwrap().restore().unwrap();
}

#[test]
fn an_amount_next_to_ours_is_somebody_elses() {
    let world = World::new(Hardware::broadwell().with_mbps(), &[]);
    let amount =
        |world: &World| world.state().groups[&GroupId::default()].schemata.amount(&Resource::Mb, 0);
    let before = amount(&world);
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(schemata("", "MB:0=2000")).unwrap();
    world.take(&schemata("", "MB:0=2005")).unwrap();
    let restored = change.restore().unwrap();
    assert_eq!(amount(&world), Some(2005), "{restored:?}");
    assert_eq!(restored.left, ["MB:0 of default group is now 2005, was 4294967295 before"]);
    drop(change);
    // Ours goes back, be it no multiple of ten either.
    world.take(&schemata("", &format!("MB:0={}", before.unwrap()))).unwrap();
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(schemata("", "MB:0=2003")).unwrap();
    assert_eq!((change.restore().unwrap().left, amount(&world)), (vec![], before));
}

#[test]
fn an_amount_that_the_kernel_has_rounded_is_ours() {
    for hardware in [Hardware::broadwell(), Hardware::rounding_megabytes()] {
        let world = World::new(hardware, &[]);
        world.take(&schemata("", "MB:0=90")).unwrap();
        let before = world.state();
        let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
        change.apply(schemata("", "MB:0=45")).unwrap();
        let now = world.state().groups[&GroupId::default()].schemata.clone();
        assert_eq!(now.amount(&Resource::Mb, 0), Some(50));
        change.abandon();
        let restored = recover(&world.fs, &world.options()).unwrap().unwrap();
        assert!(restored.left.is_empty(), "{restored:?}");
        assert_eq!(world.state(), before);
    }
}
