//! Entries of files with a line for each device, in the model: each has back its own value.

use std::path::Path;
use std::sync::Arc;

use crate::root::FsRoot;

use crate::changes::entry::Entry;
use crate::changes::kernel::Kernel;
use crate::changes::leftovers::{Whose, put_back_on};
use crate::changes::model::Model;
use crate::changes::options::Options;
use crate::changes::set::Changes;

const OWNER: u32 = 7;
const FILE: &str = "/cg/io.max";

fn wbps(device: &str) -> Entry {
    Entry { device: device.into(), key: Some("wbps".into()), unset: "max".into() }
}

struct World {
    model: Arc<Model>,
    folder: tempfile::TempDir,
}

impl World {
    fn new(text: &str) -> Self {
        let model = Arc::new(Model::new(&[OWNER], &[(FILE, text)]));
        Self { model, folder: tempfile::tempdir().unwrap() }
    }

    fn changes(&self) -> Changes {
        let options = Options { folder: Some(self.folder.path().into()), ..Options::default() };
        Changes::begin_on(self.model.clone(), OWNER, "a test", &options).unwrap()
    }

    fn now(&self) -> String {
        self.model.read(Path::new(FILE)).unwrap().trim().to_owned()
    }

    fn recover(&self) -> Vec<String> {
        self.model.end(OWNER);
        let kernel: Arc<dyn Kernel> = self.model.clone();
        let options = Options { folder: Some(self.folder.path().into()), ..Options::default() };
        let done = put_back_on(&kernel, &FsRoot::host(), Whose::Anybody, &options);
        done.into_iter().flat_map(|one| one.result.unwrap().left).collect()
    }
}

#[test]
fn others_lines_are_neither_changed_nor_in_the_way() {
    let before =
        "8:0 rbps=max wbps=77 riops=max wiops=max\n8:16 rbps=1 wbps=max riops=max wiops=max";
    let world = World::new(before);
    let mut changes = world.changes();
    for device in ["8:0", "8:16", "8:32"] {
        changes.set_entry(FILE, wbps(device), "1024").unwrap();
        assert_eq!(wbps(device).of(&world.now()), "1024");
    }
    // Another value of the same line, set by another process.
    world.model.write(Path::new(FILE), "8:16 rbps=2").unwrap();
    changes.set_back_entry(Path::new(FILE), &wbps("8:0")).unwrap();
    assert_eq!(wbps("8:0").of(&world.now()), "77");
    let restored = changes.put_back().unwrap();
    assert_eq!(restored.left, [""; 0]);
    assert_eq!(world.now(), before.replace("rbps=1", "rbps=2"));
}

#[test]
fn whoever_comes_next_puts_each_back_wherever_it_was_killed() {
    for entries in 0..3 {
        let world = World::new("8:0 rbps=max wbps=77 riops=max wiops=max");
        let before = world.now();
        let mut changes = world.changes();
        for device in ["8:0", "8:16"].into_iter().take(entries) {
            changes.set_entry(FILE, wbps(device), "1024").unwrap();
        }
        changes.abandon();
        assert_eq!(world.recover(), [""; 0]);
        assert_eq!(world.now(), before);
    }
}

#[test]
fn what_somebody_else_has_set_meanwhile_stays_and_is_told() {
    let world = World::new("");
    let mut changes = world.changes();
    changes.set_entry(FILE, wbps("8:0"), "1024").unwrap();
    world.model.write(Path::new(FILE), "8:0 wbps=5").unwrap();
    changes.abandon();
    assert_eq!(world.recover(), ["8:0 wbps in /cg/io.max is now 5, was max before"]);
    assert_eq!(wbps("8:0").of(&world.now()), "5");
}
