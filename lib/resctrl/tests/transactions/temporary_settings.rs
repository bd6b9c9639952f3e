//! Temporary settings: in force while their program lives, in no other program's way, and restored.
//!
//! This program is no process of the model, so that the model takes it for one that has ended.

use ringfence_resctrl::kernel::model::Hardware;
use ringfence_resctrl::transaction::{Pending, forget, give_back, left, preview, recover};
use ringfence_resctrl::{GroupId, State, Step, Transaction};
use ringfence_system::root::FsRoot;

use crate::world::World;

fn group(name: &str) -> GroupId {
    GroupId::control(name)
}

// A process in a group of its own, from now on.
fn lend(world: &World, name: &str, process: usize) {
    let mut change = Transaction::begin(&world.fs, name, &world.options()).unwrap();
    change.apply(Step::Create { group: group(name) }).unwrap();
    let schemata = "L3:0=f".parse().unwrap();
    change.apply(Step::Schemata { group: group(name), schemata }).unwrap();
    change.move_process(&group(name), world.processes[process]).unwrap();
    change.lend(name).unwrap();
}

fn journals(world: &World) -> Vec<(Pending, Option<String>, bool)> {
    let all = left(&FsRoot::host(), Some(world.folder.path()));
    all.into_iter().map(|left| (left.what, left.name, left.under_way)).collect()
}

#[test]
fn what_is_given_back_is_as_before_with_what_was_born_there() {
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.threads();
    lend(&world, "own-a", 0);
    assert_eq!(journals(&world), [(Pending::Lent, Some("own-a".to_owned()), false)]);
    assert_eq!(world.fs.group(&group("own-a")).tasks().unwrap().len(), 2);
    assert_eq!(give_back(&world.fs, "own-b", &world.options()).unwrap(), None);
    let restored = give_back(&world.fs, "own-a", &world.options()).unwrap().unwrap();
    assert_eq!(restored.steps.last().unwrap().to_string(), "remove group own-a");
    assert_eq!((world.threads(), journals(&world)), (before, Vec::new()));
    assert!(give_back(&world.fs, "../own", &world.options()).is_err());
}

#[test]
fn what_a_program_was_killed_with_is_put_back_by_the_next() {
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    type Next = fn(&World);
    let begin: Next = |world| {
        let mut next = Transaction::begin(&world.fs, "next", &world.options()).unwrap();
        assert_eq!(next.recovered().unwrap().purpose, "own-a");
        assert!(!next.before().groups.contains_key(&group("own-a")));
        next.restore().unwrap();
    };
    let recovers: Next = |world| {
        let tried = preview(&world.fs, Pending::Unfinished, &world.options()).unwrap().unwrap();
        assert_eq!(recover(&world.fs, &world.options()).unwrap().unwrap().steps, tried.steps);
    };
    for next in [begin, recovers] {
        lend(&world, "own-a", 1);
        assert_ne!(world.state(), before);
        next(&world);
        assert_eq!(
            (State::read(&world.fs).unwrap(), journals(&world)),
            (before.clone(), Vec::new())
        );
    }
    lend(&world, "own-a", 1);
    assert!(forget(Pending::Unfinished, &world.options()).unwrap());
    assert!(world.fs.group(&group("own-a")).exists() && journals(&world).is_empty());
}
