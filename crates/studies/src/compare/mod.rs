//! One experiment measured twice, on two machines, kernels or days: what differs, cell by cell.
//!
//! A cell is a case that both datasets have. Where cases have a baseline, their slowdowns are
//! compared, else their costs; the change is `after / before` of that figure, with Welch's interval
//! over the trials of both. All cells' intervals hold together: the error allowed is divided by
//! their number, and by the looks at which either dataset might have stopped.

mod cells;
mod comparison;
mod settings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_dataset::Dataset;
use ringfence_experiment::{Experiment, Measure};

pub use comparison::{Cell, CompareError, Comparison, Figure, Missing, Side, Trials};
pub use settings::Difference;

/// Compares two datasets.
///
/// # Errors
/// Where they are not of one experiment, or have no case in common that was measured in both.
pub fn compare(before: &Dataset, after: &Dataset) -> Result<Comparison, CompareError> {
    compare_as(before, after, Trials::Apart)
}

/// Compares two datasets whose trials belong together, or not.
///
/// # Errors
/// As [`compare`].
pub fn compare_as(
    before: &Dataset,
    after: &Dataset,
    trials: Trials,
) -> Result<Comparison, CompareError> {
    let simulated =
        |dataset: &Dataset| dataset.samples.iter().any(|sample| sample.simulated == Some(true));
    if simulated(before) != simulated(after) {
        return Err(CompareError(
            "these cannot be compared: one was simulated, the other measured".into(),
        ));
    }
    same_question(&before.plan.experiment, &after.plan.experiment).map_err(CompareError)?;
    let (one, other) = (&before.plan.experiment.measure, &after.plan.experiment.measure);
    let confidence = one.confidence.0.max(other.confidence.0);
    let margin = one.margin.0.max(other.margin.0);
    let looks = looks(one) * looks(other);
    let matched = cells::matched(&before.plan, &after.plan);
    if matched.is_empty() {
        return Err(CompareError(cells::why_nothing_matches(&before.plan, &after.plan)));
    }
    let figures = cells::figures(&before.plan, &after.plan, &matched, trials);
    let level = 1.0 - (1.0 - confidence) / (figures.len() * looks) as f64;
    let cells = cells::cells(before, after, &figures, trials, (confidence, level, margin));
    let missing = cells::missing(&before.plan, &after.plan);
    Ok(Comparison {
        name: before.manifest.name.clone(),
        question: before.manifest.question.clone(),
        simulated: simulated(before),
        differences: settings::differences(before, after),
        cells,
        missing,
        confidence,
        level,
        looks,
        margin,
    })
}

// How many looks there are at which an experiment might end for what it has seen.
fn looks(measure: &Measure) -> usize {
    if measure.precision.is_some() { measure.looks.len() } else { 1 }
}

// Tasks and arms are looked at case by case; the rest must be the same for any.
fn same_question(one: &Experiment, other: &Experiment) -> Result<(), String> {
    if one.metric != other.metric {
        return Err(format!(
            "these cannot be compared: one measures the rate of '{}', the other that of '{}'",
            one.metric, other.metric
        ));
    }
    let (a, b) = (&one.measure, &other.measure);
    if a.quantity != b.quantity {
        return Err(format!(
            "these cannot be compared: one measures the {} of latencies, the other the {}; repeat \
             one with the other's experiment.toml",
            a.quantity, b.quantity
        ));
    }
    for (what, a, b) in
        [("windows", a.length(), b.length()), ("settling times", a.settle, b.settle)]
    {
        if a != b {
            return Err(format!(
                "these cannot be compared: their {what} differ, {a} and {b}; repeat one with the \
                 other's experiment.toml"
            ));
        }
    }
    match (one.aa.is_some(), other.aa.is_some()) {
        (true, false) | (false, true) => Err(
            "these cannot be compared: only one of them is an A/A experiment, which counts false \
             alarms"
                .into(),
        ),
        _ => Ok(()),
    }
}

/// What there is to compare in two folders, each with the name by which they were matched (empty
/// for two datasets).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The folder's name below both.
    pub name: String,
    /// The first dataset.
    pub before: PathBuf,
    /// The second.
    pub after: PathBuf,
}

/// The datasets of two folders, matched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matched {
    /// Those that both have.
    pub both: Vec<Match>,
    /// Names that only one has, with the side that lacks it.
    pub alone: Vec<(Side, String)>,
}

/// Matches the datasets of two folders as [`ringfence_dataset::list`] gives them: two datasets with
/// each other, those of two surveys by the names of their folders.
///
/// # Errors
/// For a dataset and a survey, and for surveys without a common name.
pub fn match_folders(
    (before_dir, before): (&Path, &[PathBuf]),
    (after_dir, after): (&Path, &[PathBuf]),
) -> Result<Matched, CompareError> {
    let is_one = |dir: &Path, found: &[PathBuf]| found == [dir];
    match (is_one(before_dir, before), is_one(after_dir, after)) {
        (true, true) => {
            let only =
                Match { name: String::new(), before: before_dir.into(), after: after_dir.into() };
            return Ok(Matched { both: vec![only], alone: Vec::new() });
        }
        (false, false) => {}
        (one, _) => {
            let (dataset, folder) =
                if one { (before_dir, after_dir) } else { (after_dir, before_dir) };
            return Err(CompareError(format!(
                "{} is one dataset and {} holds several: name one of these",
                dataset.display(),
                folder.display()
            )));
        }
    }
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let by_name: BTreeMap<String, &PathBuf> =
        after.iter().filter_map(|path| Some((name(path)?, path))).collect();
    let mut matches = Vec::new();
    let mut alone = Vec::new();
    for path in before {
        let name = name(path).unwrap_or_default();
        match by_name.get(&name) {
            Some(other) => {
                matches.push(Match { name, before: path.clone(), after: (*other).clone() });
            }
            None => alone.push((Side::After, name)),
        }
    }
    let known: Vec<String> = before.iter().filter_map(name).collect();
    alone.extend(
        by_name.into_keys().filter(|name| !known.contains(name)).map(|name| (Side::Before, name)),
    );
    if matches.is_empty() {
        return Err(CompareError(format!(
            "{} and {} have no dataset of the same name: name two datasets",
            before_dir.display(),
            after_dir.display()
        )));
    }
    Ok(Matched { both: matches, alone })
}

#[cfg(test)]
mod tests {
    use ringfence_analysis::estimate::Verdict;
    use ringfence_dataset::Recorder;
    use ringfence_experiment::class::Class;
    use ringfence_experiment::ended::Ended;
    use ringfence_experiment::plan::{self, Plan};
    use ringfence_experiment::sample::Sample;
    use ringfence_machine::Machine;
    use ringfence_machine::fixtures::{self, FixtureTree};

    use super::*;

    const TEXT: &str = "
schema = 2
name = 'beside'
question = 'Who disturbs whom?'
metric = 'victim'
measure = { looks = [8], rounds = 2 }
[[role]]
name = 'victim'
task = { workload = 'chase' }
[[role]]
name = 'aggressor'
task = { workload = 'write', instruction = ['clflush', 'none'] }
[[arm]]
name = 'alone'
active = ['victim']
[[arm]]
name = 'beside'
active = ['victim', 'aggressor']
baseline = 'alone'
[[arm]]
name = 'cost'
active = ['victim']
";

    /// A dataset as if measured on that machine: ns per unit by arm and label, with a noise of 1 %.
    fn dataset(
        text: &str,
        tree: &FixtureTree,
        seed: u32,
        ns: impl Fn(&str, &str) -> f64,
    ) -> Dataset {
        let machine = Machine::examine(&tree.root()).unwrap();
        let mut plan = Plan::new(
            &Experiment::parse(text).unwrap(),
            &machine.topology,
            machine.features.as_ref(),
        )
        .unwrap();
        // Whatever processor the test runs on has what it takes.
        plan.not_run.retain(|not_run| !not_run.reason.contains("processor"));
        let dir = tempfile::tempdir().unwrap();
        let mut recorder =
            Recorder::create(dir.path(), &plan, &serde_json::to_value(&machine).unwrap()).unwrap();
        let trials = *plan.experiment.measure.looks.last().unwrap();
        for trial in 0..trials {
            for (round, steps) in plan::trial(&plan, trial).rounds.into_iter().enumerate() {
                for (number, step) in steps.into_iter().enumerate() {
                    let samples: Vec<Sample> = step
                        .windows
                        .iter()
                        .enumerate()
                        .map(|(position, &case)| {
                            let of = &plan.cases[case];
                            let place =
                                trial * 31 + round as u32 * 7 + number as u32 * 3 + position as u32;
                            let noise =
                                f64::from((place + seed).wrapping_mul(2_654_435_761) % 2001) / 1e5;
                            Sample {
                                trial,
                                round: round as u32,
                                step: number as u32,
                                position: position as u32,
                                step_case: step.case as u32,
                                case: case as u32,
                                role: plan.experiment.metric.as_str().into(),
                                cpu: 2,
                                class: Class::Sharing,
                                ping_before_ns: Some(100.0),
                                ping_after_ns: Some(100.0),
                                length_ns: 20_000_000,
                                busy_ns: 20_000_000,
                                units: (2e7 / ns(&of.arm, &of.label) * (0.99 + noise)) as u64,
                                ..Sample::default()
                            }
                        })
                        .collect();
                    recorder.append(&samples).unwrap();
                }
            }
        }
        recorder.finish(&Ended::Complete).unwrap();
        Dataset::open(dir.path()).unwrap()
    }

    fn change(cell: &Cell) -> (Verdict, f64) {
        (cell.change.verdict, cell.change.slowdown.unwrap().value)
    }

    #[test]
    fn every_cell_gets_the_ratio_of_its_own_figure() {
        let xeon = fixtures::xeon_2s64t();
        // The second machine takes twice as long for everything, and clflush disturbs 1.5 times as
        // much.
        let before =
            dataset(TEXT, &xeon, 1, |_, label| if label == "clflush" { 12.0 } else { 10.0 });
        let after =
            dataset(TEXT, &xeon, 2, |_, label| if label == "clflush" { 36.0 } else { 20.0 });
        let found = compare(&before, &after).unwrap();
        assert_eq!((found.cells.len(), found.missing.len(), found.looks), (3, 0, 1));
        assert!((found.level - (1.0 - 0.05 / 3.0)).abs() < 1e-12);
        let [clflush, none, cost] = &found.cells[..] else { panic!("{found:?}") };
        assert_eq!((clflush.figure, clflush.label.as_str()), (Figure::Slowdown, "clflush"));
        let (verdict, ratio) = change(clflush);
        assert!(verdict == Verdict::Slower && (ratio - 1.5).abs() < 0.02, "{clflush:?}");
        // The other's slowdown is what it was, although everything takes longer.
        let (verdict, ratio) = change(none);
        assert!(verdict != Verdict::Slower && (ratio - 1.0).abs() < 0.02, "{none:?}");
        assert!(
            (none.before.unwrap().value - 1.0).abs() < 0.02
                && (none.after.unwrap().value - 1.0).abs() < 0.02
        );
        assert_eq!((cost.figure, cost.arm.as_str()), (Figure::Cost, "cost"));
        let (verdict, ratio) = change(cost);
        assert!(verdict == Verdict::Slower && (ratio - 2.0).abs() < 0.03, "{cost:?}");
        assert_eq!(cost.change.slowdown.unwrap().trials, 8);
        // On one machine nothing differs but the time.
        assert!(
            found.differences.iter().all(|difference| difference.what == "date"),
            "{:?}",
            found.differences
        );
    }

    #[test]
    fn what_differs_besides_is_named() {
        let before = dataset(TEXT, &fixtures::xeon_2s64t(), 1, |_, _| 10.0);
        let zen = fixtures::zen_multi_llc();
        zen.write("/proc/sys/kernel/osrelease", "6.1.0-other\n");
        let after = dataset(TEXT, &zen, 1, |_, _| 10.0);
        let found = compare(&before, &after).unwrap();
        let find = |what: &str| {
            found.differences.iter().find(|d| d.what == what).unwrap_or_else(|| panic!("{what}"))
        };
        assert_eq!(find("kernel").after, "6.1.0-other");
        assert!(
            find("processor").before.contains("5218") && find("processor").after.contains("7513")
        );
        let place = find("where aggressor runs");
        assert_eq!(place.before, "CPU 4, under the same last-level cache");
        assert_eq!(place.after, "CPU 2, under the same last-level cache");
        assert!(!found.differences.iter().any(|d| d.what == "cores in use" || d.what == "program"));
    }

    #[test]
    fn looks_at_which_one_might_have_stopped_cost_their_share() {
        let text = TEXT.replace("looks = [8]", "looks = [4, 8], precision = '1%'");
        let stopping = dataset(&text, &fixtures::xeon_2s64t(), 1, |_, _| 10.0);
        let plain = dataset(TEXT, &fixtures::xeon_2s64t(), 1, |_, _| 10.0);
        let levels = [(&plain, &plain, 1), (&plain, &stopping, 2), (&stopping, &stopping, 4)];
        for (one, other, looks) in levels {
            let found = compare(one, other).unwrap();
            assert_eq!(found.looks, looks);
            assert!((found.level - (1.0 - 0.05 / (3 * looks) as f64)).abs() < 1e-12);
        }
    }

    #[test]
    fn cases_that_one_lacks_are_listed_with_the_reason() {
        let before = dataset(TEXT, &fixtures::xeon_2s64t(), 1, |_, _| 10.0);
        let after = dataset(TEXT, &fixtures::one_cpu(), 1, |_, _| 10.0);
        let found = compare(&before, &after).unwrap();
        assert_eq!(found.cells.len(), 1);
        assert!(found.missing.iter().all(|missing| missing.missing_from == Side::After));
        let reasons: Vec<_> =
            found.missing.iter().filter_map(|missing| missing.reason.as_deref()).collect();
        assert_eq!(reasons, ["aggressor needs another core beside victim, and there is none"; 2]);
    }

    #[test]
    fn what_cannot_be_compared_is_refused_in_a_sentence() {
        let tree = fixtures::xeon_2s64t();
        let before = dataset(TEXT, &tree, 1, |_, _| 10.0);
        let renamed = TEXT
            .replace("'alone'", "'solo'")
            .replace("'beside'", "'with'")
            .replace("'cost'", "'c'");
        let cases = [
            (TEXT.replace("rounds = 2", "window = '40ms'"), "windows differ, 20ms and 40ms"),
            (renamed, "no arm in common"),
            (TEXT.replace("'chase'", "'alu'"), "'victim' runs different tasks"),
            (
                TEXT.replace("'victim'", "'other'"),
                "the rate of 'victim', the other that of 'other'",
            ),
            (TEXT.replace("metric =", "aa = 4\nmetric ="), "only one of them is an A/A experiment"),
        ];
        for (text, part) in cases {
            let error = compare(&before, &dataset(&text, &tree, 1, |_, _| 10.0))
                .expect_err(part)
                .to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
        let fence = TEXT.replace("'clflush', 'none'", "'clwb'");
        let other = dataset(&fence, &tree, 1, |_, _| 10.0);
        assert_eq!(compare(&before, &other).unwrap().cells.len(), 1, "the cost is common to both");
    }

    #[test]
    fn folders_are_matched_by_name() {
        let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect::<Vec<_>>();
        let (a, b) = (Path::new("a"), Path::new("b"));
        let one = match_folders((a, &paths(&["a"])), (b, &paths(&["b"]))).unwrap();
        assert_eq!(
            one.both,
            [Match { name: String::new(), before: "a".into(), after: "b".into() }]
        );
        let surveys =
            match_folders((a, &paths(&["a/cost", "a/mcf"])), (b, &paths(&["b/alu", "b/cost"])))
                .unwrap();
        assert_eq!(
            surveys.both,
            [Match { name: "cost".into(), before: "a/cost".into(), after: "b/cost".into() }]
        );
        assert_eq!(
            surveys.alone,
            [(Side::After, "mcf".to_string()), (Side::Before, "alu".to_string())]
        );
        for (before, after) in [(["a"], ["b/cost"]), (["a/cost"], ["b"])] {
            let error =
                match_folders((a, &paths(&before)), (b, &paths(&after))).unwrap_err().to_string();
            assert!(error.contains("one dataset") && error.contains("holds several"), "{error}");
        }
        let error =
            match_folders((a, &paths(&["a/x"])), (b, &paths(&["b/y"]))).unwrap_err().to_string();
        assert!(error.contains("no dataset of the same name"), "{error}");
    }
}
