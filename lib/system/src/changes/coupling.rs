//! Files that the kernel changes together, in the model: each is as it was afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::root::FsRoot;

use crate::changes::kernel::Kernel;
use crate::changes::leftovers::{Whose, put_back_on};
use crate::changes::model::Model;
use crate::changes::options::Options;
use crate::changes::set::Changes;
use crate::changes::step::{Write, plain};

const OWNER: u32 = 7;
const BYTES: &str = "/vm/dirty_background_bytes";
const RATIO: &str = "/vm/dirty_background_ratio";
const SCHEDULER: &str = "/queue/scheduler";
const REQUESTS: &str = "/queue/nr_requests";

struct World {
    model: Arc<Model>,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let files =
            [(BYTES, "0"), (RATIO, "10"), (SCHEDULER, "none [mq-deadline] bfq"), (REQUESTS, "64")];
        Self { model: Arc::new(Model::new(&[OWNER], &files)), folder: tempfile::tempdir().unwrap() }
    }

    fn options(&self) -> Options {
        Options { folder: Some(self.folder.path().into()), ..Options::default() }
    }

    fn changed(&self) -> Changes {
        let mut changes =
            Changes::begin_on(self.model.clone(), OWNER, "a test", &self.options()).unwrap();
        let back = |writes: &[(&str, &str)]| {
            let one = |(file, value): &(&str, &str)| Write {
                file: PathBuf::from(file),
                value: (*value).into(),
            };
            writes.iter().map(one).collect()
        };
        let of_scheduler = back(&[(SCHEDULER, "mq-deadline"), (REQUESTS, "64")]);
        changes.set_undone_by(SCHEDULER, "bfq", of_scheduler).unwrap();
        changes.set_undone_by(BYTES, "4096", back(&[(RATIO, "10")])).unwrap();
        assert_eq!(
            [BYTES, RATIO, SCHEDULER, REQUESTS].map(|file| self.now(file)),
            ["4096", "0", "bfq", "256"]
        );
        changes
    }

    fn now(&self, file: &str) -> String {
        plain(&self.model.read(Path::new(file)).unwrap())
    }

    fn write(&self, file: &str, value: &str) {
        self.model.write(Path::new(file), value).unwrap();
    }

    fn is_as_before(&self) -> bool {
        [BYTES, RATIO, SCHEDULER, REQUESTS].map(|file| self.now(file))
            == ["0", "10", "mq-deadline", "64"]
    }
}

#[test]
fn what_changes_together_is_put_back_together() {
    let world = World::new();
    let restored = world.changed().put_back().unwrap();
    let steps = [
        "set /vm/dirty_background_ratio to 10",
        "set /queue/scheduler to mq-deadline and /queue/nr_requests to 64",
    ];
    assert_eq!(restored.steps, steps);
    assert!(world.is_as_before() && restored.left.is_empty(), "{:?}", restored.left);
}

#[test]
fn whoever_comes_next_does_it_from_the_journal() {
    let world = World::new();
    world.changed().abandon();
    world.model.end(OWNER);
    let kernel: Arc<dyn Kernel> = world.model.clone();
    let done = put_back_on(&kernel, &FsRoot::host(), Whose::Anybody, &world.options());
    assert_eq!(done.len(), 1);
    assert!(world.is_as_before());
    assert_eq!(done[0].result.as_ref().unwrap().left, [""; 0]);
}

#[test]
fn what_others_have_changed_stays_and_is_told() {
    let world = World::new();
    let mut changes = world.changed();
    world.write(RATIO, "5");
    world.write(SCHEDULER, "none");
    let restored = changes.put_back().unwrap();
    let left = [
        "/vm/dirty_background_ratio is now 5, was 10 before",
        "/queue/scheduler is now none, was mq-deadline before",
    ];
    assert_eq!((restored.left, restored.steps.len()), (left.map(str::to_owned).to_vec(), 0));
    assert_eq!([BYTES, RATIO, SCHEDULER].map(|file| world.now(file)), ["0", "5", "none"]);
}

#[test]
fn a_choice_is_what_stands_in_brackets() {
    assert_eq!(plain("none [mq-deadline] kyber\n"), "mq-deadline");
    for text in ["none", "a [b", "[a] [b]"] {
        assert_eq!(plain(text), text);
    }
}
