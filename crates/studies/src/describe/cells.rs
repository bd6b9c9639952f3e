//! Cells of a measured experiment, and what a described machine makes of them.

use std::sync::atomic::AtomicBool;

use ringfence_analysis::results;
use ringfence_engine::{Engine, Measured as Window};
use ringfence_experiment::plan::{Case, NotRun, Plan};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::Task;
use ringfence_experiment::{Error, Experiment};
use ringfence_simulator::{Description, SimulatedEngine};
use serde::Serialize;

/// An experiment's figures on a machine that exists.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What was measured.
    pub experiment: Experiment,
    /// Every case that has a figure.
    pub cells: Vec<Cell>,
}

/// A figure that was measured.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The case.
    pub case: Case,
    /// What its metric does.
    pub task: Task,
    /// What it is, in words.
    pub label: String,
    /// ns a unit, or the slowdown where the case has a baseline.
    pub value: f64,
    /// The bounds of its interval.
    pub bounds: (f64, f64),
}

/// A cell, measured and simulated.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PredictedCell"))]
pub struct Outcome {
    /// What it is, in words.
    pub label: String,
    /// What was measured: ns a unit, or a slowdown.
    pub measured: f64,
    /// The lower bound of its interval.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// The same by the described machine; `None` where that cannot simulate it.
    pub simulated: Option<f64>,
}

/// How well a described machine predicts what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Predicted {
    /// Cells that the description rests on.
    pub used: Vec<Outcome>,
    /// All others.
    pub left_out: Vec<Outcome>,
}

impl Measured {
    /// The figures of a plan's samples.
    pub fn of(plan: &Plan, samples: &[Sample]) -> Self {
        let level = results::level(plan, samples);
        let figures = results::main_estimates(plan, samples, level);
        let cells = plan.measured().into_iter().zip(figures).filter_map(|(number, figure)| {
            let (case, figure) = (&plan.cases[number], figure.ok()?);
            let label = if case.label.is_empty() { case.arm.clone() } else { case.label.clone() };
            let bounds = (figure.low, figure.high);
            let task = plan.metric_task(number).clone();
            Some(Cell { case: case.clone(), task, label, value: figure.value, bounds })
        });
        Self { experiment: plan.experiment.clone(), cells: cells.collect() }
    }

    /// The cases of a plan that have not been measured; their values are none.
    pub fn planned(plan: &Plan) -> Self {
        let cell = |number: usize| {
            let case = &plan.cases[number];
            let label = if case.label.is_empty() { case.arm.clone() } else { case.label.clone() };
            let task = plan.metric_task(number).clone();
            Cell { case: case.clone(), task, label, value: f64::NAN, bounds: (f64::NAN, f64::NAN) }
        };
        let cells = plan.measured().into_iter().map(cell).collect();
        Self { experiment: plan.experiment.clone(), cells }
    }

    /// The places of the cells whose label has one of these texts.
    ///
    /// # Errors
    /// One sentence, where a text is in no label, or no cell is left.
    pub fn named(&self, texts: &[String]) -> Result<Vec<usize>, Error> {
        let has = |text: &String| self.cells.iter().any(|cell| cell.label.contains(text.as_str()));
        if let Some(text) = texts.iter().find(|text| !has(text)) {
            let first = self.cells.first().map_or("nothing", |cell| cell.label.as_str());
            return Err(Error::usage(format!(
                "no cell label contains '{text}'; one label is '{first}'"
            )));
        }
        let is_named = |cell: &Cell| texts.iter().any(|text| cell.label.contains(text.as_str()));
        let places = self.cells.iter().enumerate().filter(|(_, cell)| is_named(cell));
        Ok(places.map(|(place, _)| place).collect())
    }

    /// What a described machine makes of some cells, by their places here, each on a machine of its
    /// own: `None` for what it cannot simulate.
    ///
    /// # Errors
    /// One sentence, where the experiment cannot be planned for it.
    pub fn simulate(
        &self,
        description: &Description,
        cells: &[usize],
    ) -> Result<Vec<Option<f64>>, Error> {
        let machine = description.machine();
        let plan = ringfence_simulator::plan(&self.experiment, description, &machine)?;
        let threads =
            std::thread::available_parallelism().map_or(1, usize::from).min(cells.len().max(1));
        let share = |thread: usize| {
            let own = cells.iter().enumerate().filter(move |(place, _)| place % threads == thread);
            let simulated = own.map(|(place, cell)| {
                Ok::<_, Error>((place, simulate_one(&plan, &self.cells[*cell].case, description)?))
            });
            simulated.collect::<Result<Vec<_>, Error>>()
        };
        let mut all = vec![None; cells.len()];
        let parts: Vec<Result<Vec<_>, Error>> = std::thread::scope(|scope| {
            let started: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
            started.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        for part in parts {
            for (place, value) in part? {
                all[place] = value;
            }
        }
        Ok(all)
    }
}

// A case alone, in one trial: the machine begins empty, so that the result does not depend on what
// else is asked.
fn simulate_one(plan: &Plan, case: &Case, description: &Description) -> Result<Option<f64>, Error> {
    let same = |other: &Case| (&other.arm, &other.params) == (&case.arm, &case.params);
    let Some(number) = plan.cases.iter().position(same) else { return Ok(None) };
    if plan.refusal(number).is_some() {
        return Ok(None);
    }
    let mut alone = plan.clone();
    alone.not_run = (0..plan.cases.len())
        .filter(|other| *other != number)
        .map(|other| NotRun { case: other, reason: "it is not needed".into() })
        .collect();
    let stop = AtomicBool::new(false);
    let mut engine = SimulatedEngine::new(&alone, description, &stop);
    engine.begin_trial(0)?;
    let mut time = |number: usize| {
        let windows = engine.window(&alone.cases[number].active)?;
        Ok::<_, Error>(ns_per_unit(&windows, alone.metric))
    };
    let baseline = alone.cases[number].baseline.map(&mut time).transpose()?;
    let own = time(number)?;
    Ok(match baseline {
        Some(baseline) => own.zip(baseline).map(|(own, baseline)| own / baseline),
        None => own,
    })
}

// As estimates have it: all instances' units, over the time of one.
fn ns_per_unit(windows: &[Window], metric: usize) -> Option<f64> {
    let own: Vec<&Window> = windows.iter().filter(|window| window.role == metric).collect();
    let units: u64 = own.iter().map(|window| window.units).sum();
    let ns: u64 = own.iter().map(|window| window.busy_ns).sum();
    (units > 0).then(|| ns as f64 / own.len() as f64 / units as f64)
}

/// Compares a description with measurements; `used` are the places of cells that it rests on.
///
/// # Errors
/// As [`Measured::simulate`].
pub fn predict(
    description: &Description,
    measured: &Measured,
    used: &[usize],
) -> Result<Predicted, Error> {
    let all: Vec<usize> = (0..measured.cells.len()).collect();
    let simulated = measured.simulate(description, &all)?;
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for (place, (cell, simulated)) in measured.cells.iter().zip(simulated).enumerate() {
        let outcome = Outcome {
            label: cell.label.clone(),
            measured: cell.value,
            low: cell.bounds.0,
            high: cell.bounds.1,
            simulated,
        };
        if used.contains(&place) { own.push(outcome) } else { others.push(outcome) }
    }
    Ok(Predicted { used: own, left_out: others })
}

impl Outcome {
    /// By how much the simulated figure is off, as a share of the measured one.
    pub fn error(&self) -> Option<f64> {
        self.simulated.map(|simulated| simulated / self.measured - 1.0)
    }
}

/// The median and the mean of the errors' sizes, as shares; `None` where there are none.
pub fn errors(outcomes: &[Outcome]) -> Option<(f64, f64)> {
    let mut sizes: Vec<f64> = outcomes.iter().filter_map(|one| one.error().map(f64::abs)).collect();
    sizes.sort_by(f64::total_cmp);
    let middle = sizes.len() / 2;
    let median = match sizes.len() {
        0 => return None,
        odd if odd % 2 == 1 => sizes[middle],
        _ => (sizes[middle - 1] + sizes[middle]) / 2.0,
    };
    Some((median, sizes.iter().sum::<f64>() / sizes.len() as f64))
}
