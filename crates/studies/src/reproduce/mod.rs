//! Published figures compared with measured ones.
//!
//! Published are times in seconds; what is compared is a ratio: the time of a case over that of the
//! case it is set against. The change in percent is `100 (time / time against - 1)`, whatever
//! formula the publication used. Measured is the same ratio on this machine, with its interval: the
//! slowdown where the one case is the other's baseline, else the ratio of costs over the trials
//! that have both.
//!
//! # Agreement
//! The *direction* of a ratio is longer, shorter or the same, where the same is a change within the
//! experiment's margin. A published figure, which has no interval, lies on one side of the margin;
//! a measured one is the same where its whole interval lies within the margin, longer or shorter
//! where its interval excludes no change, and undecided otherwise. Directions agree where they are
//! equal.
//!
//! The *magnitude* agrees where the published effect, the log of its ratio, lies within the
//! measured interval after each bound was moved outwards by the margin and by the factor
//! [`WIDENED_BY`]: where somewhere in the interval there is an effect between half and twice the
//! published one. It is undecided where the direction is, since an interval that holds no change
//! and any harm agrees with everything.

mod catalogue;
mod figures;
pub mod simulated;

use ringfence_analysis::estimate::{Interval, NotEstimable};
use ringfence_analysis::results;
use ringfence_experiment::Reason;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use serde::Serialize;

use crate::findings::Findings;

pub use catalogue::{experiments, published};
pub use figures::{Published, find_case, parse};

/// By how much an effect may differ on another machine and still be as large: a factor, either way.
pub const WIDENED_BY: f64 = 2.0;

/// A shipped experiment's figures, those that were published beside them.
#[derive(Debug, Clone)]
pub struct Reproduced {
    /// What was measured.
    pub findings: Findings,
    /// Each published comparison; none where nothing was published of it.
    pub rows: Vec<Row>,
}

impl Reproduced {
    /// Compares the published figures with the measured ones.
    ///
    /// # Errors
    /// As [`rows`].
    pub fn new(
        published: &[Published],
        plan: &Plan,
        samples: &[Sample],
        ended: Ended,
    ) -> Result<Self, String> {
        let findings = Findings { ended: Some(ended), ..Findings::new(plan, samples, None) };
        let rows = rows(published, plan, samples, findings.level)?;
        Ok(Self { findings, rows })
    }
}

/// A published comparison and what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was published.
    pub published: Published,
    /// The published time of the case that it is set against, s.
    pub against: f64,
    /// The published ratio.
    pub ratio: f64,
    /// The same here.
    pub measured: Measured,
    /// What was measured on other hardware, where the case itself was not run.
    pub instead: Option<Measured>,
}

impl Row {
    /// Whether both are compared with one and the same measured figure: a publication can have
    /// several for one case, as those of a program with inputs of three sizes.
    pub fn shares_figure(&self, other: &Self) -> bool {
        let measured = |row: &Self| {
            let row = &row.published;
            (row.experiment.clone(), row.case.clone(), row.against.clone())
        };
        measured(self) == measured(other)
    }
}

/// The rows by the measured figure that they are compared with, each in the order of its first row.
pub fn by_figure<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Vec<&'a Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| group[0].shares_figure(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// A ratio on this machine.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// With its interval, and whether it agrees.
    Ratio {
        /// The case's time over that of the case it is set against.
        interval: Interval,
        /// Whether what was published points the same way.
        direction: Agreement,
        /// Whether it is about as large.
        magnitude: Agreement,
    },
    /// The case cannot be run here, with the reason.
    NotRun(Reason),
    /// It ran, and there is no figure.
    NotEstimable(NotEstimable),
}

/// Whether published and measured agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// They do.
    Agrees,
    /// They do not.
    Differs,
    /// The interval is too wide to say.
    Undecided,
}

/// Which way a ratio points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Longer,
    Shorter,
    Same,
}

/// Compares all published comparisons of a plan's experiment with the measurement, each interval at
/// `level`.
///
/// # Errors
/// One sentence where a figure names no case of the experiment, or none that its own can be set
/// against.
pub fn rows(
    published: &[Published],
    plan: &Plan,
    samples: &[Sample],
    level: f64,
) -> Result<Vec<Row>, String> {
    let own: Vec<&Published> =
        published.iter().filter(|row| row.experiment == plan.experiment.name).collect();
    let mut rows = Vec::new();
    for row in &own {
        let Some(against) = &row.against else { continue };
        let reference = row.reference(own.iter().copied()).ok_or_else(|| {
            format!(
                "'{}' is compared with '{against}', for which no {} was published",
                row.case, row.quantity
            )
        })?;
        let ratio = row.value / reference.value;
        let measured = measured(plan, samples, &row.case, against, ratio, level)?;
        let instead = match (&measured, &row.instead, &row.instead_against) {
            (Measured::NotRun(_), Some(case), Some(against)) => {
                Some(self::measured(plan, samples, case, against, ratio, level)?)
            }
            _ => None,
        };
        rows.push(Row {
            published: (*row).clone(),
            against: reference.value,
            ratio,
            measured,
            instead,
        });
    }
    Ok(rows)
}

fn measured(
    plan: &Plan,
    samples: &[Sample],
    case: &str,
    against: &str,
    published: f64,
    level: f64,
) -> Result<Measured, String> {
    let (case, reference) = (find_case(plan, case)?, find_case(plan, against)?);
    let baselines = (plan.cases[case].baseline, plan.cases[reference].baseline);
    if baselines.0 != Some(reference) && baselines != (None, None) {
        return Err(format!("'{against}' is not the baseline of case {case}"));
    }
    if let Some(reason) = plan.refusal(case).or_else(|| plan.refusal(reference)) {
        return Ok(Measured::NotRun(reason.clone()));
    }
    Ok(match results::ratio(plan, samples, case, reference, level) {
        Ok(interval) => {
            let (direction, magnitude) =
                agreement(published, &interval, plan.experiment.measure.margin.0);
            Measured::Ratio { interval, direction, magnitude }
        }
        Err(reason) => Measured::NotEstimable(reason),
    })
}

/// Whether direction and magnitude agree; see the module's documentation.
pub fn agreement(published: f64, measured: &Interval, margin: f64) -> (Agreement, Agreement) {
    let here = match measured {
        interval if interval.within_margin(margin) => Direction::Same,
        interval if interval.low > 1.0 => Direction::Longer,
        interval if interval.high < 1.0 => Direction::Shorter,
        _ => return (Agreement::Undecided, Agreement::Undecided),
    };
    let there = match published {
        ratio if ratio > 1.0 + margin => Direction::Longer,
        ratio if ratio < 1.0 - margin => Direction::Shorter,
        _ => Direction::Same,
    };
    // Outwards: a bound on one side of no change may lie at half of itself or at twice itself.
    let low = measured.low.ln();
    let low = (low / WIDENED_BY).min(low * WIDENED_BY) - margin.ln_1p();
    let high = measured.high.ln();
    let high = (high / WIDENED_BY).max(high * WIDENED_BY) + margin.ln_1p();
    let says = |yes: bool| if yes { Agreement::Agrees } else { Agreement::Differs };
    (says(here == there), says((low..=high).contains(&published.ln())))
}

#[cfg(test)]
mod tests {
    use ringfence_machine::Machine;
    use ringfence_machine::fixtures;

    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval {
            value: (low * high).sqrt(),
            low,
            high,
            level: 0.95,
            trials: 10,
            spread: 0.02,
            slack: 0.0,
        }
    }

    #[test]
    fn direction_and_magnitude_are_told_apart() {
        use Agreement::{Agrees, Differs, Undecided};
        for (published, low, high, expected) in [
            // 5 % published, 4 to 6 % measured.
            (1.05, 1.04, 1.06, (Agrees, Agrees)),
            // The same direction, ten times as large.
            (1.05, 1.45, 1.55, (Agrees, Differs)),
            (3.6, 1.05, 1.07, (Agrees, Differs)),
            (3.6, 2.0, 2.2, (Agrees, Agrees)),
            (0.5, 1.4, 1.5, (Differs, Differs)),
            (0.28, 0.2, 0.25, (Agrees, Agrees)),
            // No change, on both sides; on one; not known.
            (1.004, 0.997, 1.003, (Agrees, Agrees)),
            (1.3, 0.997, 1.003, (Differs, Differs)),
            (1.0, 1.2, 1.3, (Differs, Differs)),
            (1.05, 0.9, 1.2, (Undecided, Undecided)),
            // An effect below the margin that is certain is still no change that matters.
            (1.0, 1.001, 1.004, (Agrees, Agrees)),
        ] {
            assert_eq!(
                agreement(published, &interval(low, high), 0.01),
                expected,
                "{published} [{low}, {high}]"
            );
        }
    }

    // Half and twice, exactly at the edge: an effect of 10 % against intervals that end at its half
    // and twice.
    #[test]
    fn the_factor_is_two_on_the_log_scale() {
        let effect: f64 = 0.1;
        let magnitude =
            |low: f64, high: f64| agreement(effect.exp(), &interval(low.exp(), high.exp()), 0.01).1;
        let margin = 0.01f64.ln_1p();
        assert_eq!(magnitude(0.01, 0.05 - margin / 2.0 + 1e-9), Agreement::Agrees);
        assert_eq!(magnitude(0.01, 0.05 - margin / 2.0 - 1e-9), Agreement::Differs);
        assert_eq!(magnitude(0.2 + 2.0 * margin - 1e-9, 0.5), Agreement::Agrees);
        assert_eq!(magnitude(0.2 + 2.0 * margin + 1e-9, 0.5), Agreement::Differs);
    }

    fn plan(name: &str, machine: &Machine) -> Plan {
        let experiment =
            experiments().into_iter().find(|experiment| experiment.name == name).expect(name);
        let mut plan =
            ringfence_engine::available::plan_for(&experiment, machine, &|_| true).unwrap();
        plan.not_run.retain(|not_run| !not_run.reason.contains("this processor"));
        plan
    }

    #[test]
    fn every_published_figure_belongs_to_a_case_that_can_be_set_against_its_other() {
        let machine = Machine::examine(&fixtures::xeon_2s64t().root()).unwrap();
        let published = published();
        let mut compared = 0;
        for experiment in experiments() {
            let plan = plan(&experiment.name, &machine);
            for row in published.iter().filter(|row| row.experiment == experiment.name) {
                find_case(&plan, &row.case).unwrap();
                if let Some(instead) = &row.instead {
                    find_case(&plan, instead).unwrap();
                }
            }
            let rows = rows(&published, &plan, &[], 0.95).unwrap();
            // Everything that was published ran on the notes' machine: without samples there is no
            // figure, and no reason not to have run.
            for row in &rows {
                assert!(
                    matches!(row.measured, Measured::NotEstimable(NotEstimable::NothingMeasured)),
                    "{row:?}"
                );
            }
            compared += rows.len();
        }
        let known = |row: &&Published| {
            experiments().iter().any(|experiment| experiment.name == row.experiment)
        };
        assert_eq!(published.iter().filter(known).count(), published.len());
        assert_eq!(compared, published.iter().filter(|row| row.against.is_some()).count());
        assert!(compared > 60, "{compared}");
        let name = |row: &Published| {
            (row.experiment.clone(), row.case.clone(), row.quantity.clone(), row.source.clone())
        };
        let once: std::collections::BTreeSet<_> = published.iter().map(name).collect();
        assert_eq!(once.len(), published.len(), "a figure is there twice");
    }

    // What the notes say in words, from their own seconds by the one formula.
    #[test]
    fn the_seconds_give_the_changes_that_the_files_tell() {
        let machine = Machine::examine(&fixtures::xeon_2s64t().root()).unwrap();
        let change = |name: &str, case: &str, quantity: &str| {
            let rows = rows(&published(), &plan(name, &machine), &[], 0.95).unwrap();
            let found = rows
                .iter()
                .find(|row| row.published.case == case && row.published.quantity == quantity);
            let ratio = found.unwrap_or_else(|| panic!("{case}")).ratio;
            (1000.0 * (ratio - 1.0)).round() / 10.0
        };
        let llc = "how-much-do-writers-under-one-cache-slow-mcf";
        let beside = |instruction| {
            format!(
                "beside; writer.count=8; writer.instruction={instruction}; \
                 writer.target=dax:/mnt/pmem0"
            )
        };
        assert_eq!(change(llc, &beside("clflushopt"), "mcf ref"), 5.9);
        assert_eq!(change(llc, &beside("clwb"), "mcf ref"), 5.8);
        assert_eq!(change(llc, &beside("clflush"), "mcf ref"), 0.6);
        let pair = "does-mcf-suffer-more-beside-a-writer-than-beside-mcf";
        let case = "beside a writer; writer.instruction=clwb; writer.fence_at=none; \
                    writer.target=dax:/mnt/pmem0";
        assert_eq!(change(pair, case, "mcf, pair with clwb"), 93.2);
    }

    fn window(role: &str, trial: u32, case: usize, units: u64) -> Sample {
        Sample {
            trial,
            step_case: case as u32,
            case: case as u32,
            role: role.into(),
            cpu: 1,
            length_ns: 1_000_000,
            busy_ns: 1_000_000,
            units,
            ..Sample::default()
        }
    }

    // 1000 entries of 2 KiB and 800 of 4 KiB in the same time: 1.6 times as long for the same
    // bytes, as the slides' seconds are for 8 GB.
    #[test]
    fn entries_of_two_sizes_are_compared_by_their_bytes() {
        let machine = Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
        let plan = plan("ring-entry-size", &machine);
        let case = |variant: &str, entry: &str| {
            let text = format!(
                "push and read; ring.variant={variant}; ring.entry={entry}; ring.target=dram"
            );
            find_case(&plan, &text).unwrap()
        };
        let units =
            [("optimised", "4KiB", 800), ("optimised", "2KiB", 1000), ("naive", "4KiB", 200)];
        let trial = |trial: u32| {
            units.map(|(variant, entry, units)| {
                let case = case(variant, entry);
                Sample {
                    step: case as u32,
                    ..window("ring", trial, case, units + u64::from(trial))
                }
            })
        };
        let samples: Vec<Sample> = (0..4).flat_map(trial).collect();
        let rows = rows(&published(), &plan, &samples, 0.95).unwrap();
        let found: Vec<(f64, f64)> = rows
            .iter()
            .map(|row| {
                assert!(matches!(&row.measured, Measured::NotRun(why) if why.contains("mounted \
                    with DAX")));
                let Some(Measured::Ratio { interval, direction: Agreement::Agrees, .. }) =
                    row.instead
                else {
                    panic!("{row:?}")
                };
                assert!(interval.low < interval.value && interval.value < interval.high);
                (row.ratio, interval.value)
            })
            .collect();
        let [(two, two_here), (first, first_here)] = found[..] else { panic!("{found:?}") };
        assert!(
            (two - 3.820669 / 2.713886).abs() < 1e-9 && (two_here - 1.6).abs() < 0.01,
            "{found:?}"
        );
        assert!(
            (first - 8.760896 / 2.650731).abs() < 1e-9 && (first_here - 4.0).abs() < 0.05,
            "{found:?}"
        );
    }

    #[test]
    fn what_this_machine_lacks_is_not_run_and_other_hardware_stands_beside_it() {
        let machine = Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
        let plan = plan("how-much-do-writers-under-one-cache-slow-mcf", &machine);
        let dram =
            find_case(&plan, "beside; writer.count=1; writer.instruction=clwb; writer.target=dram")
                .unwrap();
        let window = |trial: u32, position: u32, case: usize, units: u64| Sample {
            position,
            step_case: dram as u32,
            ..window("mcf", trial, case, units)
        };
        let baseline = plan.cases[dram].baseline.unwrap();
        let pair = |trial| {
            [window(trial, 0, baseline, 1000), window(trial, 1, dram, 500 + u64::from(trial))]
        };
        let samples: Vec<Sample> = (0..4).flat_map(pair).collect();
        let rows = rows(&published(), &plan, &samples, 0.95).unwrap();
        let row = |count: u32| {
            let case = format!(
                "beside; writer.count={count}; writer.instruction=clwb; \
                 writer.target=dax:/mnt/pmem0"
            );
            rows.iter()
                .find(|row| row.published.case == case && row.published.quantity == "mcf ref")
                .unwrap()
                .clone()
        };
        let one = row(1);
        assert!(
            matches!(&one.measured, Measured::NotRun(why) if why.contains("mounted with DAX")),
            "{one:?}"
        );
        let Some(Measured::Ratio { interval, direction, magnitude }) = one.instead else {
            panic!("{one:?}")
        };
        assert!((interval.value - 2.0).abs() < 0.02);
        // Published: no change.
        assert_eq!((direction, magnitude), (Agreement::Differs, Agreement::Differs));
        let eight = row(8);
        assert!(
            matches!(&eight.instead, Some(Measured::NotRun(why)) if why.contains("8 other cores")),
            "{eight:?}"
        );
    }
}
