//! Differences between two measurements other than their figures.

use std::collections::BTreeMap;

use ringfence_dataset::Dataset;
use ringfence_experiment::class::Class;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::placement::Place;
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::resctrl::Offered;
use serde::Serialize;

/// Something that is not the same in both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "SettingDifference")
)]
pub struct Difference {
    /// What it is, such as `kernel`.
    pub what: String,
    /// What it was in the first.
    pub before: String,
    /// What it was in the second.
    pub after: String,
}

/// All differences, the machine's first. Times at which they were measured always differ and come
/// last.
pub(super) fn differences(before: &Dataset, after: &Dataset) -> Vec<Difference> {
    let facts = [facts(before), facts(after)];
    let mut order: Vec<&String> = facts[0].iter().map(|(what, _)| what).collect();
    for (what, _) in &facts[1] {
        if !order.contains(&what) {
            order.push(what);
        }
    }
    let find = |side: usize, what: &str| {
        let found = facts[side].iter().find(|(known, _)| known == what);
        found.map_or_else(|| "unknown".to_string(), |(_, value)| value.clone())
    };
    order
        .into_iter()
        .map(|what| Difference { what: what.clone(), before: find(0, what), after: find(1, what) })
        .filter(|difference| difference.before != difference.after)
        .collect()
}

fn facts(dataset: &Dataset) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |what: &str, value: String| facts.push((what.to_string(), value));
    // A dataset of another version may describe its machine otherwise; its figures stand all the
    // same.
    if let Ok(machine) = serde_json::from_value::<Machine>(dataset.machine.clone()) {
        let unknown = || "unknown".to_string();
        let identity = &machine.processor;
        add(
            "processor",
            identity.brand.clone().or(identity.vendor.clone()).unwrap_or_else(unknown),
        );
        let number = |part: Option<u32>| part.map_or_else(unknown, |number| number.to_string());
        let (family, model) = (number(identity.family), number(identity.model));
        add("family, model, stepping", format!("{family}, {model}, {}", number(identity.stepping)));
        add("microcode", identity.microcode.clone().unwrap_or_else(unknown));
        add("kernel", machine.kernel.clone().unwrap_or_else(unknown));
        add("cores and caches", machine.topology.summary());
        let features = machine.features.as_ref();
        let hypervisor = features.and_then(|features| features.hypervisor.clone());
        add("hypervisor", hypervisor.unwrap_or_else(|| "none".into()));
        add("resctrl", machine.resctrl.as_ref().map_or_else(|| "none".into(), offered));
        let mut findings: Vec<&str> =
            machine.findings.iter().map(|finding| finding.id.as_str()).collect();
        findings.sort_unstable();
        findings.dedup();
        add(
            "doctor's findings",
            if findings.is_empty() { "none".into() } else { findings.join(", ") },
        );
    }
    let manifest = &dataset.manifest;
    add("program", format!("{} {}", manifest.program, manifest.version));
    for (role, entry) in manifest.roles.iter().enumerate() {
        let cpus: CpuSet = manifest.placed.cpus.get(role).into_iter().flatten().copied().collect();
        let place = manifest.placed.places.get(role).map_or("", |place| describe(*place));
        let cpus = match cpus.len() {
            0 => "nowhere".into(),
            1 => format!("CPU {cpus}{place}"),
            _ => format!("CPUs {cpus}{place}"),
        };
        add(&format!("where {} runs", entry.name), cpus);
    }
    add("cores in use", classes(dataset));
    add("ended", ended(dataset));
    add("date", manifest.created.clone());
    facts
}

// What every task has that no group has, and how many groups there are.
fn offered(offered: &Offered) -> String {
    let default = offered.default.to_string().trim_end().replace('\n', ", ");
    format!("{default}; {} other groups", offered.groups)
}

fn describe(place: Place) -> &'static str {
    match place {
        Place::Home | Place::Named => "",
        Place::Smt => ", SMT siblings",
        Place::Llc => ", under the same last-level cache",
        Place::Node => ", under another last-level cache",
        Place::Remote => ", on another NUMA node",
    }
}

// Whole shares: those of two runs are never the same to the last pair.
fn classes(dataset: &Dataset) -> String {
    let mut count: BTreeMap<Class, usize> = BTreeMap::new();
    for sample in dataset.samples.iter().filter(|sample| sample.class != Class::Unprobed) {
        *count.entry(sample.class).or_default() += 1;
    }
    let all: usize = count.values().sum();
    let mut by_share: Vec<(Class, usize)> = count.into_iter().collect();
    by_share.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    match by_share.first() {
        None => "not probed".into(),
        Some((class, n)) if *n * 10 >= all * 9 => class.to_string(),
        Some(_) => {
            let share =
                |(class, n): &(Class, usize)| format!("{class} {} %", (n * 100 + all / 2) / all);
            by_share.iter().map(share).collect::<Vec<_>>().join(", ")
        }
    }
}

fn ended(dataset: &Dataset) -> String {
    match &dataset.manifest.ended {
        None => "killed".into(),
        Some(Ended::Complete | Ended::Precise) => "as planned".into(),
        Some(Ended::Time) => "when its time ran out".into(),
        Some(Ended::Interrupted) => "interrupted".into(),
        Some(Ended::Limit(why)) => why.clone(),
        Some(Ended::Failed(why)) => format!("failed: {why}"),
    }
}
