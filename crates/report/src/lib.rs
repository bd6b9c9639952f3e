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
//! let style = Style { color: false, width: 100, unicode: true };
//! print!("{}", ringfence_report::topology(&topology, &style));
//! ```

#![forbid(unsafe_code)]

mod aa;
mod budget;
mod cases;
mod census;
mod checks;
pub mod claims;
mod classes;
mod commits;
mod compare;
pub mod describe;
mod described;
mod doctor;
pub mod executed;
mod experiment;
mod explain;
pub mod fleet;
pub mod html;
pub mod json;
mod judged;
mod kept;
mod latencies;
mod lock;
mod pair;
pub mod print;
mod prove;
mod reproduce;
mod resctrl;
mod sensitivity;
mod survey;
mod targets;
mod too_long;
mod topology;
mod tune;
mod tune_files;
pub mod versus;
mod watch;
mod whatif;

pub use print::{NARROWEST, Style, numbers, text::paragraph};
use print::{histogram, sentence, style, table, text};

pub use aa::aa;
pub use cases::cases;
pub use census::{census, census_diff};
pub use classes::classes_legend;
pub use compare::{compare, compare_answer};
pub use described::{machine, machines};
pub use doctor::{doctor, doctor_brief};
pub use executed::{Told, executed, executed_diff};
pub use experiment::{ended_early, experiment};
pub use explain::explain;
pub use kept::kept;
pub use latencies::latencies;
pub use lock::{lock_created, lock_misses, lock_table, locked};
pub use pair::pair;
pub use print::histogram::histogram;
pub use print::sentence::sentence;
pub use prove::{left, prove, warnings};
pub use reproduce::{reproduced, reproduced_summary, simulated, simulated_summary, title};
pub use resctrl::{resctrl, restored};
pub use sensitivity::sensitivity;
pub use survey::{advice, headline, machine_line, survey};
pub use targets::targets;
pub use topology::topology;
pub use tune::{policy, tune};
pub use tune_files::tune_files;
pub use watch::{WATCHED_HEADS, watched, watched_lines};
pub use whatif::whatif;
