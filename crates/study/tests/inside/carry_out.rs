use std::cell::Cell;

use ringfence_dataset::Recorder;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::text;
use ringfence_experiment::{Arm, Measure, Role};
use ringfence_machine::fixtures;

use super::*;

// Stages by name, then an end or an error; what was kept and concluded is noted.
struct Script {
    dir: PathBuf,
    stages: Vec<&'static str>,
    end: Result<(), StudyError>,
    concluded: Cell<usize>,
    note: &'static str,
}

impl Script {
    fn new(dir: &Path, stages: &[&'static str], end: Result<(), StudyError>) -> Self {
        Self { dir: dir.into(), stages: stages.to_vec(), end, concluded: Cell::new(0), note: "asked" }
    }
}

fn experiment(name: &str) -> Experiment {
    Experiment {
        measure: Measure { looks: vec![2], rounds: 1, ..Measure::default() },
        roles: vec![Role::new("victim", text::parse("alu").unwrap())],
        arms: vec![Arm::new("alone", &["victim"], None)],
        ..Experiment::asking(name, "How fast is it?", "victim")
    }
}

impl Study for Script {
    type Findings = Vec<String>;

    fn stages(&self) -> Vec<Duration> {
        vec![Duration::from_secs(3), Duration::from_secs(4)]
    }

    fn kept(&self) -> Option<Kept> {
        Some(Kept::new("note.json", &self.note))
    }

    fn next(&mut self, stages: &[Stage], _: &mut Here) -> Result<Option<Planned>, StudyError> {
        match self.stages.get(stages.len()) {
            Some(name) => {
                self.note = name;
                let dir = self.dir.join(name);
                Ok(Some(Planned { name: (*name).into(), dir, experiment: experiment(name) }))
            }
            None => self.end.clone().map(|()| None),
        }
    }

    fn conclude(&mut self, stages: &[Stage], _: Option<&str>) -> Result<Vec<String>, StudyError> {
        self.concluded.set(self.concluded.get() + 1);
        Ok(stages.iter().map(|stage| stage.plan.experiment.name.clone()).collect())
    }
}

#[derive(Default)]
struct Told(Vec<(String, usize, usize, u64, u64)>);

impl Watch for Told {
    fn stage(&mut self, name: &str, number: usize, of: usize, expected: Duration, after: Duration) {
        self.0.push((name.into(), number, of, expected.as_secs(), after.as_secs()));
    }

    fn progress(&mut self, _: ringfence_engine::runner::Progress) {}
}

fn machine() -> Machine {
    Machine::examine(&fixtures::vm_2cpu().root()).unwrap()
}

// A complete dataset, as an earlier run left it.
fn measured(dir: &Path, name: &str, machine: &Machine, ended: &Ended) {
    let plan = Plan::new(&experiment(name), &machine.topology, machine.features.as_ref()).unwrap();
    let machine = serde_json::to_value(machine).unwrap();
    let mut recorder = Recorder::create(&dir.join(name), &plan, &machine).unwrap();
    for trial in 0..2 {
        let sample = Sample {
            trial,
            role: "victim".into(),
            units: 1000,
            busy_ns: 50_000_000,
            length_ns: 50_000_000,
            start_ns: u64::from(trial) * 100_000_000,
            ..Sample::default()
        };
        recorder.append(&[sample]).unwrap();
    }
    recorder.finish(ended).unwrap();
}

fn carried_out(script: &mut Script, stop: bool, told: &mut Told) -> Result<Done<Vec<String>>, StudyError> {
    let (machine, dir, stop) = (machine(), script.dir.clone(), AtomicBool::new(stop));
    carry_out(script, &mut Here::new(&machine, &dir, &stop, told))
}

#[test]
fn what_was_measured_before_is_taken_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["one", "two", "three"] {
        measured(dir.path(), name, &machine(), &Ended::Complete);
    }
    let mut told = Told::default();
    let mut script = Script::new(dir.path(), &["one", "two", "three"], Ok(()));
    let done = carried_out(&mut script, false, &mut told).unwrap();
    assert_eq!((done.findings, done.ended_early), (vec!["one".into(), "two".into(), "three".into()], None));
    let stage = |name: &str, number, of, expected, after| (name.to_owned(), number, of, expected, after);
    let expected = [stage("one", 0, 2, 3, 4), stage("two", 1, 2, 4, 0), stage("three", 2, 3, 0, 0)];
    assert_eq!(told.0, expected);
    // As it was decided last.
    assert_eq!(std::fs::read_to_string(dir.path().join("note.json")).unwrap(), "\"three\"\n");
}

#[test]
fn an_end_is_asked_for_where_more_would_come() {
    let dir = tempfile::tempdir().unwrap();
    measured(dir.path(), "one", &machine(), &Ended::Complete);
    let stopped = |stages: &[&'static str]| {
        carried_out(&mut Script::new(dir.path(), stages, Ok(())), true, &mut Told::default()).unwrap()
    };
    assert_eq!(stopped(&["one", "two"]).ended_early.as_deref(), Some("interrupted"));
    assert_eq!(stopped(&["one"]).ended_early, None);
    assert!(!dir.path().join("two").exists());
}

#[test]
fn what_cannot_be_begun_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("a/b");
    let mut script = Script::new(&inner, &[], Err(StudyError::Failed("no".into())));
    let error = carried_out(&mut script, false, &mut Told::default()).unwrap_err();
    assert_eq!((error, script.concluded.get()), (StudyError::Failed("no".into()), 0));
    assert!(!dir.path().join("a").exists());

    // What somebody else has put there stays.
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("mine"), "x").unwrap();
    assert!(carried_out(&mut script, false, &mut Told::default()).is_err());
    let left: Vec<_> = std::fs::read_dir(&inner).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
}

#[test]
fn where_nothing_came_of_a_run_what_was_there_stays_and_the_error_is_told() {
    let dir = tempfile::tempdir().unwrap();
    measured(dir.path(), "one", &machine(), &Ended::Complete);
    let mut script = Script::new(dir.path(), &["one"], Err(StudyError::Usage("no".into())));
    let error = carried_out(&mut script, false, &mut Told::default()).unwrap_err();
    assert_eq!(error, StudyError::Usage("no".into()));
    assert!(dir.path().join("one/manifest.json").exists() && dir.path().join("note.json").exists());
    // Another experiment under the same name.
    measured(dir.path(), "two", &machine(), &Ended::Complete);
    std::fs::rename(dir.path().join("two"), dir.path().join("three")).unwrap();
    let mut script = Script::new(dir.path(), &["one", "three"], Ok(()));
    let error = carried_out(&mut script, false, &mut Told::default()).unwrap_err();
    let StudyError::Usage(why) = &error else { panic!("{error:?}") };
    assert!(why.starts_with("three: ") && why.contains("another experiment"), "{why}");
}

#[test]
fn a_sentence_is_told_once_with_its_stages() {
    let [paused, left, again] = ["it was paused.", "it was left.", "it was paused again."].map(String::from);
    let baseline = [paused.clone(), left.clone(), left.clone()];
    assert_eq!(named([("baseline", &baseline[..])].into_iter()), [paused, left.clone()]);
    let levers = [again, left];
    let both = named([("baseline", &baseline[..]), ("levers", &levers[..])].into_iter());
    assert_eq!(
        both,
        ["baseline: it was paused.", "baseline, levers: it was left.", "levers: it was paused again."]
    );
}
