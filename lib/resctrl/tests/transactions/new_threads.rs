//! Threads that begin while a transaction is under way, and outlive their parents.

use ringfence_resctrl::kernel::model::Hardware;
use ringfence_resctrl::transaction::recover;
use ringfence_resctrl::{GroupId, Step, Transaction};

use crate::world::*;

fn group(name: &str) -> GroupId {
    GroupId::control(name)
}

fn in_web() -> World {
    World::new(Hardware::broadwell(), &[Deed::Create(1), Deed::Move(1, 0)])
}

#[test]
fn whoever_outlives_its_parents_goes_where_they_came_from_and_is_told() {
    let world = in_web();
    let parent = world.processes[0];
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(Step::Create { group: group("own") }).unwrap();
    change.move_process(&group("own"), parent).unwrap();
    let daemon = world.model.fork(world.model.fork(parent));
    world.model.end(world.fs.kernel().process_and_parent(daemon).unwrap().1);
    world.model.end(parent);
    let restored = change.restore().unwrap();
    assert!(world.threads()[&daemon].contains("web"), "{:?}", world.threads());
    assert_eq!(restored.left, [] as [String; 0]);
    assert_eq!(restored.notes.len(), 1, "{:?}", restored.notes);
    assert!(
        restored.notes[0].contains("1 thread of own outlived the processes that started"),
        "{:?}",
        restored.notes
    );
    assert!(restored.notes[0].ends_with("it goes to web"), "{:?}", restored.notes);
}

#[test]
fn where_it_may_have_come_from_two_groups_it_goes_to_the_default_one_and_is_told() {
    let world = in_web();
    let (parent, other) = (world.processes[0], world.processes[1]);
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(Step::Create { group: group("own") }).unwrap();
    change.move_process(&group("own"), parent).unwrap();
    change.move_process(&group("own"), other).unwrap();
    let (daemon, child) = (world.model.fork(parent), world.model.fork(other));
    world.model.end(parent);
    let restored = change.restore().unwrap();
    assert!(world.threads()[&daemon].contains("default group"), "{:?}", world.threads());
    assert!(world.threads()[&child].contains("default group"), "{:?}", world.threads());
    // The one whose parent lives is where that is: nothing is to be said of it.
    assert_eq!(restored.notes.len(), 1, "{:?}", restored.notes);
    assert!(
        restored.notes[0].starts_with("1 thread of own")
            && restored.notes[0].contains("default group")
    );
}

#[test]
fn what_began_after_the_beginning_goes_back_to_where_it_was_moved_from() {
    for killed in [false, true] {
        let world = in_web();
        let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
        change.apply(Step::Create { group: group("own") }).unwrap();
        let child = world.model.fork(world.processes[0]);
        world.model.end(world.processes[0]);
        change.move_process(&group("own"), child).unwrap();
        if killed {
            change.abandon();
            recover(&world.fs, &world.options()).unwrap().unwrap();
        } else {
            change.restore().unwrap();
        }
        assert!(world.threads()[&child].contains("web"), "{:?}", world.threads());
    }
}
