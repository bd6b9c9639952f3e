//! Processes that were stopped, and groups that were frozen.

use std::fs;
use std::path::Path;

use super::{FREEZER, World};
use crate::changes::error::Error;
use crate::changes::kernel::Kernel;
use crate::changes::set::Changes;
use crate::changes::thread::Thread;

// Part of everything that can be done.
pub fn deeds(changes: &mut Changes) -> Result<(), Error> {
    // The second time, another process has already stopped one of them and frozen the group.
    let [a, b, c, dead] =
        [(11, 110), (12, 120), (13, 130), (99, 990)].map(|(tid, start)| Thread { tid, start });
    changes.set(FREEZER, "FROZEN")?;
    changes.stop(&[a, dead])?;
    changes.stop(&[a, b])?;
    changes.set_back(Path::new(FREEZER))?;
    changes.resume()?;
    changes.stop(&[b, c])?;
    changes.set(FREEZER, "FROZEN")
}

// Whatever else stands still meanwhile is none of this program's doing.
#[test]
fn what_goes_on_again_and_what_others_stop_is_left_alone() {
    let world = World::new();
    let [a, b] = [(11, 110), (12, 120)].map(|(tid, start)| Thread { tid, start });
    world.killed_after(|changes| {
        changes.set(FREEZER, "FROZEN").unwrap();
        changes.set_back(Path::new(FREEZER)).unwrap();
        changes.stop(&[a, b]).unwrap();
        changes.resume().unwrap();
        changes.stop(&[b]).unwrap();
        world.set(FREEZER, "FROZEN");
    });
    world.model.stop(a).unwrap();
    let restored = world.put_back().remove(0);
    assert_eq!(restored.steps, ["resume process 12"]);
    assert_eq!((restored.left.len(), restored.notes.len()), (0, 0));
    assert_eq!(world.model.state().stopped, [11].into());
    assert_eq!(world.read(FREEZER), "FREEZING");
}

#[test]
fn a_number_that_is_somebody_elses_by_now_is_not_let_go_on() {
    let world = World::new();
    world.killed_after(|changes| changes.stop(&[Thread { tid: 11, start: 110 }]).unwrap());
    world.model.end(11);
    world.model.born(11, "/cg");
    world.model.0.lock().unwrap().stopped.insert(11);
    assert_eq!(world.put_back().remove(0).steps, [""; 0]);
    assert_eq!(world.model.state().stopped, [11].into());
}

#[test]
fn stopping_the_same_again_is_a_short_line() {
    let world = World::new();
    let mut changes = world.begin(&world.options());
    let all = [(11, 110), (12, 120), (13, 130)].map(|(tid, start)| Thread { tid, start });
    for _ in 0..100 {
        changes.stop(&all).unwrap();
        changes.resume().unwrap();
    }
    let text = fs::read_to_string(world.journal()).unwrap();
    assert_eq!(text.matches("start").count(), 4);
    assert!(text.len() < 6000, "{}", text.len());
}
