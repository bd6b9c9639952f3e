//! Clock frequency: governor and boost.

use std::collections::BTreeMap;

use crate::cpulist::CpuSet;

use super::finding::{Finding, Severity, View};

const DIR: &str = "/sys/devices/system/cpu";

pub(super) fn find(view: &View) -> Vec<Finding> {
    governor(view).into_iter().chain(boost(view)).collect()
}

fn governor(view: &View) -> Option<Finding> {
    let mut others: BTreeMap<String, CpuSet> = BTreeMap::new();
    for cpu in view.topology.usable().iter() {
        if let Some(name) = view.root.read_opt(format!("{DIR}/cpu{cpu}/cpufreq/scaling_governor"))
            && name != "performance"
        {
            others.entry(name).or_default().insert(cpu);
        }
    }
    let evidence: Vec<String> =
        others.iter().map(|(name, cpus)| format!("{name} on {}", cpus.named())).collect();
    (!others.is_empty()).then(|| Finding {
        id: "frequency-governor".into(),
        severity: Severity::Warning,
        title: "The clock frequency follows the load".into(),
        cause: "the frequency governor is not 'performance'".into(),
        consequence:
            "a task next to an idle neighbour runs at another frequency than next to a busy one"
                .into(),
        remedy: "cpupower frequency-set -g performance".into(),
        evidence: evidence.join(", "),
    })
}

fn boost(view: &View) -> Option<Finding> {
    let file = |name: &str| {
        view.root.read_opt(format!("{DIR}/{name}")).map(|text| (name.to_string(), text))
    };
    let (name, remedy) = match (file("intel_pstate/no_turbo"), file("cpufreq/boost")) {
        (Some((name, text)), _) if text == "0" => {
            (name, "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo")
        }
        (None, Some((name, text))) if text == "1" => {
            (name, "echo 0 > /sys/devices/system/cpu/cpufreq/boost")
        }
        _ => return None,
    };
    Some(Finding {
        id: "cpu-boost".into(),
        severity: Severity::Warning,
        title: "Boost is on".into(),
        cause: "the processor raises its clock when few cores are busy and it is cool".into(),
        consequence:
            "starting a neighbour slows a task through the lost boost alone, even if they share \
             nothing"
                .into(),
        remedy: remedy.into(),
        evidence: format!("{DIR}/{name} is {}", if name.ends_with("no_turbo") { "0" } else { "1" }),
    })
}
