//! A measurement beside a disk over time: the longest commit of the metric's role, and what the
//! disk and the page cache did meanwhile. A pure function of a plan and its samples.

use std::collections::BTreeMap;

use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::Task;
use serde::Serialize;

/// All windows of the metric's first instance, in the order of measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stalls {
    /// How many consecutive stretches a point stands for; fewer where the case changes between
    /// them.
    pub per_point: usize,
    /// The points.
    pub points: Vec<Stall>,
    /// When the other roles stopped, in episodes, s since the beginning.
    pub stops_s: Vec<f64>,
}

/// A stretch of time in which one case ran.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// Start, s since the beginning.
    pub at_s: f64,
    /// Length, s, from the start of the first stretch to the end of the last.
    pub length_s: f64,
    /// The case.
    pub case: usize,
    /// The longest of the latencies, as the lower end of its bucket, ns; none where no unit ended,
    /// or none are counted.
    pub longest_ns: Option<u64>,
    /// The most bytes that were dirty at the end of a stretch.
    pub dirty_bytes: Option<u64>,
    /// The most bytes that were being written back at the end of a stretch.
    pub writeback_bytes: Option<u64>,
    /// The share of the time that the disk was busy.
    pub busy: Option<f64>,
}

/// The stretches, of which as many are put together as leaves about `most` points. Nothing where no
/// task uses a disk.
pub fn stalls(plan: &Plan, samples: &[Sample], most: usize) -> Stalls {
    let commits = |sample: &&Sample| {
        let case = sample.case as usize;
        case < plan.cases.len() && matches!(plan.metric_task(case), Task::Commit(_))
    };
    let own = samples
        .iter()
        .filter(|sample| *sample.role == *plan.experiment.metric && sample.instance == 0)
        .filter(|sample| sample.stretches.is_some() || commits(sample));
    let all: Vec<Stall> = own.flat_map(of_window).collect();
    let per_point = all.len().div_ceil(most.max(1)).max(1);
    let mut points = Vec::new();
    for some in all.chunks(per_point) {
        let mut cases: BTreeMap<usize, Vec<Stall>> = BTreeMap::new();
        some.iter().for_each(|one| cases.entry(one.case).or_default().push(*one));
        points.extend(cases.values().map(|of_case| together(of_case)));
    }
    points.sort_by(|a: &Stall, b| a.at_s.total_cmp(&b.at_s));
    let episodes = plan.experiment.measure.episode.is_some();
    let mut stops_s: Vec<f64> = samples
        .iter()
        .filter(|sample| episodes && *sample.role != *plan.experiment.metric && !all.is_empty())
        .map(|sample| (sample.start_ns + sample.length_ns) as f64 / 1e9)
        .collect();
    stops_s.sort_by(f64::total_cmp);
    stops_s.dedup_by(|b, a| *b - *a < AT_ONCE_S);
    Stalls { per_point, points, stops_s }
}

// Several writers stop one after the other.
const AT_ONCE_S: f64 = 0.05;

fn of_window(sample: &Sample) -> Vec<Stall> {
    let case = sample.case as usize;
    match &sample.stretches {
        Some(stretches) => stretches
            .iter()
            .map(|one| Stall {
                at_s: one.start_ns as f64 / 1e9,
                length_s: one.length_ns as f64 / 1e9,
                case,
                longest_ns: one.longest_ns,
                dirty_bytes: one.dirty_bytes,
                writeback_bytes: one.writeback_bytes,
                busy: one.busy(),
            })
            .collect(),
        // As earlier versions recorded it.
        None => vec![Stall {
            at_s: sample.start_ns as f64 / 1e9,
            length_s: sample.length_ns as f64 / 1e9,
            case,
            longest_ns: sample.latencies.as_ref().and_then(Histogram::most),
            dirty_bytes: None,
            writeback_bytes: None,
            busy: None,
        }],
    }
}

fn together(all: &[Stall]) -> Stall {
    let [first, .., last] = all else { return all[0] };
    let most = |of: fn(&Stall) -> Option<u64>| all.iter().filter_map(of).max();
    let watched = || all.iter().filter_map(|one| Some((one.busy?, one.length_s)));
    let (busy, time) = watched()
        .fold((0.0, 0.0), |(sum, time), (busy, length)| (sum + busy * length, time + length));
    Stall {
        at_s: first.at_s,
        length_s: last.at_s + last.length_s - first.at_s,
        case: first.case,
        longest_ns: most(|one| one.longest_ns),
        dirty_bytes: most(|one| one.dirty_bytes),
        writeback_bytes: most(|one| one.writeback_bytes),
        busy: (time > 0.0).then(|| busy / time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::Experiment;
    use ringfence_experiment::placement::Placed;
    use ringfence_experiment::plan::{Active, Case};
    use ringfence_experiment::stretch::Stretch;

    fn plan(victim: &str, episode: &str) -> Plan {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\n{episode}\n[[role]]\nname = \
             'victim'\n\
             task = {{ workload = '{victim}' }}\n[[role]]\nname = 'writer'\ntask = {{ workload = \
             'dirty' }}\n\
             [[arm]]\nname = 'alone'\nactive = ['victim']\n\
             [[arm]]\nname = 'beside'\nactive = ['victim', 'writer']\nbaseline = 'alone'\n"
        );
        let active = |role| Active { role, count: 1, variant: 0 };
        let case = |arm: &str, active: Vec<Active>, baseline| Case {
            arm: arm.into(),
            label: String::new(),
            params: vec![],
            active,
            baseline,
            between: None,
        };
        let cases = vec![
            case("alone", vec![active(0)], None),
            case("beside", vec![active(0), active(1)], Some(0)),
        ];
        let placed = Placed { cpus: vec![vec![0], vec![1]], notes: vec![], places: vec![] };
        Plan::stored(Experiment::parse(&text).unwrap(), cases, vec![], placed).unwrap()
    }

    const MS: u64 = 1_000_000;

    fn stretch(start_ms: u64, length_ms: u64, longest_ns: Option<u64>, busy_ms: u64) -> Stretch {
        Stretch {
            start_ns: start_ms * MS,
            length_ns: length_ms * MS,
            units: 1,
            longest_ns,
            dirty_bytes: Some(start_ms << 20),
            writeback_bytes: Some(0),
            disk_busy_ns: Some(busy_ms * MS),
            ..Stretch::default()
        }
    }

    fn victim(case: u32, stretches: Option<Vec<Stretch>>) -> Sample {
        let start_ns = stretches.as_ref().map_or(0, |all| all[0].start_ns);
        Sample {
            case,
            step_case: 1,
            role: "victim".into(),
            start_ns,
            length_ns: 400 * MS,
            latencies: Some(vec![(4096, 10), (8192, 1)].into()),
            stretches: stretches.map(Into::into),
            ..Sample::default()
        }
    }

    #[test]
    fn every_stretch_is_a_point_where_there_is_room() {
        let window = |start, case| victim(case, Some(vec![stretch(start, 400, Some(start), 100)]));
        let writer = Sample { role: "writer".into(), case: 1, step_case: 1, ..Sample::default() };
        let samples = [window(0, 0), window(1000, 1), writer, window(2000, 0)];
        let found = stalls(&plan("commit", ""), &samples, 100);
        assert_eq!((found.per_point, found.points.len(), found.stops_s.len()), (1, 3, 0));
        let second = found.points[1];
        assert_eq!((second.at_s, second.length_s, second.case), (1.0, 0.4, 1));
        assert_eq!(
            (second.longest_ns, second.dirty_bytes, second.busy),
            (Some(1000), Some(1000 << 20), Some(0.25))
        );
    }

    // An episode of 4 stretches, the second without a commit, then one alone.
    #[test]
    fn points_put_together_keep_what_stands_out() {
        let beside = [(0, Some(5), 250), (250, None, 250), (500, Some(900), 0), (750, Some(7), 0)];
        let beside =
            beside.map(|(start, longest, busy)| stretch(start, 250, longest, busy)).to_vec();
        let alone = vec![stretch(3000, 250, Some(6), 50)];
        let writer = Sample {
            role: "writer".into(),
            case: 1,
            step_case: 1,
            start_ns: MS,
            length_ns: 500 * MS,
            ..Sample::default()
        };
        let samples = [victim(1, Some(beside)), writer, victim(0, Some(alone))];
        let found =
            stalls(&plan("commit", "episode = { beside = '1s', tail = '1s' }"), &samples, 3);
        let shown: Vec<_> = found
            .points
            .iter()
            .map(|p| (p.at_s, p.length_s, p.case, p.longest_ns, p.busy))
            .collect();
        assert_eq!(
            shown,
            [
                (0.0, 0.5, 1, Some(5), Some(1.0)),
                (0.5, 0.5, 1, Some(900), Some(0.0)),
                (3.0, 0.25, 0, Some(6), Some(0.2))
            ]
        );
        assert_eq!(found.stops_s, [0.501]);
    }

    #[test]
    fn an_older_dataset_has_commits_alone_and_others_have_nothing() {
        let old = victim(0, None);
        let found = stalls(&plan("commit", ""), std::slice::from_ref(&old), 100);
        assert_eq!(
            (found.points[0].longest_ns, found.points[0].dirty_bytes, found.points[0].busy),
            (Some(8192), None, None)
        );
        assert_eq!(stalls(&plan("alu", ""), &[old], 100).points, []);
        assert_eq!(
            stalls(&plan("commit", ""), &[], 100),
            Stalls { per_point: 1, ..Stalls::default() }
        );
    }
}
