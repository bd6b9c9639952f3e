//! Rows of figures.

use ringfence_analysis::estimate::{Estimate, Finding};
use ringfence_analysis::results::{self, CaseResult};
use ringfence_dataset::Dataset;
use ringfence_dataset::table::{Columns, Values};
use ringfence_versus::case::{Case, Setting};
use ringfence_versus::findings::{Compared, Findings};

/// Rows of figures, column by column.
#[derive(Default)]
pub struct Figures {
    text: [Vec<Option<String>>; 9],
    counts: [Vec<Option<u32>>; 2],
    numbers: [Vec<Option<f64>>; 5],
}

struct Row<'a> {
    of: &'a Of<'a>,
    arm: &'a str,
    label: &'a str,
    case: Option<u32>,
    figure: &'a str,
    unit: Option<&'a str>,
    estimate: Result<&'a Estimate, &'a str>,
    verdict: Option<&'a str>,
}

// What all rows of a dataset have.
struct Of<'a> {
    experiment: &'a str,
    quantity: String,
    simulated: Option<&'a str>,
}

impl Figures {
    const TEXT: [&'static str; 9] = [
        "experiment",
        "arm",
        "label",
        "figure",
        "quantity",
        "unit",
        "verdict",
        "unknown",
        "simulated",
    ];
    const COUNTS: [&'static str; 2] = ["case", "trials"];
    const NUMBERS: [&'static str; 5] = ["value", "low", "high", "level", "spread"];

    /// How many there are.
    pub fn rows(&self) -> usize {
        self.counts[0].len()
    }

    /// Those of a dataset.
    pub fn add(&mut self, experiment: &str, simulated: Option<&str>, dataset: &Dataset) {
        let plan = &dataset.plan;
        let level = results::level(plan, &dataset.samples);
        let quantity = plan.experiment.measure.quantity.to_string();
        let of = Of { experiment, quantity, simulated };
        for result in results::results(plan, &dataset.samples, level) {
            let CaseResult { case, arm, label, unit, ns_per_unit, effect, .. } = &result;
            let case = u32::try_from(*case).ok();
            let row = |figure, estimate, verdict| Row {
                of: &of,
                arm,
                label,
                case,
                figure,
                unit: Some(unit),
                estimate: Ok(estimate),
                verdict,
            };
            self.push(&row("cost", ns_per_unit, None));
            if let Some(effect) = effect {
                let Finding { verdict, .. } = &effect.finding;
                self.push(&row("slowdown", &effect.by_class.all.slowdown, Some(verdict.word())));
            }
        }
        for not_run in &plan.not_run {
            let case = &plan.cases[not_run.case];
            self.push(&Row {
                of: &of,
                arm: &case.arm,
                label: &case.label,
                case: u32::try_from(not_run.case).ok(),
                figure: "not-run",
                unit: None,
                estimate: Err(&not_run.reason),
                verdict: Some("not_run"),
            });
        }
    }

    /// Those of commands that were run whole: what each takes, and those that are judged over what
    /// they are compared with.
    pub fn add_versus(&mut self, experiment: &str, found: &Findings) {
        let of = Of { experiment, quantity: "mean".into(), simulated: None };
        let unit = Some("runs");
        for (number, measure) in found.commands.iter().enumerate() {
            let Case { role, name, parameters, .. } = &measure.case;
            self.push(&Row {
                of: &of,
                arm: role,
                label: &format!("{role} ({name}){}", under(parameters)),
                case: u32::try_from(number).ok(),
                figure: "cost",
                unit,
                estimate: Ok(&measure.time.estimate()),
                verdict: None,
            });
        }
        for Compared { of: judged, than, parameters, ratio, verdict, .. } in &found.comparisons {
            let word = serde_json::to_value(verdict).ok();
            self.push(&Row {
                of: &of,
                arm: judged,
                label: &format!("{judged} against {than}{}", under(parameters)),
                case: None,
                figure: "slowdown",
                unit,
                estimate: Ok(&ratio.estimate()),
                verdict: word.as_ref().and_then(|word| word.as_str()),
            });
        }
    }

    fn push(&mut self, row: &Row) {
        let Row { of, arm, label, case, figure, unit, estimate, verdict } = *row;
        let known = estimate.ok().and_then(|estimate| estimate.as_ref().ok());
        let unknown = match estimate {
            Ok(Ok(_)) => None,
            Ok(Err(reason)) => Some(reason.to_string()),
            Err(reason) => Some(reason.to_owned()),
        };
        let text = [
            Some(of.experiment),
            Some(arm),
            Some(label),
            Some(figure),
            Some(of.quantity.as_str()),
            unit,
            verdict,
            unknown.as_deref(),
            of.simulated,
        ];
        for (column, value) in self.text.iter_mut().zip(text) {
            column.push(value.map(str::to_owned));
        }
        for (column, value) in self.counts.iter_mut().zip([case, known.map(|known| known.trials)]) {
            column.push(value);
        }
        let numbers =
            known.map(|known| [known.value, known.low, known.high, known.level, known.spread]);
        for (place, column) in self.numbers.iter_mut().enumerate() {
            column.push(numbers.map(|numbers| numbers[place]));
        }
    }

    /// All of them as columns.
    pub fn into_columns(self) -> Columns {
        let text = Self::TEXT
            .into_iter()
            .zip(self.text)
            .map(|(name, values)| (name, Values::Text(values)));
        let counts = Self::COUNTS.into_iter().zip(self.counts);
        let numbers = Self::NUMBERS.into_iter().zip(self.numbers);
        text.chain(counts.map(|(name, values)| (name, Values::Count(values))))
            .chain(numbers.map(|(name, values)| (name, Values::Number(values))))
            .collect()
    }
}

fn under(parameters: &[Setting]) -> String {
    parameters.iter().map(|(name, value)| format!(", {name}={value}")).collect()
}
