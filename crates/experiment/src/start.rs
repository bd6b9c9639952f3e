//! What a chase measured of itself at its start, before any other task ran: whether it waits for
//! the cache that it is meant for.

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::task::Task;

/// One start of one variant of the victim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// Starts that are unlike the others of the same task, one sentence per task: in those trials the
/// victim waited for another level of memory, or another process already disturbed it.
pub fn unlike_the_others(plan: &Plan, starts: &[Start]) -> Vec<String> {
    let variants = plan.variants.get(plan.metric).map_or(0, Vec::len);
    (0..variants)
        .filter_map(|variant| {
            let own: Vec<&Start> = starts.iter().filter(|start| start.variant == variant).collect();
            let mut ns: Vec<f64> = own.iter().map(|start| start.ns).collect();
            ns.sort_by(f64::total_cmp);
            let median = *ns.get(ns.len() / 2).filter(|_| ns.len() >= FEWEST)?;
            let unlike = |start: &&&Start| start.ns > median * UNLIKE || start.ns < median / UNLIKE;
            let outside: Vec<&Start> = own.iter().filter(unlike).copied().collect();
            let Task::Chase(chase) = &plan.variants[plan.metric][variant].task else { return None };
            (!outside.is_empty()).then(|| {
                format!(
                    "The chase of {} took {median:.1} ns a load alone at its start in the median, \
                     but {}: {} of {} trials \
                     began unlike the others",
                    chase.footprint,
                    listed(&outside),
                    outside.len(),
                    own.len()
                )
            })
        })
        .collect()
}

/// Such as `95.0 ns in trial 3 and 110.2 ns in trial 7`, the first few.
pub fn listed(starts: &[&Start]) -> String {
    const SHOWN: usize = 3;
    let some: Vec<String> = starts
        .iter()
        .take(SHOWN)
        .map(|start| format!("{:.1} ns in trial {}", start.ns, start.trial))
        .collect();
    match starts.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{} and {more} more", some.join(", ")),
        _ => some.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    #[test]
    fn trials_that_begin_unlike_the_others_are_told() {
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
        let told = unlike_the_others(&plan, &one);
        assert!(
            told.len() == 1 && told[0].contains("4MiB") && told[0].contains("120.0 ns in trial 3"),
            "{told:?}"
        );
        assert!(
            unlike_the_others(&plan, &one[..4]).len() == 1
                && unlike_the_others(&plan, &one[2..5]).is_empty()
        );
    }
}
