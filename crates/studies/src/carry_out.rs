//! What every question of several stages shares: how the next stage is measured and stored, how a
//! study ends early, and how it resumes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_dataset::Dataset;
use ringfence_engine::write_budget;
use ringfence_experiment::Error;
use ringfence_experiment::Experiment;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::warning::WARNING;
use ringfence_machine::Machine;

use crate::digest::Digest;
use crate::folder::{self, Folder, Kept};
use crate::measure::{Measurement, continue_or_begin};
use crate::stage::Stage;
use crate::watch::Watch;

/// A question that takes several experiments, each of them a dataset in its folder.
pub trait Study {
    /// What follows from all that was measured.
    type Findings;

    /// How long each stage is expected to take, as far as is known before any; it may turn out that
    /// there are fewer or more.
    fn stages(&self) -> Vec<Duration>;

    /// The record stored next to the datasets, in its current state: another run can resume from
    /// it.
    fn kept(&self) -> Option<Kept>;

    /// What is measured next, after `stages`; `None` where everything is settled. What is not an
    /// experiment (probes, a control) is done here.
    ///
    /// # Errors
    /// Where that cannot be measured.
    fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, Error>;

    /// What follows from the stages, as far as they were measured before it ended early, if it did.
    ///
    /// # Errors
    /// Where nothing does.
    fn conclude(
        &mut self,
        stages: &[Stage],
        ended_early: Option<&str>,
    ) -> Result<Self::Findings, Error>;
}

/// An experiment that comes next.
pub struct Planned {
    /// What it is called while it is measured.
    pub name: String,
    /// The folder of its dataset.
    pub dir: PathBuf,
    /// What is measured.
    pub plan: Plan,
}

impl Planned {
    /// An experiment, planned for a machine.
    ///
    /// # Errors
    /// As [`crate::plan`].
    pub fn new(
        name: &str,
        dir: PathBuf,
        experiment: &Experiment,
        machine: &Machine,
    ) -> Result<Self, Error> {
        Ok(Self { name: name.into(), dir, plan: crate::plan(experiment, machine)? })
    }
}

/// Where a study is carried out, and what observes it.
pub struct Here<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The study's folder.
    pub dir: &'a Path,
    /// Set to stop the study.
    pub stop: &'a AtomicBool,
    /// Receives the progress.
    pub watch: &'a mut dyn Watch,
    expected: Vec<Duration>,
    number: usize,
    begun: Instant,
    // Measured by earlier runs.
    spent: Duration,
}

impl<'a> Here<'a> {
    /// A folder on a machine.
    pub fn new(
        machine: &'a Machine,
        dir: &'a Path,
        stop: &'a AtomicBool,
        watch: &'a mut dyn Watch,
    ) -> Self {
        let (expected, begun) = (Vec::new(), Instant::now());
        Self { machine, dir, stop, watch, expected, number: 0, begun, spent: Duration::ZERO }
    }

    /// Reports the start of a stage.
    pub fn begin(&mut self, name: &str) {
        let (number, of) = (self.number, self.expected.len().max(self.number + 1));
        let expected = self.expected.get(number).copied().unwrap_or_default();
        let after = self.expected.iter().skip(number + 1).sum();
        self.watch.stage(name, number, of, expected, after);
        self.number += 1;
    }

    /// How long it has taken so far, with what earlier runs have measured. On a described machine
    /// it is what was simulated: equal questions have equal answers, whatever simulates them.
    pub fn elapsed(&self) -> Duration {
        if self.machine.simulated.is_some() {
            return folder::measured_for(self.dir);
        }
        self.spent + self.begun.elapsed()
    }

    /// Whether the study should stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn measure(&mut self, name: &str, dir: &Path, plan: Plan) -> Result<Measurement, Error> {
        self.begin(name);
        let mut plan = plan;
        // What was begun is resumed as it was planned then, by an earlier version too.
        if ringfence_dataset::is_dataset(dir) {
            plan.experiment.measure = Dataset::open(dir)?.plan.experiment.measure;
        }
        if self.machine.simulated.is_none()
            && let Some(bytes) = write_budget::at_most(&plan)
        {
            let name = &plan.experiment.name;
            self.watch.note(&format!("{name}: at most {bytes} written to disks (--write-limit)"));
        }
        let mut progress = |progress| self.watch.progress(progress);
        continue_or_begin(plan, self.machine, dir, self.stop, &mut progress)
    }
}

/// What came of a study.
#[derive(Debug)]
pub struct Done<F> {
    /// What was found, as far as it was measured.
    pub findings: F,
    /// Why it ended early, if it did.
    pub ended_early: Option<String>,
    /// Settings of this study that another process changed meanwhile, one sentence each; they were
    /// not restored.
    pub left: Vec<String>,
    /// The stages, each with the folder of its dataset.
    pub measured: Vec<(PathBuf, Measurement)>,
}

impl<F> Done<F> {
    /// The figures of each dataset that was brought to an end.
    pub fn digests(&self, machine: &Machine) -> Vec<Digest> {
        let digest = |(dir, done): &(PathBuf, Measurement)| Digest::measured(dir, done, machine);
        self.measured.iter().filter_map(digest).collect()
    }
}

/// Measures the stages of a study until it is complete, starting from what its folder already
/// contains.
///
/// # Errors
/// Where nothing could be measured; nothing that was not there is left behind then. What fails
/// later, or is interrupted, ends it early: what was measured is worth keeping.
pub fn carry_out<S: Study>(study: &mut S, here: &mut Here) -> Result<Done<S::Findings>, Error> {
    here.expected = study.stages();
    here.spent = folder::measured_for(here.dir);
    let mut folder = Folder::new(here.dir);
    let (mut measured, mut names) = (Vec::<(PathBuf, Measurement)>::new(), Vec::new());
    let ended_early = loop {
        let stages: Vec<Stage> = measured.iter().map(|(_, done)| Stage::from(done)).collect();
        let step = match step(study, &stages, here, &mut folder) {
            // Nothing came of this run.
            Err(error) if measured.iter().all(|(_, done)| done.used.is_empty()) => {
                folder.clear();
                return Err(error);
            }
            Err(error) => break Some(error.to_string()),
            Ok(step) => step,
        };
        match step {
            Step::Settled => break None,
            Step::Stopped => break Some("interrupted".into()),
            Step::Measured(name, dir, done) => {
                let why = done.ended.early().map(|why| match done.ended {
                    Ended::Interrupted => why.to_owned(),
                    _ => format!("{name}: {why}"),
                });
                measured.push((dir, *done));
                names.push(name);
                if why.is_some() {
                    break why;
                }
            }
        }
    };
    let stages: Vec<Stage> = measured.iter().map(|(_, done)| Stage::from(done)).collect();
    let findings = study.conclude(&stages, ended_early.as_deref())?;
    // What was found is reported, whether it can be kept or not.
    let ended_early =
        ended_early.or(folder.keep(study.kept()).err().map(|error| error.to_string()));
    let said = names.iter().zip(&measured);
    let left = named(said.map(|(name, (_, done))| (String::as_str(name), done.left.as_slice())));
    Ok(Done { findings, ended_early, left, measured })
}

// Each sentence once, behind the stages that it is about where there are several.
fn named<'a>(stages: impl Iterator<Item = (&'a str, &'a [String])> + Clone) -> Vec<String> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (stage, sentence) in
        stages.clone().flat_map(|(stage, said)| said.iter().map(move |one| (stage, one)))
    {
        match all.iter_mut().find(|(known, _)| known == sentence) {
            Some((_, of)) if of.contains(&stage) => {}
            Some((_, of)) => of.push(stage),
            None => all.push((sentence, vec![stage])),
        }
    }
    let several = stages.count() > 1;
    let one = |(sentence, of): (&str, Vec<&str>)| match (several, sentence.strip_prefix(WARNING)) {
        // It stays a warning.
        (true, Some(rest)) => format!("{WARNING}{}: {rest}", of.join(", ")),
        (true, None) => format!("{}: {sentence}", of.join(", ")),
        (false, _) => sentence.to_owned(),
    };
    all.into_iter().map(one).collect()
}

enum Step {
    Settled,
    Stopped,
    Measured(String, PathBuf, Box<Measurement>),
}

fn step<S: Study>(
    study: &mut S,
    stages: &[Stage],
    here: &mut Here,
    folder: &mut Folder,
) -> Result<Step, Error> {
    // Before anything is measured, so that a killed run can be resumed.
    folder.keep(study.kept())?;
    let Some(planned) = study.next(stages, here)? else { return Ok(Step::Settled) };
    folder.keep(study.kept())?;
    if here.is_stopped() && !stages.is_empty() {
        return Ok(Step::Stopped);
    }
    let Planned { name, dir, plan } = planned;
    let first = stages.is_empty();
    let done = here
        .measure(&name, &dir, plan)
        .map_err(|error| if first { error } else { error.within(&name) })?;
    here.watch.measured(&done, &dir);
    Ok(Step::Measured(name, dir, Box::new(done)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ringfence_dataset::Recorder;
    use ringfence_experiment::sample::Sample;
    use ringfence_experiment::task::text;
    use ringfence_experiment::{Arm, Measure, Role};
    use ringfence_machine::fixtures;

    use super::*;

    // Stages by name, then an end or an error; what was kept and concluded is noted.
    struct Script {
        dir: PathBuf,
        stages: Vec<&'static str>,
        end: Result<(), Error>,
        concluded: Cell<usize>,
        note: &'static str,
    }

    impl Script {
        fn new(dir: &Path, stages: &[&'static str], end: Result<(), Error>) -> Self {
            Self {
                dir: dir.into(),
                stages: stages.to_vec(),
                end,
                concluded: Cell::new(0),
                note: "asked",
            }
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

        fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, Error> {
            match self.stages.get(stages.len()) {
                Some(name) => {
                    self.note = name;
                    let dir = self.dir.join(name);
                    Planned::new(name, dir, &experiment(name), here.machine).map(Some)
                }
                None => self.end.clone().map(|()| None),
            }
        }

        fn conclude(&mut self, stages: &[Stage], _: Option<&str>) -> Result<Vec<String>, Error> {
            self.concluded.set(self.concluded.get() + 1);
            Ok(stages.iter().map(|stage| stage.plan.experiment.name.clone()).collect())
        }
    }

    #[derive(Default)]
    struct Told(Vec<(String, usize, usize, u64, u64)>);

    impl Watch for Told {
        fn stage(
            &mut self,
            name: &str,
            number: usize,
            of: usize,
            expected: Duration,
            after: Duration,
        ) {
            self.0.push((name.into(), number, of, expected.as_secs(), after.as_secs()));
        }

        fn progress(&mut self, _: ringfence_engine::runner::Progress) {}
    }

    fn machine() -> Machine {
        Machine::examine(&fixtures::vm_2cpu().root()).unwrap()
    }

    // A complete dataset, as an earlier run left it.
    fn measured(dir: &Path, name: &str, machine: &Machine, ended: &Ended) {
        let plan =
            Plan::new(&experiment(name), &machine.topology, machine.features.as_ref()).unwrap();
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

    fn carried_out(
        script: &mut Script,
        stop: bool,
        told: &mut Told,
    ) -> Result<Done<Vec<String>>, Error> {
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
        assert_eq!(
            (done.findings, done.ended_early),
            (vec!["one".into(), "two".into(), "three".into()], None)
        );
        let stage = |name: &str, number, of, expected, after| {
            (name.to_owned(), number, of, expected, after)
        };
        let expected =
            [stage("one", 0, 2, 3, 4), stage("two", 1, 2, 4, 0), stage("three", 2, 3, 0, 0)];
        assert_eq!(told.0, expected);
        // As it was decided last.
        assert_eq!(std::fs::read_to_string(dir.path().join("note.json")).unwrap(), "\"three\"\n");
    }

    #[test]
    fn an_end_is_asked_for_where_more_would_come() {
        let dir = tempfile::tempdir().unwrap();
        measured(dir.path(), "one", &machine(), &Ended::Complete);
        let stopped = |stages: &[&'static str]| {
            carried_out(&mut Script::new(dir.path(), stages, Ok(())), true, &mut Told::default())
                .unwrap()
        };
        assert_eq!(stopped(&["one", "two"]).ended_early.as_deref(), Some("interrupted"));
        assert_eq!(stopped(&["one"]).ended_early, None);
        assert!(!dir.path().join("two").exists());
    }

    #[test]
    fn what_cannot_be_begun_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        let mut script = Script::new(&inner, &[], Err(Error::failed("no")));
        let error = carried_out(&mut script, false, &mut Told::default()).unwrap_err();
        assert_eq!((error, script.concluded.get()), (Error::failed("no"), 0));
        assert!(!dir.path().join("a").exists());

        // What another process has put there stays.
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("mine"), "x").unwrap();
        assert!(carried_out(&mut script, false, &mut Told::default()).is_err());
        let left: Vec<_> =
            std::fs::read_dir(&inner).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["mine"]);
    }

    #[test]
    fn where_nothing_came_of_a_run_what_was_there_stays_and_the_error_is_told() {
        let dir = tempfile::tempdir().unwrap();
        measured(dir.path(), "one", &machine(), &Ended::Complete);
        let mut script = Script::new(dir.path(), &["one"], Err(Error::usage("no")));
        let error = carried_out(&mut script, false, &mut Told::default()).unwrap_err();
        assert_eq!(error, Error::usage("no"));
        assert!(
            dir.path().join("one/manifest.json").exists() && dir.path().join("note.json").exists()
        );
        // Another experiment under the same name.
        measured(dir.path(), "two", &machine(), &Ended::Complete);
        std::fs::rename(dir.path().join("two"), dir.path().join("three")).unwrap();
        let mut script = Script::new(dir.path(), &["one", "three"], Ok(()));
        let error = carried_out(&mut script, false, &mut Told::default()).unwrap_err();
        assert!(error.is_usage(), "{error:?}");
        let why = error.text();
        assert!(why.starts_with("three: ") && why.contains("another experiment"), "{why}");
    }

    #[test]
    fn a_sentence_is_told_once_with_its_stages() {
        let [paused, left, again] =
            ["it was paused.", "it was left.", "it was paused again."].map(String::from);
        let baseline = [paused.clone(), left.clone(), left.clone()];
        assert_eq!(named([("baseline", &baseline[..])].into_iter()), [paused, left.clone()]);
        let levers = [again, left];
        let both = named([("baseline", &baseline[..]), ("levers", &levers[..])].into_iter());
        assert_eq!(
            both,
            [
                "baseline: it was paused.",
                "baseline, levers: it was left.",
                "levers: it was paused again."
            ]
        );
        let warnings = [("baseline", &[format!("{WARNING}it queues.")][..]), ("levers", &[])];
        assert_eq!(named(warnings.into_iter()), [format!("{WARNING}baseline: it queues.")]);
    }
}
