//! Folders of journals: one lock for one resctrl wherever they lie, what lies in others', and
//! damage.

use std::os::unix::fs::{MetadataExt, chown};

use ringfence_resctrl::kernel::model::Hardware;
use ringfence_resctrl::transaction::{Pending, forget, preview, recover, undo_kept};
use ringfence_resctrl::{Error, GroupId, Options, Step, Transaction};

use crate::world::*;

fn own() -> GroupId {
    GroupId::control("own")
}

fn shrink() -> Step {
    Step::Schemata { group: GroupId::default(), schemata: "L3:0=ff".parse().unwrap() }
}

struct Elsewhere(tempfile::TempDir);

impl Elsewhere {
    fn new(world: &World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        world.model.set_journal_folders(&[folder.path(), world.folder.path()]);
        Self(folder)
    }

    fn options(&self) -> Options {
        Options { folder: Some(self.0.path().into()), ..Options::default() }
    }

    fn left_behind(&self, world: &World) {
        let mut killed = Transaction::begin(&world.fs, "killed", &self.options()).unwrap();
        killed.apply(shrink()).unwrap();
        killed.abandon();
    }
}

#[test]
fn one_at_a_time_whatever_the_folder() {
    let world = World::new(Hardware::broadwell(), &[]);
    let (before, elsewhere) = (world.state(), Elsewhere::new(&world));
    let mut first = Transaction::begin(&world.fs, "first", &elsewhere.options()).unwrap();
    first.apply(shrink()).unwrap();
    let refused = Transaction::begin(&world.fs, "second", &world.options()).err().unwrap();
    let (text, pid) = (refused.to_string(), std::process::id());
    assert!(matches!(refused, Error::Busy(_)), "{text}");
    assert!(
        text.contains(&format!("process {pid} is changing resctrl (/sys/fs/resctrl/info")),
        "{text}"
    );
    assert!(matches!(recover(&world.fs, &world.options()), Err(Error::Busy(_))));
    first.restore().unwrap();
    drop(first);
    let second = Transaction::begin(&world.fs, "second", &world.options()).unwrap();
    assert_eq!(*second.before(), before);
}

#[test]
fn what_was_left_in_another_folder_is_put_back_first() {
    let world = World::new(Hardware::broadwell(), &[]);
    let (before, elsewhere) = (world.state(), Elsewhere::new(&world));
    elsewhere.left_behind(&world);
    let next = Transaction::begin(&world.fs, "next", &world.options()).unwrap();
    assert_eq!(next.recovered().unwrap().purpose, "killed");
    assert_eq!(*next.before(), before);
    assert!(!elsewhere.0.path().join("resctrl.journal").exists());
}

#[test]
fn what_another_user_has_left_is_said_and_put_back_on_request() {
    let world = World::new(Hardware::broadwell(), &[]);
    let (before, elsewhere) = (world.state(), Elsewhere::new(&world));
    elsewhere.left_behind(&world);
    let journal = elsewhere.0.path().join("resctrl.journal");
    let owner = std::fs::metadata(&journal).unwrap().uid();
    if chown(&journal, Some(owner + 4711), None).is_err() {
        // The rest takes root.
        return;
    }
    let refused =
        Transaction::begin(&world.fs, "next", &world.options()).err().unwrap().to_string();
    let folder = elsewhere.0.path().display();
    assert!(refused.contains(&format!("'killed', started by user {}", owner + 4711)), "{refused}");
    assert!(refused.contains(&format!("recover --dry-run --folder {folder}")), "{refused}");
    assert_ne!(world.state(), before);
    recover(&world.fs, &elsewhere.options()).unwrap().unwrap();
    assert_eq!(world.state(), before);
    Transaction::begin(&world.fs, "next", &world.options()).unwrap();
}

#[test]
fn what_a_stranger_has_put_into_a_folder_of_all_is_not_acted_upon() {
    let world = World::new(Hardware::broadwell(), &[]);
    let options = world.options();
    let folder = options.folder.clone().unwrap();
    let mut change = Transaction::begin(&world.fs, "killed", &options).unwrap();
    change.apply(shrink()).unwrap();
    change.abandon();
    let journal = folder.join("resctrl.journal");
    let sticky = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(&folder, sticky).unwrap();
    let stranger = std::fs::metadata(&journal).unwrap().uid() + 4711;
    if chown(&journal, Some(stranger), None).is_err() {
        // The rest takes root.
        return;
    }
    let now = world.state();
    let refused = Transaction::begin(&world.fs, "next", &options).err().unwrap().to_string();
    assert!(refused.contains(&format!("started by user {stranger}")), "{refused}");
    assert_eq!(world.state(), now);
}

#[test]
fn a_setting_of_an_earlier_boot_or_mount_keeps_nobody_from_keeping() {
    let world = World::new(Hardware::broadwell(), &[]);
    let keep = || {
        let mut change = Transaction::begin(&world.fs, "kept", &world.options()).unwrap();
        change.apply(shrink()).unwrap();
        change.keep()
    };
    for pass in [|world: &World| world.model.reboot(), |world: &World| world.model.remount()] {
        keep().unwrap();
        assert!(keep().is_err());
        pass(&world);
        let before = world.state();
        keep().unwrap();
        undo_kept(&world.fs, &world.options()).unwrap().unwrap();
        assert_eq!(world.state(), before);
        keep().unwrap();
        pass(&world);
        // There is nothing to put back, and the journal goes.
        assert_eq!(undo_kept(&world.fs, &world.options()).unwrap(), None);
        assert!(!world.folder.path().join("resctrl.kept").exists());
    }
}

#[test]
fn a_line_in_the_middle_that_makes_no_sense_is_said_and_kept() {
    let world = World::new(Hardware::broadwell(), &[]);
    let mut killed = Transaction::begin(&world.fs, "killed", &world.options()).unwrap();
    killed.apply(shrink()).unwrap();
    killed.apply(Step::Create { group: own() }).unwrap();
    killed.abandon();
    let text = std::fs::read_to_string(world.journal()).unwrap();
    let damaged: Vec<&str> = text
        .lines()
        .enumerate()
        .map(|(number, line)| if number == 1 { "\0\0{" } else { line })
        .collect();
    std::fs::write(world.journal(), damaged.join("\n") + "\n").unwrap();
    let tried = preview(&world.fs, Pending::Unfinished, &world.options()).unwrap().unwrap();
    assert!(
        tried.waiting[0].starts_with("line 2 of the journal is invalid"),
        "{:?}",
        tried.waiting
    );
    let restored = recover(&world.fs, &world.options()).unwrap().unwrap();
    assert!(
        restored.waiting[0].starts_with("line 2 of the journal is invalid"),
        "{:?}",
        restored.waiting
    );
    assert!(restored.waiting[0].contains("resctrl.damaged-1"), "{:?}", restored.waiting);
    assert!(!world.fs.group(&own()).exists(), "what can be read is put back");
    let kept = std::fs::read_to_string(world.folder.path().join("resctrl.damaged-1")).unwrap();
    assert!(kept.starts_with(&damaged.join("\n")), "{kept}");
    // It is in no other transaction's way.
    assert!(!world.journal().exists());
    Transaction::begin(&world.fs, "next", &world.options()).unwrap().restore().unwrap();
    assert!(forget(Pending::Unfinished, &world.options()).unwrap());
    assert!(!world.folder.path().join("resctrl.damaged-1").exists());
}

#[test]
fn a_line_that_was_cut_short_is_no_damage_whoever_goes_on_after_it() {
    quietly();
    let world = World::new(Hardware::broadwell(), &[]);
    let before = world.state();
    let mut killed = Transaction::begin(&world.fs, "killed", &world.options()).unwrap();
    killed.apply(shrink()).unwrap();
    killed.abandon();
    let mut text = std::fs::read_to_string(world.journal()).unwrap();
    text += "{\"do\":\"create\",\"gro";
    std::fs::write(world.journal(), text).unwrap();
    // Killed again on the way back, with a step noted behind what was cut short.
    let (options, _) = world.options_dying_at(1);
    assert!(until_killed(|| drop(recover(&world.fs, &options).unwrap())));
    let restored = recover(&world.fs, &world.options()).unwrap().unwrap();
    assert_eq!(restored.waiting, [] as [String; 0]);
    assert_eq!(world.state(), before);
    assert!(!world.folder.path().join("resctrl.damaged-1").exists());
}

#[test]
fn a_region_whose_users_cannot_all_be_seen_is_not_removed() {
    let world = World::new(Hardware::broadwell(), &[]);
    let group = world.fs.group(&GroupId::control("hot"));
    world
        .take(&Step::Schemata { group: GroupId::default(), schemata: "L3:0=ff0".parse().unwrap() })
        .unwrap();
    group.create().unwrap();
    group.set_mode(ringfence_resctrl::Mode::PseudoLocksetup).unwrap();
    group.set_schemata(&"L3:0=3".parse().unwrap()).unwrap();
    world.model.set_unseen(Some("/proc shows a part"));
    let refused = group.remove().unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, Error::Busy(_)), "{text}");
    assert!(
        text.contains("are unknown, because /proc shows a part")
            && text.contains("run this as root outside"),
        "{text}"
    );
    assert!(group.exists());
    world.model.set_unseen(None);
    group.remove().unwrap();
}
