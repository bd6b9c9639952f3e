//! Machine files beside what was measured.

use ringfence_simulator::Description;
use ringfence_studies::describe::cells::errors;
use ringfence_studies::describe::fit::Change;
use ringfence_studies::describe::sensitivity::{MOVED, Row, Sensitivity};
use ringfence_studies::describe::{Fit, Outcome, Predicted};
use serde::Serialize;

/// `machine check`: what a described machine predicts of a survey's write table.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/machine-check/1")]
pub(crate) struct MachineCheck {
    /// The described machine.
    machine: String,
    #[serde(flatten)]
    both: Both,
}

/// `calibrate`: what was fitted, and the errors before and after.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/calibrated/1")]
pub(crate) struct Calibrated {
    /// The described machine.
    machine: String,
    /// Values that were changed.
    changes: Vec<Change>,
    /// How many machines were simulated.
    tried: usize,
    /// Cells that were used and cells that were left out.
    before: Both,
    /// Cells that were used and cells that were left out.
    after: Both,
    /// Which cells come out worse by the fitted values, in the median or in the mean.
    worse: Vec<Part>,
}

/// `machine sensitivity`: which figure moves by how much when a value of a machine file does.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/machine-sensitivity/1")]
pub(crate) struct MachineSensitivity {
    /// The described machine.
    machine: String,
    /// By which share values are moved.
    by: f64,
    /// The cells, in words.
    cells: Vec<String>,
    /// What each comes to with the file as it is: ns a unit, or a slowdown.
    figures: Vec<Option<f64>>,
    /// Value by value.
    rows: Vec<Row>,
    /// Values that cannot be so much larger.
    not_moved: Vec<NotMoved>,
}

/// Cells that were used and cells that were left out.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Both {
    /// Cells, measured and simulated.
    used: Cells,
    /// Cells, measured and simulated.
    left_out: Cells,
}

/// Cells, measured and simulated.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Cells {
    /// The cells.
    cells: Vec<Outcome>,
    /// Sizes of the errors as shares; null where there are none.
    error: Option<Errors>,
}

/// Over the cells.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CellErrors"))]
struct Errors {
    /// The median.
    median: f64,
    /// The mean.
    mean: f64,
}

/// Cells that the fit may use, or may not.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Part {
    /// They were fitted to.
    Used,
    /// They were left out.
    LeftOut,
}

/// One value.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct NotMoved {
    /// Its path.
    path: String,
    /// Why.
    because: String,
}

/// `machine check`: a description beside what was measured.
pub fn machine_check(description: &Description, found: &Predicted) -> impl Serialize + use<> {
    MachineCheck { machine: description.name.clone(), both: both(found) }
}

/// `calibrate`: what was fitted, and the errors before and after.
pub fn calibrated(fit: &Fit) -> impl Serialize + use<> {
    let part = |used: bool| if used { Part::Used } else { Part::LeftOut };
    Calibrated {
        machine: fit.description.name.clone(),
        changes: fit.changes.clone(),
        tried: fit.tried,
        before: both(&fit.before),
        after: both(&fit.after),
        worse: fit.worse().iter().map(|worse| part(worse.used)).collect(),
    }
}

/// `machine sensitivity`: which cell moves by how much.
pub fn machine_sensitivity(
    description: &Description,
    found: &Sensitivity,
) -> impl Serialize + use<> {
    let not_moved =
        found.left_out.iter().cloned().map(|(path, because)| NotMoved { path, because });
    MachineSensitivity {
        machine: description.name.clone(),
        by: MOVED,
        cells: found.cells.clone(),
        figures: found.figures.clone(),
        rows: found.rows.clone(),
        not_moved: not_moved.collect(),
    }
}

fn both(found: &Predicted) -> Both {
    let cells = |cells: &[Outcome]| Cells {
        cells: cells.to_vec(),
        error: errors(cells).map(|(median, mean)| Errors { median, mean }),
    };
    Both { used: cells(&found.used), left_out: cells(&found.left_out) }
}
