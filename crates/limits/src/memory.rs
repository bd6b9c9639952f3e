//! A memory limit above which processes are throttled: `memory.high` of version 2 of control groups
//! (kernel documentation, admin-guide/cgroup-v2). Cached pages count as memory of the group in
//! which they were first cached, so that a writer is throttled if it makes pages dirty faster than
//! they are written. Version 1 has no such limit: its soft limit applies only when memory is short
//! on the whole machine, and throttles no process.

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::{Arm, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;

use super::cgroup;
use super::groups::{self, Grouped};
use super::kind::Kind;
use super::limit::Limit;
use crate::Error;

/// Isolation by a limit of memory.
pub const KIND: Kind = Kind {
    wanted: |arm| !arm.memory_high.is_empty(),
    missing,
    begin: |plan| Ok(Some(Box::new(begin(plan)?))),
    // The journal of changes has it.
    recover: || Ok(Vec::new()),
};

/// Whether a group with such a limit can be made here: one is, and removed.
///
/// # Errors
/// Why it cannot.
pub fn here() -> Result<(), Reason> {
    cgroup::try_make(&FsRoot::host(), &Limit::MemoryHigh(None)).map(|_| ()).map_err(no_group)
}

fn no_group(why: String) -> Reason {
    format!("no control group with a memory.high can be created here: {why}").into()
}

fn missing(plan: &Plan, arm: &Arm, active: &[Active]) -> Option<Reason> {
    active.iter().find_map(|active| {
        let name = &plan.experiment.roles[active.role].name;
        let bytes = *arm.memory_high.get(name)?;
        let others =
            groups::others(arm, name, &plan.variants[active.role][active.variant], "memory_high");
        groups::refused(&FsRoot::host(), &Limit::MemoryHigh(Some(bytes)), no_group, &others)
    })
}

fn begin(plan: &Plan) -> Result<Grouped, Error> {
    let limit = |_: usize, bytes: &Bytes| Limit::MemoryHigh(Some(*bytes));
    let arms = groups::by_arm(plan, |arm| &arm.memory_high, limit);
    let at_rest = |_: &Limit| Limit::MemoryHigh(None);
    Grouped::begin(&FsRoot::host(), &plan.experiment.name, "memory-limit", arms, at_rest)
        .map_err(|why| Error::Usage(no_group(why).into()))
}
