//! The metric's windows, case by case, and which of them count.
//!
//! A step that holds a window which [lasted too long](Sample::lasted_too_long) is in no figure,
//! both its windows. What keeps the measuring program from running is often what is being measured,
//! so those that are left are not chosen at random: where they are more than one in
//! [`ONE_LOST_IN`], there is no figure.

use std::collections::BTreeSet;
use std::ops::Range;

use ringfence_experiment::class::Class;
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::quantity::Quantity;
use ringfence_experiment::sample::Sample;
use serde::Serialize;

use crate::estimate::{
    self, ByClass, Estimate, LatencyPair, Logs, NotEstimable, Observed, Pair, Window,
};

/// Of so many steps of a case, one may have lasted too long; a single one may always, for that is
/// an accident.
///
/// If the ones that are left out were twice as slow as the others, the figure would be 5 % off. Of
/// more, too little is known.
pub const ONE_LOST_IN: u32 = 20;

/// Steps of a case that are in no figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TooLong {
    /// Steps with a window that lasted too long.
    pub steps: u32,
    /// All steps that were measured.
    pub of: u32,
}

impl TooLong {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self { steps: self.steps + other.steps, of: self.of + other.of }
    }

    /// Whether what is left may stand for all.
    ///
    /// # Errors
    /// [`NotEstimable::TooLong`] otherwise.
    pub fn bearable(self) -> Result<(), NotEstimable> {
        let Self { steps, of } = self;
        if steps > (of / ONE_LOST_IN).max(1) {
            Err(NotEstimable::TooLong { steps, of })
        } else {
            Ok(())
        }
    }
}

/// Of a whole measurement: steps that are in no figure.
pub fn too_long(plan: &Plan, samples: &[Sample]) -> TooLong {
    let windows = Windows::of(plan, samples, &Lost::of(plan, samples));
    windows.too_long.into_iter().fold(TooLong::default(), TooLong::and)
}

/// Which steps are in no figure.
pub(crate) struct Lost(BTreeSet<(u32, u32, u32)>);

impl Lost {
    pub(crate) fn of(plan: &Plan, samples: &[Sample]) -> Self {
        let window = plan.experiment.measure.length().0;
        let late = |sample: &&Sample| sample.lasted_too_long(window);
        // A window that waits for a device is as long as that lets it be: this is what is measured
        // there.
        let (waited, late): (Vec<_>, Vec<_>) =
            samples.iter().filter(late).partition(|sample| waits_for_a_device(plan, sample));
        let waited: BTreeSet<_> = waited.into_iter().map(place).collect();
        Self(late.into_iter().map(place).filter(|place| !waited.contains(place)).collect())
    }

    pub(crate) fn holds(&self, sample: &Sample) -> bool {
        !self.0.is_empty() && self.0.contains(&place(sample))
    }

    /// Whether any step of a trial is in no figure.
    pub(crate) fn any_of(&self, trial: u32) -> bool {
        self.0.range((trial, 0, 0)..=(trial, u32::MAX, u32::MAX)).next().is_some()
    }
}

fn waits_for_a_device(plan: &Plan, sample: &Sample) -> bool {
    let Some(case) = plan.cases.get(sample.case as usize) else { return false };
    let role = |role: usize| plan.experiment.roles[role].name.as_str();
    let variant = case
        .active
        .iter()
        .find(|active| role(active.role) == &*sample.role)
        .and_then(|active| plan.variants[active.role].get(active.variant));
    variant.is_some_and(|variant| variant.task.waits_for_a_device())
}

fn place(sample: &Sample) -> (u32, u32, u32) {
    (sample.trial, sample.round, sample.step)
}

/// The metric's work in one window, its instances together.
#[derive(Debug, Clone)]
struct MetricWindow {
    trial: u32,
    // The round and the step in it.
    step: (u32, u32),
    class: Class,
    case: usize,
    window: Window,
    // Where a quantile of them is the figure.
    latencies: Histogram,
}

const ALL_TRIALS: Range<u32> = 0..u32::MAX;

/// The metric's windows by the case that their step measures, in the order of measurement.
pub(crate) struct Windows {
    quantity: Quantity,
    by_case: Vec<Vec<MetricWindow>>,
    too_long: Vec<TooLong>,
}

impl Windows {
    // Samples lie in their order already; only references are kept, since there may be millions.
    pub(crate) fn of(plan: &Plan, samples: &[Sample], lost: &Lost) -> Self {
        Self::about(plan.experiment.measure.quantity, plan, samples, lost)
    }

    /// The same about another quantity than the experiment's.
    pub(crate) fn about(quantity: Quantity, plan: &Plan, samples: &[Sample], lost: &Lost) -> Self {
        let metric = plan.experiment.metric.as_str();
        let place = |sample: &&Sample| (sample.trial, sample.round, sample.step, sample.position);
        let mut own: Vec<&Sample> =
            samples.iter().filter(|sample| *sample.role == *metric).collect();
        if !own.is_sorted_by_key(place) {
            own.sort_by_key(place);
        }
        let mut by_case = vec![Vec::new(); plan.cases.len()];
        let mut too_long = vec![TooLong::default(); plan.cases.len()];
        for together in own.chunk_by(|a, b| place(a) == place(b)) {
            let first = together[0];
            let count = &mut too_long[first.step_case as usize];
            // Of a step's windows, the first stands for it.
            count.of += u32::from(first.position == 0);
            if lost.holds(first) {
                count.steps += u32::from(first.position == 0);
                continue;
            }
            // What ran between the windows that are compared is in no comparison.
            if plan.cases[first.step_case as usize].between == Some(first.case as usize) {
                continue;
            }
            let units: u64 = together.iter().map(|sample| sample.units).sum();
            let ns: u64 = together.iter().map(|sample| sample.busy_ns).sum();
            by_case[first.step_case as usize].push(MetricWindow {
                trial: first.trial,
                step: (first.round, first.step),
                class: first.class,
                case: first.case as usize,
                window: Window { units: units as f64, ns: ns as f64 / together.len() as f64 },
                latencies: if quantity.is_mean() {
                    Histogram::default()
                } else {
                    latencies(together)
                },
            });
        }
        Self { quantity, by_case, too_long }
    }

    /// What is missing of a case.
    pub(crate) fn too_long(&self, case: usize) -> TooLong {
        self.too_long[case]
    }

    /// How close the CPUs in use were in each window of a case.
    pub(crate) fn classes(&self, case: usize) -> impl Iterator<Item = Class> {
        self.by_case[case].iter().map(|window| window.class)
    }

    // Complete pairs of a case, baseline and arm: an interrupted step has only one window and is
    // left out.
    fn steps(
        &self,
        case: usize,
        trials: Range<u32>,
    ) -> impl Iterator<Item = (&MetricWindow, &MetricWindow)> {
        let all = &self.by_case[case];
        let [from, to] = [trials.start, trials.end]
            .map(|trial| all.partition_point(|window| window.trial < trial));
        let steps = all[from..to.max(from)].chunk_by(|a, b| (a.trial, a.step) == (b.trial, b.step));
        steps.filter_map(move |step| {
            let [a, b] = step else { return None };
            Some(if a.case == case { (b, a) } else { (a, b) })
        })
    }

    /// The work in complete pairs of a case.
    pub(crate) fn pairs(&self, case: usize) -> Vec<Pair> {
        self.pairs_within(case, ALL_TRIALS)
    }

    fn pairs_within(&self, case: usize, trials: Range<u32>) -> Vec<Pair> {
        let pair = |(baseline, arm): (&MetricWindow, &MetricWindow)| Pair {
            trial: arm.trial,
            class: arm.class,
            baseline: baseline.window,
            arm: arm.window,
        };
        self.steps(case, trials).map(pair).collect()
    }

    // The latencies in them.
    fn latency_pairs(&self, case: usize, trials: Range<u32>) -> Vec<LatencyPair> {
        let pair = |(baseline, arm): (&MetricWindow, &MetricWindow)| LatencyPair {
            trial: arm.trial,
            class: arm.class,
            baseline: baseline.latencies.clone(),
            arm: arm.latencies.clone(),
        };
        self.steps(case, trials).map(pair).collect()
    }

    /// Trials of a case, and the latencies counted in them on the side that has fewer.
    pub(crate) fn counted(&self, case: usize) -> (u32, u64) {
        let (mut trials, mut counted) = (BTreeSet::new(), [0, 0]);
        for (baseline, arm) in self.steps(case, ALL_TRIALS) {
            trials.insert(arm.trial);
            let sides = [baseline, arm].map(|window| window.latencies.total());
            counted.iter_mut().zip(sides).for_each(|(all, own)| *all += own);
        }
        (trials.len() as u32, counted[0].min(counted[1]))
    }

    // A case's own windows.
    fn own(&self, case: usize) -> impl Iterator<Item = &MetricWindow> {
        self.by_case[case].iter().filter(move |window| window.case == case)
    }

    // The same with those in which it was others' baseline.
    fn anywhere(&self, case: usize) -> impl Iterator<Item = &MetricWindow> {
        self.by_case.iter().flatten().filter(move |window| window.case == case)
    }

    /// How many times as long as in its baseline the quantity is in a case.
    pub(crate) fn slowdown(&self, case: usize, level: f64) -> Estimate {
        self.too_long[case].bearable()?;
        self.slowdown_within(case, level, ALL_TRIALS)
    }

    /// The same of some of its trials, however many windows lasted too long.
    pub(crate) fn slowdown_within(&self, case: usize, level: f64, trials: Range<u32>) -> Estimate {
        match self.quantity {
            Quantity::Mean => estimate::slowdown(&self.pairs_within(case, trials), level),
            Quantity::Quantile(quantile) => {
                estimate::quantile_ratio(&self.latency_pairs(case, trials), quantile, level)
            }
        }
    }

    /// The same over all pairs, and in each class.
    pub(crate) fn by_class(&self, case: usize, level: f64) -> ByClass {
        match self.quantity {
            Quantity::Mean => estimate::by_class(&self.pairs(case), level),
            Quantity::Quantile(quantile) => {
                estimate::quantile_by_class(&self.latency_pairs(case, ALL_TRIALS), quantile, level)
            }
        }
    }

    /// What [`Windows::slowdown`] rests on.
    pub(crate) fn slowdown_logs(&self, case: usize) -> Result<Logs, NotEstimable> {
        self.too_long[case].bearable()?;
        match self.quantity {
            Quantity::Mean => estimate::slowdown_logs(&self.pairs(case)).map(Logs::from),
            Quantity::Quantile(quantile) => {
                estimate::quantile_ratio_logs(&self.latency_pairs(case, ALL_TRIALS), quantile)
            }
        }
    }

    /// The quantity of a case: the time per unit, or a quantile of it.
    pub(crate) fn rate(&self, case: usize, level: f64) -> Estimate {
        self.too_long[case].bearable()?;
        match self.quantity {
            Quantity::Mean => estimate::rate(&work(self.own(case)), level),
            Quantity::Quantile(quantile) => {
                estimate::quantile_of(&counted(self.own(case)), quantile, level)
            }
        }
    }

    /// The slowdown of a case, or its quantity where it is compared with nothing, without an
    /// interval. `None` where the reason for having none is another than trials that differ.
    pub(crate) fn observed(
        &self,
        case: usize,
        reason: &NotEstimable,
        compared: bool,
    ) -> Option<Observed> {
        match (reason, self.quantity, compared) {
            (NotEstimable::TooWide { .. }, Quantity::Mean, true) => {
                Observed::of_mean(&estimate::slowdown_logs(&self.pairs(case)).ok()?)
            }
            (NotEstimable::TooWide { .. }, Quantity::Mean, false) => {
                Observed::of_mean(&estimate::rate_logs(&work(self.own(case))).ok()?)
            }
            (reason, Quantity::Quantile(quantile), true) if reason.is_observed() => {
                estimate::quantile_ratio_observed(&self.latency_pairs(case, ALL_TRIALS), quantile)
            }
            (reason, Quantity::Quantile(quantile), false) if reason.is_observed() => {
                estimate::quantile_observed(&counted(self.own(case)), quantile)
            }
            _ => None,
        }
    }

    /// Whether what is left of the steps that hold windows of a case may stand for all of them.
    pub(crate) fn bearable(&self, case: usize) -> Result<(), NotEstimable> {
        let holds_it = |step: &usize| self.by_case[*step].iter().any(|window| window.case == case);
        let steps = (0..self.by_case.len()).filter(|step| *step == case || holds_it(step));
        steps.map(|step| self.too_long[step]).fold(TooLong::default(), TooLong::and).bearable()
    }

    /// The same with the windows in which the case was others' baseline.
    pub(crate) fn cost(&self, case: usize, level: f64) -> Estimate {
        self.bearable(case)?;
        match self.quantity {
            Quantity::Mean => estimate::rate(&work(self.anywhere(case)), level),
            Quantity::Quantile(quantile) => {
                estimate::quantile_of(&counted(self.anywhere(case)), quantile, level)
            }
        }
    }

    /// What [`Windows::rate`] rests on.
    pub(crate) fn rate_logs(&self, case: usize) -> Result<Logs, NotEstimable> {
        self.too_long[case].bearable()?;
        self.logs_of(self.own(case))
    }

    /// The same with the windows in which the case was others' baseline.
    pub(crate) fn cost_logs(&self, case: usize) -> Result<Logs, NotEstimable> {
        self.too_long[case].bearable()?;
        self.logs_of(self.anywhere(case))
    }

    fn logs_of<'a>(
        &self,
        windows: impl Iterator<Item = &'a MetricWindow>,
    ) -> Result<Logs, NotEstimable> {
        match self.quantity {
            Quantity::Mean => estimate::rate_logs(&work(windows)).map(Logs::from),
            Quantity::Quantile(quantile) => estimate::quantile_logs(&counted(windows), quantile),
        }
    }

    /// The quantity of a case over that of another, trial by trial.
    pub(crate) fn rate_ratio(&self, case: usize, against: usize, level: f64) -> Estimate {
        match self.quantity {
            Quantity::Mean => {
                estimate::rate_ratio(&work(self.own(case)), &work(self.own(against)), level)
            }
            Quantity::Quantile(quantile) => {
                let [own, other] = [case, against].map(|case| counted(self.own(case)));
                estimate::quantile_between(&own, &other, quantile, level)
            }
        }
    }
}

fn work<'a>(windows: impl Iterator<Item = &'a MetricWindow>) -> Vec<(u32, Window)> {
    windows.map(|window| (window.trial, window.window)).collect()
}

fn counted<'a>(windows: impl Iterator<Item = &'a MetricWindow>) -> Vec<(u32, Histogram)> {
    windows.map(|window| (window.trial, window.latencies.clone())).collect()
}

// Of all instances of a task in one window.
fn latencies(together: &[&Sample]) -> Histogram {
    let mut counted = together.iter().filter_map(|sample| sample.latencies.as_ref());
    match (counted.next(), together) {
        (Some(one), [_]) => one.clone(),
        (first, _) => Histogram::sum(first.into_iter().chain(counted)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ringfence_experiment::Experiment;
    use ringfence_experiment::placement::Placed;
    use ringfence_experiment::plan::{Active, Case};
    use ringfence_experiment::units::Span;

    use super::*;
    use crate::results;

    const TRIALS: u32 = 40;

    fn plan() -> Plan {
        plan_of("alu")
    }

    fn plan_of(victim: &str) -> Plan {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n[[role]]\nname = 'victim'\ntask = {{ \
             workload = '{victim}' }}\n\
            [[role]]\nname = 'other'\ntask = {{ workload = 'alu' }}\n[[arm]]\nname = \
            'alone'\nactive = ['victim']\n\
            [[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = 'alone'\n"
        );
        let mut experiment = Experiment::parse(&text).unwrap();
        experiment.measure.window = Span::ms(100);
        let role = |role| Active { role, count: 1, variant: 0 };
        let case = |arm: &str, roles: usize, baseline| Case {
            arm: arm.into(),
            label: String::new(),
            params: vec![],
            active: (0..roles).map(role).collect(),
            baseline,
            between: None,
        };
        let cases = vec![case("alone", 1, None), case("beside", 2, Some(0))];
        let placed = Placed { cpus: vec![vec![0], vec![1]], notes: vec![], places: vec![] };
        Plan::stored(experiment, cases, vec![], placed).unwrap()
    }

    // A pair per trial: alone 100 units in each window, beside 50; the windows beside of these
    // trials last a minute and are 10 times as slow, which a figure that they are part of shows.
    fn samples(too_long: &[u32]) -> Vec<Sample> {
        let mut all = Vec::new();
        for trial in 0..TRIALS {
            let long = too_long.contains(&trial);
            let sample = |case: u32, role: &str| Sample {
                trial,
                position: case,
                step_case: 1,
                case,
                role: Arc::from(role),
                length_ns: 100_000_000,
                busy_ns: 100_000_000,
                units: if case == 0 { 100 } else { 50 },
                late_ns: Some(1_000_000),
                ..Sample::default()
            };
            all.push(sample(0, "victim"));
            for role in ["victim", "other"] {
                let beside = sample(1, role);
                let (length, late) = (60_000_000_000, 59_900_000_000);
                let late = Sample {
                    length_ns: length,
                    busy_ns: length,
                    units: 3000,
                    late_ns: Some(late),
                    ..beside.clone()
                };
                all.push(if long { late } else { beside });
            }
        }
        all
    }

    #[test]
    fn a_pair_with_a_window_that_lasted_too_long_is_in_no_figure() {
        let (plan, samples) = (plan(), samples(&[3, 17]));
        let result = results::results(&plan, &samples, 0.95).remove(0);
        assert_eq!(result.too_long, TooLong { steps: 2, of: 40 });
        let slowdown = result.effect.unwrap().finding.slowdown.unwrap();
        assert_eq!((slowdown.trials, (slowdown.value * 1000.0).round()), (38, 2000.0));
        // Of the co-runner only what it did in the others.
        assert_eq!(result.co_runners[0].units_per_s.round(), 500.0);
        let [main] = results::main_estimates(&plan, &samples, 0.95)[..] else { panic!() };
        assert_eq!(main.unwrap(), slowdown);
    }

    #[test]
    fn a_commit_may_hold_its_window_open() {
        let (plan, samples) = (plan_of("commit"), samples(&[3, 17, 29]));
        let result = results::results(&plan, &samples, 0.95).remove(0);
        assert_eq!(result.too_long, TooLong { steps: 0, of: 40 });
        // Of forty trials three are ten times as slow again.
        let slowdown = result.effect.unwrap().finding.slowdown.unwrap();
        assert_eq!(slowdown.trials, 40);
        assert!(slowdown.value > 2.2, "{slowdown:?}");
    }

    #[test]
    fn with_too_many_left_out_there_is_no_figure() {
        let (plan, samples) = (plan(), samples(&[3, 17, 29]));
        let reason = NotEstimable::TooLong { steps: 3, of: 40 };
        assert_eq!(results::main_estimates(&plan, &samples, 0.95), [Err(reason)]);
        let result = results::results(&plan, &samples, 0.95).remove(0);
        let effect = result.effect.unwrap();
        assert_eq!(effect.finding.verdict, estimate::Verdict::NotEstimable(reason));
        assert_eq!((effect.by_class.all.slowdown, result.ns_per_unit), (Err(reason), Err(reason)));
        assert_eq!(results::pairs_by_case(&plan, &samples), Err(reason));
        assert_eq!(results::ratio(&plan, &samples, 1, 0, 0.95), Err(reason));
        assert!(reason.to_string().contains("3 of 40 steps"), "{reason}");
        assert_eq!(too_long(&plan, &samples), TooLong { steps: 3, of: 40 });
    }

    #[test]
    fn an_experiment_against_itself_is_counted_although_it_has_no_figure() {
        let mut plan = plan();
        plan.experiment.aa = Some(10);
        let figures = |samples: &[Sample]| -> Vec<bool> {
            let estimates = results::aa_estimates(&plan, samples).unwrap();
            estimates.iter().map(Result::is_ok).collect()
        };
        // Four of ten trials each: two of them lack one.
        assert_eq!(figures(&samples(&[3, 17])), [false, false, true, true]);
        // One that was cut short is none at all.
        let mut cut = samples(&[3]);
        cut.retain(|sample| sample.trial < 35);
        assert_eq!(figures(&cut), [false, true, true]);
    }

    #[test]
    fn one_may_always_be_left_out() {
        let bearable = |steps, of| TooLong { steps, of }.bearable().is_ok();
        assert!(bearable(1, 4) && bearable(0, 0) && bearable(5, 100));
        assert!(!bearable(2, 39) && !bearable(6, 100));
    }
}
