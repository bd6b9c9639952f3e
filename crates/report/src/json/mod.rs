//! What `--json` prints: a document for each kind of answer, of the same values as text and pages.
//!
//! Each says in `schema` what it is, such as `ringfence/experiment/3`: one string, so that a file
//! which is found a year later tells its kind and its version, and one comparison refuses what a
//! reader does not know. The kinds are described in `docs/schema`, and `docs/reference/json.md`
//! says what a version promises.

#[cfg(feature = "schema")]
mod schema;

pub use crate::census::json::{census, census_diff, census_run, census_run_diff};
pub use crate::claims::json::claims;
pub use crate::compare::json::comparisons;
pub use crate::crash::json::crash;
pub use crate::describe::json::{calibrated, machine_check, machine_sensitivity};
pub use crate::doctor::json::doctor;
pub use crate::experiment::json::{datasets, experiment, lock_measured};
pub use crate::explain::json::{Explanation, explanation};
pub use crate::fleet::json::{fleet_report, fleet_status};
pub use crate::lock::json::{lock_list, lock_misses};
pub use crate::machine::json::{machine, machines};
pub use crate::pair::json::pairs;
pub use crate::prove::json::proof;
pub use crate::reproduce::json::{reproduced, simulated};
pub use crate::resctrl::json::{
    Gone, LeftBehind, PutBack, put_back, resctrl, resctrl_watch, restored,
};
pub use crate::survey::json::survey;
pub use crate::topology::json::topology;
pub use crate::tune::json::{tuned, tuned_files};
pub use crate::versus::json::versus;
pub use crate::whatif::json::whatif;
#[cfg(feature = "schema")]
pub use schema::schema;
