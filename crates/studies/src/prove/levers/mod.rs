//! The levers: first those that need no privilege beyond making a control group, then those of
//! resctrl.

mod bandwidth;
mod both;
mod cpuset;
mod disk_io;
mod duty;
mod environment;
mod form;
mod instruction;
mod io_limit;
mod io_weight;
mod ionice;
mod memory_high;
mod other_dir;
mod own_group;
mod pace;
mod placement;
mod quota;
mod system;
mod ways;
mod weight;

use super::lever::Lever;

/// All of them, in the order in which they are shown.
pub fn all() -> Vec<Box<dyn Lever>> {
    vec![
        Box::new(placement::OtherPlacement),
        Box::new(instruction::GentlerInstruction),
        Box::new(form::GentlerForm),
        Box::new(environment::Environment),
        Box::new(pace::Pacing),
        Box::new(quota::Quota),
        Box::new(weight::Weight),
        Box::new(cpuset::Cpuset),
        Box::new(duty::Duty),
        Box::new(other_dir::OtherDir),
        Box::new(io_limit::IoLimit),
        Box::new(ionice::IoNice),
        Box::new(io_weight::IoWeight),
        Box::new(memory_high::MemoryHigh),
        Box::new(system::Scheduler),
        Box::new(system::QueueRequests),
        Box::new(system::DirtyBackground),
        Box::new(ways::Ways),
        Box::new(bandwidth::Bandwidth),
        Box::new(both::Both),
    ]
}

/// Their names, as on the command line.
pub fn names() -> Vec<&'static str> {
    all().iter().map(|lever| lever.name()).collect()
}
