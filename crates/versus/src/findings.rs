//! The findings, as values: for text, exports, `--json` and the folder.

use std::collections::BTreeSet;

use ringfence_analysis::estimate::{Estimate, Finding, Interval, NotEstimable, Verdict as Said};
use ringfence_experiment::Error;
use serde::{Deserialize, Serialize};

use crate::case::{Case, Setting};
use crate::estimate::{self, described};
use crate::order::Slot;
use crate::power::{self, Power};
use crate::run::{Quantity, Run, kept};
use crate::session::{Announced, Measured, Settings, Warmed, comparisons};

/// A figure with its interval, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusFigure"))]
#[serde(untagged)]
pub enum Figure {
    /// It is known.
    Known(Interval),
    /// It is not.
    Unknown {
        /// Why, in words.
        unknown: String,
        /// Why, in one word, with the numbers that belong to it.
        #[serde(flatten)]
        reason: NotEstimable,
    },
}

impl From<Estimate> for Figure {
    fn from(estimate: Estimate) -> Self {
        match estimate {
            Ok(interval) => Self::Known(interval),
            Err(reason) => Self::Unknown { unknown: reason.told(), reason },
        }
    }
}

impl Figure {
    /// As an estimate.
    pub fn estimate(&self) -> Estimate {
        match self {
            Self::Known(interval) => Ok(*interval),
            Self::Unknown { reason, .. } => Err(*reason),
        }
    }
}

/// The verdict on a comparison, or on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusVerdict"))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval lies within the budget.
    WithinBudget,
    /// The whole interval lies beyond it.
    OverBudget,
    /// Without a budget: slower.
    Slower,
    /// Faster.
    Faster,
    /// No change larger than the margin.
    NoChangeLargerThanMargin,
    /// The interval supports none of these.
    Undecided,
    /// There is no interval.
    NotEstimable,
    /// There is one command, and nothing to compare it with.
    Alone,
}

/// One command, and what its runs took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusCommand"))]
pub struct Measure {
    /// What was run.
    #[serde(flatten)]
    pub case: Case,
    /// Runs that are not warm-up.
    pub runs: u32,
    /// Of these, how many did not end with exit code 0.
    pub failures: u32,
    /// How long a run takes, ns, without the shell's start: a geometric mean over runs, of which a
    /// fifth at each end is left out.
    pub time: Figure,
    /// The same described as hyperfine does, ns; none without runs.
    pub described: Option<Plain>,
    /// Runs that are far from the others; not stored, but counted from the runs.
    #[serde(skip)]
    pub outliers: u32,
    /// Arithmetic means of everything else that was counted, without the shell's start.
    pub others: Vec<(Quantity, f64)>,
    /// Runs that left processes behind; none if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_behind: Option<LeftBehind>,
    /// `peak_memory` is never less than this, bytes, whatever the command takes: the memory of the
    /// process that starts it.
    pub memory_floor: u64,
}

/// Processes that kept running after the run that started them had ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ProcessesLeft"))]
pub struct LeftBehind {
    /// Runs, warm-up included, that left some behind.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub runs: u32,
    /// The names of the processes, each once.
    pub names: Vec<String>,
}

/// Numbers without an interval, ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusDescribed"))]
pub struct Plain {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation; none of a single run.
    pub stddev: Option<f64>,
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// Two commands of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusComparison"))]
pub struct Compared {
    /// The one that is judged.
    pub of: String,
    /// The one that it is compared with.
    pub than: String,
    /// The parameters under which both ran; empty where these are what differs.
    pub parameters: Vec<Setting>,
    /// Time of a run of the first over that of the second next to it: 1.05 is 5 % slower. A
    /// geometric mean over rounds, of which a fifth at each end is left out; `trials` are rounds.
    pub ratio: Figure,
    /// The same over all rounds, none left out.
    pub whole: Figure,
    /// Whether the latter's interval lies above the former, or above a budget that the former is
    /// not beyond: some runs of the first are much longer.
    pub rare_long_runs: bool,
    /// What the interval says.
    pub verdict: Verdict,
    /// Rounds, in all, that would settle what is undecided; none where it is settled, or absurdly
    /// many would.
    pub rounds_needed: Option<u32>,
    /// Ratios of what else was counted, which hold together as often as [`Settings::confidence`]
    /// says.
    pub others: Vec<(Quantity, Figure)>,
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusFindings"))]
pub struct Findings {
    /// The label that the user gave this run, such as a commit.
    pub label: Option<String>,
    /// The machine's name.
    pub host: String,
    /// When it began, RFC 3339.
    pub began: String,
    /// How it was measured.
    pub settings: Settings,
    /// The shell that ran the commands: none, or its command line.
    pub shell: String,
    /// How long it takes to start, ns; none without one.
    pub shell_start: Option<Figure>,
    /// The commands.
    pub commands: Vec<Measure>,
    /// The first command of each group with each of the others.
    pub comparisons: Vec<Compared>,
    /// Warm-up; none where measuring ended before it was known.
    pub warm_up: Option<Warmed>,
    /// The difference that was announced as detectable at the start.
    pub announced: Option<Announced>,
    /// What the rounds that were measured can tell, of the comparison that varies most.
    pub reached: Option<Power>,
    /// Why instructions and cycles were not counted, if they were not.
    pub not_counted: Option<String>,
    /// The verdict over all comparisons: with a budget, `over_budget` where one is, `within_budget`
    /// where all are.
    pub verdict: Verdict,
    /// Why measuring ended early, if it did.
    pub ended_early: Option<String>,
    /// Rounds, warm-up included.
    pub rounds: u32,
    /// How long it took, s.
    pub seconds: f64,
}

/// Facts other than the runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct About {
    /// As in [`Findings`].
    pub label: Option<String>,
    /// As in [`Findings`].
    pub host: String,
    /// As in [`Findings`].
    pub began: String,
    /// As in [`Findings`].
    pub shell: String,
    /// As in [`Findings`].
    pub not_counted: Option<String>,
}

/// Everything that runs say.
pub fn findings(
    cases: &[Case],
    settings: &Settings,
    about: About,
    measured: &Measured,
) -> Findings {
    let groups = groups(cases);
    let runs = &measured.runs;
    let pairs = comparisons(&groups);
    let alone = pairs.iter().all(|(a, b)| cases[*a].parameters != cases[*b].parameters);
    let compared: Vec<Compared> = (pairs.iter().zip(&measured.levels))
        .map(|((a, b), level)| compared(cases, settings, runs, (*a, *b), *level, alone))
        .collect();
    // Of a command that is compared, the time is beside the point, and has an interval of its own.
    let alone_at = measured.levels.first().filter(|_| pairs.is_empty());
    let level = alone_at.copied().unwrap_or(settings.confidence);
    let known = compared.iter().filter_map(|one| one.ratio.estimate().ok());
    let worst = known.max_by(|a, b| a.spread.total_cmp(&b.spread));
    Findings {
        label: about.label,
        host: about.host,
        began: about.began,
        settings: settings.clone(),
        shell_start: estimate::shell(runs, Quantity::Wall, level).map(Figure::from),
        shell: about.shell,
        commands: (0..cases.len()).map(|case| measure(cases, runs, case, level)).collect(),
        verdict: overall(settings, &compared),
        comparisons: compared,
        warm_up: measured.warmed,
        announced: measured.announced,
        reached: worst.map(|worst| power::of(worst.spread, worst.trials, worst.level, worst.slack)),
        not_counted: about.not_counted,
        ended_early: measured.trouble.as_ref().map(Error::to_string),
        rounds: runs.iter().map(|run| run.round).max().unwrap_or(0),
        seconds: measured.seconds,
    }
}

/// The cases of each group, by their numbers.
pub fn groups(cases: &[Case]) -> Vec<Vec<usize>> {
    let last = cases.iter().map(|case| case.group).max().map_or(0, |last| last + 1);
    let of = |group| (0..cases.len()).filter(|number| cases[*number].group == group).collect();
    (0..last).map(of).collect()
}

fn compared(
    cases: &[Case],
    settings: &Settings,
    runs: &[Run],
    (a, b): (usize, usize),
    level: f64,
    alone: bool,
) -> Compared {
    let ratio = estimate::ratio(runs, Quantity::Wall, a, b, level);
    let whole = estimate::whole(runs, a, b, level);
    let finding = Finding::new(&ratio, settings.margin);
    // Long runs that are the command's own: beyond what the figure says, or beyond the budget while
    // that is not.
    let rare = match (&ratio, &whole, settings.budget) {
        (Ok(ratio), Ok(whole), budget) => {
            let limit = budget.map_or(f64::INFINITY, |budget| 1.0 + budget);
            whole.low > ratio.high || whole.low > limit && ratio.low <= limit
        }
        _ => false,
    };
    let verdict = match (&ratio, settings.budget) {
        (Err(_), _) => Verdict::NotEstimable,
        // Rare long runs are over a budget, too, and not to be passed for what is within it.
        (Ok(interval), Some(budget)) if interval.high <= 1.0 + budget => match whole {
            Ok(whole) if rare && whole.value > 1.0 + budget => Verdict::Undecided,
            _ => Verdict::WithinBudget,
        },
        (Ok(interval), Some(budget)) if interval.low > 1.0 + budget => Verdict::OverBudget,
        (Ok(_), Some(_)) => Verdict::Undecided,
        (Ok(_), None) => match finding.verdict {
            Said::Slower => Verdict::Slower,
            Said::Faster => Verdict::Faster,
            Said::NoChangeLargerThanMargin => Verdict::NoChangeLargerThanMargin,
            _ => Verdict::Undecided,
        },
    };
    let needed = match (&ratio, verdict, settings.budget) {
        (Ok(interval), Verdict::Undecided, Some(budget)) => {
            let apart = (interval.value / (1.0 + budget)).ln().abs();
            power::rounds_within(apart, interval)
        }
        // Half a margin settles it whatever the figure.
        (Ok(interval), Verdict::Undecided, None) => {
            power::rounds_within(settings.margin.ln_1p() / 2.0, interval)
        }
        _ => None,
    };
    let all = Quantity::OTHERS.len() as f64;
    let of_others = 1.0 - (1.0 - settings.confidence) / all;
    let others = Quantity::OTHERS.into_iter().filter(|quantity| {
        // What is zero in some run has no ratio.
        let some = |case| {
            kept(runs, Slot::Case(case))
                .values()
                .all(|took| quantity.of(took).is_some_and(|n| n > 0.0))
        };
        some(a) && some(b)
    });
    Compared {
        of: cases[b].role.clone(),
        than: cases[a].role.clone(),
        parameters: if alone { Vec::new() } else { cases[b].parameters.clone() },
        rare_long_runs: rare,
        ratio: ratio.into(),
        whole: whole.into(),
        verdict,
        rounds_needed: needed,
        others: others
            .map(|quantity| (quantity, estimate::ratio(runs, quantity, a, b, of_others).into()))
            .collect(),
    }
}

fn measure(cases: &[Case], runs: &[Run], case: usize, level: f64) -> Measure {
    let mine = kept(runs, Slot::Case(case));
    let shell = kept(runs, Slot::Shell);
    let mean = |all: Vec<f64>| described(&all).map(|all| all.mean);
    let start = |quantity: Quantity| {
        let all = quantity
            .is_time()
            .then(|| shell.values().filter_map(|took| quantity.of(took)).collect());
        all.and_then(mean).unwrap_or(0.0)
    };
    let times: Vec<f64> = corrected(runs, case).collect();
    let others = Quantity::OTHERS.into_iter().filter_map(|quantity| {
        let mean = mean(mine.values().map(|took| quantity.of(took)).collect::<Option<_>>()?)?;
        Some((quantity, (mean - start(quantity)).max(0.0)))
    });
    Measure {
        case: cases[case].clone(),
        runs: mine.len() as u32,
        failures: mine.values().filter(|took| !took.succeeded()).count() as u32,
        time: estimate::time(runs, case, level).into(),
        described: described(&times).map(|one| Plain {
            mean: one.mean,
            stddev: one.stddev,
            median: one.median,
            min: one.min,
            max: one.max,
        }),
        outliers: outliers(&times),
        others: others.collect(),
        left_behind: left_behind(runs, case),
        memory_floor: mine.values().map(|took| took.memory_floor).max().unwrap_or(0),
    }
}

impl Findings {
    /// Counts outliers again, from the runs.
    pub(crate) fn count_outliers(&mut self, runs: &[Run]) {
        for (case, measure) in self.commands.iter_mut().enumerate() {
            measure.outliers = outliers(&corrected(runs, case).collect::<Vec<_>>());
        }
    }
}

/// Ten standard deviations of a normal distribution, in median absolute deviations: hyperfine's
/// threshold.
const FAR: f64 = 14.826;

// Times whose distance from the median is more than that many times the median distance.
fn outliers(times: &[f64]) -> u32 {
    let median = |all: &[f64]| described(all).map(|all| all.median);
    let Some(middle) = median(times) else { return 0 };
    let apart: Vec<f64> = times.iter().map(|time| (time - middle).abs()).collect();
    let typical = median(&apart).unwrap_or(0.0);
    match typical > 0.0 {
        true => apart.iter().filter(|apart| **apart > FAR * typical).count() as u32,
        false => 0,
    }
}

fn left_behind(runs: &[Run], case: usize) -> Option<LeftBehind> {
    let mine =
        runs.iter().filter(|run| run.slot == Slot::Case(case) && !run.took.left_behind.is_empty());
    let names: BTreeSet<&String> = mine.clone().flat_map(|run| &run.took.left_behind).collect();
    let runs = mine.count() as u32;
    (runs > 0).then(|| LeftBehind { runs, names: names.into_iter().cloned().collect() })
}

/// The times of a case's runs without the shell's start, ns, in order.
pub fn corrected(runs: &[Run], case: usize) -> impl Iterator<Item = f64> {
    let shell: Vec<f64> =
        kept(runs, Slot::Shell).values().map(|took| took.wall_ns as f64).collect();
    let start = described(&shell).map_or(0.0, |shell| shell.mean);
    let times: Vec<f64> =
        kept(runs, Slot::Case(case)).values().map(|took| took.wall_ns as f64).collect();
    times.into_iter().map(move |time| (time - start).max(0.0))
}

// The worst of them, where there is a budget: one that is over it, then one that is not known.
fn overall(settings: &Settings, compared: &[Compared]) -> Verdict {
    let any = |verdict| compared.iter().any(|one| one.verdict == verdict);
    match settings.budget {
        Some(_) if any(Verdict::OverBudget) => Verdict::OverBudget,
        Some(_) if compared.iter().all(|one| one.verdict == Verdict::WithinBudget) => {
            Verdict::WithinBudget
        }
        Some(_) => Verdict::Undecided,
        None => match compared {
            [] => Verdict::Alone,
            [one] => one.verdict,
            [first, rest @ ..] if rest.iter().all(|one| one.verdict == first.verdict) => {
                first.verdict
            }
            _ => Verdict::Undecided,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::outliers;

    #[test]
    fn runs_that_are_far_from_the_others_are_counted() {
        assert_eq!(outliers(&[]), 0);
        assert_eq!(outliers(&[10.0; 9]), 0);
        let mut times: Vec<f64> = (0..21).map(f64::from).collect();
        assert_eq!(outliers(&times), 0);
        // The median distance of these is 5.5 or less.
        times.extend([120.0, -120.0]);
        assert_eq!(outliers(&times), 2);
    }
}
