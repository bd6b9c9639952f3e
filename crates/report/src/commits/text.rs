//! The method of committing to use, of those measured, and what to expect next to a writer.

use ringfence_analysis::cheapest::Cheapest;
use ringfence_analysis::disk_writes::Unreached;
use ringfence_analysis::estimate::{Interval, NotEstimable};
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Commit, DirtyIo, Layout, Task};
use ringfence_studies::findings::Findings;
use ringfence_studies::prove::{Price, Proof, Verdict};

use crate::commits::method;
use crate::experiment::cases::words;
use crate::numbers::{count, slowdown};
use crate::print::unknown::Unknown;
use crate::prove::budget;
use crate::prove::budget::judged_figure;
use crate::text::{clean, listed};

/// A durable way to commit.
pub(super) struct Way<'a> {
    pub(super) case: usize,
    pub(super) task: &'a Commit,
    /// What a commit takes, or a record.
    pub(super) cost: Interval,
    /// How many times as long it takes as the cheapest.
    pub(super) ratio: f64,
    /// Whether it is the cheapest.
    pub(super) first: bool,
    /// Whether it is known to take longer than the cheapest.
    dearer: bool,
    /// Whether that is known of medians only.
    pub(super) by_median: bool,
}

/// Ways to commit, of which each case of an experiment is one.
#[derive(Default)]
pub(super) struct Ways<'a> {
    /// Those that are durable, with what a commit takes.
    pub(super) costs: Vec<Way<'a>>,
    /// All of them.
    pub(super) tasks: Vec<&'a Commit>,
    /// Why durable ones have no figure.
    pub(super) unknown: Vec<NotEstimable>,
    /// The names of ways to sync that make nothing durable.
    pub(super) without: Vec<&'static str>,
    /// How the durable ones compare, trial by trial.
    cheapest: Option<&'a Cheapest>,
}

impl<'a> Ways<'a> {
    /// Nothing where something else was measured, too.
    pub(super) fn of(found: &'a Findings) -> Option<Self> {
        let mut ways = Self { cheapest: found.cheapest.as_ref(), ..Self::default() };
        for result in found.results.iter().filter(|result| result.effect.is_none()) {
            let Task::Commit(task) = found.plan.metric_task(result.case) else { return None };
            ways.tasks.push(task);
            match (task.sync.durable(), result.ns_per_unit) {
                (true, Ok(cost)) => ways.costs.push(Way {
                    case: result.case,
                    task,
                    cost,
                    ratio: 1.0,
                    first: false,
                    dearer: false,
                    by_median: false,
                }),
                (true, Err(reason)) => ways.unknown.push(reason),
                (false, _) => ways.without.push(task.sync.name()),
            }
        }
        Some(ways)
    }

    /// Whether all write as many bytes, by as many writers.
    pub(super) fn alike(&self) -> bool {
        let asked = |task: &Commit| (task.bytes(), task.writers);
        self.tasks.windows(2).all(|two| asked(two[0]) == asked(two[1]))
    }

    /// Sorts them; how many of the first cannot be told apart.
    pub(super) fn sort(&mut self) -> usize {
        if !self.compared_within_trials() {
            self.compare_intervals();
        }
        self.costs.sort_by(|a, b| {
            (a.dearer, !a.first).cmp(&(b.dearer, !b.first)).then(a.ratio.total_cmp(&b.ratio))
        });
        self.costs.iter().filter(|way| !way.dearer).count()
    }

    // Whether they are known to have been compared so.
    fn compared_within_trials(&mut self) -> bool {
        let Some(known) = self.cheapest else { return false };
        for way in &mut self.costs {
            match known.others.iter().find(|other| other.case == way.case) {
                _ if way.case == known.case => (way.ratio, way.first) = (1.0, true),
                Some(other) => {
                    (way.ratio, way.dearer, way.by_median) =
                        (other.ratio, other.dearer, other.by_median);
                }
                None => return false,
            }
        }
        self.costs.iter().any(|way| way.first)
    }

    fn compare_intervals(&mut self) {
        let least = |of: fn(&Interval) -> f64| {
            self.costs.iter().map(|way| of(&way.cost)).fold(f64::INFINITY, f64::min)
        };
        let (value, high) = (least(|cost| cost.value), least(|cost| cost.high));
        for way in &mut self.costs {
            (way.ratio, way.first, way.by_median) = (way.cost.value / value, false, false);
            way.dearer = way.cost.low > high;
        }
    }
}

/// Why no way is advised, and what would help. Nothing where two durable ones have figures, or all
/// that were measured.
pub(crate) fn none_advised(found: &Findings) -> Option<String> {
    let ways = Ways::of(found)?;
    let which = match (ways.costs.len(), ways.unknown.len()) {
        (0, 1) => "the only durable one has no figure".into(),
        (0, of) => format!("none of the {of} durable ones has a figure"),
        (1, others) => format!("only one of the {} durable ones has a figure", others + 1),
        _ => return None,
    };
    Some(format!(
        "No method is recommended, because {which}: {}.",
        NotEstimable::hardest(&ways.unknown)?.why()
    ))
}

/// Ways of which not every commit reached the disk, in a sentence.
pub(super) fn unreached(found: &Findings) -> Option<String> {
    if found.unreached.is_empty() {
        return None;
    }
    let name = |one: &Unreached| {
        let label = match words(&found.plan, one.case) {
            label if label.is_empty() => "the log".to_owned(),
            label => label,
        };
        format!("{label} ({} commits, {} writes)", count(one.commits), count(one.writes))
    };
    let named: Vec<String> = found.unreached.iter().map(name).collect();
    Some(format!(
        "Not every commit reached the disk, which ended fewer writes than there were commits: {}. \
         Something above it answers \
         without it: 'ringfence explain DIR' says what stands between.",
        listed(&named, "and")
    ))
}

/// How a commit is made, in words, such as `fdatasync on a file written before; batch 16`.
pub(crate) fn way(task: &Commit) -> String {
    let io = method::through(task.io);
    let layout = match task.layout {
        Layout::Append => "at the end of a file",
        Layout::KeepSize => "at the end of a file, into reserved blocks",
        Layout::Allocated => "into reserved blocks",
        Layout::Written => "on a file written before",
    };
    let writers =
        if task.writers > 1 { format!("; {} writers", task.writers) } else { String::new() };
    format!("{}{io} {layout}; batch {}{writers}", task.sync.name(), task.batch)
}

/// Of a proof whose victim commits: what to expect beside the writer, which lever helps, and what
/// that costs the writer. Nothing where the verdict leaves it open.
pub(crate) fn of_proof(proof: &Proof) -> Option<String> {
    let question = &proof.record.question;
    let Task::Commit(task) = question.victim.task() else { return None };
    let beside = (*proof.judged_beside()).ok()?;
    let quantile =
        question.measure.quantity.quantile().map_or(String::new(), |of| format!("{of} at "));
    let budget = budget::text(question.budget);
    let told = |figure: &Interval| judged_figure(question.budget, figure).to_string();
    let writer = writer(question.aggressor.task(), &question.aggressor.to_string());
    let expect = format!("{}; beside {writer} expect {quantile}{}", way(task), told(&beside));
    let more = match (proof.verdict, proof.confirmations.last()) {
        (Verdict::NothingNeeded, _) => format!(", which is within the budget of {budget}"),
        (Verdict::Met, Some(confirmed)) => {
            let tried = &confirmed.tried;
            let costs = match &tried.price {
                Price::Slowdown(Ok(price)) if price.low > 1.0 => {
                    format!("costs the writer {} time per unit of its work", slowdown(price))
                }
                Price::Slowdown(Ok(_)) => "no cost to the writer was seen".into(),
                Price::Slowdown(Err(_)) => "what it costs the writer is not known".into(),
                Price::Unseen(_) => "what it costs the writer cannot be seen".into(),
            };
            format!(
                "; '{}' keeps it at {quantile}{} and {costs}",
                clean(&tried.candidate.arm.name),
                told(&(*tried.judged()).ok()?)
            )
        }
        (Verdict::Missed, _) if proof.misses_alone() => {
            format!("; the budget of {budget} is exceeded without it, too")
        }
        (Verdict::Missed, _) if proof.tried.is_empty() => {
            format!(", over the budget of {budget}; no lever was tried")
        }
        (Verdict::Missed, _) => {
            format!("; no lever that was tried keeps it within the budget of {budget}")
        }
        _ => return None,
    };
    Some(format!("{expect}{more}."))
}

// A writer by how it writes; anything else in other words.
pub(crate) fn writer(task: &Task, otherwise: &str) -> String {
    let Task::Dirty(dirty) = task else { return format!("'{}'", clean(otherwise)) };
    let how = match dirty.io {
        DirtyIo::Buffered => "a writer through the page cache",
        DirtyIo::Wait => "a writer that waits for sync_file_range",
        DirtyIo::Write => "a writer with sync_file_range",
        DirtyIo::Fdatasync => "a writer with fdatasync",
        DirtyIo::Direct => "an O_DIRECT writer",
        DirtyIo::Dontcache => "a DONTCACHE writer",
    };
    dirty.pace.map_or(how.into(), |pace| format!("{how} at {pace}"))
}

pub(super) fn committers(plan: &Plan, case: usize) -> u32 {
    let active = plan.cases[case].active.iter().find(|active| active.role == plan.metric);
    active.map_or(0, |active| active.count)
}
