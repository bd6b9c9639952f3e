//! Where each role ran: packages, last-level caches, cores and CPUs as boxes.

use std::collections::BTreeMap;

use maud::{Markup, html};
use ringfence_experiment::plan::Plan;
use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::topology::Topology;

use crate::html::{Digest, Section};
use crate::text::clean;

/// Cores without any role are left out from this many on.
const MANY_CORES: usize = 48;

type Roles = BTreeMap<CpuId, Vec<String>>;

/// A drawing for each placement that occurred.
pub(crate) fn section(digests: &[&Digest]) -> Option<Section> {
    let mut placements: Vec<(Roles, &Digest, Vec<&str>)> = Vec::new();
    for digest in digests {
        let roles = roles(&digest.findings.plan);
        match placements.iter_mut().find(|(known, ..)| *known == roles) {
            Some((_, _, names)) => names.push(&digest.findings.plan.experiment.name),
            None => placements.push((roles, digest, vec![&digest.findings.plan.experiment.name])),
        }
    }
    placements.retain(|(roles, digest, _)| !roles.is_empty() && digest.machine.is_some());
    if placements.is_empty() {
        return None;
    }
    let several = placements.len() > 1;
    let body = html! {
        @for (roles, digest, names) in &placements {
            @if several { h3 { (names.join(", ")) } }
            @for note in &digest.findings.plan.placed.notes { p { (clean(note)) } }
            @if let Some(machine) = &digest.machine { (drawing(&machine.topology, roles)) }
        }
        p class="note" { "As the kernel tells it; in a virtual machine that need not be so." }
    };
    Some(Section { id: "placement", title: "Where each task ran".into(), body })
}

// Each CPU that a role may use, with all roles that may use it.
fn roles(plan: &Plan) -> Roles {
    let mut roles = Roles::new();
    let asks =
        |role: usize| plan.variants[role].iter().any(|variant| variant.task.asks_a_service());
    for (number, (role, cpus)) in plan.experiment.roles.iter().zip(&plan.placed.cpus).enumerate() {
        for instance in 0..cpus.len() {
            let name = clean(&role.name);
            let name = if cpus.len() > 1 { format!("{name} {instance}") } else { name };
            // The service itself is where it was before.
            let name = if asks(number) { format!("probe of {name}") } else { name };
            for cpu in plan.home(number, instance as u32).iter() {
                roles.entry(cpu).or_default().push(name.clone());
            }
        }
    }
    roles
}

fn drawing(topology: &Topology, roles: &Roles) -> Markup {
    let packages: Vec<(String, CpuSet)> = match topology.packages.len() {
        0 => vec![("all CPUs".into(), topology.online.clone())],
        _ => topology
            .packages
            .iter()
            .map(|p| (format!("package {}", p.id), p.cpus.clone()))
            .collect(),
    };
    html! {
        div class="topology" {
            @for (name, cpus) in &packages {
                div class="package" {
                    span class="label" { (name) }
                    div class="inside" {
                        @for group in groups(topology, cpus) { (llc(topology, &group, roles)) }
                    }
                }
            }
        }
    }
}

// The last-level caches of a package; CPUs of which none is known are one more group.
fn groups(topology: &Topology, cpus: &CpuSet) -> Vec<CpuSet> {
    let mut groups: Vec<CpuSet> = topology
        .llc_groups()
        .iter()
        .map(|group| group.intersection(cpus))
        .filter(|group| group.first().is_some())
        .collect();
    let rest = groups.iter().fold(cpus.clone(), |rest, group| rest.difference(group));
    if rest.first().is_some() {
        groups.push(rest);
    }
    groups
}

fn llc(topology: &Topology, cpus: &CpuSet, roles: &Roles) -> Markup {
    let cache = cpus.first().and_then(|cpu| topology.llc(cpu));
    let name = cache.map_or("no last-level cache known".into(), |cache| {
        format!("{}{}", cache.name(), cache.size.map_or(String::new(), |size| format!(" {size}")))
    });
    let node =
        cpus.first().and_then(|cpu| topology.node_of(cpu)).filter(|_| topology.nodes.len() > 1);
    let mut cores: Vec<CpuSet> = Vec::new();
    for cpu in cpus.iter() {
        let core = topology
            .core_of(cpu)
            .map_or_else(|| [cpu].into_iter().collect(), |core| core.cpus.clone());
        if !cores.contains(&core) {
            cores.push(core);
        }
    }
    let all = cores.len();
    if all > MANY_CORES {
        cores.retain(|core| core.iter().any(|cpu| roles.contains_key(&cpu)));
    }
    let left_out = all - cores.len();
    html! {
        div class="llc" {
            span class="label" { (name) @if let Some(node) = node { ", node " (node) } }
            div class="inside" {
                @for core in &cores {
                    div class="core" {
                        @for cpu in core.iter() {
                            @let here = roles.get(&cpu).map_or(&[][..], Vec::as_slice);
                            div class={ "cpu" @if !here.is_empty() { " used" } }
                                data-role=[kind_of(here)]
                                title={ "CPU " (cpu) }
                            {
                                span class="number" { (cpu) }
                                @for role in here { span class="role" { (role) } }
                            }
                        }
                    }
                }
                @if left_out > 0 { span class="note" { (left_out) " idle cores" } }
            }
        }
    }
}

// The kind that gives a box its colour: that of all roles that run there, if they are of one kind.
fn kind_of(roles: &[String]) -> Option<&'static str> {
    let (first, others) = roles.split_first()?;
    let kind_of_first = kind(first);
    Some(if others.iter().all(|role| kind(role) == kind_of_first) {
        kind_of_first
    } else {
        "other"
    })
}

fn kind(role: &str) -> &'static str {
    if role.starts_with("victim") {
        "victim"
    } else if role.starts_with("aggressor") || role.starts_with("writer") {
        "aggressor"
    } else {
        "other"
    }
}

#[cfg(test)]
mod tests {
    use ringfence_experiment::Experiment;
    use ringfence_machine::fixtures;

    use super::*;

    // The text of each CPU's box, and whose colour it has.
    fn boxes(roles: &str) -> Vec<(String, Option<String>)> {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n{roles}[[arm]]\nname = 'alone'\nactive = \
             ['victim']\n\
             [[arm]]\nname = 'beside'\nactive = ['victim', 'aggressor']\nbaseline = 'alone'\n"
        );
        let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
        let plan = Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap();
        let drawn = drawing(&topology, &super::roles(&plan)).into_string();
        let of_box = |text: &str| {
            let attribute = text
                .split_once("data-role=\"")
                .map(|(_, rest)| rest.split('"').next().unwrap().into());
            let inside: Vec<&str> = text.split("<span class=\"role\">").skip(1).collect();
            let names: Vec<&str> =
                inside.iter().map(|role| role.split('<').next().unwrap()).collect();
            (names.join(" "), attribute)
        };
        drawn.split("<div class=\"cpu").skip(1).map(of_box).collect()
    }

    fn role(name: &str, task: &str, cpus: &str) -> String {
        format!("[[role]]\nname = '{name}'\ntask = {task}\ncpus = '{cpus}'\n")
    }

    #[test]
    fn whoever_shares_a_cpu_stands_there_together() {
        let alu = "{ workload = 'alu' }";
        let apart = boxes(&(role("victim", alu, "0") + &role("aggressor", alu, "1")));
        let one = |name: &str| (name.to_owned(), Some(name.to_owned()));
        assert_eq!(apart, [one("victim"), one("aggressor")]);
        let shared = boxes(&(role("victim", alu, "0") + &role("aggressor", alu, "0")));
        assert_eq!(
            shared,
            [("victim aggressor".into(), Some("other".into())), (String::new(), None)]
        );
    }

    #[test]
    fn a_program_stands_on_all_its_cpus() {
        let program = "{ workload = 'command', run = 'x', unit = 'lines' }";
        let wide = boxes(
            &(role("victim", "{ workload = 'alu' }", "0") + &role("aggressor", program, "0-1")),
        );
        assert_eq!(wide[0].0, "victim aggressor");
        assert_eq!(wide[1].0, "aggressor");
    }

    #[test]
    fn a_probe_is_not_the_service_that_it_asks() {
        let probe = "{ workload = 'probe', ask = 'tcp://localhost:1', send = 'x' }";
        let asked =
            boxes(&(role("victim", probe, "0") + &role("aggressor", "{ workload = 'alu' }", "1")));
        assert_eq!(asked[0], ("probe of victim".into(), Some("other".into())));
    }
}
