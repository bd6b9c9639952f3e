//! Killed at every moment, while changing things and while putting them back.

use proptest::prelude::*;
use ringfence_resctrl::transaction::{Moment, recover};
use ringfence_resctrl::{GroupId, Step, Transaction};

use crate::world::*;

// Groups that exist count from 0 to 3, as others have them, or are new, so both kinds are changed.
const BOTH: [&str; 5] = ["own-a", "web", "db", "own-b", "batch"];

fn same(world: &World, before: &ringfence_resctrl::State, threads: &Places, what: &str) {
    assert_eq!(world.state(), *before, "{what}");
    assert_eq!(world.threads(), *threads, "{what}");
    assert!(!world.journal().exists(), "{what}");
}

type Places = std::collections::BTreeMap<u32, std::collections::BTreeSet<String>>;

#[test]
fn at_every_moment_and_again_at_every_moment_of_going_back() {
    quietly();
    let others = [
        Deed::Create(1),
        Deed::Create(2),
        Deed::Mask(0, 0, 8, 12),
        Deed::Mask(1, 0, 8, 4),
        Deed::Mask(2, 0, 0, 8),
        Deed::Mode(2, true),
        Deed::Monitor(2, 0),
        Deed::MoveToMonitor(2, 0, 1),
        Deed::Cpus(1, 0b0011),
        Deed::Move(1, 2),
    ];
    // A group of its own with the database's ways, processes and CPUs, which was exclusive.
    let deeds = [
        Deed::Mode(3, false),
        Deed::Mask(3, 0, 0, 4),
        Deed::Mask(0, 0, 12, 8),
        Deed::Create(1),
        Deed::Mask(1, 0, 4, 4),
        Deed::Mode(1, true),
        Deed::Cpus(1, 0b0110),
        Deed::Monitor(1, 1),
        Deed::MoveToMonitor(1, 1, 0),
        Deed::Move(1, 1),
        Deed::Move(2, 3),
        Deed::Mode(3, true),
        Deed::Bandwidth(1, 0, 20),
    ];
    let mut tried = 0;
    for first in 0.. {
        let world = World::new(ringfence_resctrl::kernel::model::Hardware::broadwell(), &others);
        let (before, threads) = (world.state(), world.threads());
        let (options, count) = world.options_dying_at(first);
        let killed = change(&world, &deeds, &BOTH, &options);
        if !killed {
            let moments = count.load(std::sync::atomic::Ordering::Relaxed);
            assert!(moments > 30, "{moments} moments: the changes did not happen");
            same(&world, &before, &threads, "put back at the end");
            break;
        }
        for second in 0.. {
            // As before, once more, up to the first death.
            let world =
                World::new(ringfence_resctrl::kernel::model::Hardware::broadwell(), &others);
            let (before, threads) = (world.state(), world.threads());
            assert!(change(&world, &deeds, &BOTH, &world.options_dying_at(first).0));
            let (options, _) = world.options_dying_at(second);
            let killed = until_killed(|| drop(recover(&world.fs, &options).unwrap()));
            recover(&world.fs, &world.options()).unwrap();
            same(
                &world,
                &before,
                &threads,
                &format!("killed at moment {first}, going back at {second}"),
            );
            tried += 1;
            if !killed {
                break;
            }
        }
    }
    assert!(tried > 200, "{tried}");
}

#[test]
fn the_moments_come_in_order() {
    let world = World::new(ringfence_resctrl::kernel::model::Hardware::broadwell(), &[]);
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let watch = seen.clone();
    let mut options = world.options();
    options.watch = Some(std::sync::Arc::new(move |moment| watch.lock().unwrap().push(moment)));
    let mut transaction = Transaction::begin(&world.fs, "a test", &options).unwrap();
    transaction.apply(Step::Create { group: GroupId::control("a") }).unwrap();
    let restored = transaction.restore().unwrap();
    assert_eq!(restored.steps, [Step::Remove { group: GroupId::control("a") }]);
    assert_eq!(transaction.restore().unwrap().steps, [], "twice does nothing");
    use Moment::*;
    assert_eq!(*seen.lock().unwrap(), [Read, Begun, Noted(0), Taken(0), Noted(1), Taken(1), Back]);
}

// As many as PROPTEST_CASES says; by itself a number that takes seconds.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn whatever_was_there_and_whatever_is_done(
        hardware in hardware(),
        others in proptest::collection::vec(deed(), 0..14),
        deeds in proptest::collection::vec(deed(), 1..14),
        first in 0usize..60,
        second in 0usize..30,
    ) {
        quietly();
        let world = World::new(hardware, &others);
        let (before, threads) = (world.state(), world.threads());
        let (options, _) = world.options_dying_at(first);
        if change(&world, &deeds, &BOTH, &options) {
            let (options, _) = world.options_dying_at(second);
            until_killed(|| drop(recover(&world.fs, &options).unwrap()));
            let restored = recover(&world.fs, &world.options()).unwrap();
            let left = restored.map_or(Vec::new(), |restored| restored.left);
            prop_assert_eq!(left, Vec::<String>::new());
        }
        prop_assert_eq!(world.state(), before);
        prop_assert_eq!(world.threads(), threads);
        prop_assert!(!world.journal().exists());
    }

    #[test]
    fn whoever_is_born_meanwhile_is_where_its_parent_is(
        others in proptest::collection::vec(deed(), 0..10),
        deeds in proptest::collection::vec(deed(), 1..10),
        dying in proptest::collection::vec(0usize..4, 0..2),
    ) {
        let world = World::new(ringfence_resctrl::kernel::model::Hardware::cascade_lake(), &others);
        let (before, threads) = (world.state(), world.threads());
        // Into groups of its own: a thread that is started in a group that was there cannot be told
        // from others in it.
        let to_default =
            |deed: &&Deed| !matches!(deed, Deed::Move(0, _) | Deed::MoveToMonitor(0, ..));
        let deeds: Vec<Deed> = deeds.iter().filter(to_default).cloned().collect();
        let mut transaction = Transaction::begin(&world.fs, "a test", &world.options()).unwrap();
        for step in deeds.iter().flat_map(|deed| world.steps(deed, &OWN)) {
            let _ = transaction.apply(step);
        }
        let born: Vec<(u32, u32)> =
            world.processes.iter().map(|pid| (world.model.fork(*pid), *pid)).collect();
        let grandchildren: Vec<(u32, u32)> =
            born.iter().map(|(child, pid)| (world.model.fork(*child), *pid)).collect();
        let gone: Vec<u32> = dying.iter().map(|process| world.processes[*process]).collect();
        gone.iter().for_each(|pid| world.model.reuse(*pid));
        prop_assert_eq!(transaction.restore().unwrap().left, Vec::<String>::new());
        let after = world.threads();
        for (tid, place) in &threads {
            let process = world.fs.kernel().process_and_parent(*tid);
            if process.is_some_and(|(pid, _)| !gone.contains(&pid)) {
                prop_assert_eq!(&after[tid], place, "thread {}", tid);
            }
        }
        for (child, pid) in born.iter().chain(&grandchildren) {
            if !gone.contains(pid) {
                // Of the group of control; which monitor group it was born into is not known.
                let control = |of: u32, places: &Places| {
                    places[&of].iter().find(|group| !group.contains("mon_groups")).cloned()
                };
                prop_assert_eq!(control(*child, &after), control(*pid, &threads), "child {} of \
                    {}", child, pid);
            }
        }
        let shape = |state: &ringfence_resctrl::State| {
            state.groups.iter().map(|(id, group)| {
                (id.clone(), group.mode, group.schemata.clone(), group.cpus.clone())
            }).collect::<Vec<_>>()
        };
        prop_assert_eq!(shape(&world.state()), shape(&before));
    }
}
