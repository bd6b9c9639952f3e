//! An experiment over time: what every window of the metric came to, so that drift, toggles and the
//! classes of the CPUs in use can be seen. A pure function of a plan and its samples.
//!
//! Cases cost different amounts, so a window is shown as its time per unit over the median of the
//! windows of its own case: 1.0 is as usual. Where there are more windows than can be drawn,
//! consecutive ones are put together, and the point keeps the least, the median and the greatest of
//! them: nothing that stands out is lost.

use std::collections::BTreeMap;

use ringfence_experiment::class::Class;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use serde::Serialize;

/// All windows of the metric, in the order of measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// Windows in which work was done.
    pub windows: usize,
    /// Windows without any work; they have no time per unit and are in no point.
    pub stalled: usize,
    /// How many consecutive windows a point stands for; fewer where the class changes between them.
    pub per_point: usize,
    /// The points.
    pub points: Vec<Point>,
}

/// Some consecutive windows of one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Start of the first window, s since the beginning.
    pub at_s: f64,
    /// The trial of the first window.
    pub trial: u32,
    /// Windows that it stands for.
    pub windows: usize,
    /// The case, where it stands for a single window.
    pub case: Option<usize>,
    /// How far apart the CPUs in use were.
    pub class: Class,
    /// The median round trip between them, ns, where probed.
    pub ping_ns: Option<f64>,
    /// Least time per unit over the case's median.
    pub least: f64,
    /// Median of the same.
    pub median: f64,
    /// Greatest of the same.
    pub greatest: f64,
}

/// The windows of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct OfTrial {
    /// The trial.
    pub trial: u32,
    /// Start of its first point, s since the beginning.
    pub at_s: f64,
    /// Windows.
    pub windows: usize,
    /// Least time per unit over the case's median.
    pub least: f64,
    /// The median of the points' medians.
    pub median: f64,
    /// Greatest time per unit over the case's median.
    pub greatest: f64,
}

impl Timeline {
    /// A row for each trial, of the points that begin in it.
    pub fn by_trial(&self) -> Vec<OfTrial> {
        let of_trial = |points: &[Point]| {
            let mut medians: Vec<f64> = points.iter().map(|point| point.median).collect();
            OfTrial {
                trial: points[0].trial,
                at_s: points[0].at_s,
                windows: points.iter().map(|point| point.windows).sum(),
                least: points.iter().map(|point| point.least).fold(f64::INFINITY, f64::min),
                median: geometric_median(&mut medians),
                greatest: points.iter().map(|point| point.greatest).fold(0.0, f64::max),
            }
        };
        self.points.chunk_by(|a, b| a.trial == b.trial).map(of_trial).collect()
    }
}

// One window, its instances together.
struct Seen {
    start_ns: u64,
    trial: u32,
    case: usize,
    class: Class,
    ping_ns: Option<f64>,
    ns_per_unit: f64,
}

/// The windows, thinned to about `most` points: more where classes alternate.
pub fn timeline(plan: &Plan, samples: &[Sample], most: usize) -> Timeline {
    let (mut windows, stalled) = windows(plan, samples);
    relate(&mut windows);
    let per_point = windows.len().div_ceil(most.max(1)).max(1);
    let mut points = Vec::new();
    for together in windows.chunks(per_point) {
        let mut classes: BTreeMap<Class, Vec<&Seen>> = BTreeMap::new();
        for window in together {
            classes.entry(window.class).or_default().push(window);
        }
        points.extend(classes.into_values().map(|of_class| point(&of_class)));
    }
    Timeline { windows: windows.len(), stalled, per_point, points }
}

fn windows(plan: &Plan, samples: &[Sample]) -> (Vec<Seen>, usize) {
    let metric = plan.experiment.metric.as_str();
    let place = |sample: &&Sample| (sample.trial, sample.round, sample.step, sample.position);
    let mut own: Vec<&Sample> = samples.iter().filter(|sample| *sample.role == *metric).collect();
    if !own.is_sorted_by_key(place) {
        own.sort_by_key(place);
    }
    let (mut seen, mut stalled) = (Vec::with_capacity(own.len()), 0);
    for together in own.chunk_by(|a, b| place(a) == place(b)) {
        let first = together[0];
        let units: u64 = together.iter().map(|sample| sample.units).sum();
        let ns: u64 = together.iter().map(|sample| sample.busy_ns).sum();
        if units == 0 || ns == 0 {
            stalled += 1;
            continue;
        }
        seen.push(Seen {
            start_ns: first.start_ns,
            trial: first.trial,
            case: first.case as usize,
            class: first.class,
            ping_ns: first.ping_before_ns,
            ns_per_unit: ns as f64 / together.len() as f64 / units as f64,
        });
    }
    (seen, stalled)
}

// Divides each window by the median of its case.
fn relate(windows: &mut [Seen]) {
    let mut by_case: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for window in windows.iter() {
        by_case.entry(window.case).or_default().push(window.ns_per_unit);
    }
    let medians: BTreeMap<usize, f64> =
        by_case.into_iter().map(|(case, mut all)| (case, geometric_median(&mut all))).collect();
    for window in windows {
        window.ns_per_unit /= medians[&window.case];
    }
}

fn point(windows: &[&Seen]) -> Point {
    let first = windows[0];
    let mut values: Vec<f64> = windows.iter().map(|window| window.ns_per_unit).collect();
    let mut pings: Vec<f64> = windows.iter().filter_map(|window| window.ping_ns).collect();
    Point {
        at_s: first.start_ns as f64 / 1e9,
        trial: first.trial,
        windows: windows.len(),
        case: (windows.len() == 1).then_some(first.case),
        class: first.class,
        ping_ns: (!pings.is_empty()).then(|| geometric_median(&mut pings)),
        median: geometric_median(&mut values),
        least: values[0],
        greatest: values[values.len() - 1],
    }
}

// Sorts; of an even number the geometric mean of the two in the middle, as is right for ratios.
fn geometric_median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] * values[middle]).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::Experiment;
    use ringfence_experiment::placement::Placed;
    use ringfence_experiment::plan::{Active, Case};

    fn plan() -> Plan {
        let text = "schema = 2\nname = 'x'\nmetric = 'victim'\n[[role]]\nname = 'victim'\n\
            task = { workload = 'alu' }\n[[arm]]\nname = 'alone'\nactive = ['victim']\n";
        let active = vec![Active { role: 0, count: 1, variant: 0 }];
        let case = |arm: &str| Case {
            arm: arm.into(),
            label: String::new(),
            params: vec![],
            active: active.clone(),
            baseline: None,
            between: None,
        };
        let placed = Placed { cpus: vec![vec![0]], notes: vec![], places: vec![] };
        Plan::stored(Experiment::parse(text).unwrap(), vec![case("a"), case("b")], vec![], placed)
            .unwrap()
    }

    fn sample(step: u32, case: u32, units: u64, class: Class) -> Sample {
        Sample {
            step,
            step_case: case,
            case,
            role: "victim".into(),
            class,
            ping_before_ns: Some(100.0 + f64::from(step)),
            start_ns: u64::from(step) * 1_000_000_000,
            length_ns: 1000,
            busy_ns: 1000,
            units,
            ..Sample::default()
        }
    }

    // Case 0 takes 10, 10 and 20 ns per unit, case 1 takes 100: medians 10 and 100.
    #[test]
    fn windows_are_set_against_the_median_of_their_case() {
        let samples = [
            sample(0, 0, 100, Class::Sharing),
            sample(1, 1, 10, Class::Sharing),
            sample(2, 0, 50, Class::Apart),
            sample(3, 0, 100, Class::Sharing),
            sample(4, 0, 0, Class::Sharing),
        ];
        let all = timeline(&plan(), &samples, 100);
        assert_eq!((all.windows, all.stalled, all.per_point), (4, 1, 1));
        let medians: Vec<f64> = all.points.iter().map(|point| point.median).collect();
        assert_eq!(medians, [1.0, 1.0, 2.0, 1.0]);
        assert_eq!(
            (all.points[2].case, all.points[2].class, all.points[2].at_s),
            (Some(0), Class::Apart, 2.0)
        );
    }

    // Two at a time: (1, 1) and then (2 apart | 1 sharing), which is two points.
    #[test]
    fn thinned_points_keep_what_stands_out() {
        let samples = [
            sample(0, 0, 100, Class::Sharing),
            sample(1, 0, 100, Class::Sharing),
            sample(2, 0, 50, Class::Apart),
            sample(3, 0, 100, Class::Sharing),
            sample(4, 0, 25, Class::Sharing),
            sample(5, 0, 100, Class::Sharing),
        ];
        let all = timeline(&plan(), &samples, 3);
        assert_eq!((all.per_point, all.points.len()), (2, 4));
        let last = &all.points[3];
        assert_eq!((last.least, last.median, last.greatest), (1.0, 2.0, 4.0));
        assert_eq!((last.windows, last.case), (2, None));
        assert!((last.ping_ns.unwrap() - (104.0f64 * 105.0).sqrt()).abs() < 1e-9);
        assert_eq!(all.points.iter().map(|point| point.windows).sum::<usize>(), all.windows);
    }

    #[test]
    fn points_are_put_together_by_trial() {
        let of = |trial: u32, step: u32, units: u64| Sample {
            trial,
            ..sample(step, 0, units, Class::Sharing)
        };
        let samples = [of(0, 0, 100), of(0, 1, 50), of(1, 2, 100), of(1, 3, 25), of(1, 4, 100)];
        let rows = timeline(&plan(), &samples, 100).by_trial();
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row.trial, row.at_s, row.windows, row.least, row.greatest))
            .collect();
        assert_eq!(shown, [(0, 0.0, 2, 1.0, 2.0), (1, 2.0, 3, 1.0, 4.0)]);
        assert_eq!(rows[1].median, 1.0);
        assert!((rows[0].median - 2.0f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn nothing_measured_is_an_empty_line() {
        let none = timeline(&plan(), &[], 100);
        assert_eq!((none.windows, none.points.len()), (0, 0));
    }
}
