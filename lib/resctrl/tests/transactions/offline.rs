//! CPUs and caches that are offline when everything is to be put back.

use ringfence_resctrl::kernel::model::Hardware;
use ringfence_resctrl::transaction::{Pending, forget, preview, recover};
use ringfence_resctrl::{GroupId, Mask, Resource, Step, Transaction};

use crate::world::*;

fn web() -> GroupId {
    GroupId::control("web")
}

fn own() -> GroupId {
    GroupId::control("own")
}

fn schemata(group: GroupId, text: &str) -> Step {
    Step::Schemata { group, schemata: text.parse().unwrap() }
}

fn waiting(world: &World) -> bool {
    world.folder.path().join("resctrl.waiting-1").exists()
}

// The second of two caches, with the CPUs 4 to 7.
fn second_cache(world: &World, online: bool) {
    (4..8).for_each(|cpu| world.model.set_online(cpu, online));
}

fn web_in(world: &World, domain: u32) -> Option<Mask> {
    world.state().groups[&web()].schemata.mask(&Resource::L3, domain)
}

#[test]
fn the_mask_of_a_cache_waits_until_it_is_there() {
    let world = World::new(Hardware::cascade_lake(), &[Deed::Create(1), Deed::Mask(1, 1, 4, 4)]);
    let before = world.state();
    let mut killed = Transaction::begin(&world.fs, "killed", &world.options()).unwrap();
    killed.apply(schemata(web(), "L3:0=7;1=7")).unwrap();
    killed.apply(Step::Create { group: own() }).unwrap();
    killed.abandon();
    second_cache(&world, false);
    let tried = preview(&world.fs, Pending::Unfinished, &world.options()).unwrap().unwrap();
    let restored = recover(&world.fs, &world.options()).unwrap().unwrap();
    assert_eq!(tried.waiting, restored.waiting);
    assert_eq!(restored.waiting, ["L3:1 of web, which was f0: no CPU of it is online"]);
    assert!(!world.journal().exists() && waiting(&world), "what waits is kept, and nothing else");
    assert!(!world.fs.group(&own()).exists());
    // It is in no other transaction's way, and is reported again.
    let mut next = Transaction::begin(&world.fs, "next", &world.options()).unwrap();
    assert_eq!(next.recovered().unwrap().waiting, restored.waiting);
    next.restore().unwrap();
    drop(next);
    assert!(waiting(&world));
    second_cache(&world, true);
    assert_eq!(web_in(&world, 1), Some(Mask(0x7ff)), "as the kernel makes it");
    let restored = recover(&world.fs, &world.options()).unwrap().unwrap();
    assert_eq!((restored.waiting, restored.left), (Vec::new(), Vec::new()));
    assert_eq!(world.state(), before);
    assert!(!waiting(&world));
    assert_eq!(recover(&world.fs, &world.options()).unwrap(), None);
}

#[test]
fn what_others_set_meanwhile_is_theirs_although_something_waits() {
    let world = World::new(Hardware::cascade_lake(), &[Deed::Create(1), Deed::Mask(1, 1, 4, 4)]);
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(schemata(web(), "L3:0=7;1=7")).unwrap();
    second_cache(&world, false);
    assert_eq!(change.restore().unwrap().waiting.len(), 1);
    drop(change);
    // The same as the transaction had written, where that was put back.
    world.take(&schemata(web(), "L3:0=7")).unwrap();
    second_cache(&world, true);
    // And something else where it waits.
    world.take(&schemata(web(), "L3:1=3")).unwrap();
    let restored = recover(&world.fs, &world.options()).unwrap().unwrap();
    assert_eq!(restored.left, ["L3:1 of web is now 3, was f0 before"]);
    assert_eq!((web_in(&world, 0), web_in(&world, 1)), (Some(Mask(7)), Some(Mask(3))));
    assert!(!waiting(&world));
}

#[test]
fn a_cpu_that_is_offline_keeps_nobody_from_anything() {
    let world = World::new(Hardware::broadwell(), &[Deed::Create(1), Deed::Cpus(1, 0b0110)]);
    let before = world.state();
    let mut killed = Transaction::begin(&world.fs, "killed", &world.options()).unwrap();
    killed.apply(Step::Create { group: own() }).unwrap();
    killed.apply(Step::Cpus { group: own(), cpus: "1-2".parse().unwrap() }).unwrap();
    killed.abandon();
    world.model.set_online(2, false);
    let mut next = Transaction::begin(&world.fs, "next", &world.options()).unwrap();
    assert_eq!(next.recovered().unwrap().waiting, ["CPUs 2 of web: offline"]);
    assert_eq!(world.fs.group(&web()).cpus().unwrap().to_string(), "1");
    next.restore().unwrap();
    drop(next);
    // What others do with the group's CPUs meanwhile stays.
    world.fs.group(&web()).set_cpus(&"0".parse().unwrap()).unwrap();
    world.model.set_online(2, true);
    assert_eq!(recover(&world.fs, &world.options()).unwrap().unwrap().left, [] as [String; 0]);
    assert_eq!(world.fs.group(&web()).cpus().unwrap().to_string(), "0,2");
    world.fs.group(&web()).set_cpus(&"1-2".parse().unwrap()).unwrap();
    assert_eq!(world.state(), before);
    assert!(!waiting(&world));
}

#[test]
fn a_cpu_that_somebody_has_given_away_stays_there() {
    let world = World::new(
        Hardware::broadwell(),
        &[Deed::Create(1), Deed::Create(2), Deed::Cpus(1, 0b0110)],
    );
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(Step::Create { group: own() }).unwrap();
    change.apply(Step::Cpus { group: own(), cpus: "2".parse().unwrap() }).unwrap();
    let db = world.fs.group(&GroupId::control("db"));
    db.set_cpus(&"2".parse().unwrap()).unwrap();
    let left = change.restore().unwrap().left;
    assert_eq!(left, ["db now has CPUs 2, had none before", "web now has CPUs 1, had 1-2 before"]);
    assert_eq!(db.cpus().unwrap().to_string(), "2");
}

#[test]
fn monitor_groups_keep_the_cpus_that_the_group_above_gets_back() {
    let world = World::new(
        Hardware::broadwell(),
        &[Deed::Create(1), Deed::Cpus(1, 0b0011), Deed::Monitor(1, 0)],
    );
    let monitor = world.fs.group(&web().with_monitor("m"));
    monitor.set_cpus(&"0".parse().unwrap()).unwrap();
    let before = world.state();
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(Step::Create { group: own() }).unwrap();
    change.apply(Step::Cpus { group: own(), cpus: "1".parse().unwrap() }).unwrap();
    change.restore().unwrap();
    assert_eq!(world.state(), before);
}

#[test]
fn what_waits_can_be_forgotten() {
    let world = World::new(Hardware::cascade_lake(), &[Deed::Create(1), Deed::Mask(1, 1, 4, 4)]);
    let mut change = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
    change.apply(schemata(web(), "L3:1=7")).unwrap();
    second_cache(&world, false);
    change.restore().unwrap();
    drop(change);
    assert!(waiting(&world));
    assert!(forget(Pending::Unfinished, &world.options()).unwrap());
    assert!(!waiting(&world));
    second_cache(&world, true);
    assert_eq!(recover(&world.fs, &world.options()).unwrap(), None);
}
