//! What an update changed: groups of hosts of one fleet, or two fleets, of the same hosts or of
//! others.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::{Estimate, Finding};
use ringfence_analysis::hosts::{OnHost, between_groups, same_hosts};
use ringfence_fleet::{Facts, Figure, Read};
use serde::Serialize;

use crate::fleet::names;
use crate::fleet::overview::{LEVEL, Question, facts, is_wanted};

/// Changes up to this do not matter.
const MARGIN: f64 = 0.01;

/// Two groups of hosts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FleetCompared"))]
pub struct Compared {
    /// The first group.
    pub before: String,
    /// The second.
    pub after: String,
    /// How hosts belong together.
    pub by: By,
    /// Whether these are runs of one machine, and not hosts.
    pub one_machine: bool,
    /// Hosts of the first group.
    pub hosts_before: usize,
    /// Hosts of the second.
    pub hosts_after: usize,
    /// Each figure that both have.
    pub changes: Vec<Change>,
    /// The share of comparisons in which every interval holds its truth.
    pub confidence: f64,
    /// The level of each interval, so that they do.
    pub level: f64,
}

/// How hosts of the two groups belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// They are the same hosts, each compared with itself.
    Host,
    /// They are different hosts.
    Group,
}

/// What changed of a figure.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FleetChange"))]
pub struct Change {
    /// The figure in words.
    pub name: String,
    /// Hosts of which there are figures before, or before and after where they are the same.
    pub hosts_before: usize,
    /// Hosts of which there are figures after.
    pub hosts_after: usize,
    /// The second over the first; hosts stand for trials.
    pub change: Finding,
}

type Values<'a> = BTreeMap<&'a Figure, BTreeMap<String, OnHost>>;

/// Compares hosts of which a fact begins with one value with those of which it begins with another:
/// `FACT=BEFORE:AFTER`.
///
/// # Errors
/// One sentence: a fact that is not known, or a value that no host has.
pub fn compare_facts(read: &Read, what: &str, asked: &Question) -> Result<Compared, String> {
    let parts =
        what.split_once('=').and_then(|(fact, values)| Some((fact, values.split_once(':')?)));
    let Some((fact, (before, after))) = parts else {
        return Err("name the folder of another fleet, or two groups, as in kernel=6.1:6.6".into());
    };
    let value = |facts: &Facts| {
        facts.columns().into_iter().find(|(name, _)| *name == fact).map(|(_, fact)| fact.words())
    };
    let group = |wanted: &str| -> Result<Vec<usize>, String> {
        let has = |facts: &Facts| value(facts).is_some_and(|value| begins(&value, wanted));
        let hosts: Vec<usize> =
            (0..read.hosts.len()).filter(|host| has(&read.hosts[*host])).collect();
        if hosts.is_empty() {
            let mut known: Vec<String> = read.hosts.iter().filter_map(value).collect();
            known.sort();
            known.dedup();
            return Err(match known.is_empty() {
                true => format!("no host has a fact '{fact}'; there are {}", facts().join(", ")),
                false => format!("no host has {fact}={wanted}; there are {}", known.join(", ")),
            });
        }
        Ok(hosts)
    };
    let groups = [group(before)?, group(after)?];
    if groups[0].iter().any(|host| groups[1].contains(host)) {
        return Err(format!(
            "{fact}={before} and {fact}={after} have hosts in common: name two groups that have \
             none"
        ));
    }
    let [a, b] = groups.each_ref().map(|hosts| values(read, hosts, asked));
    let names = [before, after].map(|value| format!("{fact}={value}"));
    let found = compared(names, groups.each_ref().map(Vec::len), By::Group, &a, &b);
    Ok(Compared { one_machine: read.one_machine, ..found })
}

/// Compares two fleets: host by host where they have the same ones.
///
/// # Errors
/// One sentence: no figure in common.
pub fn compare_fleets(
    (before, earlier): (&str, &Read),
    (after, later): (&str, &Read),
    asked: &Question,
) -> Result<Compared, String> {
    if earlier.simulated.is_some() != later.simulated.is_some() {
        return Err("these cannot be compared: one was simulated, the other measured".into());
    }
    let all = |read: &Read| (0..read.hosts.len()).collect::<Vec<_>>();
    let (a, b) = (values(earlier, &all(earlier), asked), values(later, &all(later), asked));
    let same = earlier
        .hosts
        .iter()
        .filter(|host| later.hosts.iter().any(|other| other.node == host.node))
        .count();
    // A few new hosts do not make it another fleet.
    let most = 2 * same > earlier.hosts.len().max(later.hosts.len());
    // That a run has the number of another means nothing.
    let one_machine = earlier.one_machine && later.one_machine;
    let by = if most && !one_machine { By::Host } else { By::Group };
    let found = compared(
        [before.into(), after.into()],
        [earlier.hosts.len(), later.hosts.len()],
        by,
        &a,
        &b,
    );
    if found.changes.is_empty() {
        return Err("these cannot be compared: they have no figure in common".into());
    }
    Ok(Compared { one_machine, ..found })
}

// `6.1` stands for 6.1.0 and not for 6.12.
fn begins(value: &str, wanted: &str) -> bool {
    value.strip_prefix(wanted).is_some_and(|rest| {
        !(rest.starts_with(|c: char| c.is_ascii_digit())
            && wanted.ends_with(|c: char| c.is_ascii_digit()))
    })
}

fn values<'a>(read: &'a Read, hosts: &[usize], asked: &Question) -> Values<'a> {
    let mut all = Values::new();
    for (figure, on_hosts) in read.figures.iter().filter(|(figure, _)| is_wanted(figure, asked)) {
        for one in on_hosts.iter().filter(|one| hosts.contains(&one.host)) {
            if let Ok(interval) = &one.figure {
                let node = read.hosts[one.host].node.clone();
                all.entry(figure).or_default().insert(node, OnHost::of(interval));
            }
        }
    }
    all
}

fn compared(
    [before, after]: [String; 2],
    [hosts_before, hosts_after]: [usize; 2],
    by: By,
    a: &Values,
    b: &Values,
) -> Compared {
    let both: Vec<&Figure> = a.keys().filter(|figure| b.contains_key(*figure)).copied().collect();
    let level = 1.0 - (1.0 - LEVEL) / both.len().max(1) as f64;
    let change = |figure: &Figure| {
        let (before, after) = (&a[figure], &b[figure]);
        let (hosts, change): ([usize; 2], Estimate) = match by {
            By::Host => {
                let pairs: Vec<(OnHost, OnHost)> = before
                    .iter()
                    .filter_map(|(node, before)| Some((*before, *after.get(node)?)))
                    .collect();
                ([pairs.len(); 2], same_hosts(&pairs, level))
            }
            By::Group => {
                let all =
                    |group: &BTreeMap<String, OnHost>| group.values().copied().collect::<Vec<_>>();
                ([before.len(), after.len()], between_groups(&all(before), &all(after), level))
            }
        };
        let [hosts_before, hosts_after] = hosts;
        Change {
            name: names::name(figure),
            hosts_before,
            hosts_after,
            change: Finding::new(&change, MARGIN),
        }
    };
    let changes = both.into_iter().map(change).collect();
    let one_machine = false;
    Compared {
        before,
        after,
        by,
        one_machine,
        hosts_before,
        hosts_after,
        changes,
        confidence: LEVEL,
        level,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_begin_at_their_points() {
        assert!(begins("6.1.0-18", "6.1") && begins("6.1", "6.1") && begins("Intel Xeon", "Intel"));
        assert!(!begins("6.12.0", "6.1") && !begins("5.6.1", "6.1"));
    }
}
