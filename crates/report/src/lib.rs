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

mod aa;
mod budget;
mod cases;
mod checks;
pub mod claims;
mod classes;
mod commits;
mod compare;
pub mod describe;
mod described;
mod experiment;
pub mod html;
mod judged;
mod kept;
mod latencies;
mod lock;
mod pair;
mod prove;
mod reproduce;
mod sensitivity;
mod survey;
mod too_long;
mod tune;
mod whatif;

pub use ringfence_text::{NARROWEST, Style, numbers, text::paragraph};
use ringfence_text::{histogram, sentence, style, table, text};

pub use aa::aa;
pub use cases::cases;
pub use classes::classes_legend;
pub use compare::{compare, compare_answer};
pub use described::{machine, machines};
pub use experiment::{ended_early, experiment};
pub use kept::kept;
pub use latencies::latencies;
pub use lock::{lock_created, lock_misses, lock_table, locked};
pub use pair::pair;
pub use prove::{left, prove, warnings};
pub use reproduce::{reproduced, reproduced_summary, simulated, simulated_summary, title};
pub use ringfence_inspect::{WATCHED_HEADS, watched, watched_lines};
pub use ringfence_inspect::{doctor, doctor_brief, explain, resctrl, restored, targets, topology};
pub use ringfence_programs::{Told, census, census_diff, executed, executed_diff};
pub use ringfence_text::histogram::histogram;
pub use ringfence_text::sentence::sentence;
pub use ringfence_tuned::tune_files;
pub use sensitivity::sensitivity;
pub use survey::{advice, headline, machine_line, survey};
pub use tune::{policy, tune};
pub use whatif::whatif;
