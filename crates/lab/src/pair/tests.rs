use std::path::PathBuf;

use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;

use super::*;
use crate::dataset::Recorder;
use crate::estimate::{Class, NotEstimable};
use crate::experiment::{Measure, PlacementKind};
use crate::plan;
use crate::sample::Sample;

const CHASE: &str = "chase footprint=64MiB";

fn question(tasks: &[&str], present: Option<&str>) -> Result<Question, String> {
    let tasks: Vec<String> = tasks.iter().map(|task| task.to_string()).collect();
    let measure = Measure { looks: vec![20], blocks: 1, ..Measure::default() };
    Question::new(&tasks, present, PlacementKind::Llc, 1, [measure.clone(), measure])
}

fn plan_of(experiment: &Experiment) -> Plan {
    Plan::new(experiment, &Topology::read(&fixtures::vm_2cpu().root()).unwrap()).unwrap()
}

// How much longer a task takes beside another, by their kinds, in a life.
type Harm<'a> = &'a dyn Fn(usize, usize, u32) -> f64;

fn samples(plan: &Plan, lives: u32, harm: Harm) -> Vec<Sample> {
    let mut all = Vec::new();
    for life in 0..lives {
        for (block, steps) in plan::life(plan, life).blocks.into_iter().enumerate() {
            for (number, step) in steps.into_iter().enumerate() {
                for (position, &case) in step.windows.iter().enumerate() {
                    let active = &plan.cases[case].active;
                    let kind = |role: usize| {
                        let of_role = active.iter().find(|active| active.role == role)?;
                        Some(plan.variants[role][of_role.variant].table)
                    };
                    let slower = kind(1).map_or(1.0, |neighbour| harm(kind(0).unwrap(), neighbour, life));
                    all.extend(active.iter().map(|active| Sample {
                        life,
                        block: block as u32,
                        step: number as u32,
                        position: position as u32,
                        step_case: step.case as u32,
                        case: case as u32,
                        role: plan.experiment.roles[active.role].name.as_str().into(),
                        instance: 0,
                        cpu: active.role as u32,
                        class: Class::Sharing,
                        ping_before_ns: Some(100.0),
                        ping_after_ns: Some(100.0),
                        start_ns: 0,
                        length_ns: 10_000_000,
                        busy_ns: 10_000_000,
                        units: if active.role == 0 { (1e9 / slower) as u64 } else { 5 },
                        cycles: None,
                        instructions: None,
                        llc_misses: None,
                        latencies: None,
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
    let confirm = plan_of(&question.confirming(&kinds, &first.advice.as_ref().unwrap().assignment));
    let confirmed = samples(&confirm, 20, &|a, b, life| harm(a, b, life + 1000));
    Outcome::new(question, &kinds, (&screen, &screened), Some((&confirm, &confirmed)))
}

// About +-5 %, other for every seed, life and pair.
fn noise(seed: u32, a: usize, b: usize, life: u32) -> f64 {
    let mix = (seed * 7919 + life * 104_729 + (a * 31 + b) as u32 * 1_299_709).wrapping_mul(2_654_435_761);
    1.0 + (f64::from(mix >> 8) / f64::from(1 << 24) - 0.5) * 0.1
}

#[test]
fn every_pair_is_measured_from_both_sides_and_confirmed_without_the_rest() {
    let question = question(&[CHASE, "alu", "mcf", CHASE, "stream"], Some("1+4,2+3,5")).unwrap();
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
    assert_eq!(plan.variants[0][case.active[0].variant].task, kinds[0].task);
    assert_eq!(plan.variants[1][case.active[1].variant].task, kinds[1].task);
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
        (&["alu"][..], None, "1 given: there must be 2 to 10 tasks"),
        (&["alu"; 11], None, "11 given: there must be 2 to 10 tasks"),
        (&["alu", "chase footprint=1MiB,2MiB"], None, "lists are several tasks"),
        (&["alu", "idle"], None, "leave it out"),
        (&["alu", "wirte block=4KiB"], None, "did you mean 'write'"),
        (&["alu", "chase footprint=1"], None, "too small"),
        (&["alu", "mcf", "stream"], Some("1+2"), "--present: '1+2' is no assignment of 3 tasks"),
    ] {
        let error = question(tasks, present).unwrap_err();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn totals_are_made_within_a_life() {
    let question = question(&[CHASE, CHASE, "alu"], None).unwrap();
    let kinds = question.kinds().unwrap();
    let plan = plan_of(&question.screening(&kinds));
    // Two lives: beside its like a chase takes 2 and 4 times as long, beside alu 1.25 times; alu unmoved.
    let harm = |a: usize, b: usize, life: u32| match (a, b) {
        (0, 0) => 2.0 * f64::from(life + 1),
        (0, 1) => 1.25,
        _ => 1.0,
    };
    let mut samples = samples(&plan, 3, &harm);
    // The last life is cut short, and is not counted.
    let cut = samples.iter().position(|sample| sample.life == 2).unwrap();
    samples.truncate(cut + 3);
    let progress = Progress::new(&plan, &samples).unwrap();
    assert_eq!(progress.lives(), 2);
    let close = |totals: Option<Vec<f64>>, expected: [f64; 2]| {
        let totals = totals.unwrap();
        assert!(totals.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{totals:?} {expected:?}");
    };
    let assignment = |pairs: &[(usize, usize)], alone| Assignment { pairs: pairs.into(), alone };
    let (now, then) = (assignment(&[(0, 0)], Some(1)), assignment(&[(0, 1)], Some(0)));
    close(progress.totals(&now), [1.0 + 0.5 + 0.5, 1.0 + 0.25 + 0.25]);
    close(progress.totals(&then), [1.0 + 0.8 + 1.0, 2.8]);
    // Per life 2.8 / 2 and 2.8 / 1.5.
    let gain = progress.gain(&now, &then, 0.95).unwrap();
    assert!((gain.value - (1.4f64 * 2.8 / 1.5).sqrt()).abs() < 1e-6);
    assert_eq!(progress.totals(&assignment(&[(0, 7)], None)), None);
}

#[test]
fn a_task_that_stands_still_has_no_progress_and_one_that_never_moves_no_figure() {
    let question = question(&[CHASE, CHASE, "alu", "alu"], None).unwrap();
    let kinds = question.kinds().unwrap();
    let plan = plan_of(&question.screening(&kinds));
    let stuck = samples(&plan, 4, &|a, b, _| if (a, b) == (0, 0) { f64::INFINITY } else { 1.0 });
    let progress = Progress::new(&plan, &stuck).unwrap();
    let pairs = |pairs: &[(usize, usize)]| Assignment { pairs: pairs.into(), alone: None };
    assert_eq!(progress.totals(&pairs(&[(0, 0)])), Some(vec![0.0; 4]));
    assert!(matches!(
        progress.gain(&pairs(&[(0, 0)]), &pairs(&[(1, 1)]), 0.95),
        Err(NotEstimable::Stalled { .. })
    ));
    let outcome = Outcome::new(&question, &kinds, (&plan, &stuck), None);
    assert_eq!(outcome.advice.unwrap().assignment.written(), "1+3,2+4");

    let mut dead = stuck;
    dead.iter_mut().for_each(|sample| sample.units = 0);
    let outcome = Outcome::new(&question, &kinds, (&plan, &dead), None);
    assert!(matches!(outcome.verdict, Verdict::NotEstimable { reason: NotEstimable::Stalled { .. } }));
}

#[test]
fn tasks_of_known_conflict_are_parted_each_time() {
    for seed in 0..20 {
        for (present, verdict) in [(None, Verdict::Change), (Some("1+3,2+4"), Verdict::PresentIsBest)] {
            let question = question(&[CHASE, CHASE, "alu", "alu"], present).unwrap();
            let harm = |a: usize, b: usize, life: u32| {
                noise(seed, a, b, life) * if (a, b) == (0, 0) { 1.15 } else { 1.01 }
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
        let outcome = outcome(&question, &|a, b, life| 1.02 * noise(seed, a, b, life));
        let nothing = [Verdict::NoGain, Verdict::NoRoom, Verdict::PresentIsBest].contains(&outcome.verdict)
            || matches!(outcome.verdict, Verdict::NotShown { .. });
        assert!(nothing, "seed {seed}: {:?}", outcome.verdict);
    }
    let alike = outcome(&question(&["alu", " alu", "alu ", "alu"], None).unwrap(), &|_, _, _| 1.5);
    assert_eq!((alike.verdict, alike.pairs.len(), alike.assignments), (Verdict::AllAlike, 1, 1));
    let two = outcome(&question(&["alu", CHASE], None).unwrap(), &|_, _, _| 1.5);
    assert_eq!((two.verdict, two.pairs.len()), (Verdict::OnlyOne, 3));
}

#[test]
fn with_an_odd_number_the_one_that_suffers_most_runs_alone() {
    let question = question(&["alu", CHASE, "mcf"], None).unwrap();
    let harm = |a: usize, b: usize, _| if a == 1 || b == 1 { 2.0 } else { 1.0 };
    let outcome = outcome(&question, &harm);
    assert_eq!(outcome.present.written(), "1+2,3");
    let advice = outcome.advice.unwrap();
    assert_eq!(advice.assignment.written(), "1+3,2");
    assert!((advice.total - 3.0).abs() < 1e-6 && (advice.present_total - 2.0).abs() < 1e-6);
    assert_eq!(outcome.verdict, Verdict::Change);
}

#[test]
fn the_best_is_found_among_all_of_ten() {
    // Task i bears only its opposite: 1+10, 2+9, ...
    let texts: Vec<String> = (1..=10).map(|size| format!("chase footprint={size}MiB")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let outcome = outcome(&question(&texts, None).unwrap(), &|a, b, _| if a + b == 9 { 1.0 } else { 1.1 });
    assert_eq!(outcome.assignments, 945);
    assert_eq!(outcome.advice.unwrap().assignment.written(), "1+10,2+9,3+8,4+7,5+6");
}

fn record(dir: PathBuf, plan: &Plan, samples: &[Sample], ended: &Ended) {
    let mut recorder = Recorder::create(&dir, plan, &serde_json::json!({})).unwrap();
    let steps = samples.chunk_by(|a, b| (a.life, a.block, a.step) == (b.life, b.block, b.step));
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
    let begun = Begun::new(&question, dir.path()).unwrap();
    assert!(begun.wrote && !Begun::new(&question, dir.path()).unwrap().wrote);
    let other = Question { seed: 2, ..question.clone() };
    assert!(Begun::new(&other, dir.path()).err().unwrap().to_string().contains("holds another question"));

    let screen = plan_of(&question.screening(&kinds));
    let screened = samples(&screen, 20, &harm);
    record(dir.path().join(SCREEN), &screen, &screened, &Ended::Budget);
    let (stored, part) = read(dir.path()).unwrap().unwrap();
    assert_eq!(stored, question);
    assert!(part.wants_confirmation() && part.ended_early.is_some());

    let whole = outcome(&question, &harm);
    let confirm = plan_of(&question.confirming(&kinds, &whole.advice.as_ref().unwrap().assignment));
    record(dir.path().join(CONFIRM), &confirm, &samples(&confirm, 20, &harm), &Ended::Budget);
    let (_, again) = read(dir.path()).unwrap().unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&whole).unwrap());

    let path = dir.path().join(question::FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to, part) in [
        ("\"schema\": 1", "\"schema\": 9", "schema 9 is not known"),
        ("\"tasks\"", "\"taks\"", "restore it"),
        ("\"alu\"", "\"chase footprint=1\"", "too small"),
        ("\"alone\": null", "\"alone\": 3", "no assignment"),
        ("{", "", "restore it"),
    ] {
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let error = read(dir.path()).err().unwrap().to_string();
        assert!(error.contains(part), "{to}: {error}");
    }
    std::fs::write(&path, text.replace("\"pair\"", "\"prove\"")).unwrap();
    assert!(read(dir.path()).unwrap().is_none());
}

#[test]
fn what_cannot_be_begun_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let question = question(&[CHASE, "alu"], None).unwrap();
    let inner = dir.path().join("a/b");
    let begun = Begun::new(&question, &inner).unwrap();
    assert!(inner.join(question::FILE).exists());
    assert!(begun.keep_if(Err::<(), _>(EngineError::Failed("no".into()))).is_err());
    assert!(!dir.path().join("a").exists());
    std::fs::write(dir.path().join("mine"), "x").unwrap();
    assert!(Begun::new(&question, dir.path()).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_a_machine_cannot_hold_is_refused_beforehand() {
    let machine = ringfence_machine::Machine::examine(&fixtures::one_cpu().root()).unwrap();
    let question = question(&[CHASE, "alu"], None).unwrap();
    let kinds = question.kinds().unwrap();
    let error = can_be_run(&question.screening(&kinds), &machine, &kinds).unwrap_err().to_string();
    assert!(error.contains("cannot be run here, because neighbour needs another core"), "{error}");
    assert!(error.ends_with("(A is 'chase footprint=64MiB', B is 'alu')"), "{error}");
}
