//! The CPU's time, shared out by weight among tasks that want the same CPU at once: `cpu.weight` of
//! version 2 of control groups, `cpu.shares` of version 1 (kernel documentation,
//! admin-guide/cgroup-v2 and scheduler/sched-design-CFS).

use std::collections::BTreeMap;

use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Task;
use ringfence_machine::root::FsRoot;

use super::cgroup;
use super::groups::{self, Grouped};
use super::kind::{Isolation, Kind};
use super::limit::{DEFAULT_WEIGHT, Limit};
use crate::Error;

/// Isolation by weight.
pub const KIND: Kind = Kind {
    wanted: |arm| !arm.cpu_weight.is_empty(),
    missing: |plan, arm, active| {
        if !groups::any_started(plan, active, &arm.cpu_weight) {
            return None;
        }
        let tried = cgroup::try_make(&FsRoot::host(), &Limit::Weight(DEFAULT_WEIGHT));
        tried.err().map(|why| {
            format!("no control group with a cpu.weight can be created here: {why}").into()
        })
    },
    begin: |plan| Ok(begin(plan)?.map(|begun| Box::new(begun) as Box<dyn Isolation>)),
    // The journal of changes has it.
    recover: || Ok(Vec::new()),
};

fn begin(plan: &Plan) -> Result<Option<Grouped>, Error> {
    let experiment = &plan.experiment;
    // A process is in one group of a hierarchy, and a program's quota wants one too. In another arm
    // it does no harm: a program with a quota is a process of its own, which stays where it is.
    for arm in &experiment.arms {
        let limited = |name: &&String| {
            let cases = plan.cases.iter().filter(|case| case.arm == arm.name);
            let mut active = cases
                .flat_map(|case| &case.active)
                .filter(|active| experiment.roles[active.role].name == **name);
            active.any(|active| {
                let variant = &plan.variants[active.role][active.variant];
                variant.quota.is_some() && matches!(variant.task, Task::Command(_))
            })
        };
        if let Some(name) = arm.cpu_weight.keys().find(limited) {
            return Err(Error::Usage(format!(
                "arm '{}': '{name}' has a quota and a weight, and a process can be in one control \
                 group only: give it one of them",
                arm.name
            )));
        }
    }
    let arms = groups::by_arm(plan, |arm| &arm.cpu_weight, |_, weight| Limit::Weight(*weight));
    if arms.iter().all(BTreeMap::is_empty) {
        return Ok(None);
    }
    Grouped::begin(&FsRoot::host(), &experiment.name, "weight", arms, |_| {
        Limit::Weight(DEFAULT_WEIGHT)
    })
    .map(Some)
    .map_err(|why| {
        Error::Usage(format!("no control group with a cpu.weight can be created: {why}"))
    })
}
