//! Machine files beside what was measured.

use ringfence_simulator::Description;
use ringfence_studies::describe::cells::errors;
use ringfence_studies::describe::fit::Change;
use ringfence_studies::describe::sensitivity::{MOVED, Sensitivity};
use ringfence_studies::describe::{Fit, Outcome, Predicted};
use serde::Serialize;

use crate::json::Document;

#[derive(Serialize)]
struct Errors {
    median: f64,
    mean: f64,
}

#[derive(Serialize)]
struct Side {
    cells: Vec<Outcome>,
    error: Option<Errors>,
}

#[derive(Serialize)]
struct Both {
    used: Side,
    left_out: Side,
}

fn both(found: &Predicted) -> Both {
    let side = |cells: &[Outcome]| Side {
        cells: cells.to_vec(),
        error: errors(cells).map(|(median, mean)| Errors { median, mean }),
    };
    Both { used: side(&found.used), left_out: side(&found.left_out) }
}

/// `machine check`: a description beside what was measured.
pub fn machine_check(description: &Description, found: &Predicted) -> impl Serialize + use<> {
    #[derive(Serialize)]
    struct Body {
        machine: String,
        #[serde(flatten)]
        both: Both,
    }
    let body = Body { machine: description.name.clone(), both: both(found) };
    Document { schema: "ringfence/machine-check/1", body }
}

/// `calibrate`: what was fitted, and the errors before and after.
pub fn calibrated(fit: &Fit) -> impl Serialize + use<> {
    #[derive(Serialize)]
    struct Body {
        machine: String,
        changes: Vec<Change>,
        tried: usize,
        before: Both,
        after: Both,
        worse: Vec<&'static str>,
    }
    let side = |used: bool| if used { "used" } else { "left_out" };
    let body = Body {
        machine: fit.description.name.clone(),
        changes: fit.changes.clone(),
        tried: fit.tried,
        before: both(&fit.before),
        after: both(&fit.after),
        worse: fit.worse().iter().map(|worse| side(worse.used)).collect(),
    };
    Document { schema: "ringfence/calibrated/1", body }
}

/// `machine sensitivity`: which cell moves by how much.
pub fn machine_sensitivity(
    description: &Description,
    found: &Sensitivity,
) -> impl Serialize + use<> {
    #[derive(Serialize)]
    struct NotMoved {
        path: String,
        because: String,
    }
    #[derive(Serialize)]
    struct Body {
        machine: String,
        by: f64,
        cells: Vec<String>,
        figures: Vec<Option<f64>>,
        rows: Vec<ringfence_studies::describe::sensitivity::Row>,
        not_moved: Vec<NotMoved>,
    }
    let not_moved =
        found.left_out.iter().cloned().map(|(path, because)| NotMoved { path, because });
    let body = Body {
        machine: description.name.clone(),
        by: MOVED,
        cells: found.cells.clone(),
        figures: found.figures.clone(),
        rows: found.rows.clone(),
        not_moved: not_moved.collect(),
    };
    Document { schema: "ringfence/machine-sensitivity/1", body }
}
