//! Groups and mounts that have the names of those that a journal is about, and are others.

use ringfence_resctrl::kernel::model::Hardware;
use ringfence_resctrl::transaction::recover;
use ringfence_resctrl::{Absent, Error, GroupId, Mask, Resource, Step, Transaction};

use crate::world::*;

fn group(name: &str) -> GroupId {
    GroupId::control(name)
}

fn schemata(name: &str, text: &str) -> Step {
    let group = if name.is_empty() { GroupId::default() } else { group(name) };
    Step::Schemata { group, schemata: text.parse().unwrap() }
}

fn changed(world: &World) -> Transaction {
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(schemata("", "L3:0=ff")).unwrap();
    change.apply(Step::Create { group: group("own") }).unwrap();
    change.apply(schemata("own", "L3:0=f00")).unwrap();
    change
}

#[test]
fn nothing_outlives_an_unmount() {
    let world = World::new(Hardware::broadwell(), &[]);
    changed(&world).abandon();
    world.model.remount();
    // Another process sets just what the transaction had set.
    world.take(&schemata("", "L3:0=ff")).unwrap();
    world.take(&Step::Create { group: group("own") }).unwrap();
    world.take(&schemata("own", "L3:0=f00")).unwrap();
    let theirs = world.state();
    assert_eq!(recover(&world.fs, &world.options()).unwrap(), None);
    assert_eq!(world.state(), theirs);
    assert!(!world.journal().exists());
}

#[test]
fn a_transaction_whose_resctrl_was_unmounted_ends_without_touching_the_next() {
    let world = World::new(Hardware::broadwell(), &[]);
    let mut change = changed(&world);
    world.model.remount();
    world.take(&Step::Create { group: group("own") }).unwrap();
    for refused in [change.apply(schemata("", "L3:0=f")), change.restore().map(|_| ())] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("an earlier mount of resctrl"), "{text}");
    }
    drop(change);
    assert!(world.fs.group(&group("own")).exists());
    let left = &world.state().groups[&GroupId::default()].schemata;
    assert_eq!(left.mask(&Resource::L3, 0), Some(Mask(0xfffff)));
}

#[test]
fn a_group_that_was_made_anew_is_somebody_elses() {
    for monitored in [false, true] {
        let world = World::new(Hardware::broadwell(), &[Deed::Create(1)]);
        let mut change = changed(&world);
        change.apply(schemata("web", "L3:0=f000")).unwrap();
        for name in ["own", "web"] {
            world.take(&Step::Remove { group: group(name) }).unwrap();
            world.take(&Step::Create { group: group(name) }).unwrap();
        }
        // The very mask that the transaction had written.
        world.take(&schemata("web", "L3:0=f000")).unwrap();
        world.fs.group(&group("own")).add_thread(world.processes[0]).unwrap();
        if monitored {
            world.take(&Step::Create { group: group("own").with_monitor("m") }).unwrap();
        }
        let restored = change.restore().unwrap();
        let said = |name: &str| {
            restored.left.iter().any(|left| left.starts_with(&format!("{name} is now another")))
        };
        assert!(said("own") && said("web"), "{:?}", restored.left);
        assert!(world.threads()[&world.processes[0]].contains("own"));
        assert_eq!(
            world.state().groups[&group("web")].schemata.mask(&Resource::L3, 0),
            Some(Mask(0xf000))
        );
    }
}

// Killed before it noted the group's inode: the group carries the mark, and is untouched.
#[test]
fn killed_between_making_a_group_and_noting_it() {
    let killed = |world: &World| {
        quietly();
        // Read, Begun, Noted, Taken: the fourth.
        let (options, _) = world.options_dying_at(3);
        let mut begun = None;
        assert!(until_killed(|| {
            let change = begun.insert(Transaction::begin(&world.fs, "a test", &options).unwrap());
            change.apply(Step::Create { group: group("own") }).unwrap();
        }));
        begun.unwrap().abandon();
    };
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    killed(&world);
    assert!(world.fs.group(&group("own")).exists());
    recover(&world.fs, &world.options()).unwrap().unwrap();
    assert_eq!(world.state(), before);

    let world = World::new(Hardware::broadwell(), &[]);
    killed(&world);
    world.fs.group(&group("own")).add_thread(world.processes[0]).unwrap();
    let restored = recover(&world.fs, &world.options()).unwrap().unwrap();
    assert!(restored.left[0].starts_with("own is now another group"), "{:?}", restored.left);
    assert!(world.fs.group(&group("own")).exists());
}

// Killed after its journal had noted a name and before it made the group; then another process
// makes one.
#[test]
fn a_group_of_others_under_a_name_that_was_noted_stays() {
    quietly();
    for name in ["own", "web/mon_groups/m"] {
        let id: GroupId = name.parse().unwrap();
        let world = World::new(Hardware::broadwell(), &[Deed::Create(1)]);
        // Read, Begun, Noted: the third.
        let (options, _) = world.options_dying_at(2);
        let mut begun = None;
        assert!(until_killed(|| {
            let change = begun.insert(Transaction::begin(&world.fs, "a test", &options).unwrap());
            change.apply(Step::Create { group: id.clone() }).unwrap();
        }));
        begun.unwrap().abandon();
        assert!(!world.fs.group(&id).exists());
        world.take(&Step::Create { group: id.clone() }).unwrap();
        let theirs = world.state();
        let restored = recover(&world.fs, &world.options()).unwrap().unwrap();
        assert!(restored.steps.is_empty(), "{:?}", restored.steps);
        assert!(
            restored.left[0].starts_with(&format!("{name} is now another group")),
            "{:?}",
            restored.left
        );
        assert_eq!(world.state(), theirs);
        assert!(!world.journal().exists());
    }
}

#[test]
fn groups_of_transactions_lose_their_mark_once_they_are_noted() {
    let world = World::new(Hardware::broadwell(), &[]);
    let change = changed(&world);
    assert!(!world.fs.kernel().is_marked("own".as_ref()).unwrap());
    drop(change);
}

#[test]
fn what_is_mounted_over_it_is_not_it() {
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    let mut change = changed(&world);
    world.model.cover(true);
    let covered =
        |error: Error| assert!(matches!(&error, Error::Absent(Absent::Covered(_))), "{error}");
    covered(change.apply(schemata("", "L3:0=f")).unwrap_err());
    covered(change.restore().unwrap_err());
    drop(change);
    covered(recover(&world.fs, &world.options()).unwrap_err());
    covered(Transaction::begin(&world.fs, "next", &world.options()).err().unwrap());
    world.model.cover(false);
    recover(&world.fs, &world.options()).unwrap().unwrap();
    assert_eq!(world.state(), before);
}
