//! Groups made and processes moved on a model of the kernel's resctrl, with a tree of files for its
//! processes.

use std::collections::BTreeSet;

use ringfence_limits::running::watch::{self, Readings};
use ringfence_limits::running::{Limits, Targets, check_for, make_group, move_into, named};
use ringfence_resctrl::kernel::model::{Hardware, Model};
use ringfence_resctrl::{GroupId, Options, Resctrl, State, Transaction};
use ringfence_system::fixture::FixtureTree;

struct World {
    model: Model,
    fs: Resctrl,
    tree: FixtureTree,
    journal: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let model = Model::new(Hardware::cascade_lake());
        let fs = model.resctrl();
        Self {
            model,
            fs,
            tree: FixtureTree::empty("confine"),
            journal: tempfile::tempdir().unwrap(),
        }
    }

    // A process with two threads.
    fn process(&self, parent: u32, name: &str) -> u32 {
        let pid = self.model.spawn();
        self.model.start_thread(pid);
        self.tree.write(
            format!("/proc/{pid}/stat"),
            format!(
                "{pid} ({name}) S {parent} {pid} {pid} 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 2 0 \
                     {pid} 0 0"
            ),
        );
        pid
    }

    fn begin(&self) -> Transaction {
        let options =
            Options { folder: Some(self.journal.path().to_owned()), ..Options::default() };
        Transaction::begin(&self.fs, "a test", &options).unwrap()
    }

    fn limited(&self, pids: &[u32]) -> Targets {
        let all: Vec<_> = pids.iter().map(|pid| named("pid", &pid.to_string()).unwrap()).collect();
        Targets::to_limit(&self.tree.root(), &all).unwrap()
    }

    fn control_of(&self, pid: u32) -> GroupId {
        let start = self.fs.kernel().started(pid).unwrap();
        State::read(&self.fs).unwrap().control_of(ringfence_resctrl::Thread { tid: pid, start })
    }
}

#[test]
fn whoever_runs_gets_what_was_asked_for_and_goes_back() {
    let world = World::new();
    let (first, other) = (world.process(1, "batch"), world.process(1, "other"));
    let child = world.process(first, "batch");
    let root = world.tree.root();
    let mut targets = world.limited(&[first]);
    let mut change = world.begin();
    let limits = Limits { l3: Some("0x3".into()), mba: Some("50".into()), l2: None };
    let living = targets.processes(&root).unwrap();
    assert_eq!(living, BTreeSet::from([first, child]));
    let (base, checked) = check_for(&limits, &world.fs, change.before(), &living).unwrap();
    let group = GroupId::control("own");
    make_group(&mut change, &group, &base.overlaid(&checked.schemata)).unwrap();
    let moved = move_into(&mut change, &root, &mut targets, &group).unwrap();
    assert_eq!((moved.processes(), moved.threads()), (2, 4));
    let text = world.fs.group(&group).schemata().unwrap().to_string().replace(' ', "");
    assert!(text.contains("0=3;1=3") && text.contains("MB:0=50;1=50"), "{text}");
    assert_eq!(
        [first, child, other].map(|pid| world.control_of(pid) == group),
        [true, true, false]
    );
    assert!(!moved.have_ended(&world.fs, &group));
    for pid in [first, child] {
        world.fs.kernel().threads(pid).into_iter().for_each(|tid| world.model.end(tid));
    }
    assert!(moved.have_ended(&world.fs, &group));
    change.restore().unwrap();
    assert!(!world.fs.group(&group).exists());
}

#[test]
fn all_is_as_before_where_somebody_joins_who_is_not_to_be_touched() {
    let world = World::new();
    let batch = world.process(1, "batch");
    let root = world.tree.root();
    let mut targets = world.limited(&[batch]);
    let mut change = world.begin();
    let group = GroupId::control("own");
    make_group(&mut change, &group, &"L3:0=3".parse().unwrap()).unwrap();
    world.process(batch, "sshd");
    let error = move_into(&mut change, &root, &mut targets, &group).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("(sshd)"), "{error}");
    assert!(world.control_of(batch).is_default() && !world.fs.group(&group).exists());
}

#[test]
fn limits_that_differ_are_said() {
    let world = World::new();
    let (first, second) = (world.process(1, "batch"), world.process(1, "batch"));
    let mut change = world.begin();
    let group = GroupId::control("theirs");
    make_group(&mut change, &group, &"L3:0=f".parse().unwrap()).unwrap();
    change.move_process(&group, second).unwrap();
    let state = State::read(&world.fs).unwrap();
    let notes = |limits: &Limits| {
        check_for(limits, &world.fs, &state, &[first, second].into()).unwrap().1.notes.join("; ")
    };
    let limits = Limits { l3: Some("0x3".into()), ..Limits::default() };
    assert!(
        notes(&limits).contains("the processes are in groups with different limits"),
        "{}",
        notes(&limits)
    );
    assert_eq!(notes(&Limits::default()), "");
    change.restore().unwrap();
}

#[test]
fn what_is_watched_is_counted_below_the_group_that_it_is_in() {
    let world = World::new();
    let (here, there) = (world.process(1, "sshd"), world.process(1, "batch"));
    let root = world.tree.root();
    let mut change = world.begin();
    let theirs = GroupId::control("theirs");
    make_group(&mut change, &theirs, &"L3:0=f".parse().unwrap()).unwrap();
    change.move_process(&theirs, there).unwrap();
    let all = [here, there].map(|pid| named("pid", &pid.to_string()).unwrap());
    let mut targets = Targets::to_watch(&root, &all).unwrap();
    let groups = watch::groups(&mut change, &root, &mut targets, "own").unwrap();
    let expected = [GroupId::default().with_monitor("own"), theirs.with_monitor("own")];
    assert_eq!(groups, expected.iter().cloned().collect());
    for group in &expected {
        assert_eq!(world.fs.group(group).tasks().unwrap().len(), 2);
    }
    // Limits are as they were.
    assert_eq!(world.control_of(there), theirs);
    let count = |bytes: &str| {
        for group in &expected {
            world.model.set_reading(group.path().to_str().unwrap(), 0, "mbm_total_bytes", bytes);
        }
        Readings::take(&world.fs, Some(&groups)).unwrap()
    };
    let (before, now) = (count("1000"), count("9000"));
    let used = now.used_since(&before, 2.0);
    let of_first: Vec<_> = used.iter().filter(|used| used.domain == 0).collect();
    assert_eq!(of_first.len(), 2);
    assert!(
        of_first.iter().all(|used| used.total == Some(4000) && groups.contains(&used.group)),
        "{used:?}"
    );
    assert!(Readings::take(&world.fs, None).unwrap().used_since(&before, 1.0).len() > used.len());
    change.restore().unwrap();
    assert!(!world.fs.group(&expected[1]).exists());
}

#[test]
fn what_is_not_counted_is_said() {
    let info = ringfence_resctrl::info::MonitoringInfo {
        mon_features: vec!["llc_occupancy".into()],
        ..World::new().fs.info().unwrap().monitoring.unwrap()
    };
    let said = watch::missing(Some(&info)).unwrap().join("; ");
    assert!(
        said.contains("names no mbm_total_bytes") && said.contains("names no mbm_local_bytes"),
        "{said}"
    );
    assert!(watch::missing(None).unwrap_err().to_string().contains("not run, because"));
}
