//! What a chase measured of itself at its start, before any other task ran: whether it waits for
//! the cache that it is meant for.

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::task::Task;

/// One start of one variant of the victim.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Start {
    /// The trial that began with it. A trial that was cut short and begun again has two starts.
    #[serde(alias = "life")]
    pub trial: u32,
    /// The instance, from 0.
    pub instance: u32,
    /// Which of its role's tasks, from 0.
    pub variant: usize,
    /// ns per load, with all other tasks paused: the median over batches of a few milliseconds.
    pub ns: f64,
}

/// How far a start may be from the others of its variant, as a factor.
const UNLIKE: f64 = 1.5;
/// Starts of one variant below which none is called unlike the others.
const FEWEST: usize = 4;

/// Starts of one task that are unlike the others: in those trials the victim waited for another
/// level of memory, or another process already disturbed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Unlike {
    /// The chase's footprint.
    pub footprint: Bytes,
    /// ns per load, the median over all starts.
    pub median_ns: f64,
    /// Those that are unlike the others, at least one.
    pub outside: Vec<Start>,
    /// How many starts there were.
    pub starts: usize,
}

/// Starts that are unlike the others, task by task.
pub fn unlike_the_others(plan: &Plan, starts: &[Start]) -> Vec<Unlike> {
    let variants = plan.variants.get(plan.metric).map_or(0, Vec::len);
    (0..variants)
        .filter_map(|variant| {
            let own: Vec<&Start> = starts.iter().filter(|start| start.variant == variant).collect();
            let mut ns: Vec<f64> = own.iter().map(|start| start.ns).collect();
            ns.sort_by(f64::total_cmp);
            let median_ns = *ns.get(ns.len() / 2).filter(|_| ns.len() >= FEWEST)?;
            let unlike =
                |start: &&&Start| start.ns > median_ns * UNLIKE || start.ns < median_ns / UNLIKE;
            let outside: Vec<Start> = own.iter().filter(unlike).map(|start| **start).collect();
            let Task::Chase(chase) = &plan.variants[plan.metric][variant].task else { return None };
            let (footprint, starts) = (chase.footprint, own.len());
            (!outside.is_empty()).then_some(Unlike { footprint, median_ns, outside, starts })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    #[test]
    fn trials_that_begin_unlike_the_others_are_found() {
        let text = "schema = 2\nname = 'a'\nmetric = 'victim'\n[[role]]\nname = 'victim'\n\
                    task = { workload = 'chase', footprint = '4MiB' }\n[[arm]]\nname = \
                    'alone'\nactive = ['victim']\n";
        let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
        let plan = Plan::new(&Experiment::parse(text).unwrap(), &topology, None).unwrap();
        let start = |trial: u32, ns: f64| Start { trial, instance: 0, variant: 0, ns };
        let alike: Vec<Start> =
            (0..10).map(|trial| start(trial, 35.0 + f64::from(trial))).collect();
        assert!(unlike_the_others(&plan, &alike).is_empty());
        let mut one = alike.clone();
        one[3].ns = 120.0;
        let expected = Unlike {
            footprint: Bytes::mib(4),
            median_ns: 41.0,
            outside: vec![start(3, 120.0)],
            starts: 10,
        };
        assert_eq!(unlike_the_others(&plan, &one), [expected]);
        assert!(
            unlike_the_others(&plan, &one[..4]).len() == 1
                && unlike_the_others(&plan, &one[2..5]).is_empty()
        );
    }
}
