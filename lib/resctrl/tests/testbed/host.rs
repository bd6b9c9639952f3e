//! The resctrl of the kernel that runs here, for what no model shows.

use ringfence_resctrl::{Group, Resctrl, Schemata};
use ringfence_system::root::FsRoot;

pub fn resctrl() -> Resctrl {
    Resctrl::find(&FsRoot::host()).unwrap()
}

pub fn group(name: &str) -> Group {
    resctrl().group(&name.parse().unwrap())
}

pub fn schemata(text: &str) -> Schemata {
    text.parse().unwrap()
}
