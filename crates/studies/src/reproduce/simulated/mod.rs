//! Published figures compared with simulated ones, on the described machines closest to those of
//! the sources.
//!
//! Only the cases that something was published of are simulated. What a publication leaves open is
//! simulated in every reading that [`Setting`] holds, beside the first one; none of them is chosen
//! by what comes of it. Where a time is that of so many bytes, the simulated rate gives seconds
//! besides the ratios.

mod part;
mod run;
mod score;
mod setting;

use ringfence_analysis::estimate::{Interval, NotEstimable};
use ringfence_analysis::results;
use ringfence_experiment::Reason;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_machine::units::Bytes;
use serde::Serialize;

use super::{Measured, Published, Reproduced, Row, find_case};

pub use part::part;
pub use run::{Job, jobs, measured_here, run};
pub use score::{Errors, Neighbours, Order, Score};
pub use setting::{Alternative, Setting, Volume};

/// An experiment on a described machine, in one reading of what was left open.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// The experiment's name.
    pub experiment: String,
    /// What it asks.
    pub question: Option<String>,
    /// The described machine: its name, and what a heading calls it.
    pub machine: (String, String),
    /// The reading; none for the first one.
    pub alternative: Option<Alternative>,
    /// What came of it; or why it was not run.
    pub outcome: Result<Outcome, Reason>,
}

/// What came of a simulation.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The figures: here [`Row::measured`] is what was simulated.
    pub reproduced: Reproduced,
    /// Published comparison by comparison: whether more than one task runs in it, so that it is
    /// about a neighbour.
    pub neighbour: Vec<bool>,
    /// Times that were published for so many bytes.
    pub times: Vec<Time>,
}

/// A time that was published for so many bytes, and the simulated one.
#[derive(Debug, Clone, Serialize)]
pub struct Time {
    /// What was published.
    pub published: Published,
    /// For how many bytes.
    pub volume: Volume,
    /// The simulated time, s.
    pub simulated: Seconds,
}

/// A simulated time.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seconds {
    /// With its interval, s.
    Time(Interval),
    /// The case cannot be run, with the reason.
    NotRun(Reason),
    /// It ran, and there is no figure.
    NotEstimable(NotEstimable),
}

impl Time {
    /// Simulated over published, less one.
    pub fn error(&self) -> Option<f64> {
        match &self.simulated {
            Seconds::Time(interval) => Some(interval.value / self.published.value - 1.0),
            _ => None,
        }
    }
}

impl Row {
    /// The ratio that was measured or simulated, over that which was published, less one.
    pub fn error(&self) -> Option<f64> {
        match &self.measured {
            Measured::Ratio { interval, .. } => Some(interval.value / self.ratio - 1.0),
            _ => None,
        }
    }
}

impl Outcome {
    /// Compares the published figures with the simulated ones.
    ///
    /// # Errors
    /// As [`super::rows`].
    pub fn new(
        published: &[Published],
        setting: &Setting,
        bytes: Option<Bytes>,
        reproduced: Reproduced,
        samples: &[Sample],
    ) -> Result<Self, String> {
        let plan = &reproduced.findings.plan;
        let beside = |row: &Row| -> Result<bool, String> {
            Ok(plan.cases[find_case(plan, &row.published.case)?].active.len() > 1)
        };
        let neighbour = reproduced.rows.iter().map(beside).collect::<Result<_, _>>()?;
        let level = reproduced.findings.level;
        let times = times(published, setting, bytes, plan, samples, level)?;
        Ok(Self { reproduced, neighbour, times })
    }
}

/// The times of a plan's experiment that were published for so many bytes, or for `bytes` instead,
/// each interval at `level`.
///
/// # Errors
/// One sentence where a figure names no case of the experiment.
pub fn times(
    published: &[Published],
    setting: &Setting,
    bytes: Option<Bytes>,
    plan: &Plan,
    samples: &[Sample],
    level: f64,
) -> Result<Vec<Time>, String> {
    let mut times = Vec::new();
    for row in published.iter().filter(|row| row.experiment == plan.experiment.name) {
        let Some(mut volume) = setting.volume(row).cloned() else { continue };
        volume.bytes = bytes.unwrap_or(volume.bytes);
        let simulated = seconds(plan, samples, &row.case, &volume, level)?;
        times.push(Time { published: row.clone(), volume, simulated });
    }
    Ok(times)
}

fn seconds(
    plan: &Plan,
    samples: &[Sample],
    case: &str,
    volume: &Volume,
    level: f64,
) -> Result<Seconds, String> {
    let case = find_case(plan, case)?;
    if let Some(reason) = plan.refusal(case) {
        return Ok(Seconds::NotRun(reason.clone()));
    }
    let Some(bytes) = plan.metric_task(case).bytes_per_unit() else {
        return Ok(Seconds::NotRun("its work is not counted in bytes".into()));
    };
    let result =
        results::results(plan, samples, level).into_iter().find(|result| result.case == case);
    Ok(match result.map_or(Err(NotEstimable::NothingMeasured), |result| result.ns_per_unit) {
        Ok(ns) => Seconds::Time(ns.times(volume.bytes.0 as f64 / bytes as f64 * 1e-9)),
        Err(why) => Seconds::NotEstimable(why),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use ringfence_analysis::estimate::Interval;
    use ringfence_experiment::Experiment;
    use ringfence_experiment::plan::Plan;
    use ringfence_machine::Machine;
    use ringfence_machine::fixtures;

    use super::*;
    use crate::reproduce::{self as reproduce, experiments, parse, published};

    fn named(name: &str) -> Experiment {
        experiments().into_iter().find(|experiment| experiment.name == name).expect(name)
    }

    #[test]
    fn the_shipped_setting_is_about_figures_that_there_are() {
        let setting = Setting::shipped();
        let published = published();
        for row in &published {
            assert!(setting.machine(&row.source).is_some(), "no machine for {}", row.source);
        }
        for alternative in setting.all() {
            let about = published.iter().any(|row| alternative.is_about(row));
            assert!(about, "'{}' is about nothing", alternative.name);
        }
        let volumes = published.iter().filter_map(|row| setting.volume(row));
        let of = |of: &str| volumes.clone().filter(|volume| volume.of == of).count();
        assert_eq!((of("writes of note 002"), of("ring of the slides")), (15, 4));
        // Those of one flush time appear in two experiments.
        assert_eq!(of("writes of note 000"), 15);
    }

    #[test]
    fn a_setting_that_makes_no_sense_is_refused() {
        let head = "[[alternative]]\nname = 'x'\nwhy = 'y'\nexperiments = []\nsources = []\n";
        for (text, part) in [
            (head.to_string(), "must either change something"),
            (format!("{head}bytes = 1\nnot_run = 'z'"), "must either change something"),
            ("[[alternativ]]".into(), "unknown field"),
        ] {
            let error = Setting::parse(&text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(Setting::parse(&format!("{head}bytes = '1KiB'")).is_ok());
    }

    // Every published comparison is still one of the smaller experiment, in every reading, and
    // nothing else is run.
    #[test]
    fn the_part_of_an_experiment_holds_all_that_was_published_of_it() {
        let machine = Machine::examine(&fixtures::xeon_2s64t().root()).unwrap();
        let (all, setting) = (published(), Setting::shipped());
        for experiment in experiments() {
            let own: Vec<&Published> =
                all.iter().filter(|row| row.experiment == experiment.name).collect();
            if own.is_empty() {
                continue;
            }
            let readings = setting
                .alternatives(&experiment.name)
                .filter(|one| one.not_run.is_none())
                .map(Some);
            for reading in std::iter::once(None).chain(readings) {
                let about = |row: &&&Published| reading.is_none_or(|one| one.is_about(row));
                let own: Vec<Published> =
                    own.iter().filter(about).map(|row| (*row).clone()).collect();
                let part = part(&experiment, &own.iter().collect::<Vec<_>>(), reading).unwrap();
                let plan = Plan::new(&part, &machine.topology, None).unwrap();
                let whole = Plan::new(&experiment, &machine.topology, None).unwrap();
                assert!(plan.cases.len() <= whole.cases.len());
                for row in &own {
                    for case in [Some(&row.case), row.against.as_ref()].into_iter().flatten() {
                        find_case(&plan, case).unwrap();
                    }
                }
            }
        }
        let costs = named("what-does-a-flush-cost-by-block-size");
        let own: Vec<&Published> = all.iter().filter(|row| row.experiment == costs.name).collect();
        let plan = Plan::new(&part(&costs, &own, None).unwrap(), &machine.topology, None).unwrap();
        assert_eq!(plan.cases.len(), 4 * 5);
    }

    const HEAD: &str = "experiment,case,quantity,unit,value,against,instead,instead_against,\
                        source,machine,remark\n";

    // A made source: with twice and half the time that the made machine takes.
    fn made() -> (Experiment, Vec<Published>, Setting) {
        let experiment = Experiment::parse(
            "schema = 2\nname = 'made'\nmetric = 'w'\n[measure]\nlooks = [10]\nrounds = 1\nwindow \
             = '10ms'\nprobe = '0ms'\n\
             [[role]]\nname = 'w'\n[role.task]\nworkload = 'write'\ninstruction = ['clflush', \
             'clwb', 'nt']\nblock = ['64B', '4KiB']\n\
             size = '1MiB'\nfence_at = 'none'\n[[arm]]\nname = 'write'\nactive = ['w']\n",
        )
        .unwrap();
        let row = |instruction: &str, value: f64, against: &str| {
            format!(
                "made,write; w.instruction={instruction}; \
                 w.block=4KiB,q,s,{value},{against},,,made,a machine,\n"
            )
        };
        let rows = [
            row("clflush", 4.0, ""),
            row("clwb", 1.0, "write; w.instruction=clflush; w.block=4KiB"),
        ];
        let published = parse(&format!("{HEAD}{}", rows.concat())).unwrap();
        let setting = Setting::parse(
            "[[on]]\nsources = ['made']\nmachine = 'laptop'\n[[volume]]\nsource = 'made'\nquantity \
             = 'q'\nbytes = 1048576\nof = 'made'\nwhy = 'made'\n\
             [[alternative]]\nname = 'fenced'\nwhy = 'open'\nexperiments = ['made']\nsources = \
             ['made']\nset.w = { fence_at = 'line' }\n\
             [[alternative]]\nname = 'slow stores'\nwhy = 'open'\nexperiments = ['made']\nsources \
             = ['made']\nmachine = { 'core.issue.store_ns' = '100.0' }\n\
             [[alternative]]\nname = 'no such value'\nwhy = 'open'\nexperiments = \
             ['made']\nsources = ['made']\nmachine = { 'core.nothing' = '1' }\n\
             [[alternative]]\nname = 'twice as many bytes'\nwhy = 'open'\nexperiments = \
             ['made']\nsources = ['made']\nbytes = 2097152\n\
             [[alternative]]\nname = 'faults'\nwhy = 'open'\nexperiments = ['made']\nsources = \
             ['made']\nnot_run = 'they are not simulated'\n",
        )
        .unwrap();
        (experiment, published, setting)
    }

    fn describe(name: &str, changes: &[(String, String)]) -> Result<Machine, String> {
        let shipped = ringfence_simulator::catalogue::all();
        let mut found =
            shipped.into_iter().find(|known| known.name == name).ok_or("no such machine")?;
        for (path, value) in changes {
            found = found.changed(path, value).map_err(|error| error.why)?;
        }
        Ok(found.machine())
    }

    fn simulate(threads: usize) -> Vec<Simulated> {
        let (experiment, published, setting) = made();
        let jobs = jobs(&[experiment], &published, &setting, None, &describe).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let all = run(&jobs, &setting, dir.path(), threads, &stop, &|_| {}).unwrap();
        assert!(
            jobs.iter().all(|job| job.experiment.is_err() || dir.path().join(&job.folder).is_dir())
        );
        all
    }

    fn seconds(one: &Simulated) -> Vec<f64> {
        let times = one.outcome.as_ref().unwrap().times.iter();
        times
            .map(|time| match &time.simulated {
                Seconds::Time(interval) => interval.value,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn experiments_are_simulated_in_every_reading_and_the_same_however_many_at_once() {
        let (one, two) = (simulate(1), simulate(3));
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
        let names: Vec<Option<&str>> = one
            .iter()
            .map(|one| one.alternative.as_ref().map(|known| known.name.as_str()))
            .collect();
        let expected = ["fenced", "slow stores", "no such value", "twice as many bytes", "faults"];
        assert_eq!(names, [vec![None], expected.map(Some).to_vec()].concat());
        let first = seconds(&one[0]);
        // clflush waits for each line, clwb for none; a fence after each line makes them alike.
        assert!(first[0] > 1.2 * first[1], "{first:?}");
        let fenced = seconds(&one[1]);
        assert!(fenced[1] > 1.2 * first[1], "{fenced:?}");
        // 64 stores of a block at 100 ns each: 16384 lines of a MiB.
        let slow = seconds(&one[2]);
        assert!(slow.iter().all(|seconds| *seconds > 16384.0 * 100e-9), "{slow:?}");
        let why = one[3].outcome.as_ref().unwrap_err();
        assert!(why.contains("has no value core.nothing"), "{why}");
        let twice = seconds(&one[4]);
        assert!(twice.iter().zip(&first).all(|(twice, once)| (twice / once - 2.0).abs() < 1e-9));
        assert_eq!(one[5].outcome.as_ref().unwrap_err(), "they are not simulated");
        let row = &one[0].outcome.as_ref().unwrap().reproduced.rows[0];
        assert!(
            (row.error().unwrap() - (first[1] / first[0] / 0.25 - 1.0)).abs() < 0.02,
            "{row:?}"
        );
    }

    fn interval(value: f64) -> Interval {
        Interval { value, low: value, high: value, level: 0.95, trials: 3, spread: 0.0, slack: 0.0 }
    }

    // From made figures: (published, simulated) ratios of a victim beside neighbours.
    fn outcome(cells: &[(f64, Option<f64>)], times: &[(f64, Option<f64>)]) -> Simulated {
        let experiment = named("how-much-do-writers-under-one-cache-slow-mcf");
        let machine = Machine::examine(&fixtures::xeon_2s64t().root()).unwrap();
        let plan = Plan::new(&experiment, &machine.topology, None).unwrap();
        let template =
            published().into_iter().find(|row| row.experiment == experiment.name).unwrap();
        let row = |(ratio, simulated): &(f64, Option<f64>)| Row {
            published: Published { quantity: "mcf, made".into(), ..template.clone() },
            against: 1.0,
            ratio: *ratio,
            measured: match simulated {
                Some(value) => {
                    let (direction, magnitude) =
                        reproduce::agreement(*ratio, &interval(*value), 0.01);
                    Measured::Ratio { interval: interval(*value), direction, magnitude }
                }
                None => Measured::NotRun("made".into()),
            },
            instead: None,
        };
        let volume = |of: &str| {
            Setting::parse(&format!(
                "[[volume]]\nsource = '{}'\nquantity = '{}'\nbytes = 1\nof = '{of}'\nwhy = 'made'",
                template.source, template.quantity
            ))
            .unwrap()
            .volume(&template)
            .unwrap()
            .clone()
        };
        let time = |(published, simulated): &(f64, Option<f64>)| Time {
            published: Published { value: *published, ..template.clone() },
            volume: volume("made"),
            simulated: simulated
                .map_or(Seconds::NotRun("made".into()), |value| Seconds::Time(interval(value))),
        };
        let rows: Vec<Row> = cells.iter().map(row).collect();
        let findings = reproduce::Reproduced::new(
            &[],
            &plan,
            &[],
            ringfence_experiment::ended::Ended::Complete,
        )
        .unwrap()
        .findings;
        Simulated {
            experiment: experiment.name,
            question: None,
            machine: ("made".into(), "made".into()),
            alternative: None,
            outcome: Ok(Outcome {
                neighbour: vec![true; rows.len()],
                reproduced: Reproduced { findings, rows },
                times: times.iter().map(time).collect(),
            }),
        }
    }

    #[test]
    fn scores_count_what_they_say() {
        let cells = [
            // Too small to count, whatever its direction.
            (1.04, Some(0.9)),
            (2.0, Some(2.2)),
            // The right direction, the effect off by more than 1.3, the ratio not.
            (1.1, Some(1.2)),
            (0.8, Some(1.1)),
            (3.0, None),
            // As large as the one before, within the margin.
            (1.105, Some(1.0)),
        ];
        let score =
            Score::new(&[outcome(&cells, &[(10.0, Some(9.0)), (5.0, Some(6.0)), (7.0, None)])]);
        let near = score.neighbours;
        assert_eq!((score.cells, score.simulated, near.published, near.simulated), (6, 5, 6, 5));
        assert_eq!((near.large, near.right, near.near, near.near_ratio), (4, 2, 1, 3));
        let times = &score.times[0];
        assert_eq!((times.published, times.simulated), (3, 2));
        assert!(
            (times.mean.unwrap() - 0.15).abs() < 1e-9 && (times.worst.unwrap() - 0.2).abs() < 1e-9
        );
        // Of the ten pairs that were simulated, 1.1 and 1.105 are alike.
        let order = &score.orders[0];
        assert_eq!((order.victim.as_str(), order.pairs), ("mcf", 9));
        // Wrong: 1.04 below 0.8, 1.1 and 1.105 stand as they should but for 0.8 above 1.04 and
        // 1.105.
        assert_eq!(order.right, 7);
    }
}
