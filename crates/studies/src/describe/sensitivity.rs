//! Which figure moves by how much when a value of the machine file does.

use ringfence_experiment::Error;
use ringfence_simulator::Description;
use serde::Serialize;

use crate::describe::cells::Measured;
use crate::describe::edit;

/// By how much each value is moved.
pub const MOVED: f64 = 0.1;

/// What each cell does when a value grows.
#[derive(Debug, Clone, Serialize)]
pub struct Sensitivity {
    /// The cells, in words.
    pub cells: Vec<String>,
    /// What each comes to with the file as it is.
    pub figures: Vec<Option<f64>>,
    /// Value by value.
    pub rows: Vec<Row>,
    /// Values that cannot be a tenth larger, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A value, a tenth larger.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SensitivityRow"))]
pub struct Row {
    /// Such as `core.fence_ns`.
    pub path: String,
    /// As the file has it.
    pub value: String,
    /// What was simulated.
    pub moved: String,
    /// The change of each cell, as a share.
    pub changes: Vec<Option<f64>>,
}

/// Moves every number of a file that says how fast or how large something is by [`MOVED`], one at a
/// time.
///
/// # Errors
/// As [`Measured::simulate`].
pub fn sensitivity(
    description: &Description,
    cells: &Measured,
    tell: &mut dyn FnMut(f64),
) -> Result<Sensitivity, Error> {
    let all: Vec<usize> = (0..cells.cells.len()).collect();
    let figures = cells.simulate(description, &all)?;
    let values: Vec<_> = description
        .values()
        .into_iter()
        .filter_map(|value| edit::parse(&value.value).map(|number| (value, number)))
        // How many there are of something is what machine this is.
        .filter(|(value, _)| {
            !value.path.starts_with("topology.") && !value.path.ends_with(".socket")
        })
        .collect();
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for (done, (value, (number, whole))) in values.iter().enumerate() {
        tell(done as f64 / values.len() as f64);
        if *number == 0.0 {
            left_out.push((value.path.clone(), "it is 0".to_owned()));
            continue;
        }
        let larger = number * (1.0 + MOVED);
        let larger = if *whole { larger.max(number + 1.0).round() } else { larger };
        let moved = edit::number(larger, *whole);
        let changed = match description.changed(&value.path, &moved) {
            Ok(changed) => changed,
            Err(error) => {
                left_out.push((value.path.clone(), error.why));
                continue;
            }
        };
        let simulated = cells.simulate(&changed, &all)?;
        let change = |(now, before): (&Option<f64>, &Option<f64>)| {
            Some(now.as_ref()? / before.as_ref()? - 1.0)
        };
        let changes = simulated.iter().zip(&figures).map(change).collect();
        rows.push(Row { path: value.path.clone(), value: value.value.clone(), moved, changes });
    }
    let cells = cells.cells.iter().map(|cell| cell.label.clone()).collect();
    Ok(Sensitivity { cells, figures, rows, left_out })
}
