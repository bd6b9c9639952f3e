//! What `--json` prints: a document for each kind of answer, of the same values as text and pages.
//!
//! Each says in `schema` what it is, such as `ringfence/experiment/3`: one string, so that a file which is found a
//! year later tells its kind and its version, and one comparison refuses what a reader does not know. The kinds
//! are described in `docs/schema`, and `docs/json.md` says what a version promises.

mod answers;
mod case;
mod census;
mod claims;
mod described;
mod experiment;
mod fleet;
mod looks;
mod simulated;
mod survey;
mod versus;

use serde::Serialize;

pub use answers::{comparisons, pairs, proof, tuned, tuned_files, whatif};
pub use census::{census, census_diff, census_run, census_run_diff};
pub use claims::claims;
pub use described::{calibrated, machine_check, machine_sensitivity};
pub use experiment::{datasets, experiment, lock_measured, reproduced};
pub use fleet::{fleet_report, fleet_status};
pub use looks::{
    Explanation, Gone, LeftBehind, PutBack, doctor, explanation, lock_list, lock_misses, machine, machines,
    put_back, resctrl, resctrl_watch, restored, topology,
};
pub use simulated::simulated;
pub use survey::survey;
pub use versus::versus;

#[derive(Serialize)]
struct Document<T> {
    schema: &'static str,
    #[serde(flatten)]
    body: T,
}
