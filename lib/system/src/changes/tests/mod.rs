//! Killed at every moment, changed by others meanwhile, and journals that are torn, foreign or too
//! new.

mod pauses;

use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use crate::root::FsRoot;

use crate::changes::error::Error;
use crate::changes::kernel::Kernel;
use crate::changes::leftovers::{PutBack, Whose, left_on, put_back_on};
use crate::changes::model::Model;
use crate::changes::options::Options;
use crate::changes::rollback::Restored;
use crate::changes::set::Changes;

const OWNER: u32 = 7;
const SYSCTL: &str = "/proc/sys/vm/dirty_ratio";
const FREEZER: &str = "/freezer/freezer.state";
const GROUP: &str = "/cg/ringfence-7-0";

struct World {
    model: Arc<Model>,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let files = [
            (SYSCTL, "20"),
            ("/proc/sys/columns", "4096  131072\t6291456"),
            ("/proc/sys/rounding", "40"),
            (FREEZER, "THAWED"),
        ];
        let model = Arc::new(Model::new(&[OWNER, 11, 12, 13], &files));
        // Every line is synced: memory is much faster than some disks.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Self { model, folder }
    }

    fn kernel(&self) -> Arc<dyn Kernel> {
        self.model.clone()
    }

    fn options(&self) -> Options {
        Options { folder: Some(self.folder.path().into()), ..Options::default() }
    }

    // As a program that is killed at a moment, counted from 0.
    fn dying_at(&self, moment: usize) -> (Options, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let seen = count.clone();
        let watch = move |_| {
            if seen.fetch_add(1, Ordering::Relaxed) == moment {
                std::panic::panic_any(Killed);
            }
        };
        (Options { watch: Some(Arc::new(watch)), ..self.options() }, count)
    }

    fn begin(&self, options: &Options) -> Changes {
        Changes::begin_on(self.kernel(), OWNER, "a test", options).unwrap()
    }

    fn put_back_with(&self, options: &Options) -> Vec<PutBack> {
        put_back_on(&self.kernel(), &FsRoot::host(), Whose::Anybody, options)
    }

    fn put_back(&self) -> Vec<Restored> {
        self.put_back_with(&self.options()).into_iter().map(|one| one.result.unwrap()).collect()
    }

    fn names(&self) -> Vec<String> {
        let entries =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> =
            entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("changes-7-70-1.journal")
    }

    // The owner is killed with what has been changed by then.
    fn killed_after(&self, deeds: impl FnOnce(&mut Changes)) {
        let mut changes = self.begin(&self.options());
        deeds(&mut changes);
        changes.abandon();
        self.model.end(OWNER);
    }

    fn set(&self, file: &str, value: &str) {
        self.model.write(Path::new(file), value).unwrap();
    }

    fn read(&self, file: &str) -> String {
        self.model.read(Path::new(file)).unwrap().trim().to_owned()
    }
}

struct Killed;

fn until_killed(run: impl FnOnce()) -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Killed>() {
                usual(info);
            }
        }));
    });
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(()) => false,
        Err(thrown) if thrown.is::<Killed>() => true,
        Err(thrown) => std::panic::resume_unwind(thrown),
    }
}

// Everything that can be done, refusals and repetitions included.
fn deeds(changes: &mut Changes) -> Result<(), Error> {
    let (home, group, other) = (Path::new("/cg"), Path::new(GROUP), Path::new("/cg/ringfence-7-1"));
    changes.set(SYSCTL, "5")?;
    assert!(changes.set(SYSCTL, "bad").is_err());
    changes.make_group(group, home)?;
    assert!(changes.make_group(group, home).is_err());
    changes.set(group.join("cpu.weight"), "7")?;
    changes.move_processes(&[11, 12, 99], home, group)?;
    changes.set("/proc/sys/rounding", "51")?;
    changes.make_group(other, home)?;
    changes.move_processes(&[13], home, other)?;
    // The one is there already, the other was put elsewhere: both stay.
    changes.move_processes(&[12, 13], home, group)?;
    changes.move_processes(&[13], other, group)?;
    changes.move_processes(&[11], group, home)?;
    changes.set(SYSCTL, "6")?;
    changes.set(SYSCTL, "5")?;
    changes.set("/proc/sys/columns", "1 2 3")?;
    changes.set(group.join("cpu.weight"), "8")?;
    pauses::deeds(changes)
}

// Whether it was killed; the journal is as it was then.
fn change(world: &World, options: &Options) -> bool {
    let mut begun = None;
    let killed = until_killed(|| {
        let changes = begun.insert(world.begin(options));
        deeds(changes).unwrap();
        changes.put_back().unwrap();
    });
    if let Some(changes) = begun {
        changes.abandon();
    }
    killed
}

#[test]
fn killed_at_every_moment_and_again_at_every_moment_of_going_back() {
    let (mut tried, mut unsure) = (0, std::collections::BTreeSet::new());
    for first in 0.. {
        let world = World::new();
        let before = world.model.state().shape();
        let (options, count) = world.dying_at(first);
        if !change(&world, &options) {
            assert!(count.load(Ordering::Relaxed) > 30, "the changes did not happen");
            assert_eq!(world.model.state().shape(), before);
            assert_eq!(world.names(), [""; 0]);
            break;
        }
        for second in 0.. {
            let world = World::new();
            assert!(change(&world, &world.dying_at(first).0));
            world.model.end(OWNER);
            let (mut before, killed_at) =
                (before.clone(), format!("killed at {first}, going back at {second}"));
            before.1.get_mut(Path::new("/cg")).unwrap().remove(&OWNER);
            let (options, _) = world.dying_at(second);
            let mut left = Vec::new();
            let mut go_back = |options| {
                for one in world.put_back_with(options) {
                    left.extend(one.result.unwrap().left);
                }
            };
            let again = until_killed(|| go_back(&options));
            go_back(&world.options());
            // What the kernel has rounded and no process has seen yet.
            if left == ["/proc/sys/rounding is now 60, was 40 before"] {
                before.0.insert("/proc/sys/rounding".into(), "60".into());
                unsure.insert(first);
                left.clear();
            }
            assert_eq!(left, [""; 0], "{killed_at}");
            assert_eq!(world.model.state().shape(), before, "{killed_at}");
            assert_eq!(world.names(), [""; 0], "{killed_at}");
            tried += 1;
            if !again {
                break;
            }
        }
    }
    assert!(tried > 150 && unsure.len() == 1, "{tried}: {unsure:?}");
}

#[test]
fn the_way_back_is_told_from_the_last_to_the_first() {
    let world = World::new();
    let mut changes = world.begin(&world.options());
    deeds(&mut changes).unwrap();
    world.model.born(21, GROUP);
    let restored = changes.put_back().unwrap();
    let steps = [
        "resume 2 processes",
        "set /freezer/freezer.state to THAWED",
        "set /proc/sys/columns to 4096 131072 6291456",
        "move process 13 to /cg",
        "remove control group /cg/ringfence-7-1",
        "set /proc/sys/rounding to 40",
        "move process 12 to /cg",
        "move 3 processes to /cg and remove control group /cg/ringfence-7-0",
        "set /proc/sys/vm/dirty_ratio to 20",
    ];
    assert_eq!(restored.steps, steps);
    assert_eq!((restored.left.len(), restored.notes.len()), (0, 0));
    assert!(world.model.state().groups[Path::new("/cg")].1.contains(&21));
    assert_eq!(changes.put_back().unwrap().steps, [""; 0], "twice does nothing");
}

#[test]
fn a_file_that_cannot_be_read_keeps_nothing_else_from_being_put_back() {
    const COLUMNS: &str = "/proc/sys/columns";
    let world = World::new();
    let mut changes = world.begin(&world.options());
    deeds(&mut changes).unwrap();
    let ours = world.read(COLUMNS);
    world.set(COLUMNS, "unreadable");
    let error = changes.put_back().unwrap_err().to_string();
    assert!(error.contains(COLUMNS) && error.contains("os error 5"), "{error}");
    assert_eq!((world.read(SYSCTL), world.read("/proc/sys/rounding")), ("20".into(), "40".into()));
    assert!(!world.model.exists(Path::new(GROUP)));
    world.set(COLUMNS, &ours);
    world.model.end(OWNER);
    let steps = ["resume 2 processes", "set /proc/sys/columns to 4096 131072 6291456"];
    assert_eq!(world.put_back()[0].steps, steps);
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn threads_that_begin_at_once_have_a_journal_each() {
    let world = World::new();
    let (kernel, options) = (world.kernel(), world.options());
    std::thread::scope(|scope| {
        let begin = || Changes::begin_on(kernel.clone(), OWNER, "a test", &options).unwrap();
        let all: Vec<_> = (0..16).map(|_| scope.spawn(begin)).collect();
        let begun: Vec<Changes> = all.into_iter().map(|one| one.join().unwrap()).collect();
        assert_eq!(world.names().len(), begun.len());
    });
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn what_is_said_again_is_noted_once() {
    let world = World::new();
    let mut changes = world.begin(&world.options());
    deeds(&mut changes).unwrap();
    let lines = || fs::read_to_string(world.journal()).unwrap().lines().count();
    let before = lines();
    for value in ["6", "5"] {
        changes.set(SYSCTL, value).unwrap();
    }
    changes.set("/proc/sys/rounding", "51").unwrap();
    changes.move_processes(&[12, 13], Path::new("/cg"), Path::new(GROUP)).unwrap();
    assert_eq!(lines(), before);
}

#[test]
fn what_others_have_changed_meanwhile_stays() {
    let world = World::new();
    world.killed_after(|changes| deeds(changes).unwrap());
    world.set(SYSCTL, "33");
    world.model.make_dir(Path::new("/cg/theirs")).unwrap();
    world.set("/cg/theirs/cgroup.procs", "12");
    // The one group was removed and made again by another process; the other has a group of another
    // process below it.
    world.set("/cg/cgroup.procs", "13");
    world.model.remove_dir(Path::new(GROUP)).unwrap();
    world.model.make_dir(Path::new(GROUP)).unwrap();
    world.model.make_dir(Path::new("/cg/ringfence-7-1/theirs")).unwrap();
    let restored = world.put_back().remove(0);
    let left = [
        "control group /cg/ringfence-7-1 is kept: another program created groups below it",
        "process 12 is now in another control group, was in /cg before",
        "/cg/ringfence-7-0 is now another control group, which another program created with that \
         name",
        "/proc/sys/vm/dirty_ratio is now 33, was 20 before",
    ];
    assert_eq!(restored.left, left);
    assert_eq!((world.read(SYSCTL), world.read("/proc/sys/rounding")), ("33".into(), "40".into()));
    assert!(world.model.exists(Path::new(GROUP)));
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn what_others_had_set_between_two_of_ours_is_what_is_put_back() {
    let world = World::new();
    let mut changes = world.begin(&world.options());
    changes.set(SYSCTL, "5").unwrap();
    world.set(SYSCTL, "33");
    changes.set(SYSCTL, "6").unwrap();
    drop(changes);
    assert_eq!(world.read(SYSCTL), "33");
}

#[test]
fn a_number_that_is_somebody_elses_by_now_is_not_moved() {
    let world = World::new();
    world.killed_after(|changes| deeds(changes).unwrap());
    world.model.make_dir(Path::new("/cg/theirs")).unwrap();
    for pid in [12, 13] {
        world.model.end(pid);
    }
    world.model.born(12, "/cg/theirs");
    let restored = world.put_back().remove(0);
    assert_eq!(restored.left, [""; 0]);
    assert_eq!(world.read("/cg/theirs/cgroup.procs"), "12");
}

#[test]
fn a_home_that_is_gone_is_the_next_above_it() {
    let world = World::new();
    world.model.make_dir(Path::new("/cg/home")).unwrap();
    world.set("/cg/home/cgroup.procs", "11");
    world.killed_after(|changes| {
        changes.make_group(GROUP, "/cg/home").unwrap();
        changes.move_processes(&[11], Path::new("/cg/home"), Path::new(GROUP)).unwrap();
    });
    world.model.remove_dir(Path::new("/cg/home")).unwrap();
    let restored = world.put_back().remove(0);
    assert_eq!(
        restored.notes,
        ["process 11 was in /cg/home, which no longer exists: it moves to \
                                 /cg"]
    );
    assert!(world.read("/cg/cgroup.procs").contains("11") && !world.model.exists(Path::new(GROUP)));
}

#[test]
fn an_owner_that_lives_is_left_alone() {
    let world = World::new();
    let mut changes = world.begin(&world.options());
    changes.set(SYSCTL, "5").unwrap();
    let under_way =
        || left_on(&*world.kernel(), &FsRoot::host(), Some(world.folder.path()))[0].under_way;
    // By its number and start, though its lock cannot be seen, as on another machine's folder.
    changes.abandon();
    assert!(under_way() && world.put_back().is_empty());
    // Its number belongs to another process by now.
    world.model.end(OWNER);
    world.model.born(OWNER, "/cg");
    assert!(!under_way());
    assert_eq!(world.put_back().len(), 1);
    assert_eq!(world.read(SYSCTL), "20");
}

#[test]
fn an_owner_in_another_pid_namespace_is_known_by_its_lock() {
    let world = World::new();
    let mut changes = world.begin(&world.options());
    changes.set(SYSCTL, "5").unwrap();
    world.model.end(OWNER);
    assert!(world.put_back().is_empty());
    assert_eq!(world.read(SYSCTL), "5");
    drop(changes);
    assert_eq!(world.read(SYSCTL), "20");
}

#[test]
fn one_program_is_waited_for_and_others_are_not_touched() {
    let world = World::new();
    world.killed_after(|changes| changes.set(SYSCTL, "5").unwrap());
    let of = |pid, wait| {
        put_back_on(&world.kernel(), &FsRoot::host(), Whose::Of(pid, wait), &world.options())
    };
    assert!(of(8, Duration::ZERO).is_empty());
    // Killed, and not yet dead.
    world.model.born(OWNER, "/cg");
    world.model.0.lock().unwrap().living.insert(OWNER, u64::from(OWNER) * 10);
    assert!(of(OWNER, Duration::from_millis(30)).is_empty());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            world.model.end(OWNER);
        });
        assert_eq!(of(OWNER, Duration::from_secs(60)).len(), 1);
    });
    assert_eq!(world.read(SYSCTL), "20");
}

#[test]
fn a_torn_end_is_a_step_that_was_not_taken() {
    let world = World::new();
    world.killed_after(|changes| changes.set(SYSCTL, "5").unwrap());
    let torn = r#"{"do":"set","file":"/proc/sys/columns","was":"1","#;
    fs::OpenOptions::new()
        .append(true)
        .open(world.journal())
        .unwrap()
        .write_all(torn.as_bytes())
        .unwrap();
    assert_eq!(world.put_back()[0].steps, ["set /proc/sys/vm/dirty_ratio to 20"]);
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn lines_that_make_no_sense_are_told_and_the_rest_is_put_back() {
    let world = World::new();
    world.killed_after(|changes| {
        changes.set(SYSCTL, "5").unwrap();
        changes.set("/proc/sys/columns", "1 2 3").unwrap();
    });
    let text = fs::read_to_string(world.journal()).unwrap();
    fs::write(world.journal(), text.replacen("\n", "\nnonsense\n", 1)).unwrap();
    let restored = world.put_back().remove(0);
    assert_eq!((restored.steps.len(), restored.notes.len()), (2, 1));
    assert!(
        restored.notes[0].starts_with("line 2 of the journal is invalid"),
        "{}",
        restored.notes[0]
    );
    assert_eq!(world.read(SYSCTL), "20");
    assert_eq!(world.names(), ["changes-7-70-1.damaged"]);
    let damaged = crate::changes::damaged(&FsRoot::host(), Some(world.folder.path()));
    assert_eq!(damaged, [world.folder.path().join("changes-7-70-1.damaged")]);
}

#[test]
fn a_newer_version_is_told_and_left() {
    let world = World::new();
    world.killed_after(|changes| changes.set(SYSCTL, "5").unwrap());
    let newer = fs::read_to_string(world.journal())
        .unwrap()
        .replace(r#""schema":1,"boot":"this","#, r#""schema":2,"#);
    fs::write(world.journal(), &newer).unwrap();
    let left = left_on(&*world.kernel(), &FsRoot::host(), Some(world.folder.path()));
    assert!(
        left[0].purpose.contains("its schema is 2, this program reads 1"),
        "{}",
        left[0].purpose
    );
    assert!(left[0].owner.is_none() && world.put_back().is_empty());
    assert_eq!(fs::read_to_string(world.journal()).unwrap(), newer);
    assert_eq!(world.read(SYSCTL), "5");
}

#[test]
fn what_is_of_an_earlier_boot_is_gone_with_it() {
    let world = World::new();
    world.killed_after(|changes| changes.set(SYSCTL, "5").unwrap());
    let earlier = fs::read_to_string(world.journal())
        .unwrap()
        .replace(r#""boot":"this""#, r#""boot":"that""#);
    fs::write(world.journal(), earlier).unwrap();
    assert!(world.put_back().is_empty());
    assert_eq!((world.names(), world.read(SYSCTL)), (vec![], "5".into()));
}

// What a user has written must not steer root.
#[test]
fn a_journal_of_another_user_is_not_acted_upon() {
    let world = World::new();
    world.killed_after(|changes| changes.set(SYSCTL, "5").unwrap());
    if std::os::unix::fs::chown(world.journal(), Some(4711), None).is_err() {
        // The rest takes root.
        return;
    }
    let left = left_on(&*world.kernel(), &FsRoot::host(), Some(world.folder.path())).remove(0);
    assert!(
        left.is_others() && left.others().contains("started by user 4711"),
        "{}",
        left.others()
    );
    assert!(world.put_back().is_empty());
    assert_eq!(world.read(SYSCTL), "5");
}

#[test]
fn what_fails_stays_in_the_journal_and_keeps_nothing_else() {
    let world = World::new();
    world.killed_after(|changes| {
        changes.set(SYSCTL, "5").unwrap();
        changes.set("/proc/sys/columns", "1 2 3").unwrap();
    });
    let text = fs::read_to_string(world.journal()).unwrap();
    fs::write(world.journal(), text.replace("4096 131072 6291456", "bad")).unwrap();
    let failed = world.put_back_with(&world.options()).remove(0).result.unwrap_err().to_string();
    for part in [
        "the changes of 'a test'",
        "writing 'bad' to /proc/sys/columns",
        "'ringfence restore' tries again",
    ] {
        assert!(failed.contains(part), "{failed}");
    }
    assert_eq!(world.read(SYSCTL), "20");
    assert_eq!(world.names(), ["changes-7-70-1.journal"]);
}

#[test]
fn a_beginning_that_was_killed_leaves_no_file() {
    let world = World::new();
    let new = |owner: &str| world.folder.path().join(format!("changes-{owner}-1.new"));
    fs::write(new("7-70"), "").unwrap();
    fs::write(new("7-71"), "").unwrap();
    world.put_back();
    assert_eq!(world.names(), ["changes-7-70-1.new"]);
}
