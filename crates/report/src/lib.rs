//! What people look at, terminal tables and [`html`] pages; and [`json`], what programs read.
//!
//! Every function here is a pure function from a value and a [`Style`] to text; nothing prints,
//! asks the terminal or reads the environment. Texts end in a newline, no line is wider than
//! [`Style::width`], and without [`Style::color`] there is no escape sequence in them: control
//! characters in names and commands are shown as `?`.
//!
//! ```
//! use ringfence_machine::{root::FsRoot, topology::Topology};
//! use ringfence_report::Style;
//!
//! let topology = Topology::read(&FsRoot::host()).unwrap();
//! let style = Style { color: false, width: 100, unicode: true, details: false };
//! print!("{}", ringfence_report::topology(&topology, &style));
//! ```

#![forbid(unsafe_code)]

mod aa;
mod census;
pub mod claims;
mod commits;
mod compare;
mod crash;
pub mod describe;
mod doctor;
pub mod execution;
mod experiment;
mod explain;
pub mod fleet;
pub mod html;
pub mod json;
mod latencies;
mod lock;
mod machine;
mod pair;
pub mod print;
mod prove;
mod reproduce;
mod resctrl;
mod results;
mod sensitivity;
mod survey;
mod targets;
mod topology;
mod tune;
pub mod versus;
mod whatif;

pub use print::{NARROWEST, Style, numbers, text::paragraph};
use print::{histogram, sentence, style, table, text};

pub use aa::text::aa;
pub use census::text::{census, census_diff};
pub use compare::text::{compare, compare_answer};
pub use crash::text::crash;
pub use doctor::text::{doctor, doctor_brief};
pub use execution::text::{Told, executed, executed_diff};
pub use experiment::cases::cases;
pub use experiment::classes::classes_legend;
pub use experiment::starts::unlike;
pub use experiment::text::{ended_early, experiment};
pub use explain::brief::{Explained, explain_brief};
pub use explain::text::explain;
pub use latencies::text::latencies;
pub use lock::text::{lock_created, lock_misses, lock_table, locked};
pub use machine::text::{machine, machines};
pub use pair::text::pair;
pub use print::histogram::histogram;
pub use print::sentence::sentence;
pub use prove::precision::precision;
pub use prove::settings::kept;
pub use prove::text::{left, prove, warnings};
pub use reproduce::brief::{reproduced, reproduced_summary, simulated, simulated_summary};
pub use reproduce::text::title;
pub use resctrl::text::{resctrl, restored};
pub use resctrl::watch::{WATCHED_HEADS, watched, watched_lines};
pub use results::text::{Stored, results};
pub use sensitivity::text::sensitivity;
pub use survey::text::{advice, headline, machine_line, survey};
pub use targets::text::targets;
pub use topology::text::topology;
pub use tune::files::tune_files;
pub use tune::text::{policy, tune};
pub use whatif::text::whatif;
