//! What this computer is: topology, features, memory targets, probes and sources of noise.
//!
//! [`Machine::examine`] collects everything that the kernel and the processor report, as one value
//! that can be stored with measurements; [`probe`] measures what they omit or report wrongly.
//!
//! ```
//! use ringfence_machine::Machine;
//! use ringfence_machine::root::FsRoot;
//!
//! let machine = Machine::examine(&FsRoot::host()).unwrap();
//! println!("{}", machine.topology.summary());
//! for (a, b) in machine.topology.pairs_llc(&machine.topology.usable()).into_iter().take(3) {
//!     println!("CPUs {a} and {b} are different cores below one last-level cache");
//! }
//! for finding in &machine.findings {
//!     println!("{:?}: {}. {}", finding.severity, finding.title, finding.remedy);
//! }
//! ```
//!
//! - [`topology`]: packages, cores, caches, nodes, and what they share; placements of two tasks
//! - [`features`]: flush instructions, vector widths, TSC, RDT
//! - [`hypervisor`]: whether it is a virtual machine
//! - [`targets`]: memory that an experiment can write to
//! - [`doctor`]: findings with cause, consequence and remedy
//! - [`resctrl`]: parts of caches and bandwidth that can be isolated, and their settings
//! - [`medium`]: from a file to its disk, and the guarantees of a sync there
//! - [`io_priority`]: the order of requests of threads to a disk
//! - [`probe`]: distance of CPUs, capacity of caches, what a flush leaves behind
//! - [`clock`] and [`counters`]: time and hardware events
//!
//! Everything that reads `/sys` or `/proc` takes a [`root::FsRoot`]; the feature `fixtures`
//! offers trees of known machines for tests.

pub mod clock;
pub mod counters;
pub mod doctor;
pub mod features;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod hypervisor;
pub mod io_priority;
pub mod medium;
pub mod probe;
mod raw;
pub mod resctrl;
pub mod targets;
pub mod topology;
pub mod units;

mod machine;
mod release;

pub use machine::{Machine, Simulated};
pub use release::kernel_release;
pub use ringfence_system::{cpulist, root, text};

/// The example in the README runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
