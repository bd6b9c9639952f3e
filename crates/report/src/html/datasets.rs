//! Pages of datasets: of one, of several, and of an answer that rests on several.

use ringfence_machine::Machine;

use crate::aa::page as aa;
use crate::commits::{page as commits, stalls};
use crate::doctor::page as doctor;
use crate::experiment::page as experiment;
use crate::experiment::page::{costs, not_run, on_disk, placement, slowdowns, timeline};
use crate::html::answer;
use crate::html::{Answer, Digest, Group, Page, Section};
use crate::latencies::{page as latencies, quantiles};
use crate::numbers;
use crate::survey::text::describe;

/// The page of one dataset, or of several that are not a survey, each under its name.
pub fn datasets(digests: &[Digest]) -> Page {
    let all: Vec<&Digest> = digests.iter().collect();
    let several = digests.len() > 1;
    let groups = digests
        .iter()
        .map(|digest| Group {
            title: several.then(|| digest.folder.clone()),
            sections: sections(digest, several),
        })
        .collect();
    let answer = match digests {
        [one] => answer::of_dataset(one),
        _ => Answer {
            question: format!("{} datasets", digests.len()),
            headline: "What each of them says:".into(),
            sentences: digests
                .iter()
                .map(|digest| {
                    let one = answer::of_dataset(digest);
                    format!("{}: {} {}", digest.folder, one.question, one.headline)
                })
                .collect(),
            ..Answer::default()
        },
    };
    let title = match digests {
        [one] if one.findings.sensitivity.is_some() => "Sensitivity".into(),
        [one] => one.findings.plan.experiment.name.clone(),
        _ => "datasets".into(),
    };
    let machine = digests.iter().find_map(|digest| digest.machine.as_ref());
    let footer = provenance(&all);
    let simulated = simulated(digests.iter());
    Page { title, subtitle: subtitle(machine, digests.first()), answer, groups, footer, simulated }
}

/// The page of an answer that rests on several datasets, and each of these.
pub(crate) fn with_datasets(
    title: &str,
    answer: Answer,
    first: Option<Section>,
    digests: &[Digest],
) -> Page {
    let all: Vec<&Digest> = digests.iter().collect();
    let mut groups = vec![Group { title: None, sections: first.into_iter().collect() }];
    groups.extend(digests.iter().map(|digest| {
        Group {
            title: Some(
                digest
                    .findings
                    .plan
                    .experiment
                    .question
                    .clone()
                    .unwrap_or_else(|| digest.folder.clone()),
            ),
            sections: sections(digest, true),
        }
    }));
    let machine = digests.iter().find_map(|digest| digest.machine.as_ref());
    Page {
        title: title.into(),
        subtitle: subtitle(machine, digests.first()),
        answer,
        groups,
        footer: provenance(&all),
        simulated: simulated(digests.iter()),
    }
}

fn sections(digest: &Digest, several: bool) -> Vec<Section> {
    let one = [digest];
    let findings = digest.machine.as_ref().map(|machine| machine.findings.as_slice());
    // A polluter writes to fill the cache; its efficiency is not of interest.
    let curves = digest
        .findings
        .sensitivity
        .as_ref()
        .and_then(|found| crate::sensitivity::page::section(found, digest));
    let frontier = crate::experiment::page::frontier::section(&digest.findings.frontier)
        .filter(|_| digest.findings.sensitivity.is_none());
    let all = [
        // The page of one dataset has it on its first screen, or says there why it has none.
        // Among several datasets, a single method has nothing to be compared with.
        frontier.filter(|_| {
            if several {
                digest.findings.frontier.points.len() > 1
            } else {
                digest.findings.frontier.victim.is_none()
            }
        }),
        curves.filter(|_| several),
        aa::section(digest, !several),
        slowdowns::section(&digest.findings.plan, &digest.findings.results),
        quantiles::section(&one),
        costs::section(&digest.findings.plan, &digest.findings.results),
        on_disk::section(digest),
        commits::section(&one),
        stalls::section(&one),
        timeline::section(&one),
        latencies::section(digest),
        placement::section(&one),
        not_run::said(&digest.manifest.said),
        not_run::section(&not_run::lines(&digest.findings.plan)),
        findings.map(doctor::section),
        Some(experiment::section(&one)),
    ];
    all.into_iter().flatten().collect()
}

pub(crate) fn simulated<'a>(mut digests: impl Iterator<Item = &'a Digest>) -> bool {
    digests.any(|digest| digest.findings.simulated)
}

pub(crate) fn subtitle(machine: Option<&Machine>, first: Option<&Digest>) -> String {
    let when = first.map(|digest| digest.manifest.created.replacen('T', " ", 1));
    let parts = [machine.map(describe), when];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

pub(crate) fn provenance(digests: &[&Digest]) -> Vec<String> {
    if digests.is_empty() {
        return Vec::new();
    }
    let samples: usize = digests.iter().map(|digest| digest.findings.samples).sum();
    let manifest = digests.first().map(|digest| &digest.manifest);
    let who = manifest.map_or(String::new(), |manifest| {
        let how = if simulated(digests.iter().copied()) { "Simulated" } else { "Measured" };
        format!("{how} by {} {}, seed {}; ", manifest.program, manifest.version, manifest.seed)
    });
    let datasets = crate::text::plural(digests.len(), "dataset");
    vec![format!("{who}{} samples in {datasets}.", numbers::count(samples as u64))]
}
