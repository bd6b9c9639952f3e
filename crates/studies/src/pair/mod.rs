//! Pairs: pairwise interference between tasks on two cores that share a cache or a core, and which
//! tasks should run together.
//!
//! Every pair of tasks is measured within one experiment, "A beside A, B beside B, A beside B":
//! each side in its turn is the one whose rate is compared with its rate alone, so that both sides'
//! changes are pairs of adjacent windows. What a task keeps of its rate is its *progress*; the
//! total progress of an assignment is the sum over its tasks. The best assignment is found by
//! looking at all of them, and what it gains over the present one is measured again on fresh
//! trials: only that is reported as its gain, since the best of many looks better than it is.
//!
//! A folder holds the question ([`question::FILE`]) and up to two datasets, `screen` and `confirm`;
//! [`Outcome`] is a function of these, so that it can be shown again.

pub mod assignment;
mod outcome;
mod progress;
pub mod question;

use std::path::Path;
use std::time::Duration;

use ringfence_experiment::{Error, Experiment, Kind as Of};
use ringfence_machine::Machine;

pub use assignment::Assignment;
pub use outcome::{Advice, Confirmed, KindEntry, Next, Outcome, PairEntry, Verdict};
pub use progress::Progress;
pub use question::{Kind, Question, letter};

use crate::{Done, Here, Kept, Planned, Stage, Study};

/// Folder of the first dataset: every pair.
pub const SCREEN: &str = "screen";
/// Folder of the second: the present and the advised pairs.
pub const CONFIRM: &str = "confirm";

/// Measures what a question asks, resuming with what was measured already.
///
/// # Errors
/// Where nothing can be measured; nothing is left behind then. What fails or is interrupted later
/// is part of the outcome.
pub fn run(question: &Question, here: &mut Here) -> Result<Done<Outcome>, Error> {
    let kinds = question.kinds().map_err(Error::usage)?;
    let screening = question.screening(&kinds);
    can_be_run(&screening, here.machine, &kinds)?;
    is_ours_or_empty(question, here.dir)?;
    crate::carry_out(&mut Pairing { question, kinds, dir: here.dir }, here)
}

struct Pairing<'a> {
    question: &'a Question,
    kinds: Vec<Kind>,
    dir: &'a Path,
}

impl Study for Pairing<'_> {
    type Findings = Outcome;

    fn stages(&self) -> Vec<Duration> {
        let measures = [&self.question.screen, &self.question.confirm];
        measures.map(|measure| measure.time.map_or(Duration::ZERO, |time| time.0)).into()
    }

    fn kept(&self) -> Option<Kept> {
        Some(Kept::new(question::FILE, self.question))
    }

    fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, Error> {
        if stages.is_empty() {
            let experiment = self.question.screening(&self.kinds);
            let dir = self.dir.join(SCREEN);
            return Planned::new("every pair", dir, &experiment, here.machine).map(Some);
        }
        let outcome = self.conclude(stages, None)?;
        let advice = outcome.advice.as_ref().filter(|_| outcome.wants_confirmation());
        let again = |advice: &Advice| {
            let experiment = self.question.confirming(&self.kinds, &advice.assignment);
            let dir = self.dir.join(CONFIRM);
            Planned::new("the advice again, on fresh trials", dir, &experiment, here.machine)
        };
        advice.map(again).transpose()
    }

    fn conclude(&mut self, stages: &[Stage], ended_early: Option<&str>) -> Result<Outcome, Error> {
        Outcome::of(self.question, &self.kinds, stages, ended_early)
    }
}

impl Outcome {
    // What has not come to its end confirms nothing.
    fn of(
        question: &Question,
        kinds: &[Kind],
        stages: &[Stage],
        ended_early: Option<&str>,
    ) -> Result<Self, Error> {
        let stage = |kind| Stage::find(stages, |of| *of == kind);
        let screen = stage(Of::PairScreen).ok_or(Error::interrupted())?;
        let fresh = stage(Of::PairConfirmation).filter(|stage| stage.is_done);
        let fresh = fresh.map(|stage| (stage.plan, stage.samples));
        let outcome = Self::new(question, kinds, (screen.plan, screen.samples), fresh);
        Ok(Self { ended_early: ended_early.map(str::to_owned), ..outcome })
    }
}

/// The question and its outcome from a folder; `None` where it is not a folder of a pair.
///
/// # Errors
/// One sentence where something in it is damaged.
pub fn read(dir: &Path) -> Result<Option<(Question, Outcome)>, Error> {
    let usage = |error: String| Error::usage(error);
    let Some(question) = Question::read(dir).map_err(|error| usage(error.to_string()))? else {
        return Ok(None);
    };
    let kinds = question.kinds().map_err(usage)?;
    let datasets = crate::datasets(dir)?;
    let stages: Vec<Stage> = datasets.iter().map(Stage::from).collect();
    let mut outcome = Outcome::of(&question, &kinds, &stages, None)?;
    outcome.ended_early = crate::cut_short(&datasets);
    if outcome.wants_confirmation() {
        outcome.ended_early = Some("it was cut short".into());
    }
    Ok(Some((question, outcome)))
}

// Every pair is needed: one that cannot be run would leave assignments out.
fn can_be_run(screening: &Experiment, machine: &Machine, kinds: &[Kind]) -> Result<(), Error> {
    let plan = crate::plan(screening, machine)?;
    let refused = (0..plan.cases.len()).find_map(|case| Some((case, plan.refusal(case)?)));
    match refused {
        Some((case, reason)) => {
            let texts: Vec<String> = kinds
                .iter()
                .enumerate()
                .map(|(kind, entry)| format!("{} is '{}'", letter(kind), entry.text))
                .collect();
            let (arm, texts) = (&plan.cases[case].arm, texts.join(", "));
            Err(Error::usage(format!("{arm} cannot be run here, because {reason} ({texts})")))
        }
        None => Ok(()),
    }
}

fn is_ours_or_empty(question: &Question, dir: &Path) -> Result<(), Error> {
    match Question::read(dir)? {
        None => Ok(ringfence_dataset::Recorder::check(dir)?),
        Some(stored) if stored == *question => Ok(()),
        Some(_) => Err(Error::usage(format!(
            "{} contains another question: name a new folder, or resume that one: {}",
            dir.display(),
            ringfence_experiment::shell::line([
                "ringfence",
                "pair",
                "--resume",
                &dir.to_string_lossy()
            ])
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ringfence_analysis::estimate::NotEstimable;
    use ringfence_dataset::Recorder;
    use ringfence_experiment::class::Class;
    use ringfence_experiment::ended::Ended;
    use ringfence_experiment::plan;
    use ringfence_experiment::plan::Plan;
    use ringfence_experiment::sample::{self, Sample};
    use ringfence_experiment::{Measure, PlacementKind};
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    use super::*;

    const CHASE: &str = "chase footprint=64MiB";

    fn question(tasks: &[&str], present: Option<&str>) -> Result<Question, String> {
        let tasks: Vec<String> = tasks.iter().map(|task| task.to_string()).collect();
        let measure = Measure { looks: vec![20], rounds: 1, ..Measure::default() };
        Question::new(&tasks, present, PlacementKind::Llc, 1, [measure.clone(), measure])
    }

    fn plan_of(experiment: &Experiment) -> Plan {
        Plan::new(experiment, &Topology::read(&fixtures::vm_2cpu().root()).unwrap(), None).unwrap()
    }

    // How much longer a task takes beside another, by their kinds, in a trial.
    type Harm<'a> = &'a dyn Fn(usize, usize, u32) -> f64;

    fn samples(plan: &Plan, trials: u32, harm: Harm) -> Vec<Sample> {
        let mut all = Vec::new();
        for trial in 0..trials {
            for (round, steps) in plan::trial(plan, trial).rounds.into_iter().enumerate() {
                for (number, step) in steps.into_iter().enumerate() {
                    for (position, &case) in step.windows.iter().enumerate() {
                        let active = &plan.cases[case].active;
                        let kind = |role: usize| {
                            let of_role = active.iter().find(|active| active.role == role)?;
                            Some(plan.variants[role][of_role.variant].table)
                        };
                        let slower = kind(1)
                            .map_or(1.0, |neighbour| harm(kind(0).unwrap(), neighbour, trial));
                        all.extend(active.iter().map(|active| Sample {
                            trial,
                            round: round as u32,
                            step: number as u32,
                            position: position as u32,
                            step_case: step.case as u32,
                            case: case as u32,
                            role: plan.experiment.roles[active.role].name.as_str().into(),
                            cpu: active.role as u32,
                            class: Class::Sharing,
                            ping_before_ns: Some(100.0),
                            ping_after_ns: Some(100.0),
                            length_ns: 10_000_000,
                            busy_ns: 10_000_000,
                            units: if active.role == 0 { (1e9 / slower) as u64 } else { 5 },
                            ..Sample::default()
                        }));
                    }
                }
            }
        }
        all
    }

    // Screening and, where it is wanted, confirmation.
    fn outcome(question: &Question, harm: Harm) -> Outcome {
        let kinds = question.kinds().unwrap();
        let screen = plan_of(&question.screening(&kinds));
        let screened = samples(&screen, 20, harm);
        let first = Outcome::new(question, &kinds, (&screen, &screened), None);
        if !first.wants_confirmation() {
            return first;
        }
        let confirm =
            plan_of(&question.confirming(&kinds, &first.advice.as_ref().unwrap().assignment));
        let confirmed = samples(&confirm, 20, &|a, b, trial| harm(a, b, trial + 1000));
        Outcome::new(question, &kinds, (&screen, &screened), Some((&confirm, &confirmed)))
    }

    // About +-5 %, other for every seed, trial and pair.
    fn noise(seed: u32, a: usize, b: usize, trial: u32) -> f64 {
        let mix = (seed * 7919 + trial * 104_729 + (a * 31 + b) as u32 * 1_299_709)
            .wrapping_mul(2_654_435_761);
        1.0 + (f64::from(mix >> 8) / f64::from(1 << 24) - 0.5) * 0.1
    }

    #[test]
    fn every_pair_is_measured_from_both_sides_and_confirmed_without_the_rest() {
        let question =
            question(&[CHASE, "alu", "mcf", CHASE, "stream"], Some("1+4,2+3,5")).unwrap();
        let kinds = question.kinds().unwrap();
        assert_eq!(
            kinds.iter().map(|kind| kind.tasks.clone()).collect::<Vec<_>>(),
            [vec![0, 3], vec![1], vec![2], vec![4]]
        );
        assert_eq!(question.kind_of_each(&kinds), [0, 1, 2, 0, 3]);
        let plan = plan_of(&question.screening(&kinds));
        assert_eq!(plan.measured().len(), 16);
        let case = &plan.cases[plan.measured()[1]];
        assert_eq!(case.arm, "A beside B");
        assert_eq!(plan.variants[0][case.active[0].variant].task, *kinds[0].task.task());
        assert_eq!(plan.variants[1][case.active[1].variant].task, *kinds[1].task.task());
        assert_eq!(plan.cases[case.baseline.unwrap()].active, case.active[..1]);

        // Now A+A, B+C; advised A+B, A+C: of twenty-five, seven.
        let advised = Assignment::parse("1+2,3+4,5", 5).unwrap();
        let confirming = question.confirming(&kinds, &advised);
        let arms: Vec<&str> = confirming.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(
            arms,
            [
                "alone",
                "A beside A",
                "A beside B",
                "A beside C",
                "B beside A",
                "B beside C",
                "C beside A",
                "C beside B"
            ]
        );
        // D runs alone in both, and is not measured.
        assert_eq!(plan_of(&confirming).measured().len(), 7);
        assert_ne!(confirming.seed, question.seed);
        assert_eq!(Experiment::parse(&confirming.to_toml()).unwrap(), confirming);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (tasks, present, part) in [
            (&["alu"][..], None, "pair needs 2 to 10 tasks, but 1 given"),
            (&["alu"; 11], None, "pair needs 2 to 10 tasks, but 11 given"),
            (&["alu", "chase footprint=1MiB,2MiB"], None, "a list stands for several tasks"),
            (&["alu", "idle"], None, "leave it out"),
            (&["alu", "wirte block=4KiB"], None, "did you mean 'write'"),
            (&["alu", "chase footprint=1"], None, "too small"),
            (
                &["alu", "mcf", "stream"],
                Some("1+2"),
                "--present: '1+2' is not an assignment of 3 tasks",
            ),
        ] {
            let error = question(tasks, present).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn totals_are_sums_of_what_each_keeps() {
        let question = question(&[CHASE, CHASE, "alu"], None).unwrap();
        let kinds = question.kinds().unwrap();
        let plan = plan_of(&question.screening(&kinds));
        // Trials in turn: beside its like a chase takes 2 and 4 times as long, beside alu 1.25
        // times; alu unmoved.
        let harm = |a: usize, b: usize, trial: u32| match (a, b) {
            (0, 0) => 2.0 * f64::from(trial % 2 + 1),
            (0, 1) => 1.25,
            _ => 1.0,
        };
        let mut samples = samples(&plan, 5, &harm);
        // The last trial is cut short, and is not counted.
        let cut = samples.iter().position(|sample| sample.trial == 4).unwrap();
        samples.truncate(cut + 3);
        let progress = Progress::new(&plan, &samples).unwrap();
        assert_eq!(progress.trials(), 4);
        let assignment =
            |pairs: &[(usize, usize)], alone| Assignment { pairs: pairs.into(), alone };
        let (now, then) = (assignment(&[(0, 0)], Some(1)), assignment(&[(0, 1)], Some(0)));
        // Beside its like it keeps the geometric mean of 1/2 and 1/4: 1 / sqrt 8.
        let total = 1.0 + 2.0 / 8f64.sqrt();
        assert!((progress.total(&now).unwrap() - total).abs() < 1e-6);
        assert!((progress.total(&then).unwrap() - 2.8).abs() < 1e-6);
        let gain = progress.gain(&now, &then, 0.95).unwrap();
        assert!((gain.value - 2.8 / total).abs() < 1e-6);
        // A trial moves what one task keeps by ln 2 / 2 of it, and with it the total by 2 / sqrt 8
        // / total of that.
        let spread = 2f64.ln() / 2.0 * (4.0f64 / 3.0).sqrt() * (total - 1.0) / total;
        assert!((gain.spread - spread).abs() < 1e-6, "{gain:?}, {spread}");
        assert_eq!(progress.total(&assignment(&[(0, 7)], None)), None);
        assert_eq!(
            progress.total_estimate(&assignment(&[(0, 7)], None), 0.95),
            Err(NotEstimable::NothingMeasured)
        );
    }

    // Windows that scatter by a factor of three to either side, without interference: sums made
    // within each trial would come to 5.7 of 4.
    #[test]
    fn noise_alone_makes_no_progress_beyond_what_is_possible() {
        let question = question(&[CHASE, "mcf", "alu", "stream"], None).unwrap();
        let kinds = question.kinds().unwrap();
        let plan = plan_of(&question.screening(&kinds));
        let wild =
            |a: usize, b: usize, trial: u32| ((noise(7, a, b, trial) - 1.0) / 0.05 * 2.0).exp();
        let samples = samples(&plan, 400, &wild);
        let progress = Progress::new(&plan, &samples).unwrap();
        for pairs in [[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]] {
            let assignment = Assignment { pairs: pairs.into(), alone: None };
            let total = progress.total_estimate(&assignment, 0.95).unwrap();
            assert!(total.contains(4.0) && total.value < 4.4, "{total:?}");
        }
    }

    #[test]
    fn a_task_that_stands_still_has_no_progress_and_one_that_never_moves_no_figure() {
        let question = question(&[CHASE, CHASE, "alu", "alu"], None).unwrap();
        let kinds = question.kinds().unwrap();
        let plan = plan_of(&question.screening(&kinds));
        let stuck =
            samples(&plan, 4, &|a, b, _| if (a, b) == (0, 0) { f64::INFINITY } else { 1.0 });
        let progress = Progress::new(&plan, &stuck).unwrap();
        let pairs = |pairs: &[(usize, usize)]| Assignment { pairs: pairs.into(), alone: None };
        assert_eq!(progress.total(&pairs(&[(0, 0)])), Some(0.0));
        assert!(matches!(
            progress.gain(&pairs(&[(0, 0)]), &pairs(&[(1, 1)]), 0.95),
            Err(NotEstimable::Stalled { .. })
        ));
        let outcome = Outcome::new(&question, &kinds, (&plan, &stuck), None);
        assert_eq!(outcome.advice.unwrap().assignment.written(), "1+3,2+4");

        let mut dead = stuck;
        dead.iter_mut().for_each(|sample| sample.units = 0);
        let outcome = Outcome::new(&question, &kinds, (&plan, &dead), None);
        assert!(matches!(
            outcome.verdict,
            Verdict::NotEstimable { reason: NotEstimable::Stalled { .. } }
        ));
    }

    #[test]
    fn tasks_of_known_conflict_are_parted_each_time() {
        for seed in 0..20 {
            for (present, verdict) in
                [(None, Verdict::Change), (Some("1+3,2+4"), Verdict::PresentIsBest)]
            {
                let question = question(&[CHASE, CHASE, "alu", "alu"], present).unwrap();
                let harm = |a: usize, b: usize, trial: u32| {
                    noise(seed, a, b, trial) * if (a, b) == (0, 0) { 1.15 } else { 1.01 }
                };
                let outcome = outcome(&question, &harm);
                assert_eq!(outcome.verdict, verdict, "seed {seed}");
                assert_eq!(outcome.assignments, 2);
                let advice = outcome.advice.unwrap();
                assert_eq!(advice.assignment.written(), "1+3,2+4", "seed {seed}");
                if let Some(next) = advice.next {
                    assert_eq!(
                        (next.assignment.written(), next.gain.unwrap().high < 1.0),
                        ("1+2,3+4".into(), true)
                    );
                }
                if let Some(confirmed) = outcome.confirmed {
                    assert!(advice.probability.unwrap() > 0.99, "{:?}", advice.probability);
                    // Totals 2 / 1.15 + 2 / 1.01 now, 4 / 1.01 then: about 6.5 % more.
                    let truth = 4.0 / 1.01 / (2.0 / 1.15 + 2.0 / 1.01);
                    let gain = confirmed.gain.unwrap();
                    assert!((gain.value / truth - 1.0).abs() < 0.02, "{gain:?}, {truth}");
                }
            }
        }
    }

    #[test]
    fn tasks_that_do_not_differ_have_nothing_to_gain() {
        for seed in 0..20 {
            let question = question(&[CHASE, "mcf", "alu", "stream"], None).unwrap();
            let outcome = outcome(&question, &|a, b, trial| 1.02 * noise(seed, a, b, trial));
            let kept =
                [Verdict::NoGain, Verdict::NoGainByIt, Verdict::NoRoom, Verdict::PresentIsBest];
            let nothing = kept.contains(&outcome.verdict)
                || matches!(outcome.verdict, Verdict::NotShown { .. });
            assert!(nothing, "seed {seed}: {:?}", outcome.verdict);
        }
        let alike =
            outcome(&question(&["alu", " alu", "alu ", "alu"], None).unwrap(), &|_, _, _| 1.5);
        assert_eq!(
            (alike.verdict, alike.pairs.len(), alike.assignments),
            (Verdict::AllAlike, 1, 1)
        );
        let two = outcome(&question(&["alu", CHASE], None).unwrap(), &|_, _, _| 1.5);
        assert_eq!((two.verdict, two.pairs.len()), (Verdict::OnlyOne, 3));
    }

    // Whatever the noise and the number of trials: each verdict has the interval that it needs.
    #[test]
    fn no_verdict_goes_beyond_its_interval() {
        let question = question(&[CHASE, "mcf", "alu", "stream"], None).unwrap();
        let kinds = question.kinds().unwrap();
        let screen = plan_of(&question.screening(&kinds));
        let mut seen = [0; 4];
        for seed in 0..120 {
            let trials = [2, 3, 4, 6, 20][seed as usize % 5];
            let width = [0.02, 0.3, 3.0][seed as usize / 5 % 3];
            let harm = |a: usize, b: usize, trial: u32| {
                ((noise(seed, a, b, trial) - 1.0) / 0.05 * width).exp()
            };
            let first =
                Outcome::new(&question, &kinds, (&screen, &samples(&screen, trials, &harm)), None);
            let advice = first.advice.as_ref().unwrap();
            let gains = advice.next.as_ref().map_or(&advice.gain, |next| &next.gain);
            match &first.verdict {
                Verdict::PresentIsBest | Verdict::NoRoom => {
                    assert!(
                        trials >= 4 && advice.room.unwrap() <= 1.0 + first.margin,
                        "seed {seed}: {advice:?}"
                    );
                    seen[0] += 1;
                }
                Verdict::NotShown { trials_needed, seconds } => {
                    assert!(
                        gains.unwrap().high > 1.0 + first.margin
                            && gains.unwrap().low <= 1.0 + first.margin
                    );
                    // These windows all begin at once.
                    assert!(
                        trials_needed.is_none_or(|needed| needed > trials) && seconds.is_none()
                    );
                    seen[1] += 1;
                }
                Verdict::NotEstimable { reason } => {
                    assert!(gains.is_err() || advice.gain.is_err());
                    assert!(trials >= 4 || *reason == NotEstimable::TooFewTrials { trials });
                    seen[2] += 1;
                }
                Verdict::CutShort => {
                    assert!(
                        advice.next.is_none() && advice.gain.unwrap().high > 1.0 + first.margin
                    );
                    seen[3] += 1;
                }
                other => panic!("{other:?} without fresh trials"),
            }
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }

    #[test]
    fn what_it_would_take_is_told_in_time() {
        let of = |starts: &[(u32, u64)]| -> Option<f64> {
            let question = question(&[CHASE, "alu"], None).unwrap();
            let plan = plan_of(&question.screening(&question.kinds().unwrap()));
            let one = samples(&plan, 1, &|_, _, _| 1.0).swap_remove(0);
            let samples: Vec<Sample> = starts
                .iter()
                .map(|(trial, ms)| Sample {
                    trial: *trial,
                    start_ns: ms * 1_000_000,
                    ..one.clone()
                })
                .collect();
            outcome::trial_seconds(&samples)
        };
        let close =
            |found: Option<f64>, seconds: f64| assert!((found.unwrap() - seconds).abs() < 1e-9);
        close(of(&[(0, 0), (0, 50), (1, 200), (2, 400), (3, 900)]), 0.2);
        // What was resumed counts from zero again.
        close(of(&[(0, 0), (1, 300), (2, 0), (3, 300)]), 0.3);
        assert_eq!((of(&[(0, 5)]), of(&[])), (None, None));
    }

    #[test]
    fn with_an_odd_number_the_one_that_suffers_most_runs_alone() {
        let question = question(&["alu", CHASE, "mcf"], None).unwrap();
        let harm = |a: usize, b: usize, _| if a == 1 || b == 1 { 2.0 } else { 1.0 };
        let outcome = outcome(&question, &harm);
        assert_eq!(outcome.present.written(), "1+2,3");
        let advice = outcome.advice.unwrap();
        assert_eq!(advice.assignment.written(), "1+3,2");
        let [total, present] =
            [advice.total, advice.present_total].map(|total| total.unwrap().value);
        assert!((total - 3.0).abs() < 1e-6 && (present - 2.0).abs() < 1e-6);
        assert_eq!(outcome.verdict, Verdict::Change);
    }

    #[test]
    fn the_best_is_found_among_all_of_ten() {
        // Task i bears only its opposite: 1+10, 2+9, ...
        let texts: Vec<String> =
            (1..=10).map(|size| format!("chase footprint={size}MiB")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let outcome = outcome(&question(&texts, None).unwrap(), &|a, b, _| {
            if a + b == 9 { 1.0 } else { 1.1 }
        });
        assert_eq!(outcome.assignments, 945);
        assert_eq!(outcome.advice.unwrap().assignment.written(), "1+10,2+9,3+8,4+7,5+6");
    }

    fn record(dir: PathBuf, plan: &Plan, samples: &[Sample], ended: &Ended) {
        let mut recorder = Recorder::create(&dir, plan, &serde_json::json!({})).unwrap();
        let steps = sample::steps(samples);
        steps.for_each(|step| recorder.append(step).unwrap());
        recorder.finish(ended).unwrap();
    }

    #[test]
    fn a_folder_tells_its_outcome_again() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).unwrap().is_none());
        let question = question(&[CHASE, CHASE, "alu", "alu"], None).unwrap();
        let kinds = question.kinds().unwrap();
        let harm = |a: usize, b: usize, _| if (a, b) == (0, 0) { 1.2 } else { 1.01 };
        Kept::new(question::FILE, &question).write(dir.path()).unwrap();
        is_ours_or_empty(&question, dir.path()).unwrap();
        let other = Question { seed: 2, ..question.clone() };
        let refused = is_ours_or_empty(&other, dir.path()).unwrap_err().to_string();
        assert!(refused.contains("contains another question"), "{refused}");

        let screen = plan_of(&question.screening(&kinds));
        let screened = samples(&screen, 20, &harm);
        record(dir.path().join(SCREEN), &screen, &screened, &Ended::Time);
        let (stored, part) = read(dir.path()).unwrap().unwrap();
        assert_eq!(stored, question);
        assert!(part.wants_confirmation() && part.ended_early.is_some());

        let whole = outcome(&question, &harm);
        let confirm =
            plan_of(&question.confirming(&kinds, &whole.advice.as_ref().unwrap().assignment));
        record(dir.path().join(CONFIRM), &confirm, &samples(&confirm, 20, &harm), &Ended::Time);
        let (_, again) = read(dir.path()).unwrap().unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&whole).unwrap());

        let path = dir.path().join(question::FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to, part) in [
            ("\"schema\": 2", "\"schema\": 9", "schema 9 is not known"),
            ("\"tasks\"", "\"taks\"", "restore the original"),
            ("\"alu\"", "\"chase footprint=1\"", "too small"),
            ("\"alone\": null", "\"alone\": 3", "not an assignment"),
            ("{", "", "restore the original"),
        ] {
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = read(dir.path()).err().unwrap().to_string();
            assert!(error.contains(part), "{to}: {error}");
        }
        std::fs::write(&path, text.replace("\"pair\"", "\"prove\"")).unwrap();
        assert!(read(dir.path()).unwrap().is_none());
    }

    #[test]
    fn a_folder_of_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine"), "x").unwrap();
        let question = question(&[CHASE, "alu"], None).unwrap();
        assert!(is_ours_or_empty(&question, dir.path()).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_machine_cannot_hold_is_refused_beforehand() {
        let machine = ringfence_machine::Machine::examine(&fixtures::one_cpu().root()).unwrap();
        let question = question(&[CHASE, "alu"], None).unwrap();
        let kinds = question.kinds().unwrap();
        let error =
            can_be_run(&question.screening(&kinds), &machine, &kinds).unwrap_err().to_string();
        assert!(
            error.contains("cannot be run here, because neighbour needs another core"),
            "{error}"
        );
        assert!(error.ends_with("(A is 'chase footprint=64MiB', B is 'alu')"), "{error}");
    }
}
