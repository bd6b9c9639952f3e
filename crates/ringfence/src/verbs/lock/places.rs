//! Where resctrl is, and sizes as flags give them.

use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;
use ringfence_resctrl::{Error, Resctrl};

use crate::failure::Failure;

/// The mounted resctrl.
pub fn find(root: &FsRoot) -> Result<Resctrl, Failure> {
    Ok(Resctrl::find(root).map_err(Error::from)?)
}

/// A size that a flag gives.
pub fn size(flag: &str, text: &str) -> Result<Bytes, Failure> {
    text.parse().map_err(|error| Failure::usage(format!("--{flag}: {error}")))
}
