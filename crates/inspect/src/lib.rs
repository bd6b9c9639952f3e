//! What is shown of a machine before anything is measured on it: for `topology`, `doctor`, `targets`, `resctrl`, `restore` and
//! `explain`.
//!
//! As in `ringfence-report`, which hands these on, every function is a pure function from a value and a `Style` to text.

mod doctor;
mod explain;
mod resctrl;
mod targets;
mod topology;
mod watch;

use ringfence_text::{style, table, text};

pub use doctor::{doctor, doctor_brief};
pub use explain::explain;
pub use resctrl::{resctrl, restored};
pub use targets::targets;
pub use topology::topology;
pub use watch::{WATCHED_HEADS, watched, watched_lines};
