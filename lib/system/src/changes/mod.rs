//! Changes to the system that are undone, whatever happens to the program that made them.
//!
//! Before each change, [`Changes`] writes the old and the new value to a file in `/run/ringfence`.
//! A change sets a kernel file, creates a control group, moves a process into it, or stops
//! processes. [`Changes::put_back`] restores the old state; so does dropping the value. When the
//! program is killed, the next program restores it ([`put_back_left`]): a guardian, the next run,
//! or a user with `ringfence restore`.
//!
//! Changes are undone from the last to the first, and only where the state is as this program left
//! it. What another process has changed since stays, and is reported in one sentence. Restoring may
//! be killed at any point and started again.
//!
//! A journal has an owner. While the owner runs and holds the lock, no other process acts on it.
//!
//! ```
//! use ringfence_system::changes::{Changes, Options};
//! # let folder = tempfile::tempdir()?;
//! # let root = ringfence_system::root::FsRoot::at(folder.path());
//! # std::fs::create_dir_all(folder.path().join("proc/sys/vm"))?;
//! # std::fs::write(folder.path().join("proc/sys/vm/dirty_ratio"), "20\n")?;
//! // On a machine: FsRoot::host() and Options::default().
//! let options = Options { folder: Some(folder.path().join("run")), ..Options::default() };
//! let mut changes = Changes::begin(&root, "an example", &options)?;
//! changes.set("/proc/sys/vm/dirty_ratio", "5")?;
//! // ... and measure; then:
//! let restored = changes.put_back()?;
//! assert_eq!(restored.steps, ["set /proc/sys/vm/dirty_ratio to 20"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Changes of other kinds have steps of their own and use the same file, lock, owner and folders
//! ([`journal`], [`lock`], [`place`], [`folders`]), as resctrl's transactions do.

#[cfg(test)]
mod coupling;
#[cfg(test)]
mod entries;
mod entry;
pub mod error;
pub mod folders;
pub mod journal;
mod kernel;
mod leftovers;
pub mod lock;
#[cfg(test)]
mod model;
mod options;
pub mod place;
mod record;
mod rollback;
mod set;
mod step;
#[cfg(test)]
mod tests;
pub mod thread;

pub use entry::Entry;
pub use error::Error;
pub use leftovers::{Left, PutBack, Whose, damaged, left, preview, put_back_left};
pub use options::{Moment, Options};
pub use rollback::Restored;
pub use set::Changes;
pub use step::{Write, plain};
pub use thread::Thread;

#[cfg(doctest)]
#[doc = include_str!("README.md")]
struct Readme;
